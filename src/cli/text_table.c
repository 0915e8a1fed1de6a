/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables, times and colours for people. Knows nothing of what it shows.
 */
#include "cli/text_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/echo.h"

enum {
    GAP = 2,         /* between two columns */
    SHRUNK_MIN = 12, /* a column is never shortened below */
    WIDTH_DEFAULT = 80,
    HOLE = 3,       /* "..." */
    ESCAPE_SIZE = 4 /* \xNN */
};

/* ---- Terminals ------------------------------------------------------------------------------- */

struct cli_style cli_style_of(FILE *out)
{
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
    struct winsize size = {0};
    struct cli_style style = {0};

    if (!isatty(fileno(out)))
        return style;
    style.width = WIDTH_DEFAULT;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        style.width = size.ws_col;
    style.colour = !(none && none[0]) && term && term[0] && strcmp(term, "dumb") != 0;
    return style;
}

const char *cli_colour(struct cli_style style, enum cli_colour colour)
{
    static const char *const codes[] = {
        [CLI_PLAIN] = "\033[0m", [CLI_BOLD] = "\033[1m",   [CLI_DIM] = "\033[2m",
        [CLI_RED] = "\033[31m",  [CLI_GREEN] = "\033[32m", [CLI_YELLOW] = "\033[33m",
        [CLI_BLUE] = "\033[34m",
    };

    return style.colour ? codes[colour] : "";
}

enum cli_colour cli_state_colour(enum once_state state)
{
    static const enum cli_colour colours[] = {
        [ONCE_STATE_ABSENT] = CLI_DIM,      [ONCE_STATE_STARTED] = CLI_BLUE,
        [ONCE_STATE_COMPLETED] = CLI_GREEN, [ONCE_STATE_FAILED] = CLI_YELLOW,
        [ONCE_STATE_DOUBT] = CLI_RED,
    };

    return (unsigned)state < sizeof(colours) / sizeof(colours[0]) ? colours[state] : CLI_PLAIN;
}

/* ---- Times ----------------------------------------------------------------------------------- */

once_ms cli_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (once_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const char *cli_time(once_ms at_ms, char text[CLI_TIME_SIZE])
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm local;

    if (!localtime_r(&seconds, &local) ||
        strftime(text, CLI_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &local) == 0)
        snprintf(text, CLI_TIME_SIZE, "%" PRId64 " ms", at_ms);
    return text;
}

const char *cli_length(once_ms length_ms, char text[CLI_TIME_SIZE])
{
    static const struct {
        once_ms ms;
        const char *one, *many;
    } units[] = {{86400000, "day", "days"},
                 {3600000, "h", "h"},
                 {60000, "min", "min"},
                 {1000, "s", "s"},
                 {1, "ms", "ms"}};
    size_t i = 0, last = sizeof(units) / sizeof(units[0]) - 1;
    once_ms count;

    /* Two of a unit before it is used: "90 s" says more than "1 min". */
    while (i < last && length_ms < (units[i].ms >= 60000 ? 2 : 1) * units[i].ms)
        i++;
    count = (length_ms + units[i].ms / 2) / units[i].ms;
    snprintf(text, CLI_TIME_SIZE, "%" PRId64 " %s", count,
             count == 1 ? units[i].one : units[i].many);
    return text;
}

const char *cli_ago(once_ms at_ms, once_ms now_ms, char text[CLI_TIME_SIZE])
{
    char length[CLI_TIME_SIZE];

    if (at_ms <= now_ms && now_ms - at_ms < 1000)
        snprintf(text, CLI_TIME_SIZE, "now");
    else if (at_ms <= now_ms)
        snprintf(text, CLI_TIME_SIZE, "%.32s ago", cli_length(now_ms - at_ms, length));
    else
        snprintf(text, CLI_TIME_SIZE, "in %.32s", cli_length(at_ms - now_ms, length));
    return text;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static uint32_t code_point(const uint8_t *bytes, size_t size)
{
    static const uint8_t masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = bytes[0] & masks[size];

    for (size_t i = 1; i < size; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}

static bool is_shown(uint32_t code)
{
    if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        return code == '\t';
    return !(code == 0x061c || code == 0x200e || code == 0x200f || code == 0x2028 ||
             code == 0x2029 || (code >= 0x202a && code <= 0x202e) ||
             (code >= 0x2066 && code <= 0x2069) || code == 0xfeff);
}

void cli_print_text(FILE *out, struct once_bytes text)
{
    while (text.size > 0) {
        size_t size = cli_utf8_size(text);

        if (size > 0 && is_shown(code_point(text.data, size))) {
            fwrite(text.data, 1, size, out);
        } else {
            size = size > 0 ? size : 1;
            for (size_t i = 0; i < size; i++)
                fprintf(out, "\\x%02x", text.data[i]);
        }
        text = (struct once_bytes){text.data + size, text.size - size};
    }
}

static bool is_plain(uint8_t byte)
{
    static const char others[] = "_-./:@%+=,";

    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || (byte != 0 && strchr(others, byte) != NULL);
}

void cli_print_word(FILE *out, struct once_bytes word)
{
    bool plain = word.size > 0;

    for (size_t i = 0; i < word.size; i++)
        plain = plain && is_plain(word.data[i]);
    if (!plain)
        fputc('\'', out);
    while (word.size > 0) {
        size_t size = cli_utf8_size(word);

        size = size > 0 ? size : 1;
        if (word.data[0] == '\'')
            fputs("'\\''", out);
        else
            cli_print_text(out, (struct once_bytes){word.data, size});
        word = (struct once_bytes){word.data + size, word.size - size};
    }
    if (!plain)
        fputc('\'', out);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* A copy, escaped; NULL: no memory. */
static char *escape(struct once_bytes text)
{
    static const char digits[] = "0123456789abcdef";
    char *copy = malloc(ESCAPE_SIZE * text.size + 1), *at = copy;

    for (size_t i = 0; copy && i < text.size; i++) {
        uint8_t byte = text.data[i];

        if (byte >= 0x20 && byte <= 0x7e) {
            *at++ = (char)byte;
            continue;
        }
        *at++ = '\\';
        *at++ = 'x';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    if (copy)
        *at = '\0';
    return copy;
}

bool cli_table_add(struct cli_table *table, const struct once_bytes *cells, enum cli_colour colour)
{
    char **row = table->cells[table->row_count];

    if (table->row_count == CLI_ROWS_MAX)
        return false;
    for (size_t i = 0; i < table->column_count; i++) {
        row[i] = escape(cells[i]);
        if (!row[i]) {
            while (i-- > 0)
                free(row[i]);
            return false;
        }
    }
    for (size_t i = 0; i < table->column_count; i++) {
        size_t width = strlen(row[i]), title = strlen(table->columns[i].title);

        if (width < title)
            width = title;
        if (table->widths[i] < width)
            table->widths[i] = width;
    }
    table->colours[table->row_count++] = colour;
    return true;
}

/* Where the terminal is too narrow, the columns that may give way, the widest first. */
static void fit(const struct cli_table *table, size_t widths[CLI_COLUMNS_MAX])
{
    size_t all = table->column_count > 0 ? (table->column_count - 1) * GAP : 0;

    for (size_t i = 0; i < table->column_count; i++) {
        widths[i] = table->widths[i];
        all += widths[i];
    }
    while (table->style.width > 0 && all > table->style.width) {
        size_t widest = table->column_count;

        for (size_t i = 0; i < table->column_count; i++) {
            if (table->columns[i].shrinks && widths[i] > SHRUNK_MIN &&
                (widest == table->column_count || widths[i] > widths[widest]))
                widest = i;
        }
        if (widest == table->column_count)
            return;
        widths[widest]--;
        all--;
    }
}

/* What surrounds the text of a cell. */
struct frame {
    size_t width;
    bool right, last; /* the last of a row is not filled up */
    const char *start, *end;
};

static void fill_up(FILE *out, size_t count)
{
    while (count-- > 0)
        putc_unlocked(' ', out);
}

/* Keys differ at both ends, so where a cell is too long its middle goes. */
static void print_cell(FILE *out, const char *text, const struct frame *frame)
{
    size_t size = strlen(text), shown = size < frame->width ? size : frame->width;
    size_t head = (shown - (size > shown ? HOLE : 0) + 1) / 2;

    fill_up(out, frame->right ? frame->width - shown : 0);
    fputs(frame->start, out);
    if (size > shown)
        fprintf(out, "%.*s...%s", (int)head, text, text + size - (shown - HOLE - head));
    else
        fputs(text, out);
    fputs(frame->end, out);
    if (!frame->last)
        fill_up(out, (frame->right ? 0 : frame->width - shown) + GAP);
}

static void print_row(const struct cli_table *table, FILE *out, const char *const *cells,
                      const size_t widths[CLI_COLUMNS_MAX], enum cli_colour colour, bool whole)
{
    for (size_t i = 0; i < table->column_count; i++) {
        bool coloured = i == 0 || whole;
        struct frame frame = {.width = widths[i],
                              .right = table->columns[i].right,
                              .last = i + 1 == table->column_count,
                              .start = coloured ? cli_colour(table->style, colour) : "",
                              .end = coloured ? cli_colour(table->style, CLI_PLAIN) : ""};

        print_cell(out, cells[i], &frame);
    }
    fputc('\n', out);
}

void cli_table_flush(struct cli_table *table, FILE *out)
{
    const char *cells[CLI_COLUMNS_MAX];
    size_t widths[CLI_COLUMNS_MAX];

    fit(table, widths);
    for (size_t i = 0; i < table->column_count; i++)
        cells[i] = table->columns[i].title;
    if (!table->has_head && table->row_count > 0) {
        print_row(table, out, cells, widths, CLI_BOLD, true);
        table->has_head = true;
    }
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->column_count; i++)
            cells[i] = table->cells[row][i];
        print_row(table, out, cells, widths, table->colours[row], false);
    }
    cli_table_release(table);
}

void cli_table_release(struct cli_table *table)
{
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->column_count; i++)
            free(table->cells[row][i]);
    }
    table->row_count = 0;
}
