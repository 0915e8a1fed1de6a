# SPDX-License-Identifier: Apache-2.0
"""A process that charges accounts in SQLite, each key once, until it is killed.

    sqlite_worker.py EXTENSION DATABASE SEED KEYS FIRST_WORD…

With "balance": takes keys at random and adds 1 to the key's account in the transaction of the key.
With "promise": makes new keys, and says `key fence result` on stdout when a commit came back.
"""
import json
import random
import sqlite3
import sys


def connect(extension, database):
    db = sqlite3.connect(database, timeout=60, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def begin(db, key):
    return json.loads(db.execute("SELECT once_begin('charges', ?, ?)", (key, f"charge {key}")).fetchone()[0])


def charge(db, key):
    """What the key's answer is, after the commit."""
    db.execute("BEGIN")
    verdict = begin(db, key)
    if verdict["verdict"] == "REPLAY":
        db.execute("COMMIT")
        return verdict["result"], None
    assert verdict["verdict"] == "EXECUTE", verdict
    account = int(key.split("-")[1]) % 10
    db.execute("UPDATE account SET balance = balance + 1 WHERE id = ?", (account,))
    balance, = db.execute("SELECT balance FROM account WHERE id = ?", (account,)).fetchone()
    result = f"{account}:{balance}"
    db.execute("SELECT once_complete('charges', ?, ?, 201, ?)", (key, verdict["fence"], result)).fetchone()
    db.execute("COMMIT")
    return result, verdict["fence"]


def main():
    extension, database, seed, keys, what = sys.argv[1:6]
    chance = random.Random(seed)
    db = connect(extension, database)
    number = 0
    while True:
        if what == "balance":
            charge(db, f"k-{chance.randrange(int(keys))}")
            print("done", flush=True)
        else:
            key = f"{seed}-{number}"
            result, fence = charge(db, key)
            print(key, fence, result, flush=True)
        number += 1


if __name__ == "__main__":
    main()
