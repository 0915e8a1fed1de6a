/* SPDX-License-Identifier: Apache-2.0
 *
 * The directives, and what must be so around them: a location with the gateway does not give up
 * its upstream when the client goes, and does not repeat a request that was sent.
 */
#include "gate.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static ngx_conf_enum_t modes[] = {{ngx_string("off"), GATE_OFF},
                                  {ngx_string("on"), GATE_ON},
                                  {ngx_string("require"), GATE_REQUIRE},
                                  {ngx_null_string, 0}};
static ngx_conf_enum_t on_5xx_words[] = {{ngx_string("default"), ONCE_ON_5XX_DEFAULT},
                                         {ngx_string("release"), ONCE_ON_5XX_RELEASE},
                                         {ngx_string("store"), ONCE_ON_5XX_STORE},
                                         {ngx_string("doubt"), ONCE_ON_5XX_DOUBT},
                                         {ngx_null_string, 0}};
static ngx_conf_enum_t doubt_words[] = {{ngx_string("reject"), ONCE_ON_DOUBT_REJECT},
                                        {ngx_string("retry"), ONCE_ON_DOUBT_RETRY},
                                        {ngx_null_string, 0}};
static ngx_conf_enum_t profiles[] = {
    {ngx_string("ietf"), GATE_IETF}, {ngx_string("stripe"), GATE_STRIPE}, {ngx_null_string, 0}};
static ngx_conf_enum_t fail_words[] = {
    {ngx_string("closed"), 0}, {ngx_string("open"), 1}, {ngx_null_string, 0}};

/* HEAD has no body to keep, CONNECT and TRACE never reach an upstream. */
static ngx_conf_bitmask_t methods[] = {
    {ngx_string("GET"), NGX_HTTP_GET},       {ngx_string("PUT"), NGX_HTTP_PUT},
    {ngx_string("POST"), NGX_HTTP_POST},     {ngx_string("PATCH"), NGX_HTTP_PATCH},
    {ngx_string("DELETE"), NGX_HTTP_DELETE}, {ngx_null_string, 0}};

/* ---- once_server ----------------------------------------------------------------------------- */

/* A secret in a file, its last newline left out. */
static char *read_password(ngx_conf_t *cf, ngx_str_t path, ngx_str_t *ret_password)
{
    u_char bytes[ONCE_PASSWORD_SIZE_MAX + 2];
    ngx_fd_t fd;
    ssize_t n;

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK)
        return NGX_CONF_ERROR;
    fd = ngx_open_file(path.data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno, "password_file \"%V\" cannot be read",
                           &path);
        return NGX_CONF_ERROR;
    }
    n = ngx_read_fd(fd, bytes, sizeof(bytes));
    (void)ngx_close_file(fd);
    while (n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
        n--;
    if (n <= 0 || n > ONCE_PASSWORD_SIZE_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "password_file \"%V\" is empty or too long",
                           &path);
        return NGX_CONF_ERROR;
    }
    ret_password->data = ngx_pnalloc(cf->pool, (size_t)n);
    if (!ret_password->data)
        return NGX_CONF_ERROR;
    ngx_memcpy(ret_password->data, bytes, (size_t)n);
    ret_password->len = (size_t)n;
    ngx_explicit_memzero(bytes, sizeof(bytes));
    return NGX_CONF_OK;
}

/* name=value */
static char *read_parameter(ngx_conf_t *cf, struct gate_server *server, ngx_str_t *parameter)
{
    u_char *equals = ngx_strlchr(parameter->data, parameter->data + parameter->len, '=');
    ngx_str_t name = *parameter, value = ngx_null_string;
    ngx_int_t number;

    if (equals) {
        name.len = (size_t)(equals - parameter->data);
        value.data = equals + 1;
        value.len = parameter->len - name.len - 1;
    }
#define IS(text) (name.len == sizeof(text) - 1 && ngx_strncmp(name.data, text, name.len) == 0)
    if (value.len > 0 && IS("user")) {
        server->user = value;
        return NGX_CONF_OK;
    }
    if (value.len > 0 && IS("password_file"))
        return read_password(cf, value, &server->password);
    if (IS("connections") && (number = ngx_atoi(value.data, value.len)) >= 1 &&
        number <= ONCE_GATE_LINKS_MAX) {
        server->link_count = (ngx_uint_t)number;
        return NGX_CONF_OK;
    }
    if (IS("timeout") && (number = ngx_parse_time(&value, 0)) > 0) {
        server->begin_ms = (ngx_msec_t)number;
        return NGX_CONF_OK;
    }
    if (IS("end_timeout") && (number = ngx_parse_time(&value, 0)) > 0) {
        server->end_ms = (ngx_msec_t)number;
        return NGX_CONF_OK;
    }
#undef IS
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" is no parameter of once_server: user=NAME password_file=PATH "
                       "connections=1..64 timeout=TIME end_timeout=TIME",
                       parameter);
    return NGX_CONF_ERROR;
}

static char *set_server(ngx_conf_t *cf, ngx_command_t *command, void *data)
{
    struct gate_conf *conf = data;
    ngx_str_t *values = cf->args->elts;
    struct gate_server *server;
    ngx_url_t url = {.url = values[1], .default_port = 7411};

    (void)command;
    if (conf->server != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    server = ngx_pcalloc(cf->pool, sizeof(*server));
    if (!server)
        return NGX_CONF_ERROR;
    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "once_server \"%V\": %s", &url.url,
                           url.err ? url.err : "no address");
        return NGX_CONF_ERROR;
    }
    server->name = values[1];
    server->addrs = url.addrs;
    server->addr_count = url.naddrs;
    server->link_count = ONCE_GATE_LINKS_DEFAULT;
    server->begin_ms = ONCE_GATE_BEGIN_MS_DEFAULT;
    server->end_ms = ONCE_GATE_END_MS_DEFAULT;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        if (read_parameter(cf, server, &values[i]) != NGX_CONF_OK)
            return NGX_CONF_ERROR;
    }
    if ((server->user.len > 0) != (server->password.len > 0)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "user and password_file belong together");
        return NGX_CONF_ERROR;
    }
    conf->server = server;
    return NGX_CONF_OK;
}

/* once_fingerprint raw|json [header …] */
static char *set_fingerprint(ngx_conf_t *cf, ngx_command_t *command, void *data)
{
    struct gate_conf *conf = data;
    ngx_str_t *values = cf->args->elts;

    (void)command;
    if (conf->body_form != NGX_CONF_UNSET_UINT)
        return "is duplicate";
    if (ngx_strcmp(values[1].data, "raw") == 0)
        conf->body_form = ONCE_BODY_RAW;
    else if (ngx_strcmp(values[1].data, "json") == 0)
        conf->body_form = ONCE_BODY_JSON;
    else
        return "begins with raw or json: how the body counts; then come the headers that do";
    conf->fp_headers = ngx_array_create(cf->pool, cf->args->nelts, sizeof(ngx_str_t));
    if (!conf->fp_headers)
        return NGX_CONF_ERROR;
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++)
        *(ngx_str_t *)ngx_array_push(conf->fp_headers) = values[i];
    return NGX_CONF_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define EVERYWHERE (NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF)
#define AT(member) NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct gate_conf, member)

ngx_command_t gate_commands[] = {
    {ngx_string("once"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(mode), modes},
    {ngx_string("once_server"), EVERYWHERE | NGX_CONF_1MORE, set_server, AT(server), NULL},
    {ngx_string("once_namespace"), EVERYWHERE | NGX_CONF_TAKE1, ngx_http_set_complex_value_slot,
     AT(ns), NULL},
    {ngx_string("once_scope"), EVERYWHERE | NGX_CONF_TAKE1, ngx_http_set_complex_value_slot,
     AT(scope), NULL},
    {ngx_string("once_methods"), EVERYWHERE | NGX_CONF_1MORE, ngx_conf_set_bitmask_slot,
     AT(methods), methods},
    {ngx_string("once_ttl"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_msec_slot, AT(ttl), NULL},
    {ngx_string("once_lease"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_msec_slot, AT(lease),
     NULL},
    {ngx_string("once_wait"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_msec_slot, AT(wait), NULL},
    {ngx_string("once_on_5xx"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(on_5xx),
     on_5xx_words},
    {ngx_string("once_doubt"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(doubt),
     doubt_words},
    {ngx_string("once_profile"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(profile),
     profiles},
    {ngx_string("once_fingerprint"), EVERYWHERE | NGX_CONF_1MORE, set_fingerprint, AT(body_form),
     NULL},
    {ngx_string("once_max_body"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_size_slot, AT(body_max),
     NULL},
    {ngx_string("once_max_answer"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_size_slot,
     AT(answer_max), NULL},
    {ngx_string("once_fail"), EVERYWHERE | NGX_CONF_TAKE1, ngx_conf_set_enum_slot, AT(fail_open),
     fail_words},
    {ngx_string("once_status"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, gate_count_location, 0, 0,
     NULL},
    ngx_null_command};

/* ---- Merging --------------------------------------------------------------------------------- */

void *gate_conf_create_main(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(struct gate_main_conf));
}

void *gate_conf_create(ngx_conf_t *cf)
{
    struct gate_conf *conf = ngx_pcalloc(cf->pool, sizeof(*conf));

    if (!conf)
        return NULL;
    conf->mode = NGX_CONF_UNSET_UINT;
    conf->server = NGX_CONF_UNSET_PTR;
    conf->ns = NGX_CONF_UNSET_PTR;
    conf->scope = NGX_CONF_UNSET_PTR;
    conf->ttl = conf->lease = conf->wait = NGX_CONF_UNSET_MSEC;
    conf->on_5xx = conf->doubt = conf->profile = conf->fail_open = NGX_CONF_UNSET_UINT;
    conf->body_form = NGX_CONF_UNSET_UINT;
    conf->fp_headers = NGX_CONF_UNSET_PTR;
    conf->body_max = conf->answer_max = NGX_CONF_UNSET_SIZE;
    return conf;
}

/* The part that the modules which call an upstream have in common is the first of their own. */
static ngx_http_upstream_conf_t *upstream_of(ngx_module_t **modules, void **locations,
                                             const char *name)
{
    for (; *modules; modules++) {
        if ((*modules)->type == NGX_HTTP_MODULE && ngx_strcmp((*modules)->name, name) == 0)
            return locations[(*modules)->ctx_index];
    }
    return NULL;
}

static const char *const upstream_modules[] = {"ngx_http_proxy_module", "ngx_http_fastcgi_module",
                                               "ngx_http_uwsgi_module", "ngx_http_scgi_module",
                                               "ngx_http_grpc_module"};
enum { UPSTREAM_MODULES = sizeof(upstream_modules) / sizeof(upstream_modules[0]) };

/* A client that goes must not end the call of the upstream, and a request that was sent must not be
 * sent to the next: both would make a known outcome unknown, or a single effect two. */
static void guard(ngx_http_upstream_conf_t *upstream, const struct gate_conf *conf)
{
    upstream->ignore_client_abort = 1;
    upstream->next_upstream &= ~(ngx_uint_t)NGX_HTTP_UPSTREAM_FT_NON_IDEMPOTENT;
    /* nginx itself repeats other methods also after they were sent. */
    if (conf->methods & (NGX_HTTP_GET | NGX_HTTP_PUT | NGX_HTTP_DELETE))
        upstream->next_upstream = NGX_CONF_BITMASK_SET | NGX_HTTP_UPSTREAM_FT_OFF;
#if (NGX_HTTP_CACHE)
    /* nginx's cache would give a new key the answer of another. */
    upstream->cache_methods &= ~conf->methods;
#endif
}

static char *guard_upstreams(ngx_conf_t *cf, const struct gate_conf *conf)
{
    void **locations = ((ngx_http_conf_ctx_t *)cf->ctx)->loc_conf;

    for (size_t i = 0; i < UPSTREAM_MODULES; i++) {
        ngx_http_upstream_conf_t *upstream = upstream_of(cf->cycle->modules, locations,
                                                         upstream_modules[i]);

        if (!upstream)
            continue;
        if (upstream->next_upstream & NGX_HTTP_UPSTREAM_FT_NON_IDEMPOTENT &&
            !(upstream->next_upstream & NGX_CONF_BITMASK_SET &&
              upstream->next_upstream == (NGX_CONF_BITMASK_SET | NGX_HTTP_UPSTREAM_FT_OFF))) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "once: next_upstream \"non_idempotent\" would repeat a request "
                               "whose outcome is not known; leave it out");
            return NGX_CONF_ERROR;
        }
        guard(upstream, conf);
    }
    return NGX_CONF_OK;
}

void gate_conf_guard(ngx_http_request_t *r, const struct gate_conf *conf)
{
    for (size_t i = 0; i < UPSTREAM_MODULES; i++) {
        ngx_http_upstream_conf_t *upstream = upstream_of(ngx_cycle->modules, r->loc_conf,
                                                         upstream_modules[i]);

        if (upstream)
            guard(upstream, conf);
    }
}

/* Of a namespace without variables; one with them is looked at when a request comes. */
static const char *check_namespace(const struct gate_conf *conf)
{
    const ngx_str_t *ns = &conf->ns->value;
    struct once_defect defect;

    if (conf->ns->lengths)
        return NULL;
    if (conf->scope && ns->len > ONCE_NAMESPACE_SIZE_MAX - GATE_SCOPE_ROOM)
        return "it is too long for a scope";
    if (once_namespace_check((struct once_bytes){ns->data, ns->len}, &defect) != ONCE_OK)
        return defect.what;
    return NULL;
}

static char *check(ngx_conf_t *cf, const struct gate_conf *conf)
{
    const char *what = check_namespace(conf);

    if (what) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "once_namespace \"%V\": %s", &conf->ns->value,
                           what);
        return NGX_CONF_ERROR;
    }
    if (!conf->server)
        what = "once needs once_server: where the server of Once is";
    else if (conf->ttl < 1 || conf->ttl > (ngx_msec_t)ONCE_RETENTION_MS_MAX)
        what = "once_ttl is from 1 ms to 10 years";
    else if (conf->lease < 1000 || conf->lease > (ngx_msec_t)ONCE_LEASE_MS_MAX)
        what = "once_lease is from 1 s to 7 days";
    else if (conf->wait > (ngx_msec_t)ONCE_WAIT_MS_MAX)
        what = "once_wait is at most one hour";
    else if (conf->answer_max > ONCE_GATE_ANSWER_SIZE_MAX)
        what = "once_max_answer is at most 15m";
    if (!what)
        return NGX_CONF_OK;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", what);
    return NGX_CONF_ERROR;
}

static char *default_namespace(ngx_conf_t *cf, struct gate_conf *conf)
{
    static ngx_str_t http = ngx_string("http");
    ngx_http_compile_complex_value_t compile = {.cf = cf, .value = &http};

    if (conf->ns)
        return NGX_CONF_OK;
    conf->ns = ngx_pcalloc(cf->pool, sizeof(*conf->ns));
    if (!conf->ns)
        return NGX_CONF_ERROR;
    compile.complex_value = conf->ns;
    return ngx_http_compile_complex_value(&compile) == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}

char *gate_conf_merge(ngx_conf_t *cf, void *parent, void *child)
{
    struct gate_conf *from = parent, *conf = child;

    ngx_conf_merge_uint_value(conf->mode, from->mode, GATE_OFF);
    ngx_conf_merge_ptr_value(conf->server, from->server, NULL);
    ngx_conf_merge_ptr_value(conf->ns, from->ns, NULL);
    ngx_conf_merge_ptr_value(conf->scope, from->scope, NULL);
    ngx_conf_merge_bitmask_value(conf->methods, from->methods,
                                 NGX_CONF_BITMASK_SET | NGX_HTTP_POST | NGX_HTTP_PATCH);
    conf->methods &= ~(ngx_uint_t)NGX_CONF_BITMASK_SET; /* the same bit as NGX_HTTP_UNKNOWN */
    ngx_conf_merge_msec_value(conf->ttl, from->ttl, (ngx_msec_t)ONCE_RETENTION_MS_DEFAULT);
    ngx_conf_merge_msec_value(conf->lease, from->lease, (ngx_msec_t)ONCE_LEASE_MS_DEFAULT);
    ngx_conf_merge_msec_value(conf->wait, from->wait, 0);
    ngx_conf_merge_uint_value(conf->on_5xx, from->on_5xx, ONCE_ON_5XX_DEFAULT);
    ngx_conf_merge_uint_value(conf->doubt, from->doubt, ONCE_ON_DOUBT_REJECT);
    ngx_conf_merge_uint_value(conf->profile, from->profile, GATE_IETF);
    ngx_conf_merge_uint_value(conf->body_form, from->body_form, ONCE_BODY_RAW);
    ngx_conf_merge_ptr_value(conf->fp_headers, from->fp_headers, NULL);
    ngx_conf_merge_size_value(conf->body_max, from->body_max, ONCE_GATE_BODY_SIZE_DEFAULT);
    ngx_conf_merge_size_value(conf->answer_max, from->answer_max, ONCE_GATE_ANSWER_SIZE_DEFAULT);
    ngx_conf_merge_uint_value(conf->fail_open, from->fail_open, 0);
    if (conf->mode == GATE_OFF)
        return NGX_CONF_OK;
    if (default_namespace(cf, conf) != NGX_CONF_OK || check(cf, conf) != NGX_CONF_OK)
        return NGX_CONF_ERROR;
    if (gate_count_zone(cf, ngx_http_conf_get_module_main_conf(cf, ngx_http_once_module)) !=
        NGX_CONF_OK)
        return NGX_CONF_ERROR;
    return guard_upstreams(cf, conf);
}
