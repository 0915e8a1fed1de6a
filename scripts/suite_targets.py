# SPDX-License-Identifier: Apache-2.0
"""Prints what must be built in a build folder to run one suite, or all that is made for tests:
suite_targets.py FOLDER [SUITE]."""
import json
import subprocess
import sys
from pathlib import Path


def introspect(folder, what):
    out = subprocess.run(["meson", "introspect", folder, what], check=True, capture_output=True)
    return json.loads(out.stdout)


def of_suite(folder, suite):
    """The ids of the targets that the tests of a suite need."""
    return {target
            for test in introspect(folder, "--tests")
            if suite in (part.split(":")[-1] for part in test["suite"])
            for target in test["depends"]}


def of_tests(targets):
    """The ids of all in tests/: also the programs that only the tests in Python run."""
    tests = Path(__file__).resolve().parents[1] / "tests"
    return {target["id"] for target in targets
            if tests in Path(target["defined_in"]).parents and target["build_by_default"]}


def main():
    folder = sys.argv[1]
    targets = introspect(folder, "--targets")
    ids = of_suite(folder, sys.argv[2]) if len(sys.argv) > 2 else of_tests(targets)
    root = Path(folder).resolve()
    wanted = {str(Path(name).relative_to(root))
              for target in targets if target["id"] in ids
              for name in target["filename"]}
    print("\n".join(sorted(wanted)))
    return 0 if wanted else 1


if __name__ == "__main__":
    sys.exit(main())
