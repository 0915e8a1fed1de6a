# SPDX-License-Identifier: Apache-2.0
"""`make demo`: its proof holds, fails when a piece of the protection is missing, and it clears up
behind itself however it ends. The guide shows what it prints, and its pictures are what the
script draws.
"""
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

from serving import wait_for

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo"
GUIDE = ROOT / "docs" / "guides" / "payments.md"


def begin(once_bin, folder, *arguments):
    return subprocess.Popen([sys.executable, DEMO / "demo.py", *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=dict(os.environ, ONCE_BIN=str(once_bin), TMPDIR=str(folder)))


def run(once_bin, folder, *arguments):
    """(exit status, what it printed, what it complained about)"""
    process = begin(once_bin, folder, *arguments)
    try:
        out, complaints = process.communicate(timeout=200)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, complaints


def processes_of(folder):
    """The processes that were started with a path in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass  # it has ended
    return found


def nothing_left(folder):
    return not processes_of(folder) and not list(folder.iterdir())


def shape(line):
    """A line without its numbers."""
    return " ".join(re.sub(r"[-+]?\d[\d,.]*", "N", line).split())


def test_each_charge_happens_once(once_bin, tmp_path):
    status, out, complaints = run(once_bin, tmp_path, "--quick", "--seed", "1")
    assert (status, complaints) == (0, ""), out + complaints
    assert "\x1b" not in out and "\r" not in out and max(map(len, out.splitlines())) <= 80
    rows = dict(re.findall(r"^  (\S.*?\S)  +(.*)$", out, re.MULTILINE))
    ordered, one_try, retries, once = rows["charged exactly once"].split()
    assert ordered == once == "40" and int(one_try) < 40 and int(retries) < 40
    assert rows["charged twice or more often"].split()[3] == "0"
    assert int(rows["charged twice or more often"].split()[2]) > 0
    for fault in ("requests lost", "answers lost", "requests delivered twice", "requests delayed",
                  "service killed", "writer paused"):
        assert all(int(count) > 0 for count in rows[fault].split()), fault
    assert rows["Once itself killed"].split() == ["-", "-", "1"]
    assert out.count("  holds  ") == 7 and "FAILS" not in out
    assert nothing_left(tmp_path)

    # The guide shows a larger run of the same program.
    shown = re.search(r"^\$ make demo DEMO='--seed 7'\n(.*?)^```", GUIDE.read_text(),
                      re.MULTILINE | re.DOTALL)[1]
    printed = {shape(line) for line in out.splitlines()}
    for line in shown.splitlines():
        # Which orders is a matter of the seed, and how to repeat it one of the size.
        if not re.match(r"    (order-|and )|The same faults again: ", line):
            assert shape(line) in printed, line


@pytest.mark.parametrize("piece, claim", [("key", "exactly one ledger entry"),
                                          ("look", "agree one to one"),
                                          ("fence", "the ledger's total")])
def test_the_proof_fails_without(piece, claim, once_bin, tmp_path):
    status, out, complaints = run(once_bin, tmp_path, "--charges", "20", "--seed", "3", "--break",
                                  piece)
    assert (status, complaints) == (1, ""), out + complaints
    assert re.search(rf"^  FAILS  .*{claim}", out, re.MULTILINE), out
    assert "The proof FAILS." in out and "Charged more than once, with Once" in out
    assert nothing_left(tmp_path)


def at_work(folder):
    """A demo that has begun its run with Once: the store is there, and customers pay."""
    return [path for path in folder.glob("once-demo-*/once/events")
            if b"EXECUTE" in path.read_bytes()]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_demo_clears_up(name, once_bin, tmp_path):
    process = begin(once_bin, tmp_path, "--break", "key", "--charges", "500")
    try:
        wait_for("the demo is at work", lambda: at_work(tmp_path))
        process.send_signal(getattr(signal, name))
        complaints = process.communicate(timeout=60)[1]
        assert process.returncode == 130 and complaints == "demo: interrupted\n"
        assert nothing_left(tmp_path)
    finally:
        process.kill()
        process.wait()


def test_a_killed_demo_leaves_no_process(once_bin, tmp_path):
    process = begin(once_bin, tmp_path, "--break", "key", "--charges", "500")
    try:
        wait_for("the demo is at work", lambda: at_work(tmp_path))
        assert len(processes_of(tmp_path)) >= 3
    finally:
        process.kill()
        process.communicate()
    wait_for("all have ended", lambda: not processes_of(tmp_path))
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def test_what_it_does_not_take(once_bin, tmp_path):
    status, out, _ = run(once_bin, tmp_path, "--help")
    assert status == 0
    for option in ("--seed", "--charges", "--quick", "--keep", "--open", "--break"):
        assert option in out
    for arguments in (["--charges", "5"], ["--seed", "x"], ["--break", "lock"], ["more"]):
        status, out, complaints = run(once_bin, tmp_path, *arguments)
        assert (status, out) == (64, "") and "demo: " in complaints, arguments
    status, _, complaints = run(tmp_path / "missing", tmp_path)
    assert status == 69 and "`make` builds it" in complaints
    assert nothing_left(tmp_path)


def test_pictures_are_as_drawn(monkeypatch):
    monkeypatch.syspath_prepend(str(DEMO))
    import pictures
    drawn = pictures.pictures()
    guide = GUIDE.read_text()
    for name, text in drawn.items():
        assert (pictures.FOLDER / name).read_text() == text, "run examples/demo/pictures.py"
        assert f"](../pictures/{name})" in guide
        root = xml.etree.ElementTree.fromstring(text)
        names = [child.tag.split("}")[1] for child in root]
        assert names[:2] == ["title", "desc"] and len(root[1].text) > 40
        assert not set(names) & {"script", "image", "foreignObject"}
        assert root.attrib["role"] == "img" and "prefers-color-scheme: dark" in text
    for alternative in re.findall(r"!\[(.*?)\]\(", guide):
        assert len(alternative) > 40
