/* SPDX-License-Identifier: Apache-2.0
 *
 * What every reader and maker of keys agrees on.
 */
#ifndef ONCE_CORE_KEY_RULES_H
#define ONCE_CORE_KEY_RULES_H

#include <once/key.h>

/* Why a byte may not stand in a key, as static text; NULL when it may: printable ASCII, 0x20 to
 * 0x7e. */
const char *once__key_character_defect(uint8_t character);

#endif
