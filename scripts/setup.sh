#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what Debian 12 lacks: `setup.sh build` for building Once, `setup.sh gateway` also for the nginx
# module, `setup.sh` also for testing and proving it. Quiet when nothing is missing.
set -euo pipefail

packages=(
    build-essential meson ninja-build pkg-config   # build
    libcmocka-dev                                  # the tests are built with everything else
    libssl-dev                                     # SHA-256 (libcrypto)
    libxxhash-dev                                  # checks, and the index's hash
    libuv1-dev libjansson-dev                      # the server: loop, JSON,
    libmicrohttpd-dev libgnutls28-dev              # HTTP and TLS
    libcurl4-gnutls-dev                            # HTTP calls (once-http, once call)
    libpq-dev                                      # once serve --store postgres://…
    libsqlite3-dev                                 # hosts/sqlite
)
gateway=(nginx nginx-dev)
case ${1:-all} in
build) ;;
gateway) packages+=("${gateway[@]}") ;;
all)
    packages+=(
        "${gateway[@]}"
        python3 python3-pytest python3-pytest-xdist locales  # tests
        clang clang-format libclang-rt-14-dev      # fuzzers, formatting
        frama-c-base why3 z3 cvc4 spin             # proof
        librocksdb-dev liblmdb-dev                 # the peers of the benchmarks
        postgresql haproxy sqlite3 python3-psycopg # hosts/postgres, hosts/sqlite, many servers on one store
        redis-server redis-tools python3-redis     # the server's tests and benchmarks: clients
        python3-requests python3-jsonschema curl gnutls-bin openssl
        nodejs golang-go golang-github-gomodule-redigo-dev
        default-jdk-headless maven
        chromium fonts-dejavu-core                 # the dashboard's tests and pictures
        bash zsh fish man-db groff-base mandoc     # completions and manual pages
        valgrind dpkg-dev libpcre2-dev zlib1g-dev  # the gateway's memory (scripts/nginx_asan.sh)
        wrk                                        # its benchmark
    )
    # Some packages of Node.js bring npm along and refuse another.
    command -v npm >/dev/null || packages+=(npm)
    ;;
*)
    echo "usage: setup.sh [build|gateway|all]" >&2
    exit 64
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    # Not Debian: say what is needed and let the build name what it does not find.
    [ -n "${ONCE_SETUP_QUIET:-}" ] || cat >&2 <<'TEXT'
setup: this is not Debian, so nothing is installed here. Once needs:
  to build:  a C11 compiler, meson >= 1.0, ninja, pkg-config, OpenSSL >= 3.0 (libcrypto), xxHash >= 0.8,
             libuv, libmicrohttpd >= 0.9.71, GnuTLS >= 3.7, jansson, libcurl >= 7.85, libpq >= 14, SQLite >= 3.38
  gateway:   nginx >= 1.22 and its source tree, PCRE2, zlib (hosts/nginx/build.sh TARGET.so SOURCE)
  to test:   cmocka, Python 3 with pytest, redis and requests, Redis 7, Node.js with npm, Go with
             redigo, a JDK with Maven, PostgreSQL >= 13, psycopg 3, the sqlite3 shell, HAProxy,
             Chromium, zsh, fish, man, groff, mandoc, valgrind, clang with libFuzzer, clang-format 14
  to bench:  RocksDB, LMDB, PostgreSQL >= 13, Redis 7, wrk
  to prove:  Frama-C 25 with WP, why3, Z3, CVC4, Spin
Set ONCE_SETUP_QUIET=1 to silence this.
TEXT
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: these packages are missing and neither root nor sudo is here: ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
policy=/usr/sbin/policy-rc.d
undo() {
    rm -f "$log"
    [ -z "${made_policy:-}" ] || "${as_root[@]}" rm -f "$policy"
}
trap undo EXIT
# Debian starts what it installs: an nginx on port 80, now and with every start of the machine. Ours are
# there to be run by hand. One that was installed before stays as it is.
quiet=()
for service in nginx haproxy; do
    [[ " ${missing[*]} " != *" $service "* ]] || quiet+=("$service")
done
if [ ${#quiet[@]} -gt 0 ] && [ ! -e "$policy" ]; then
    made_policy=yes
    {
        echo '#!/bin/sh'
        for service in "${quiet[@]}"; do
            echo "case \$1 in $service|$service.service) exit 101 ;; esac"
        done
    } | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -q &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: could not install ${missing[*]}" >&2
    exit 1
fi
for service in "${quiet[@]}"; do
    "${as_root[@]}" update-rc.d "$service" disable >/dev/null 2>&1 || true
done
