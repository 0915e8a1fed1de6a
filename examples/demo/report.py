# SPDX-License-Identifier: Apache-2.0
"""What the demo shows: a line of progress, the ledgers side by side, and the proof.

Colour and movement only on a terminal, and not with NO_COLOR; what colour says, words say too.
"""
import os
import sys
import time
from collections import Counter

from world import MODES

NAME_WIDTH, ORDERED, COLUMN = 28, 11, 13
SHOWN_MAX = 5
BAR = 14
STEP_S = 0.1


def euros(cents):
    return f"{cents / 100:,.2f}"


def signed(cents):
    return f"{cents / 100:+,.2f}" if cents else euros(0)


class Screen:
    def __init__(self, out=sys.stdout):
        self.out = out
        self.live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.colours = self.live and not os.environ.get("NO_COLOR")
        self.drawn_s = 0.0

    def paint(self, text, code):
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def good(self, text):
        return self.paint(text, "32")

    def bad(self, text):
        return self.paint(text, "1;31")

    def strong(self, text):
        return self.paint(text, "1")

    def say(self, text=""):
        self.clear()
        print(text, file=self.out, flush=True)

    def clear(self):
        if self.live:
            self.out.write("\r\x1b[K")

    def progress(self, world):
        """One line, drawn over itself a few times a second."""
        if not self.live or time.monotonic() < self.drawn_s + STEP_S:
            return
        self.drawn_s = time.monotonic()
        done, count = len(world.customers.answers), len(world.plan.charges)
        part = BAR * done // count
        line = (f"  {MODES[world.mode]:<22} [{'#' * part}{'.' * (BAR - part)}] {done}/{count}  "
                f"killed {world.instances.kills}  paused {world.instances.pauses}")
        if world.reconciler:
            line += f"  doubts {world.reconciler.found}"
        columns = os.get_terminal_size(self.out.fileno()).columns
        self.out.write("\r\x1b[K" + line[:max(1, columns - 1)])
        self.out.flush()


class Books:
    """What a run came to, order by order."""

    def __init__(self, world):
        self.mode, self.faults = world.mode, world.faults
        self.entries, self.entries_count = world.entries, len(world.entries)
        self.by_order = {charge.order: [] for charge in world.plan.charges}
        for entry in self.entries:
            self.by_order[entry.order].append(entry)
        counts = Counter(min(len(entries), 2) for entries in self.by_order.values())
        self.never, self.exactly, self.more = counts[0], counts[1], counts[2]
        self.total = sum(entry.amount for entry in self.entries)
        self.ordered = world.plan.total()
        answers = world.customers.answers
        self.unanswered = sum(answers.get(order) is None for order in self.by_order)
        self.two_answers = sum(len(set(bodies)) > 1 for bodies in world.network.answers.values())
        self.sent = world.customers.sent

    def right(self):
        return not (self.never or self.more or self.unanswered or self.two_answers
                    or self.total != self.ordered)


def show_books(screen, plan, all_books):
    def row(name, ordered, values, bad=lambda value: False):
        cells = [f"{ordered:>{ORDERED}}"]
        for value, text in values:
            cell = f"{text:>{COLUMN}}"
            cells.append(screen.bad(cell) if bad(value) else cell)
        screen.say(f"  {name:<{NAME_WIDTH}}" + "".join(cells))

    def numbers(name, ordered, field):
        row(name, f"{ordered:,}", [(getattr(books, field), f"{getattr(books, field):,}")
                                   for books in all_books], lambda value: value != ordered)

    count = len(plan.charges)
    screen.say(screen.strong("The ledgers, side by side"))
    screen.say()
    row("", "", [(0, MODES[books.mode].split(", ")[0]) for books in all_books])
    row("", "ordered", [(0, MODES[books.mode].split(", ")[1]) for books in all_books])
    numbers("charged exactly once", count, "exactly")
    numbers("charged twice or more often", 0, "more")
    numbers("never charged", 0, "never")
    numbers("entries in the ledger", count, "entries_count")
    row("ledger total, EUR", euros(plan.total()),
        [(books.total, euros(books.total)) for books in all_books], lambda v: v != plan.total())
    row("off by, EUR", "", [(books.total - books.ordered,
                             signed(books.total - books.ordered)) for books in all_books],
        lambda value: value != 0)
    numbers("customers without an answer", 0, "unanswered")
    numbers("customers with two answers", 0, "two_answers")
    screen.say()
    screen.say("  What was done to them")
    for name in ("requests lost", "answers lost", "requests delivered twice", "requests delayed",
                 "service killed", "writer paused", "Once itself killed"):
        row(name, "", [(0, f"{books.faults[name]:,}" if name in books.faults else "-")
                       for books in all_books])
    row("requests sent by customers", "", [(0, f"{books.sent:,}") for books in all_books])


def show_doubles(screen, books):
    doubles = [(order, found) for order, found in books.by_order.items() if len(found) > 1]
    if not doubles:
        return
    screen.say()
    screen.say(f"  Charged more than once, {MODES[books.mode]}:")
    for order, found in doubles[:SHOWN_MAX]:
        names = " ".join(f"ch_{entry.number}" for entry in found[:SHOWN_MAX])
        screen.say(f"    {order}  {euros(found[0].amount):>8} EUR  {len(found)} times: {names}")
    if len(doubles) > SHOWN_MAX:
        screen.say(f"    and {len(doubles) - SHOWN_MAX} more")


def show_once(screen, world):
    verdicts, outcomes, reconciler = world.events.verdicts, world.events.outcomes, world.reconciler
    screen.say()
    screen.say("  How Once did it")
    begins = {word: verdicts[f"begin {word}"] for word in ("EXECUTE", "REPLAY", "BUSY", "DOUBT")}
    screen.say(f"    begin was asked {sum(begins.values()):,} times: "
               + ", ".join(f"{word} {count:,}" for word, count in begins.items()))
    screen.say(f"    doubts found {reconciler.found}; resolved after a look into the ledger: done "
               f"{reconciler.done}, not done {reconciler.not_done}")
    stale = verdicts["complete STALE"] + verdicts["fail STALE"]
    screen.say(f"    late writers: refused by the ledger {outcomes['refused']}, told STALE by Once "
               f"{stale}")


class Proof:
    """Claims, each checked, each told. It holds if all do."""

    def __init__(self, screen):
        self.screen, self.holds = screen, True

    def claim(self, holds, text, wrong=""):
        self.holds = self.holds and bool(holds)
        mark = self.screen.good("holds") if holds else self.screen.bad("FAILS")
        self.screen.say(f"  {mark}  {text}" + (f": {wrong}" if wrong and not holds else ""))


def prove(screen, world, books):
    """Whether each charge happened once: by the ledger, the answers, and Once's own records."""
    proof = Proof(screen)
    count = len(world.plan.charges)
    amounts = {charge.order: charge.amount for charge in world.plan.charges}
    screen.say()
    screen.say(screen.strong("The proof"))
    screen.say()
    proof.claim(books.exactly == count == len(books.entries)
                and all(entry.amount == amounts[entry.order] for entry in books.entries),
                f"each of {count} orders has exactly one ledger entry, with its amount",
                f"{books.more} have more, {books.never} have none")
    proof.claim(books.total == books.ordered,
                f"the ledger's total is what was ordered, {euros(books.ordered)} EUR",
                f"it is {euros(books.total)}")
    given = sum(map(len, world.network.answers.values()))
    proof.claim(not books.unanswered and not books.two_answers,
                f"every customer has an answer, and all {given} answers, lost ones too, agree",
                f"{books.unanswered} have none, {books.two_answers} have different ones")
    again = world.send_again()
    new = len(world.ledger.entries()) - len(books.entries)
    same = sum(answer == (201, world.customers.answers[order]) for order, answer in again.items())
    proof.claim(same == count and not new,
                "sent once more, every order gets its first answer, and no entry is new",
                f"{count - same} differ, {new} are new")
    changed = world.send_changed()
    proof.claim(changed and changed[0] == 422, "a key reused for another amount is refused",
                f"the answer was {changed}")
    records = world.records()
    agree = sum(world.agree(record, entries) for record, entries in records)
    proof.claim(agree == len(records) == count,
                f"Once's {len(records)} records and the ledger agree one to one; none is in doubt",
                f"{agree} agree")
    woken = [world.events.late.get(order) for order, (fault, _) in world.events.fired.items()
             if fault.startswith("pause")]
    refused = sum(status == 409 for status in woken)
    proof.claim(woken and refused == len(woken),
                f"{len(woken)} writers woke up when their time was over, and all were told so",
                f"{refused} were")
    return proof.holds
