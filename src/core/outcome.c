/* SPDX-License-Identifier: Apache-2.0
 *
 * Final, free to retry, or in doubt: outcome.h has the rules, this file is what the prover reads.
 */
#include "core/outcome.h"

/*@ requires ONCE_ON_5XX_DEFAULT <= on_5xx <= ONCE_ON_5XX_DOUBT;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures known: ONCE_OUTCOME_STORE <= \result <= ONCE_OUTCOME_DOUBT;
  @ ensures chosen: (on_5xx == ONCE_ON_5XX_RELEASE ==> \result == ONCE_OUTCOME_RELEASE)
  @   && (on_5xx == ONCE_ON_5XX_STORE ==> \result == ONCE_OUTCOME_STORE)
  @   && (on_5xx == ONCE_ON_5XX_DOUBT ==> \result == ONCE_OUTCOME_DOUBT)
  @   && (on_5xx == ONCE_ON_5XX_DEFAULT && status != 503 ==> \result == ONCE_OUTCOME_DOUBT);
  @ ensures release: \result == ONCE_OUTCOME_RELEASE ==> on_5xx == ONCE_ON_5XX_RELEASE
  @   || (status == 503 && on_5xx != ONCE_ON_5XX_STORE && on_5xx != ONCE_ON_5XX_DOUBT);
  @*/
static enum once_outcome outcome_of_5xx(int status, enum once_on_5xx on_5xx)
{
    switch (on_5xx) {
    case ONCE_ON_5XX_RELEASE:
        return ONCE_OUTCOME_RELEASE;
    case ONCE_ON_5XX_STORE:
        return ONCE_OUTCOME_STORE;
    case ONCE_ON_5XX_DOUBT:
        return ONCE_OUTCOME_DOUBT;
    case ONCE_ON_5XX_DEFAULT:
        break;
    }
    return status == 503 ? ONCE_OUTCOME_RELEASE : ONCE_OUTCOME_DOUBT;
}

enum once_outcome once__outcome_of_status(int status, enum once_on_5xx on_5xx)
{
    if (status < 200 || status > 599)
        return ONCE_OUTCOME_DOUBT;
    /* The server says that it did not handle the request: timed out reading it, too early, too
     * many. */
    if (status == 408 || status == 425 || status == 429)
        return ONCE_OUTCOME_RELEASE;
    if (status < 500)
        return ONCE_OUTCOME_STORE;
    return outcome_of_5xx(status, on_5xx);
}
