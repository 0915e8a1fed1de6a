# SPDX-License-Identifier: Apache-2.0
"""Once as a server beside Redis and PostgreSQL: claims of new keys, in one run on one disk.

Every server is filled with the same number of keys first, which is also when its memory is measured. Then come
the cells (connections and pipeline), round after round; in each, one server after the other, in an order that changes
from round to round. The tool is the same for both RESP servers, redis-benchmark, and pgbench for PostgreSQL. At the
end each server must have as many keys as were claimed, and must know those that it was filled with.

Prints "server.SERVER.CELL claims=…" (claims a second, the median of the rounds), then ratios of the same round with
the floor that they must reach, latencies, and memory. Exits 1 when a bound is missed, 2 when it could not measure;
--report-only makes it short and judges nothing.
"""
import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from servers import CannotMeasure, Once, Postgres, RedisAlways, RedisOff, program

HERE = Path(__file__).resolve().parent
RANGE = 2_000_000_000        # redis-benchmark draws 31 bits
CONNECTIONS = 50             # of a latency
FILL_SEEDS = (1, 2)
KNOWN_MAX = 10_000           # keys that are claimed again at the end
NEW_PART_MIN = 0.97          # of the claims: some draw a number twice
DISK_FREE_MIN = 25 << 30     # an operation that has not ended keeps a block for its end, and there are millions


@dataclass(frozen=True)
class Cell:
    name: str
    connections: int
    pipeline: int
    unix: bool     # through a Unix socket, as PostgreSQL is; else TCP on this machine
    peers: tuple
    floors: tuple  # Once over each peer


CELLS = (
    Cell("c50_p16", 50, 16, False, ("redis_always", "redis_off"), (2.5, 1.0)),
    Cell("c50_p1", 50, 1, False, ("redis_always", "redis_off"), (2.5, 0.9)),
    Cell("c1_p1", 1, 1, True, ("postgres",), (10,)),
    Cell("c16_p1", 16, 1, True, ("postgres",), (10,)),
    Cell("c64_p1", 64, 1, True, ("postgres",), (10,)),
)


@dataclass(frozen=True)
class Size:
    keys: int
    trial_rounds: int
    rounds: int
    seconds: float          # of a server in a cell
    latency_rounds: int
    latency_seconds: float
    first_claims: int       # of each that may be under way, when the rate is not known yet


QUICK = Size(keys=20_000, trial_rounds=0, rounds=1, seconds=0.1, latency_rounds=1, latency_seconds=0.1,
             first_claims=8)
FULL = Size(keys=2_000_000, trial_rounds=1, rounds=5, seconds=1.0, latency_rounds=3, latency_seconds=1.5,
            first_claims=100)


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"{Path(command[0]).name} failed with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def claim(peer, number):
    """What redis-benchmark sends. Two of its runs may draw the same numbers, so the key says which run it is."""
    key = f"{number:08x}-0000-4000-8000-__rand_int__"
    return ("ONCE.BEGIN", "bench", key) if peer == "once" else ("SET", key, "1", "NX", "EX", "86400")


def row(label, **numbers):
    """A line that run.py reads."""
    print(label, *(f"{key}={value:.10g}" for key, value in numbers.items()))


class Benchmark:
    def __init__(self, options, folder, sockets):
        self.size = QUICK if options.report_only else FULL
        self.rounds = self.size.rounds if options.report_only else options.rounds
        self.load_tool = options.build / "bench" / "bench_load"
        self.postgres = Postgres(folder, sockets)
        self.once = Once(folder, options.build / "src" / "cli" / "once", Path(sockets) / "once.sock")
        self.resp = (self.once, RedisAlways(folder), RedisOff(folder))
        self.servers = {server.name: server for server in (*self.resp, self.postgres)}
        self.claimed = dict.fromkeys(self.servers, 0)
        self.rates = {}          # (cell, server): one for each round
        self.missed = False
        self.seed = FILL_SEEDS[-1]
        self.runs = 0

    def stop(self):
        for server in self.servers.values():
            server.stop()

    # ---- Filling, and memory --------------------------------------------------------------------

    def load(self, server, mode, **options):
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        line = run([self.load_tool, mode, "--port", server.port, *words])
        return {key: float(value) for key, value in (pair.split("=") for pair in line.split()[1:])}

    def fill(self):
        """The first half makes the process allocate what does not depend on the number of keys; memory a key is what it
        has more of after the second one. Once is filled with the same command as Redis."""
        half, used = self.size.keys // 2, {}
        for server in self.resp:
            server.start()
            resident = []
            for seed in FILL_SEEDS:
                self.load(server, "fill", peer="redis", keys=half, seed=seed)
                resident.append(server.resident())
            used[server.name] = (resident[1] - resident[0]) / half
            if server is self.once:
                fixed = resident[0] - used["once"] * half
            self.claimed[server.name] += 2 * half
        self.postgres.start()
        self.postgres.fill(2 * half)
        self.claimed["postgres"] += 2 * half
        return {"once_bytes": used["once"], "redis_bytes": used["redis_off"],
                "index_bytes": self.once.index_size() / (2 * half), "keys": 2 * half, "once_fixed_mb": fixed / 1e6}

    # ---- Rates ----------------------------------------------------------------------------------

    def redis_benchmark(self, server, cell, count):
        step = cell.connections * cell.pipeline  # it sends whole pipelines only
        count = max(count // step, 1) * step
        where = ("-s", server.socket) if cell.unix else ("-p", server.port)
        self.runs += 1
        out = run([program("redis-benchmark"), *where, "-c", cell.connections, "-P", cell.pipeline, "-n", count,
                   "-r", RANGE, "--csv", *claim(server.peer, self.runs)])
        self.claimed[server.name] += count
        # The columns: test, requests a second, …; the test is quoted and has no comma.
        return float(out.splitlines()[-1].split(",")[1].strip('"'))

    def pgbench(self, cell, count):
        count = max(count // cell.connections, 1)
        out = run([self.postgres.bin / "pgbench", "-n", "-M", "prepared", "-f", HERE / "claim.sql", "-t", count,
                   "-c", cell.connections, "-j", min(2, cell.connections), "-h", self.postgres.sockets,
                   "-U", "bench", "postgres"])
        if f"actually processed: {count * cell.connections}/" not in out:
            raise CannotMeasure(f"pgbench did not finish:\n{out}")
        self.claimed["postgres"] += count * cell.connections
        return float(re.search(r"^tps = ([\d.]+) \(without", out, re.MULTILINE).group(1))

    def measure(self, cell, name):
        server, last = self.servers[name], self.rates.get((cell, name))
        count = (round(last[-1] * self.size.seconds) if last
                 else self.size.first_claims * cell.connections * cell.pipeline)
        return self.pgbench(cell, count) if server is self.postgres else self.redis_benchmark(server, cell, count)

    def measure_cells(self):
        """The first rounds find out how many claims take as long as they should, and are not counted."""
        for turn in range(self.size.trial_rounds + self.rounds):
            for cell in CELLS:
                names = ("once", *cell.peers)
                for i in range(len(names)):
                    name = names[(i + turn) % len(names)]
                    self.rates.setdefault((cell, name), []).append(self.measure(cell, name))
        for rates in self.rates.values():
            del rates[:self.size.trial_rounds]

    def report_cells(self):
        for (cell, name), rates in self.rates.items():
            row(f"server.{name}.{cell.name}", claims=round(statistics.median(rates)))
        for cell in CELLS:
            for peer, floor in zip(cell.peers, cell.floors):
                ratios = [ours / theirs for ours, theirs
                          in zip(self.rates[cell, "once"], self.rates[cell, peer])]
                ratio = round(statistics.median(ratios), 3)
                row(f"server.once_over_{peer}.{cell.name}", ratio=ratio, low=round(min(ratios), 3),
                    high=round(max(ratios), 3), floor=floor)
                self.missed |= ratio < floor

    # ---- Latency --------------------------------------------------------------------------------

    def measure_latency(self):
        """Each at half of what it reaches itself, and all at half of what the slowest one reaches."""
        peaks = {cell: {server.name: statistics.median(self.rates[cell, server.name]) for server in self.resp}
                 for cell in CELLS[:2]}
        slowest = min(peaks[CELLS[1]].values())
        loads = [(f"half_of_{cell.name}", {name: peak / 2 for name, peak in peaks[cell].items()})
                 for cell in reversed(CELLS[:2])]
        loads.append(("same", dict.fromkeys(peaks[CELLS[1]], slowest / 2)))
        for label, rates in loads:
            found = {server.name: [] for server in self.resp}
            for turn in range(self.size.latency_rounds):
                for i in range(len(self.resp)):
                    server = self.resp[(i + turn) % len(self.resp)]
                    self.seed += 1
                    took = self.load(server, "rate", peer=server.peer, rate=rates[server.name],
                                     connections=CONNECTIONS, seconds=self.size.latency_seconds, seed=self.seed)
                    self.claimed[server.name] += int(took.pop("keys"))
                    found[server.name].append(took)
            for name, took in found.items():
                middle = {key: statistics.median(one[key] for one in took) for key in took[0]}
                row(f"server.latency.{label}.{name}", claims=round(middle.pop("rate")), **middle)

    # ---- All ------------------------------------------------------------------------------------

    def check(self):
        """A server that does not look, or did not do what it said, is not measured."""
        for server in self.resp:
            self.load(server, "again", peer="redis", keys=min(self.size.keys // 2, KNOWN_MAX), seed=FILL_SEEDS[0])
        for name, server in self.servers.items():
            keys, claimed = server.keys(), self.claimed[name]
            if not NEW_PART_MIN * claimed <= keys <= claimed:
                raise CannotMeasure(f"{name} has {keys} keys after {claimed} claims")

    def report_memory(self, memory):
        ratio = round(memory["once_bytes"] / memory["redis_bytes"], 3)
        row("server.memory", ratio=ratio, **{key: round(value, 1) for key, value in memory.items()}, limit=0.25)
        self.missed |= ratio > 0.25

    def run(self, folder):
        if self.size is FULL and shutil.disk_usage(folder).free < DISK_FREE_MIN:
            raise CannotMeasure(f"{folder}: {DISK_FREE_MIN >> 30} GiB must be free")
        memory = self.fill()
        self.measure_cells()
        self.report_cells()
        self.measure_latency()
        self.report_memory(memory)
        self.check()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--folder", type=Path, required=True, help="on the disk that is measured")
    parser.add_argument("--build", type=Path, required=True)
    options = parser.parse_args()
    options.build = options.build.resolve()
    # The path of a Unix socket has at most 107 bytes, so it does not go below the folder.
    with (tempfile.TemporaryDirectory(prefix="once-server-", dir=options.folder) as folder,
          tempfile.TemporaryDirectory(prefix="once-bench-", dir="/tmp") as sockets):
        Path(folder).chmod(0o711)  # root runs PostgreSQL as another user
        try:
            benchmark = Benchmark(options, Path(folder), sockets)
            try:
                benchmark.run(folder)
            finally:
                benchmark.stop()
        except CannotMeasure as why:
            print(f"bench: {why}", file=sys.stderr)
            return 2
    return 1 if benchmark.missed and not options.report_only else 0


if __name__ == "__main__":
    sys.exit(main())
