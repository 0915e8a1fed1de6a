/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of TLS share.
 */
#ifndef ONCE_SERVER_TLS_INNER_H
#define ONCE_SERVER_TLS_INNER_H

#include "server/tls.h"

#define ONCE__TLS_PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Gives a new session its rules and its certificates. */
ONCE_MUST_CHECK int once__tls_prepare(struct once__tls *tls, gnutls_session_t session);

#endif
