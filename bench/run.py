# SPDX-License-Identifier: Apache-2.0
"""`make bench`: runs every benchmark several rounds and writes docs/BENCHMARKS.md.

A benchmark prints lines of `name key=number …`. Each number is reported as the median over the rounds;
`limit=` is the bound that the median must keep. With --quick one short round shows that they run, and
nothing is judged or written.
"""
import argparse
import platform
import re
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "release" / "bench"
REPORT = ROOT / "docs" / "BENCHMARKS.md"

# executable: heading, what the numbers mean, the key that `limit=` bounds.
BENCHES = {
    "bench_decide": (
        "The decision",
        "One call of `once__decide_begin` for each verdict, in nanoseconds: the median of 2,001 batches "
        "of 2,000 calls. Must be under 100 ns.", "ns"),
    "bench_lattice": (
        "Merging sets",
        "Two grow-only sets of 100,000 members: 16 to 36 random bytes (interleaved, half-shared, "
        "identical, disjoint), a prefix and 12 digits (prefixed), UUIDs as text, short decimal names of "
        "different lengths (decimal). The yardstick is one memcpy and one memcmp over the same "
        "bytes, in the same process, in alternating rounds; `ratio` is merge time over yardstick time. Must "
        "be within 3.\n\n`decimal` does not keep it and is not judged: with members of 8 to 12 bytes 3 "
        "yardsticks are about 3 ns a step, and the best step without a branch takes about 3.5. Sets of "
        "members shorter than 8 bytes, members over 71 bytes that differ late, and add-wins sets take the "
        "careful walk and lie above it too (up to 13 in a review).", "ratio"),
}


def machine():
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    kernel = ".".join(platform.release().split(".")[:2])
    cores = len(re.findall(r"^processor", Path("/proc/cpuinfo").read_text(), re.MULTILINE))
    return (f"{cpu.group(1) if cpu else platform.machine()}, {cores} cores (shared, noisy), "
            f"{int(memory.group(1)) // (1 << 20)} GiB, Linux {kernel}, "
            f"{compiler.splitlines()[0]}")


def run_once(name, quick):
    command = [str(FOLDER / name), "--report-only"] if quick else [str(FOLDER / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    # 1 is "a bound was missed in this round": the median over the rounds decides.
    if done.returncode not in (0, 1) or (quick and done.returncode != 0):
        sys.exit(f"bench: {name} failed with {done.returncode}\n{done.stdout}{done.stderr}")
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


def table(rows):
    keys = list(dict.fromkeys(key for row in rows.values() for key in row if key != "limit"))
    lines = ["| what | " + " | ".join(keys) + " |", "|---|" + "---:|" * len(keys)]
    for label, row in rows.items():
        cells = [f"{row[key]:.2f}".removesuffix(".00") if key in row else "" for key in keys]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def missed(rows, key):
    return [f"{label} {key}={row[key]:.2f}, limit {row['limit']:.2f}"
            for label, row in rows.items() if "limit" in row and row[key] > row["limit"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds

    samples = {name: [] for name in BENCHES}
    for number in range(rounds):  # alternating, so that a noisy minute hits all of them
        for name in BENCHES:
            samples[name].append(run_once(name, options.quick))
        if not options.quick:
            print(f"bench: round {number + 1} of {rounds}", file=sys.stderr)

    report = ["# Benchmarks", "", "Written by `make bench`; absolute times mean little, ratios more.",
              "", f"Machine: {machine()}. {date.today()}, {rounds} rounds, medians.", ""]
    misses = []
    for name, (heading, text, key) in BENCHES.items():
        rows = median_rows(samples[name])
        report += [f"## {heading}", "", text, "", table(rows), ""]
        misses += missed(rows, key)
    report += ["## Bounds", "", *([f"- missed: {miss}" for miss in misses] or ["All that are judged are kept."]), ""]
    text = "\n".join(report)
    print(text)
    if options.quick:
        return 0
    REPORT.write_text(text)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
