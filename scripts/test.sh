#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must hold before a change lands. Long runs are in `make soak`.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/steps.sh
PYTHON=${PYTHON:-/usr/bin/python3}
export ONCE_BIN=$PWD/build/once ONCE_PLUGINS=$PWD/build/release/examples/laws
# The programs in C that the tests of PostgreSQL run, the store itself among them: with address and undefined.
export ONCE_TEST_PROGRAMS=$PWD/build/sanitized/tests/conformance

# Most of them wait most of the time: three files at once, and then those that look at the clock.
alone=(tests/e2e/test_million.py tests/e2e/test_dashboard.py)

end_to_end() {
    "$PYTHON" -m pytest -q -p no:cacheprovider -n 3 --dist loadfile "${alone[@]/#/--ignore=}" tests/e2e
}

end_to_end_alone() {
    "$PYTHON" -m pytest -q -p no:cacheprovider "${alone[@]}"
}

benchmarks() {
    "$PYTHON" bench/run.py --quick
}

show "make check" scripts/check.sh
show "end to end" end_to_end
show "end to end, one at a time" end_to_end_alone
step "fuzzers, 3 s each" env FUZZ_SECONDS=3 scripts/fuzz.sh
step "bench runs" benchmarks
show "proof" "$PYTHON" proof/prove.py
show "mistakes are refuted (all: make proof)" "$PYTHON" proof/mistakes.py --every 8
show "models" proof/spin/run
finish
