#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Style, layering, warnings of two compilers, and the unit and conformance tests under sanitizers.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
PYTHON=${PYTHON:-/usr/bin/python3}
# At -O1 the sanitizers' builds take half of the time and their tests a little longer; -g1 has the lines of a report.
quick=(-Doptimization=1 -Ddebug=false -Dc_args=-g1 -Db_lundef=false)

formatting() {
    find include src hosts tests bench examples proof -name '*.[ch]' |
        xargs -P "$(nproc)" -n 50 clang-format --dry-run -Werror
}

# configure FOLDER OPTION…: sets a build folder up once.
configure() {
    local folder=$1
    shift
    [ -f "$folder/build.ninja" ] || { rm -rf "$folder" && meson setup "$folder" "$@"; }
}

clang_warnings() {
    CC=clang configure build/fuzz -Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false &&
        ninja -C build/fuzz
}

released_build() {
    configure build/release --buildtype=release && ninja -C build/release
}

# What the tests need; what is shipped has its warnings in the other two builds.
sanitized_build() {
    configure build/sanitized -Db_sanitize=address,undefined "${quick[@]}" &&
        ninja -C build/sanitized build.ninja &&
        ninja -C build/sanitized $("$PYTHON" scripts/suite_targets.py build/sanitized)
}

threads_build() {
    configure build/threads -Db_sanitize=thread "${quick[@]}" &&
        ninja -C build/threads build.ninja &&
        ninja -C build/threads $("$PYTHON" scripts/suite_targets.py build/threads threads)
}

released() {
    meson test -C build/release --no-rebuild --print-errorlogs
}

sanitized() {
    ONCE_POWER_CUTS=4000 ONCE_APPLY_CUTS=3000 meson test -C build/sanitized --no-rebuild --print-errorlogs
}

threads() {
    TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp \
        meson test -C build/threads --no-rebuild --print-errorlogs --suite threads
}

step "formatting" formatting
step "layering" "$PYTHON" scripts/check_layers.py
step "warnings: clang, and the fuzzers" clang_warnings
step "warnings: gcc, as shipped" released_build
step "build: address, undefined" sanitized_build
step "build: thread" threads_build
step "as shipped: unit, conformance, power, kill" released
step "address, undefined: the same" sanitized
step "thread: what has threads" threads
finish
