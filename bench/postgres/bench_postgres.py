# SPDX-License-Identifier: Apache-2.0
"""Once in a transaction of PostgreSQL, and `once serve` on PostgreSQL, each beside what one would do without.

The business: a transaction that debits an account and inserts an order, at 16 connections, alone and with a begin and
a complete in it, and with the table that people make by hand for it. Twice: as fast as the connections can, and at a
rate that leaves the machine half idle. The servers: claims of new keys at 50 clients, through `once serve --store` and as
one insert a request. All is asked by pgbench and redis-benchmark, prepared, through Unix sockets, of one PostgreSQL with
its durable defaults; in each round one after the other, in an order that changes from round to round. At the end the
balances, the orders and the records must agree.

Prints "postgres.SCRIPT.CELL …" lines as the others do. Exits 1 when a bound is missed, 2 when it could not measure;
--report-only makes it short and judges nothing.
"""
import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "server"))

from servers import CannotMeasure, Once, Postgres, program  # noqa: E402

BUSINESS_CONNECTIONS = 16
CLIENTS = 50
FUNDS = 1_000_000_000_000    # of an account, as in schema.sql
RANGE = 2_000_000_000        # redis-benchmark draws 31 bits
NEW_PART_MIN = 0.97          # of the claims: some draw a number twice
TIME_LIMIT = 1.35            # a transaction with begin and complete over one without
CLAIMS_FLOOR = 5             # claims through the server over inserts
BUSINESS = ("plain", "once", "steps", "hand")


@dataclass(frozen=True)
class Size:
    accounts: int
    rounds: int
    trial_rounds: int
    seconds: int
    claims_first: int


QUICK = Size(accounts=1_000, rounds=1, trial_rounds=0, seconds=1, claims_first=2_000)
FULL = Size(accounts=100_000, rounds=5, trial_rounds=1, seconds=5, claims_first=20_000)


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotMeasure(f"{Path(command[0]).name} failed with {done.returncode}\n"
                            f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def row(label, **numbers):
    """A line that run.py reads."""
    print(label, *(f"{key}={value:.10g}" for key, value in numbers.items()), flush=True)


class Shared(Once):
    """A server whose store is PostgreSQL; it installs the schema itself."""
    name = "once_serve"

    def __init__(self, parent, binary, socket_path, url):
        super().__init__(parent, binary, socket_path)
        self.url = url

    def command(self):
        return (self.binary, "serve", "--store", self.url, "--socket", self.socket,
                "--listen", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}")


class Benchmark:
    def __init__(self, options, folder, sockets):
        self.size = QUICK if options.report_only else FULL
        self.rounds = self.size.rounds if options.report_only else options.rounds
        self.postgres = Postgres(folder, sockets)
        self.once = Shared(folder, options.build / "src" / "cli" / "once", Path(sockets) / "once.sock",
                           f"postgres:///postgres?host={sockets}&user=bench")
        self.done = dict.fromkeys(BUSINESS, 0)
        self.claimed = {"once_serve": 0, "insert": 0}
        self.runs = 0
        self.missed = False

    def stop(self):
        self.once.stop()
        self.postgres.stop()

    def start(self, folder):
        self.postgres.start()
        schema = (HERE / "schema.sql").read_text().replace(":accounts", str(self.size.accounts))
        for statement in filter(str.strip, re.sub(r"^--.*$", "", schema, flags=re.MULTILINE).split(";")):
            self.postgres.sql(statement)
        run([sys.executable, ROOT / "hosts" / "postgres" / "build.py", ROOT / "hosts" / "postgres", folder])
        run([self.postgres.bin / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.postgres.sockets, "-U", "bench",
             "-d", "postgres", "-f", folder / "once.sql"])

    # ---- pgbench --------------------------------------------------------------------------------

    def pgbench(self, script, connections, *limits):
        """Transactions, a second of them, and the milliseconds of one."""
        out = run([self.postgres.bin / "pgbench", "-n", "-M", "prepared", "-f", HERE / f"{script}.sql",
                   "-D", f"accounts={self.size.accounts}", "-c", connections, "-j", 2, *limits,
                   "-h", self.postgres.sockets, "-U", "bench", "postgres"])
        done = int(re.search(r"actually processed: (\d+)", out).group(1))
        failed = re.search(r"failed transactions: (\d+)", out)
        if failed and int(failed.group(1)):
            raise CannotMeasure(f"{script}.sql failed:\n{out}")
        lag = re.search(r"schedule lag: avg ([\d.]+)", out)
        took_ms = float(re.search(r"latency average = ([\d.]+)", out).group(1))
        return (done, float(re.search(r"^tps = ([\d.]+)", out, re.MULTILINE).group(1)),
                took_ms - float(lag.group(1)) if lag else took_ms)

    # ---- The business transaction ---------------------------------------------------------------

    def business(self, label, *limits):
        """The milliseconds of each script, one for each round."""
        took = {script: [] for script in BUSINESS}
        rates = {script: [] for script in BUSINESS}
        for turn in range(self.size.trial_rounds + self.rounds):
            for i in range(len(BUSINESS)):
                script = BUSINESS[(i + turn) % len(BUSINESS)]
                done, rate, ms = self.pgbench(script, BUSINESS_CONNECTIONS, "-T", self.size.seconds, *limits)
                self.done[script] += done
                if turn >= self.size.trial_rounds:
                    took[script].append(ms)
                    rates[script].append(rate)
        for script in BUSINESS:
            row(f"postgres.{label}.{script}", ms=round(statistics.median(took[script]), 3),
                transactions=round(statistics.median(rates[script])))
        return took, rates

    def judge_business(self, label, took, judged):
        for script in BUSINESS[1:]:
            ratios = [ours / theirs for ours, theirs in zip(took[script], took["plain"])]
            ratio = round(statistics.median(ratios), 3)
            bounded = judged and script == "once"
            row(f"postgres.{label}.{script}_over_plain", ratio=ratio, low=round(min(ratios), 3),
                high=round(max(ratios), 3), **({"limit": TIME_LIMIT} if bounded else {}))
            self.missed |= bounded and ratio > TIME_LIMIT

    def measure_business(self):
        took, rates = self.business("c16")
        self.judge_business("c16", took, judged=True)
        half = max(round(min(statistics.median(of) for of in rates.values()) / 2), 1)
        took, _ = self.business("c16_half", "-R", half)
        self.judge_business("c16_half", took, judged=False)

    # ---- The server -----------------------------------------------------------------------------

    def claim(self, count, pipeline=1):
        """Claims a second through the server."""
        step = CLIENTS * pipeline  # it sends whole pipelines only
        count = max(count // step, 1) * step
        self.runs += 1
        out = run([program("redis-benchmark"), "-s", self.once.socket, "-c", CLIENTS, "-P", pipeline, "-n", count,
                   "-r", RANGE, "--csv", "ONCE.BEGIN", "bench", f"{self.runs:08x}-0000-4000-8000-__rand_int__"])
        self.claimed["once_serve"] += count
        return float(out.splitlines()[-1].split(",")[1].strip('"'))

    def insert(self, count):
        done, rate, _ = self.pgbench("insert", CLIENTS, "-t", max(count // CLIENTS, 1))
        self.claimed["insert"] += done
        return rate

    def measure_server(self):
        """Judged is the claim that waits for its answer, as the insert does; with 16 under way it stands beside."""
        ways = {"insert": self.insert, "once_serve": self.claim,
                "once_serve_p16": lambda count: self.claim(count, pipeline=16)}
        rates = {name: [] for name in ways}
        names = list(ways)
        for turn in range(self.size.trial_rounds + self.rounds):
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                count = round(rates[name][-1] * self.size.seconds) if rates[name] else self.size.claims_first
                rates[name].append(ways[name](count))
        for name, found in rates.items():
            del found[:self.size.trial_rounds]
            row(f"postgres.c50.{name}", claims=round(statistics.median(found)))
        for name in names[1:]:
            ratios = [ours / theirs for ours, theirs in zip(rates[name], rates["insert"])]
            ratio = round(statistics.median(ratios), 3)
            judged = name == "once_serve"
            row(f"postgres.c50.{name}_over_insert", ratio=ratio, low=round(min(ratios), 3), high=round(max(ratios), 3),
                **({"floor": CLAIMS_FLOOR} if judged else {}))
            self.missed |= judged and ratio < CLAIMS_FLOOR

    # ---- All ------------------------------------------------------------------------------------

    def check(self):
        """What was not done is not measured."""
        orders, spent = map(int, self.postgres.sql("SELECT count(*), sum(amount) FROM orders").split("|"))
        left = int(self.postgres.sql("SELECT sum(balance) FROM accounts"))
        ended = int(self.postgres.sql("SELECT count(*) FROM once.operation WHERE ns = 'orders' AND state = 2"))
        begun = int(self.postgres.sql("SELECT count(*) FROM once.operation WHERE ns = 'bench' AND state = 1"))
        claims = int(self.postgres.sql("SELECT count(*) FROM claims"))
        answers = int(self.postgres.sql("SELECT count(*) FROM answers WHERE code = 201"))
        done = self.done
        if (orders != sum(done.values()) or left != self.size.accounts * FUNDS - spent
                or ended != done["once"] + done["steps"] or answers != done["hand"]):
            raise CannotMeasure(f"{done} transactions, but {orders} orders, {ended} records, {answers} answers, "
                                f"{left} left, {spent} spent")
        for name, found in (("once_serve", begun), ("insert", claims)):
            if not NEW_PART_MIN * self.claimed[name] <= found <= self.claimed[name]:
                raise CannotMeasure(f"{name}: {found} keys after {self.claimed[name]} claims")

    def run(self, folder):
        self.start(folder)
        self.measure_business()
        self.once.start()
        self.measure_server()
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
    with (tempfile.TemporaryDirectory(prefix="once-postgres-", dir=options.folder) as folder,
          tempfile.TemporaryDirectory(prefix="once-bench-", dir="/tmp") as sockets):
        Path(folder).chmod(0o711)  # root runs PostgreSQL as another user
        try:
            benchmark = Benchmark(options, Path(folder), sockets)
            try:
                benchmark.run(Path(folder))
            finally:
                benchmark.stop()
        except CannotMeasure as why:
            print(f"bench: {why}", file=sys.stderr)
            return 2
    return 1 if benchmark.missed and not options.report_only else 0


if __name__ == "__main__":
    sys.exit(main())
