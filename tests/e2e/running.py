# SPDX-License-Identifier: Apache-2.0
"""Where `once run` finds its store: a folder that nobody owns, one that a server owns, a server."""
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from serving import HOST, Server, once_binary, wait_for

ALL = ["folder", "owned", "server"]


def state(pid):
    """R, S, T, …; X where there is none of that number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def alive(pid):
    """A process that runs: not one that is dead and not reaped yet."""
    return state(pid) not in "ZX"


def stop_outside_the_store(process):
    """SIGSTOP asks nobody: who has the folder then keeps it."""
    def stopped():
        process.send_signal(signal.SIGSTOP)
        wait_for("it stands still", lambda: state(process.pid) == "T")
        files = [os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()]
        if any(file.endswith("/lock") for file in files):
            process.send_signal(signal.SIGCONT)
            return False
        return True

    wait_for("it stands still without the folder", stopped)


class Place:
    """A store, how it is named on the command line, and a folder to work in."""

    def __init__(self, kind, settings=""):
        self.kind = kind
        self.home = Path(tempfile.mkdtemp(prefix="once-run-", dir="/tmp"))
        self.store = self.home / "d" / "store"
        self.owner = None
        self.where = ["--dir", str(self.store)]
        self.env = {k: v for k, v in os.environ.items()
                    if k != "XDG_DATA_HOME" and not k.startswith("ONCE_")}
        self.env.update(HOME=str(self.home), LC_ALL="C.UTF-8")
        self.number = 0
        if kind != "folder":
            self.owner = Server(self.home / "d", settings)
            self.owner.start()
        if kind == "server":
            self.where = ["--server", f"{HOST}:{self.owner.port}"]

    def close(self):
        try:
            if self.owner:
                self.owner.stop()
        finally:
            shutil.rmtree(self.home)

    def key(self):
        self.number += 1
        return f"key {self.number}"

    def once(self, *words, env=None, timeout=60, **more):
        """Any command of once on this store."""
        words = [str(word) for word in words]
        at = words.index("--") if "--" in words else len(words)
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([once_binary(), *words[:at], *self.where, *words[at:]], cwd=self.home,
                              env=dict(self.env, **(env or {})), timeout=timeout,
                              **{"capture_output": True, **more})

    def run(self, key, *words, **more):
        """run("k", "--quiet", "--", "true"), or with a script of the shell: run("k", "echo hi")."""
        if "--" not in words:
            words = [*words[:-1], "--", "sh", "-c", words[-1]]
        return self.once("run", key, *words, **more)

    def start(self, key, *words, env=None, **more):
        """The same, and it goes on."""
        if "--" not in words:
            words = [*words[:-1], "--", "sh", "-c", words[-1]]
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([once_binary(), "run", key, *self.where, *map(str, words)],
                                cwd=self.home, env=dict(self.env, **(env or {})), **more)

    def path(self, name):
        return self.home / name

    def has(self, name):
        """Waits for a file that a command makes."""
        wait_for(f"{name} is there", self.path(name).exists)

    def lines(self, name):
        path = self.path(name)
        return path.read_text().splitlines() if path.exists() else []
