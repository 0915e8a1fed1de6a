# SPDX-License-Identifier: Apache-2.0
"""One client process of test_server_kill.py: redis-py in several threads, against a server that is
killed under it. Every process asks for the same keys, so that each is asked for several times at
once. kill_worker.py PORT FOLDER NAME; it ends when FOLDER/stop is there and its threads are done.

The world outside is a folder of files. An effect is the file KEY.FENCE, made with O_EXCL: who
executes makes it with the word "done", who settles a doubt makes it with "closed" if it is not
there. So the resource is fenced, can be asked, and its answer is final. What a client was told it
appends to a file of its own, at once:

    claim KEY FENCE KNOWN     an EXECUTE; KNOWN is the largest fence that was known before asking
    done KEY RESULT           the complete (or the settling of a doubt) was acknowledged
    replay KEY RESULT         what a replay said
    value KEY VALUE           SET NX was acknowledged
    applied KEY RESULT        an apply was acknowledged, now or as a replay
"""
import os
import random
import sys
import threading
import time
from pathlib import Path

import redis

THREADS = 4
LEASE_MS = 400  # short: a kill and a restart are enough for a doubt now and then
VANISHES = 0.02  # how often a client is never heard of again, before its effect or after it


class Worker:
    def __init__(self, port, folder, name):
        self.port, self.folder, self.name = port, Path(folder), name
        self.effects = self.folder / "effects"
        self.told = (self.folder / f"told.{name}").open("a", buffering=1)
        self.counts = {}
        self.lock = threading.Lock()
        self.known = 0  # the largest fence that any thread here was told
        self.next = 0

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def tell(self, *words):
        with self.lock:
            self.told.write(" ".join(map(str, words)) + "\n")

    def stopping(self):
        return (self.folder / "stop").exists()

    def effect(self, key, fence, word):
        """Makes the effect, or closes the door to it. What there is now."""
        path = self.effects / f"{key}.{fence}"
        try:
            with open(path, "x") as file:
                file.write(word)
            return word
        except FileExistsError:
            while True:
                found = path.read_text()
                if found:
                    return found  # empty: its maker is between making and writing

    def run(self):
        threads = [threading.Thread(target=self.thread, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.told.close()
        with (self.folder / f"counts.{self.name}").open("w") as file:
            file.writelines(f"{what} {count}\n" for what, count in self.counts.items())

    def thread(self, index):
        Thread(self, random.Random(f"{self.name}.{index}")).run()


class Thread:
    def __init__(self, worker, rng):
        self.worker, self.rng = worker, rng
        self.redis = redis.Redis(port=worker.port, socket_timeout=30, decode_responses=True)

    def call(self, *words):
        """Sends it until there is an answer: every call is idempotent."""
        while True:
            try:
                return self.redis.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError):
                self.worker.count("calls without an answer")
                time.sleep(0.01)  # nobody is there: it is being started again
            except redis.ResponseError as error:
                return str(error)

    def run(self):
        worker = self.worker
        while not worker.stopping():
            with worker.lock:
                number = worker.next
                worker.next += 1
            try:
                (self.value if number % 8 == 0 else self.applied if number % 8 == 1
                 else self.operation)(f"k{number}")
            except Exception as error:
                worker.tell("broken", f"k{number}", repr(error))
                raise

    def operation(self, key):
        worker = self.worker
        owner = f"{worker.name}-{self.rng.getrandbits(64):x}"
        wait = ["WAIT", self.rng.randrange(1, 300)] if self.rng.random() < 0.5 else []
        known = worker.known
        while True:
            answer = self.call("ONCE.BEGIN", "kill", key, "FP", key, "OWNER", owner, "LEASE",
                               LEASE_MS, *wait)
            word = answer[0]
            if word == "REPLAY":
                worker.tell("replay", key, answer[2])
                worker.count("replays")
                return
            if word == "EXECUTE":
                if self.execute(key, answer[1], known):
                    return
                # It was settled before we came to it: ask again, as somebody else.
                owner = f"{worker.name}-{self.rng.getrandbits(64):x}"
                known = worker.known
            elif word == "BUSY":
                worker.count("busy")
                time.sleep(min(answer[1], 50) / 1000)
            elif word == "DOUBT":
                self.settle(key, answer[1])
            else:
                raise AssertionError(f"begin of {key}: {answer}")

    def execute(self, key, fence, known):
        worker = self.worker
        worker.tell("claim", key, fence, known)
        with worker.lock:
            worker.known = max(worker.known, fence)
        if self.rng.random() < VANISHES:
            worker.count("vanished before the effect")
            return True
        if worker.effect(key, fence, "done") != "done":
            worker.count("effects that came too late")
            return False
        worker.count("effects")
        if self.rng.random() < VANISHES:
            worker.count("vanished after the effect")
            return True
        result = f"{key}.{fence}"
        answer = self.call("ONCE.COMPLETE", "kill", key, fence, 200, result)
        if answer == "OK":
            worker.tell("done", key, result)
            worker.count("completes")
            return True
        if answer.startswith("STALE"):  # our doubt was settled by another: a replay will tell
            worker.count("completes that came too late")
            return False
        raise AssertionError(f"complete of {key} under {fence}: {answer}")

    def settle(self, key, fence):
        """Asks the world outside, whose answer is final, and says so."""
        worker = self.worker
        if worker.effect(key, fence, "closed") == "done":
            result = f"{key}.{fence}"
            answer = self.call("ONCE.RESOLVE", "kill", key, "DONE", 200, result, "FENCE", fence)
            worker.count("doubts: it was done")
            if answer == "OK":
                worker.tell("done", key, result)
        else:
            answer = self.call("ONCE.RESOLVE", "kill", key, "NOTDONE", "FENCE", fence)
            worker.count("doubts: it was not done")
        # Others settle it too: whoever is later finds it settled, taken over, or ended.
        assert answer == "OK" or answer.split()[0] in ("STALE", "BUSY", "MISMATCH"), (
            f"resolve of {key} under {fence}: {answer}")

    def value(self, key):
        worker = self.worker
        mine = f"{worker.name}-{self.rng.getrandbits(64):x}"
        won = self.call("SET", key, mine, "NX", "EX", 86400)
        now = self.call("GET", key)
        if won is True and now != mine:
            raise AssertionError(f"SET NX of {key} was acknowledged and is {now}, not {mine}")
        assert now is not None, f"{key} was set by someone and is not there"
        worker.tell("value", key, now)
        worker.count("values")

    def applied(self, key):
        answer = self.call("ONCE.APPLY", "kill", key, "DO", 3, "ADD", "applied", "1")
        assert answer[0] in ("APPLIED", "REPLAY"), f"apply of {key}: {answer}"
        self.worker.tell("applied", key, answer[1])
        self.worker.count("applies")


if __name__ == "__main__":
    Worker(int(sys.argv[1]), sys.argv[2], sys.argv[3]).run()
    os._exit(0)
