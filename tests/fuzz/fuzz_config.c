/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a configuration file. What is accepted keeps the promises of config.h, and is the
 * same when it is shown and read again; what is refused names a line of the file.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "server/config_inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_listeners(const struct once__config *config, const struct once__listen *list,
                            size_t count)
{
    ONCE_ASSERT(count <= ONCE_LISTENERS_MAX);
    for (size_t i = 0; i < count; i++) {
        ONCE_ASSERT(list[i].loopback || config->user_count > 0);
        ONCE_ASSERT(list[i].loopback || list[i].tls || config->plaintext);
        ONCE_ASSERT(!list[i].tls || (config->tls_cert && config->tls_key));
    }
}

static void check_promises(const struct once__config *config)
{
    check_listeners(config, config->resp, config->resp_count);
    check_listeners(config, config->http, config->http_count);
    for (size_t i = 0; i < config->policy_count; i++) {
        const struct once__policy *policy = &config->policies[i];

        ONCE_ASSERT(once__config_policy(config, once_bytes_of(policy->name)) == policy);
        ONCE_ASSERT(policy->retention_ms >= 1 && policy->retention_ms <= policy->retention_ms_max);
        ONCE_ASSERT(policy->lease_ms >= 1 && policy->lease_ms <= policy->lease_ms_max);
        ONCE_ASSERT(policy->retention_ms_max <= ONCE_RETENTION_MS_MAX);
        ONCE_ASSERT(policy->result_size_max <= ONCE_RESULT_SIZE_MAX);
    }
    for (size_t i = 0; i < config->user_count; i++) {
        const struct once__user *user = &config->users[i];

        ONCE_ASSERT(once__config_user(config, once_bytes_of(user->name)) == user);
        ONCE_ASSERT(user->password.set || user->token.set);
    }
}

static void check_accepted(const struct once__config *config)
{
    struct once__config_error error;
    struct once__config *again = NULL;
    struct once_buf first, second;

    check_promises(config);
    once_buf_init(&first, 1U << 26);
    once_buf_init(&second, 1U << 26);
    ONCE_ASSERT(once__config_write(config, true, &first) == ONCE_OK);
    ONCE_ASSERT(once__config_parse("again", once_buf_bytes(&first), &again, &error) == ONCE_OK);
    ONCE_ASSERT(once__config_write(again, true, &second) == ONCE_OK);
    ONCE_ASSERT(once__bytes_equal(once_buf_bytes(&first), once_buf_bytes(&second)));
    once_buf_release(&first);
    once_buf_release(&second);
    once__config_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size > 0 ? size : 1); /* exact, so that a read beyond it is seen */
    struct once__config_error error = {{0}};
    struct once__config *config = NULL;
    int err;

    ONCE_ASSERT(block);
    if (size > 0)
        memcpy(block, data, size);
    err = once__config_parse("file", (struct once_bytes){block, size}, &config, &error);
    if (err == ONCE_OK) {
        check_accepted(config);
    } else {
        ONCE_ASSERT(err == ONCE_ERR_INVALID);
        ONCE_ASSERT(!config);
        ONCE_ASSERT(strncmp(error.text, "file:", 5) == 0);
        ONCE_ASSERT(error.text[5] >= '1' && error.text[5] <= '9');
    }
    once__config_unref(config);
    free(block);
    return 0;
}
