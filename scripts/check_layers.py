# SPDX-License-Identifier: Apache-2.0
"""Refuses an include that points back: base <- core, lattice <- object <- store <- engine;
store <- server, client <- cli; base, core, lattice, object, client <- hosts.

Also refuses a public header that includes a private one, a C file that skips its SPDX line, and two
C files of one name in src (files are nouns), and lines past 100 columns.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder: the folders it may include from, besides itself and include/once.
MAY_INCLUDE = {
    "base": set(),
    "core": {"base"},
    "lattice": {"base"},
    "laws": {"base", "core", "lattice"},
    "object": {"base", "core", "lattice"},
    "store": {"base", "core", "object"},
    "engine": {"base", "core", "object", "store"},
    "server": {"base", "core", "object", "store"},
    "client": {"base"},
    "cli": {"base", "core", "lattice", "laws", "object", "store", "engine", "server", "client"},
}
# What runs in someone else's process takes only what allocates nothing behind its back.
HOSTS_MAY_INCLUDE = {"base", "core", "lattice", "object", "client"}
SHARED_NAMES = {"README.md", "meson.build"}


def source_files():
    for folder in ("include", "src", "hosts", "tests", "bench", "examples", "proof"):
        for pattern in ("*.c", "*.h"):
            yield from sorted((ROOT / folder).rglob(pattern))


def check_includes(path, text):
    parts = path.relative_to(ROOT).parts
    for name in re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', text, re.MULTILINE):
        target = name.split("/")[0]
        if target not in MAY_INCLUDE and not (ROOT / path.parent / name).exists():
            continue  # the system's, a library's, or <once/...>
        if parts[0] == "include":
            yield f'public headers do not include "{name}"'
        elif parts[0] == "src" and target != parts[1]:
            if "/" not in name:
                yield f'write "{parts[1]}/{name}"'
            elif target not in MAY_INCLUDE[parts[1]]:
                yield f"src/{parts[1]} may not include {name}"
        elif parts[0] == "hosts" and target in MAY_INCLUDE and target not in HOSTS_MAY_INCLUDE:
            yield f"hosts may not include {name}"


def main():
    problems = []
    names = defaultdict(list)
    for path in source_files():
        text = path.read_text()
        where = path.relative_to(ROOT)
        if not text.startswith("/* SPDX-License-Identifier: Apache-2.0"):
            problems.append(f"{where}: does not open with the SPDX line")
        if where.parts[0] == "src":
            if where.parts[1] not in MAY_INCLUDE:
                problems.append(f"{where}: {where.parts[1]} has no layer in {Path(__file__).name}")
                continue
            if path.suffix == ".c":
                names[path.name].append(str(where))
        problems += [f"{where}: {problem}" for problem in check_includes(path, text)]
        problems += [f"{where}:{number}: {len(line)} columns"
                     for number, line in enumerate(text.splitlines(), 1) if len(line) > 100]
    for folder in sorted({p.parent for p in source_files() if "src" in p.relative_to(ROOT).parts[:1]}):
        if not (folder / "README.md").exists():
            problems.append(f"{folder.relative_to(ROOT)}: has no README.md")
    problems += [f"{name} stands more than once: {', '.join(paths)}"
                 for name, paths in sorted(names.items()) if len(paths) > 1]
    for problem in problems:
        print(f"layers: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
