/* SPDX-License-Identifier: Apache-2.0
 *
 * `once call`: an HTTP call with a key, durable before its first byte is sent, retried, resumed and
 * kept. The work is once/call.h's; arguments are call_args.c's, what is told call_tell.c's.
 */
#include <stdio.h>

#include "cli/call.h"

static const char call_help[] =
    "usage: once call [OPTIONS] METHOD URL\n"
    "       once call [OPTIONS] --resume KEY | --resume --all\n"
    "\n"
    "Sends an HTTP request that may arrive many times and must count once. Key and request are on\n"
    "disk before the first byte goes out; every retry, and a --resume after a crash, sends the "
    "same\n"
    "bytes with the same Idempotency-Key; the final answer is kept, and the same command again\n"
    "gives it without sending. The receiver must do its work once for each key.\n"
    "\n"
    "  once call POST https://pay.example/charges --key order-7 --data '{\"amount\":100}'\n"
    "  once call POST https://pay.example/c --secret-header 'Authorization: Bearer $TOKEN'\n"
    "  once call --resume order-7\n"
    "\n"
    "  --key KEY  the call's name (default: a new UUIDv7, told on standard error)\n"
    "  --namespace NS, -n NS\n"
    "             the namespace of the key (default: call)\n"
    "  --header HEADER, -H HEADER\n"
    "             'Name: value', any number of them. The store keeps it\n"
    "  --secret-header HEADER\n"
    "             'Name: text $VARIABLE': the store keeps this text; the variable is read from "
    "the\n"
    "             environment when it is sent. $$ is a dollar\n"
    "  --data TEXT, -d TEXT\n"
    "             the body; @FILE is a file, @- the standard input. Over 512 KiB only from a "
    "file,\n"
    "             which must be the same for a --resume\n"
    "  --key-header NAME  the key's header (default: Idempotency-Key)\n"
    "  --bare-key  the key as it is, for Stripe, not \"in quotes\"\n"
    "  --retries N  attempts after the first (default: 9)\n"
    "  --deadline TIME  all attempts together (default: 2m)\n"
    "  --timeout TIME  each attempt (default: 30s)\n"
    "  --connect-timeout TIME\n"
    "             its connection (default: 10s)\n"
    "  --final STATUS  these are final too: 409 or 409,501\n"
    "  --cacert FILE  PEM file of who signs the receiver's certificate\n"
    "  --wait TIME  if someone else is at this call, wait so long for its answer\n"
    "  --ttl TIME  how long the answer is kept (default: 24h)\n"
    "  --lease TIME  how long it counts as running when its process is lost (default: 30s)\n"
    "  --on-doubt reject|retry\n"
    "             someone began it and vanished: tell so (the default), or do as --resume\n"
    "  --resume   go on with a call that was killed or gave up, with the request that was kept\n"
    "  --all      every call that is in doubt or whose process is gone\n"
    "  --include, -i  print status and headers before the body\n"
    "  --output FILE, -o FILE\n"
    "             write the body into a file\n"
    "  --output-max BYTES\n"
    "             of the body, kept for a replay (default: 1048576)\n" CLI_HELP_DIR CLI_HELP_SERVER
    "  --quiet    only tell what went wrong\n"
    "  --json     one JSON object for machines, errors too\n"
    "\n"
    "Tried again: 408, 409, 425, 429, 5xx, broken connections; after a random part of 200 ms, "
    "which\n"
    "doubles up to 10 s, or after Retry-After. Final: the other 4xx, 2xx, and 3xx (not followed).\n"
    "\n"
    "exit status: 0 a final answer 2xx or 3xx, now or replayed; 1 a final answer 4xx or 5xx; 64\n"
    "usage; 65 MISMATCH: the key belongs to another request; 66 no such call; 69 nothing was "
    "sent,\n"
    "or the store cannot be used; 70 it is damaged; 71 an output that cannot be written; 75 BUSY:\n"
    "someone is at it; 76 in doubt: sent, and no final answer; 77 TOO_OLD, or ended by someone "
    "else.\n";

static int call_one(const struct call_args *args, struct call_journal *journal)
{
    struct once_bytes key = {(const uint8_t *)args->key.text, args->key.size};
    struct once_http_answer answer;
    int status, err;

    err = call_once(args, journal, key, args->resume, &answer);
    status = call_tell(args, key, err, journal, &answer, false);
    once_http_answer_release(&answer);
    return status;
}

static int call_run(int argc, char **argv)
{
    struct call_args args;
    struct call_journal journal;
    int status = call_args_read(argc, argv, &args);

    if (status == CLI_OK) {
        call_journal_init(&args, &journal);
        call_signals();
        status = args.all ? call_resume_all(&args, &journal) : call_one(&args, &journal);
        status = call_journal_close(&journal, status);
    }
    call_args_release(&args);
    return status;
}

const struct cli_command cli_call = {
    .name = "call",
    .summary = "an HTTP call that counts once, retried and resumed with the same key",
    .help = call_help,
    .run = call_run,
    .options = call_options,
    .option_count = CALL_OPTION_COUNT,
};
