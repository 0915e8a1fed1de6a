# SPDX-License-Identifier: Apache-2.0
"""The first minute of the README, typed as it stands there: `make run` in one terminal, the rest in
another, and the output compared as in test_docs.py.

In `make test` the folder is as a clone looks after its first build: the files of the repository, and
in build/ the binary that is tested. Meson and ninja, which would build it again, are replaced by
programs that do nothing; all else is what a reader runs. With ONCE_README=clone (`make soak`) it is a
real clone that shares nothing, and `make run` builds it. Only the ports are others than on the page,
so that a server that runs here already is left alone.
"""
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from serving import free_port, wait_for
from test_docs import commands, matches, strip_blank_end

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CLONE = os.environ.get("ONCE_README") == "clone"
BUILD_S = 1800
DATE = re.compile(r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \w+ \d{4}")
LETTERS_A_MINUTE = 200  # forty words: nobody's record


def first_minute():
    """[(command, expected lines)] of the section."""
    section = README.read_text().split("\n## The first minute\n")[1].split("\n## ")[0]
    return [pair for block in re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
            for pair in commands(block)]


def files_of_the_tree():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, check=True).stdout
    return [Path(os.fsdecode(name)) for name in listed.split(b"\0") if name]


def make_clone(folder):
    """What a clone of the working tree would be."""
    for name in files_of_the_tree():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def make_built(folder, once_bin):
    """What `make` needs, and what it left behind."""
    shutil.copy2(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "build/release/src/cli").mkdir(parents=True)
    (folder / "build/release/build.ninja").write_text("")
    (folder / "build/release/src/cli/once").symlink_to(once_bin.resolve())
    shims = folder / ".shims"
    shims.mkdir()
    for name in ("ninja", "meson"):
        (shims / name).write_text("#!/bin/sh\n")
        (shims / name).chmod(0o755)


class Reader:
    """Somebody with two terminals in the folder."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {"7411": free_port(), "7412": free_port()}
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("ONCE_", "XDG_"))}
        self.env.update(HOME=str(folder), LC_ALL="C.UTF-8", TERM="dumb",
                        PATH=f"{folder}/.shims:{os.environ['PATH']}")
        self.server = self.shell = None

    def local(self, text):
        return re.sub(r"\b741[12]\b", lambda found: str(self.ports[found[0]]), text)

    def is_up(self):
        assert self.server.poll() is None, (self.folder / "server.log").read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['7412']}/readyz") as answer:
            return answer.status == 200

    def start_server(self, command):
        env = dict(self.env, ONCE_LISTEN=f"127.0.0.1:{self.ports['7411']}",
                   ONCE_HTTP=f"127.0.0.1:{self.ports['7412']}")
        with open(self.folder / "server.log", "w") as log:
            self.server = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=env,
                                           stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=subprocess.STDOUT, start_new_session=True)
        wait_for("the server of make run", self.is_up, BUILD_S if CLONE else 30)

    def type(self, command):
        """What the second terminal shows, as lines."""
        if self.shell is None:
            self.shell = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=self.folder,
                                          env=self.env, text=True, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.shell.stdin.write(self.local(command) + "\nprintf '\\n<done>\\n'\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line == "<done>\n":
                return strip_blank_end(lines)
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the shell ended at: {command}")

    def leave(self):
        if self.shell:
            self.shell.stdin.close()
            self.shell.wait(30)
            self.shell.stdout.close()
        if self.server:
            os.killpg(self.server.pid, signal.SIGINT)  # Ctrl-C
            try:
                self.server.wait(60)
            finally:
                if self.server.poll() is None:
                    os.killpg(self.server.pid, signal.SIGKILL)
                    self.server.wait()


class Clock:
    """The page shows a date of its own; the first date that is really printed stands for it, and no
    other one does."""

    def __init__(self):
        self.printed = None

    def as_on_the_page(self, want, got):
        shown = next((line for line in want if DATE.fullmatch(line)), None)
        for i, line in enumerate(got):
            if shown and DATE.fullmatch(line):
                self.printed = self.printed or line
                if line == self.printed:
                    got[i] = shown
        return got


def test_first_minute_as_written(once_bin, tmp_path):
    if CLONE:
        make_clone(tmp_path)
    else:
        make_built(tmp_path, once_bin)
    reader, clock = Reader(tmp_path), Clock()
    started = replayed = None
    try:
        for command, expected in first_minute():
            if command.startswith("make run"):
                reader.start_server(command)
                started = time.monotonic()
                continue
            want = [reader.local(line) for line in strip_blank_end(expected)]
            got = clock.as_on_the_page(want, reader.type(command))
            assert matches(want, got), (f"$ {command}\nexpected:\n" + "\n".join(want) + "\ngot:\n"
                                        + "\n".join(got))
            if replayed is None and any("replayed" in line for line in got):
                replayed = time.monotonic()
        # It is the server's store that all of this went to.
        assert (tmp_path / "build/run-data/once.sock").exists()
    finally:
        reader.leave()
        shutil.rmtree(tmp_path, ignore_errors=True)
    assert started and replayed and replayed - started < 30, "a replay, and at once"


def test_the_replay_is_within_a_minute_of_typing():
    typed = ""
    for command, expected in first_minute():
        typed += command + "\n"
        if any("replayed" in line for line in expected):
            break
    else:
        pytest.fail("the first minute shows no replay")
    assert typed.startswith("make run\n") and typed.count("once run ") == 2
    assert len(typed) <= LETTERS_A_MINUTE, f"{len(typed)} letters until the first replay"
