/* SPDX-License-Identifier: Apache-2.0
 *
 * The module as nginx sees it: where it stands in the phases and filters, and its variables.
 */
#include "gate.h"

#include "base/sha256.h"

/* ---- Variables ------------------------------------------------------------------------------- */

enum { VARIABLE_VERDICT, VARIABLE_KEY, VARIABLE_FENCE, VARIABLE_MS };

static ngx_int_t set_text(ngx_http_variable_value_t *value, const u_char *text, size_t size)
{
    value->valid = 1;
    value->no_cacheable = 1;
    value->not_found = 0;
    value->data = (u_char *)text;
    value->len = (unsigned)size;
    return NGX_OK;
}

static ngx_int_t set_number(ngx_http_request_t *r, ngx_http_variable_value_t *value,
                            uint64_t number)
{
    u_char *text = ngx_pnalloc(r->pool, 24);

    if (!text)
        return NGX_ERROR;
    return set_text(value, text, (size_t)(ngx_sprintf(text, "%uL", number) - text));
}

static ngx_int_t get_variable(ngx_http_request_t *r, ngx_http_variable_value_t *value,
                              uintptr_t which)
{
    struct gate_ctx *ctx = gate_ctx_of(r->main);

    value->not_found = 1;
    if (!ctx)
        return NGX_OK;
    switch (which) {
    case VARIABLE_VERDICT:
        if (ctx->verdict)
            return set_text(value, (const u_char *)ctx->verdict, ngx_strlen(ctx->verdict));
        return NGX_OK;
    case VARIABLE_KEY:
        return set_text(value, (const u_char *)ctx->op->key.text, ctx->op->key.size);
    case VARIABLE_FENCE:
        return ctx->op->fence > 0 ? set_number(r, value, ctx->op->fence) : NGX_OK;
    default:
        return set_number(r, value, ctx->spent_ms);
    }
}

static ngx_http_variable_t variables[] = {
    {ngx_string("once_verdict"), NULL, get_variable, VARIABLE_VERDICT, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("once_key"), NULL, get_variable, VARIABLE_KEY, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("once_fence"), NULL, get_variable, VARIABLE_FENCE, NGX_HTTP_VAR_NOCACHEABLE, 0},
    {ngx_string("once_ms"), NULL, get_variable, VARIABLE_MS, NGX_HTTP_VAR_NOCACHEABLE, 0},
    ngx_http_null_variable};

static ngx_int_t add_variables(ngx_conf_t *cf)
{
    for (ngx_http_variable_t *known = variables; known->name.len > 0; known++) {
        ngx_http_variable_t *added = ngx_http_add_variable(cf, &known->name, known->flags);

        if (!added)
            return NGX_ERROR;
        added->get_handler = known->get_handler;
        added->data = known->data;
    }
    return NGX_OK;
}

/* ---- The module ------------------------------------------------------------------------------ */

static ngx_int_t install(ngx_conf_t *cf)
{
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    ngx_http_handler_pt *handler = ngx_array_push(
        &core->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);

    if (!handler)
        return NGX_ERROR;
    *handler = gate_path_handler;
    return gate_filter_init(cf);
}

/* nginx unloads the module when a worker ends, and then nobody knows any more what it has kept. */
static void worker_ends(ngx_cycle_t *cycle)
{
    (void)cycle;
    once__sha256_forget();
}

static ngx_http_module_t gate_hooks = {
    .preconfiguration = add_variables,
    .postconfiguration = install,
    .create_main_conf = gate_conf_create_main,
    .create_loc_conf = gate_conf_create,
    .merge_loc_conf = gate_conf_merge,
};

ngx_module_t ngx_http_once_module = {
    NGX_MODULE_V1, &gate_hooks, gate_commands, NGX_HTTP_MODULE, NULL, NULL,
    NULL,          NULL,        NULL,          worker_ends,     NULL, NGX_MODULE_V1_PADDING};
