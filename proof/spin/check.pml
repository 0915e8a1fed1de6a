/* SPDX-License-Identifier: Apache-2.0
 *
 * How the models say what must hold, and what they have seen. Included first.
 *
 * Each property is a variable of its own, true until broken, so that the checker names the one it
 * found broken: "assertion violated effect_once". A model that uses must() gives each of its
 * properties a bit (#define BIT_effect_once 1) and all of them together the name ALL.
 * -DWATCH=BIT_effect_once then looks for that one only, which is how `run` finds out what a mistake
 * leads to.
 */
#ifndef WATCH
#define WATCH ALL
#endif
#define must(property, condition) \
    property = ((condition) || !(WATCH & BIT_##property)); \
    assert(property)

/* A proof about nothing is no proof: the same exhaustive search that finds no error also reports
 * which situations it went through, and `run` insists on them. Left out when a trail is wanted,
 * because the simulator that replays trails runs no C. */
#ifdef VISITS
c_decl {
    static void visited(const char *name, int *seen)
    {
        if (!*seen)
            printf("visited %s\n", name);
        *seen = 1;
    }
};
#define visit(name) c_code { static int seen; visited(#name, &seen); }
#else
#define visit(name) skip
#endif
