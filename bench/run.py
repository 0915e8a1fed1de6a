# SPDX-License-Identifier: Apache-2.0
"""`make bench`: runs every benchmark and writes docs/BENCHMARKS.md and docs/longrun.svg.

A benchmark prints lines of `name key=number …`. Short ones run several rounds, alternating, and each
number is the median over the rounds; the others make their rounds themselves. `limit=` is what a
number of its line (the first, unless the table below says which) may reach at most, `floor=` what it must
reach at least. With --quick one short round
shows that they run, and nothing is judged or written.

GROWTH=full in the environment also grows a store to 100 M keys, which takes 45 GB of disk.
"""
import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import plot

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "BENCHMARKS.md"
DRAWING = ROOT / "docs" / "longrun.svg"
BOUNDS = ("limit", "floor")


@dataclass(frozen=True)
class Bench:
    heading: str
    text: str
    repeats: bool = True   # this script makes the rounds
    disk: bool = False     # takes --folder
    pivot: bool = False    # name.ROW.COLUMN lines of one number are one table
    judged: str = ""       # the key that limit= and floor= are of; the first one of the line
    script: str = ""       # a Python script, below this folder, runs it; takes --build


BENCHES = {
    "bench_decide": Bench(
        "The decision",
        "One call of `once__decide_begin` for each verdict, in nanoseconds: the median of 2,001 batches "
        "of 2,000 calls. Must be under 100 ns."),
    "bench_lattice": Bench(
        "Merging sets",
        "Two grow-only sets of 100,000 members: 16 to 36 random bytes (interleaved, half-shared, "
        "identical, disjoint), a prefix and 12 digits (prefixed), UUIDs as text, short decimal names of "
        "different lengths (decimal). The yardstick is one memcpy and one memcmp over the same "
        "bytes, in the same process, in alternating rounds; `ratio` is merge time over yardstick time. Must "
        "be within 3.\n\n`decimal` does not keep it and is not judged: with members of 8 to 12 bytes 3 "
        "yardsticks are about 3 ns a step, and the best step without a branch takes about 3.5. Sets of "
        "members shorter than 8 bytes, members over 71 bytes that differ late, and add-wins sets take the "
        "careful walk and lie above it too (up to 13 in a review)."),
    "bench_index": Bench(
        "The index",
        "The engine's index alone, in memory: bytes a key at several sizes and at the worst moment between "
        "them, time of a call, and the pause when a shard grows.", judged="bytes"),
    "bench_store": Bench(
        "The store beside others",
        "Durable insert-if-absent, keys a second; a column is batch size and threads (`b64_t8`: 8 threads, "
        "each with batches of 64). Each store holds 1 M keys already and gets new ones for 1 s; all engines of "
        "a cell run one after the other on the same disk, in an order that changes from round to round. "
        "Keys are random UUIDs (version 4) of 36 characters with a value of 72 bytes; `uuid7` are UUIDs in "
        "order of time, which is the best that can happen to a tree.\n\n"
        "- `raw_fdatasync`, `raw_direct`: the limit. Records as large as Once's, each with a checksum, written "
        "into a file that is already written; pwrite and fdatasync, or O_DIRECT|O_DSYNC. No index, nothing is "
        "looked up; each thread writes for itself. The faster one is \"raw\".\n"
        "- `rocksdb`: Get, then a WriteBatch with a synced log; a background thread a core, Bloom filters for "
        "tables and memtable, recycled logs. No lock against the same key at once, which a real use needs.\n"
        "- `lmdb`: one synced transaction a batch, MDB_NOOVERWRITE.\n"
        "- `sqlite`: WAL, synchronous=FULL, one transaction a batch, INSERT OR IGNORE, WITHOUT ROWID, one "
        "connection that threads share.\n"
        "- `once`: begin, durability \"always\". `once_pair`: begin and complete, two durable calls; operations "
        "a second.\n\n"
        "Ratios are of the same round, the median of all rounds, with the lowest and the highest.\n\n"
        "What limits Once at batches of 1,024 from one thread, by `perf`: of about 550 ns a begin, 150 are the "
        "disk, 100 the kernel's part of the write, and 300 the call itself: checking and hashing the name "
        "(60), bringing the index's line into the cache (50 to 80, memory latency), the decision and its "
        "copies (80), encoding, checksum and bookkeeping (80). The raw log has only the first two and the "
        "checksum. Deciding while the first part of a batch is under way was tried with threads and with "
        "asynchronous I/O: the flushes of the parts follow one another, and nothing is gained. Large pages "
        "for the index gained nothing either. More threads share the writes: see the columns beside.\n\n"
        "With 8 threads of single begins Once stays near 30,000 a second whatever the number of writes under way "
        "(1 to 8 were tried): each write ends by waking the threads that shared it, on two cores. The ratio to "
        "RocksDB was 1.5 to 2.3 in several runs, around its bound, mostly by what RocksDB did.",
        repeats=False, disk=True, pivot=True),
    "bench_apply": Bench(
        "Apply beside transactions by hand",
        "\"Debit an account, tell it to an outbox, once for each key\": operations a second, all durable when they "
        "are told, every key new. `b1_t1` is one caller, `b1_t64` 64 concurrent ones, `b1024_t1` batches of 1,024 "
        "from one thread. Each store holds 1 M keys (and messages) already; every engine gets the same keys for "
        "1 s, one after the other, in an order that changes from round to round. Keys are random UUIDs, accounts "
        "are 1,000. At the end each must have as many debits and messages as it told.\n\n"
        "- `once_apply`: three effects (a debit with a bound, a sum over all accounts, a message of 32 bytes), with "
        "a fingerprint given; `once_apply_hash`: Once makes it of the effects. `once_begin`: a begin of the same "
        "key.\n"
        "- `sqlite`: a row for the key, the debit, a row of the outbox; WAL, synchronous=FULL, BEGIN IMMEDIATE, "
        "statements prepared once, one connection that threads share.\n"
        "- `postgres`: the same three in one prepared statement, so that a transaction is one round trip, through "
        "a Unix socket, a connection for each caller. A server of its own with its durable defaults (fsync, "
        "synchronous_commit and full_page_writes on), 512 MB of buffers, and no checkpoint during a run. "
        "`postgres_steps`: BEGIN, the three statements, COMMIT, one after the other, as most applications do it; "
        "not judged.\n\n"
        "Ratios are `once_apply` over the other in the same round, the median of all rounds, with the lowest and "
        "the highest.",
        repeats=False, disk=True, pivot=True),
    "bench_server": Bench(
        "The server beside Redis and PostgreSQL",
        "Claims of new keys a second; a column is connections and pipeline (`c50_p16`: 50 connections, each with 16 "
        "claims under way). Every server holds 2 M keys already. In each round all servers of a column run one after "
        "the other, in an order that changes from round to round, for 1 s each, on the same disk; server and tool "
        "share the machine's cores. Keys have 36 characters and live for 24 hours.\n\n"
        "- `once`: `ONCE.BEGIN ns key`; every answer waits for its record to be on the disk.\n"
        "- `redis_always`: Redis 7, `SET key 1 NX EX 86400`, appendonly with appendfsync always, and no rewrite of the "
        "file during a run. `redis_off`: the same without any persistence.\n"
        "- `postgres`: `INSERT … ON CONFLICT DO NOTHING` of a key, a state and a time, prepared, each its own "
        "transaction; its durable defaults, 512 MB of buffers, and no checkpoint during a run.\n\n"
        "`redis-benchmark` (one thread) asks Once and Redis with the same arguments through TCP, `pgbench` asks "
        "PostgreSQL through a Unix socket; where Once is beside PostgreSQL, redis-benchmark uses a Unix socket too. "
        "Ratios are of the same round, the median of all rounds, with the lowest and the highest.\n\n"
        "What limits the columns without a pipeline, by `perf`: sending and receiving one claim takes the tool about "
        "11 us of its one core, so that it asks for at most some 90,000 a second whoever answers; Redis without "
        "persistence takes 9 to 10 us of the other core. With one connection every durable server waits for one flush "
        "of the disk after the other, and none can be ten times faster than another.\n\n"
        "Latency: 50 connections and a fixed rate that does not wait for the server; a claim's time counts from when "
        "it was due. `half_of_c50_p1` and `half_of_c50_p16`: each server at half of what it reaches itself in that "
        "column; `same`: all at half of what the slowest one reaches in `c50_p1`. The load generator takes its "
        "part of the same cores.\n\n"
        "Memory: what the process has more of with 2 M keys than with 1 M (UUIDs, 24 hours, the same SET for both), in "
        "bytes a key. `index_bytes` is what Once counts itself, `once_fixed_mb` what it takes besides, however many "
        "keys there are.",
        repeats=False, disk=True, pivot=True, script="server/bench_server.py"),
    "bench_gateway": Bench(
        "The gateway beside a plain proxy and an application with Redis",
        "Requests a second: wrk, one thread, 128 connections that stay, POSTs of 1 KB of JSON. `fresh`: each with a new "
        "key; `replay`: keys that have their answers, 4,000 of them. Behind stands an nginx that answers 201 with a small "
        "JSON. In each round one after the other is asked for 3 s, in an order that changes from round to round; every "
        "nginx has one worker, and wrk, proxies, service and stores share the machine's cores. After each run the "
        "counters of the gateway, or of Redis, must have what wrk has sent.\n\n"
        "- `plain`: nginx passes each request on. No module is loaded, and no key is looked at.\n"
        "- `once`: the same with the module. A fresh key is on the disk twice, before the service is asked and before the "
        "client gets the answer (`once serve`, durability always).\n"
        "- `express_always`, `express_everysec`, `express_off`: Express 5 with express-idempotency 1.0.6, a middleware "
        "for Express that belongs to an organisation (the city of Montréal), with an adapter for Redis, on Redis 7 with "
        "that appendfsync, or without a file. The application answers by itself, so that it has one hop less, and it "
        "does less: it looks and writes in two steps, so that two requests at once both pass, and it sends the answer before it is "
        "kept. Judged is the one whose writes are as durable as ours.\n\n"
        "Ratios are of the same round, the median of all rounds, with the lowest and the highest; replays are compared with "
        "the fresh requests of the plain proxy. Latency is what wrk sees at full load, not at a fixed rate.\n\n"
        "What limits a fresh request, on a quiet machine: nginx's worker takes about 17 us of its core for a request that it "
        "passes on, and about 26 with the module (a replay: 13). Two thirds of nginx's time are the kernel's; fingerprint and "
        "module take 3 us. The server takes 7 us, the service 10. With 64 "
        "connections the two writes that a request waits for leave the cores idle for a sixth of the time, and fresh "
        "requests come to 0.53 of the plain proxy's.",
        repeats=False, disk=True, pivot=True, script="gateway/bench_gateway.py"),
    "bench_sqlite": Bench(
        "In SQLite's own transaction",
        "A business transaction (an update of one of 10,000 accounts, an insert), alone and with `once_begin` and "
        "`once_complete` in it; synchronous=FULL, prepared statements, random keys. Two databases take turns in blocks of 50 "
        "transactions; `ratio` is of the means of a round's blocks, checkpoints included, the median over the rounds. `replay` is a begin of a "
        "key that was completed, in a transaction of its own, which writes nothing. A key costs five pages more in the log of a "
        "transaction that has two, so where a durable write is nearly free the ratio is that of the pages.",
        repeats=False, disk=True),
    "bench_postgres": Bench(
        "In PostgreSQL, and servers on PostgreSQL",
        "`c16`: a transaction that debits an account and inserts an order (a CHECK, a foreign key, two indexes), 16 "
        "connections as fast as they can; `c16_half`: at a rate of half of what the slowest reaches, the time without the wait for "
        "its turn. pgbench, prepared, a Unix socket, PostgreSQL's durable defaults, no checkpoint during a run; 100,000 "
        "accounts, every key new. `ms` is the time of a transaction.\n\n"
        "- `plain`: BEGIN, UPDATE, INSERT, COMMIT.\n"
        "- `once`: `once.begin` goes in one statement with the UPDATE, `once.complete` with the INSERT: as many round trips.\n"
        "- `steps`: both are statements of their own, as one writes it first: two round trips more.\n\n"
        "`c50`: claims of new keys a second at 50 clients. `insert`: pgbench, `INSERT … ON CONFLICT DO NOTHING`, a connection "
        "and a transaction for each. `once_serve`: `ONCE.BEGIN` by redis-benchmark through `once serve --store` on the same "
        "PostgreSQL; `_p16`: each client has 16 under way. Server, database and tool share the machine's cores.\n\n"
        "Ratios are of the same round, the median of all rounds, with the lowest and the highest. At the end balances, orders "
        "and records must agree.",
        repeats=False, disk=True, script="postgres/bench_postgres.py"),
    "bench_objects": Bench(
        "Many objects",
        "Ten million counters with names of 16 bytes. `bytes_object` is what the store counts, "
        "`resident_bytes_object` the anonymous memory of the whole process, the index of the keys that made them "
        "included. Three snapshots are written while one caller makes single applies of three effects; the same "
        "caller for as long without a snapshot is `quiet`. Restarts are with a cold page cache: after a clean close, "
        "and after the process ended in the middle of a snapshot, which is when there is most to read: the old "
        "one, and all of the log behind it.",
        repeats=False, disk=True),
    "bench_growth": Bench(
        "Growth and expiry",
        "One store, filled with begin and complete in batches of 1,024 from one thread. `ns_op`: one operation "
        "(both calls) over the last million. `index_bytes_key`: memory of the index; `resident_bytes_key`: "
        "anonymous memory of the whole process. Restarts are with a cold page cache; `killed`: after SIGKILL at "
        "full load, `records_reread` from the log itself. 100 M keys are measured with `make bench "
        "GROWTH=full`.\n\n"
        "Expiry: 10 M keys that live for a while, then load with keys that live longer. The throughput while "
        "all of the 10 M expire is compared with the throughput before the first one does; a pause is the "
        "longest begin and complete of a batch.",
        repeats=False, disk=True),
    "bench_longrun": Bench(
        "A long run",
        "Eight threads at full load with batches of 64 and answers that live for 10 s: the index grows, "
        "segments expire, and their space is used again.\n\n"
        "![Throughput and latency over time](longrun.svg)",
        repeats=False, disk=True),
}


def file_system(folder):
    """The type of the file system that holds folder."""
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if Path(folder).is_relative_to(mount) and len(mount) > len(best[0]):
            best = (mount, kind)
    return best[1]


def machine(folder):
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    kernel = ".".join(platform.release().split(".")[:2])
    cores = len(re.findall(r"^processor", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    return (f"{cpu.group(1) if cpu else platform.machine()}, {cores} cores (shared, noisy), "
            f"{int(memory.group(1)) // (1 << 20)} GiB, {file_system(folder)}, Linux {kernel}, "
            f"{compiler.splitlines()[0]}")


def build_peers(build):
    """A build folder that is older than the libraries of the peers does not know them: look again."""
    programs = ["bench_load", *(name for name, bench in BENCHES.items() if not bench.script)]
    missing = [name for name in programs if not (build / "bench" / name).exists()]
    if not missing:
        return
    for command in (["meson", "configure", "--clearcache", str(build)],
                    ["meson", "setup", "--reconfigure", str(build)],
                    ["ninja", "-C", str(build), "--quiet"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
    lacking = [name for name in missing if not (build / "bench" / name).exists()]
    if lacking:
        sys.exit(f"bench: {', '.join(lacking)} could not be built: librocksdb-dev, liblmdb-dev, libsqlite3-dev, "
                 "libpq-dev and postgresql are needed (scripts/setup.sh all)")


def arguments(name, options, folder):
    bench = BENCHES[name]
    args = ["--report-only"] if options.quick else []
    if bench.disk:
        args += ["--folder", str(folder)]
    if (name in ("bench_store", "bench_apply", "bench_server", "bench_sqlite", "bench_postgres", "bench_gateway")
            and not options.quick):
        args += ["--rounds", str(options.rounds)]
    if name == "bench_growth" and not options.quick and os.environ.get("GROWTH") == "full":
        args += ["--full"]
    if name == "bench_longrun":
        args += ["--csv", str(folder / "longrun.csv")]
    return args


def run_once(name, options, folder):
    script = BENCHES[name].script
    program = ([sys.executable, str(ROOT / "bench" / script), "--build", str(options.build)] if script
               else [str(options.build / "bench" / name)])
    command = [*program, *arguments(name, options, folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # 1 is "a bound was missed in this round": the median over the rounds decides.
    if done.returncode not in (0, 1) or (options.quick and done.returncode != 0):
        sys.exit(f"bench: {name} failed with {done.returncode}\n{done.stdout}{done.stderr}")
    if done.stderr:
        print(done.stderr, end="", file=sys.stderr)
    rows = {}
    for line in done.stdout.splitlines():
        label, *pairs = line.split()
        rows[label] = {key: float(value) for key, value in (p.split("=", 1) for p in pairs)}
    if not rows:
        sys.exit(f"bench: {name} printed nothing")
    return rows


def median_rows(rounds):
    return {label: {key: statistics.median(r[label][key] for r in rounds)
                    for key in rounds[0][label]} for label in rounds[0]}


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}".removesuffix(".00")


def bound(row):
    if "limit" in row:
        return f"at most {number(row['limit'])}"
    return f"at least {number(row['floor'])}" if "floor" in row else ""


def markdown(head, lines):
    return "\n".join("| " + " | ".join(cells) + " |"
                     for cells in [head, ["---"] + ["---:"] * (len(head) - 1), *lines])


def plain_table(rows):
    keys = [key for key in next(iter(rows.values())) if key not in BOUNDS]
    bounded = any(bound(row) for row in rows.values())
    lines = [[label, *(number(row[key]) for key in keys), *([bound(row)] if bounded else [])]
             for label, row in rows.items()]
    return markdown(["what", *keys, *(["must be"] if bounded else [])], lines)


def pivot_table(rows):
    cells = {tuple(label.split(".")[1:]): next(iter(row.values())) for label, row in rows.items()}
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = [[engine, *(number(cells[engine, c]) if (engine, c) in cells else "" for c in columns)]
             for engine in dict.fromkeys(engine for engine, _ in cells)]
    return markdown(["", *columns], lines)


def tables(bench, rows):
    """One table for each set of keys, in the order in which they came."""
    groups = {}
    for label, row in rows.items():
        groups.setdefault(tuple(key for key in row if key not in BOUNDS), {})[label] = row
    return "\n\n".join(pivot_table(group) if bench.pivot and len(keys) == 1 else plain_table(group)
                       for keys, group in groups.items())


def missed(bench, rows):
    for label, row in rows.items():
        key = bench.judged if bench.judged in row else next(iter(row))
        value = row[key]
        if value > row.get("limit", value) or value < row.get("floor", value):
            yield f"{label} {key}={number(value)}, must be {bound(row)}"


def measure(options, folder):
    rounds = 1 if options.quick else options.rounds
    names = [name for name in BENCHES if not options.only or name in options.only]
    samples = {name: [] for name in names}
    for turn in range(rounds):  # alternating, so that a noisy minute hits all of them
        for name in names:
            if BENCHES[name].repeats:
                samples[name].append(run_once(name, options, folder))
        if not options.quick:
            print(f"bench: round {turn + 1} of {rounds}", file=sys.stderr)
    for name in names:
        if not BENCHES[name].repeats:
            if not options.quick:
                print(f"bench: {name}, takes minutes", file=sys.stderr)
            samples[name].append(run_once(name, options, folder))
    return {name: median_rows(sample) for name, sample in samples.items()}


def report(results, options, folder):
    rounds = 1 if options.quick else options.rounds
    parts = ["# Benchmarks", "", "Written by `make bench`; absolute times mean little, ratios more.",
             "", f"Machine: {machine(folder)}. {date.today()}, {rounds} rounds, medians.", ""]
    misses = []
    for name, rows in results.items():
        bench = BENCHES[name]
        parts += [f"## {bench.heading}", "", bench.text, "", tables(bench, rows), ""]
        misses += missed(bench, rows)
    if not options.quick:
        parts += ["## Bounds", "", *([f"- missed: {miss}" for miss in misses]
                                     or ["All that are judged are kept."]), ""]
    return "\n".join(parts), misses


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where stores are put; default $TMPDIR, else /var/tmp")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--only", action="append", choices=BENCHES, help="print, do not write")
    options = parser.parse_args()
    parent = options.folder or Path(os.environ.get("TMPDIR") or "/var/tmp")

    build_peers(options.build)
    with tempfile.TemporaryDirectory(prefix="once-bench-", dir=parent) as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)  # root runs PostgreSQL as another user, who must get to its files
        results = measure(options, folder)
        text, misses = report(results, options, folder)
        if "bench_longrun" in results:
            drawing = plot.draw(plot.read(folder / "longrun.csv"), "A store at full load")
    print(text)
    if options.quick or options.only:
        return 0
    REPORT.write_text(text)
    DRAWING.write_text(drawing)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
