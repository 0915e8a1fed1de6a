/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the extension adds, as data: lite_functions.c.
 */
#ifndef ONCE_HOSTS_SQLITE_LITE_FUNCTIONS_H
#define ONCE_HOSTS_SQLITE_LITE_FUNCTIONS_H

#include <stddef.h>

#include "lite.h"

extern const struct once__lite_function once__lite_functions[];
extern const size_t once__lite_function_count;

#endif
