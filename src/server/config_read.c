/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads settings from the lines of a file, from variables and from flags, and keeps for each where
 * it was said.
 *
 *     # a comment                          a line is one of these; blanks around words do not
 *     name = value     # a comment         count, and a # counts where a word could begin
 *     [namespace payments]
 *     [user alice]
 */
#include "server/config_inner.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

static const char blanks[] = " \t\r";

/* ---- The nearest name ------------------------------------------------------------------------ */

enum { NAME_SHOWN = 64 };

static const char *nearest(const char *section, const char *name)
{
    struct once__nearest nearest = {.typed = name, .size = strlen(name)};

    for (size_t i = 0; i < once__setting_count; i++) {
        if (strcmp(once__settings[i].section, section) == 0)
            once__nearest_try(&nearest, once__settings[i].name);
    }
    return nearest.best;
}

static int tell_unknown(struct once__reading *reading, const char *section, const char *name)
{
    static const char *const sections[] = {"namespace", "user"};
    const char *near = nearest(section, name);

    if (once__setting_find("", name))
        return once__config_wrong(reading, &reading->here,
                                  "'%s' is about the whole server: it stands before the first "
                                  "section",
                                  name);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (once__setting_find(sections[i], name))
            return once__config_wrong(reading, &reading->here,
                                      "'%s' is about a %s: it stands below [%s NAME]", name,
                                      sections[i], sections[i]);
    }
    if (near)
        return once__config_wrong(reading, &reading->here,
                                  "there is no setting '%.64s' here; did you mean '%s'?", name,
                                  near);
    return once__config_wrong(reading, &reading->here,
                              "there is no setting '%.64s' here; once serve --help-settings lists "
                              "them",
                              name);
}

/* ---- One setting ----------------------------------------------------------------------------- */

static int set(struct once__reading *reading, struct once__said *said, const char *section,
               void *target, const char *name, char *value)
{
    const struct once__setting_help *setting = once__setting_find(section, name);
    struct once__where *where;
    int err;

    if (!setting)
        return tell_unknown(reading, section, name);
    where = &said->settings[once__setting_index(setting)];
    if (where->source == reading->here.source && !setting->repeats) {
        if (where->source == ONCE__FROM_FILE)
            return once__config_wrong(reading, &reading->here,
                                      "'%s' is said twice; it was said in line %u already", name,
                                      where->line);
        return once__config_wrong(reading, &reading->here, "it is said twice");
    }
    if (where->source != reading->here.source && setting->repeats)
        once__value_clear(setting, target);
    err = once__value_read(reading, setting, target, value);
    if (err == ONCE_OK)
        *where = reading->here;
    return err;
}

/* ---- Sections -------------------------------------------------------------------------------- */

/* Where the settings of the lines that follow go. */
struct place {
    const char *section; /* "", "namespace", "user" */
    size_t index;        /* in policies or users; SIZE_MAX is [namespace *] */
};

static void *place_target(struct once__reading *reading, const struct place *place,
                          struct once__said **ret_said)
{
    if (place->section[0] == '\0') {
        *ret_said = &reading->top;
        return reading->config;
    }
    if (place->index == SIZE_MAX) {
        *ret_said = &reading->otherwise;
        return &reading->config->otherwise;
    }
    if (strcmp(place->section, "namespace") == 0) {
        *ret_said = &reading->policies[place->index];
        return &reading->config->policies[place->index];
    }
    *ret_said = &reading->users[place->index];
    return &reading->config->users[place->index];
}

/* Room for one more, of the things and of what was said about each. */
static int grow(void **things, size_t thing_size, struct once__said **said, size_t count,
                size_t *capacity)
{
    size_t more = *capacity > 0 ? *capacity * 2 : 4;
    void *grown;

    if (count < *capacity)
        return ONCE_OK;
    grown = realloc(*things, more * thing_size);
    if (!grown)
        return ONCE_ERR_MEMORY;
    *things = grown;
    grown = realloc(*said, more * sizeof(**said));
    if (!grown)
        return ONCE_ERR_MEMORY;
    *said = grown;
    *capacity = more;
    return ONCE_OK;
}

static int tell_section_twice(struct once__reading *reading, const struct place *place,
                              const char *name, unsigned line)
{
    return once__config_wrong(reading, &reading->here, "[%s %s] stands twice; it began in line %u",
                              place->section, name, line);
}

static int open_namespace(struct once__reading *reading, const char *name, struct place *place)
{
    struct once__config *config = reading->config;
    const char *defect;
    void *grown = config->policies;
    int err;

    if (strcmp(name, "*") == 0) {
        if (reading->otherwise.section.line > 0)
            return tell_section_twice(reading, place, name, reading->otherwise.section.line);
        reading->otherwise.section = reading->here;
        place->index = SIZE_MAX;
        return ONCE_OK;
    }
    defect = once__config_name_defect(name);
    if (defect)
        return once__config_wrong(reading, &reading->here,
                                  "'%.80s' cannot be the name of a namespace: %s", name, defect);
    for (size_t i = 0; i < config->policy_count; i++) {
        if (strcmp(config->policies[i].name, name) == 0)
            return tell_section_twice(reading, place, name, reading->policies[i].section.line);
    }
    if (config->policy_count == ONCE_POLICIES_MAX)
        return once__config_wrong(reading, &reading->here, "more than %d namespaces",
                                  ONCE_POLICIES_MAX);
    err = grow(&grown, sizeof(*config->policies), &reading->policies, config->policy_count,
               &reading->policy_capacity);
    config->policies = grown;
    if (err != ONCE_OK)
        return err;
    place->index = config->policy_count++;
    config->policies[place->index] = (struct once__policy){.name = ""};
    snprintf(config->policies[place->index].name, sizeof(config->policies[0].name), "%s", name);
    reading->policies[place->index] = (struct once__said){.section = reading->here};
    return ONCE_OK;
}

static const char *user_defect(const char *name)
{
    if (name[0] == '\0' || strlen(name) > ONCE_USER_SIZE_MAX)
        return "it has 1 to 32 characters";
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return "it consists of letters, digits, dots, dashes and underscores";
    }
    return NULL;
}

static int open_user(struct once__reading *reading, const char *name, struct place *place)
{
    struct once__config *config = reading->config;
    const char *defect = user_defect(name);
    void *grown = config->users;
    int err;

    if (defect)
        return once__config_wrong(reading, &reading->here,
                                  "'%.80s' cannot be the name of a user: %s", name, defect);
    for (size_t i = 0; i < config->user_count; i++) {
        if (strcmp(config->users[i].name, name) == 0)
            return tell_section_twice(reading, place, name, reading->users[i].section.line);
    }
    if (config->user_count == ONCE_USERS_MAX)
        return once__config_wrong(reading, &reading->here, "more than %d users", ONCE_USERS_MAX);
    err = grow(&grown, sizeof(*config->users), &reading->users, config->user_count,
               &reading->user_capacity);
    config->users = grown;
    if (err != ONCE_OK)
        return err;
    place->index = config->user_count++;
    config->users[place->index] = (struct once__user){.role = ONCE__ROLE_WRITE};
    snprintf(config->users[place->index].name, sizeof(config->users[0].name), "%s", name);
    reading->users[place->index] = (struct once__said){.section = reading->here};
    return ONCE_OK;
}

/* "[namespace payments]". */
static int open_section(struct once__reading *reading, char *line, struct place *place)
{
    char *end = line + strlen(line) - 1, *name = line + 1;
    size_t size;

    if (*end != ']' || end == line)
        return once__config_wrong(reading, &reading->here, "the ] at the end is missing");
    *end = '\0';
    name += strspn(name, blanks);
    size = strcspn(name, blanks);
    if (size == strlen("namespace") && memcmp(name, "namespace", size) == 0)
        place->section = "namespace";
    else if (size == strlen("user") && memcmp(name, "user", size) == 0)
        place->section = "user";
    else
        return once__config_wrong(reading, &reading->here,
                                  "a section is [namespace NAME], [namespace *] or [user NAME]");
    name += size;
    name += strspn(name, blanks);
    while (end > name && strchr(blanks, end[-1]))
        *--end = '\0';
    if (strcmp(place->section, "namespace") == 0)
        return open_namespace(reading, name, place);
    return open_user(reading, name, place);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Takes blanks and a comment off the end, and blanks off the front. */
static char *trim(char *line)
{
    bool quoted = false;
    size_t size;

    line += strspn(line, blanks);
    for (char *c = line; *c; c++) {
        if (quoted && *c == '\\' && c[1] != '\0')
            c++;
        else if (*c == '"')
            quoted = !quoted;
        else if (*c == '#' && !quoted && (c == line || strchr(blanks, c[-1]))) {
            *c = '\0';
            break;
        }
    }
    size = strlen(line);
    while (size > 0 && strchr(blanks, line[size - 1]))
        line[--size] = '\0';
    return line;
}

static int read_line(struct once__reading *reading, char *line, struct place *place)
{
    struct once__said *said;
    void *target;
    char *equals, *value, *end;

    line = trim(line);
    if (line[0] == '\0')
        return ONCE_OK;
    if (line[0] == '[')
        return open_section(reading, line, place);
    equals = strchr(line, '=');
    if (!equals)
        return once__config_wrong(reading, &reading->here, "write name = value, or [section]");
    value = equals + 1 + strspn(equals + 1, blanks);
    for (end = equals; end > line && strchr(blanks, end[-1]);)
        end--;
    *end = '\0';
    if (line[0] == '\0')
        return once__config_wrong(reading, &reading->here, "write name = value, or [section]");
    if (value[0] == '\0')
        return once__config_wrong(reading, &reading->here, "%.64s is empty", line);
    target = place_target(reading, place, &said);
    return set(reading, said, place->section, target, line, value);
}

int once__config_lines(struct once__reading *reading, const char *name, struct once_bytes text)
{
    struct place place = {.section = ""};
    const uint8_t *at = text.data, *end = text.size > 0 ? text.data + text.size : at;
    int err = ONCE_OK;

    reading->here = (struct once__where){.source = ONCE__FROM_FILE, .name = name};
    while (err == ONCE_OK && at < end) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        char *line = malloc(size + 1);

        if (!line)
            return ONCE_ERR_MEMORY;
        memcpy(line, at, size);
        line[size] = '\0';
        reading->here.line++;
        for (size_t i = 0; err == ONCE_OK && i < size; i++) {
            bool last_cr = line[i] == '\r' && i + 1 == size;

            if (((uint8_t)line[i] < 0x20 && line[i] != '\t' && !last_cr) || line[i] == 0x7f)
                err = once__config_wrong(reading, &reading->here,
                                         "the line holds a control character (0x%02x)",
                                         (unsigned)(uint8_t)line[i]);
        }
        if (err == ONCE_OK)
            err = read_line(reading, line, &place);
        explicit_bzero(line, size);
        free(line);
        at += size + 1;
        if (!stop)
            break;
    }
    return err;
}

/* ---- Variables and flags --------------------------------------------------------------------- */

static int set_top(struct once__reading *reading, const char *name, const char *value)
{
    char *copy = strdup(value);
    int err;

    if (!copy)
        return ONCE_ERR_MEMORY;
    err = set(reading, &reading->top, "", reading->config, name, copy);
    free(copy);
    return err;
}

/* "ONCE_LOG_LEVEL" of "log_level". */
static const char *variable_name(struct once__reading *reading, const char *setting)
{
    char *name = reading->names[reading->name_count++];
    size_t used = (size_t)snprintf(name, sizeof(reading->names[0]), "ONCE_");

    for (; *setting && used + 1 < sizeof(reading->names[0]); setting++)
        name[used++] = (char)toupper((unsigned char)*setting);
    name[used] = '\0';
    return name;
}

/* Variables of ours that are no settings: those of clients, and those that `once run` sets. */
static const char *const other_variables[] = {"ONCE_CONFIG", "ONCE_USER",         "ONCE_PASSWORD",
                                              "ONCE_TLS_CA", "ONCE_KEY",          "ONCE_NAMESPACE",
                                              "ONCE_NGINX",  "ONCE_NGINX_MODULE", "ONCE_FENCE",
                                              "ONCE_POINT",  "ONCE_ATTEMPT",      "ONCE_DOUBT"};

/* Is ONCE_LOG_LEVEL the variable of log_level? */
static bool is_variable_of(const char *setting, const char *name, size_t size)
{
    if (size != 5 + strlen(setting))
        return false;
    for (size_t i = 5; i < size; i++) {
        if (name[i] != (char)toupper((unsigned char)setting[i - 5]))
            return false;
    }
    return true;
}

static bool is_known(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++) {
        if (strlen(other_variables[i]) == size && memcmp(other_variables[i], name, size) == 0)
            return true;
    }
    for (size_t i = 0; i < once__setting_count; i++) {
        if (once__settings[i].section[0] == '\0' &&
            is_variable_of(once__settings[i].name, name, size))
            return true;
    }
    return false;
}

static int warn_variable(struct once__config *config, const char *name, size_t size)
{
    int shown = (int)(size < NAME_SHOWN ? size : NAME_SHOWN);
    char setting[NAME_SHOWN] = "";
    const char *near;

    for (size_t i = 5; i < (size_t)shown && i < size; i++)
        setting[i - 5] = (char)tolower((unsigned char)name[i]);
    near = nearest("", setting);
    if (near)
        return once__config_warn(config, "the variable %.*s is no setting; did you mean '%s'?",
                                 shown, name, near);
    return once__config_warn(config,
                             "the variable %.*s is no setting; once serve --help-settings has "
                             "their names",
                             shown, name);
}

/* A setting with a slip in its name would be no setting, and nobody would know. */
static int warn_unknown(struct once__reading *reading, char *const *environment)
{
    for (; *environment; environment++) {
        size_t size = strcspn(*environment, "=");

        if (strncmp(*environment, "ONCE_", 5) != 0 || is_known(*environment, size))
            continue;
        return warn_variable(reading->config, *environment, size);
    }
    return ONCE_OK;
}

int once__config_variables(struct once__reading *reading, char *const *environment)
{
    for (size_t i = 0; i < once__setting_count; i++) {
        const char *name;
        size_t size;
        int err = ONCE_OK;

        if (once__settings[i].section[0] != '\0')
            continue;
        name = variable_name(reading, once__settings[i].name);
        size = strlen(name);
        reading->here = (struct once__where){.source = ONCE__FROM_ENVIRONMENT, .name = name};
        for (char *const *variable = environment; *variable; variable++) {
            if (strncmp(*variable, name, size) != 0 || (*variable)[size] != '=')
                continue;
            if ((*variable)[size + 1] != '\0') /* an empty variable is none */
                err = set_top(reading, once__settings[i].name, *variable + size + 1);
            break;
        }
        if (err != ONCE_OK)
            return err;
    }
    return warn_unknown(reading, environment);
}

int once__config_flags(struct once__reading *reading, const struct once__setting *flags,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int err;

        reading->here = (struct once__where){.source = ONCE__FROM_FLAG, .name = flags[i].from};
        if (flags[i].value[0] == '\0')
            return once__config_wrong(reading, &reading->here, "the value is empty");
        err = set_top(reading, flags[i].name, flags[i].value);
        if (err != ONCE_OK)
            return err;
    }
    return ONCE_OK;
}
