# SPDX-License-Identifier: Apache-2.0
"""Proves the contracts of the shipping sources and the theorems over them: `make proof`.

Each unit is a list of files and every function in them is proved, together with the absence of
undefined behaviour (RTE). A goal that is not proved, or a contract whose requirements contradict each
other, fails the run.
"""
import argparse
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from wp import ROOT, environment, prove

# name, files, and how many goals there are at least: a contract that disappears is noticed.
UNITS = [  # the longest first
    ("the decision", ["src/core/decide.c"], 500),
    ("effects: laws", ["proof/effect_laws.c"], 880),
    ("merges and their laws", ["src/lattice/scalar.c", "proof/laws.c"], 740),
    ("effects", ["src/core/effect.c"], 365),
    ("the decision: theorems", ["proof/theorems.c"], 75),
    ("bytes and records", ["src/base/bytes.c", "src/core/record.c"], 65),
    ("outcomes", ["src/core/outcome.c"], 40),
]


def shortcuts():
    """Annotations that would make the prover believe instead of prove."""
    files = sorted({f for _, unit, _ in UNITS for f in unit}
                   | {str(p.relative_to(ROOT)) for p in (ROOT / "src").rglob("*.h")})
    for name in files:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if re.search(r"@.*\b(admit|axiom\w*|check lemma|lemma)\b", line):
                yield f"{name}:{number}: {line.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=int, default=180, help="seconds a goal (default 180)")
    parser.add_argument("--jobs", type=int, default=3, help="units at a time (default 3)")
    parser.add_argument("--verbose", action="store_true", help="print what Frama-C prints")
    options = parser.parse_args()

    proved = total = smoke = failures = 0
    with tempfile.TemporaryDirectory(prefix="once-proof-") as folder:
        env = environment(folder)

        def run(unit):
            started = time.monotonic()
            result = prove(unit[1], env, timeout_s=options.timeout, jobs=4, smoke=True)
            return result, time.monotonic() - started

        # Frama-C prepares goals on one core, and looks only now and then whether a prover is ready:
        # more units and more provers than cores keep the cores busy.
        with ThreadPoolExecutor(options.jobs) as pool:
            for (name, _, least), (result, seconds) in zip(UNITS, pool.map(run, UNITS)):
                if options.verbose:
                    print(result.log)
                if result.total < least:
                    result.open.append(f"fewer goals than the {least} there were: a contract is gone")
                verdict = "proved" if result.complete else "NOT PROVED"
                print(f"{name:32} {result.proved:4} / {result.total:<4} goals {verdict}"
                      f"  ({seconds:.0f} s)", flush=True)
                for goal in [*result.failed, *result.open]:
                    print(f"    not proved: {goal}")
                if not result.complete:
                    failures += 1
                    if not result.total:
                        print(result.log[-3000:])
                proved += result.proved
                total += result.total
                smoke += result.smoke
    for place in shortcuts():
        failures += 1
        print(f"    believed, not proved: {place}")
    skipped = "none skipped" if not failures else f"{failures} units or shortcuts to look at"
    print(f"proof: {proved} of {total} goals proved, {skipped}; "
          f"{smoke} contracts checked for contradictions")
    return 1 if failures or proved != total or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
