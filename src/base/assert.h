/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions, always on. They are for our own mistakes; bytes from disk, network or a host are
 * checked and give an error instead. The prover sees each of them as a call that can never happen.
 */
#ifndef ONCE_BASE_ASSERT_H
#define ONCE_BASE_ASSERT_H

/*@ requires never: \false;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures \false;
  @*/
_Noreturn void once__assert_fail(const char *what, const char *file, int line);

#define ONCE_ASSERT(condition)                                                                     \
    ((condition) ? (void)0 : once__assert_fail(#condition, __FILE__, __LINE__))

#endif
