/* SPDX-License-Identifier: Apache-2.0
 * Charges once, however often it is told to:  charge FOLDER ORDER AMOUNT */
#include <once/once.h>
#include <stdio.h>

static int charge(struct once_store *store, const char *order, const char *amount)
{
    struct once_begin_options options = {.fingerprint = once_bytes_of(amount)};
    struct once_reply begun, ended = {0};
    char receipt[80];
    int err = once_begin(store, once_name_of("charges", order), &options, &begun);

    if (err == ONCE_OK && begun.word == ONCE_EXECUTE) {
        /* The effect: a call to a payment provider, say. Here it makes a receipt. */
        snprintf(receipt, sizeof(receipt), "%s paid, receipt %llu", amount,
                 (unsigned long long)begun.fence);
        err = once_complete(store, once_name_of("charges", order), begun.fence, 0,
                            once_bytes_of(receipt), &ended);
        if (err == ONCE_OK) /* OK: from now on every begin of this order is a REPLAY */
            printf("EXECUTE: %s, complete: %s\n", receipt, once_word_name(ended.word));
    } else if (err == ONCE_OK) /* REPLAY brings the first receipt, the other words bring none */
        printf("%s: %.*s\n", once_word_name(begun.word), (int)begun.result.size,
               begun.result.size > 0 ? (const char *)begun.result.data : "");
    once_reply_release(&ended);
    once_reply_release(&begun);
    return err;
}

int main(int argc, char **argv)
{
    struct once_message message = {"usage: charge FOLDER ORDER AMOUNT"};
    struct once_store *store;

    if (argc != 4 || once_open(argv[1], NULL, &store, &message) != ONCE_OK)
        return fprintf(stderr, "%s\n", message.text), 1;
    int err = charge(store, argv[2], argv[3]);
    if (err != ONCE_OK)
        fprintf(stderr, "%s\n", once_err_text(err));
    return once_close(store) == ONCE_OK && err == ONCE_OK ? 0 : 1;
}
