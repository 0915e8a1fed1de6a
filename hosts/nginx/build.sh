#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the nginx module: build.sh TARGET.so [SOURCE], where SOURCE is nginx's own source tree
# (default: that of Debian's package nginx-dev). The module fits the nginx whose source it was built
# with. What did not change is not built again; the target is replaced in one step, so an nginx that
# has it loaded goes on. CC, ONCE_CFLAGS, ONCE_LDFLAGS: another compiler, more flags (sanitizers).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${1:?usage: build.sh TARGET.so [SOURCE]}")
source=${2:-/usr/share/nginx/src}
work=$target.work

if [ ! -x "$source/configure" ]; then
    echo "build.sh: $source is no source tree of nginx; install nginx-dev (scripts/setup.sh gateway)" >&2
    exit 1
fi
mkdir -p "$work"
exec 9>"$work/lock"
flock 9

flags=(-std=gnu11 -O2 -g -fPIC -fstack-protector-strong -fno-strict-overflow)
warnings=(-Wall -Wextra -Wshadow -Wsign-conversion -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wvla -Wundef -Wformat=2 -Wswitch-enum -Wimplicit-fallthrough
    -Wpointer-arith -Werror)
read -ra more <<<"${ONCE_CFLAGS:-}"
read -ra more_link <<<"${ONCE_LDFLAGS:-}"

# ---- Of the core: keys, fingerprints, outcomes, answers; compiled in ----

parts=(base/assert base/buf base/bytes base/err base/random base/sha256 base/uuid core/key
    core/key_header core/fingerprint core/json_canon core/json_number core/json_string core/outcome
    core/verdict client/client_answer)
objects=("${parts[@]/#*\//$work/}")
objects=("${objects[@]/%/.o}")

# Is the object older than one of the files that it was made of, as the compiler noted them?
is_old() {
    local file
    [ -f "$1.o" ] && [ -f "$1.d" ] || return 0
    for file in $(sed 's/^[^:]*://; s/\\$//' "$1.d"); do
        [ -e "$file" ] && [ ! "$file" -nt "$1.o" ] || return 0
    done
    return 1
}

# ---- nginx's own configure, once for each nginx and set of flags ----

made_of=$(
    printf '%s\n' "${CC:-cc}" "${flags[@]}" "${more[@]}" / "${more_link[@]}" "$root" "$source"
    sha256sum "$here/config" "$here/build.sh" "$source/src/core/nginx.h" "$source/configure"
    [ ! -f "$source/conf_flags" ] || sha256sum "$source/conf_flags"
)
if [ ! -f "$work/nginx/objs/Makefile" ] || [ "$made_of" != "$(cat "$work/made_of" 2>/dev/null)" ]; then
    rm -rf "$work/nginx" "$work"/*.[od]
    cp -r "$source" "$work/nginx"
    cd "$work/nginx"
    NGX_CONF_FLAGS=(--with-compat)
    # shellcheck disable=SC1091
    [ ! -f conf_flags ] || . ./conf_flags
    # No warnings here: configure takes a failed compilation for a thing that is missing.
    ONCE_ROOT=$root ONCE_LIBS="${objects[*]}" \
        ./configure "${NGX_CONF_FLAGS[@]}" --with-cc-opt="${flags[*]} ${more[*]}" \
        --with-ld-opt="-Wl,-z,relro -Wl,-z,now ${more_link[*]}" \
        --add-dynamic-module="$here" >"$work/configure.log" 2>&1 ||
        { tail -n 20 "$work/configure.log" >&2; exit 1; }
    printf '%s\n' "$made_of" >"$work/made_of"
fi
cd "$work/nginx"

for part in "${parts[@]}"; do
    name=$work/$(basename "$part")
    is_old "$name" || continue
    "${CC:-cc}" "${flags[@]}" "${warnings[@]}" "${more[@]}" -D_GNU_SOURCE -I"$root/include" \
        -I"$root/src" -include "$root/src/base/banned.h" -MMD -MF "$name.d" \
        -c "$root/src/$part.c" -o "$name.o"
    rm -f objs/ngx_http_once_module.so
done

# ---- The module; our warnings, but not for nginx's headers ----

system=(src/core src/event src/event/modules src/os/unix src/http src/http/modules src/http/v2 objs)
make -s -f objs/Makefile modules \
    CFLAGS="-pipe ${flags[*]} ${warnings[*]} ${more[*]} ${system[*]/#/-isystem }"
if ! cmp -s objs/ngx_http_once_module.so "$target"; then
    cp objs/ngx_http_once_module.so "$target.new"
    mv "$target.new" "$target"
fi
