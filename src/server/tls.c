/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates: those of now, read from files, replaced as a whole. tls_session.c has the sessions.
 *
 * A handshake may be under way in another thread (libmicrohttpd has its own) while certificates
 * are replaced, and nobody tells us when it ends. So a handshake gets copies, which GnuTLS frees
 * (GNUTLS_CERT_RETR_DEINIT_ALL), and nothing of ours is pointed at after the lock was given back.
 *
 * The callback is told neither whose it is nor given a pointer of ours: only the credentials, which
 * libmicrohttpd makes itself. Hence the list of all once__tls. A process has one.
 */
#include "server/tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/tls_inner.h"

enum {
    CHAIN_COUNT_MAX = 16 /* certificates of one file */
};

/* One certificate with its chain, and its key. */
struct identity {
    gnutls_datum_t chain[CHAIN_COUNT_MAX]; /* DER */
    unsigned int chain_count;
    gnutls_x509_privkey_t key;
};

/* Over all once__tls and what is in them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct once__tls *newest;

static void identity_release(struct identity *identity)
{
    for (unsigned int i = 0; i < identity->chain_count; i++)
        gnutls_free(identity->chain[i].data);
    if (identity->key)
        gnutls_x509_privkey_deinit(identity->key);
    *identity = (struct identity){0};
}

static int refuse(struct once_message *ret_message, const char *file, const char *what)
{
    if (ret_message)
        snprintf(ret_message->text, sizeof ret_message->text, "%s: %s", file, what);
    return ONCE_ERR_INVALID;
}

/* A file that cannot be read, and why if the system said so. */
static int refuse_file(struct once_message *ret_message, const char *file, const char *what)
{
    char text[160];

    if (errno == 0)
        return refuse(ret_message, file, what);
    snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    return refuse(ret_message, file, text);
}

static int chain_read(struct identity *identity, const char *file, gnutls_x509_crt_t **ret_list,
                      unsigned int *ret_count, struct once_message *ret_message)
{
    gnutls_datum_t text = {0};
    gnutls_x509_crt_t *list = NULL;
    unsigned int count = 0;
    int rc;

    errno = 0;
    rc = gnutls_load_file(file, &text);
    if (rc < 0)
        return refuse_file(ret_message, file, "the certificate cannot be read");
    rc = gnutls_x509_crt_list_import2(&list, &count, &text, GNUTLS_X509_FMT_PEM,
                                      GNUTLS_X509_CRT_LIST_SORT);
    gnutls_free(text.data);
    if (rc < 0)
        return refuse(ret_message, file, gnutls_strerror(rc));
    for (unsigned int i = 0; rc >= 0 && i < count && count <= CHAIN_COUNT_MAX; i++) {
        rc = gnutls_x509_crt_export2(list[i], GNUTLS_X509_FMT_DER, &identity->chain[i]);
        if (rc >= 0)
            identity->chain_count++;
    }
    *ret_list = list;
    *ret_count = count;
    if (rc < 0)
        return refuse(ret_message, file, gnutls_strerror(rc));
    if (count == 0 || count > CHAIN_COUNT_MAX)
        return refuse(ret_message, file, "there must be 1 to 16 certificates");
    return ONCE_OK;
}

static int key_read(struct identity *identity, const char *file, struct once_message *ret_message)
{
    gnutls_datum_t text = {0};
    int rc;

    errno = 0;
    rc = gnutls_load_file(file, &text);
    if (rc < 0)
        return refuse_file(ret_message, file, "the key cannot be read");
    rc = gnutls_x509_privkey_init(&identity->key);
    if (rc >= 0)
        rc = gnutls_x509_privkey_import2(identity->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.size);
    gnutls_free(text.data);
    return rc < 0 ? refuse(ret_message, file, gnutls_strerror(rc)) : ONCE_OK;
}

/* Reads both and sees that they belong together. */
static int identity_read(const char *cert, const char *key, struct identity *ret_identity,
                         struct once_message *ret_message)
{
    gnutls_certificate_credentials_t trial = NULL;
    struct identity identity = {0};
    gnutls_x509_crt_t *list = NULL;
    unsigned int count = 0;
    int err, rc;

    err = chain_read(&identity, cert, &list, &count, ret_message);
    if (err == ONCE_OK)
        err = key_read(&identity, key, ret_message);
    if (err != ONCE_OK)
        goto out;
    rc = gnutls_certificate_allocate_credentials(&trial);
    if (rc >= 0)
        rc = gnutls_certificate_set_x509_key(trial, list, (int)count, identity.key);
    if (rc < 0) {
        err = refuse(ret_message, key, gnutls_strerror(rc));
        goto out;
    }
    *ret_identity = identity;
    identity = (struct identity){0};
out:
    if (trial)
        gnutls_certificate_free_credentials(trial);
    for (unsigned int i = 0; i < count; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
    identity_release(&identity);
    return err;
}

struct once__tls {
    struct once__tls *next;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    struct identity now;
};

int once__tls_new(const char *cert, const char *key, struct once__tls **ret_tls,
                  struct once_message *ret_message)
{
    struct once__tls *tls = calloc(1, sizeof *tls);
    const char *wrong_at = NULL;
    int err, rc;

    if (!tls)
        return ONCE_ERR_MEMORY;
    err = identity_read(cert, key, &tls->now, ret_message);
    if (err != ONCE_OK)
        goto out;
    rc = gnutls_priority_init(&tls->priority, ONCE__TLS_PRIORITY, &wrong_at);
    if (rc >= 0)
        rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc < 0) {
        err = refuse(ret_message, "tls", gnutls_strerror(rc));
        goto out;
    }
    gnutls_certificate_set_retrieve_function3(tls->credentials, once__tls_retrieve);
    pthread_mutex_lock(&lock);
    tls->next = newest;
    newest = tls;
    pthread_mutex_unlock(&lock);
    *ret_tls = tls;
    tls = NULL;
out:
    once__tls_free(tls);
    return err;
}

int once__tls_reload(struct once__tls *tls, const char *cert, const char *key,
                     struct once_message *ret_message)
{
    struct identity fresh = {0}, old;
    int err = identity_read(cert, key, &fresh, ret_message);

    if (err != ONCE_OK)
        return err;
    pthread_mutex_lock(&lock);
    old = tls->now;
    tls->now = fresh;
    pthread_mutex_unlock(&lock);
    identity_release(&old);
    return ONCE_OK;
}

void once__tls_free(struct once__tls *tls)
{
    if (!tls)
        return;
    pthread_mutex_lock(&lock);
    for (struct once__tls **link = &newest; *link; link = &(*link)->next) {
        if (*link == tls) {
            *link = tls->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (tls->credentials)
        gnutls_certificate_free_credentials(tls->credentials);
    if (tls->priority)
        gnutls_priority_deinit(tls->priority);
    identity_release(&tls->now);
    free(tls);
}

/* A copy of the chain and the key that GnuTLS frees by itself. */
static int identity_copy(const struct identity *identity, gnutls_pcert_st **ret_chain,
                         gnutls_privkey_t *ret_key)
{
    gnutls_pcert_st *chain = gnutls_calloc(identity->chain_count, sizeof *chain);
    gnutls_privkey_t key = NULL;
    unsigned int count = 0;
    int rc = chain ? gnutls_privkey_init(&key) : GNUTLS_E_MEMORY_ERROR;

    if (rc >= 0)
        rc = gnutls_privkey_import_x509(key, identity->key, GNUTLS_PRIVKEY_IMPORT_COPY);
    while (rc >= 0 && count < identity->chain_count) {
        rc = gnutls_pcert_import_x509_raw(&chain[count], &identity->chain[count],
                                          GNUTLS_X509_FMT_DER, 0);
        if (rc >= 0)
            count++;
    }
    if (rc >= 0) {
        *ret_chain = chain;
        *ret_key = key;
        return 0;
    }
    while (count > 0)
        gnutls_pcert_deinit(&chain[--count]);
    gnutls_free(chain);
    if (key)
        gnutls_privkey_deinit(key);
    return rc;
}

int once__tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                       gnutls_pcert_st **pcert, unsigned int *pcert_length,
                       gnutls_ocsp_data_st **ocsp, unsigned int *ocsp_length,
                       gnutls_privkey_t *privkey, unsigned int *flags)
{
    struct once__tls *tls;
    int rc = GNUTLS_E_NO_CERTIFICATE_FOUND;

    (void)session;
    pthread_mutex_lock(&lock);
    for (tls = newest; tls && tls->credentials != info->cred; tls = tls->next)
        ;
    if (!tls)
        tls = newest;
    if (tls) {
        rc = identity_copy(&tls->now, pcert, privkey);
        *pcert_length = rc >= 0 ? tls->now.chain_count : 0;
    }
    pthread_mutex_unlock(&lock);
    if (rc < 0)
        return -1;
    *ocsp = NULL;
    *ocsp_length = 0;
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}

int once__tls_prepare(struct once__tls *tls, gnutls_session_t session)
{
    int rc = gnutls_priority_set(session, tls->priority);

    if (rc >= 0)
        rc = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    return rc < 0 ? ONCE_ERR_CRYPTO : ONCE_OK;
}
