/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void once__assert_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "once: assertion failed at %s:%d: %s\n", file, line, what);
    abort();
}
