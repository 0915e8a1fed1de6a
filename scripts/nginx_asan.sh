#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nginx as Debian's source package has it, built with AddressSanitizer and UndefinedBehaviorSanitizer,
# and the module for it: build/nginx-asan/nginx, build/nginx-asan/module.so. Every allocation of nginx's
# pools is one of its own there (NGX_DEBUG_PALLOC), so that a byte too many is seen. What a run reports
# goes to build/nginx-asan/reports: a clean one leaves that folder empty.
#
#     scripts/nginx_asan.sh
#     ONCE_NGINX=$PWD/build/nginx-asan/nginx ONCE_NGINX_MODULE=$PWD/build/nginx-asan/module.so pytest …
#
# The source is fetched once, with apt's own keys and the machine's own mirrors; nothing of the machine's
# lists is changed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=$root/build/nginx-asan
source=$target/source
reports=$target/reports
mkdir -p "$target" "$reports"
exec 9>"$target/lock"
flock 9

# ---- The source --------------------------------------------------------------------------------------

# The machine's binary mirrors, as mirrors of source, in files of our own.
source_lists() {
    local found
    rm -rf "$target/apt"
    mkdir -p "$target/apt/lists/partial" "$target/apt/parts"
    for found in /etc/apt/sources.list.d/*.sources; do
        [ ! -f "$found" ] || sed 's/^Types:.*/Types: deb-src/' "$found" >"$target/apt/parts/${found##*/}"
    done
    for found in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -f "$found" ] || sed -n 's/^deb[[:space:]]/deb-src /p' "$found" >"$target/apt/parts/old-${found##*/}"
    done
}

fetch() {
    local apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$target/apt/parts"
        -o "Dir::State::lists=$target/apt/lists" -o APT::Sandbox::User=root)
    rm -rf "$target/fetched" "$source.new" && mkdir "$target/fetched" && source_lists || return 1
    "${apt[@]}" update || true # another mirror may have no source
    (cd "$target/fetched" && "${apt[@]}" --download-only source nginx) &&
        # With Debian's patches.
        dpkg-source --no-check --no-copy --extract "$target"/fetched/nginx_*.dsc "$source.new" &&
        rm -rf "$source" "$target/apt" && mv "$source.new" "$source"
}

[ -x "$source/configure" ] || fetch >"$target/fetch.log" 2>&1 ||
    { tail -n 20 "$target/fetch.log" >&2; echo "nginx_asan: the source of nginx could not be fetched" >&2; exit 1; }

# ---- nginx -------------------------------------------------------------------------------------------

# Built into it, because an nginx that replaces itself clears its environment. Leaks are looked for at
# the end of each process.
options=$target/options.c
write_options() {
    cat <<C
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__lsan_default_suppressions(void);
int __lsan_is_turned_off(void);
extern unsigned long ngx_process __attribute__((weak)); /* configure links programs without it */
const char *__asan_default_options(void)
{
    return "log_path=$reports/report:detect_stack_use_after_return=1:strict_string_checks=1:"
           "check_initialization_order=1:detect_leaks=1:exitcode=99:print_suppressions=0:fast_unwind_on_malloc=0";
}
const char *__ubsan_default_options(void)
{
    return "log_path=$reports/report:print_stacktrace=1";
}
/* nginx's own: a process that ends frees the pool through which its arrays of connections and events are
 * found, but not those; nor what PCRE2 keeps for compiling expressions, nor the sessions of TLS that are kept for
 * another connection to an upstream. */
const char *__lsan_default_suppressions(void)
{
    return "leak:ngx_event_process_init\nleak:ngx_regex_compile\nleak:ngx_ssl_handshake\n";
}
/* nginx's own, too: one that only checks a configuration, or refuses it, ends without freeing any. Such a one is
 * neither master (1) nor worker (3). */
int __lsan_is_turned_off(void)
{
    return !&ngx_process || (ngx_process != 1 && ngx_process != 3);
}
C
}

sanitize="-fsanitize=address,undefined -fno-omit-frame-pointer"
# What nginx itself does on purpose, or harmlessly: numbers read at odd addresses where the processor can,
# empty memory copied from nowhere, pointers moved past an end that is never reached, and shifts into the
# sign. The module is built without these exceptions.
own="-fno-sanitize=alignment,nonnull-attribute,pointer-overflow,shift"
flags=(--with-compat --with-debug --with-threads --with-pcre-jit --with-http_ssl_module --with-http_v2_module
    --with-http_auth_request_module --with-http_realip_module --with-http_stub_status_module
    --with-http_sub_module --with-http_addition_module --with-http_gunzip_module --with-http_slice_module)

build() {
    cc -O1 -g -c "$options" -o "$target/options.o" &&
        cd "$source" && rm -rf objs &&
        ./configure "${flags[@]}" --prefix="$target" --error-log-path=stderr --http-log-path="$target/access.log" \
            --with-cc-opt="-O1 -g $sanitize $own -fno-sanitize-recover=undefined -DNGX_DEBUG_PALLOC=1 -DNGX_DEBUG_MALLOC=1" \
            --with-ld-opt="$sanitize -Wl,-E $target/options.o" &&
        make -s -j "$(nproc)" -f objs/Makefile binary && mv objs/nginx "$target/nginx" && rm -rf objs && cd "$root"
}

write_options >"$options.new"
printf 'NGX_CONF_FLAGS=(%s)\n' "${flags[*]}" >"$target/conf_flags.new"
made_of=$(sha256sum "$options.new" "$target/conf_flags.new" "$source/configure" "$0"; cc --version)
if [ ! -x "$target/nginx" ] || [ "$made_of" != "$(cat "$target/made_of" 2>/dev/null)" ]; then
    mv "$options.new" "$options"
    mv "$target/conf_flags.new" "$source/conf_flags"
    build >"$target/build.log" 2>&1 || { tail -n 20 "$target/build.log" >&2; exit 1; }
    printf '%s\n' "$made_of" >"$target/made_of"
fi
rm -f "$options.new" "$target/conf_flags.new"

# ---- The module --------------------------------------------------------------------------------------

ONCE_CFLAGS="-O1 $sanitize -fno-sanitize-recover=undefined" ONCE_LDFLAGS=$sanitize \
    hosts/nginx/build.sh "$target/module.so" "$source"
