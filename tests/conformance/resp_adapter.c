/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance suite over RESP, on a real server:
 *
 *     conformance_resp [--threads N] [--disk] [scenario]
 */
#include "conformance/resp_calls.h"

static void *store_open(once_ms start_ms)
{
    return served_open(start_ms, served_on_disk, &resp_link);
}

static void store_close(void *self)
{
    served_close(self);
}

static void *store_restart(void *self)
{
    return served_restart(self);
}

static void store_advance(void *self, once_ms by_ms)
{
    served_advance(self, by_ms);
}

int main(int argc, char **argv)
{
    struct conformance_adapter adapter = {
        .open = store_open,
        .close = store_close,
        .advance = store_advance,
        .restart = store_restart,
        .begin = resp_begin,
        .complete = resp_complete,
        .fail = resp_fail,
        .checkpoint = resp_checkpoint,
        .renew = resp_renew,
        .resolve = resp_resolve,
        .forget = resp_forget,
        .get = resp_get,
    };

    return served_main(argc, argv, &adapter, "RESP");
}
