# SPDX-License-Identifier: Apache-2.0
"""Runs every example of the documentation and compares what comes out.

A ```console block holds commands after `$ ` and, below each, what it prints (both streams). `...`
in an expected line stands for any text, `...` alone on a line for any number of lines. The blocks of
one page run in one folder, in order. A ```c block that has a main is compiled with the flags of the
installed library and run; its first comment may say `prints: …`.
"""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"),
                *(ROOT / "examples").rglob("*.md")])


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(block):
    """[(command, expected output lines)]; a command ending in a backslash goes on in the next line."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] = found[-1][0] + "\n" + line.removeprefix("> ")
        elif found:
            found[-1][1].append(line)
        else:
            raise AssertionError(f"a console block begins with output: {line}")
    return found


def matches(expected, got):
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    if not got:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].rstrip().split("..."))
    return re.fullmatch(pattern, got[0].rstrip()) is not None and matches(expected[1:], got[1:])


def strip_blank_end(lines):
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def has_command(page, beginning):
    return any(command.startswith(beginning) for block in blocks(page, "console")
               for command, _ in commands(block))


def needs_a_server(page):
    """Such a page is run by test_served_docs.py."""
    return has_command(page, "once serve --dir")


def needs_postgres(page):
    """Such a page is run by test_pg_guides.py."""
    return has_command(page, "psql")


# test_readme.py types the README, in two terminals; test_gateway_cli.py the page of the gateway;
# test_pg_docs.py that of PostgreSQL.
TYPED_ELSEWHERE = (ROOT / "README.md", ROOT / "docs" / "gateway.md", ROOT / "docs" / "postgres.md")
PAGES_WITH_EXAMPLES = [page for page in PAGES if blocks(page, "console") and not needs_a_server(page)
                       and not needs_postgres(page) and page not in TYPED_ELSEWHERE]


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda p: str(p.relative_to(ROOT)))
def test_console_examples(page, once_bin, plugins, tmp_path):
    env = dict(os.environ, HOME=str(tmp_path), LC_ALL="C.UTF-8", ONCE_ROOT=str(ROOT),
               ONCE_PLUGINS=str(plugins),
               PATH=f"{once_bin.parent}:{os.environ['PATH']}")
    for name in ("ONCE_DIR", "XDG_DATA_HOME"):
        env.pop(name, None)  # the store of a page is in its own home
    for block in blocks(page, "console"):
        for command, expected in commands(block):
            if command.startswith(("make", "git clone", "cd ")):
                continue  # `make test` runs these already; test_repository.py covers the others
            known = {name: value for name, value in env.items()
                     if not name.startswith("ONCE_") or name in command}  # a reader has no others
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=known, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            got = strip_blank_end(done.stdout.splitlines())
            want = strip_blank_end(expected)
            assert matches(want, got), (
                f"{page.name}: $ {command}\nexpected:\n" + "\n".join(want)
                + f"\ngot (exit {done.returncode}):\n" + "\n".join(got))


PAGES_WITH_PROGRAMS = [page for page in PAGES if blocks(page, "c") and not needs_a_server(page)]


@pytest.mark.parametrize("page", PAGES_WITH_PROGRAMS, ids=lambda p: str(p.relative_to(ROOT)))
def test_c_examples(page, installed, tmp_path):
    """Against an installed library, with pkg-config, as a user would."""
    for number, block in enumerate(blocks(page, "c")):
        if "int main(" not in block:
            continue
        source = tmp_path / f"example{number}.c"
        source.write_text(block)
        env = dict(os.environ, PKG_CONFIG_PATH=str(installed.pkgconfig))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "once"], env=env, text=True,
                               capture_output=True, check=True).stdout.split()
        program = tmp_path / f"example{number}"
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, source,
                        *flags, f"-Wl,-rpath,{installed.lib}"], check=True)
        done = subprocess.run([program], cwd=tmp_path, text=True, capture_output=True, check=True)
        for line in re.findall(r"prints: (.*?)(?: \*/)?$", block, re.MULTILINE):
            assert line.strip() in done.stdout


def test_every_page_is_linked():
    """A page that nobody links to is a page that nobody reads."""
    linked = set()
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                path = (page.parent / target).resolve()
                assert path.exists(), f"{page.relative_to(ROOT)} links to {target}, which is not there"
                linked.add(path)
    for page in (ROOT / "docs").rglob("*.md"):
        assert page in linked, f"no page links to {page.relative_to(ROOT)}"


SIZES = {"MB": 1e6, "GB": 1e9}
LENGTHS = {"m": 60, "h": 3600, "d": 86400}


def number_of(text):
    return float(text.replace(",", ""))


def test_cost_of_windows():
    """The table of windows.md is its formula, and the formula has the figures of the benchmarks."""
    page = (ROOT / "docs" / "guides" / "windows.md").read_text()
    disk, memory = map(number_of, re.search(r"With ([\d,]+) bytes a key on disk and (\d+) in memory",
                                            page).groups())
    rows = re.findall(r"^\| (\d+) \| (\d+) ([mhd]) \| ([\d,]+) \| ([\d.]+) (MB|GB) "
                      r"\| ([\d.]+) (MB|GB) \|$", page, re.MULTILINE)
    assert len(rows) >= 9
    for rate, length, unit, keys, *sizes in rows:
        held = int(rate) * int(length) * LENGTHS[unit]
        assert number_of(keys) == held
        for size, name, each in ((sizes[0], sizes[1], memory), (sizes[2], sizes[3], disk)):
            rounding = 0.05 if "." in size else 0.5
            assert abs(held * each / SIZES[name] - float(size)) <= rounding, (rate, length, size)

    benchmarks = (ROOT / "docs" / "BENCHMARKS.md").read_text()
    grown = re.search(r"^\| growth\.\d+M .*\|$(?!\n\| growth)", benchmarks, re.MULTILINE)[0]
    log_bytes = number_of(grown.split("|")[5])
    assert abs(log_bytes - disk) / disk < 0.2, f"BENCHMARKS.md has {log_bytes} bytes of log a key"
    worst = [number_of(n) for n in re.findall(
        r"^\| growth\.memory_bytes_key_worst_\w+ \| ([\d.,]+) \|", benchmarks, re.MULTILINE)]
    assert worst and max(worst) <= memory
