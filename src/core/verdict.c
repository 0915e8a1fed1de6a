/* SPDX-License-Identifier: Apache-2.0 */
#include <once/verdict.h>

const char *once_word_name(enum once_word word)
{
    switch (word) {
    case ONCE_EXECUTE:
        return "EXECUTE";
    case ONCE_REPLAY:
        return "REPLAY";
    case ONCE_BUSY:
        return "BUSY";
    case ONCE_MISMATCH:
        return "MISMATCH";
    case ONCE_DOUBT:
        return "DOUBT";
    case ONCE_TOO_OLD:
        return "TOO_OLD";
    case ONCE_DONE:
        return "OK";
    case ONCE_STALE:
        return "STALE";
    case ONCE_NOTFOUND:
        return "NOTFOUND";
    case ONCE_APPLIED:
        return "APPLIED";
    case ONCE_REJECTED:
        return "REJECTED";
    }
    return "UNKNOWN";
}

const char *once_state_name(enum once_state state)
{
    switch (state) {
    case ONCE_STATE_ABSENT:
        return "absent";
    case ONCE_STATE_STARTED:
        return "started";
    case ONCE_STATE_COMPLETED:
        return "completed";
    case ONCE_STATE_FAILED:
        return "failed";
    case ONCE_STATE_DOUBT:
        return "doubt";
    }
    return "unknown";
}
