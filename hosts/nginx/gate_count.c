/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of all workers, in shared memory that a reload keeps, and the location that shows them
 * as Prometheus text.
 */
#include "gate.h"

enum { ZONE_SIZE = 65536, TEXT_SIZE = 8192 };

struct counts {
    ngx_atomic_t values[GATE_COUNT_COUNT];
};

static ngx_int_t init_zone(ngx_shm_zone_t *zone, void *old)
{
    ngx_slab_pool_t *pool = (ngx_slab_pool_t *)zone->shm.addr;

    if (old) {
        zone->data = old;
        return NGX_OK;
    }
    if (zone->shm.exists) {
        zone->data = pool->data;
        return NGX_OK;
    }
    zone->data = pool->data = ngx_slab_calloc(pool, sizeof(struct counts));
    return zone->data ? NGX_OK : NGX_ERROR;
}

char *gate_count_zone(ngx_conf_t *cf, struct gate_main_conf *conf)
{
    static ngx_str_t name = ngx_string("once_counts");

    if (conf->counts)
        return NGX_CONF_OK;
    conf->counts = ngx_shared_memory_add(cf, &name, ZONE_SIZE, &ngx_http_once_module);
    if (!conf->counts)
        return NGX_CONF_ERROR;
    conf->counts->init = init_zone;
    return NGX_CONF_OK;
}

static struct counts *counts_of(ngx_http_request_t *r)
{
    struct gate_main_conf *conf = ngx_http_get_module_main_conf(r, ngx_http_once_module);

    return conf->counts ? conf->counts->data : NULL;
}

void gate_count(ngx_http_request_t *r, enum gate_count which)
{
    struct counts *counts = r ? counts_of(r) : NULL;

    if (counts)
        (void)ngx_atomic_fetch_add(&counts->values[which], 1);
}

static ngx_int_t show(ngx_http_request_t *r)
{
    static const struct {
        const char *name, *help;
    } texts[] = {
#define GATE_COUNT_TEXT(name, help) {#name, help},
        GATE_COUNTS(GATE_COUNT_TEXT)
#undef GATE_COUNT_TEXT
    };
    const struct counts *counts = counts_of(r);
    ngx_buf_t *buf = ngx_create_temp_buf(r->pool, TEXT_SIZE);
    ngx_chain_t out = {.buf = buf, .next = NULL};
    ngx_int_t rc;

    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)))
        return NGX_HTTP_NOT_ALLOWED;
    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK)
        return rc;
    if (!buf)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    for (size_t i = 0; i < GATE_COUNT_COUNT; i++)
        buf->last = ngx_slprintf(buf->last, buf->end,
                                 "# HELP once_gateway_%s_total %s\n"
                                 "# TYPE once_gateway_%s_total counter\n"
                                 "once_gateway_%s_total %uA\n",
                                 texts[i].name, texts[i].help, texts[i].name, texts[i].name,
                                 counts ? counts->values[i] : 0);
    buf->last_buf = 1;
    buf->last_in_chain = 1;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = buf->last - buf->pos;
    ngx_str_set(&r->headers_out.content_type, "text/plain; version=0.0.4");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only)
        return rc;
    return ngx_http_output_filter(r, &out);
}

char *gate_count_location(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    ngx_http_core_loc_conf_t *location = ngx_http_conf_get_module_loc_conf(cf,
                                                                           ngx_http_core_module);

    (void)command;
    (void)conf;
    location->handler = show;
    return gate_count_zone(cf, ngx_http_conf_get_module_main_conf(cf, ngx_http_once_module));
}
