/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes nginx.conf. With a folder: what this run needs, and nothing of nginx's is left in its
 * usual places. Without: the same for a set-up of one's own, as Debian has it.
 */
#include <unistd.h>

#include "cli/gateway.h"

enum { CONNECTIONS = 4096, KEEPALIVE = 32 };

/* ---- Pieces ---------------------------------------------------------------------------------- */

static void write_head(FILE *out, const struct gateway_args *args,
                       const struct gateway_places *places)
{
    if (!places->folder)
        fputs("# A start for a set-up of your own; docs/gateway.md has every directive.\n", out);
    fprintf(out, "load_module \"%s\";\n", places->module);
    if (args->workers > 0)
        fprintf(out, "worker_processes %llu;\n", (unsigned long long)args->workers);
    else
        fputs("worker_processes auto;\n", out);
    if (places->folder) {
        fprintf(out,
                "daemon off;\n"
                "pid \"%s/nginx.pid\";\n"
                "lock_file \"%s/nginx.lock\";\n"
                "error_log stderr warn;\n",
                places->folder, places->folder);
        /* As root its workers would become nobody, who may not open the server's socket. */
        if (geteuid() == 0)
            fputs("user root;\n", out);
    } else {
        fputs("# Its workers must be allowed to open the socket of once_server.\n"
              "user www-data;\n"
              "error_log /var/log/nginx/error.log warn;\n"
              "pid /run/nginx.pid;\n",
              out);
    }
    fprintf(out, "events {\n    worker_connections %d;\n}\n", CONNECTIONS);
}

static void write_places(FILE *out, const struct gateway_places *places)
{
    static const char *const kinds[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};

    for (size_t i = 0; places->folder && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        fprintf(out, "    %s_temp_path \"%s/%s\";\n", kinds[i], places->folder, kinds[i]);
    fputs("    log_format once escape=json\n"
          "        "
          "'{\"time\":\"$time_iso8601\",\"client\":\"$remote_addr\",\"request\":\"$request\",'\n"
          "        '\"status\":$status,\"verdict\":\"$once_verdict\",\"key\":\"$once_key\",'\n"
          "        "
          "'\"fence\":\"$once_fence\",\"once_ms\":\"$once_ms\",\"seconds\":$request_time}';\n",
          out);
    if (places->access_log)
        fprintf(out, "    access_log \"%s\" once;\n", places->access_log);
    else
        fputs("    access_log off;\n", out);
    fprintf(out, "    server_tokens off;\n    once_server \"%s\"", places->server);
    if (places->user)
        fprintf(out, " \"user=%s\" \"password_file=%s\"", places->user, places->password_file);
    fputs(";\n", out);
}

static void write_upstream(FILE *out, const struct gateway_args *args,
                           const struct gateway_places *places)
{
    const struct gateway_url *url = &args->upstream;

    fprintf(out,
            "    upstream service {\n"
            "        server \"%s\";\n"
            "        keepalive %d;\n"
            "    }\n"
            "    proxy_http_version 1.1;\n"
            "    proxy_set_header Connection \"\";\n"
            "    proxy_set_header Host \"%s\";\n"
            "    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
            "    proxy_set_header X-Forwarded-Host $http_host;\n"
            "    proxy_set_header X-Forwarded-Proto $scheme;\n",
            url->address, KEEPALIVE, url->authority);
    if (args->timeout_ms > 0)
        fprintf(out, "    proxy_read_timeout %lldms;\n    proxy_send_timeout %lldms;\n",
                (long long)args->timeout_ms, (long long)args->timeout_ms);
    if (url->tls)
        fprintf(out,
                "    proxy_ssl_server_name on;\n"
                "    proxy_ssl_name \"%s\";\n"
                "    proxy_ssl_verify on;\n"
                "    proxy_ssl_verify_depth 4;\n"
                "    proxy_ssl_trusted_certificate \"%s\";\n",
                url->host, places->authorities);
}

/* A list with commas, with blanks. */
static void write_list(FILE *out, const char *name, const char *list)
{
    if (!list)
        return;
    fprintf(out, "            %s ", name);
    for (const char *c = list; *c; c++)
        fputc(*c == ',' ? ' ' : *c, out);
    fputs(";\n", out);
}

static void write_text(FILE *out, const char *name, const char *value)
{
    if (value)
        fprintf(out, "            %s \"%s\";\n", name, value);
}

static void write_time(FILE *out, const char *name, once_ms ms)
{
    if (ms > 0)
        fprintf(out, "            %s %lldms;\n", name, (long long)ms);
}

static void write_size(FILE *out, const char *name, uint64_t size)
{
    if (size > 0)
        fprintf(out, "            %s %llu;\n", name, (unsigned long long)size);
}

static void write_location(FILE *out, const struct gateway_args *args)
{
    fprintf(out,
            "    server {\n"
            "        listen %s;\n",
            args->listen);
    if (args->body_max > 0)
        fprintf(out, "        client_max_body_size %llu;\n", (unsigned long long)args->body_max);
    fprintf(out, "        location / {\n            once %s;\n", args->require ? "require" : "on");
    write_text(out, "once_namespace", args->ns);
    write_text(out, "once_scope", args->scope);
    write_list(out, "once_methods", args->methods);
    write_time(out, "once_ttl", args->ttl_ms);
    write_time(out, "once_lease", args->lease_ms);
    write_time(out, "once_wait", args->wait_ms);
    write_text(out, "once_on_5xx", args->on_5xx);
    write_text(out, "once_doubt", args->doubt);
    write_text(out, "once_profile", args->profile);
    write_list(out, "once_fingerprint", args->fingerprint);
    write_size(out, "once_max_body", args->body_max);
    write_size(out, "once_max_answer", args->answer_max);
    write_text(out, "once_fail", args->fail);
    fprintf(out, "            proxy_pass \"%s://service%s\";\n        }\n    }\n",
            args->upstream.tls ? "https" : "http", args->upstream.path);
}

/* ---- All of it ------------------------------------------------------------------------------- */

void gateway_config_write(FILE *out, const struct gateway_args *args,
                          const struct gateway_places *places)
{
    write_head(out, args, places);
    fputs("http {\n", out);
    write_places(out, places);
    write_upstream(out, args, places);
    write_location(out, args);
    if (args->metrics)
        fprintf(out,
                "    server {\n"
                "        listen %s;\n"
                "        access_log off;\n"
                "        location = /metrics {\n"
                "            once_status;\n"
                "        }\n"
                "        location / {\n"
                "            return 404;\n"
                "        }\n"
                "    }\n",
                args->metrics);
    fputs("}\n", out);
}
