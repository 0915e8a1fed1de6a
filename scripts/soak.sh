#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long runs: every fuzzer for FUZZ_SECONDS (60 unless said), property tests over many seeds.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh

# The property tests again, each time with another seed. The seed of a failure is printed.
seeds() {
    meson setup build/sanitized -Db_sanitize=address,undefined -Db_lundef=false >/dev/null 2>&1
    ninja -C build/sanitized >/dev/null || return 1
    for seed in $(seq 1 "${SOAK_SEEDS:-50}"); do
        ONCE_SEED=$seed meson test -C build/sanitized --no-rebuild --suite unit \
            --print-errorlogs >build/soak.log 2>&1 || { cat build/soak.log; echo "failed: ONCE_SEED=$seed make check"; return 1; }
    done
}

show "fuzzers" scripts/fuzz.sh
step "property tests, ${SOAK_SEEDS:-50} seeds" seeds
finish
