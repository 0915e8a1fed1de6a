# SPDX-License-Identifier: Apache-2.0
"""Prints what must be built to run one suite of a build folder: suite_targets.py FOLDER SUITE."""
import json
import subprocess
import sys
from pathlib import Path


def introspect(folder, what):
    out = subprocess.run(["meson", "introspect", folder, what], check=True, capture_output=True)
    return json.loads(out.stdout)


def main():
    folder, suite = sys.argv[1:]
    files = {target["id"]: target["filename"] for target in introspect(folder, "--targets")}
    root = Path(folder).resolve()
    wanted = {
        str(Path(name).relative_to(root))
        for test in introspect(folder, "--tests")
        if suite in (part.split(":")[-1] for part in test["suite"])
        for target in test["depends"]
        for name in files[target]
    }
    print("\n".join(sorted(wanted)))
    return 0 if wanted else 1


if __name__ == "__main__":
    sys.exit(main())
