# SPDX-License-Identifier: Apache-2.0
"""The ledger: the outside world of the demo. What stands here has happened.

An append-only table in SQLite, each entry durable (fsync) before its writer goes on. It does not
know idempotency keys and would take the same charge a hundred times; that is the point. What it
offers is what a ledger needs so that a paused writer can be kept out: for each order a *door*, the
lowest fence that may still write. A write under a fence moves the door past that fence; a write
without a fence is not checked.

It is not part of Once's store: an entry and Once's record of it are two writes, and a process may
die between them. Everything in this demo is about that moment.
"""
import json
import sqlite3
from collections import namedtuple

Entry = namedtuple("Entry", "number order amount fence writer")

TABLES = """
CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY AUTOINCREMENT,
    customer_order TEXT NOT NULL, amount INTEGER NOT NULL, fence INTEGER, writer TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS entries_of_order ON entries (customer_order);
CREATE TABLE IF NOT EXISTS doors (customer_order TEXT PRIMARY KEY, lowest INTEGER NOT NULL);
"""
ENTRY = "number, customer_order, amount, fence, writer"
LOCK_S = 20


class Refused(Exception):
    """A fence that is too low: someone else has this order now."""


def receipt(entry):
    """The answer to the customer. It depends on the entry alone, so that whoever finds the entry
    can give the answer that its writer would have given."""
    return json.dumps({"charge": f"ch_{entry.number}", "order": entry.order,
                       "amount": entry.amount})


class Ledger:
    """One connection: for one thread at a time."""

    def __init__(self, path, fenced=True):
        self.fenced = fenced
        self.db = sqlite3.connect(path, timeout=LOCK_S, isolation_level=None,
                                  check_same_thread=False)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(TABLES)

    def append(self, order, amount, fence, writer):
        """The charge happens here."""
        with _transaction(self.db):
            if fence is not None and self.fenced:
                self._pass_door(order, fence)
            number = self.db.execute(
                "INSERT INTO entries (customer_order, amount, fence, writer) VALUES (?, ?, ?, ?)",
                (order, amount, fence, writer)).lastrowid
        return Entry(number, order, amount, fence, writer)

    def _pass_door(self, order, fence):
        row = self.db.execute("SELECT lowest FROM doors WHERE customer_order = ?",
                              (order,)).fetchone()
        if row and fence < row[0]:
            raise Refused(f"{order}: fence {fence} is below {row[0]}")
        self._move_door(order, fence + 1)

    def _move_door(self, order, lowest):
        self.db.execute("INSERT INTO doors VALUES (?, ?) ON CONFLICT (customer_order) "
                        "DO UPDATE SET lowest = max(lowest, excluded.lowest)", (order, lowest))

    def close_and_look(self, order, fence):
        """Keeps every fence up to this one out, and says whether the charge is there.

        One transaction: only then does "it is not there" also mean "and it cannot come any more".
        """
        with _transaction(self.db):
            if self.fenced:
                self._move_door(order, fence + 1)
            return self.of_order(order)

    def of_order(self, order):
        row = self.db.execute(f"SELECT {ENTRY} FROM entries WHERE customer_order = ? "
                              "ORDER BY number LIMIT 1", (order,)).fetchone()
        return Entry(*row) if row else None

    def entries(self):
        return [Entry(*row) for row in
                self.db.execute(f"SELECT {ENTRY} FROM entries ORDER BY number")]

    def close(self):
        self.db.close()


class _transaction:
    def __init__(self, db):
        self.db = db

    def __enter__(self):
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind, *_):
        self.db.execute("ROLLBACK" if kind else "COMMIT")
