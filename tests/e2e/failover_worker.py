# SPDX-License-Identifier: Apache-2.0
"""One client process of test_pg_failover.py: threads that ask through a load balancer while servers
and databases are killed behind it. Every process asks for the same keys, so that each is asked for
several times at once, on different servers. failover_worker.py PORT FOLDER NAME [objects]; it ends
when FOLDER/stop is there and its threads are done. Every call is sent again, word for word, until
somebody has decided it.

The world outside is FOLDER/effects, which no kill of a server touches:

 - Most keys let nobody run into a doubt (DOUBT REJECT). Their effect is the link KEY.FENCE, made in
   one step: who executes makes it point to "done …", who settles a doubt to "closed …" if it is not
   there. So the resource can be asked, and its answer is final.
 - The others take over by themselves (DOUBT RETRY), which is right where the resource checks
   fences: their ledger is the file KEY, which takes a fence only if it is larger than all before.

What a client was told it appends at once to told.NAME, one array of JSON a line; failover.py reads
it. asked and told are moments of the machine's monotonic clock: asked is before the call was sent
for the first time, told is after its answer was read.
"""
import fcntl
import json
import os
import random
import socket
import sys
import threading
import time
from pathlib import Path

from serving import Connection, Error

NS = "failover"
THREADS = 8
LEASE_MS = 700  # short: a kill and a restart are enough for a doubt now and then
TIMEOUTS_S = (2, 15)  # some clients give up before the server does
DECIDED = {"STALE", "NOTFOUND", "MISMATCH", "BUSY", "DOUBT", "REJECTED"}
RETRIED = 3  # of ten keys so many take over by themselves


def policy_of(number):
    return "RETRY" if number % 10 < RETRIED else "REJECT"


class World:
    """The resource that the effects are made on."""

    def __init__(self, folder):
        self.folder = Path(folder) / "effects"

    def once(self, key, fence, word, who):
        """Makes the effect ("done"), or closes the door to it ("closed"). What there is now."""
        path = self.folder / f"{key}.{fence}"
        try:
            os.symlink(f"{word} {who}", path)
            return word
        except FileExistsError:
            return os.readlink(path).split(" ")[0]

    def fenced(self, key, fence, who):
        """Whether the ledger took it: not when it knows a larger fence, or this one."""
        with (self.folder / key).open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if any(int(line.split(" ")[0]) >= fence for line in file):
                return False
            file.write(f"{fence} {who}\n")
            file.flush()
            return True


class Worker:
    def __init__(self, port, folder, name, objects):
        self.port, self.folder, self.name, self.objects = port, Path(folder), name, objects
        self.world = World(folder)
        self.file = (self.folder / f"told.{name}").open("a", buffering=1)
        self.lock = threading.Lock()
        self.counts = {}
        self.next = 0

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def tell(self, *words):
        with self.lock:
            self.file.write(json.dumps(words) + "\n")

    def number(self):
        with self.lock:
            self.next += 1
            return self.next - 1

    def run(self):
        clients = [Client(self, i) for i in range(THREADS)]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.tell("asked", "all", self.next)
        self.file.close()
        (self.folder / f"counts.{self.name}").write_text(json.dumps(self.counts))


class Client:
    def __init__(self, worker, index):
        self.worker = worker
        self.rng = random.Random(f"{worker.name}.{index}")
        self.timeout = TIMEOUTS_S[index % len(TIMEOUTS_S)]
        self.connection = None
        self.mine = []  # (key, result) that were acknowledged here
        self.objects = worker.objects

    def call(self, *words):
        """The answer that decides it; an error that decides is returned as its text."""
        while True:
            try:
                if self.connection is None:
                    self.connection = Connection(self.worker.port, timeout=self.timeout)
                self.connection.send(*words)
                answer = self.connection.read()
            except (OSError, socket.timeout):
                self.worker.count("calls without an answer")
                self.hang_up()
                time.sleep(0.03)  # nobody is there: it is being started again
                continue
            if not isinstance(answer, Error):
                return answer
            if answer.code in DECIDED:
                return str(answer)
            if answer.code not in ("STOPPED", "LOADING"):
                raise AssertionError(f"{words}: {answer}")
            self.worker.count(f"{answer.code} answers")
            self.hang_up()
            time.sleep(0.01)

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def run(self):
        while not (self.worker.folder / "stop").exists():
            number = self.worker.number()
            key = f"k{number}"
            if self.rng.random() < 0.05:
                self.hang_up()  # the next call is another server's, perhaps
            try:
                if self.objects and number % 10 == 8:
                    self.value(key)
                elif self.objects and number % 10 == 9:
                    self.applied(key, number)
                else:
                    self.operation(key, policy_of(number))
                if self.mine and self.rng.random() < 0.1:
                    self.again(*self.rng.choice(self.mine))
            except Exception as error:
                self.worker.tell("broken", key, f"{type(error).__name__}: {error}")
                raise

    def again(self, key, result):
        """What was acknowledged is asked for much later. (BUSY: somebody else asks right now, and
        holds the row.)"""
        answer = ["BUSY"]
        while answer[0] == "BUSY":
            answer = self.call("ONCE.BEGIN", NS, key, "FP", key)
        assert answer == ["REPLAY", 200, result.encode()], (
            f"{key} was acknowledged with {result} and was {answer} later")
        self.worker.count("replays of old ones")

    def operation(self, key, policy):
        """Until it is over: done by us or by somebody, or we vanish."""
        while True:
            who = f"{self.worker.name}-{self.rng.getrandbits(64):x}"
            owner = ["OWNER", who] if self.rng.random() < 0.7 else []
            wait = ["WAIT", self.rng.randrange(1, 1000)] if self.rng.random() < 0.5 else []
            lease_ms = LEASE_MS + self.rng.randrange(0, 300)
            asked = time.monotonic()
            while True:
                answer = self.call("ONCE.BEGIN", NS, key, "FP", key, "LEASE", lease_ms, "DOUBT",
                                   policy, *owner, *wait)
                told = time.monotonic()
                if answer[0] != "BUSY":
                    break
                self.worker.count("busy")
                time.sleep(min(answer[1], 50) / 1000)
            if answer[0] == "REPLAY":
                assert answer[1] == 200, answer
                self.worker.tell("replay", key, answer[2].decode(), asked, told)
                self.worker.count("replays")
                return
            if answer[0] == "EXECUTE":
                point = answer[3].decode() if answer[3] else ""
                self.worker.tell("claim", key, answer[1], answer[2], point, who, asked, told,
                                 lease_ms, policy)
                if self.execute(key, answer[1], who, policy, lease_ms):
                    return
            elif answer[0] == "DOUBT":
                assert policy == "REJECT", f"{key} takes over, and was told {answer}"
                self.worker.tell("doubt", key, answer[1], asked, told)
                self.settle(key, answer[1], who)
            else:
                raise AssertionError(f"begin of {key}: {answer}")

    def execute(self, key, fence, who, policy, lease_ms):
        """True when there is nothing more to do for us here."""
        worker, chance = self.worker, self.rng.random()
        if chance < 0.02:
            worker.count("vanished before the effect")
            return True
        if chance < 0.06 and self.point(key, fence) and chance < 0.04:
            worker.count("vanished after a checkpoint")
            return True
        if 0.06 < chance < 0.12:
            self.renew(key, fence, lease_ms)
        elif 0.12 < chance < 0.14:
            time.sleep(1.2 * lease_ms / 1000)  # paused for longer than the lease
            worker.count("paused owners")
        elif 0.14 < chance < 0.17:
            return self.fail(key, fence, who, policy)
        if policy == "RETRY":
            made = worker.world.fenced(key, fence, who)
        else:
            made = worker.world.once(key, fence, "done", who) == "done"
        if not made:
            worker.count("effects that came too late")
            if policy == "REJECT":
                return False
        else:
            worker.count("effects")
        if 0.17 < chance < 0.19:
            worker.count("vanished after the effect")
            return True
        return self.complete(key, fence, made)

    def complete(self, key, fence, made):
        result = f"{key}.{fence}"
        asked = time.monotonic()
        answer = self.call("ONCE.COMPLETE", NS, key, fence, 200, result)
        told = time.monotonic()
        if answer == "OK":
            assert made, f"{key} was completed under {fence}, but the world knows a larger one"
            self.worker.tell("done", key, result, asked, told)
            self.worker.count("completes")
            self.mine.append((key, result))
            return True
        return self.stale("complete", key, fence, answer)

    def stale(self, call, key, fence, answer):
        """The only other answer that a holder of a fence may have: somebody took over."""
        assert answer.startswith("STALE"), f"{call} of {key} under {fence}: {answer}"
        self.worker.tell("stale", key, fence, call, time.monotonic())
        self.worker.count(f"{call}: STALE")
        return False

    def renew(self, key, fence, lease_ms):
        asked = time.monotonic()
        answer = self.call("ONCE.RENEW", NS, key, fence, lease_ms)
        if answer == "OK":
            self.worker.tell("renewed", key, fence, lease_ms, asked, time.monotonic())
            self.worker.count("renewals")
        elif not answer.startswith("DOUBT"):
            self.stale("renew", key, fence, answer)

    def point(self, key, fence):
        asked = time.monotonic()
        answer = self.call("ONCE.CHECKPOINT", NS, key, fence, f"p{fence}", "half")
        if answer == "OK":
            self.worker.tell("point", key, fence, asked, time.monotonic())
            self.worker.count("checkpoints")
            return True
        return self.stale("checkpoint", key, fence, answer)

    def fail(self, key, fence, who, policy):
        """It is known not to have happened: the door is closed first, so that this stays true."""
        if policy == "REJECT" and self.worker.world.once(key, fence, "closed", who) != "closed":
            raise AssertionError(f"the effect of {key} under {fence} was made by somebody else")
        asked = time.monotonic()
        answer = self.call("ONCE.FAIL", NS, key, fence, "changed my mind")
        self.worker.tell("failed", key, fence, asked, time.monotonic())
        self.worker.count("fails")
        return answer == "OK" or self.stale("fail", key, fence, answer)

    def settle(self, key, fence, who):
        """Asks the world outside, whose answer is final, and says so."""
        asked = time.monotonic()
        if self.worker.world.once(key, fence, "closed", who) == "done":
            word, result = "DONE", f"{key}.{fence}"
            answer = self.call("ONCE.RESOLVE", NS, key, "DONE", 200, result, "FENCE", fence)
        else:
            word, result = "NOTDONE", ""
            answer = self.call("ONCE.RESOLVE", NS, key, "NOTDONE", "FENCE", fence)
        told = time.monotonic()
        self.worker.tell("settled", key, fence, word, answer == "OK", asked, told)
        self.worker.count(f"doubts: {word}")
        if answer == "OK" and word == "DONE":
            self.worker.tell("done", key, result, asked, told)
        # Others settle it too: whoever is later finds it settled, taken over, or ended.
        assert answer == "OK" or answer.split(" ")[0] in ("STALE", "BUSY", "MISMATCH"), (
            f"resolve of {key} under {fence}: {answer}")

    def value(self, key):
        mine = f"{self.worker.name}-{self.rng.getrandbits(64):x}"
        won = self.call("SET", key, mine, "NX", "EX", 86400)
        now = self.call("GET", key)
        assert now is not None, f"{key} was set by someone and is not there"
        assert won is None or now.decode() == mine, f"SET NX of {key}: OK for {mine}; it is {now}"
        self.worker.tell("value", key, now.decode())
        self.worker.count("values")

    def applied(self, key, number):
        counter = f"sum{number // 10 % 4}"
        answer = self.call("ONCE.APPLY", NS, key, "DO", 3, "ADD", counter, "1")
        assert answer[0] in ("APPLIED", "REPLAY"), f"apply of {key}: {answer}"
        self.worker.tell("applied", key, counter, answer[1])
        self.worker.count("applies")


if __name__ == "__main__":
    Worker(int(sys.argv[1]), sys.argv[2], sys.argv[3], "objects" in sys.argv[4:]).run()
    os._exit(0)
