# SPDX-License-Identifier: Apache-2.0
"""`once call` against receivers that misbehave (misbehaving.py): one effect, one answer, the same
bytes and the same key on the wire, whatever is lost. Kills are in test_call_kill.py."""
import json
import os
import shlex
import shutil
import ssl
import subprocess
import time

import pytest

from misbehaving import HOST, MISBEHAVIOURS, Receiver, answer, status
from serving import certificates, once_binary


class Caller:
    """`once call` with a store of its own."""

    def __init__(self, folder, **environment):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("ONCE_") and name.lower() != "http_proxy"}
        self.environment.update(environment, ONCE_DIR=str(folder), LC_ALL="C.UTF-8")

    def start(self, *words, **options):
        return subprocess.Popen([once_binary(), "call", *map(str, words)], env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                **{"stdin": subprocess.DEVNULL, **options})

    def __call__(self, *words, stdin=b"", **environment):
        return subprocess.run([once_binary(), "call", *map(str, words)], input=stdin,
                              env={**self.environment, **environment}, capture_output=True,
                              timeout=60)

    def json(self, *words):
        done = self(*words, "--json")
        found = json.loads(done.stdout)
        assert found["exit_status"] == done.returncode
        return found


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("call") / "store"
    yield Caller(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def key(request):
    """Each test has keys of its own."""
    return request.node.name.replace("[", "-").replace("]", "")


def quoted(key):
    return f'"{key}"'


def assert_once(receiver, key):
    assert receiver.effects[quoted(key)] == 1
    assert receiver.keys == {quoted(key)}
    assert len(receiver.wires) == 1, "every attempt sent the same bytes"


# ---- Losses ----


@pytest.mark.parametrize("trouble", ["lose answer", "lose request", "cut", "500", "503", "502 worked",
                                     "408", "409", "425", "429"])
def test_every_second_attempt_is_lost(call, key, trouble):
    with Receiver([trouble, trouble, "ok"]) as receiver:
        done = call("POST", receiver.url, "--key", key, "-d", '{"amount":100}')
        assert (done.returncode, done.stdout) == (0, receiver.answers[quoted(key)]), done.stderr
        assert len(receiver.requests) == 3
        assert_once(receiver, key)
        first = receiver.requests[0]
        assert first.get("Content-Type") == "application/json"
        again = call("POST", receiver.url, "--key", key, "-d", '{"amount":100}')
        assert (again.returncode, again.stdout) == (0, done.stdout)
        assert again.stderr.startswith(b"once call: replayed: ")
        assert len(receiver.requests) == 3, "a replay sends nothing"


def test_receiver_loses_every_second_answer_and_restarts(call, key):
    """Several callers at once, while the receiver is switched off and on again."""
    receiver = Receiver()
    receiver.script = [lambda r, c, q: (r.work(q) if len(r.requests) % 2 else
                                        c.sendall(answer(201, r.work(q))))]
    receiver.start()
    keys = [f"{key}-{i}" for i in range(6)]
    running = [call.start("POST", receiver.url, "--key", k, "-d", k, "--retries", "100") for k in keys]
    for _ in range(5):
        count = len(receiver.requests)
        receiver.stop()
        receiver.start()
        if all(process.poll() is not None for process in running):
            break
        receiver.wait_for(lambda r, n=count: len(r.requests) > n
                          or all(p.poll() is not None for p in running))
    for k, process in zip(keys, running):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out == receiver.answers[quoted(k)], "the first answer, and whole"
    receiver.stop()
    assert receiver.effects == {quoted(k): 1 for k in keys}
    for k in keys:
        assert len({r.wire for r in receiver.requests if r.key == quoted(k)}) == 1
    assert len(receiver.requests) > len(keys)


def test_no_answer_in_time_is_in_doubt_and_resumed(call, key):
    with Receiver(["hang"]) as receiver:
        done = call("POST", receiver.url, "--key", key, "-d", "x", "--timeout", "1s",
                    "--retries", "1")
        assert done.returncode == 76
        receiver.wait_for(lambda r: len(r.requests) == 2)
        assert f"once call --resume '{key}'".encode() in done.stderr
        told = call("POST", receiver.url, "--key", key, "-d", "x")
        assert told.returncode == 76 and len(receiver.requests) == 2, "a doubt is not sent again"
        receiver.script = ["ok"]
        resumed = call("--resume", key)
        assert (resumed.returncode, resumed.stdout) == (0, receiver.answers[quoted(key)])
        assert_once(receiver, key)


def test_on_doubt_retry_is_a_resume(call, key):
    with Receiver(["hang", "ok"]) as receiver:
        arguments = ["POST", receiver.url, "--key", key, "-d", "x"]
        assert call(*arguments, "--timeout", "1s", "--retries", "0").returncode == 76
        receiver.wait_for(lambda r: r.effects)
        assert call(*arguments, "--on-doubt", "retry").returncode == 0
        assert_once(receiver, key)


def test_deadline_ends_it(call, key):
    with Receiver(["503"]) as receiver:
        begun = time.monotonic()
        done = call("POST", receiver.url, "--key", key, "--deadline", "2s", "--retries", "900")
        assert done.returncode == 76 and time.monotonic() - begun < 30
        assert call.json("--resume", key, "--retries", "0")["verdict"] == "DOUBT"


# ---- When to come back ----


@pytest.mark.parametrize("trouble", ["503 in 1 s", "later"])
def test_retry_after_is_honoured(call, key, trouble):
    times = []
    with Receiver([trouble, "ok"]) as receiver:
        script = receiver.script
        receiver.script = [lambda r, c, q, s=s: (times.append(time.monotonic()),
                                                 MISBEHAVIOURS[s](r, c, q)) for s in script]
        assert call("POST", receiver.url, "--key", key).returncode == 0
        assert times[1] - times[0] >= 0.9
        assert_once(receiver, key)


def test_retry_after_behind_the_deadline_is_not_waited_for(call, key):
    with Receiver([status(503, "Retry-After: 3600")]) as receiver:
        begun = time.monotonic()
        done = call("POST", receiver.url, "--key", key, "--deadline", "30s")
        assert done.returncode == 76 and time.monotonic() - begun < 25
        assert len(receiver.requests) == 1


@pytest.mark.parametrize("trouble", ["doubt", "409 blanks"])
def test_a_gateway_in_doubt_is_not_asked_again(call, key, trouble):
    blanks = status(409, "X-Should-Retry: \tfalse \t")
    with Receiver([blanks if trouble == "409 blanks" else trouble]) as receiver:
        found = call.json("POST", receiver.url, "--key", key)
        assert (found["verdict"], found["status"], found["exit_status"]) == ("DOUBT", 409, 76)
        assert len(receiver.requests) == 1


# ---- Final answers ----


@pytest.mark.parametrize("number,code", [(200, 0), (204, 0), (302, 0), (307, 0), (400, 1), (404, 1),
                                         (422, 1)])
def test_final_answers_are_kept(call, key, number, code):
    step = status(number, "Location: /elsewhere") if number != 204 else status(204)
    with Receiver([step]) as receiver:
        for _ in range(2):
            assert call("POST", receiver.url, "--key", key).returncode == code
        assert len(receiver.requests) == 1 and receiver.requests[0].target == "/charges"


def test_final_by_choice(call, key):
    with Receiver(["409"]) as receiver:
        for _ in range(2):
            assert call("POST", receiver.url, "--key", key, "--final", "409,501").returncode == 1
        assert len(receiver.requests) == 1


def test_changed_request_is_a_mismatch(call, key):
    with Receiver() as receiver:
        same = ["--key", key, "-d", "one", "-H", "X-A: 1"]
        assert call("POST", receiver.url, *same).returncode == 0
        changed = [("PUT", receiver.url, *same), ("POST", receiver.url + "?x", *same),
                   ("POST", receiver.url, "--key", key, "-d", "two", "-H", "X-A: 1"),
                   ("POST", receiver.url, "--key", key, "-d", "one", "-H", "X-A: 2"),
                   ("POST", receiver.url, *same, "--bare-key")]
        for words in changed:
            assert call.json(*words)["verdict"] == "MISMATCH"
        assert len(receiver.requests) == 1


def test_nobody_listens_fails_and_frees_the_key(call, key):
    receiver = Receiver().start()
    receiver.stop()
    for _ in range(2):
        found = call.json("POST", receiver.url, "--key", key, "--retries", "1")
        assert (found["verdict"], found["sent"], found["exit_status"]) == ("FAILED", 0, 69)
    with receiver:
        assert call("POST", receiver.url, "--key", key).returncode == 0
        assert_once(receiver, key)


# ---- What is sent ----


def test_key_forms(call, key):
    with Receiver() as receiver:
        assert call("POST", receiver.url, "--key", key + "-bare", "--bare-key").returncode == 0
        assert call("POST", receiver.url, "--key", key + ' "\\', "--key-header", "X-Key").returncode == 0
        bare, named = receiver.requests
        assert bare.key == key + "-bare"
        assert named.key is None and named.get("X-Key") == f'"{key} \\"\\\\"'
        made = call.json("POST", receiver.url)
        assert receiver.requests[2].key == quoted(made["key"]) and made["key"][14] == "7"
        assert call("POST", receiver.url, "--bare-key", "--key", "a b").returncode == 64


def test_bodies(call, key, tmp_path):
    file = tmp_path / "body"
    with Receiver() as receiver:
        bodies = [b"", b"text", b'[1, 2]', bytes(range(256)) * 10]
        for i, body in enumerate(bodies):
            file.write_bytes(body)
            for how, extra in (("@-", {"stdin": body}), (f"@{file}", {})):
                done = call("PUT", receiver.url, "--key", f"{key}-{i}", "--data", how, **extra)
                assert done.returncode == 0, done.stderr
            assert receiver.requests[-1].body == body
            kind = "application/json" if body == b"[1, 2]" else "application/octet-stream"
            assert receiver.requests[-1].all("Content-Type") == [kind]
            assert len(receiver.requests) == i + 1, "the same bytes are the same request"
        assert call("GET", receiver.url, "--key", key + "-get").returncode == 0
        assert receiver.requests[-1].get("Content-Type") is None
        assert call("POST", receiver.url, "--key", key + "-typed", "-d", "{}", "-H",
                    "content-type: text/x; y=z", "-H", "X-Empty:").returncode == 0
        assert receiver.requests[-1].all("Content-Type") == ["text/x; y=z"]
        assert receiver.requests[-1].get("X-Empty") == ""


def test_large_file_must_be_the_same_for_a_resume(call, key, tmp_path):
    file = tmp_path / "large"
    body = os.urandom(3 << 20)
    file.write_bytes(body)
    with Receiver(["lose answer"]) as receiver:
        done = call("PUT", receiver.url, "--key", key, "-d", f"@{file}", "--retries", "0")
        assert done.returncode == 76, done.stderr
        file.write_bytes(body[:-1] + b"?" if body[-1:] != b"?" else body[:-1] + b"!")
        refused = call("--resume", key)
        assert refused.returncode == 64 and b"changed" in refused.stderr
        assert len(receiver.requests) == 1, "another request is not sent under this key"
        file.write_bytes(body)
        receiver.script = ["ok"]
        assert call("--resume", key).returncode == 0
        assert receiver.requests[1].body == body
        assert_once(receiver, key)
        # Bytes that cannot be read again are refused before anything is sent.
        assert call("PUT", receiver.url, "--data", "@-", stdin=body).returncode == 64


def test_secrets_are_sent_and_never_kept(call, key):
    secret = "sesame-7d1f"
    with Receiver(["503", "hang", "ok"]) as receiver:
        done = call("POST", receiver.url, "--key", key, "--secret-header",
                    "Authorization: Bearer $TOKEN", "--timeout", "1s", "--retries", "1",
                    TOKEN=secret)
        assert done.returncode == 76
        receiver.wait_for(lambda r: r.effects)
        without = call("--resume", key)
        assert without.returncode == 64 and b"$TOKEN" in without.stderr
        assert len(receiver.requests) == 2
        resumed = call("--resume", key, "--json", TOKEN=secret)
        assert resumed.returncode == 0
        assert {r.get("Authorization") for r in receiver.requests} == {f"Bearer {secret}"}
        assert_once(receiver, key)
    for text in (done.stderr, resumed.stdout, resumed.stderr):
        assert secret.encode() not in text
    kept = subprocess.run(["grep", "-rlF", "Bearer $TOKEN", call.folder], capture_output=True)
    assert kept.stdout, "the text that names the variable is kept"
    found = subprocess.run(["grep", "-rlF", secret, call.folder], capture_output=True)
    assert (found.returncode, found.stdout) == (1, b"")


# ---- What is told ----


def test_cookies_in_two_lines_and_trailers(call, key):
    """Of a cookie nothing is kept, however it is written; a trailer is no header."""
    def folded(receiver, connection, request):
        receiver.work(request)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Two: one\r\n \t two\r\nSet-Cookie: a=b;\r\n"
                           b" session=FOLDEDCOOKIE\r\nTransfer-Encoding: chunked\r\n\r\n"
                           b"0\r\nX-Trailer: 1\r\n\r\n")

    with Receiver([folded]) as receiver:
        first = call.json("POST", receiver.url, "--key", key)
        assert first["headers"][:2] == ["X-Two: one two", "Set-Cookie: a=b; session=FOLDEDCOOKIE"]
        assert "X-Trailer: 1" not in first["headers"]
        again = call.json("POST", receiver.url, "--key", key)
        assert (again["verdict"], again["headers"][0]) == ("REPLAY", "X-Two: one two")
        assert len(again["headers"]) == 2
    for file in call.folder.iterdir():
        assert not file.is_file() or b"FOLDEDCOOKIE" not in file.read_bytes(), file


def test_commands_to_type_are_safe_to_type(call, tmp_path):
    """A key is anybody's text: in quotes, whole, whatever is in it."""
    with Receiver(["503"]) as receiver:
        for key in ("it's; touch pwned; '", "k" * 255, "'" * 255):
            done = call("POST", receiver.url, "--retries", 0, "--key", key)
            assert done.returncode == 76
            command = done.stderr.decode().split("go on with: ")[1].strip()
            assert shlex.split(command) == ["once", "call", "--resume", key]


def test_outputs(call, key, tmp_path):
    big = b"0123456789" * 300_000
    file = tmp_path / "out"
    with Receiver([lambda r, c, q: c.sendall(answer(200, big, ["X-One: 1"]))]) as receiver:
        first = call("POST", receiver.url, "--key", key, "--output", file)
        assert first.returncode == 0 and first.stdout == b"" and file.read_bytes() == big
        again = call("POST", receiver.url, "--key", key, "-i")
        head, body = again.stdout.split(b"\n\n", 1)
        assert head.startswith(b"HTTP 200\n") and b"X-One: 1" in head
        assert body == big[: 1 << 20]
        assert f"{len(big) - (1 << 20)} bytes of its body were not kept".encode() in again.stderr
        all_of_it = call("POST", receiver.url, "--key", key + "-all", "--output-max", 15 << 20)
        assert all_of_it.stdout == big
        assert call("POST", receiver.url, "--key", key + "-all").stdout == big
        found = call.json("POST", receiver.url, "--key", key + "-all")
        assert found["verdict"] == "REPLAY" and found["body"].encode() == big
        quiet = call("POST", receiver.url, "--key", key, "--quiet")
        assert quiet.stderr == b""
        unwritable = call("POST", receiver.url, "--key", key, "-o", tmp_path / "no" / "where")
        assert unwritable.returncode == 71 and b"is kept" in unwritable.stderr


@pytest.mark.parametrize("words,why", [
    ([], "which method"), (["POST"], "which method"), (["POST", "http://h/", "x"], "too many"),
    (["post", "http://h/"], "upper case"), (["POST", "ftp://h/"], "http://"),
    (["POST", "http://me:hunter2@h/"], "user or a password"), (["POST", "http://h/", "-H", "x"], "Name"),
    (["POST", "http://h/", "-H", "Authorization: Basic hunter2"], "secret"),
    (["POST", "http://h/", "--retries", "-1"], "--retries"), (["--all", "POST", "http://h/"], "--resume"),
    (["POST", "http://h/", "--key", "caf\u00e9"], "key"), (["--resume"], "which call"),
    (["--resume", "--all", "x"], "no key"), (["--resume", "x", "-d", "y"], "was kept"),
    (["POST", "http://h/", "--final", "200"], "--final"), (["POST", "http://h/", "-d", "@/no/file"], "file"),
    (["POST", "http://h/", "--timeout", "5"], "--timeout"), (["POST", "http://h/", "-n", "a b"], "namespace"),
])
def test_mistakes_are_named_and_make_nothing(tmp_path, words, why):
    call = Caller(tmp_path / "none")
    done = call(*words)
    assert done.returncode == 64 and why.encode() in done.stderr, done.stderr
    assert b"hunter2" not in done.stderr
    assert not (tmp_path / "none").exists()
    assert json.loads(call(*words, "--json").stdout)["exit_status"] == 64


def test_no_store_to_resume_from(tmp_path):
    call = Caller(tmp_path / "none")
    assert call("--resume", "x").returncode == 66
    assert call("--resume", "--all").returncode == 66
    assert not (tmp_path / "none").exists()


# ---- TLS ----


def test_tls_is_verified(call, key, tmp_path):
    authority, certificate, private = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    with Receiver() as receiver:
        plain = receiver.serve
        def serve(connection):
            try:
                plain(context.wrap_socket(connection, server_side=True))
            except OSError:
                connection.close()
        receiver.serve = serve
        url = f"https://{HOST}:{receiver.port}/charges"
        unknown = call.json("POST", url, "--key", key)
        assert (unknown["verdict"], unknown["sent"], unknown["attempts"]) == ("FAILED", 0, 1), unknown
        assert call("POST", url, "--key", key, "--cacert", authority).returncode == 0
        assert_once(receiver, key)


# ---- Many at once ----


def test_busy_and_wait(call, key):
    with Receiver(["held"]) as receiver:
        words = ["POST", receiver.url, "--key", key, "--lease", "3s"]
        first = call.start(*words)
        receiver.wait_for(lambda r: len(r.requests) == 1)
        # The lease is renewed while the answer is waited for: it outlives itself.
        end = time.monotonic() + 4
        while time.monotonic() < end:
            assert call(*words).returncode == 75
        waiting = [call.start(*words, "--wait", "30s") for _ in range(3)]
        other = Receiver().start()
        assert call("POST", other.url, "--key", key + "-other").returncode == 0, "the folder is free"
        other.stop()
        receiver.gate.set()
        outs = [process.communicate(timeout=60) for process in (first, *waiting)]
        assert {process.returncode for process in (first, *waiting)} == {0}
        assert {out for out, _ in outs} == {receiver.answers[quoted(key)]}
        assert len(receiver.requests) == 1


def test_twenty_shells_one_effect(call, key):
    with Receiver(["lose answer", "503", "ok"]) as receiver:
        running = [call.start("POST", receiver.url, "--key", key, "--wait", "40s") for _ in range(20)]
        outs = {process.communicate(timeout=60)[0] for process in running}
        assert {process.returncode for process in running} == {0}
        assert outs == {receiver.answers[quoted(key)]}
        assert_once(receiver, key)
        assert len(receiver.requests) == 3


def test_resume_all(tmp_path):
    call = Caller(tmp_path / "store")
    try:
        with Receiver(["lose answer"]) as receiver:
            for k in "abc":
                call("POST", receiver.url, "--key", k, "--retries", "0")
            receiver.script = ["ok"]
            assert call("POST", receiver.url, "--key", "done").returncode == 0
            done = call("--resume", "--all")
            assert done.returncode == 0, done.stderr
            assert sorted(done.stdout.split(b"\n")) == [b"", *(f"{k}  201  answered".encode() for k in "abc")]
            assert receiver.effects == {quoted(k): 1 for k in ("a", "b", "c", "done")}
            assert len(receiver.requests) == 7
            none = call("--resume", "--all")
            assert none.returncode == 0 and none.stdout == b""
    finally:
        shutil.rmtree(call.folder, ignore_errors=True)
