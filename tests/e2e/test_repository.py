# SPDX-License-Identifier: Apache-2.0
"""What the repository promises about itself."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INVARIANTS = ROOT / "docs" / "INVARIANTS.md"


def sources():
    files = [p for folder in ("src", "tests", "proof", "include")
             for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".py", ".pml")]
    return {path: path.read_text() for path in files}


def test_every_guard_named_in_the_invariants_exists():
    text = INVARIANTS.read_text()
    names = re.findall(r"`([a-z0-9_]+__[a-z0-9_]+|[a-z0-9]+_[a-z0-9_]+)`", text)
    assert len(names) > 20
    everything = "\n".join(sources().values())
    for name in names:
        assert name in everything, f"docs/INVARIANTS.md names {name}, which nothing defines"


def test_invariants_are_numbered_and_cited_ones_exist():
    numbers = {int(n) for n in re.findall(r"^## INV-(\d+)", INVARIANTS.read_text(), re.MULTILINE)}
    assert numbers == set(range(1, 10))
    for path, text in sources().items():
        for cited in re.findall(r"INV-(\d+)", text):
            assert int(cited) in numbers, f"{path} cites INV-{cited}"


def test_public_headers_compile_alone_in_c_and_cpp(tmp_path):
    for header in sorted((ROOT / "include" / "once").glob("*.h")):
        source = f"#include <once/{header.name}>\n" * 2 + "extern int not_empty;\n"
        for compiler, language, standard in (("cc", "c", "c11"), ("c++", "c++", "c++11")):
            done = subprocess.run(
                [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror",
                 "-pedantic", "-fsyntax-only", f"-I{ROOT / 'include'}", "-"],
                input=source, text=True, capture_output=True)
            assert done.returncode == 0, f"{header.name} as {language}:\n{done.stderr}"


def test_shared_library_shows_only_public_names(installed):
    library = next(installed.lib.glob("libonce.so"))
    done = subprocess.run(["nm", "-D", "--defined-only", library], text=True,
                          capture_output=True, check=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert "once_key_uuid7" in names
    strange = {n for n in names if not n.startswith("once_") or n.startswith("once__")}
    assert not strange, f"hidden names are visible: {sorted(strange)}"


def test_every_public_declaration_is_exported(installed):
    libraries = [installed.lib / name for name in ("libonce.so", "libonce-http.so", "libonce-sqlite.so")]
    done = subprocess.run(["nm", "-D", "--defined-only", *libraries], text=True,
                          capture_output=True, check=True)
    exported = {line.split()[-1] for line in done.stdout.splitlines() if line.strip()}
    for header in (ROOT / "include" / "once").glob("*.h"):
        for declaration in re.findall(r"ONCE_API[^;]*?\b(once_[a-z0-9_]+)\s*\(", header.read_text()):
            assert declaration in exported, f"{header.name} declares {declaration}, not exported"


def test_banned_functions_do_not_compile(tmp_path):
    source = "int f(char *a, const char *b); int f(char *a, const char *b) { strcpy(a, b); return 0; }"
    done = subprocess.run(["cc", "-c", "-x", "c", "-Werror", "-include",
                           ROOT / "src" / "base" / "banned.h", "-o", tmp_path / "x.o", "-"],
                          input=source, text=True, capture_output=True)
    assert done.returncode != 0 and "banned" in done.stderr


def test_layering_check_sees_a_backward_include(tmp_path):
    import importlib.util
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)
    problems = list(layers.check_includes(ROOT / "src" / "base" / "x.c",
                                          '#include "core/decide.h"\n'))
    assert problems == ["src/base may not include core/decide.h"]
