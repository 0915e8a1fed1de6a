/* SPDX-License-Identifier: Apache-2.0
 *
 * Output for people: tables, times and colours. On a terminal it is coloured and fits its width;
 * anywhere else it is plain and whole, so that pipes and files get every byte of every key.
 */
#ifndef ONCE_CLI_TEXT_TABLE_H
#define ONCE_CLI_TEXT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <once/bytes.h>
#include <once/verdict.h>

/* ---- Terminals ------------------------------------------------------------------------------- */

struct cli_style {
    bool colour;  /* a terminal that has colours, and nobody who wants none ($NO_COLOR) */
    size_t width; /* of the terminal; 0: it is none */
};

struct cli_style cli_style_of(FILE *out);

enum cli_colour {
    CLI_PLAIN,
    CLI_BOLD,
    CLI_DIM,
    CLI_RED,
    CLI_GREEN,
    CLI_YELLOW,
    CLI_BLUE,
};
/* What switches to this colour; "" where there are none. CLI_PLAIN ends every other. */
const char *cli_colour(struct cli_style style, enum cli_colour colour);
enum cli_colour cli_state_colour(enum once_state state);

/* ---- Times ----------------------------------------------------------------------------------- */

enum { CLI_TIME_SIZE = 64 };

/* "2026-11-15 20:15:12", local; returns text. */
const char *cli_time(once_ms at_ms, char text[CLI_TIME_SIZE]);
/* "3 min", "2 h", "5 days": a length, rounded. */
const char *cli_length(once_ms length_ms, char text[CLI_TIME_SIZE]);
/* "3 min ago", "in 20 s", "now". */
const char *cli_ago(once_ms at_ms, once_ms now_ms, char text[CLI_TIME_SIZE]);
once_ms cli_now_ms(void); /* of the wall */

/* ---- Text ------------------------------------------------------------------------------------ */

/* Text of others for people: UTF-8 as it is, but for controls and for characters that change the
 * direction of what is around them; those, and every byte that is no UTF-8, as \xNN. Tabs stay. */
void cli_print_text(FILE *out, struct once_bytes text);

/* A word as a shell would have to be given it: as it is, or in single quotes. */
void cli_print_word(FILE *out, struct once_bytes word);

/* ---- Tables ---------------------------------------------------------------------------------- */

struct cli_column {
    const char *title;
    bool right;   /* numbers */
    bool shrinks; /* is shortened first where a terminal is too narrow */
};

enum { CLI_COLUMNS_MAX = 12, CLI_ROWS_MAX = 1000 };

/* Rows are kept until they are flushed, and columns are as wide as what they held so far: what is
 * printed early stays where it is. Every byte of a cell that is not printable ASCII is escaped, so
 * that a cell is as wide as it is long. */
struct cli_table {
    const struct cli_column *columns;
    size_t column_count;
    struct cli_style style;
    size_t widths[CLI_COLUMNS_MAX];
    char *cells[CLI_ROWS_MAX][CLI_COLUMNS_MAX];
    enum cli_colour colours[CLI_ROWS_MAX]; /* of the first cell of a row */
    size_t row_count;
    bool has_head; /* it was printed */
};

/* One more row, of column_count cells, which are copied. False: there is no memory, or too many
 * rows wait. */
bool cli_table_add(struct cli_table *table, const struct once_bytes *cells, enum cli_colour colour);
/* Prints what was added, the titles before the first of it. */
void cli_table_flush(struct cli_table *table, FILE *out);
void cli_table_release(struct cli_table *table);

#endif
