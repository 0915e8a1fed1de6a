# SPDX-License-Identifier: Apache-2.0
"""The commands that Once shares with Redis, sent to a real Redis 7 and to Once: the same bytes come
back, in both versions of the protocol. And the reference page of the commands is the one that the
binary writes."""
import re
import shutil
import subprocess
import time

import pytest

from serving import ROOT, Connection, RealRedis, Server, once_binary

FAR = int(time.time()) + 100000  # the file may be run long after it was read

# Each line is one command, in this order on one connection; '' is an empty word.
SAME = f"""
PING
PING hello
PING a b
ECHO hello
ECHO
SELECT 0
SELECT abc
GET k
SET k one
GET k
get k
SET k two NX
SET k two XX
SET k three GET
SET k four NX GET
SET none x XX
SET none x XX GET
SET fresh x NX GET
SET k v nx xx
SET k v XX NX
SET k v EX
SET k v EX 10 PX 10
SET k v KEEPTTL EX 10
SET k v EX 10 KEEPTTL
SET k v NOPE
SET k v EX abc
SET k v EX 1.5
SET k v EX 0
SET k v EX -1
SET k v PX 0
SET k v EXAT 0
SET k v PXAT -5
SET k v EX 9223372036854775807
SET k v EX 9223372036854775808
SET k v EX 01
SET k
SET
SET k five EX 100
TTL k
SET k six KEEPTTL
TTL k
SET k seven
TTL k
PTTL k
TTL missing
PTTL missing
TTL
TTL a b
SET k eight EXAT {FAR}
GET k
SET k eight PXAT {FAR}000
SET past x EXAT 1
GET past
SET past x
SET past y EXAT 1 GET
GET past
EXISTS past
SET past y PXAT 1 NX
SET past y PXAT 1 XX
SETNX k x
SETNX new x
SETNX new
SETEX k 100 nine
TTL k
SETEX k 0 x
SETEX k -1 x
SETEX k abc x
SETEX k 10
PSETEX k 100000 ten
TTL k
PSETEX k 0 x
PSETEX k abc x
GET k
STRLEN k
STRLEN missing
TYPE k
TYPE missing
SET empty ''
GET empty
STRLEN empty
MGET k missing empty
MGET
EXISTS k missing k
EXISTS
EXPIRE missing 10
EXPIRE k 200
TTL k
EXPIRE k abc
EXPIRE k
EXPIRE k 10 NOPE
EXPIRE k 9223372036854775807
PEXPIRE k 300000
TTL k
PEXPIRE missing 5
EXPIREAT k {FAR}
EXPIREAT missing {FAR}
PEXPIREAT k {FAR}000
EXPIRE k 0
GET k
SET k x
PEXPIRE k -1
EXISTS k
SET k x
EXPIREAT k 1
EXISTS k
SET k x
PEXPIREAT k 0
EXISTS k
EXPIRE k -1
SET a 1
SET b 2
DEL a b missing a
DEL
SET a 1
UNLINK a missing
UNLINK
CLIENT
CLIENT NOPE
CLIENT GETNAME
CLIENT SETNAME bob
CLIENT GETNAME
CLIENT SETNAME
CLIENT SETNAME ''
CLIENT GETNAME
CLIENT ID extra
CLIENT NO-EVICT ON
CLIENT NO-EVICT maybe
CLIENT LIST TYPE replica
CLIENT LIST TYPE nope
CLIENT LIST ID abc
CLIENT LIST NOPE
CONFIG
CONFIG NOPE
CONFIG GET
CONFIG GET save
CONFIG GET nosuchsetting
CONFIG GET maxmemory
CONFIG GET [m]axmemor?
COMMAND NOPE
COMMAND GETKEYS mget a b c
COMMAND GETKEYS set k v EX 10
COMMAND GETKEYS ping
COMMAND GETKEYS nope
COMMAND GETKEYS get
COMMAND GETKEYS get a b
COMMAND GETKEYS ping x
COMMAND GETKEYS nope x
COMMAND GETKEYS
COMMAND INFO nope
COMMAND DOCS nope
COMMAND LIST FILTERBY PATTERN getk
COMMAND LIST FILTERBY PATTERN echo
COMMAND LIST NOPE
COMMAND COUNT extra
AUTH x
AUTH default x
AUTH bob x
AUTH a b c
AUTH
HELLO 9
HELLO abc
HELLO 2 NOPE
HELLO 2 AUTH x
HELLO 2 SETNAME
HELLO 2 AUTH bob x
NOPE
NOPE a b c
nope.nope a
TIME extra
DBSIZE extra
RESET
QUIT
""".strip().split("\n")


class Raw(Connection):
    """Keeps the bytes of the last answer."""

    def ask(self, words):
        self.send(*words)
        taken = []
        real = self.file

        class Tap:
            @staticmethod
            def readline():
                taken.append(real.readline())
                return taken[-1]

            @staticmethod
            def read(size):
                taken.append(real.read(size))
                return taken[-1]

        self.file = Tap
        try:
            self.read()
        finally:
            self.file = real
        return b"".join(taken)


def words_of(line):
    return ["" if word == "''" else word for word in line.split(" ")]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    assert shutil.which("redis-server"), "redis-server 7 is not installed"
    folder = tmp_path_factory.mktemp("parity")
    with RealRedis(folder / "redis") as redis, Server(folder / "once") as once:
        yield redis, once


def passed(line, expected, answer, took_s):
    """What is left of a time is less for who was asked later, or was slow: by no more than that."""
    left = [re.fullmatch(rb":(\d+)\r\n", said) for said in (expected, answer)]
    return (line.startswith("TTL ") and all(left)
            and 0 < int(left[0][1]) - int(left[1][1]) <= took_s + 1)


@pytest.mark.parametrize("protocol", [2, 3])
def test_same_commands_same_bytes(both, protocol):
    different = []
    redis, once = (Raw(server.port) for server in both)
    with redis, once:
        for connection in (redis, once):
            connection("FLUSHALL") if connection is redis else connection(
                "DEL", *{word for line in SAME for word in words_of(line)[1:2] if word})
            connection("HELLO", protocol)
        began = time.monotonic()
        for line in SAME:
            expected, answer = redis.ask(words_of(line)), once.ask(words_of(line))
            if expected != answer and not passed(line, expected, answer, time.monotonic() - began):
                different.append(f"{line}\n    redis {expected!r}\n    once  {answer!r}")
    assert not different, "\n".join(different)


@pytest.mark.parametrize("count", [1, 16, 17, 1000])
def test_many_keys_see_what_was_set_before_them(both, count):
    """Pipelined behind a SET, however many keys: few and many are read in different ways."""
    answers = []
    for server in both:
        with server.connect() as connection:
            for number in range(50):
                connection.send("SET", "pipelined", number)
                connection.send("MGET", *["pipelined", "missing"] * count)
                connection.send("EXISTS", *["pipelined", "missing"] * count)
                connection.send("DEL", "pipelined")
                connection.send("MGET", *["pipelined"] * count)
            answers.append([connection.read() for _ in range(50 * 5)])
    assert answers[0] == answers[1]


def test_times_left_agree_to_a_second(both):
    redis, once = (server.connect() for server in both)
    with redis, once:
        for connection in (redis, once):
            connection("SET", "k", "v", "PX", "90500")
        for command, slack in (("TTL", 1), ("PTTL", 1000)):
            a, b = redis(command, "k"), once(command, "k")
            assert abs(a - b) <= slack and b > 0, (command, a, b)


def test_commands_tell_of_themselves_alike(both):
    """Arity, keys and the kind of every command that both have."""
    redis, once = (server.connect() for server in both)
    with redis, once:
        names = [name for name in once("COMMAND", "LIST") if not name.startswith(b"once.")]
        ours, theirs = once("COMMAND", "INFO", *names), redis("COMMAND", "INFO", *names)
        kinds = {"readonly", "write"}
        for name, a, b in zip(names, ours, theirs):
            assert b is not None, name
            assert a[:2] == b[:2], name
            assert a[3:6] == b[3:6], name
            if name != b"dbsize":
                assert set(a[2]) & kinds == set(b[2]) & kinds, name
            assert len(a) == len(b) == 10
        assert len(once("COMMAND")) == once("COMMAND", "COUNT") == len(once("COMMAND", "LIST"))


def test_hello_has_what_clients_read(both):
    redis, once = (server.connect() for server in both)
    with redis, once:
        a, b = redis("HELLO", 3), once("HELLO", 3, "SETNAME", "me")
        assert set(a) <= set(b)
        assert {k: type(v) for k, v in a.items()} == {k: type(b[k]) for k in a}
        assert b["proto"] == 3 and b["id"] == once("CLIENT", "ID")
        assert once("CLIENT", "GETNAME") == b"me"


def test_info_has_what_clients_read(both):
    redis, once = (server.connect() for server in both)
    with redis, once:
        def fields(answer):
            return dict(line.split(":", 1) for line in answer.decode().split("\r\n") if ":" in line)

        a, b = fields(redis("INFO")), fields(once("INFO"))
        for name in ("redis_version", "redis_mode", "process_id", "run_id", "tcp_port",
                     "uptime_in_seconds", "connected_clients", "maxclients", "used_memory",
                     "used_memory_rss", "loading", "total_connections_received",
                     "total_commands_processed", "role", "connected_slaves", "used_cpu_sys"):
            assert name in a and name in b, name
        assert b["loading"] == "0" and b["role"] == "master"
        assert b["redis_version"].split(".")[0] == a["redis_version"].split(".")[0]
        assert b["tcp_port"] == str(both[1].port)
        assert int(b["connected_clients"]) >= 1
        assert "phase" not in fields(once("INFO", "clients", "server"))


def test_reference_page_is_the_binarys():
    done = subprocess.run([once_binary(), "serve", "--help-commands"], capture_output=True,
                          text=True, check=True)
    page = ROOT / "docs" / "reference" / "commands.md"
    assert done.stdout == page.read_text(), (
        "run `once serve --help-commands > docs/reference/commands.md`")
