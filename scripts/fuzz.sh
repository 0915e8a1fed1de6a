#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzzer for FUZZ_SECONDS (60), first over its corpus, one on each processor. A crash leaves its input in
# build/fuzz/crashes.
set -uo pipefail
cd "$(dirname "$0")/.."
export seconds=${FUZZ_SECONDS:-60} folder=build/fuzz

[ -f $folder/build.ninja ] ||
    CC=clang meson setup $folder -Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false ||
    exit 1
ninja -C $folder --quiet || exit 1

run_one() {
    local name=$1 work=$folder/corpus/$1
    mkdir -p "$work" $folder/crashes
    # libFuzzer keeps what it finds in the first folder; the corpus in the tree is only read.
    if "$folder/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 \
        -max_len=65536 -artifact_prefix=$folder/crashes/"$name"- -print_final_stats=1 \
        "$work" "tests/fuzz/corpus/${name#fuzz_}" >$folder/"$name".log 2>&1; then
        echo "ok      $name: $(sed -n 's/^stat::number_of_executed_units: *//p' $folder/"$name".log) runs in $seconds s"
    else
        echo "FAILED  $name
$(tail -n 40 $folder/"$name".log)
replay: $folder/tests/fuzz/$name $folder/crashes/$name-…"
        return 1
    fi
}
export -f run_one

names=$(for source in tests/fuzz/fuzz_*.c; do basename "$source" .c; done)
[ -n "$names" ] && xargs -P "$(nproc)" -I{} bash -c 'run_one {}' <<<"$names"
