/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates for tests, made when they run.
 */
#ifndef ONCE_TESTS_TLS_HELP_H
#define ONCE_TESTS_TLS_HELP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/x509.h>

static char tls_folder[] = "/tmp/once_tls_XXXXXX";

static inline const char *path(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *text = paths[next++ % 4];

    snprintf(text, sizeof paths[0], "%s/%s", tls_folder, name);
    return text;
}

static inline void save(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(path(name), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* A key and a certificate that it signed itself, as NAME.key and NAME.crt. */
static inline void make_certificate(const char *name)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    gnutls_datum_t text;
    unsigned char serial[1] = {1};
    static const unsigned char loopback[4] = {127, 0, 0, 1};
    time_t now = time(NULL);
    char file[64];

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_set_version(crt, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(crt, serial, sizeof serial), 0);
    assert_int_equal(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                                   (unsigned)strlen(name)),
                     0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(crt, now - 60), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(crt, now + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, loopback,
                                                          sizeof loopback, GNUTLS_FSAN_SET),
                     0);
    assert_int_equal(gnutls_x509_crt_set_ca_status(crt, 1), 0);
    assert_int_equal(gnutls_x509_crt_set_key(crt, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);

    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    snprintf(file, sizeof file, "%s.key", name);
    save(file, text.data, text.size);
    gnutls_free(text.data);
    assert_int_equal(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text), 0);
    snprintf(file, sizeof file, "%s.crt", name);
    save(file, text.data, text.size);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

#endif
