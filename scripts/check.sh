#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Style, layering, warnings of two compilers, and the unit and conformance tests under sanitizers.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
PYTHON=${PYTHON:-/usr/bin/python3}

formatting() {
    find include src hosts tests bench examples proof -name '*.[ch]' | xargs clang-format --dry-run -Werror
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

sanitized() {
    configure build/sanitized -Db_sanitize=address,undefined -Db_lundef=false &&
        ninja -C build/sanitized &&
        ONCE_POWER_CUTS=4000 ONCE_APPLY_CUTS=3000 meson test -C build/sanitized --no-rebuild --print-errorlogs
}

threads() {
    configure build/threads -Db_sanitize=thread -Db_lundef=false &&
        ninja -C build/threads build.ninja &&
        ninja -C build/threads $("$PYTHON" scripts/suite_targets.py build/threads threads) &&
        TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp \
            meson test -C build/threads --no-rebuild --print-errorlogs --suite threads
}

released() {
    configure build/release --buildtype=release &&
        ninja -C build/release &&
        meson test -C build/release --no-rebuild --print-errorlogs
}

step "formatting" formatting
step "layering" "$PYTHON" scripts/check_layers.py
step "warnings: clang, and the fuzzers" clang_warnings
step "as shipped: unit, conformance, power, kill" released
step "address, undefined: the same" sanitized
step "thread: what has threads" threads
finish
