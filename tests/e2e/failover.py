# SPDX-License-Identifier: Apache-2.0
"""What the clients of test_pg_failover.py were told (failover_worker.py), and everything in it that
should not be. `contradictions` looks at the records alone; `drained` ends every key that was ever
asked for, so that none is stuck; `lost` asks a server about everything that was acknowledged.
"""
import bisect
import json
import re
import time
from collections import Counter, defaultdict, namedtuple
from pathlib import Path

from failover_worker import LEASE_MS, NS, World, policy_of
from serving import Connection, Error

SLACK_S = 0.03  # two clocks of one machine: the clients' and the database's
STUCK_S = 30
Claim = namedtuple("Claim", "key fence attempt point who asked told lease_ms policy")


class Records:
    """What all clients were told, and what happened outside."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.claims, self.doubts, self.stale, self.broken = [], [], [], []
        self.done, self.values, self.applied = defaultdict(set), defaultdict(set), defaultdict(set)
        self.acknowledged = Counter()
        self.settled, self.failed = defaultdict(set), set()  # key, fence
        self.renewed, self.points = defaultdict(list), defaultdict(list)
        self.asked, self.objects = 0, False
        self.counts = Counter()
        for path in sorted(self.folder.glob("told.*")):
            for line in path.read_text().splitlines():
                self.read(*json.loads(line))
        for path in self.folder.glob("counts.*"):
            self.counts.update(json.loads(path.read_text()))
        self.effects = defaultdict(list)  # those of a client that vanished included
        for path in (self.folder / "effects").iterdir():
            if path.is_symlink():
                key, fence = path.name.split(".")
                word, who = path.readlink().name.split(" ")
                if word == "done":
                    self.effects[key].append((int(fence), who))
            else:
                for line in path.read_text().splitlines():
                    fence, who = line.split(" ")
                    self.effects[path.name].append((int(fence), who))

    def read(self, what, key, *rest):
        if what == "claim":
            self.claims.append(Claim(key, *rest))
        elif what in ("done", "replay"):
            self.done[key].add(rest[0])
            self.acknowledged[what] += 1
        elif what == "doubt":
            self.doubts.append((key, *rest))
        elif what == "stale":
            self.stale.append((key, *rest))
        elif what == "settled":
            self.settled[key, rest[0]].add(rest[1])
        elif what == "failed":
            self.failed.add((key, rest[0]))
        elif what == "renewed":
            self.renewed[key, rest[0]].append((rest[1], rest[2]))
        elif what == "point":
            self.points[key].append((rest[0], rest[2]))
        elif what == "value":
            self.values[key].add(rest[0])
        elif what == "applied":
            self.applied[key].add((rest[0], rest[1]))
        elif what == "asked":
            self.asked = max(self.asked, rest[0])
        else:
            self.broken.append(f"{key}: {' '.join(map(str, rest))}")
        if re.fullmatch(r"k\d+", key):
            self.asked = max(self.asked, int(key[1:]) + 1)
        self.objects = self.objects or what in ("value", "applied")

    def keys(self):
        """Of operations: all that were ever asked for."""
        return [f"k{number}" for number in range(self.asked)
                if not self.objects or number % 10 < 8]


def contradictions(records):
    """In the records alone, as sentences."""
    yield from records.broken
    yield from twice(records)
    yield from not_as_acknowledged(records)
    yield from backwards(records)
    yield from taken_too_early(records)
    yield from forgotten(records)


def twice(records):
    """Effects that happened once too often."""
    claimed = {(claim.key, claim.fence): claim.who for claim in records.claims}
    last = defaultdict(int)
    for claim in records.claims:
        last[claim.key] = max(last[claim.key], claim.fence)
    for key, effects in records.effects.items():
        fences = [fence for fence, _ in effects]
        if policy_of(int(key[1:])) == "REJECT" and len(fences) != 1:
            yield f"{key} was executed {len(fences)} times, under the fences {sorted(fences)}"
        if fences != sorted(set(fences)) and policy_of(int(key[1:])) == "RETRY":
            yield f"the ledger of {key} took the fences {fences} in this order"
        for fence, who in effects:
            if claimed.get((key, fence)) != who:
                yield f"{key} was executed under {fence} by {who}, who was never told EXECUTE"
    for key, results in records.done.items():
        for result in results:
            if last[key] > int(result.split(".")[1]):
                yield f"{key} ended with {result} and was given out again under {last[key]}"


def not_as_acknowledged(records):
    for key, results in records.done.items():
        if len(results) != 1:
            yield f"{key} had the answers {sorted(results)}"
        for result in results:
            if result not in {f"{key}.{fence}" for fence, _ in records.effects[key]}:
                yield f"{key} was acknowledged with {result}; executed: {records.effects[key]}"
    for key, values in records.values.items():
        if len(values) != 1:
            yield f"SET NX of {key} was won by {sorted(values)}"
    results = Counter()
    for key, answers in records.applied.items():
        if len(answers) != 1:
            yield f"apply {key} had the answers {sorted(answers)}"
        results.update(answers)
    for (counter, result), count in results.items():
        if count != 1:
            yield f"{count} applies made {counter} {result}"


def backwards(records):
    """Fences only grow: what is given after one was told is larger than that one."""
    known = sorted([(c.told, c.fence) for c in records.claims]
                   + [(told, fence) for _, fence, _, told in records.doubts])
    largest, times = [], [told for told, _ in known]
    for _, fence in known:
        largest.append(max(fence, largest[-1] if largest else 0))
    given = {}
    for claim in records.claims:
        before = bisect.bisect_left(times, claim.asked)
        if before and claim.fence <= largest[before - 1]:
            yield f"{claim.key} was given fence {claim.fence} after {largest[before - 1]}"
        first = given.setdefault(claim.fence, claim)
        if first is not claim:
            yield (f"{claim.key} ({claim.who}) and {first.key} ({first.who}) were both given fence "
                   f"{claim.fence}")


def taken_too_early(records):
    """Between two attempts of a key the first was over: it failed, its doubt was settled, or, where
    the rule is to take over, its lease was over. A doubt comes after the lease, too."""
    claims = defaultdict(list)
    for claim in records.claims:
        claims[claim.key].append(claim)
    for key, found in claims.items():
        found.sort(key=lambda claim: claim.fence)
        for first, second in zip(found, found[1:]):
            name = (key, first.fence)
            if name in records.failed or "NOTDONE" in records.settled[name]:
                continue
            if second.policy != "RETRY":
                yield f"{key} was given out under {second.fence}; {first.fence} had not ended"
            elif second.told < lease_end(records, first) - SLACK_S:
                yield f"{key} was given out under {second.fence} in the lease of {first.fence}"
    by_name = {(claim.key, claim.fence): claim for claim in records.claims}
    for key, fence, _, told in records.doubts:
        claim = by_name.get((key, fence))
        if claim is not None and told < lease_end(records, claim) - SLACK_S:
            yield f"{key} was called a doubt in the lease of {fence}"


def lease_end(records, claim):
    """At the earliest: a lease begins after it was asked for."""
    return max([claim.asked + claim.lease_ms / 1000]
               + [asked + ms / 1000 for ms, asked in records.renewed[claim.key, claim.fence]])


def forgotten(records):
    """Acknowledged checkpoints that the next attempt did not get, and fences that were refused
    although nobody had taken over."""
    fences = defaultdict(set)
    for claim in records.claims:
        fences[claim.key].add(claim.fence)
        known = [fence for fence, told in records.points[claim.key]
                 if told < claim.asked and fence < claim.fence]
        shown = int(claim.point[1:]) if claim.point else 0
        if known and shown < max(known):
            yield (f"{claim.key} had the point p{max(known)}; the attempt {claim.fence} was told "
                   f"{claim.point!r}")
    for key, fence, *_ in records.doubts:
        fences[key].add(fence)
    for key, fence, call, _ in records.stale:
        if (not any(other > fence for other in fences[key]) and not records.settled[key, fence]
                and (key, fence) not in records.failed):
            yield f"{call} of {key} under {fence} was STALE, and nobody had taken over"


def pages(keys, size=200):
    for at in range(0, len(keys), size):
        yield keys[at:at + size]


def ask(connection, commands):
    for words in commands:
        connection.send(*words)
    return [connection.read() for _ in commands]


def drained(records, port):
    """Ends every operation as a client would that comes later, and writes it to the records."""
    with Drain(records, port) as drain:
        for keys in pages(records.keys()):
            answers = ask(drain.connection, [("ONCE.GET", NS, key) for key in keys])
            for key, answer in zip(keys, answers):
                if not answer or dict(zip(answer[::2], answer[1::2]))[b"state"] != b"completed":
                    yield from drain.end(key)


class Drain:
    def __init__(self, records, port):
        self.records, self.port = records, port
        self.world = World(records.folder)
        self.connection = Connection(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def end(self, key):
        """In bounded time: a lease, and a little."""
        policy, end = policy_of(int(key[1:])), time.monotonic() + STUCK_S
        answer = None
        while time.monotonic() < end:
            asked = time.monotonic()
            self.connection.send("ONCE.BEGIN", NS, key, "FP", key, "DOUBT", policy, "LEASE",
                                 LEASE_MS, "WAIT", 500)
            answer = self.connection.read()
            told = time.monotonic()
            if isinstance(answer, Error):
                yield f"{key}: {answer}"
                return
            if answer[0] == "REPLAY":
                self.records.read("replay", key, answer[2].decode(), asked, told)
                return
            if answer[0] == "EXECUTE":
                self.execute(key, policy, answer, asked, told)
            elif answer[0] == "DOUBT":
                self.settle(key, answer[1], asked, told)
            elif answer[0] != "BUSY":
                break
        yield f"{key} is stuck: {answer}"

    def execute(self, key, policy, answer, asked, told):
        fence, point = answer[1], (answer[3] or b"").decode()
        self.records.read("claim", key, fence, answer[2], point, "drain", asked, told, LEASE_MS,
                          policy)
        made = (self.world.fenced(key, fence, "drain") if policy == "RETRY"
                else self.world.once(key, fence, "done", "drain") == "done")
        if made:
            self.records.effects[key].append((fence, "drain"))
        self.connection.send("ONCE.COMPLETE", NS, key, fence, 200, f"{key}.{fence}")
        if self.connection.read() == "OK":
            self.records.read("done", key, f"{key}.{fence}")

    def settle(self, key, fence, asked, told):
        self.records.read("doubt", key, fence, asked, told)
        done = self.world.once(key, fence, "closed", "drain") == "done"
        self.records.read("settled", key, fence, "DONE" if done else "NOTDONE", True, asked, told)
        self.connection.send("ONCE.RESOLVE", NS, key,
                             *(["DONE", 200, f"{key}.{fence}"] if done else ["NOTDONE"]),
                             "FENCE", fence)
        self.connection.read()


def lost(records, port):
    """What was acknowledged and is not there."""
    with Connection(port) as c:
        for keys in pages(sorted(records.done)):
            for key, answer in zip(keys, ask(c, [("ONCE.BEGIN", NS, k, "FP", k) for k in keys])):
                if answer != ["REPLAY", 200, min(records.done[key]).encode()]:
                    yield f"{key} was acknowledged with {records.done[key]} and is {answer!r} now"
        for keys in pages(sorted(records.values)):
            for key, answer in zip(keys, ask(c, [("GET", k) for k in keys])):
                if answer is None or {answer.decode()} != records.values[key]:
                    yield f"value {key} was {records.values[key]} and is {answer!r} now"
        sums = Counter()
        for keys in pages(sorted(records.applied)):
            counters = [min(records.applied[key]) for key in keys]
            commands = [("ONCE.APPLY", NS, key, "DO", 3, "ADD", counter, "1")
                        for key, (counter, _) in zip(keys, counters)]
            for key, (counter, result), answer in zip(keys, counters, ask(c, commands)):
                sums[counter] += 1
                if answer != ["REPLAY", result]:
                    yield f"apply {key} gave {counter} {result} and is {answer!r} now"
        for counter, count in sums.items():
            total = c("ONCE.APPLY", NS, f"total-of-{counter}", "DO", 3, "ADD", counter, "0")[1]
            if total != count:
                yield f"{count} applies of 1 made {counter} {total}"
