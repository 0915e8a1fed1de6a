# SPDX-License-Identifier: Apache-2.0
"""Who may call over HTTP, what browsers may not, bounds, and the end of a server.
Every answer is held against the OpenAPI document of the server that gave it (openapi_check.py).
"""
import base64
import concurrent.futures
import contextlib
import json
import signal
import socket
import subprocess

import pytest
import requests

from openapi_check import Http, http, key, metric, problem, server  # noqa: F401 (fixtures)
from serving import HOST, USERS, Server, certificates, users, wait_for


# ---- Browsers -----------------------------------------------------------------------------------

def test_foreign_names_are_not_answered(http, server):
    for host in ("evil.example", "evil.example:7412", "127.0.0.1.evil.example", "localhost.evil",
                 "localhost:1.evil.example", "[::1].evil.example", "[::1]:1.evil.example"):
        problem(http.get("/healthz", headers={"Host": host}), 421, "host")
    for host in ("localhost", "localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:80", "[::1]"):
        assert http.get("/healthz", headers={"Host": host}).status_code == 200
    with socket.create_connection((HOST, server.http)) as raw:  # no Host at all
        raw.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b"200 OK" in raw.recv(4096)


@pytest.mark.parametrize("headers", [
    "Content-Length: 2\r\nContent-Length: 40", "Content-Length: 2\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: xchunked\r\nContent-Length: 2", "Content-Length: 2\r\nHost: evil.example"])
def test_what_a_proxy_may_read_otherwise_is_refused(http, server, key, headers):
    """Else the rest of a body could be a request that no proxy has seen."""
    begin = f"POST /v1/ops/pay/{key}/begin HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n{{}}"
    with socket.create_connection((HOST, server.http), timeout=30) as s:
        s.sendall(begin.encode() + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(4096):
                answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ") and b"urn:once:problem:bad-request" in answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what came behind it was answered"
    problem(http.get(f"/v1/ops/pay/{key}"), 404, "not-found")


def test_pages_of_other_origins_change_nothing(http, key):
    path = f"/v1/ops/pay/{key}/begin"
    for origin in ("http://evil.example", "null", "https://localhost.evil"):
        problem(http.post(path, {}, headers={"Origin": origin}), 403, "cross-origin")
        problem(http.put("/v1/objects/x", b"", headers={"Origin": origin}), 403, "cross-origin")
    problem(http.get(f"/v1/ops/pay/{key}"), 404, "not-found")
    own = http.url.split("//")[1]
    assert http.post(path, {}, headers={"Origin": f"http://{own}"}).status_code == 200


# ---- Who ----------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("secured"), users()) as running:
        yield running


def as_user(server, name):
    return Http(server.url, auth=(name, USERS[name]))


def test_nobody_is_nobody(secured):
    http = Http(secured.url)
    for method, path in (("GET", "/v1/ops/pay/k"), ("GET", "/metrics"), ("GET", "/v1/namespaces"),
                         ("POST", "/v1/ops/pay/k/begin"), ("GET", "/v1/objects")):
        answer = http(method, path)
        problem(answer, 401, "unauthenticated")
        assert 'Basic realm="once"' in answer.headers["WWW-Authenticate"]
        assert "Bearer" in answer.headers["WWW-Authenticate"]
    for path in ("/healthz", "/readyz", "/openapi.json", "/", "/web/app.js"):
        assert http.get(path).status_code == 200
    # The dashboard has a form of its own: the browser is not told to ask as well.
    page = http.get("/v1/me", headers={"Once-Page": "1"})
    problem(page, 401, "unauthenticated")
    assert page.headers["WWW-Authenticate"] == 'Bearer realm="once"'
    for header in ("Basic", "Basic !", "Basic " + base64.b64encode(b"alice").decode(),
                   "Basic " + base64.b64encode(b"root\0x:" + USERS["root"].encode()).decode(),
                   "Digest x", "Bearer", "Basic " + "A" * 4000, "Bearer " + "x" * 300):
        problem(http.get("/metrics", headers={"Authorization": header}), 401, "unauthenticated")
    # Users make every name right: proxies and other machines come by names of their own.
    assert http.get("/healthz", headers={"Host": "once.example"}).status_code == 200


def test_roles(secured):
    alice, bob, root = (as_user(secured, name) for name in ("alice", "bob", "root"))
    fence = alice.fence("pay", "role")
    assert bob.get("/v1/ops/pay/role").json()["fence"] == fence
    for answer in (bob.begin("pay", "role2"), bob.delete("/v1/ops/pay/role"),
                   alice.begin("secret", "k"), alice.get("/v1/ops/secret/k"),
                   alice.get("/v1/ops/secret"), alice.get("/v1/namespaces/secret"),
                   alice.post("/v1/ops/pay/role/resolve", {"done": False}),
                   alice.delete("/v1/ops/pay/role"), alice.get("/v1/objects/other"),
                   alice.get("/v1/objects"),
                   alice.put("/v1/objects/other", b"", headers={"If-None-Match": "*"}),
                   bob.post("/v1/objects/acct:1/merge", {"state_base64": ""})):
        assert problem(answer, 403, "denied")["error"] == "ERR_DENIED"
    denied = alice.post("/v1/apply/pay/ap", {"do": [["ADD", "acct:1", 1], ["ADD", "x", 1]]})
    assert problem(denied, 403, "denied")["effect"] == 2
    assert alice.post("/v1/apply/pay/ap2", {"do": [["ADD", "acct:1", 1]]}).status_code == 200
    assert alice.get("/v1/objects/acct:1").status_code == 200
    assert alice.delete(f"/v1/ops/pay/role?fence={fence}").status_code == 200
    assert root.begin("secret", "k").status_code == 200 and bob.get("/metrics").status_code == 200


def test_tokens(tmp_path, once_bin):
    made = subprocess.run([once_bin, "serve", "--make-token"], text=True, capture_output=True,
                          check=True).stdout
    token = next(line.split()[-1] for line in made.splitlines() if "sha256$" not in line and line)
    line = next(line for line in made.splitlines() if "sha256$" in line)
    hashed = line.split("=")[-1].strip() if "=" in line else line.split()[-1]
    settings = f"[user bot]\nrole = write\nnamespaces = pay\ntoken = {hashed}\nrate = 1\n"
    with Server(tmp_path, settings) as running:
        bot = Http(running.url, headers={"Authorization": f"Bearer {token}"})
        answers = [bot.begin("pay", "k") for _ in range(20)]
        limited = [a for a in answers if a.status_code == 429]
        assert answers[0].status_code == 200 and limited
        assert problem(limited[0], 429, "rate")["error"] == "ERR_RATE"
        assert int(limited[0].headers["Retry-After"]) >= 1
        wrong = Http(running.url, headers={"Authorization": f"Bearer {token}x"})
        problem(wrong.begin("pay", "k"), 401, "unauthenticated")


def test_wrong_passwords_are_slowed_down(tmp_path):
    with Server(tmp_path, users()) as running:
        wrong = Http(running.url, auth=("alice", "wrong-password"))
        for _ in range(60):
            answer = wrong.get("/v1/namespaces")
            if answer.status_code == 429:
                break
            problem(answer, 401, "unauthenticated")
        problem(answer, 429, "wrong-passwords")
        assert int(answer.headers["Retry-After"]) > 0
        assert "wrong-password" not in running.log.read_text()


def test_tls(tmp_path):
    authority, certificate, key = certificates(tmp_path)
    settings = f"tls_cert = {certificate}\ntls_key = {key}\n" + users()
    running = Server(tmp_path / "server", settings)
    command = running.command
    running.command = lambda: [
        f"tls://{HOST}:{running.http}" if word == f"{HOST}:{running.http}" else word
        for word in command()]
    with running:
        url = f"https://{HOST}:{running.http}"
        options = {"verify": str(authority), "timeout": 30, "auth": ("alice", USERS["alice"])}
        answer = requests.post(f"{url}/v1/ops/pay/k/begin", json={}, **options)
        assert answer.json()["verdict"] == "EXECUTE"
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(f"{url}/healthz", timeout=30)
        for version, works in (("--tlsv1.2", True), ("--tlsv1.3", True)):
            done = subprocess.run(["curl", "-sS", "--cacert", authority, version, f"{url}/healthz"],
                                  text=True, capture_output=True)
            assert (done.returncode == 0) is works, done.stderr
        old = subprocess.run(["openssl", "s_client", "-connect", f"{HOST}:{running.http}",
                              "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], input="", text=True,
                             capture_output=True)
        assert old.returncode != 0, "TLS 1.1 was taken"


# ---- Bounds and the end -------------------------------------------------------------------------

def test_a_full_store_says_so(tmp_path):
    with Server(tmp_path, "keys_max = 1\n") as running:
        http = Http(running.url)
        answers = [http.begin("pay", f"k{i}") for i in range(2)]
        full = next(a for a in answers if a.status_code != 200)
        assert problem(full, 503, "full")["error"] == "ERR_KEYS"
        assert int(full.headers["Retry-After"]) >= 1


def test_connections_have_a_bound(tmp_path):
    with Server(tmp_path, "connections_max = 10\n") as running:
        held = [socket.create_connection((HOST, running.http)) for _ in range(10)]
        for s in held:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in s.recv(4096)
        with socket.create_connection((HOST, running.http)) as further:
            further.settimeout(30)
            try:
                assert further.recv(4096) == b"", "the eleventh was answered"
            except ConnectionResetError:
                pass
        for s in held:
            s.close()
        wait_for("there is room again", lambda: requests.get(
            f"{running.url}/healthz", timeout=30).status_code == 200)


def test_whose_user_is_gone_waits_no_longer(tmp_path):
    with Server(tmp_path, users()) as running:
        root = as_user(running, "root")
        fence = root.fence("pay", "k", lease_ms=600000)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            gone, stays = [pool.submit(requests.post, f"{running.url}/v1/ops/pay/k/begin", timeout=60,
                                       json={"wait_ms": 50000}, auth=(name, USERS[name]))
                           for name in ("alice", "root")]
            wait_for("both are parked",
                     lambda: metric(running.url, "once_parked", auth=("root", USERS["root"])) == 2)
            kept = running.config.read_text()
            running.config.write_text(kept[kept.index("[user root]"):])
            running.process.send_signal(signal.SIGHUP)
            problem(gone.result(), 409, "busy")
            assert not stays.done()
            root.post("/v1/ops/pay/k/complete", {"fence": fence, "code": 1, "result": "x"})
            assert stays.result().json()["verdict"] == "REPLAY"


def test_draining_answers_who_waits(tmp_path):
    running = Server(tmp_path).start()
    http = Http(running.url)
    http.fence("pay", "k")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(requests.post, f"{running.url}/v1/ops/pay/k/begin", timeout=60,
                               json={"wait_ms": 50000}) for _ in range(5)]
        wait_for("all are parked", lambda: metric(running.url, "once_parked") == 5)
        assert running.stop() == 0
        for answer in waiting:
            assert problem(answer.result(), 409, "busy")
            assert answer.result().headers["Connection"] == "close"


def test_many_connections_at_once(http, server, key):
    fence = http.fence("many", key)
    body = json.dumps({"wait_ms": 60000}).encode()
    request = (f"POST /v1/ops/many/{key}/begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
               f"application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    sockets = [socket.create_connection((HOST, server.http), timeout=60) for _ in range(500)]
    for s in sockets:
        s.sendall(request)
    wait_for("all are parked", lambda: metric(server.url, "once_parked") == 500)
    http.post(f"/v1/ops/many/{key}/complete", {"fence": fence, "code": 1, "result": "once"})
    for s in sockets:
        answer = b""
        while b'"once"}' not in answer:
            piece = s.recv(4096)
            assert piece, answer
            answer += piece
        assert b'"verdict":"REPLAY"' in answer
        s.close()
