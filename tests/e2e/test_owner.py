# SPDX-License-Identifier: Apache-2.0
"""The command line on a store that a server owns: the same words, outputs and exit statuses.

Everything is done to stores of their own: one in a folder that nobody owns, one that a server owns
and the command line finds by its folder (--dir), and one whose server is named (--server).
"""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

import serving
import test_docs
from test_apply import Program

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def short():
    """A folder whose path is short enough for sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="once-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


class Owner(serving.Server):
    """A server that owns this folder."""

    def __init__(self, folder, settings="", options=(), environment=None):
        super().__init__(folder.parent / f"{folder.name}.d", settings, options, environment)
        self.dir = folder


def environment(home, **more):
    env = {k: v for k, v in os.environ.items()
           if k != "XDG_DATA_HOME" and not k.startswith("ONCE_")}
    env.update(HOME=str(home), LC_ALL="C.UTF-8", **more)
    return env


# ---- The documentation -----------------------------------------------------------------------------

def only_objects(page):
    """Does every command of the page that touches a store have a server to ask?"""
    found = [command for block in test_docs.blocks(page, "console")
             for command, _ in test_docs.commands(block)]
    used = {name for command in found for name in re.findall(r"\bonce ([a-z]+)", command)}
    return used & {"apply", "object"} and not used - {"apply", "object", "key", "laws", "sim"}


PAGES = [page for page in test_docs.PAGES_WITH_EXAMPLES if only_objects(page)]


def test_there_are_pages():
    assert len(PAGES) >= 8, PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_documentation_with_a_server(page, once_bin, plugins, short):
    """What test_docs.py runs, while a server owns every store that the page mentions."""
    env = environment(short, ONCE_ROOT=str(ROOT), ONCE_PLUGINS=str(plugins),
                      PATH=f"{once_bin.parent}:{os.environ['PATH']}")
    found = [pair for block in test_docs.blocks(page, "console")
             for pair in test_docs.commands(block)]
    names = {name for command, _ in found
             for name in re.findall(r"(?:--dir|sync) ([\w/.-]+)", command)}
    owners = [Owner(short / name) for name in sorted(names)]
    owners.append(Owner(short / ".local" / "share" / "once"))
    try:
        for owner in owners:
            owner.dir.parent.mkdir(parents=True, exist_ok=True)
            owner.start()
        for command, expected in found:
            if command.startswith(("make", "git clone", "cd ")):
                continue
            done = subprocess.run(["bash", "-c", command], cwd=short, env=env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            got = test_docs.strip_blank_end(done.stdout.splitlines())
            want = test_docs.strip_blank_end(expected)
            assert test_docs.matches(want, got), (
                f"{page.name}: $ {command}\nexpected:\n" + "\n".join(want)
                + f"\ngot (exit {done.returncode}):\n" + "\n".join(got))
    finally:
        for owner in owners:
            owner.stop()


# ---- Three stores side by side ---------------------------------------------------------------------

class Side:
    """One of the stores, and how it is named."""

    def __init__(self, once_bin, folder, where, owner=None):
        self.once_bin, self.folder, self.where, self.owner = once_bin, folder, where, owner
        self.env = environment(folder.parent)

    def run(self, *args, stdin=b"", env=None):
        command = [self.once_bin, *map(str, args)]
        at = command.index("--") if "--" in command else len(command)
        command[at:at] = self.where
        return subprocess.run(command, input=stdin, capture_output=True, timeout=60,
                              env=dict(self.env, **(env or {})))

    def plain(self, text):
        """What it printed, without what is another in every store."""
        text = text.decode(errors="surrogateescape")
        for name in (*self.where[1:], str(self.folder)):
            text = text.replace(name, "STORE")
        text = re.sub(r"\b[0-9a-f]{32}(?=\.\d+\.\d+\.\d+)", "ID", text)
        return re.sub(r'"retry_ms":\d+', '"retry_ms":N', text)

    def told(self, *args, stdin=b""):
        done = self.run(*args, stdin=stdin)
        out = self.plain(done.stdout)
        if args[:2] == ("object", "changes"):  # a message names its store, and has a check over that
            out = re.sub(r'(?<="changes_base64":")[^"]*', lambda found: "x" * len(found[0]), out)
            out = out if out.startswith("{") else len(done.stdout)
        return done.returncode, out, self.plain(done.stderr)


@pytest.fixture
def sides(once_bin, short):
    """Filled by somebody who began keys and left them, as each kind of begun key."""
    folders = [short / name for name in ("alone", "owned", "named")]
    for folder in folders:
        fill(folder)
    owners = [Owner(folder).start() for folder in folders[1:]]
    yield [Side(once_bin, folders[0], ["--dir", str(folders[0])]),
           Side(once_bin, folders[1], ["--dir", str(folders[1])], owners[0]),
           Side(once_bin, folders[2], ["--server", f"127.0.0.1:{owners[1].port}"], owners[1])]
    for owner in owners:
        assert owner.stop() == 0


def fill(folder):
    with Program(folder) as program:
        program.begin(b"running", b"f")
        program.give_up(b"vanished", program.begin(b"vanished", b"f"))
        program.complete(b"elsewhere", program.begin(b"elsewhere", b"f"), 201, b'{"id": "ch_1"}')
        program.complete(b"numbers", program.begin(b"numbers", b"f"), 0, b"[1,2]")
        program.complete(b"bytes", program.begin(b"bytes", b"f"), 7, b"\xff\x00\x1b[2J")


BIG = "x" * 1000
SCRIPT = [
    # Every kind of effect, applied and replayed.
    ["apply", "pay", "o-1", "ADD acct:42 1000", "EMIT charges {\"amount\": 100} GROUP g",
     "SEQ p 1 0"],
    ["apply", "pay", "o-1", "ADD acct:42 1000", "EMIT charges {\"amount\": 100} GROUP g",
     "SEQ p 1 0"],
    ["apply", "pay", "o-2", "--ttl", "5m", "--fp", "mine", "ADD acct:42 -1"],
    ["apply", "pay", "o-2", "--fp", "mine", "ADD acct:42 -1", "ADD acct:42 -1"],
    ["apply", "pay", "o-3", "MACHINE m a>b b>c", "MOVE m a b", "GRANT fence", "LEASE l me 100000",
     "APPEND log e1 " + BIG, "BUCKET b mon 3", "BUCKET b tue 4", "INSERT cart n apples bread",
     "PNADD pn n -5", "GADD g n 5", "CLOCK vv n 7", "LWW lww 17 n dark", "MAX top 9", "MIN low -9",
     "FLAG up", "SET reg v1"],
    ["apply", "--no-key", "MAX top 17", "UNION visitors alice 'bob and \"carol\"'"],
    ["apply", "--no-key", "--json", "UNION visitors dave", "SEQ p 1 0"],
    # Rejections, first and again; mismatches; keys that others began.
    ["apply", "pay", "o-4", "ADD acct:42 -5000 MIN 0", "MAX top 99"],
    ["apply", "pay", "o-4", "ADD acct:42 -5000 MIN 0", "MAX top 99"],
    ["apply", "pay", "o-4", "--json", "ADD acct:42 -5000 MIN 0", "MAX top 99"],
    ["apply", "--no-key", "GUARD fence 1"],
    ["apply", "--no-key", "GUARD fence 1"],
    ["apply", "pay", "o-1", "ADD acct:42 1"],
    ["apply", "--json", "pay", "o-1", "ADD acct:42 1"],
    ["apply", "pay", "running", "--fp", "f", "ADD acct:42 1"],
    ["apply", "pay", "running", "--fp", "f", "--json", "ADD acct:42 1"],
    ["apply", "pay", "vanished", "--fp", "f", "ADD acct:42 1"],
    ["apply", "pay", "vanished", "--fp", "f", "--json", "ADD acct:42 1"],
    ["apply", "pay", "elsewhere", "--fp", "f", "ADD acct:42 1"],
    ["apply", "pay", "elsewhere", "--fp", "f", "--json", "ADD acct:42 1"],
    ["apply", "pay", "numbers", "--fp", "f", "ADD acct:42 1"],
    ["apply", "pay", "bytes", "--fp", "f", "--json", "ADD acct:42 1"],
    ["apply", "pay", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "ADD acct:42 1"],
    # Refused, with the reason.
    ["apply", "--no-key", "ADD acct:42 1"],
    ["apply", "--no-key", "MAX top 1", "UNION top x"],
    ["apply", "--json", "--no-key", "MAX top 1", "UNION top x"],
    ["apply", "pay", "o-9", "MOVE nowhere a b"],
    ["apply", "pay", "o-10", "ADD " + "n" * 255 + " 1", "ADD " + "n" * 255 + " -2 MIN 0"],
    ["apply", "two words", "k", "ADD a 1"],
    # Looking.
    ["object"],
    ["object", "--json"],
    ["object", "--after", "3", "--count", "2"],
    ["object", "--after", "3", "--count", "2", "--json"],
    *[["object", *json_flag, name] for json_flag in ([], ["--json"])
      for name in ("acct:42", "charges", "p", "m", "fence", "log", "b", "cart", "pn", "g", "vv",
                   "lww", "top", "low", "up", "reg", "visitors", "nothing")],
    ["object", "log", "--after", "0"],
    ["object", "log", "--after", "0", "--json"],
    ["object", "charges", "--after", "0", "--count", "1"],
    ["object", "b", "--after", "1", "--count", "1", "--json"],
    ["object", "b", "--count", "1"],
    ["object", "top", "--count", "1"],
    ["object", "nothing", "--count", "1"],
    # Exchanging.
    ["object", "delta", "visitors"],
    ["object", "delta", "visitors", "--json"],
    ["object", "delta", "visitors", "--since", "1000000"],
    ["object", "delta", "visitors", "--since", "3", "--json"],
    ["object", "delta", "acct:42"],
    ["object", "delta", "nothing"],
    ["object", "changes"],
    ["object", "changes", "--json"],
    ["object", "merge", "visitors", "gset"],
    ["apply", "--no-key", "DELETE reg"],
    ["object", "reg"],
]


def test_commands_say_the_same(sides):
    for args in SCRIPT:
        alone, *served = (side.told(*args) for side in sides)
        for other in served:
            assert other == alone, args
    # It was the server's store that they asked: without it they are different folders.
    assert len({side.run("object", "acct:42").stdout for side in sides}) == 1


def test_bytes_go_in_the_same_way(sides):
    alone = sides[0]
    alone.run("apply", "--no-key", "UNION visitors a b c", "MAX top 5")
    delta = alone.run("object", "delta", "visitors").stdout
    changes = alone.run("object", "changes").stdout
    assert delta and changes
    for side in sides:
        assert side.run("apply", "pay", "k-1", "ADD counter 1").returncode == 0
    for args, stdin in [
            (["object", "merge", "visitors", "gset"], delta),
            (["object", "merge", "visitors", "gset", "--json"], delta),
            (["object", "merge", "other", "gset", "--json"], delta),
            (["object", "merge", "visitors", "max"], delta),
            (["object", "merge", "counter", "gset"], delta),
            (["object", "merge", "visitors", "gset"], delta[:-1]),
            (["object", "merge"], delta),
            (["object", "merge"], b""),
            (["object", "visitors"], b"")]:
        told = [side.told(*args, stdin=stdin) for side in sides[1:]]
        assert told[0] == told[1], args
        assert told[0][0] == alone.told(*args, stdin=stdin)[0], args
    assert sides[1].told("object", "merge", stdin=changes)[:2] == (0, "merged; news for 1 object\n")
    assert sides[2].told("object", "merge", "--json", stdin=changes)[:2] == (0, '{"changed":1}\n')
    assert sides[1].told("object", "merge", stdin=changes)[:2] == (0, "merged; news for 0 objects\n")
    for side in sides[1:]:
        assert json.loads(side.run("object", "top", "--json").stdout)["value"] == 5


def test_cursor_goes_on_from_one_to_the_other(once_bin, short):
    """What a folder gave, its server goes on from: it is the same store."""
    side = Side(once_bin, short / "a", ["--dir", str(short / "a")])
    side.run("apply", "--no-key", "UNION s a")
    cursor = json.loads(side.run("object", "changes", "--json").stdout)["cursor"]
    with Owner(side.folder):
        again = json.loads(side.run("object", "changes", "--json", "--since", cursor).stdout)
        assert again["changes_base64"] == "" and again["more"] is False
        side.run("apply", "--no-key", "UNION s b")
        news = json.loads(side.run("object", "changes", "--json", "--since", cursor).stdout)
        assert news["changes_base64"] != ""
    last = json.loads(side.run("object", "changes", "--json", "--since", news["cursor"]).stdout)
    assert last["changes_base64"] == ""


# ---- sync ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("here", ["folder", "owned", "named"])
@pytest.mark.parametrize("there", ["folder", "owned", "socket", "address"])
def test_sync(here, there, once_bin, short):
    one = Side(once_bin, short / "one", ["--dir", str(short / "one")])
    two = Side(once_bin, short / "two", ["--dir", str(short / "two")])
    one.run("apply", "--no-key", "UNION s a b", "MAX m 5", "UNION clash x")
    two.run("apply", "--no-key", "UNION s c", "MAX m 7", "MAX n 1")
    owners = []
    other = str(two.folder)
    try:
        if here != "folder":
            owners.append(Owner(one.folder).start())
        if here == "named":
            one.where = ["--server", str(owners[0].socket_path)]
        if there != "folder":
            owners.append(Owner(two.folder).start())
        if there == "socket":
            other = str(owners[-1].socket_path)
        elif there == "address":
            other = f"tcp://127.0.0.1:{owners[-1].port}"
        assert one.told("object", "sync", other, "--json")[:2] == (0, '{"sent":2,"received":3}\n')
        for name in ("s", "m", "n", "clash"):
            assert one.run("object", name).stdout == two.run("object", name).stdout != b""
        assert one.told("object", "sync", other)[1] == "equal now: sent news of 0, received news of 0\n"
        # Objects of two types: named, and the others are exchanged all the same.
        one.run("apply", "--no-key", "MAX t 1", "MAX m 9")
        two.run("apply", "--no-key", "UNION t x")
        status, out, err = one.told("object", "sync", other)
        assert status == 64 and "'t' is a max" in err and "a gset" in err and not out, err
        assert b"9" in two.run("object", "m").stdout
    finally:
        for owner in owners:
            assert owner.stop() == 0


# ---- Who may, and where ----------------------------------------------------------------------------

def test_users(once_bin, short):
    with Owner(short / "s", settings=serving.users()) as owner:
        side = Side(once_bin, owner.dir, ["--server", f"127.0.0.1:{owner.port}"])

        def told(user, *args):
            return side.run(*args, env={"ONCE_USER": user, "ONCE_PASSWORD": serving.USERS[user]})

        done = told("alice", "apply", "pay", "k", "ADD acct:1 5")
        assert (done.returncode, done.stdout) == (0, b"APPLIED\n  ADD acct:1 5 -> 5\n"), done
        assert told("alice", "object", "acct:1").returncode == 0
        for user, args in [("alice", ["apply", "mail", "k", "ADD acct:1 5"]),
                           ("alice", ["apply", "pay", "k2", "ADD other 5"]),
                           ("bob", ["apply", "pay", "k3", "ADD acct:1 5"])]:
            done = told(user, *args)
            assert done.returncode == 77 and done.stderr.startswith(b"once apply: "), done
            assert b"ERR_" not in done.stderr and b"NOPERM" not in done.stderr, done
        assert told("root", "object", "acct:1").stdout.endswith(b"5\n")

        done = side.run("object", env={"ONCE_USER": "alice", "ONCE_PASSWORD": "wrong-one"})
        assert done.returncode == 77 and b"alice" in done.stderr and b"wrong-one" not in done.stderr
        done = side.run("object", env={"ONCE_USER": "alice"})
        assert done.returncode == 64 and b"ONCE_PASSWORD" in done.stderr
        done = side.run("object")
        assert done.returncode == 77, done
        # The owner of the folder is its administrator.
        own = Side(once_bin, owner.dir, ["--dir", str(owner.dir)])
        assert own.run("apply", "mail", "k", "ADD other 5").returncode == 0
        assert own.run("object", "other", env={"ONCE_USER": "alice",
                                               "ONCE_PASSWORD": "wrong-one"}).returncode == 0


def test_tls(once_bin, short):
    authority, certificate, key = serving.certificates(short)
    port = serving.free_port()
    with Owner(short / "s", options=["--listen", f"tls://127.0.0.1:{port}", "--tls-cert",
                                     str(certificate), "--tls-key", str(key)]) as owner:
        for host in ("127.0.0.1", "localhost"):
            side = Side(once_bin, owner.dir, ["--server", f"tls://{host}:{port}"])
            trusted = {"ONCE_TLS_CA": str(authority)}
            assert side.run("apply", "pay", host, "ADD n 1", env=trusted).returncode == 0
            assert side.run("apply", "pay", host + "2", "SET big " + "x" * 100000,
                            env=trusted).returncode == 0
            done = side.run("object", "n")
            assert done.returncode == 69 and b"certificate" in done.stderr, done
        done = Side(once_bin, owner.dir, ["--server", f"127.0.0.1:{port}"]).run("object", "n")
        assert done.returncode == 69, done


@pytest.mark.parametrize("args, status, said", [
    (["--server", "127.0.0.1:1"], 69, b"nobody answers at 127.0.0.1:1"),
    (["--server", "/nowhere/once.sock"], 69, b"/nowhere/once.sock"),
    (["--server", "nowhere"], 64, b"HOST:PORT"),
    (["--server", "http://127.0.0.1:7412"], 64, b"address of a server"),
    (["--server", ""], 64, b"--server is empty"),
    (["--server", "127.0.0.1:1", "--dir", "x"], 64, b"give one"),
])
def test_servers_that_are_none(args, status, said, once_bin, short):
    for command in (["apply", "--no-key", "MAX m 1"], ["object"], ["object", "sync", "y"]):
        done = subprocess.run([once_bin, *command, *args], capture_output=True, cwd=short,
                              env=environment(short), timeout=60)
        assert done.returncode == status and said in done.stderr, done
        assert not list(short.iterdir()), "a folder was made"


class Scripted:
    """A server that gives these answers, one for each time that it hears something."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.where = ["--server", "127.0.0.1:%d" % self.listener.getsockname()[1]]
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        connection, _ = self.listener.accept()
        with connection:
            while connection.recv(1 << 16) and self.answers:
                connection.sendall(self.answers.pop(0))
                if not self.answers:
                    break

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join()
        self.listener.close()


@pytest.mark.parametrize("answers, args, status, said", [
    # It is still opening its store: it is waited for.
    ([b"-LOADING 1 of 9 bytes\r\n", b"-LOADING 5 of 9 bytes\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n"],
     ["object"], 0, "there are no objects yet"),
    # Nothing that it says can do harm, or is taken for something else.
    ([b"HTTP/1.1 400 Bad Request\r\n\r\n"], ["object"], 69, "RESP2"),
    ([b":5\r\n"], ["object"], 69, "does not know"),
    ([b"*2\r\n$1\r\n0\r\n*1\r\n*2\r\n$1\r\nx\r\n$5\r\nwrong\r\n"], ["object"], 69, "does not know"),
    ([b"-ERR \x1b[2J (ERR_DENIED)\r\n"], ["object", "x"], 77, "'x':  [2J\n"),
    ([b"-ERR unknown command 'ONCE.OBJECT'\r\n"], ["object", "x"], 64, "unknown command"),
    ([b"-FULL no more (ERR_SPACE)\r\n"], ["apply", "n", "k", "ADD x 1"], 69,
     "no more; nothing happened"),
    ([b"-RATE 250 too many calls (ERR_RATE)\r\n"], ["apply", "n", "k", "ADD x 1"], 75,
     "once apply: too many calls; nothing happened"),
    ([b"-ERR effect 2: no good (ERR_OBJECT_TYPE)\r\n"], ["apply", "n", "k", "ADD x 1", "ADD y 1"],
     64, "effect 2, 'ADD y 1': no good; nothing happened"),
    ([b"*2\r\n+APPLIED\r\n*0\r\n"], ["apply", "n", "k", "ADD x 1"], 69, "does not know"),
    # Nobody knows whether it was done.
    ([b"*2\r\n+APP"], ["apply", "n", "k", "ADD x 1"], 69, "the same command again is safe"),
    ([b""], ["object"], 69, "closed the connection"),
])
def test_answers_of_servers(answers, args, status, said, once_bin, short):
    with Scripted(answers) as server:
        done = subprocess.run([once_bin, *args, *server.where], capture_output=True, text=True,
                              env=environment(short), timeout=60)
    assert done.returncode == status and said in done.stderr, done
    assert "\x1b" not in done.stderr + done.stdout


def test_owner_that_is_no_server(once_bin, short):
    """A program that uses the library: there is nobody to ask."""
    side = Side(once_bin, short / "s", ["--dir", str(short / "s")])
    with Program(side.folder):
        for args in (["apply", "--no-key", "MAX m 1"], ["object"], ["object", "sync", short / "t"]):
            done = side.run(*args)
            assert done.returncode == 69 and b"Nothing happened" in done.stderr, done
    assert side.run("apply", "--no-key", "MAX m 1").returncode == 0
    # A socket that a killed server left behind hinders nobody.
    owner = Owner(side.folder).start()
    owner.kill()
    assert owner.socket_path.exists()
    assert side.run("object", "m").stdout.endswith(b"1\n")
