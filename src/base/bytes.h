/* SPDX-License-Identifier: Apache-2.0
 *
 * What the inside of Once adds to the public bytes.h.
 */
#ifndef ONCE_BASE_BYTES_H
#define ONCE_BASE_BYTES_H

#include <stdbool.h>

#include <once/bytes.h>

/*@ predicate bytes_readable(struct once_bytes b) =
  @   b.size > 0 ==> \valid_read(b.data + (0 .. b.size - 1));
  @ predicate bytes_same{L}(struct once_bytes a, struct once_bytes b) =
  @   a.size == b.size && (\forall integer i; 0 <= i < a.size ==> a.data[i] == b.data[i]);
  @*/

/*@ requires a_readable: bytes_readable(a);
  @ requires b_readable: bytes_readable(b);
  @ terminates \true;
  @ assigns \nothing;
  @ ensures exact: \result <==> bytes_same(a, b);
  @*/
bool once__bytes_equal(struct once_bytes a, struct once_bytes b);

/* May the bytes be read: is there memory behind a size? What every public function asks of its
 * arguments. */
bool once__bytes_readable(struct once_bytes bytes);

/* Lexicographic by unsigned byte, a prefix first: <0, 0 or >0. */
int once__bytes_compare(struct once_bytes a, struct once_bytes b);

#endif
