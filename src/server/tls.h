/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS 1.2 and later with GnuTLS, for RESP connections; libmicrohttpd is given the same credentials.
 * Certificates are read again on a reload; connections that are open keep theirs.
 */
#ifndef ONCE_SERVER_TLS_H
#define ONCE_SERVER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <once/store.h>

struct once__tls; /* certificate and key: those of now */

/* ONCE_ERR_INVALID: the message says which file and why. */
ONCE_MUST_CHECK int once__tls_new(const char *cert, const char *key, struct once__tls **ret_tls,
                                  struct once_message *ret_message);
ONCE_MUST_CHECK int once__tls_reload(struct once__tls *tls, const char *cert, const char *key,
                                     struct once_message *ret_message);
void once__tls_free(struct once__tls *tls); /* accepts NULL; sessions have ended */

/* For MHD_OPTION_HTTPS_CERT_CALLBACK2 and our own sessions: the certificate of now, as a copy that
 * the session frees. libmicrohttpd's sessions get that of the newest once__tls. Any thread. */
int once__tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                       gnutls_pcert_st **pcert, unsigned int *pcert_length,
                       gnutls_ocsp_data_st **ocsp, unsigned int *ocsp_length,
                       gnutls_privkey_t *privkey, unsigned int *flags);

/* One connection's. The caller moves ciphertext; nothing here touches a socket. */
struct once__tls_session;
ONCE_MUST_CHECK int once__tls_session_new(struct once__tls *tls,
                                          struct once__tls_session **ret_session);
void once__tls_session_free(struct once__tls_session *session); /* accepts NULL */
/* Hands over ciphertext that came. ONCE_ERR_FULL: more than ONCE_TLS_PENDING_MAX is unread. */
ONCE_MUST_CHECK int once__tls_session_feed(struct once__tls_session *session, const uint8_t *bytes,
                                           size_t size);
/* Plaintext that is there: > 0 bytes; 0: none now; negative: the session is over, *ret_what says
 * why (NULL: the other side said goodbye). Shakes hands first, and by itself. */
ONCE_MUST_CHECK long once__tls_session_read(struct once__tls_session *session, uint8_t *out,
                                            size_t size, const char **ret_what);
/* Have both sides shaken hands? */
bool once__tls_session_ready(const struct once__tls_session *session);
/* Encrypts; only when ready. ONCE_ERR_FULL, ONCE_ERR_MEMORY, ONCE_ERR_CLOSED: the session is over.
 */
ONCE_MUST_CHECK int once__tls_session_write(struct once__tls_session *session, const uint8_t *bytes,
                                            size_t size);
/* Says goodbye. */
void once__tls_session_bye(struct once__tls_session *session);
/* Ciphertext that is to be sent: the caller takes it out after it was sent. */
struct once_buf *once__tls_session_outgoing(struct once__tls_session *session);

#endif
