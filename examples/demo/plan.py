# SPDX-License-Identifier: Apache-2.0
"""The orders, and what will go wrong with each: all of it drawn from one number, the seed.

What strikes an order depends on the seed, the order and the number of the attempt, and on nothing
else. So every run of one seed meets the same faults, with Once and without. (How the threads of
the machine interleave is not in the plan; the proof must hold for every interleaving.)
"""
import random
from collections import namedtuple

Charge = namedtuple("Charge", "order amount")
# copy_delay_s: when a second copy arrives, or None.
Fault = namedtuple("Fault", "request_lost answer_lost delay_s copy_delay_s")

NONE = Fault(False, False, 0, None)
PATIENCE_S = 0.6      # how long a customer waits for an answer
ATTEMPTS_FAULTY = 3   # from the fourth attempt on the network behaves, so that every story ends

KINDS = ("kill:before", "kill:after", "pause:before", "pause:after")


class Plan:
    """Of this many charges. `strikes` says where the service itself is hit: {order: kind}."""

    def __init__(self, seed, count):
        rng = random.Random(f"once demo {seed}")
        self.seed = seed
        self.charges = [Charge(f"order-{number:04}", rng.randint(100, 9999))
                        for number in range(1, count + 1)]
        each = {"kill:before": max(1, count // 50), "kill:after": max(1, count // 50),
                "pause:before": max(1, count // 80), "pause:after": max(1, count // 150)}
        kinds = [kind for kind in KINDS for _ in range(each[kind])]
        rng.shuffle(kinds)
        # Apart from each other, so that one does not take the other's victim; and not among the
        # last ones, so that others are under way when it strikes.
        block = count * 9 // 10 // len(kinds)
        self.strikes = {self.charges[index * block + rng.randrange(max(1, block // 2))].order: kind
                        for index, kind in enumerate(kinds)}

    def total(self):
        return sum(charge.amount for charge in self.charges)

    def fault(self, order, attempt):
        if attempt > ATTEMPTS_FAULTY or (order in self.strikes and attempt == 1):
            return NONE  # a strike comes through alone, so that it hits for certain
        rng = random.Random(f"once demo {self.seed} {order} {attempt}")
        luck, amount = rng.random() * attempt, rng.random()
        if luck < 0.10:
            return NONE._replace(request_lost=True)
        if luck < 0.28:
            return NONE._replace(answer_lost=True)
        if luck < 0.40:
            return NONE._replace(copy_delay_s=0.4 * amount)
        if luck < 0.48:  # it arrives when the customer has long tried again
            return NONE._replace(delay_s=PATIENCE_S * (1.05 + 0.4 * amount))
        if luck < 0.70:
            return NONE._replace(delay_s=0.12 * amount)
        return NONE
