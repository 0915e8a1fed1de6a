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

from wp import environment, prove

UNITS = [
    ("bytes and records", ["src/base/bytes.c", "src/core/record.c"]),
    ("the decision", ["src/core/decide.c"]),
    ("the decision: theorems", ["proof/theorems.c"]),
    ("outcomes", ["src/core/outcome.c"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=int, default=60, help="seconds a goal (default 60)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print what Frama-C prints")
    options = parser.parse_args()

    proved = total = scheduled = smoke = failures = 0
    with tempfile.TemporaryDirectory(prefix="once-proof-") as folder:
        env = environment(folder)
        for name, files in UNITS:
            started = time.monotonic()
            result = prove(files, env, timeout_s=options.timeout, jobs=options.jobs, smoke=True)
            if options.verbose:
                print(result.log)
            verdict = "proved" if result.complete else "NOT PROVED"
            print(f"{name:32} {result.proved:4} / {result.total:<4} goals {verdict}"
                  f"  ({time.monotonic() - started:.0f} s)", flush=True)
            for goal in result.failed:
                print(f"    not proved: {goal}")
            if not result.complete:
                failures += 1
                if not result.total:
                    print(result.log[-3000:])
            proved += result.proved
            total += result.total
            scheduled += result.scheduled
            smoke += result.smoke
    print(f"proof: {proved} of {total} goals proved, none skipped; "
          f"{smoke} contracts checked for contradictions")
    return 1 if failures or proved != total or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
