# SPDX-License-Identifier: Apache-2.0
"""redis-cli, redis-benchmark and redis-py, as they are, against `once serve`."""
import re
import subprocess
import threading

import pytest
import redis

from serving import HOST, USERS, Server, certificates, run, users


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("clients")) as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """With users and TLS. `.plain` is a port without TLS."""
    folder = tmp_path_factory.mktemp("guarded")
    authority, certificate, key = certificates(folder)
    server = Server(folder, settings=f"tls_cert = {certificate}\ntls_key = {key}\n" + users())
    secure = Server(folder / "ports")  # only its two free ports are used
    server.options += ["--listen", f"tls://{HOST}:{secure.port}", "--http",
                       f"tls://{HOST}:{secure.http}"]
    server.tls, server.https, server.authority = secure.port, secure.http, str(authority)
    with server:
        yield server


def cli(server, *words, options=()):
    return run(["redis-cli", "-h", HOST, "-p", server.port, "--no-raw", *options, *words]).rstrip()


# ---- redis-cli ----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_cli_begin_complete_replay(server, protocol):
    key = f"order{protocol}"
    options = [protocol]
    begun = cli(server, "ONCE.BEGIN", "cli", key, "FP", "100 EUR", options=options).splitlines()
    fence = re.fullmatch(r"2\) \(integer\) (\d+)", begun[1])[1]
    assert [begun[0], *begun[2:]] == ["1) EXECUTE", "3) (integer) 1", "4) (nil)", "5) (nil)"]
    busy = cli(server, "ONCE.BEGIN", "cli", key, "FP", "100 EUR", options=options)
    assert re.fullmatch(r"1\) BUSY\n2\) \(integer\) \d+", busy)
    assert cli(server, "ONCE.COMPLETE", "cli", key, fence, 201, "ch_1", options=options) == "OK"
    again = cli(server, "ONCE.BEGIN", "cli", key, "FP", "100 EUR", options=options)
    assert again == '1) REPLAY\n2) (integer) 201\n3) "ch_1"'
    other = cli(server, "ONCE.BEGIN", "cli", key, "FP", "999 EUR", options=options)
    assert other == "1) MISMATCH"
    assert cli(server, "ONCE.COMPLETE", "cli", key, int(fence) + 99, 201, "x",
               options=options).startswith("(error) STALE")
    assert cli(server, "ONCE.COMPLETE", "cli", "none", 1, 201, "x",
               options=options).startswith("(error) NOTFOUND")


def test_cli_get_is_a_map_in_resp3(server):
    cli(server, "ONCE.BEGIN", "cli", "mapped", "OWNER", "me")
    shown = cli(server, "ONCE.GET", "cli", "mapped", options=["-3"])
    assert re.search(r'1# "?state"? => "?started"?', shown), shown
    flat = cli(server, "ONCE.GET", "cli", "mapped", options=["-2"]).splitlines()
    assert len(flat) == 2 * len(shown.splitlines())
    assert cli(server, "ONCE.GET", "cli", "absent") == "(nil)"


def test_cli_mass_insertion(server):
    """`redis-cli --pipe` ends when the echo of its own random bytes comes back."""
    commands = "".join(f"SET pipe:{i} {i}\r\n" for i in range(2000))
    done = subprocess.run(["redis-cli", "-p", str(server.port), "--pipe"], input=commands, text=True,
                          capture_output=True, timeout=60)
    assert "errors: 0, replies: 2000" in done.stdout, done.stdout + done.stderr
    assert cli(server, "MGET", "pipe:0", "pipe:1999") == '1) "0"\n2) "1999"'


def test_cli_inline_and_unknown(server):
    assert cli(server, "NO.SUCH.COMMAND").startswith("(error) ERR unknown command")
    assert cli(server, "ONCE.BEGIN", "cli").startswith("(error) ERR wrong number of arguments")
    assert "redis_version:" in cli(server, "INFO", options=["--raw"])
    assert int(cli(server, "COMMAND", "COUNT").split()[-1]) > 30


def test_cli_over_the_unix_socket(server):
    said = run(["redis-cli", "-s", server.socket_path, "--no-raw", "PING"]).rstrip()
    assert said == "PONG"


def test_cli_with_password_and_tls(guarded):
    options = ["-h", HOST, "-p", guarded.tls, "--tls", "--cacert", guarded.authority, "--no-raw"]
    refused = run(["redis-cli", *options, "ONCE.BEGIN", "pay", "t1"])
    assert refused.startswith("(error) NOAUTH")
    named = [*options, "--user", "alice", "--pass", USERS["alice"], "--no-auth-warning"]
    assert run(["redis-cli", *named, "ONCE.BEGIN", "pay", "t1"]).startswith("1) EXECUTE")
    assert run(["redis-cli", "-3", *named, "ONCE.BEGIN", "pay", "t1"]).startswith("1) BUSY")
    stranger = subprocess.run(["redis-cli", "-h", HOST, "-p", str(guarded.tls), "--tls", "PING"],
                              text=True, capture_output=True)
    assert stranger.returncode != 0, "a certificate of nobody we know was taken"


# ---- redis-benchmark ----------------------------------------------------------------------------


def benchmark(server, *words):
    said = run(["redis-benchmark", "-h", HOST, "-p", server.port, "--csv", *words])
    assert "rror" not in said and "WARN" not in said, said
    rows = re.findall(r'^"([^"]+)","([\d.]+)"', said, re.MULTILINE)
    return {name: float(rate) for name, rate in rows}


def test_benchmark_set_get(server):
    rates = benchmark(server, "-t", "set,get", "-n", 20000, "-P", 16, "-c", 50, "-r", 100000)
    assert set(rates) == {"SET", "GET"}
    print({name: f"{rate:.0f}/s" for name, rate in rates.items()})


def test_benchmark_begin(server):
    with server.connect() as c:
        before = records(c)
        rates = benchmark(server, "-n", 20000, "-P", 16, "-c", 50, "-r", 1000000000, "ONCE.BEGIN",
                          "bench", "key:__rand_int__")
        begun = records(c) - before
    print({name: f"{rate:.0f}/s" for name, rate in rates.items()})
    assert 19000 <= begun <= 20100, f"{begun} operations were begun by 20,000 random keys"


def records(connection):
    """Operations in namespace bench."""
    count, cursor = 0, b"0"
    while True:
        cursor, page = connection("ONCE.LIST", "bench", "CURSOR", cursor, "COUNT", 1000)
        count += len(page)
        if cursor == b"0":
            return count


# ---- redis-py -----------------------------------------------------------------------------------


@pytest.fixture
def py(server):
    with redis.Redis(host=HOST, port=server.port) as client:
        yield client


def test_py_begin_complete_replay(py):
    word, fence, attempt, point, data = py.execute_command("ONCE.BEGIN", "py", "a", "FP", b"\0\xff")
    assert (word, attempt, point, data) == (b"EXECUTE", 1, None, None)
    assert py.execute_command("ONCE.CHECKPOINT", "py", "a", fence, "charged", b"\0data") == b"OK"
    assert py.execute_command("ONCE.RENEW", "py", "a", fence, 60000) == b"OK"
    assert py.execute_command("ONCE.COMPLETE", "py", "a", fence, 201, b"\0result\r\n") == b"OK"
    assert py.execute_command("ONCE.COMPLETE", "py", "a", fence, 201, b"\0result\r\n") == b"OK"
    again = py.execute_command("ONCE.BEGIN", "py", "a", "FP", b"\0\xff")
    assert again == [b"REPLAY", 201, b"\0result\r\n"]
    assert py.execute_command("ONCE.BEGIN", "py", "a", "FP", b"other") == [b"MISMATCH"]
    with pytest.raises(redis.ResponseError, match="MISMATCH"):
        py.execute_command("ONCE.COMPLETE", "py", "a", fence, 500, "another answer")


def test_py_fail_and_doubt(py):
    fence = py.execute_command("ONCE.BEGIN", "py", "f")[1]
    assert py.execute_command("ONCE.FAIL", "py", "f", fence, "card declined") == b"OK"
    word, larger, attempt = py.execute_command("ONCE.BEGIN", "py", "f")[:3]
    assert word == b"EXECUTE" and larger > fence and attempt == 2
    with pytest.raises(redis.ResponseError, match="^STALE"):
        py.execute_command("ONCE.COMPLETE", "py", "f", fence, 200, "late")
    py.execute_command("ONCE.CHECKPOINT", "py", "f", larger, "sent", "42")
    py.execute_command("ONCE.RENEW", "py", "f", larger, 0)  # gives up, not knowing how it went
    assert py.execute_command("ONCE.BEGIN", "py", "f") == [b"DOUBT", larger, b"sent"]
    word, taken, attempt, point, data = py.execute_command("ONCE.BEGIN", "py", "f", "DOUBT", "RETRY")
    assert word == b"EXECUTE" and taken > larger and (point, data) == (b"sent", b"42")
    py.execute_command("ONCE.RENEW", "py", "f", taken, 0)
    assert py.execute_command("ONCE.RESOLVE", "py", "f", "DONE", 201, "ch_9") == b"OK"
    assert py.execute_command("ONCE.BEGIN", "py", "f") == [b"REPLAY", 201, b"ch_9"]


def test_py_same_owner_same_fence(py):
    first = py.execute_command("ONCE.BEGIN", "py", "o", "OWNER", "attempt-1")
    assert py.execute_command("ONCE.BEGIN", "py", "o", "OWNER", "attempt-1") == first
    assert py.execute_command("ONCE.BEGIN", "py", "o", "OWNER", "attempt-2")[0] == b"BUSY"


def test_py_wait_is_woken_by_complete(server, py):
    """The second is parked and gets the first one's answer, long before its WAIT is over."""
    fence = py.execute_command("ONCE.BEGIN", "py", "w")[1]
    got = []

    def wait():
        with redis.Redis(host=HOST, port=server.port) as other:
            got.append(other.execute_command("ONCE.BEGIN", "py", "w", "WAIT", 50000))

    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join(0.2)
    assert waiter.is_alive(), got
    py.execute_command("ONCE.COMPLETE", "py", "w", fence, 200, "there")
    waiter.join(40)
    assert got == [[b"REPLAY", 200, b"there"]]


def test_py_apply(py):
    words = ("ONCE.APPLY", "py", "apply-1", "DO", 3, "ADD", "acct:1", "100", "DO", 3, "UNION",
             "seen", "x")
    applied = py.execute_command(*words)
    assert applied[:2] == [b"APPLIED", 100]
    assert py.execute_command(*words) == [b"REPLAY", *applied[1:]]
    with pytest.raises(redis.ResponseError, match="^REJECTED 1 "):
        py.execute_command("ONCE.APPLY", "py", "apply-2", "DO", 5, "ADD", "acct:1", "-500", "MIN",
                           "0")
    assert py.execute_command("ONCE.APPLY", "py", "apply-1", "DO", 3, "ADD", "acct:1", "7"
                              ) == [b"MISMATCH"]


def test_py_values(py):
    assert py.set("claim", "mine", nx=True, ex=60) is True
    assert py.set("claim", "theirs", nx=True, ex=60) is None
    assert py.get("claim") == b"mine"
    assert 0 < py.ttl("claim") <= 60
    assert py.delete("claim") == 1
    assert py.mget("claim", "nothing") == [None, None]


def test_py_pipeline(py):
    with py.pipeline(transaction=False) as pipe:
        for i in range(500):
            pipe.execute_command("ONCE.BEGIN", "py", f"piped-{i}")
            pipe.set(f"piped-{i}", i, nx=True, ex=60)
            pipe.get(f"piped-{i}")
        answers = pipe.execute()
    assert [a[0] for a in answers[::3]] == [b"EXECUTE"] * 500
    assert answers[1::3] == [True] * 500
    assert answers[2::3] == [str(i).encode() for i in range(500)]
    fences = [a[1] for a in answers[::3]]
    assert fences == sorted(set(fences)), "fences of one connection's pipeline strictly increase"


def test_py_decode_and_pool(server):
    pool = redis.BlockingConnectionPool(host=HOST, port=server.port, max_connections=4,
                                        decode_responses=True, client_name="pooled",
                                        health_check_interval=1)
    client = redis.Redis(connection_pool=pool)
    verdicts = []

    def race():
        verdicts.append(client.execute_command("ONCE.BEGIN", "py", "raced")[0])

    threads = [threading.Thread(target=race) for _ in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert sorted(verdicts) == ["BUSY"] * 31 + ["EXECUTE"]
    pool.disconnect()


def test_py_transactions_are_refused_with_a_reason(py):
    """The words between them are commands like any other (docs/clients/redis.md says so)."""
    with pytest.raises(redis.ResponseError, match="(?i)unknown command.*(MULTI|EXEC)"):
        with py.pipeline() as pipe:
            pipe.set("multi", 1)
            pipe.execute()
    assert py.get("multi") == b"1"


def test_py_auth(guarded):
    with redis.Redis(host=HOST, port=guarded.port) as nobody:
        with pytest.raises(redis.AuthenticationError, match="(?i)auth"):
            nobody.get("x")
    with redis.Redis(host=HOST, port=guarded.port, username="alice", password="wrong") as wrong:
        with pytest.raises(redis.ResponseError, match="WRONGPASS|invalid username-password"):
            wrong.get("x")
    with redis.Redis(host=HOST, port=guarded.port, username="alice",
                     password=USERS["alice"]) as alice:
        assert alice.execute_command("ONCE.BEGIN", "pay", "auth")[0] == b"EXECUTE"
        with pytest.raises(redis.exceptions.NoPermissionError):
            alice.execute_command("ONCE.BEGIN", "payroll", "auth")
        with pytest.raises(redis.exceptions.NoPermissionError):
            alice.execute_command("ONCE.RESOLVE", "pay", "auth", "NOTDONE")
        assert alice.set("value", 1, ex=60)
    with redis.Redis(host=HOST, port=guarded.port, username="bob", password=USERS["bob"]) as bob:
        assert bob.execute_command("ONCE.GET", "pay", "auth") is not None
        with pytest.raises(redis.exceptions.NoPermissionError):
            bob.execute_command("ONCE.BEGIN", "pay", "another")
        assert bob.get("value") == b"1"
        with pytest.raises(redis.exceptions.NoPermissionError):
            bob.set("value", 2)
    assert USERS["alice"] not in guarded.log.read_text()


def test_py_tls(guarded):
    with redis.Redis(host=HOST, port=guarded.tls, ssl=True, ssl_ca_certs=guarded.authority,
                     username="alice", password=USERS["alice"]) as alice:
        assert alice.execute_command("ONCE.BEGIN", "pay", "tls")[0] == b"EXECUTE"
        large = bytes(range(256)) * 8000
        assert alice.set("large", large, ex=60)
        assert alice.get("large") == large
        with alice.pipeline(transaction=False) as pipe:
            for i in range(2000):
                pipe.echo(str(i))
            assert pipe.execute() == [str(i).encode() for i in range(2000)]
    with redis.Redis(host=HOST, port=guarded.tls, ssl=True) as untrusting:
        with pytest.raises(redis.ConnectionError, match="(?i)certificate"):
            untrusting.ping()
    with redis.Redis(host=HOST, port=guarded.tls, socket_timeout=5) as plain:
        with pytest.raises((redis.ConnectionError, redis.TimeoutError, redis.ResponseError)):
            plain.ping()
