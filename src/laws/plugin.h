/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a user's merge, handed over as a shared object (once/laws_plugin.h).
 */
#ifndef ONCE__LAWS_PLUGIN_H
#define ONCE__LAWS_PLUGIN_H

#include "laws/laws.h"

enum { ONCE__PLUGIN_LAW_COUNT = ONCE__LAW_ASSOCIATIVE + 1, ONCE__PLUGIN_MESSAGE_SIZE = 2048 };

/* NOT_LOADED: no such file, no shared object, a function is missing. BROKEN: it did something else
 * than answer; the message says what, in which call, with which arguments. */
enum once__plugin_status {
    ONCE__PLUGIN_CHECKED, /* findings say what was found */
    ONCE__PLUGIN_NOT_LOADED,
    ONCE__PLUGIN_BROKEN
};

struct once__plugin_report {
    enum once__plugin_status status;
    char message[ONCE__PLUGIN_MESSAGE_SIZE];
    uint64_t small; /* states tried in every combination */
    uint64_t large; /* and random ones below */
    struct once__law_finding findings[ONCE__PLUGIN_LAW_COUNT];
};

struct once__plugin_options {
    struct once__effort effort;
    unsigned timeout_ms; /* for everything together */
};

/* Runs the plugin in a process of its own. A path without a slash is a file in the working
 * directory, not a library of the system. ONCE_ERR_MEMORY. */
ONCE_MUST_CHECK int once__plugin_check(const char *path, const struct once__plugin_options *options,
                                       struct once__plugin_report *ret_report);

#endif
