# SPDX-License-Identifier: Apache-2.0
"""GET, SET and their kin answer as Redis does, down to the kind of every element.

The model is a real redis-server: the same commands go to both, one after the other, and the answers
are compared. Texts of errors are ours; their first word is the same. ONCE_SEED=n plays another
random sequence.
"""
import os
import random
import time

import pytest

from serving import Connection, Error, RealRedis, Server, pack

TTLS = {"TTL": 1, "PTTL": 1500}  # two servers are not asked at the same instant


class Recorder(Connection):
    """Remembers the first byte of every element: `$-1` and `*-1` are not the same to a client."""

    def __init__(self, port):
        super().__init__(port)
        self.kinds = []

    def line(self):
        line = super().line()
        self.kinds.append(line[:2] if line[1:2] == b"-" else line[:1])
        return line

    def ask(self, words):
        self.kinds = []
        self.send(*words)
        return self.read(), list(self.kinds)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("values")
    with RealRedis(folder / "redis") as redis, Server(folder / "once") as once:
        yield redis, once


def compare(words, model, ours):
    (want, want_kinds), (got, got_kinds) = model, ours
    where = f"{' '.join(map(str, words))}\nRedis: {want!r}\nOnce:  {got!r}"
    if isinstance(want, Error):
        assert isinstance(got, Error), where
        assert got.code == want.code, where
        return
    if words[0] in TTLS and isinstance(want, int) and want > 0:
        assert isinstance(got, int) and abs(got - want) <= TTLS[words[0]], where
        return
    assert got == want and type(got) is type(want), where
    assert got_kinds == want_kinds, f"{where}\nkinds: {want_kinds} {got_kinds}"


class Pair:
    """One connection to each; every command is compared."""

    def __init__(self, both):
        self.redis, self.once = (Recorder(server.port) for server in both)

    def __call__(self, *words):
        model = self.redis.ask(words)
        compare(words, model, self.once.ask(words))
        return model[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.redis.close()
        self.once.close()


@pytest.fixture
def pair(both):
    with Pair(both) as pair:
        yield pair


def test_set_and_get(pair):
    assert pair("SET", "a", "1") == "OK"
    assert pair("GET", "a") == b"1"
    assert pair("GET", "a-none") is None
    pair("SET", "a", b"\0\xff\r\n binary")
    assert pair("GET", "a") == b"\0\xff\r\n binary"
    pair("SET", "a", "")
    assert pair("GET", "a") == b""
    assert pair("get", "a") == b""
    assert pair("SET", "a-large", b"x" * 100_000) == "OK"
    assert len(pair("GET", "a-large")) == 100_000


def test_set_nx_is_a_claim(pair):
    assert pair("SET", "nx", "mine", "NX", "EX", 60) == "OK"
    assert pair("SET", "nx", "theirs", "NX", "EX", 60) is None
    assert pair("SET", "nx", "theirs", "EX", 60, "NX") is None
    assert pair("GET", "nx") == b"mine"
    assert pair("SETNX", "nx", "theirs") == 0
    assert pair("SETNX", "nx-other", "mine") == 1
    assert pair("TTL", "nx-other") == -1
    assert pair("SET", "xx", "v", "XX") is None
    assert pair("SET", "nx", "v", "XX") == "OK"
    assert pair("TTL", "nx") == -1


def test_set_get_gives_the_old_value(pair):
    assert pair("SET", "old", "1", "GET") is None
    assert pair("SET", "old", "2", "GET") == b"1"
    assert pair("SET", "old", "3", "NX", "GET") == b"2"
    assert pair("GET", "old") == b"2"
    assert pair("SET", "old-none", "3", "XX", "GET") is None
    assert pair("SET", "old-new", "3", "NX", "GET") is None
    assert pair("GET", "old-new") == b"3"


def test_times_to_live(pair):
    now = int(time.time())
    assert pair("TTL", "t-none") == -2
    assert pair("PTTL", "t-none") == -2
    pair("SET", "t", "v")
    assert pair("TTL", "t") == -1
    assert pair("PTTL", "t") == -1
    assert pair("EXPIRE", "t", 100) == 1
    assert 98 <= pair("TTL", "t") <= 100
    pair("PTTL", "t")
    assert pair("PEXPIRE", "t", 50_000) == 1
    assert 48 <= pair("TTL", "t") <= 50
    assert pair("EXPIRE", "t-none", 100) == 0
    pair("SET", "t", "w", "KEEPTTL")
    assert pair("TTL", "t") > 0
    pair("SET", "t", "w")
    assert pair("TTL", "t") == -1
    pair("SET", "t", "w", "PX", 90_000)
    pair("TTL", "t")
    pair("SET", "t", "w", "EXAT", now + 1000)
    pair("TTL", "t")
    pair("SET", "t", "w", "PXAT", (now + 2000) * 1000)
    pair("TTL", "t")
    assert pair("SETEX", "t", 300, "v") == "OK"
    pair("TTL", "t")


def test_what_expired_is_absent(pair):
    pair("SET", "e", "v", "PX", 60)
    pair("SET", "e-stays", "v", "PX", 60_000)
    time.sleep(0.1)  # this is about time
    assert pair("GET", "e") is None
    assert pair("EXISTS", "e") == 0
    assert pair("TTL", "e") == -2
    assert pair("DEL", "e") == 0
    assert pair("SET", "e", "again", "NX", "PX", 60_000) == "OK"
    pair("SET", "e", "v")
    assert pair("EXPIRE", "e", -1) == 1
    assert pair("EXISTS", "e") == 0
    pair("SET", "e", "v")
    assert pair("PEXPIRE", "e", 0) == 1
    assert pair("GET", "e") is None
    assert pair("SET", "e-past", "v", "EXAT", 1) == "OK"
    assert pair("GET", "e-past") is None
    assert pair("GET", "e-stays") == b"v"


def test_del_exists_mget(pair):
    for key in ("d1", "d2", "d3"):
        pair("SET", key, key)
    assert pair("EXISTS", "d1", "d2", "d-none", "d1") == 3
    assert pair("MGET", "d1", "d-none", "d3") == [b"d1", None, b"d3"]
    assert pair("DEL", "d1", "d-none", "d2", "d1") == 2
    assert pair("UNLINK", "d3") == 1
    assert pair("MGET", "d1", "d2", "d3") == [None] * 3


@pytest.mark.parametrize("words", [
    ("SET", "k"), ("SET",), ("GET",), ("GET", "k", "k"), ("SETEX", "k", "v"), ("MGET",), ("DEL",),
    ("SET", "k", "v", "NX", "XX"), ("SET", "k", "v", "EX"), ("SET", "k", "v", "EX", "x"),
    ("SET", "k", "v", "EX", 0), ("SET", "k", "v", "EX", -5), ("SET", "k", "v", "PX", 0),
    ("SET", "k", "v", "EX", 10, "PX", 10), ("SET", "k", "v", "EX", 10, "KEEPTTL"),
    ("SET", "k", "v", "BADWORD"), ("SETEX", "k", 0, "v"), ("SETEX", "k", -1, "v"),
    ("SETEX", "k", "x", "v"), ("EXPIRE", "k"), ("EXPIRE", "k", "x"), ("EXPIRE", "k", 1.5),
    ("SET", "k", "v", "EX", 9223372036854775807), ("EXPIRE", "k", 9223372036854775807),
    ("SET", "k", "v", "EXAT", 0), ("NOSUCHCOMMAND", "a"), ("CLIENT", "NOSUCH"), ("ECHO",),
    ("SELECT", "x"), ("SELECT", 99999), ("HELLO", 9), ("HELLO", "x"), ("AUTH",),
], ids=lambda words: "_".join(map(str, words)).replace("9223372036854775807", "huge"))
def test_bad_arguments(pair, words):
    pair("SET", "k", "before")
    assert isinstance(pair(*words), Error)
    assert pair("GET", "k") == b"before"


def test_connection_commands(pair):
    assert pair("PING") == "PONG"
    assert pair("PING", "hello") == b"hello"
    assert pair("ECHO", "hello") == b"hello"
    assert pair("SELECT", 0) == "OK"
    assert pair("CLIENT", "SETNAME", "tester") == "OK"
    assert pair("CLIENT", "GETNAME") == b"tester"
    pair("RESET")
    assert pair("QUIT") == "OK"


def test_resp3(both):
    with Pair(both) as pair:
        for connection in (pair.redis, pair.once):
            hello = connection.ask(("HELLO", 3))[0]
            assert hello["proto"] == 3
            assert {"server", "version", "proto", "id", "mode", "role", "modules"} <= set(hello)
        assert pair("GET", "r3-none") is None
        assert pair("SET", "r3", "v", "NX") == "OK"
        assert pair("SET", "r3", "v", "NX") is None
        assert pair("MGET", "r3", "r3-none") == [b"v", None]
        assert pair("TTL", "r3-none") == -2
        assert pair("DEL", "r3") == 1
        pair("NOSUCHCOMMAND")


def option(rng):
    now = int(time.time())
    return rng.choice([(), (), ("NX",), ("XX",), ("GET",), ("NX", "GET"), ("XX", "GET"), ("KEEPTTL",),
                       ("EX", rng.randint(50, 5000)), ("PX", rng.randint(50_000, 5_000_000)),
                       ("EXAT", now + rng.randint(50, 5000)), ("NX", "EX", rng.randint(50, 5000)),
                       ("XX", "KEEPTTL"), ("PXAT", (now + rng.randint(50, 5000)) * 1000, "GET")])


def command(rng, keys):
    key, value = rng.choice(keys), str(rng.randrange(1000))
    some = rng.choices(keys, k=rng.randint(1, 4))
    return rng.choice([
        ("SET", key, value, *option(rng)), ("SET", key, value, *option(rng)),
        ("SETNX", key, value), ("SETEX", key, rng.randint(50, 5000), value), ("GET", key),
        ("MGET", *some), ("DEL", *some), ("UNLINK", key), ("EXISTS", *some), ("TTL", key),
        ("PTTL", key), ("EXPIRE", key, rng.choice([-1, 0, 60, 600])),
        ("PEXPIRE", key, rng.choice([0, 60_000, 600_000]))])


def test_random_sequences_answer_alike(both):
    seed = int(os.environ.get("ONCE_SEED", "1"))
    rng = random.Random(seed)
    with Pair(both) as pair:
        for step in range(3000):
            words = command(rng, [f"r{seed}-{i}" for i in range(8)])
            try:
                pair(*words)
            except AssertionError as error:
                raise AssertionError(f"ONCE_SEED={seed}, step {step}: {error}") from None


def test_pipelined_answers_come_in_order(both):
    """Reads, writes and commands that need no store, mixed in one pipeline."""
    rng = random.Random(7)
    commands = []
    for i in range(3000):
        commands.append(rng.choice([("ECHO", i), ("PING", i), command(rng, ["p1", "p2", "p3"])]))
    answers = []
    for server in both:
        with Recorder(server.port) as c:
            c.socket.sendall(b"".join(pack(*w) for w in commands))
            found = []
            for _ in commands:
                c.kinds = []
                found.append((c.read(), list(c.kinds)))
            answers.append(found)
    for words, model, ours in zip(commands, *answers):
        compare(words, model, ours)
