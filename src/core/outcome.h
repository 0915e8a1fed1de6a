/* SPDX-License-Identifier: Apache-2.0
 *
 * Which outcomes are final (D6). A host that relays an answer with an HTTP status asks here
 * whether to complete (the answer is stored and replayed), to fail (the key is free to retry), or
 * to leave a doubt.
 */
#ifndef ONCE_CORE_OUTCOME_H
#define ONCE_CORE_OUTCOME_H

enum once_outcome {
    ONCE_OUTCOME_STORE = 0,   /* final: complete */
    ONCE_OUTCOME_RELEASE = 1, /* known not to have happened: fail */
    ONCE_OUTCOME_DOUBT = 2    /* nobody knows: give the lease up */
};

/* What to make of a 5xx. The default tells them apart: by its definition 503 says that the
 * service did not take the request; any other may have come after the effect. A service behind
 * a proxy that says 503 when it lost the connection half way needs DOUBT. The others are a
 * deliberate choice. */
enum once_on_5xx {
    ONCE_ON_5XX_DEFAULT = 0,
    ONCE_ON_5XX_RELEASE = 1,
    ONCE_ON_5XX_STORE = 2,
    ONCE_ON_5XX_DOUBT = 3
};

/* Status of "no answer, or half an answer". */
#define ONCE_STATUS_NONE 0

/*@ requires ONCE_ON_5XX_DEFAULT <= on_5xx <= ONCE_ON_5XX_DOUBT;
  @ terminates \true;
  @ assigns \nothing;
  @ ensures known: ONCE_OUTCOME_STORE <= \result <= ONCE_OUTCOME_DOUBT;
  @ ensures success_is_stored: 200 <= status <= 399 ==> \result == ONCE_OUTCOME_STORE;
  @ ensures unknown_is_doubt: status < 200 || status > 599 ==> \result == ONCE_OUTCOME_DOUBT;
  @ ensures release_is_chosen_or_declared:
  @   \result == ONCE_OUTCOME_RELEASE ==>
  @     status == 408 || status == 425 || status == 429
  @     || (status == 503 && on_5xx == ONCE_ON_5XX_DEFAULT)
  @     || (500 <= status <= 599 && on_5xx == ONCE_ON_5XX_RELEASE);
  @ ensures choice_is_kept: 500 <= status <= 599 ==>
  @     (on_5xx == ONCE_ON_5XX_RELEASE ==> \result == ONCE_OUTCOME_RELEASE)
  @     && (on_5xx == ONCE_ON_5XX_STORE ==> \result == ONCE_OUTCOME_STORE)
  @     && (on_5xx == ONCE_ON_5XX_DOUBT ==> \result == ONCE_OUTCOME_DOUBT)
  @     && (on_5xx == ONCE_ON_5XX_DEFAULT && status != 503 ==> \result == ONCE_OUTCOME_DOUBT);
  @ ensures caller_errors_are_stored:
  @   400 <= status <= 499 && status != 408 && status != 425 && status != 429
  @   ==> \result == ONCE_OUTCOME_STORE;
  @*/
enum once_outcome once__outcome_of_status(int status, enum once_on_5xx on_5xx);

#endif
