# SPDX-License-Identifier: Apache-2.0
"""`once watch`: lines and objects where there is no terminal, a screen where there is one; and that
whatever ends it gives the terminal back as it was.
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading

import pytest

from serving import Server, USERS, free_port, users, wait_for

ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"
HOSTILE = b"\033]0;owned\007\033[2J"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watch")
    with Server(folder) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def doubtful(server):
    """Three doubts, one of them with an owner that is no text."""
    with server.connect() as c:
        for key, owner in (("<b>a</b>", HOSTILE), ("given-up", b"w1")):
            fence = c("ONCE.BEGIN", "pay", key, "OWNER", owner)[1]
            c("ONCE.CHECKPOINT", "pay", key, fence, HOSTILE, b"")
            c("ONCE.RENEW", "pay", key, fence, 0)
        c("ONCE.BEGIN", "pay", "vanished", "LEASE", 1)
    return server


def watch(once_bin, *args, environment=None, **options):
    return subprocess.run([str(once_bin), "watch", *args], capture_output=True, text=True,
                          timeout=60, env={**os.environ, **(environment or {})}, **options)


@contextlib.contextmanager
def load(server):
    """Begins of one key, until the end: EXECUTE once, then BUSY."""
    over = threading.Event()

    def work():
        with server.connect() as c:
            while not over.is_set():
                c("ONCE.BEGIN", "load", "same", "LEASE", 3600000)  # no doubt for all of this file
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Terminal:
    """A process behind a terminal of its own; `text` is what it last drew, without colours."""

    def __init__(self, once_bin, *args, rows=30, columns=100, environment=None):
        master, slave = pty.openpty()
        self.fd = master
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                     **(environment or {})}
        self.process = subprocess.Popen([str(once_bin), "watch", *args], stdin=slave, stdout=slave,
                                        stderr=subprocess.PIPE, env=variables, preexec_fn=self.own)
        self.slave = slave  # kept, so that its settings can be read after the process
        self.out = b""

    @staticmethod
    def own():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.fd], [], [], 0.02)[0]:
            self.out += os.read(self.fd, 65536)
        return self.out

    @property
    def frame(self):
        """The last one that is whole."""
        frames = re.split(rb"\033\[H", self.read())
        return frames[-1] if b"\033[J" in frames[-1] else frames[-2]

    @property
    def text(self):
        return re.sub(rb"\033\[[0-9;?]*[A-Za-z]", b"", self.frame).decode()

    def shows(self, pattern, seconds=30):
        return wait_for(f"a screen with {pattern}",
                        lambda: b"\033[J" in self.read() and re.search(pattern, self.text), seconds)

    def end(self, how):
        if isinstance(how, bytes):
            os.write(self.fd, how)
        else:
            self.process.send_signal(how)
        status = self.process.wait(30)
        self.read()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.fd)
        os.close(self.slave)


# ---- Without a terminal ----------------------------------------------------------------------


def test_objects_have_rates_and_doubts(once_bin, doubtful):
    with load(doubtful):
        done = watch(once_bin, "--dir", doubtful.dir, "--json", "--count", "2", "--interval",
                     "300ms")
    assert done.returncode == 0 and done.stderr == ""
    assert "\033" not in done.stdout
    first, second = map(json.loads, done.stdout.splitlines())
    for found in (first, second):
        assert found["state"] == "live" and found["source"] == "server"
        assert found["rates"]["verdicts"]["BUSY"] > 0 and found["rates"]["length_ms"] >= 250
        times = found["latency_us"]
        assert 0 < times["p50"] <= times["p99"] <= times["max"]
        assert found["keys"] >= 4 and found["connections"]["resp"] >= 2
    assert second["uptime_ms"] > first["uptime_ms"]
    doubts = {d["key"]: d for d in second["doubt_list"]}
    assert set(doubts) == {"<b>a</b>", "given-up", "vanished"} and second["doubts"] == 3
    assert doubts["<b>a</b>"]["owner"].encode() == HOSTILE
    assert doubts["given-up"]["since_ms"] is None
    assert doubts["vanished"]["since_ms"] <= second["now_ms"]


def test_lines_say_the_same(once_bin, doubtful):
    with load(doubtful):
        done = watch(once_bin, "--dir", doubtful.dir, "--count", "2", "--interval", "250ms")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and "\033" not in done.stdout
    for line in lines:
        assert re.match(r"\d\d:\d\d:\d\d ready calls/s [\d,.]+ BUSY [\d,.]+ ", line), line
        assert " doubts 3 " in line and " writes/s " in line


def test_a_folder_without_a_server_shows_what_it_holds(once_bin, tmp_path):
    folder = tmp_path / "store"
    with Server(tmp_path) as server, server.connect() as c:
        fence = c("ONCE.BEGIN", "run", "one")[1]
        c("ONCE.RENEW", "run", "one", fence, 0)
        c("ONCE.BEGIN", "run", "two")
    done = watch(once_bin, "--dir", folder, "--json", "--count", "1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["source"] == "folder" and found["rates"] is None
    assert (found["keys"], found["doubts"], found["started"]) == (2, 1, 1)
    assert [d["key"] for d in found["doubt_list"]] == ["one"]
    # It is not held in between: another command gets in while it watches.
    with subprocess.Popen([str(once_bin), "watch", "--dir", folder, "--json", "--interval", "1s"],
                          stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["keys"] == 2
        apply = subprocess.run([str(once_bin), "apply", "--dir", folder, "run", "three",
                                "ADD stock 1"], capture_output=True, text=True, timeout=30)
        assert apply.returncode == 0, apply.stderr
        wait_for("the new key", lambda: json.loads(process.stdout.readline())["keys"] == 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
    shutil.rmtree(tmp_path)


def test_it_goes_on_when_the_server_was_started_again(once_bin, tmp_path):
    with Server(tmp_path) as server:
        with subprocess.Popen([str(once_bin), "watch", "--server", f"127.0.0.1:{server.port}",
                               "--json", "--interval", "250ms"], stdout=subprocess.PIPE,
                              text=True) as process:
            def until(condition):
                return wait_for("such a line", lambda: condition(
                    found := json.loads(process.stdout.readline())) and found)
            until(lambda s: s["state"] == "live" and s["rates"] is not None)
            server.kill()
            lost = until(lambda s: s["state"] == "reconnecting")
            assert lost["message"]
            server.start()
            back = until(lambda s: s["state"] == "live")
            assert back["rates"] is None, "counters began anew"
            until(lambda s: s["state"] == "live" and s["rates"] is not None)
            process.kill()
    shutil.rmtree(tmp_path)


def test_what_is_wrong_is_said_at_once(once_bin, tmp_path):
    for args, status, text in (
            (["--interval", "1ms"], 64, "from 250ms to 1h"),
            (["--count", "0"], 64, "--count"),
            (["here"], 64, "no argument"),
            (["--dir", "x", "--server", "y"], 64, "two places"),
            (["--dir", tmp_path / "none"], 66, "store"),
            (["--server", f"127.0.0.1:{free_port()}"], 69, "127.0.0.1")):
        done = watch(once_bin, *map(str, args))
        assert done.returncode == status, (args, done)
        assert text in done.stderr and done.stdout == "", (args, done)
        assert not (tmp_path / "none").exists()


def test_who_may_only_look_sees_theirs(once_bin, tmp_path):
    with Server(tmp_path, "[namespace pay]\n" + users()) as server:
        with server.connect() as c:
            c("AUTH", "root", USERS["root"])
            for ns in ("pay", "hidden"):
                fence = c("ONCE.BEGIN", ns, "k")[1]
                c("ONCE.RENEW", ns, "k", fence, 0)
        where = ["--server", f"127.0.0.1:{server.port}", "--json", "--count", "1", "--interval",
                 "250ms"]
        done = watch(once_bin, *where)
        assert done.returncode == 77 and "ONCE_USER" in done.stderr
        found = json.loads(watch(once_bin, *where, environment={
            "ONCE_USER": "bob", "ONCE_PASSWORD": USERS["bob"]}).stdout)
        assert found["doubts"] == 2
        assert [(d["namespace"], d["key"]) for d in found["doubt_list"]] == [("pay", "k")]
    shutil.rmtree(tmp_path)


# ---- On a terminal ---------------------------------------------------------------------------


def test_the_screen_moves_and_q_ends_it(once_bin, doubtful):
    with load(doubtful), Terminal(once_bin, "--dir", str(doubtful.dir), "--interval",
                                  "250ms") as screen:
        screen.shows(r"BUSY +[\d,]+ /s +▁*[▂▃▄▅▆▇█]")
        screen.shows(r"latency +p50 +\d+ us +p99 +[\d.]+ [um]s")
        screen.shows(r"keys +\d+ +under way \d+ +in doubt 3")
        screen.shows(r"IN DOUBT 3")
        assert re.search(r"pay <b>a</b>  attempt 1  owner \\x1b\]0;owned\\x07\\x1b\[2J  at \\x1b",
                         screen.text), screen.text
        assert b"\033]0;" not in screen.read() and b"\033[2J" not in screen.read()
        assert b"\033[31m" in screen.frame, "no colour for doubts"
        assert screen.end(b"q") == 0
        assert screen.out.index(ENTER) < screen.out.index(LEAVE)
        assert termios.tcgetattr(screen.slave) == screen.before


@pytest.mark.parametrize("how, status", [
    (b"\003", -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP),
    (signal.SIGQUIT, -signal.SIGQUIT), (signal.SIGABRT, -signal.SIGABRT)])
def test_every_way_out_gives_the_terminal_back(once_bin, server, how, status):
    with Terminal(once_bin, "--dir", str(server.dir)) as screen:
        screen.shows("q quits")
        assert termios.tcgetattr(screen.slave) != screen.before
        assert screen.end(how) == status
        assert screen.out.endswith(LEAVE), screen.out[-80:]
        assert b"\033[?25h" in screen.out and b"\033[?7h" in screen.out
        assert termios.tcgetattr(screen.slave) == screen.before


def test_it_fits_the_terminal_whatever_its_size(once_bin, doubtful):
    with Terminal(once_bin, "--dir", str(doubtful.dir), "--interval", "250ms") as screen:
        screen.shows("q quits")
        for rows, columns in ((24, 80), (10, 40), (5, 20), (2, 3), (60, 200)):
            screen.resize(rows, columns)
            mark = len(screen.read())
            # The first may have been drawn before, and the last may not be whole yet.
            wait_for("a frame of the new size", lambda: screen.read()[mark:].count(b"\033[H") >= 3)
            lines = screen.text.replace("\r", "").split("\n")
            assert len(lines) <= rows, (rows, columns, lines)
            assert max(map(len, lines)) <= columns, (rows, columns, lines)
        assert "q quits" in screen.text and screen.end(b"q") == 0


def test_no_colour_where_nobody_wants_it(once_bin, doubtful):
    with Terminal(once_bin, "--dir", str(doubtful.dir), environment={
            "NO_COLOR": "1", "LC_ALL": "C", "LC_CTYPE": "", "LANG": ""}) as screen:
        screen.shows("IN DOUBT 3")
        assert not re.search(rb"\033\[[0-9;]*m", screen.frame)
        assert screen.frame.isascii()
        assert screen.end(b"q") == 0


def test_a_dumb_terminal_gets_lines(once_bin, server):
    with Terminal(once_bin, "--dir", str(server.dir), "--count", "1", "--interval", "250ms",
                  environment={"TERM": "dumb"}) as screen:
        assert screen.process.wait(30) == 0
        out = screen.read()
        assert ENTER not in out and b" ready calls/s " in out


def test_ctrl_z_gives_the_terminal_back_for_a_while(once_bin, server):
    with Terminal(once_bin, "--dir", str(server.dir), "--interval", "250ms") as screen:
        screen.shows("q quits")
        screen.process.send_signal(signal.SIGTSTP)
        wait_for("the terminal is back", lambda: screen.read().endswith(LEAVE))
        stat = wait_for("it stands still", lambda: " T " in open(
            f"/proc/{screen.process.pid}/stat").read())
        assert stat and termios.tcgetattr(screen.slave) == screen.before
        mark = len(screen.out)
        screen.process.send_signal(signal.SIGCONT)
        wait_for("its screen again", lambda: ENTER in screen.read()[mark:])
        screen.shows("q quits")
        assert screen.end(b"q") == 0


def test_a_server_that_goes_away_is_waited_for(once_bin, tmp_path):
    with Server(tmp_path) as server:
        with Terminal(once_bin, "--server", f"127.0.0.1:{server.port}", "--interval",
                      "250ms") as screen:
            screen.shows(r"live \| once")
            server.kill()
            screen.shows("reconnecting")
            screen.shows("What follows was so before")
            server.start()
            screen.shows(r"live \| once")
            assert screen.end(b"q") == 0
    shutil.rmtree(tmp_path)


def test_a_server_that_stands_still_holds_nobody_up(once_bin, tmp_path):
    """Keys are read and the screen says so, while the question waits for its answer."""
    with Server(tmp_path) as server:
        where = ("--server", f"127.0.0.1:{server.port}", "--interval", "250ms")
        with Terminal(once_bin, *where) as screen, Terminal(once_bin, *where) as other:
            screen.shows(r"live \| once")
            other.shows(r"live \| once")
            server.process.send_signal(signal.SIGSTOP)
            try:
                screen.shows(r"no answer for \d+ s")
                screen.resize(12, 60)
                wait_for("the new size", lambda: len(screen.text.split("\n")) == 12)
                assert screen.end(b"q") == 0
                assert screen.out.endswith(LEAVE)
                assert termios.tcgetattr(screen.slave) == screen.before
                assert other.end(b"\003") == -signal.SIGINT
                assert other.out.endswith(LEAVE)
            finally:
                server.process.send_signal(signal.SIGCONT)
    shutil.rmtree(tmp_path)
