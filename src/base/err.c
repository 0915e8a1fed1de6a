/* SPDX-License-Identifier: Apache-2.0 */
#include <once/err.h>

const char *once_err_text(int err)
{
    switch (err) {
#define ERR_TEXT(name, number, text)                                                               \
    case number:                                                                                   \
        return text;
        ONCE_ERRORS(ERR_TEXT)
#undef ERR_TEXT
    default:
        return "an unknown error";
    }
}

const char *once_err_name(int err)
{
    switch (err) {
#define ERR_NAME(name, number, text)                                                               \
    case number:                                                                                   \
        return #name;
        ONCE_ERRORS(ERR_NAME)
#undef ERR_NAME
    default:
        return "ERR_UNKNOWN";
    }
}
