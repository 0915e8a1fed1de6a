/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for a connection to a server, with GnuTLS: 1.2 or later, and never without knowing who the
 * server is.
 */
#include "client/client_link.h"

#include <arpa/inet.h>
#include <limits.h>
#include <string.h>

static bool is_number(const char *host)
{
    uint8_t space[16];

    return inet_pton(AF_INET, host, space) == 1 || inet_pton(AF_INET6, host, space) == 1;
}

static int trust(struct once__link *link, const char *tls_ca, struct once_message *ret_message)
{
    int got = gnutls_certificate_allocate_credentials(&link->credentials);

    if (got < 0) {
        link->credentials = NULL;
        return once__link_fail(ret_message, ONCE_ERR_MEMORY, "%s", gnutls_strerror(got));
    }
    if (!tls_ca)
        got = gnutls_certificate_set_x509_system_trust(link->credentials);
    else
        got = gnutls_certificate_set_x509_trust_file(link->credentials, tls_ca,
                                                     GNUTLS_X509_FMT_PEM);
    if (got > 0)
        return ONCE_OK;
    return once__link_fail(ret_message, ONCE_ERR_IO, "no certificate of who signs in %s%s%s",
                           tls_ca ? tls_ca : "the system's store", got < 0 ? ": " : "",
                           got < 0 ? gnutls_strerror(got) : "");
}

static int prepare(struct once__link *link, const char *host, struct once_message *ret_message)
{
    int got = gnutls_init(&link->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);

    if (got < 0)
        link->session = NULL;
    if (got >= 0)
        got = gnutls_priority_set_direct(link->session,
                                         "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
    if (got >= 0)
        got = gnutls_credentials_set(link->session, GNUTLS_CRD_CERTIFICATE, link->credentials);
    if (got >= 0 && !is_number(host))
        got = gnutls_server_name_set(link->session, GNUTLS_NAME_DNS, host, strlen(host));
    if (got < 0)
        return once__link_fail(ret_message, ONCE_ERR_IO, "TLS: %s", gnutls_strerror(got));
    gnutls_session_set_verify_cert(link->session, host, 0);
    gnutls_transport_set_int(link->session, link->fd);
    return ONCE_OK;
}

/* Why the certificate is not good enough. */
static int tell_certificate(struct once__link *link, const char *host,
                            struct once_message *ret_message)
{
    unsigned status = gnutls_session_get_verify_cert_status(link->session);
    gnutls_datum_t text = {0};
    int got = gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0);

    (void)once__link_fail(ret_message, ONCE_ERR_IO, "the certificate of %s is not good: %s", host,
                          got >= 0 ? (const char *)text.data : "it cannot be checked");
    gnutls_free(text.data);
    return ONCE_ERR_IO;
}

int once__link_secure(struct once__link *link, const char *host, const char *tls_ca,
                      once_ms deadline_ms, struct once_message *ret_message)
{
    int err = trust(link, tls_ca, ret_message);

    if (err == ONCE_OK)
        err = prepare(link, host, ret_message);
    while (err == ONCE_OK) {
        int got = gnutls_handshake(link->session);

        if (got == GNUTLS_E_SUCCESS)
            return ONCE_OK;
        if (got == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
            return tell_certificate(link, host, ret_message);
        if (got == GNUTLS_E_AGAIN)
            err = once__link_wait(link, false, deadline_ms, ret_message);
        else if (gnutls_error_is_fatal(got))
            err = once__link_fail(ret_message, ONCE_ERR_IO, "TLS with %s failed: %s", host,
                                  gnutls_strerror(got));
    }
    return err;
}

long once__link_secure_send(struct once__link *link, const uint8_t *bytes, size_t size,
                            struct once_message *ret_message)
{
    ssize_t sent = gnutls_record_send(link->session, bytes, size);

    if (sent >= 0)
        return (long)sent;
    if (!gnutls_error_is_fatal((int)sent))
        return 0;
    return once__link_fail(ret_message, ONCE_ERR_IO, "the connection broke: %s",
                           gnutls_strerror((int)sent));
}

long once__link_secure_read(struct once__link *link, uint8_t *bytes, size_t size,
                            struct once_message *ret_message)
{
    ssize_t got = gnutls_record_recv(link->session, bytes, size);

    if (got > 0)
        return (long)got;
    if (got == 0)
        return once__link_fail(ret_message, ONCE_ERR_IO, "the server closed the connection");
    if (!gnutls_error_is_fatal((int)got))
        return 0;
    return once__link_fail(ret_message, ONCE_ERR_IO, "the connection broke: %s",
                           gnutls_strerror((int)got));
}

void once__link_secure_end(struct once__link *link)
{
    if (link->session) {
        (void)gnutls_bye(link->session, GNUTLS_SHUT_WR); /* does not wait */
        gnutls_deinit(link->session);
    }
    if (link->credentials)
        gnutls_certificate_free_credentials(link->credentials);
    link->session = NULL;
    link->credentials = NULL;
}
