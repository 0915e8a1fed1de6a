/* SPDX-License-Identifier: Apache-2.0
 *
 * Once: exactly-once effects over at-least-once networks. One header for everything public.
 */
#ifndef ONCE_ONCE_H
#define ONCE_ONCE_H

#include <once/apply.h>
#include <once/bytes.h>
#include <once/err.h>
#include <once/fingerprint.h>
#include <once/key.h>
#include <once/lattice.h>
#include <once/limits.h>
#include <once/store.h>
#include <once/verdict.h>

#endif
