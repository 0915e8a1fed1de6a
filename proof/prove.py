# SPDX-License-Identifier: Apache-2.0
"""Proves the contracts of the shipping sources and the theorems over them: `make proof`.

Each unit is a list of files and every function in them is proved, together with the absence of
undefined behaviour (RTE). A goal that is not proved, or a contract whose requirements contradict each
other, fails the run.
"""
import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from wp import environment, prove

UNITS = [  # the longest first
    ("the decision", ["src/core/decide.c"]),
    ("effects: laws", ["proof/effect_laws.c"]),
    ("merges and their laws", ["src/lattice/scalar.c", "proof/laws.c"]),
    ("effects", ["src/core/effect.c"]),
    ("the decision: theorems", ["proof/theorems.c"]),
    ("bytes and records", ["src/base/bytes.c", "src/core/record.c"]),
    ("outcomes", ["src/core/outcome.c"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=int, default=60, help="seconds a goal (default 60)")
    parser.add_argument("--jobs", type=int, default=2, help="units at a time (default 2)")
    parser.add_argument("--verbose", action="store_true", help="print what Frama-C prints")
    options = parser.parse_args()

    proved = total = smoke = failures = 0
    with tempfile.TemporaryDirectory(prefix="once-proof-") as folder:
        env = environment(folder)

        def run(unit):
            started = time.monotonic()
            result = prove(unit[1], env, timeout_s=options.timeout, jobs=2, smoke=True)
            return result, time.monotonic() - started

        # Frama-C prepares goals on one core while the provers wait: two units at a time use two.
        with ThreadPoolExecutor(options.jobs) as pool:
            for (name, _), (result, seconds) in zip(UNITS, pool.map(run, UNITS)):
                if options.verbose:
                    print(result.log)
                verdict = "proved" if result.complete else "NOT PROVED"
                print(f"{name:32} {result.proved:4} / {result.total:<4} goals {verdict}"
                      f"  ({seconds:.0f} s)", flush=True)
                for goal in result.failed:
                    print(f"    not proved: {goal}")
                if not result.complete:
                    failures += 1
                    if not result.total:
                        print(result.log[-3000:])
                proved += result.proved
                total += result.total
                smoke += result.smoke
    print(f"proof: {proved} of {total} goals proved, none skipped; "
          f"{smoke} contracts checked for contradictions")
    return 1 if failures or proved != total or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
