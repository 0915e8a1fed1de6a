/* SPDX-License-Identifier: Apache-2.0
 *
 * Have your own merge function checked: `once laws ./my_merge.so`.
 *
 * Implement the three functions below in C or C++, build them as a shared object, and Once looks
 * for states for which merge is not idempotent, not commutative or not associative, and shows the
 * smallest ones it finds. docs/laws.md is the guide; examples/laws has two plugins to start from.
 *
 *     cc -shared -fPIC -o my_merge.so my_merge.c
 *
 * This header needs nothing but the C standard library, and a plugin links with nothing of Once.
 *
 * A state is bytes. Two states are equal when their bytes are equal: write every byte that you
 * count in the size, padding inside structs included, and keep one form for each meaning (a set
 * sorted, say). The functions must always give the same result for the same arguments, must not
 * keep or change what they are given, and must not write beyond capacity. Buffers are aligned for
 * any type.
 */
#ifndef ONCE_LAWS_PLUGIN_H
#define ONCE_LAWS_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ONCE_LAWS_EXPORT __attribute__((visibility("default")))
#else
#define ONCE_LAWS_EXPORT
#endif

/* Room for one state, and for one description: what capacity will be. */
#define ONCE_LAWS_STATE_CAPACITY 65536
#define ONCE_LAWS_TEXT_CAPACITY 256

/* once_laws_generate: all states below the first number are tried in every combination; then
 * random ones below the second. */
#define ONCE_LAWS_INDEX_SMALL 24
#define ONCE_LAWS_INDEX_LARGE 65536

/* What once_laws_generate returns when there are no more states. */
#define ONCE_LAWS_END ((size_t)-1)

/* Writes the index-th state and returns its size. The simplest state has index 0, and
 * counterexamples are sought at low indexes first, so put what is easy to read there.
 * ONCE_LAWS_END when there are not that many states, or when they no longer fit; then also for
 * every higher index. */
ONCE_LAWS_EXPORT size_t once_laws_generate(uint64_t index, void *state, size_t capacity);

/* Writes the merge of a and b, which are states or results of merge, and returns its size. */
ONCE_LAWS_EXPORT size_t once_laws_merge(const void *a, size_t a_size, const void *b, size_t b_size,
                                        void *out, size_t capacity);

/* Writes the state as one line of text for people and returns its length, as snprintf does: what
 * did not fit is cut off. */
ONCE_LAWS_EXPORT size_t once_laws_describe(const void *state, size_t size, char *text,
                                           size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
