/* SPDX-License-Identifier: Apache-2.0
 *
 * What access.c needs of hashes; their text is in access.h.
 */
#ifndef ONCE_SERVER_PASSWORD_H
#define ONCE_SERVER_PASSWORD_H

#include "server/access.h"

/* The hash of a secret with the salt and the costs of this password; takes tens of milliseconds.
 * ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__password_hash(const struct once__password *password,
                                        struct once_bytes secret,
                                        uint8_t ret_hash[ONCE__HASH_SIZE]);
/* What is hashed for a name that does not exist: as dear as a real one. */
void once__password_decoy(struct once__password *ret_password);

/* ONCE_ERR_CRYPTO. */
ONCE_MUST_CHECK int once__token_hash(struct once_bytes secret, struct once__token *ret_token);

#endif
