/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of SQL functions, and what is wrong with them.
 *
 * SQLite converts whatever it is given to whatever is asked for: 'x' becomes 0, a blob becomes
 * text. Nothing here does: a value of another type is refused by the name of its argument. The one
 * exception is a whole number that came as a floating-point one, because JavaScript has no other.
 */
#include "lite.h"

#include <inttypes.h>
#include <stdio.h>

#include <once/key.h>

#include "object/view_text.h"

enum { TEXT_SIZE = 512 };

void once__lite_refuse(struct once__lite_call *call, enum once_word word, const char *text)
{
    char message[TEXT_SIZE];

    (void)snprintf(message, sizeof message, "%s %s: %s", once_word_name(word), call->name, text);
    sqlite3_result_error(call->context, message, -1);
    sqlite3_result_error_code(call->context, SQLITE_CONSTRAINT_FUNCTION);
}

void once__lite_error(struct once__lite_call *call, int err, const char *what)
{
    char message[2 * TEXT_SIZE]; /* what may have TEXT_SIZE */
    int status = SQLITE_ERROR;

    if (err == ONCE_ERR_MEMORY) {
        sqlite3_result_error_nomem(call->context);
        return;
    }
    (void)snprintf(message, sizeof message, "%s: %s (%s)", call->name,
                   what ? what : once_err_text(err), once_err_name(err));
    sqlite3_result_error(call->context, message, -1);
    if (err == ONCE_ERR_DAMAGED)
        status = SQLITE_CORRUPT;
    else if (err == ONCE_ERR_FULL)
        status = SQLITE_TOOBIG;
    sqlite3_result_error_code(call->context, status);
}

void once__lite_sqlite_error(struct once__lite_call *call, int status)
{
    struct once__lite *lite = call->lite;
    int extended = sqlite3_extended_errcode(lite->db);
    bool last = (extended & 0xff) == (status & 0xff); /* nothing was run since */
    const char *text = last ? sqlite3_errmsg(lite->db) : sqlite3_errstr(status);
    char message[TEXT_SIZE];

    if (status == SQLITE_NOMEM) {
        sqlite3_result_error_nomem(call->context);
        return;
    }
    if (status == SQLITE_ERROR && lite->why[0])
        text = lite->why;
    (void)snprintf(message, sizeof message, "%s: %s", call->name, text);
    sqlite3_result_error(call->context, message, -1);
    sqlite3_result_error_code(call->context, last ? extended : status);
}

static void bad_type(struct once__lite_call *call, const char *what, const char *wanted)
{
    char text[TEXT_SIZE];

    (void)snprintf(text, sizeof text, "%s must be %s", what, wanted);
    once__lite_error(call, ONCE_ERR_INVALID, text);
}

bool once__lite_given(const struct once__lite_call *call, int index)
{
    return index < call->count && sqlite3_value_type(call->values[index]) != SQLITE_NULL;
}

/* The bytes of text as UTF-8, whatever the database keeps it as. False: no memory. */
static bool read_text(struct once__lite_call *call, int index, struct once_bytes *ret_bytes)
{
    const unsigned char *text = sqlite3_value_text(call->values[index]);

    if (!text) {
        sqlite3_result_error_nomem(call->context);
        return false;
    }
    *ret_bytes = (struct once_bytes){text, (size_t)sqlite3_value_bytes(call->values[index])};
    return true;
}

static bool is_text(const struct once__lite_call *call, int index)
{
    return index < call->count && sqlite3_value_type(call->values[index]) == SQLITE_TEXT;
}

bool once__lite_key_arg(struct once__lite_call *call, int index, const char *what,
                        struct once_bytes *ret_key)
{
    struct once_defect defect = {0, NULL};
    char text[TEXT_SIZE];
    int err;

    if (!is_text(call, index)) {
        bad_type(call, what, "text");
        return false;
    }
    if (!read_text(call, index, ret_key))
        return false;
    err = once_key_check(*ret_key, &defect);
    if (err == ONCE_OK)
        return true;
    (void)snprintf(text, sizeof text, "%s: %s", what, defect.what);
    once__lite_error(call, err, text);
    return false;
}

bool once__lite_name_args(struct once__lite_call *call, struct once__lite_name *ret_name)
{
    struct once_defect defect = {0, NULL};
    int err;

    if (!is_text(call, 0)) {
        bad_type(call, "the namespace", "text");
        return false;
    }
    if (!read_text(call, 0, &ret_name->ns))
        return false;
    err = once_namespace_check(ret_name->ns, &defect);
    if (err != ONCE_OK) {
        once__lite_error(call, err, defect.what);
        return false;
    }
    return once__lite_key_arg(call, 1, "the key", &ret_name->key);
}

bool once__lite_is_text(struct once_bytes bytes)
{
    return bytes.size == 0 || (!memchr(bytes.data, 0, bytes.size) && once__utf8_check(bytes));
}

bool once__lite_bytes_arg(struct once__lite_call *call, int index, const char *what,
                          size_t size_max, struct once__lite_bytes *ret_bytes)
{
    char text[TEXT_SIZE];

    *ret_bytes = (struct once__lite_bytes){.given = false};
    if (!once__lite_given(call, index))
        return true;
    ret_bytes->given = true;
    if (is_text(call, index)) {
        if (!read_text(call, index, &ret_bytes->bytes))
            return false;
        ret_bytes->text = once__lite_is_text(ret_bytes->bytes);
    } else if (sqlite3_value_type(call->values[index]) == SQLITE_BLOB) {
        size_t size = (size_t)sqlite3_value_bytes(call->values[index]);

        ret_bytes->bytes = (struct once_bytes){
            size > 0 ? sqlite3_value_blob(call->values[index]) : NULL, size};
        if (size > 0 && !ret_bytes->bytes.data) {
            sqlite3_result_error_nomem(call->context);
            return false;
        }
    } else {
        bad_type(call, what, "text or a blob");
        return false;
    }
    if (ret_bytes->bytes.size <= size_max)
        return true;
    (void)snprintf(text, sizeof text, "%s is longer than %zu bytes", what, size_max);
    once__lite_error(call, ONCE_ERR_FULL, text);
    return false;
}

/* A double holds every whole number up to here, and a fence is one of them. */
static bool whole_number(sqlite3_value *value, int64_t *ret_number)
{
    const double most = (double)(1LL << 53);
    double number;

    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        *ret_number = sqlite3_value_int64(value);
        return true;
    }
    if (sqlite3_value_type(value) != SQLITE_FLOAT)
        return false;
    number = sqlite3_value_double(value);
    if (!(number >= -most && number <= most))
        return false;
    *ret_number = (int64_t)number;
    return (double)*ret_number == number;
}

bool once__lite_number_arg(struct once__lite_call *call, int index, const char *what,
                           struct once__lite_range range, int64_t *ret_number)
{
    char text[TEXT_SIZE];

    if (!once__lite_given(call, index)) {
        *ret_number = range.otherwise;
        return true;
    }
    if (!whole_number(call->values[index], ret_number)) {
        bad_type(call, what, "a whole number");
        return false;
    }
    if (*ret_number >= range.min && *ret_number <= range.max)
        return true;
    (void)snprintf(text, sizeof text, "%s is not between %" PRId64 " and %" PRId64, what, range.min,
                   range.max);
    once__lite_error(call, ONCE_ERR_INVALID, text);
    return false;
}

bool once__lite_fence_arg(struct once__lite_call *call, int index, uint64_t *ret_fence)
{
    const struct once__lite_range range = {0, (int64_t)ONCE_FENCE_MAX, 0};
    int64_t fence;

    if (!once__lite_given(call, index)) {
        bad_type(call, "the fence", "the number that EXECUTE gave");
        return false;
    }
    if (!once__lite_number_arg(call, index, "the fence", range, &fence))
        return false;
    *ret_fence = (uint64_t)fence;
    return true;
}
