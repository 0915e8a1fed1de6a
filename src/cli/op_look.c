/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands about one operation share.
 */
#include "cli/op_look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <once/key.h>

#include "cli/echo.h"
#include "cli/folder.h"

int cli_op_name(const struct cli_command *command, const char *ns, const char *const *values,
                size_t count, struct once_name *ret_name)
{
    struct once_name name;
    struct once_defect defect;

    if (count == 0)
        return cli_usage(command, "which operation? Give its KEY, or NS KEY");
    if (count > 2)
        return cli_usage(command, "one operation at a time; '%s' is too much",
                         cli_echo(values[2]).text);
    if (count == 2 && ns)
        return cli_usage(command, "the namespace was given twice: '%s' and '%s'", cli_echo(ns).text,
                         cli_echo(values[0]).text);
    if (!ns)
        ns = count == 2 ? values[0] : CLI_NAMESPACE_DEFAULT;
    name = once_name_of(ns, values[count - 1]);
    if (once_namespace_check(name.ns, &defect) != ONCE_OK)
        return cli_usage(command, "the namespace '%s', character %zu: %s", cli_echo(ns).text,
                         defect.offset + 1, defect.what);
    if (once_key_check(name.key, &defect) != ONCE_OK)
        return cli_usage(command, "the key '%s', character %zu: %s",
                         cli_echo(values[count - 1]).text, defect.offset + 1, defect.what);
    *ret_name = name;
    return CLI_OK;
}

int cli_op_error(const struct cli_command *command, const struct once_reply *reply)
{
    struct once_message message;

    snprintf(message.text, sizeof(message.text), "%.900s%s",
             reply->what ? reply->what : once_err_text(reply->err),
             reply->err == ONCE_ERR_IO || reply->err == ONCE_ERR_STOPPED
                 ? "; nobody knows whether it arrived: the same command again is safe"
                 : "");
    return cli_store_error(command, reply->err, &message);
}

int cli_op_get(const struct cli_command *command, struct cli_reach *reach, struct once_name name,
               struct once_op *op)
{
    *op = (struct once_op){.call = ONCE_CALL_GET, .ns = name.ns, .key = name.key};
    if (cli_reach_op(reach, op, 0) != ONCE_OK)
        return cli_op_error(command, &op->reply);
    if (op->reply.word != ONCE_DONE)
        return cli_error(command, CLI_NOT_FOUND,
                         "there is no operation '%s' in the namespace '%s': it never began, or it "
                         "was forgotten or has expired",
                         cli_echo_bytes(name.key).text, cli_echo_bytes(name.ns).text);
    if (op->reply.now_ms == 0)
        op->reply.now_ms = cli_now_ms(); /* a server does not tell */
    return CLI_OK;
}

int cli_op_refused(const struct cli_command *command, bool json, const struct once_reply *reply,
                   int status, const char *text)
{
    if (json) {
        printf("{\"verdict\":\"%s\"", once_word_name(reply->word));
        if (reply->word == ONCE_BUSY)
            printf(",\"retry_ms\":%" PRId64, reply->retry_ms);
        if (reply->word == ONCE_DOUBT && reply->fence > 0)
            printf(",\"fence\":%" PRIu64, reply->fence);
        fputs(",\"error\":", stdout);
        cli_json_string(stdout, once_bytes_of(text));
        printf(",\"exit_status\":%d}\n", status);
    }
    return cli_message(command, status, "%s", text);
}

bool cli_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool cli_ask(const char *question, char *answer, size_t size)
{
    size_t length;
    int c;

    fflush(stdout);
    fputs(question, stderr);
    fflush(stderr);
    if (!fgets(answer, (int)size, stdin)) {
        fputc('\n', stderr);
        return false;
    }
    length = strcspn(answer, "\n");
    if (answer[length] == '\0')
        while ((c = getchar()) != EOF && c != '\n')
            ; /* what did not fit is not the next answer */
    answer[length] = '\0';
    return true;
}

static void note_doubt(void *user, const struct once_past *past)
{
    if (past->event == ONCE_EVENT_DOUBT)
        *(once_ms *)user = past->at_ms;
}

once_ms cli_op_doubt_ms(struct cli_reach *reach, struct once_name name,
                        const struct once_reply *reply)
{
    bool found, more;
    once_ms at_ms = 0;

    if (reply->state == ONCE_STATE_DOUBT)
        (void)cli_reach_history(reach, name, 1, note_doubt, &at_ms, &found, &more);
    return at_ms;
}

char *cli_op_options(const struct cli_where *where)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    if (where->dir || where->server) {
        fputs(where->dir ? " --dir " : " --server ", out);
        cli_print_word(out, once_bytes_of(where->dir ? where->dir : where->server));
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
