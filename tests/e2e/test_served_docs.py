# SPDX-License-Identifier: Apache-2.0
"""Runs the pages of the documentation that need a server, from zero, as a reader would.

A page with the command `once serve …` is such a page. Its server gets free ports, which stand in
place of 7411 and 7412 everywhere on the page; `kill -9 …` kills it, and a further `once serve`
starts it again. A block below a line "`file.ext`:" is that file. What installs a client is not run:
the pinned clients of client_tools.py are there already. The rest is as in test_docs.py.
"""
import os
import re
import shlex
import subprocess
import sys

import pytest

from client_tools import go_environment, jars, node_modules
from serving import Server
from test_docs import (PAGES, ROOT, blocks, commands, matches, needs_a_server, needs_postgres,
                       strip_blank_end)

SERVED = [page for page in PAGES if needs_a_server(page) and not needs_postgres(page)]
PIECE = re.compile(r"(?:^`([\w.-]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLS = ("pip install", "apt install", "sudo apt install", "go mod init", "npm install", "mvn ")


class PageServer(Server):
    """The server of a page: its flags, on free ports, in the folder of the page."""

    def __init__(self, folder):
        super().__init__(folder / ".server")
        self.cwd = folder
        self.words = []
        self.environment.update(HOME=str(folder))
        self.environment.pop("XDG_DATA_HOME", None)

    def command(self):
        words = super().command()[:2] + self.words
        for flag, port in (("--listen", self.port), ("--http", self.http)):
            if flag not in self.words and "--config" not in self.words:
                words += [flag, f"127.0.0.1:{port}"]
        if "--dir" in self.words:
            self.dir = self.cwd / self.words[self.words.index("--dir") + 1]
        return words

    def serve(self, words):
        if self.process is None:
            self.words = words
            self.start()


class Page:
    def __init__(self, folder, once_bin):
        self.folder, self.server = folder, PageServer(folder)
        shims = folder / ".bin"
        shims.mkdir()
        (shims / "python3").symlink_to(sys.executable)
        (shims / "once").symlink_to(once_bin)
        self.env = dict(os.environ, HOME=str(folder), LC_ALL="C.UTF-8",
                        PATH=f"{shims}:{os.environ['PATH']}")
        for name in ("ONCE_DIR", "XDG_DATA_HOME"):
            self.env.pop(name, None)

    def local(self, text):
        text = re.sub(r"\b7411\b", str(self.server.port), text)
        return re.sub(r"\b7412\b", str(self.server.http), text)

    def install(self, command):
        """The pinned client in place of the newest one."""
        if command.startswith("npm "):
            (self.folder / "node_modules").symlink_to(node_modules())
        elif command.startswith("mvn "):
            (self.folder / "jars").symlink_to(jars())
        elif command.startswith("go "):
            self.env.update(go_environment(), HOME=str(self.folder), PATH=self.env["PATH"])

    def run(self, command):
        """What it prints, as lines."""
        if command.startswith("once serve"):
            self.server.serve(shlex.split(command)[2:])
            return []
        if command.startswith("kill -9"):
            self.server.kill()
            return []
        if command.startswith(INSTALLS):
            self.install(command)
            return []
        done = subprocess.run(["bash", "-c", self.local(command)], cwd=self.folder, env=self.env,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120)
        return strip_blank_end(done.stdout.splitlines())


@pytest.mark.parametrize("path", SERVED, ids=lambda p: str(p.relative_to(ROOT)))
def test_page(path, once_bin, tmp_path):
    page = Page(tmp_path, once_bin)
    try:
        for name, language, text in PIECE.findall(path.read_text()):
            if name:
                (tmp_path / name).write_text(page.local(text))
            if language != "console":
                continue
            for command, expected in commands(text):
                if command.startswith("make "):
                    continue  # `make test` runs these already
                got, want = page.run(command), strip_blank_end(expected)
                want = [page.local(line) for line in want]
                assert matches(want, got), (
                    f"{path.name}: $ {command}\nexpected:\n" + "\n".join(want) + "\ngot:\n"
                    + "\n".join(got))
    finally:
        page.server.stop()


def test_every_client_page_is_run():
    pages = {page.name for page in SERVED if page.parent.name == "clients"}
    assert pages == {"python.md", "node.md", "go.md", "java.md", "curl.md", "c.md", "powertools.md",
                     "redis.md"}
    for page in SERVED:
        assert blocks(page, "console")
