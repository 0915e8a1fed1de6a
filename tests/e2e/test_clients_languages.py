# SPDX-License-Identifier: Apache-2.0
"""redigo (Go), Jedis (Java), requests (Python) and curl, as they are."""
import json
import subprocess
import threading

import pytest
import requests

from client_tools import PINNED, go_environment, jars
from serving import HOST, USERS, Server, certificates, run, users


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("languages")) as server:
        yield server


def test_go_redigo(server, tmp_path):
    environment = go_environment()
    program = tmp_path / "redigo"
    run(["go", "build", "-o", program, PINNED / "redigo.go"], env=environment)
    assert "redigo: all held" in run([program, f"{HOST}:{server.port}"])


def test_java_jedis(server):
    said = run(["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", PINNED / "JedisClient.java",
                server.port])
    assert "Jedis RESP2: all held" in said and "Jedis RESP3: all held" in said


# ---- HTTP ---------------------------------------------------------------------------------------


def call(server, what, ns, key, session=requests, **body):
    return session.post(f"{server.url}/v1/ops/{ns}/{key}/{what}", json=body, timeout=30)


def test_requests_begin_complete_replay(server):
    begun = call(server, "begin", "http", "a", fingerprint="100 EUR")
    assert begun.status_code == 200, begun.text
    assert begun.json()["verdict"] == "EXECUTE" and begun.json()["attempt"] == 1
    busy = call(server, "begin", "http", "a", fingerprint="100 EUR")
    assert busy.status_code == 409 and busy.json()["verdict"] == "BUSY"
    assert int(busy.headers["Retry-After"]) >= 0
    assert busy.headers["Content-Type"].startswith("application/problem+json")
    done = call(server, "complete", "http", "a", fence=begun.json()["fence"], code=201,
                result="ch_1")
    assert done.status_code == 200, done.text
    again = call(server, "begin", "http", "a", fingerprint="100 EUR")
    assert again.status_code == 200
    assert {k: again.json()[k] for k in ("verdict", "code", "result")} == {
        "verdict": "REPLAY", "code": 201, "result": "ch_1"}
    other = call(server, "begin", "http", "a", fingerprint="999 EUR")
    assert other.status_code == 422 and other.json()["verdict"] == "MISMATCH"
    stale = call(server, "complete", "http", "a", fence=begun.json()["fence"] + 99, code=1, result="")
    assert stale.status_code == 409 and stale.json()["verdict"] == "STALE"
    assert call(server, "complete", "http", "none", fence=1, code=1, result="").status_code == 404
    assert call(server, "begin", "http", "bad", lease_ms="soon").status_code == 400


def test_what_http_began_resp_replays(server):
    """One store behind both: a key is a key whatever it is spoken in."""
    fence = call(server, "begin", "both", "a").json()["fence"]
    with server.connect() as c:
        assert c("ONCE.BEGIN", "both", "a")[0] == "BUSY"
        assert c("ONCE.COMPLETE", "both", "a", fence, 201, "ch_1") == "OK"
    assert call(server, "begin", "both", "a").json()["result"] == "ch_1"


def test_requests_keep_alive_and_wait(server):
    """The waiter is suspended, not polling; 200 requests go over one connection meanwhile."""
    fence = call(server, "begin", "http", "w").json()["fence"]
    got = []
    waiter = threading.Thread(target=lambda: got.append(
        call(server, "begin", "http", "w", wait_ms=30000).json()))
    waiter.start()
    with requests.Session() as session:
        for i in range(200):
            answer = call(server, "begin", "http", f"s{i}", session=session)
            assert answer.json()["verdict"] == "EXECUTE"
    assert waiter.is_alive() and not got
    call(server, "complete", "http", "w", fence=fence, code=200, result="there")
    waiter.join(30)
    assert got[0]["verdict"] == "REPLAY" and got[0]["result"] == "there"


def curl(*words):
    return run(["curl", "-sS", "--max-time", 30, *words])


def test_curl(server):
    ops = f"{server.url}/v1/ops/curl/a"
    begun = json.loads(curl("--json", '{"fingerprint":"f"}', f"{ops}/begin"))
    assert begun["verdict"] == "EXECUTE"
    body = json.dumps({"fence": begun["fence"], "code": 201, "result": "ch_1"})
    curl("--fail", "--json", body, f"{ops}/complete")
    again = json.loads(curl("--json", '{"fingerprint":"f"}', f"{ops}/begin"))
    assert (again["verdict"], again["code"], again["result"]) == ("REPLAY", 201, "ch_1")
    assert "415" == curl("-d", "{}", "-o", "/dev/null", "-w", "%{http_code}", f"{ops}/begin"), (
        "what a form of any web page can send is refused")
    assert json.loads(curl(ops))["state"] == "completed"
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/healthz") == "200"
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/readyz") == "200"
    assert "once_" in curl(f"{server.url}/metrics")
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{server.url}/v1/ops/curl/none") == "404"


def test_curl_with_password_and_tls(tmp_path):
    authority, certificate, key = certificates(tmp_path)
    server = Server(tmp_path / "server",
                    settings=f"tls_cert = {certificate}\ntls_key = {key}\n" + users())
    port = Server(tmp_path / "port").http  # a free one
    server.options += ["--http", f"tls://{HOST}:{port}"]
    with server:
        begin = ["--json", "{}", "-o", "/dev/null", "-w", "%{http_code}"]
        trust = ["--cacert", authority]
        where = f"https://{HOST}:{port}/v1/ops"
        assert curl(*begin, *trust, f"{where}/pay/a/begin") == "401"
        alice = ["-u", f"alice:{USERS['alice']}"]
        assert curl(*begin, *trust, *alice, f"{where}/pay/a/begin") == "200"
        assert curl(*begin, *trust, *alice, f"{where}/payroll/a/begin") == "403"
        wrong = ["-u", "alice:not-this-one"]
        assert curl(*begin, *trust, *wrong, f"{where}/pay/b/begin") == "401"
        untrusted = subprocess.run(["curl", "-sS", *begin, f"{where}/pay/a/begin"], text=True,
                                   capture_output=True)
        assert untrusted.returncode == 60, untrusted.stderr
