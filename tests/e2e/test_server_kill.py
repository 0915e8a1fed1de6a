# SPDX-License-Identifier: Apache-2.0
"""kill -9 of `once serve` at full load, again and again, with real clients that keep their own
record (kill_worker.py). At the end: nothing that was acknowledged is lost, nothing was executed
twice, fences strictly increase. ONCE_KILL_ROUNDS says how often (20; `make soak`: 200).
"""
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from serving import HOST, Server, wait_for

HERE = Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ONCE_KILL_ROUNDS", "20"))
WORKERS = 3


class Clients:
    """The worker processes, and redis-benchmark beside them to fill the server's log."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        (folder / "effects").mkdir(parents=True)
        self.errors = (folder / "errors").open("w")
        self.workers = [subprocess.Popen(
            [sys.executable, HERE / "kill_worker.py", str(server.port), folder, f"w{i}"],
            stderr=self.errors) for i in range(WORKERS)]

    def load(self, number):
        """Until the server is killed. Bounded in keys, else two hundred starts take long."""
        words = (["-r", "20000", "ONCE.BEGIN", f"load{number % 8}", "key:__rand_int__"]
                 if number % 2 == 0 else ["-r", "50000", "SET", "key:__rand_int__", "x", "EX", "60"])
        return subprocess.Popen(
            ["redis-benchmark", "-h", HOST, "-p", str(self.server.port), "-q", "-c", "16", "-P",
             "8", "-n", "100000000", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def told(self):
        return sum(p.stat().st_size for p in self.folder.glob("told.*"))

    def alive(self):
        for worker in self.workers:
            assert worker.poll() is None, (self.folder / "errors").read_text()[-3000:]

    def finish(self):
        (self.folder / "stop").touch()
        for worker in self.workers:
            worker.wait(60)
        self.errors.close()
        said = (self.folder / "errors").read_text()
        assert said == "", said[-3000:]

    def end(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()


def run_rounds(server, clients, rounds, seed):
    rng = random.Random(seed)
    for number in range(rounds):
        before = clients.told()
        load = clients.load(number)
        try:
            # Everyone is at work again before the next kill, which comes at a random moment.
            wait_for("clients go on", lambda: clients.told() > before + 4000, 120)
            time.sleep(rng.uniform(0, 0.15))
            clients.alive()
            server.kill()
        finally:
            load.kill()
            load.wait()
        server.start()


class Records:
    """What all clients were told, and what happened outside."""

    def __init__(self, folder):
        self.claims, self.done, self.values = [], defaultdict(set), defaultdict(set)
        self.applied, self.counts = defaultdict(set), Counter()
        for path in sorted(folder.glob("told.*")):
            for line in path.read_text().splitlines():
                what, key, *rest = line.split(" ")
                if what == "claim":
                    self.claims.append((key, int(rest[0]), int(rest[1])))
                elif what in ("done", "replay"):
                    self.done[key].add(rest[0])
                elif what == "value":
                    self.values[key].add(rest[0])
                elif what == "applied":
                    self.applied[key].add(int(rest[0]))
                else:
                    raise AssertionError(line)
        for path in folder.glob("counts.*"):
            for line in path.read_text().splitlines():
                what, _, count = line.rpartition(" ")
                self.counts[what] += int(count)
        self.effects = defaultdict(list)
        for path in (folder / "effects").iterdir():  # those of a client that vanished included
            key, fence = path.name.split(".")
            if path.read_text() == "done":
                self.effects[key].append(int(fence))


def violations(records, server):
    """Everything that should not be, as sentences."""
    yield from contradictions(records)
    yield from lost(records, server)


def contradictions(records):
    """In the records alone."""
    for key, fences in records.effects.items():
        if len(fences) != 1:
            yield f"{key} was executed {len(fences)} times, under the fences {sorted(fences)}"
    for key, results in records.done.items():
        if len(results) != 1:
            yield f"{key} had the answers {sorted(results)}"
        if {f"{key}.{fence}" for fence in records.effects[key]} != results:
            yield f"{key} was acknowledged with {results}; executed: {records.effects[key]}"
    for key, values in records.values.items():
        if len(values) != 1:
            yield f"SET NX of {key} was won by {sorted(values)}"
    given = {}
    for key, fence, known in records.claims:
        if fence <= known:
            yield f"{key} was given fence {fence} after {known}"
        if given.setdefault(fence, key) != key:
            yield f"{key} and {given[fence]} were both given fence {fence}"


def lost(records, server):
    with server.connect() as c:
        for keys in pages(sorted(records.done)):
            for key, answer in zip(keys, ask(c, [("ONCE.BEGIN", "kill", k, "FP", k) for k in keys])):
                if answer != ["REPLAY", 200, next(iter(records.done[key])).encode()]:
                    yield f"{key} was acknowledged with {records.done[key]} and is {answer} now"
        for keys in pages(sorted(records.values)):
            for key, answer in zip(keys, ask(c, [("GET", k) for k in keys])):
                if answer is None or {answer.decode()} != records.values[key]:
                    yield f"value {key} was {records.values[key]} and is {answer} now"
        results = [next(iter(r)) for r in records.applied.values()]
        if any(len(r) != 1 for r in records.applied.values()) or len(set(results)) != len(results):
            yield "two applies had one result, or one had two"
        for keys in pages(sorted(records.applied)):
            commands = [("ONCE.APPLY", "kill", k, "DO", 3, "ADD", "applied", "1") for k in keys]
            for key, answer in zip(keys, ask(c, commands)):
                if answer != ["REPLAY", *records.applied[key]]:
                    yield f"apply {key} gave {records.applied[key]} and is {answer} now"
        total = c("ONCE.APPLY", "kill", "the-total", "DO", 3, "ADD", "applied", "0")[1]
        if total != len(records.applied):
            yield f"{len(records.applied)} applies of 1 made {total}"


def pages(keys, size=500):
    for at in range(0, len(keys), size):
        yield keys[at:at + size]


def ask(connection, commands):
    for words in commands:
        connection.send(*words)
    return [connection.read() for _ in commands]


def test_nothing_is_lost_and_nothing_runs_twice(tmp_path, capsys):
    seed = int(os.environ.get("ONCE_SEED", "1"))
    server = Server(tmp_path / "server")
    server.start()
    clients = Clients(server, tmp_path / "clients")
    try:
        run_rounds(server, clients, ROUNDS, seed)
        clients.finish()
        records = Records(tmp_path / "clients")
        found = list(violations(records, server))
    finally:
        clients.end()
        status = server.stop()
    assert not found, f"{len(found)} violations (ONCE_SEED={seed}):\n" + "\n".join(found[:20])
    assert len(records.done) > 10 * ROUNDS and records.applied and records.values
    assert status == 0
    with capsys.disabled():
        print(f"\n  {ROUNDS} kills: {len(records.done)} operations executed once each, "
              f"{len(records.applied)} applies, {len(records.values)} values; "
              + ", ".join(f"{n} {what}" for what, n in sorted(records.counts.items())))


def test_a_server_that_tells_too_early_is_caught(tmp_path):
    """Durability `interval` says what it loses: the last interval. The records have to show it."""
    server = Server(tmp_path / "server", settings="durability = interval\ninterval = 1m\n")
    server.start()
    clients = Clients(server, tmp_path / "clients")
    caught = []
    try:
        run_rounds(server, clients, 2, 1)
        clients.finish()
        caught = list(violations(Records(tmp_path / "clients"), server))
    except AssertionError as error:
        caught = [str(error)]  # a client has seen it already
    finally:
        clients.end()
        server.stop()
    assert any(word in "\n".join(caught) for word in (
        "executed 2 times", "is ['EXECUTE'", "was given fence", "NOTFOUND", "won by", "STALE",
        "had the answers", "both given", "not there", "acknowledged")), (
        f"two kills lost nothing although nothing was durable: {caught[:3]}")


GOOD = ["claim k1 5 0", "done k1 k1.5", "replay k1 k1.5", "claim k2 6 5", "done k2 k2.6", "value v a"]


@pytest.mark.parametrize("line, effect, wanted", [
    (None, None, None),
    ("claim k1 7 6", "k1.7", "k1 was executed 2 times, under the fences [5, 7]"),
    ("claim k3 6 5", None, "k3 and k2 were both given fence 6"),
    ("claim k3 4 6", None, "k3 was given fence 4 after 6"),
    ("replay k1 k1.4", None, "k1 had the answers ['k1.4', 'k1.5']"),
    ("done k3 k3.8", None, "k3 was acknowledged with {'k3.8'}; executed: []"),
    ("value v b", None, "SET NX of v was won by ['a', 'b']"),
])
def test_the_records_show_it(tmp_path, line, effect, wanted):
    """Each kind of harm, written into records that are good without it."""
    (tmp_path / "effects").mkdir()
    for name in ["k1.5", "k2.6", *([effect] if effect else [])]:
        (tmp_path / "effects" / name).write_text("done")
    (tmp_path / "told.w0").write_text("".join(f"{said}\n" for said in GOOD))
    (tmp_path / "told.w1").write_text(f"{line}\n" if line else "")
    found = list(contradictions(Records(tmp_path)))
    assert wanted in found if wanted else not found, found
