/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer as bytes, as it is kept in the store, and back:
 *
 *     once http 1 201 1234            version, status, bytes of body; "-1234": they were not kept
 *     Content-Type: application/json  headers, as the upstream gave them
 *
 *     {…}                             the body
 *
 * Lines end with a newline. "Location (path)" is one of which nginx makes an address for each
 * client. What belongs to a connection or to a moment (Date, Server, Connection, …) is not kept:
 * nginx writes it anew. Where the body is not kept, the first line is all of it: so much the store
 * takes always.
 */
#include "gate.h"

static const char *const not_kept[] = {"connection",
                                       "keep-alive",
                                       "proxy-authenticate",
                                       "trailer",
                                       "transfer-encoding",
                                       "upgrade",
                                       "content-length",
                                       "date",
                                       "server",
                                       "accept-ranges",
                                       "te",
                                       "proxy-connection"};

static const ngx_str_t path_name = ngx_string("Location (path)");

static bool is_kept(const ngx_str_t *name)
{
    for (size_t i = 0; i < sizeof(not_kept) / sizeof(not_kept[0]); i++) {
        if (name->len == ngx_strlen(not_kept[i]) &&
            ngx_strncasecmp(name->data, (u_char *)not_kept[i], name->len) == 0)
            return false;
    }
    return true;
}

/* Content-Type whole: nginx keeps the charset apart, and writes it behind. False: no memory. */
static bool type_of(ngx_http_request_t *r, ngx_str_t *ret_type)
{
    static const ngx_str_t words = ngx_string("; charset=");
    const ngx_str_t *type = &r->headers_out.content_type, *charset = &r->headers_out.charset;
    u_char *p;

    *ret_type = *type;
    if (type->len == 0 || charset->len == 0 || r->headers_out.content_type_len != type->len)
        return true;
    ret_type->len += words.len + charset->len;
    ret_type->data = p = ngx_pnalloc(r->pool, ret_type->len);
    if (!p)
        return false;
    p = ngx_cpymem(p, type->data, type->len);
    p = ngx_cpymem(p, words.data, words.len);
    ngx_memcpy(p, charset->data, charset->len);
    return true;
}

/* Calls each for every header of the answer that is kept. */
static void each_header(ngx_http_request_t *r, const ngx_str_t *type,
                        void (*each)(void *user, const ngx_str_t *name, const ngx_str_t *value),
                        void *user)
{
    static const ngx_str_t type_name = ngx_string("Content-Type");
    const ngx_list_part_t *part = &r->headers_out.headers.part;

    if (type->len > 0)
        each(user, &type_name, type);
    for (; part; part = part->next) {
        const ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++) {
            const ngx_str_t *name = &headers[i].key;

            if (headers[i].hash != 0 && is_kept(name))
                each(user, &headers[i] == r->headers_out.location ? &path_name : name,
                     &headers[i].value);
        }
    }
}

static void add_size(void *user, const ngx_str_t *name, const ngx_str_t *value)
{
    *(size_t *)user += name->len + value->len + 3;
}

static void add_line(void *user, const ngx_str_t *name, const ngx_str_t *value)
{
    u_char **p = user;

    *p = ngx_cpymem(*p, name->data, name->len);
    *p = ngx_cpymem(*p, ": ", 2);
    *p = ngx_cpymem(*p, value->data, value->len);
    *(*p)++ = '\n';
}

bool gate_kept_write(ngx_http_request_t *r, const ngx_chain_t *body, size_t body_size, bool lost,
                     struct once_bytes *ret_bytes)
{
    size_t size = 64 + (lost ? 0 : body_size);
    u_char *bytes, *p;
    ngx_str_t type;

    if (!type_of(r, &type))
        return false;
    if (!lost)
        each_header(r, &type, add_size, &size);
    bytes = p = ngx_pnalloc(r->pool, size);
    if (!bytes)
        return false;
    p = ngx_sprintf(p, "once http 1 %ui %s%uz\n", r->headers_out.status, lost ? "-" : "",
                    body_size);
    if (!lost)
        each_header(r, &type, add_line, &p);
    *p++ = '\n';
    for (; !lost && body; body = body->next) {
        if (body->buf->last > body->buf->pos) /* the end of an answer has no bytes at all */
            p = ngx_cpymem(p, body->buf->pos, (size_t)(body->buf->last - body->buf->pos));
    }
    *ret_bytes = (struct once_bytes){bytes, (size_t)(p - bytes)};
    return true;
}

/* ---- Back ------------------------------------------------------------------------------------ */

/* The next line, without its end; false: there is none. */
static bool next_line(struct once_bytes *bytes, struct once_bytes *ret_line)
{
    const u_char *end = bytes->size > 0 ? memchr(bytes->data, '\n', bytes->size) : NULL;

    if (!end)
        return false;
    *ret_line = (struct once_bytes){bytes->data, (size_t)(end - bytes->data)};
    bytes->data += ret_line->size + 1;
    bytes->size -= ret_line->size + 1;
    return true;
}

/* The charset apart, as nginx has it, so that the filters behind see what they saw first. */
static void set_type(ngx_http_request_t *r, ngx_str_t type)
{
    static const char charset[] = "charset=";
    u_char *end = type.data + type.len, *p = ngx_strlchr(type.data, end, ';');

    r->headers_out.content_type = type;
    r->headers_out.content_type_len = type.len;
    r->headers_out.content_type_lowcase = NULL;
    for (; p; p = ngx_strlchr(p, end, ';')) {
        u_char *semicolon = p++;

        while (p < end && *p == ' ')
            p++;
        if ((size_t)(end - p) < sizeof(charset) - 1 ||
            ngx_strncasecmp(p, (u_char *)charset, sizeof(charset) - 1) != 0)
            continue;
        p += sizeof(charset) - 1;
        if (p < end && *p == '"')
            p++;
        if (end > p && end[-1] == '"')
            end--;
        r->headers_out.content_type_len = (size_t)(semicolon - type.data);
        r->headers_out.charset.data = p;
        r->headers_out.charset.len = (size_t)(end - p);
        return;
    }
}

static bool is_named(const ngx_table_elt_t *header, const char *name)
{
    return header->key.len == ngx_strlen(name) &&
           ngx_strncasecmp(header->key.data, (u_char *)name, header->key.len) == 0;
}

/* There may be several of them; nginx has changed how it holds them. */
static bool introduce_cache_control(ngx_http_request_t *r, ngx_table_elt_t *header)
{
#if nginx_version >= 1023000
    ngx_table_elt_t **last = &r->headers_out.cache_control;

    while (*last)
        last = &(*last)->next;
    *last = header;
    return true;
#else
    ngx_array_t *list = &r->headers_out.cache_control;
    ngx_table_elt_t **entry;

    if (!list->elts && ngx_array_init(list, r->pool, 2, sizeof(header)) != NGX_OK)
        return false;
    entry = ngx_array_push(list);
    if (entry)
        *entry = header;
    return entry != NULL;
#endif
}

/* The filters behind look for these in places of their own: expires replaces what is there, gzip
 * does not pack twice, sub_filter takes away what is not true any more. */
static bool introduce(ngx_http_request_t *r, ngx_table_elt_t *header)
{
    if (is_named(header, "Content-Encoding"))
        r->headers_out.content_encoding = header;
    else if (is_named(header, "ETag"))
        r->headers_out.etag = header;
    else if (is_named(header, "Expires"))
        r->headers_out.expires = header;
    else if (is_named(header, "Last-Modified"))
        r->headers_out.last_modified = header;
    else if (is_named(header, "Cache-Control"))
        return introduce_cache_control(r, header);
    return true;
}

static bool read_header(ngx_http_request_t *r, struct once_bytes line)
{
    const u_char *colon = memchr(line.data, ':', line.size);
    size_t name_size, value_size;
    ngx_table_elt_t *header;
    u_char *copy;

    if (!colon || colon == line.data || (size_t)(colon - line.data) + 2 > line.size)
        return false;
    name_size = (size_t)(colon - line.data);
    value_size = line.size - name_size - 2;
    copy = ngx_pnalloc(r->pool, line.size + 1);
    if (!copy)
        return false;
    ngx_memcpy(copy, line.data, line.size);
    if (name_size == 12 && ngx_strncasecmp(copy, (u_char *)"content-type", 12) == 0) {
        set_type(r, (ngx_str_t){.data = copy + name_size + 2, .len = value_size});
        return true;
    }
    header = ngx_list_push(&r->headers_out.headers);
    if (!header)
        return false;
    ngx_memzero(header, sizeof(*header));
    header->hash = 1;
    header->key.data = copy;
    header->key.len = name_size;
    header->value.data = copy + name_size + 2;
    header->value.len = value_size;
    if (name_size == path_name.len && ngx_memcmp(copy, path_name.data, name_size) == 0) {
        r->headers_out.location = header;
        header->key.len = sizeof("Location") - 1;
    }
    return introduce(r, header);
}

bool gate_kept_read(ngx_http_request_t *r, struct once_bytes bytes, struct once_bytes *ret_body,
                    bool *ret_lost)
{
    static const char head[] = "once http 1 ";
    struct once_bytes line;
    ngx_int_t status;
    bool lost;

    if (!next_line(&bytes, &line) || line.size < sizeof(head) + 4 ||
        ngx_memcmp(line.data, head, sizeof(head) - 1) != 0)
        return false;
    status = ngx_atoi((u_char *)line.data + sizeof(head) - 1, 3);
    lost = line.data[sizeof(head) + 3] == '-';
    if (status < 200 || status > 599 || line.data[sizeof(head) + 2] != ' ')
        return false;
    for (;;) {
        if (!next_line(&bytes, &line))
            return false;
        if (line.size == 0)
            break;
        if (!read_header(r, line))
            return false;
    }
    r->headers_out.status = (ngx_uint_t)status;
    *ret_body = bytes;
    *ret_lost = lost;
    return true;
}
