# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh, check.sh and soak.sh: runs named steps, shows the output of those that fail,
# and closes with the count. A step that fails does not stop the others.
steps_passed=0
steps_failed=0
steps_log=$(mktemp)
trap 'rm -f "$steps_log"' EXIT

# step NAME COMMAND…: quiet unless it fails.
step() {
    local name=$1 started=$SECONDS
    shift
    if "$@" >"$steps_log" 2>&1; then
        steps_passed=$((steps_passed + 1))
        printf 'ok      %-44s %4d s\n' "$name" $((SECONDS - started))
    else
        steps_failed=$((steps_failed + 1))
        printf 'FAILED  %-44s %4d s\n' "$name" $((SECONDS - started))
        sed 's/^/    /' "$steps_log" | tail -n 200
    fi
}

# show NAME COMMAND…: the same, and its output is shown as it comes.
show() {
    local name=$1 started=$SECONDS
    shift
    if "$@"; then
        steps_passed=$((steps_passed + 1))
        printf 'ok      %-44s %4d s\n' "$name" $((SECONDS - started))
    else
        steps_failed=$((steps_failed + 1))
        printf 'FAILED  %-44s %4d s\n' "$name" $((SECONDS - started))
    fi
}

finish() {
    printf '%d passed, %d failed\n' "$steps_passed" "$steps_failed"
    [ "$steps_failed" -eq 0 ] && [ "$steps_passed" -gt 0 ]
}
