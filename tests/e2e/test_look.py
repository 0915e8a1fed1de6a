# SPDX-License-Identifier: Apache-2.0
"""once get, ls, resolve and forget: on a folder that nobody owns, on one that a server owns, and on a
server that is named; at a terminal and away from one."""
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
from pathlib import Path

import pytest

import serving

DOUBT = ["sh", "-c", "kill -9 $$"]


@pytest.fixture(scope="module")
def short():
    """A folder whose path is short enough for sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="once-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def environment(**more):
    more = {"TERM": "xterm", **more}
    env = {k: v for k, v in os.environ.items()
           if k not in ("XDG_DATA_HOME", "NO_COLOR") and not k.startswith("ONCE_")}
    env.update(LC_ALL="C.UTF-8", TZ="UTC", **more)
    return env


class Place:
    """Where the store is, and the command line on it."""

    def __init__(self, binary, where, **more):
        self.binary, self.where, self.more = str(binary), where, more

    def words(self, command, *words):
        words = [str(w) for w in words]
        return [self.binary, command, *self.where, *words]

    def __call__(self, command, *words, status=0, **options):
        done = subprocess.run(self.words(command, *words), env=environment(**self.more), text=True,
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL, **options)
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def json(self, command, *words, status=0):
        return json.loads(self(command, "--json", *words, status=status).stdout)

    def states(self, *words):
        return {(o["namespace"], o["key"]): o["state"]
                for o in self.json("ls", *words)["operations"]}


@pytest.fixture(params=["folder", "owner", "server"], scope="module")
def place(request, short, once_bin):
    """Three stores: in a folder; in one that a server owns; of a server that is named."""
    if request.param == "folder":
        yield Place(once_bin, ["--dir", str(short / "s")])
        shutil.rmtree(short / "s")
        return
    with serving.Server(short / request.param) as server:
        if request.param == "owner":
            yield Place(once_bin, ["--dir", str(server.dir)])
        else:
            yield Place(once_bin, ["--server", f"127.0.0.1:{server.port}"])
    shutil.rmtree(short / request.param)


# ---- One life --------------------------------------------------------------------------------------

def test_what_is_shown_and_decided(place):
    place("run", "done", "--", "sh", "-c", "echo out; echo err >&2")
    place("run", "bad", "--", "false", status=1)
    place("run", "-n", "pay", "lost", "--", *DOUBT, status=76)
    assert place.states() == {("run", "done"): "completed", ("run", "bad"): "failed",
                              ("pay", "lost"): "doubt"}
    assert place.states("--state", "doubt") == {("pay", "lost"): "doubt"}
    assert set(place.states("run")) == {("run", "done"), ("run", "bad")}
    assert len(place.json("ls", "--limit", "2")["operations"]) == 2
    lines = [json.loads(line) for line in place("ls", "--jsonl").stdout.splitlines()]
    assert {o["key"] for o in lines} == {"done", "bad", "lost"}
    rows = place("ls").stdout.splitlines()
    assert rows[0].split() == ["STATE", "NAMESPACE", "KEY", "ATTEMPT", "BEGUN", "AGO", "DETAIL"]
    at = rows[0].index("KEY")
    assert sorted(row[at:at + 4].strip() for row in rows[1:]) == ["bad", "done", "lost"]

    # Completed: the output in its order, its streams apart; raw is what is kept.
    shown = place("get", "done").stdout
    assert re.search(r"^state +completed: ", shown, re.MULTILINE)
    assert re.search(r"^result +code 0, 8 bytes of output\n  [|] out\n  ! err\n", shown, re.MULTILINE)
    assert re.search(r"^  command +sh -c 'echo out; echo err >&2'\n", shown, re.MULTILINE)
    raw = place("get", "done", "--raw").stdout
    head, rest = raw.split("\n", 1)
    assert json.loads(head)["once"] == "run" and rest == "out\nerr\n"
    assert place.json("get", "done")["result"] == raw
    # Failed.
    assert re.search(r"^reason +.*exit status 1", place("get", "bad").stdout, re.MULTILINE)
    assert "it failed" in place("get", "bad", "--raw", status=1).stderr

    # In doubt: a get is no failure, and says what to type.
    shown = place("get", "pay", "lost", "--history").stdout
    assert re.search(r"^owner +process \d+ of this machine, gone ", shown, re.MULTILINE)
    assert re.search(r"^point +running\n  command +sh -c 'kill -9 \$\$'\n", shown, re.MULTILINE)
    assert re.search(r"^in doubt +since ", shown, re.MULTILINE)
    events = re.findall(r" ago  +([A-Z_]+) |now  +([A-Z_]+) ", shown)
    assert [a or b for a, b in events] == ["DOUBT", "CHECKPOINT", "BEGAN"]
    doubt = place.json("get", "-n", "pay", "lost", "--history")
    assert doubt["state"] == "doubt" and doubt["owner_gone"] is True
    assert [s["event"] for s in doubt["history"]] == ["DOUBT", "CHECKPOINT", "BEGAN"]
    assert doubt["history_more"] is False
    fence = doubt["fence"]
    assert f"--fence {fence} --not-done" in shown
    assert "in doubt" in place("get", "pay", "lost", "--raw", status=76).stderr
    assert "resolved first" in place("forget", "pay", "lost", status=76).stderr
    assert "resolved first" in place("forget", "pay", "lost", "--fence", fence, status=76).stderr
    stale = place.json("resolve", "pay", "lost", "--not-done", "--fence", fence + 1, status=77)
    assert stale["verdict"] == "STALE" and stale["exit_status"] == 77

    # Resolved, and again with the same words; other words come too late.
    done = ["--done", "--code", "-3", "--result", "it's \"there\""]
    assert "RESOLVED" in place("resolve", "pay", "lost", *done).stdout
    assert place.json("resolve", "pay", "lost", *done) == {"verdict": "OK", "outcome": "done"}
    assert place.json("resolve", "pay", "lost", "--not-done", status=65)["verdict"] == "MISMATCH"
    now = place.json("get", "pay", "lost", "--history")
    assert (now["state"], now["code"], now["result"]) == ("completed", -3, "it's \"there\"")
    assert now["history"][0]["event"] == "RESOLVED_DONE"
    assert place.states("--state", "doubt") == {}
    assert "there are none" in place("ls", "--state", "doubt").stderr

    # Forgotten.
    assert place("forget", "pay", "lost").stdout == "FORGOTTEN\n"
    assert "no operation 'lost'" in place("get", "pay", "lost", status=66).stderr
    assert "no operation 'lost'" in place("forget", "pay", "lost", status=66).stderr
    assert place.json("get", "pay", "lost", status=66)["exit_status"] == 66


def test_not_done_frees_the_key_also_in_the_servers_words(place):
    place("run", "again", "--", *DOUBT, status=76)
    place("resolve", "run", "again", "NOTDONE")
    place("run", "again", "--", *DOUBT, status=76)  # it is run again, and is in doubt again
    place("resolve", "run", "again", "done", "0", "by hand")
    assert place("get", "again", "--raw").stdout == "by hand"


def test_result_from_a_file_and_from_standard_input(place, tmp_path):
    file = tmp_path / "answer"
    file.write_bytes(bytes(range(256)))
    place("run", "bytes", "--", *DOUBT, status=76)
    place("resolve", "bytes", "--done", "--result-file", file)
    got = subprocess.run(place.words("get", "bytes", "--raw"), env=environment(),
                         capture_output=True, check=True)
    assert got.stdout == bytes(range(256))
    assert "result_base64" in place.json("get", "bytes")
    with file.open() as stdin:
        done = subprocess.run(place.words("resolve", "bytes", "--done", "--result-file", "-"),
                              env=environment(), stdin=stdin)
    assert done.returncode == 0  # the same answer again
    assert "cannot be read" in place("resolve", "bytes", "--done", "--result-file",
                                     tmp_path / "none", status=64).stderr


def test_who_is_at_it(place):
    """A live one is left alone; one whose process is gone needs no waiting for its lease."""
    with subprocess.Popen(place.words("run", "live", "--", "sleep", "600"), env=environment(),
                          stderr=subprocess.DEVNULL) as running:
        try:
            serving.wait_for("it runs",
                             lambda: place.states().get(("run", "live")) == "started" and
                             place.json("get", "live").get("point") == "running")
            assert "still there" in place("get", "live").stdout
            fence = place.json("get", "live")["fence"]
            refused = place("forget", "live", status=75).stderr
            assert "someone is at it" in refused and f"--fence {fence}" in refused
            assert "someone is at it" in place("resolve", "live", "--done", status=75).stderr
            assert place.json("resolve", "live", "--not-done", status=75)["verdict"] == "BUSY"
            assert "no result yet" in place("get", "live", "--raw", status=75).stderr
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
    assert "its process is gone" in place("ls", "--state", "started").stdout
    advice = place("get", "live").stdout
    assert "gone" in advice and "once resolve run live" in advice
    place("resolve", "live", "--not-done")
    assert place.json("get", "live")["state"] == "failed"


BAD = [
    (["get"], "which operation"),
    (["get", "a", "b", "c"], "'c' is too much"),
    (["get", "-n", "x", "a", "b"], "given twice"),
    (["get", "bad\x1b[31mkey"], r"bad\x1b[31mkey"),
    (["get", ""], "the key ''"),
    (["get", "two words", "k"], "the namespace 'two words'"),
    (["get", "k", "--raw", "--json"], "leave --json out"),
    (["get", "k", "--raw", "--history"], "leave --history out"),
    (["get", "k", "--color"], "no option '--color'"),
    (["ls", "--state", "done"], "one of started, completed, failed, doubt"),
    (["ls", "--limit", "0"], "from 1 on"),
    (["ls", "a", "b"], "one namespace at a time"),
    (["ls", "--json", "--jsonl"], "give one"),
    (["resolve", "k"], "no terminal to ask at"),
    (["resolve", "k", "--done", "--not-done"], "one of them"),
    (["resolve", "k", "--code", "1", "--not-done"], "--code belongs to --done"),
    (["resolve", "k", "--done", "--code", "2147483648"], "a whole number"),
    (["resolve", "k", "--done", "--code", "x"], "a whole number"),
    (["resolve", "k", "--done", "--result", "a", "--result-file", "b"], "give one"),
    (["resolve", "k", "--done", "--fence", "0"], "--fence takes the number"),
    (["resolve", "n", "k", "DONE"], "needs a code and a result"),
    (["resolve", "n", "k", "MAYBE"], "not 'MAYBE'"),
    (["resolve", "n", "k", "NOTDONE", "--done"], "too much"),
    (["forget"], "which operation"),
    (["forget", "k", "--fence", "-1"], "--fence takes the number"),
    (["ls", "--dir", "x", "--server", "y:1"], "two places"),
]


@pytest.mark.parametrize("words, said", BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_bad_input_is_named(words, said, once_bin, short):
    env = environment(HOME=str(short / "home"))
    done = subprocess.run([once_bin, *words], env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 64, done.stderr
    assert said in done.stderr and "\x1b" not in done.stderr
    assert not (short / "home").exists()  # looking makes no store


def test_no_store_is_not_found(once_bin, short):
    for words in (["ls"], ["get", "k"], ["forget", "k"], ["resolve", "k", "--done"]):
        Place(once_bin, ["--dir", str(short / "none")])(*words, status=66)
    assert not (short / "none").exists()


# ---- Rights ----------------------------------------------------------------------------------------

def test_rights(short, once_bin):
    """alice writes and bob looks, both in "pay" only; root may everything."""
    with serving.Server(short / "users", serving.users()) as server:
        address = ["--server", f"127.0.0.1:{server.port}"]
        who = {name: Place(once_bin, address, ONCE_USER=name, ONCE_PASSWORD=password)
               for name, password in serving.USERS.items()}
        who["alice"]("run", "-n", "pay", "k", "--", *DOUBT, status=76)
        assert who["bob"].states("pay") == {("pay", "k"): "doubt"}
        assert who["root"].states() == {("pay", "k"): "doubt"}
        who["root"]("run", "secret", "--", "true")
        assert who["bob"].states() == {("pay", "k"): "doubt"}  # what is not theirs is not there
        denied = who["bob"]("ls", "run", status=77)
        assert "may not use that namespace" in denied.stderr and denied.stdout == ""
        told = json.loads(who["bob"]("ls", "run", "--json", status=77).stdout)
        assert told["operations"] == [] and told["exit_status"] == 77
        who["bob"]("get", "pay", "k")
        fence = who["bob"].json("get", "pay", "k", "--history")["fence"]
        for name in ("bob", "alice"):
            who[name]("resolve", "pay", "k", "--not-done", status=77)
        who["bob"]("forget", "pay", "k", "--fence", fence, status=77)
        who["bob"]("get", "run", "secret", status=77)
        assert who["root"].json("get", "pay", "k")["state"] == "doubt"
        who["root"]("resolve", "pay", "k", "--not-done")
        Place(once_bin, address)("get", "pay", "k", status=77)
        Place(once_bin, address, ONCE_USER="bob", ONCE_PASSWORD="no")("ls", "pay", status=77)
    shutil.rmtree(short / "users")


# ---- Terminals -------------------------------------------------------------------------------------

class Terminal:
    """A command at a terminal."""

    def __init__(self, words, columns=100, **more):
        self.main, other = pty.openpty()
        termios.tcsetwinsize(other, (40, columns))
        self.process = subprocess.Popen(words, env=environment(**more), stdin=other, stdout=other,
                                        stderr=other, start_new_session=True)
        os.close(other)
        self.text = ""

    def read(self):
        """Some more of its output; False at the end."""
        assert select.select([self.main], [], [], 30)[0], f"nothing more came after {self.text!r}"
        try:
            data = os.read(self.main, 4096)
        except OSError:
            return False
        self.text += data.decode()
        return data != b""

    def expect(self, text):
        while text not in self.text:
            assert self.read(), self.text

    def answer(self, question, answer):
        self.expect(question)
        os.write(self.main, answer.encode())

    def end(self):
        """Its exit status, and all it said."""
        while self.read():
            pass
        os.close(self.main)
        return self.process.wait(30), self.text.replace("\r\n", "\n")


@pytest.fixture(scope="module")
def folder(short, once_bin):
    place = Place(once_bin, ["--dir", str(short / "t")])
    yield place
    shutil.rmtree(short / "t")


def test_colour_and_width_only_at_a_terminal(folder):
    key = "a-very-long-key-" + "x" * 100 + "-and-its-end"
    folder("run", key, "--", "true")
    status, text = Terminal(folder.words("ls"), columns=90).end()
    assert status == 0 and "\x1b[32mcompleted\x1b[0m" in text
    rows = re.sub(r"\x1b\[\d+m", "", text).splitlines()
    assert all(len(row) <= 90 for row in rows), rows
    assert re.search(r"a-very-\S*\.\.\.\S*its-end", rows[1])
    assert "\x1b[32mcompleted\x1b[0m" in Terminal(folder.words("get", key)).end()[1]
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for words in (["ls"], ["get", key]):
            assert "\x1b" not in Terminal(folder.words(*words), **more).end()[1]
    assert "\x1b" not in folder("ls").stdout and key in folder("ls").stdout


def test_resolve_asks_at_a_terminal(folder):
    folder("run", "asked", "--", *DOUBT, status=76)
    at = Terminal(folder.words("resolve", "asked"))
    at.answer("leave it in doubt: ", "what?\n")
    status, text = at.end()
    assert status == 76 and "nothing was changed" in text and "kill -9" in text
    at = Terminal(folder.words("resolve", "asked"))
    at.answer("leave it in doubt: ", "d\n")
    at.expect("Its code [0]: ")
    # Nobody holds the folder while a person thinks.
    assert folder.json("get", "asked")["state"] == "doubt"
    at.answer("Its code [0]: ", "4\n")
    at.answer("Its result, in one line [none]: ", "paid by hand\n")
    status, text = at.end()
    assert status == 0 and "RESOLVED: it happened" in text
    assert folder.json("get", "asked")["code"] == 4
    assert folder("get", "asked", "--raw").stdout == "paid by hand"
    status, text = Terminal(folder.words("resolve", "asked")).end()
    assert status == 65 and "nothing to resolve: it is completed" in text

    folder("run", "asked-2", "--", *DOUBT, status=76)
    at = Terminal(folder.words("resolve", "asked-2"))
    at.answer("leave it in doubt: ", "n\n")
    assert at.end()[0] == 0
    assert folder.json("get", "asked-2")["state"] == "failed"

    folder("run", "asked-3", "--", *DOUBT, status=76)
    at = Terminal(folder.words("resolve", "asked-3"))
    at.answer("leave it in doubt: ", "\x04")
    assert at.end()[0] == 76


def test_a_doubt_that_changed_while_a_person_thought(folder):
    folder("run", "slow", "--", *DOUBT, status=76)
    at = Terminal(folder.words("resolve", "slow"))
    at.expect("leave it in doubt: ")
    folder("run", "--on-doubt", "retry", "slow", "--", *DOUBT, status=76)
    at.answer("leave it in doubt: ", "n\n")
    status, text = at.end()
    assert status == 77 and "begun it again" in text
    assert folder.json("get", "slow")["state"] == "doubt"


def test_forget_asks_for_what_is_under_way(folder):
    with subprocess.Popen(folder.words("run", "held", "--", "sleep", "600"), env=environment(),
                          stderr=subprocess.DEVNULL) as running:
        try:
            serving.wait_for("it runs", lambda: folder.states().get(("run", "held")) == "started")
            at = Terminal(folder.words("forget", "held"))
            at.answer("[y/N] ", "\n")
            status, text = at.end()
            assert status == 75 and "nothing was forgotten" in text
            at = Terminal(folder.words("forget", "held"))
            at.answer("[y/N] ", "y\n")
            status, text = at.end()
            assert status == 0 and "FORGOTTEN" in text
            folder("get", "held", status=66)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()


# ---- Hostile bytes, slow readers, many keys --------------------------------------------------------

NASTY = b"\x1b]0;owned\x07\x1b[2J\xff\xc2\x9b31m\xe2\x80\xaertl\r\n<script>\tend"


def test_hostile_bytes_and_slow_readers(short, once_bin):
    """What others wrote never moves the cursor; who reads slowly holds nobody up."""
    count = 3000
    with serving.Server(short / "h") as server, server.connect() as call:
        for state in ("doubt", "completed", "failed"):
            fence = call("ONCE.BEGIN", "pay", f"nasty-{state}", "OWNER", NASTY[:40])[1]
            call("ONCE.CHECKPOINT", "pay", f"nasty-{state}", fence, NASTY[:40], NASTY)
            if state == "doubt":
                call("ONCE.RENEW", "pay", f"nasty-{state}", fence, 0)
            elif state == "completed":
                call("ONCE.COMPLETE", "pay", f"nasty-{state}", fence, 7,
                     b'{"once":"run","version":1,"frames":[[1,99999],[2,-1],"x"],"lost":"\\u001b"}\n'
                     + NASTY)
            else:
                call("ONCE.FAIL", "pay", f"nasty-{state}", fence, NASTY)
        fence = call("ONCE.BEGIN", "call", "it's called")[1]
        call("ONCE.CHECKPOINT", "call", "it's called", fence, "request",
             b'{"once":"call","version":1,"method":"POST","secret_headers":[],"at_ms":1700000000000}'
             b"\nbody\n")
        call("ONCE.RENEW", "call", "it's called", fence, 0)
        for i in range(count):
            call.send("ONCE.APPLY", "many", f"key-{i}-" + "x" * 40, "DO", "3", "ADD", "n", "1")
        for i in range(count):
            assert call.read()[0] == "APPLIED"
        check_nasty(Place(once_bin, ["--server", f"127.0.0.1:{server.port}"]))
    place = Place(once_bin, ["--dir", str(server.dir)])
    check_nasty(place)
    check_slow(place, count)
    shutil.rmtree(short / "h")


def check_nasty(place):
    for words in (["ls"], ["ls", "pay", "--json"], ["ls", "--jsonl", "pay"],
                  *([["get", "pay", f"nasty-{state}", *more] for state in
                     ("doubt", "completed", "failed") for more in ([], ["--history"], ["--json"])])):
        done = subprocess.run(place.words(*words), env=environment(), capture_output=True)
        assert done.returncode == 0, done.stderr
        text = done.stdout.decode()  # whatever it is, it is UTF-8
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text.replace("\t", "")), (
            words, text) if "--json" not in words and "--jsonl" not in words else True
        assert "\x1b" not in text and "\x07" not in text and "\r" not in text
    shown = place("get", "pay", "nasty-completed").stdout
    called = place("get", "call", "it's called").stdout
    assert "  method     POST\n  at         2023-11-14 22:13:20, " in called
    assert "\n  | body\n" in called and "secret_headers" not in called
    assert re.search(r"^  once call --(dir|server) \S+ --resume 'it'\\''s called'$", called,
                     re.MULTILINE)
    assert "code 7" in shown and r"\x1b]0;owned\x07" in shown and "<script>" in shown


def check_slow(place, count):
    # Who reads only the beginning has had enough.
    done = subprocess.run(["bash", "-o", "pipefail", "-c", '"$@" | head -2', "-",
                           *place.words("ls")], env=environment(), text=True, capture_output=True)
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 2
    # Who does not read at all keeps nobody out of the folder.
    with subprocess.Popen(place.words("ls", "--jsonl", "many"), env=environment(),
                          stdout=subprocess.PIPE) as slow:
        assert slow.stdout.readline().startswith(b'{"namespace":"many"')
        place("get", "pay", "nasty-doubt")
        rest = slow.stdout.read().splitlines()
    assert slow.returncode == 0 and len(rest) + 1 == count
    assert len({json.loads(line)["key"] for line in rest}) == count - 1
    with open("/dev/full", "w") as full:
        done = subprocess.run(place.words("ls"), env=environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 71 and "No space left" in done.stderr


# ---- Owners that come and go -----------------------------------------------------------------------

class Silent(serving.Server):
    """A server without a socket in its folder: for the command line it serves nobody."""

    def ready(self):
        with self.connect() as call:
            call.send("ONCE.GET", "ready", "ready")
            return call.read() is None  # before that: LOADING


def test_a_folder_that_is_in_use_is_waited_for(short, once_bin):
    """A process that serves nobody is waited for, and named when it does not end."""
    with Silent(short / "p", "socket = off\n") as server:
        place = Place(once_bin, ["--dir", str(server.dir)])
        begin = time.monotonic()
        refused = place("ls", status=69).stderr
        assert time.monotonic() - begin > 1.5
        assert str(server.process.pid) in refused and "in use" in refused or "owns" in refused
        waiting = subprocess.Popen(place.words("ls"), env=environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        server.kill()  # at once: a second and a half later it would have been given up
        out, err = waiting.communicate(timeout=30)
        assert waiting.returncode == 0, err
    shutil.rmtree(short / "p")


class Fickle(threading.Thread):
    """A server that hangs up on the first commands, and answers the next ones."""

    def __init__(self, lost, answer):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.lost, self.answer, self.commands = lost, answer, []

    def run(self):
        while True:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            with connection:
                data = connection.recv(65536)
                while data:
                    self.commands.append(data)
                    if len(self.commands) <= self.lost:
                        break
                    connection.sendall(self.answer)
                    data = connection.recv(65536)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.join()


def test_a_call_whose_answer_was_lost_is_repeated(once_bin):
    with Fickle(3, b"$-1\r\n") as server:
        place = Place(once_bin, ["--server", f"127.0.0.1:{server.port}"])
        assert "no operation 'k'" in place("get", "k", status=66).stderr
        assert len(server.commands) == 4 and len(set(server.commands)) == 1
    with Fickle(10**9, b"") as server:
        place = Place(once_bin, ["--server", f"127.0.0.1:{server.port}"])
        begin = time.monotonic()
        assert "nobody knows" in place("get", "k", status=69).stderr
        assert 1 < time.monotonic() - begin < 20 and len(server.commands) > 3
    with Fickle(0, b"*1\r\n+WHAT\r\n") as server:
        place = Place(once_bin, ["--server", f"127.0.0.1:{server.port}"])
        assert "does not know" in place("get", "k", status=69).stderr
        assert "does not know" in place("ls", status=69).stderr
