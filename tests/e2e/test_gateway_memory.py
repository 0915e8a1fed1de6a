# SPDX-License-Identifier: Apache-2.0
"""Memory of the gateway: every kind of request, with what may go wrong around it, through an nginx
under valgrind. No error, and nothing that the module has forgotten to free when a worker ends.

ONCE_MEMORY_ROUNDS: how often all of it is done (1; `make soak` does more). ONCE_NGINX, where it is
set, is an nginx that checks itself (scripts/nginx_asan.sh) and is not run under valgrind; what it
has to say is in the folder `reports` beside it.
"""
import os
import re
import shutil
from pathlib import Path

import pytest
from gateway_raw import Client, Later, curl, start, wait_state
from gateway_tools import alive, nginx_path, stack
from serving import HOST, free_port, wait_for

ROUNDS = int(os.environ.get("ONCE_MEMORY_ROUNDS", "1"))
SUPPRESSIONS = Path(__file__).with_name("nginx.supp")
DIED = r"runtime error|exited on signal|exited with code [1-9]"
SAME = 12  # requests with one key at once
BIG = 9 << 20

LOCATIONS = {
    "/": "once on; proxy_read_timeout 60s;",
    "/require/": "once require; once_scope $http_authorization;",
    "/json/": "once on; once_fingerprint json X-Version;",
    "/wait/": "once on; once_wait 60s;",
    "/stripe/": "once require; once_profile stripe;",
    "/short/": "once on; proxy_read_timeout 200ms;",
    "/renew/": "once on; once_lease 3s;",
    "/retry/": "once on; once_doubt retry;",
    "/small/": "once on; once_max_body 1k; client_body_buffer_size 128;",
    "/file/": "once on; client_body_buffer_size 1k; client_max_body_size 4m;",
    "/direct/": "once on; proxy_buffering off; proxy_request_buffering off;",
    "/packed/": "once on; gzip on; gzip_types application/json; gzip_min_length 1;",
    "/pages/": "once on; proxy_intercept_errors on; error_page 404 500 502 = @other;",
    "@other": "proxy_set_header X-Do ok; proxy_pass http://behind;",
    "/open/": "once on; once_fail open;",
}
HTTP2 = "location / { once on; proxy_pass http://behind; }"


# ---- What is driven ------------------------------------------------------------------------------

class Load:
    """Each method is a kind of request; a key is new for each round and use."""

    def __init__(self, s, number):
        self.s, self.number, self.used = s, number, 0

    def key(self):
        self.used += 1
        return f"m-{self.number}-{self.used}"

    def post(self, path, key=None, body=b"{}", status=201, **options):
        answer = self.s.gateway.post(path, key or self.key(), body, **options)
        assert answer.status == status, (path, options, answer)
        return answer

    def verdicts(self):
        for path in ("/", "/require/", "/json/", "/stripe/", "/file/", "/direct/", "/packed/"):
            key = self.key()
            body = b'{"a":[1,2,{"b":"c"}]}' * (1 if path == "/json/" else 200)
            first = self.post(path, key, body)
            again = self.post(path, key, body)
            assert again.replayed and again.body == first.body, path
            self.post(path, key, b"other", status=400 if path == "/stripe/" else 422)
        for bad in ('"open', "", "a b", "x" * 256):
            self.post("/", bad or '""', status=400)
        assert self.s.gateway.post("/require/", None, b"{}").status == 400
        assert self.s.gateway.post("/", None, b"{}").status == 201
        self.post("/small/", body=b"x" * 4096, status=413)

    def answers(self):
        for do in ("ok", "chunked", "gzip", "old", "bye", "empty,status=204", "status=404",
                   "slow=0.01", "header=X-A:b,header=Set-Cookie:c=d", "big=300000",
                   "big=300000,chunked", "big=0"):
            key = self.key()
            first = self.s.gateway.post("/", key, b"{}", do=do)
            again = self.s.gateway.post("/", key, b"{}", do=do)
            assert again.status == first.status < 500 and again.replayed, (do, first, again)
        for path in ("/", "/direct/"):
            key = self.key()
            assert len(self.post(path, key, do=f"big={BIG}").body) == BIG
            assert self.post(path, key, do=f"big={BIG}").problem == "not-kept"
        self.post("/pages/", do="status=404", status=201)
        self.post("/renew/", do="after=2.5")

    def unknown(self):
        """Sent, and no answer, or half of one."""
        for do in ("close", "reset", "half", "half_head", "half_chunk", "junk", "drop", "early",
                   "status=500"):
            key = self.key()
            first = self.s.gateway.post("/", key, b"{}", do=do)
            assert first.status in (500, 502), (do, first)
            self.post("/", key, status=409)
        key = self.key()
        self.post("/short/", key, do="never", status=504)
        self.post("/pages/", do="close", status=502)
        key = self.key()
        self.post("/retry/", key, do="close|ok", status=502)
        self.post("/retry/", key, do="close|ok", status=201)
        self.post("/", do="status=503,no_effect", status=503)

    def same_key(self):
        """Busy, and waiting: one goes through, all get its answer."""
        key, name = self.key(), f"same-{self.number}"
        first = Later(self.post, "/wait/", key, do=f"hold={name}")
        self.s.upstream.wait_effects(key)
        self.post("/", self.key())
        assert self.s.gateway.post("/wait/", key, b"{}{}").status == 422
        others = [Later(self.post, "/wait/", key) for _ in range(SAME)]
        gone = [start(self.s.gateway.port, key, path="/wait/") for _ in range(3)]
        wait_for("they wait", lambda: self.s.gateway.counts()["waited"] >= self.number * SAME)
        for client in gone:  # while they wait
            client.close()
        self.s.upstream.let_go(name)
        body = first.result(60).body
        assert all(other.result(60).body == body for other in others)
        key = self.key()
        held = Later(self.post, "/", key, do=f"hold=busy-{self.number}")
        self.s.upstream.wait_effects(key)
        self.post("/", key, status=409)
        self.s.upstream.let_go(f"busy-{self.number}")
        held.result(60)

    def clients_go(self):
        """While they send, while the upstream works, while a large answer comes."""
        port = self.s.gateway.port
        with Client(port) as client:
            client.head("/", f"Idempotency-Key: {self.key()}", "Content-Length: 100").send(b"x")
        key = self.key()
        client = start(port, key, do=f"hold=gone-{self.number}")
        self.s.upstream.wait_effects(key)
        client.close()
        self.s.upstream.let_go(f"gone-{self.number}")
        wait_state(self.s.server, key, "completed")
        for do in (f"big={BIG}", "big=500000,slow=0.01", "half"):
            key = self.key()
            client = start(port, key, do=do)
            self.s.upstream.wait_effects(key)
            client.close()
        with Client(port) as client:
            client.head("/", f"Idempotency-Key: {self.key()}", "Transfer-Encoding: chunked",
                        "Expect: 100-continue")
            assert client.socket.recv(4096).startswith(b"HTTP/1.1 100")
            client.send("3\r\nabc\r\n0\r\n\r\n")
            assert client.answer().status == 201

    def http2(self):
        for do in ("ok", "big=300000", "close", "half"):
            key = self.key()
            status, _, _ = curl(self.s.http2_port, "/", key, do=do)
            assert status == (201 if do in ("ok", "big=300000") else 502), do
            curl(self.s.http2_port, "/", key, do=do)

    def upstream_away(self):
        self.s.upstream.stop()
        key = self.key()
        self.post("/", key, status=502)
        self.post("/pages/", status=502)
        self.s.upstream.start()
        self.post("/", key, status=201)

    def server_away(self):
        """Killed while an answer is on its way, and before a request; then it is there again."""
        key, name = self.key(), f"away-{self.number}"
        held = Later(self.s.gateway.post, "/", key, b"{}", do=f"hold={name}")
        self.s.upstream.wait_effects(key)
        self.s.server.kill()
        self.post("/", status=503)
        self.post("/open/")
        asking = start(self.s.gateway.port, self.key())
        self.s.upstream.let_go(name)
        asking.close()
        self.s.server.start()
        answer = held.result(60)
        assert answer.status in (201, 503), answer
        wait_for("it is reached again", lambda: self.s.gateway.post("/", self.key()).status == 201)

    def reload(self):
        """With a request under way in the old worker."""
        key, name = self.key(), f"reload-{self.number}"
        held = Later(self.post, "/", key, do=f"hold={name}")
        self.s.upstream.wait_effects(key)
        old = self.s.gateway.reload()
        self.post("/")
        self.s.upstream.let_go(name)
        held.result(60)
        wait_for("the old workers ended", lambda: not any(map(alive, old)), 60)
        return old

    def everything(self):
        self.verdicts()
        self.answers()
        self.unknown()
        self.same_key()
        self.clients_go()
        self.http2()
        self.upstream_away()
        self.server_away()
        return self.reload()


# ---- Who looks -----------------------------------------------------------------------------------

class Valgrind:
    """A script in nginx's place; its log has a line "ERROR SUMMARY" for each process that ended."""

    def __init__(self, folder):
        assert shutil.which("valgrind"), "valgrind is not installed; run `make setup`"
        self.logs = folder / "valgrind"
        self.logs.mkdir()
        self.script = folder / "nginx-under-valgrind"
        deep = " --track-origins=yes" if ROUNDS > 1 else ""
        self.script.write_text(
            f"#!/bin/sh\nexec valgrind --trace-children=yes --num-callers=30{deep} "
            "--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "
            f"--suppressions={SUPPRESSIONS} --log-file={self.logs}/%p "
            f"{nginx_path()} \"$@\"\n")
        self.script.chmod(0o700)

    def check(self, workers):
        text = "".join(path.read_text(errors="replace") for path in sorted(self.logs.iterdir()))
        ended = dict(re.findall(r"^==(\d+)== ERROR SUMMARY: (\d+) errors", text, re.MULTILINE))
        assert set(map(str, workers)) <= set(ended), f"no end of {workers} in:\n{text[-3000:]}"
        bad = [pid for pid, count in ended.items() if count != "0"]
        lines = [line for line in text.splitlines() if any(f"=={pid}==" in line for pid in bad)]
        assert not bad, "valgrind found:\n" + "\n".join(lines[:200])


class Itself:
    """An nginx with sanitizers."""

    def __init__(self, path):
        self.script = Path(path)
        self.reports = self.script.parent / "reports"

    def check(self, _):
        found = sorted(self.reports.iterdir())
        assert not found, f"{len(found)} reports:\n" + found[0].read_text(errors="replace")[:8000]


@pytest.fixture
def looker(tmp_path, monkeypatch):
    own = os.environ.get("ONCE_NGINX")
    made = Itself(own) if own else Valgrind(tmp_path)
    monkeypatch.setenv("ONCE_NGINX", str(made.script))
    return made


def test_memory_is_clean(tmp_path, looker):
    http2_port, workers = free_port(), []
    http = f"server {{ listen {HOST}:{http2_port} http2; {HTTP2} }}"
    with stack(tmp_path, LOCATIONS, workers=1, http=http) as s:
        s.http2_port = http2_port
        for number in range(1, ROUNDS + 1):
            workers += Load(s, number).everything()
        workers += [s.gateway.master, *s.gateway.worker_pids()]
    looker.check(workers)
    # Undefined behaviour is told where nginx's errors are, and ends the worker.
    died = [line for line in s.gateway.errors().splitlines() if re.search(DIED, line)]
    assert not died, "\n".join(died)
