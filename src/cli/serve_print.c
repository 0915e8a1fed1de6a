/* SPDX-License-Identifier: Apache-2.0
 *
 * What `once serve` prints instead of serving: hashes for the configuration file, and the pages
 * about settings and commands that docs/reference is made from.
 */
#include "cli/serve.h"

#include <openssl/crypto.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/cli.h"
#include "server/access.h"
#include "server/command.h"

enum { PAGE_SIZE_MAX = 1 << 20, HASH_TEXT_MAX = 256 };

struct cli_clean cli_clean(const char *text)
{
    struct cli_clean clean;

    snprintf(clean.text, sizeof(clean.text), "%s", text);
    for (char *c = clean.text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    }
    return clean;
}

void cli_print_lines(FILE *out, struct once_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        bool control = (text.data[i] < 0x20 && text.data[i] != '\n') || text.data[i] == 0x7f;

        fputc(control ? ' ' : text.data[i], out);
    }
}

/* ---- Secrets --------------------------------------------------------------------------------- */

/* A line without its line feed. At most size bytes; one more is too many. */
static bool read_line(char *line, size_t size, size_t *ret_size)
{
    size_t used = 0;
    int c;

    while ((c = getc(stdin)) != EOF && c != '\n') {
        if (used == size)
            return false;
        line[used++] = (char)c;
    }
    *ret_size = used;
    return used > 0 || c == '\n';
}

/* Asks on the terminal, without showing what is typed. */
static bool ask(const char *prompt, char *line, size_t size, size_t *ret_size)
{
    struct termios before, quiet;
    bool terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0, got;

    if (terminal) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
        fputs(prompt, stderr);
    }
    got = read_line(line, size, ret_size);
    if (terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputs("\n", stderr);
    }
    return got;
}

static int ask_password(char *password, size_t size, size_t *ret_size)
{
    char again[ONCE_PASSWORD_SIZE_MAX + 1];
    size_t again_size = 0;
    bool same = true;

    if (!ask("password: ", password, size, ret_size) || *ret_size < ONCE_PASSWORD_SIZE_MIN)
        return cli_error(&cli_serve, CLI_USAGE, "a password has %d to %d bytes",
                         ONCE_PASSWORD_SIZE_MIN, ONCE_PASSWORD_SIZE_MAX);
    if (isatty(STDIN_FILENO)) {
        same = ask("again: ", again, sizeof(again), &again_size) && again_size == *ret_size &&
               memcmp(again, password, again_size) == 0;
        OPENSSL_cleanse(again, sizeof(again));
    }
    if (!same)
        return cli_error(&cli_serve, CLI_USAGE, "the two are not the same");
    return CLI_OK;
}

int cli_serve_hash_password(void)
{
    char password[ONCE_PASSWORD_SIZE_MAX];
    struct once_buf text;
    size_t size = 0;
    int status = ask_password(password, sizeof(password), &size), err = ONCE_OK;

    once_buf_init(&text, HASH_TEXT_MAX);
    if (status == CLI_OK)
        err = once__password_make((struct once_bytes){(const uint8_t *)password, size}, &text);
    OPENSSL_cleanse(password, sizeof(password));
    if (err != ONCE_OK)
        status = cli_error(&cli_serve, CLI_INTERNAL, "%s", once_err_text(err));
    else if (status == CLI_OK)
        printf("password = %.*s\n", (int)text.size, (const char *)text.data);
    once_buf_release(&text);
    return status;
}

int cli_serve_make_token(void)
{
    struct once_buf token, line;
    int err;

    once_buf_init(&token, HASH_TEXT_MAX);
    once_buf_init(&line, HASH_TEXT_MAX);
    err = once__token_make(&token, &line);
    if (err == ONCE_OK) {
        if (isatty(STDOUT_FILENO))
            fputs("The token, which is kept nowhere else; and the line for [user NAME]:\n", stderr);
        printf("%.*s\ntoken = %.*s\n", (int)token.size, (const char *)token.data, (int)line.size,
               (const char *)line.data);
    }
    if (token.data)
        OPENSSL_cleanse(token.data, token.size);
    once_buf_release(&token);
    once_buf_release(&line);
    if (err != ONCE_OK)
        return cli_error(&cli_serve, CLI_INTERNAL, "%s", once_err_text(err));
    return CLI_OK;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

/* "|" parts columns of a table. */
static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void print_section(const char *section)
{
    puts("| setting | value | default | |\n|---|---|---|---|");
    for (size_t i = 0; i < once__setting_count; i++) {
        const struct once__setting_help *setting = &once__settings[i];

        if (strcmp(setting->section, section) != 0)
            continue;
        printf("| `%s` | `", setting->name);
        print_cell(setting->value);
        printf("` | %s | ", setting->fallback);
        print_cell(setting->text);
        puts(setting->fixed ? " Needs a restart. |" : " |");
    }
}

int cli_serve_help_settings(void)
{
    puts("<!-- Made by `once serve --help-settings`; a test compares. -->\n"
         "# Settings\n"
         "\n"
         "Every setting of `once serve`. [configuration.md](../configuration.md) tells how they "
         "are\n"
         "given and how they fit together.\n"
         "\n"
         "## The whole server\n"
         "\n"
         "`name = value` before the first section of the file, `ONCE_NAME` in the environment,\n"
         "`--name value` on the command line (with dashes for underscores).\n");
    print_section("");
    puts("\n## A namespace\n"
         "\n"
         "Below `[namespace NAME]`, or `[namespace *]` for every namespace that does not say\n"
         "otherwise.\n");
    print_section("namespace");
    puts("\n## A user\n"
         "\n"
         "Below `[user NAME]`.\n");
    print_section("user");
    return CLI_OK;
}

int cli_serve_help_commands(void)
{
    struct once_buf page;
    int err;

    once_buf_init(&page, PAGE_SIZE_MAX);
    err = once__command_reference(&page);
    if (err == ONCE_OK)
        fwrite(page.data, 1, page.size, stdout);
    once_buf_release(&page);
    if (err != ONCE_OK)
        return cli_error(&cli_serve, CLI_INTERNAL, "%s", once_err_text(err));
    return CLI_OK;
}
