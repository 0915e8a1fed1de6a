/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of metrics: reads Prometheus text (0.0.4) and fails at the first thing that a strict
 * reader would refuse: a sample of an unknown family, a family in two pieces, a sample twice, a
 * label that is not escaped, a number that is none, a counter without _total, a histogram whose
 * buckets shrink, lack +Inf or do not agree with its count.
 */
#ifndef ONCE_TESTS_EXPOSITION_H
#define ONCE_TESTS_EXPOSITION_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES_MAX = 20000, SERIES_SIZE = 512, FAMILIES_MAX = 200 };

struct family {
    char name[128];
    char type[16];
};

struct sample {
    char series[SERIES_SIZE]; /* "name{labels}" as it stands there */
    double value;
};

struct exposition {
    struct family families[FAMILIES_MAX];
    size_t family_count;
    struct sample *samples;
    size_t sample_count;
    char wrong[1024]; /* "" when all is well */
};

static inline bool exposition_wrong(struct exposition *page, const char *what, const char *line)
{
    if (page->wrong[0] == '\0')
        snprintf(page->wrong, sizeof(page->wrong), "%s: %.200s", what, line);
    return false;
}

static inline size_t name_size(const char *text)
{
    size_t size = 0;

    if (!isalpha((unsigned char)text[0]) && text[0] != '_' && text[0] != ':')
        return 0;
    while (isalnum((unsigned char)text[size]) || text[size] == '_' || text[size] == ':')
        size++;
    return size;
}

/* {a="b",c="d"}: its size, or 0 when it is malformed. */
static inline size_t labels_size(const char *text)
{
    const char *at = text + 1;

    for (;;) {
        size_t size = name_size(at);

        if (size == 0 || at[size] != '=' || at[size + 1] != '"')
            return 0;
        for (at += size + 2; *at != '"'; at++) {
            if (*at == '\0')
                return 0;
            if (*at == '\\' && (at[1] == '\\' || at[1] == '"' || at[1] == 'n'))
                at++;
            else if (*at == '\\')
                return 0;
        }
        at++;
        if (*at == '}')
            return (size_t)(at + 1 - text);
        if (*at++ != ',')
            return 0;
    }
}

static inline bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Does a sample of this name belong to the family? */
static inline bool belongs(const struct family *family, const char *name)
{
    size_t size = strlen(family->name);

    if (strcmp(family->type, "histogram") != 0)
        return strcmp(family->name, name) == 0;
    return strncmp(family->name, name, size) == 0 &&
           (strcmp(name + size, "_bucket") == 0 || strcmp(name + size, "_sum") == 0 ||
            strcmp(name + size, "_count") == 0);
}

static inline bool read_comment(struct exposition *page, const char *line)
{
    struct family *family = &page->families[page->family_count];
    char kind[8] = "", name[128] = "", rest[400] = "";

    if (sscanf(line, "# %7s %127s %399[^\n]", kind, name, rest) != 3)
        return exposition_wrong(page, "not HELP or TYPE with its text", line);
    if (name_size(name) != strlen(name))
        return exposition_wrong(page, "not a name", line);
    if (strcmp(kind, "HELP") == 0) {
        for (size_t i = 0; i < page->family_count; i++) {
            if (strcmp(page->families[i].name, name) == 0)
                return exposition_wrong(page, "a family twice", line);
        }
        if (page->family_count + 1 >= FAMILIES_MAX)
            return exposition_wrong(page, "too many families", line);
        snprintf(family->name, sizeof(family->name), "%s", name);
        return true;
    }
    if (strcmp(kind, "TYPE") != 0 || strcmp(family->name, name) != 0)
        return exposition_wrong(page, "TYPE does not follow its HELP", line);
    if (strcmp(rest, "counter") != 0 && strcmp(rest, "gauge") != 0 &&
        strcmp(rest, "histogram") != 0)
        return exposition_wrong(page, "no such type", line);
    if ((strcmp(rest, "counter") == 0) != ends_with(name, "_total"))
        return exposition_wrong(page, "counters, and nothing else, end with _total", line);
    snprintf(family->type, sizeof(family->type), "%.15s", rest);
    page->family_count++;
    return true;
}

static inline bool read_sample(struct exposition *page, const char *line)
{
    struct sample *sample = &page->samples[page->sample_count];
    size_t size = name_size(line), labels = 0;
    char name[128], *end;

    if (size == 0 || size >= sizeof(name))
        return exposition_wrong(page, "no name", line);
    memcpy(name, line, size);
    name[size] = '\0';
    if (page->family_count == 0 || !belongs(&page->families[page->family_count - 1], name))
        return exposition_wrong(page, "not of the family that it stands under", line);
    if (line[size] == '{' && (labels = labels_size(line + size)) == 0)
        return exposition_wrong(page, "malformed labels", line);
    size += labels;
    if (line[size] != ' ' || size >= SERIES_SIZE || page->sample_count + 1 >= SAMPLES_MAX)
        return exposition_wrong(page, "no blank before the value, or too long", line);
    memcpy(sample->series, line, size);
    sample->series[size] = '\0';
    sample->value = strtod(line + size + 1, &end);
    if (end == line + size + 1 || *end != '\0' || isspace((unsigned char)line[size + 1]))
        return exposition_wrong(page, "not a number", line);
    for (size_t i = 0; i < page->sample_count; i++) {
        if (strcmp(page->samples[i].series, sample->series) == 0)
            return exposition_wrong(page, "a sample twice", line);
    }
    page->sample_count++;
    return true;
}

/* The value of le in a bucket's series, and where that label begins. */
static inline bool bucket_bound(const char *series, double *ret_bound, size_t *ret_at)
{
    const char *le = strstr(series, "le=\"");

    if (!strstr(series, "_bucket{") || !le)
        return false;
    *ret_bound = strncmp(le + 4, "+Inf", 4) == 0 ? 1e300 : strtod(le + 4, NULL);
    *ret_at = (size_t)(le - series);
    return true;
}

/* Buckets of one histogram stand together and end with +Inf, _sum and _count. */
static inline bool check_histograms(struct exposition *page)
{
    double bound = -1, count = 0;

    for (size_t i = 0; i < page->sample_count; i++) {
        struct sample *sample = &page->samples[i];
        double next_bound;
        size_t at;

        if (bucket_bound(sample->series, &next_bound, &at)) {
            if (next_bound <= bound || sample->value < count)
                return exposition_wrong(page, "buckets are not in order", sample->series);
            bound = next_bound;
            count = sample->value;
            continue;
        }
        if (bound < 0)
            continue; /* not in a histogram */
        if (bound < 1e300)
            return exposition_wrong(page, "no +Inf before", sample->series);
        if (i + 1 >= page->sample_count || !strstr(sample->series, "_sum") ||
            !strstr(page->samples[i + 1].series, "_count") || page->samples[i + 1].value != count)
            return exposition_wrong(page, "_sum and _count do not follow", sample->series);
        bound = -1;
        count = 0;
        i++;
    }
    return bound < 0 || exposition_wrong(page, "a histogram without its end", "");
}

/* text is changed: its lines become strings. */
static inline bool exposition_read(struct exposition *page, char *text)
{
    size_t size = strlen(text);

    page->family_count = page->sample_count = 0;
    page->wrong[0] = '\0';
    if (!page->samples)
        page->samples = calloc(SAMPLES_MAX, sizeof(page->samples[0]));
    if (size == 0 || text[size - 1] != '\n')
        return exposition_wrong(page, "does not end with a line end", "");
    while (*text != '\0') {
        char *end = strchr(text, '\n');

        *end = '\0';
        if (text[0] == '#' ? !read_comment(page, text) : !read_sample(page, text))
            return false;
        text = end + 1;
    }
    return check_histograms(page);
}

/* -1: there is none. */
static inline double exposition_value(const struct exposition *page, const char *series)
{
    for (size_t i = 0; i < page->sample_count; i++) {
        if (strcmp(page->samples[i].series, series) == 0)
            return page->samples[i].value;
    }
    return -1;
}

static inline void exposition_release(struct exposition *page)
{
    free(page->samples);
    page->samples = NULL;
}

#endif
