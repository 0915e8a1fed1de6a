# SPDX-License-Identifier: Apache-2.0
"""The numbers of a server: /v1/stats and ONCE.STATS, who sees which, doubts that are counted, and
the lists and the search over all namespaces that a page for people needs.
"""
import contextlib
import json
import shutil
import socket
import threading

import pytest
import requests

from openapi_check import Http, metric, problem
from serving import Connection, Server, USERS, pack, users, wait_for

CALLS = ["begin", "complete", "fail", "checkpoint", "renew", "resolve", "forget", "get", "apply",
         "merge", "set", "expire"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stats")
    with Server(folder) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def http(server):
    return Http(server.url)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """With users, and a namespace in which everyone has keys of their own."""
    folder = tmp_path_factory.mktemp("shared")
    with Server(folder, "[namespace own]\nscope = user\n[namespace pay]\n" + users()
                .replace("namespaces = pay, redis\nobjects", "namespaces = pay, own\nobjects")
                .replace("namespaces = pay, redis\n[user root", "namespaces = pay\n[user root")
                ) as running:
        yield running
    shutil.rmtree(folder)


def as_user(server, name):
    return Http(server.url, auth=(name, USERS[name]))


def fresh(http, condition):
    """A document of which this holds: they are remembered for a moment."""
    def look():
        found = http.get("/v1/stats").json()
        return found if condition(found) else None
    return wait_for("numbers that show it", look)


def doubt(http, ns, key):
    fence = http.fence(ns, key)
    assert http.post(f"/v1/ops/{ns}/{key}/renew", {"fence": fence, "lease_ms": 0}).ok
    return fence


def test_numbers_move_and_say_what_was_told(http):
    before = http.get("/v1/stats").json()
    assert before["ready"] and before["phase"] == "ready" and not before["stopped"]
    assert list(before["verdicts"]) == CALLS and list(before["errors"]) == CALLS
    for i in range(3):
        fence = http.fence("moves", f"k{i}")
        http.post(f"/v1/ops/moves/k{i}/complete", {"fence": fence, "code": 0, "result": "x"})
    http.begin("moves", "k0")
    after = fresh(http, lambda s: s["verdicts"]["begin"].get("REPLAY", 0) == 1)

    def moved(call, word):
        return after["verdicts"][call].get(word, 0) - before["verdicts"][call].get(word, 0)
    assert moved("begin", "EXECUTE") == 3 and moved("complete", "OK") == 3
    assert after["keys"] - before["keys"] == 3
    assert sum(after["latency_us"]["buckets"]) - sum(before["latency_us"]["buckets"]) == 7
    assert after["records"] - before["records"] == 6
    assert sum(after["write_us"]["buckets"]) == after["batches"]
    assert after["uptime_ms"] > before["uptime_ms"] and after["now_ms"] > after["started_ms"]
    space = next(n for n in after["namespaces"] if n["namespace"] == "moves")
    assert space == {"namespace": "moves", "errors": 0, "verdicts": {
        "begin": {"EXECUTE": 3, "REPLAY": 1}, "complete": {"OK": 3}}}
    assert after["memory_size"] > 1 << 20 and after["disk_free"] > 0 and after["disk_size"] > 0
    assert after["keys_max"] == 1 << 32 and after["objects_size_max"] == 1 << 32
    assert after["connections"]["http"] >= 1 and after["http_requests"] >= 8


def test_errors_are_counted_by_call(http):
    before = http.get("/v1/stats").json()["errors"]["begin"]
    assert http.begin("bad", "line%0Aend").status_code == 400
    http.begin("bad", "x", fingerprint="a")
    assert http.post("/v1/ops/bad/x/complete", {"fence": 99, "code": 0}).status_code == 409
    after = fresh(http, lambda s: s["errors"]["begin"] > before)
    assert after["errors"]["begin"] == before + 1
    bad = next(n for n in after["namespaces"] if n["namespace"] == "bad")
    assert bad["verdicts"]["complete"] == {"STALE": 1} and bad["errors"] == 1


def test_doubts_are_counted_everywhere(server, http):
    before = http.get("/v1/stats").json()
    fence = doubt(http, "dark", "lost")
    http.fence("dark", "held")
    after = fresh(http, lambda s: s["doubts"] == before["doubts"] + 1)
    assert after["started"] == before["started"] + 1 and not after["doubts_more"]
    assert after["keys_open"] == after["doubts"] + after["started"]
    assert metric(server.url, "once_doubts") == after["doubts"]
    assert metric(server.url, "once_started") == after["started"]
    with server.connect() as c:
        info = c("INFO", "once").decode()
        assert f"\r\ndoubts:{after['doubts']}\r\n" in info
        assert f"\r\nstarted:{after['started']}\r\n" in info
    # A lease that ends by itself is a doubt too.
    http.begin("dark", "expires", lease_ms=100)
    fresh(http, lambda s: s["doubts"] == after["doubts"] + 1)
    assert http.post("/v1/ops/dark/lost/resolve", {"done": False, "fence": fence}).ok
    fresh(http, lambda s: s["doubts"] == after["doubts"])


def test_resp_gives_the_same_document(server, http):
    with server.connect() as c:
        found = json.loads(c("ONCE.STATS"))
        assert set(found) == set(http.get("/v1/stats").json())
        wait_for("this connection", lambda:
                 json.loads(c("ONCE.STATS"))["connections"]["resp"] >= 1)
        schema = http.description.document["components"]["schemas"]["Stats"]
        http.description.validate(found, schema)
        with pytest.raises(Exception, match="wrong number"):
            c("ONCE.STATS", "all")


def test_many_askers_share_a_document(http):
    """Four at a time for a while: as many documents as fit into the time, not as many as asked."""
    seen, asked = [], []

    def ask():
        for _ in range(50):
            seen.append(requests.get(f"{http.url}/v1/stats", timeout=30).json()["uptime_ms"])
            asked.append(1)
    first = http.get("/v1/stats").json()["uptime_ms"]
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 200
    assert len(set(seen)) <= (max(seen) - first) / 250 + 2


def test_nobody_needs_to_say_who_they_are_without_users(http):
    assert http.get("/v1/me").json() == {"user": None, "role": "admin", "users": False}


def test_who_is_asking(shared):
    root, bob = as_user(shared, "root"), as_user(shared, "bob")
    assert root.get("/v1/me").json() == {"user": "root", "role": "admin", "users": True}
    assert bob.get("/v1/me").json() == {"user": "bob", "role": "read", "users": True}
    nobody = Http(shared.url)
    for path in ("/v1/me", "/v1/stats", "/v1/ops", "/v1/search?key=x"):
        problem(nobody.get(path), 401, "unauthenticated")
    with Connection(shared.port) as c, pytest.raises(Exception, match="NOAUTH"):
        c("ONCE.STATS")


def test_everyone_sees_what_is_theirs(shared):
    root, alice, bob = (as_user(shared, name) for name in ("root", "alice", "bob"))
    doubt(alice, "pay", "a")
    doubt(alice, "own", "mine")
    doubt(root, "own", "mine")
    doubt(root, "hidden", "h")

    def listed(http, path="/v1/ops?state=doubt"):
        answer = http.get(path)
        assert answer.status_code == 200, answer.text
        return sorted((o["namespace"], o["key"]) for o in answer.json()["operations"])
    assert listed(root) == [("hidden", "h"), ("own@alice", "mine"), ("own@root", "mine"),
                            ("pay", "a")]
    assert listed(alice) == [("own", "mine"), ("pay", "a")]
    assert listed(bob) == [("pay", "a")]
    # The name that is shown is the one to ask with.
    assert alice.get("/v1/ops/own/mine").json()["state"] == "doubt"
    assert root.get("/v1/ops/own@alice/mine").json()["state"] == "doubt"

    def found(http, key):
        return listed(http, f"/v1/search?key={key}")
    assert found(root, "mine") == [("own@alice", "mine"), ("own@root", "mine")]
    assert found(alice, "mine") == [("own", "mine")]
    assert found(bob, "mine") == found(alice, "h") == []
    assert found(root, "h") == [("hidden", "h")] and found(bob, "a") == [("pay", "a")]

    stats = fresh(root, lambda s: {"pay", "own", "hidden"} <=
                  {n["namespace"] for n in s["namespaces"]})
    assert stats["doubts"] == 4
    assert "hidden" not in {n["namespace"] for n in alice.get("/v1/stats").json()["namespaces"]}
    assert {n["namespace"] for n in bob.get("/v1/stats").json()["namespaces"]} == {"pay"}
    with Connection(shared.port) as c:
        c("AUTH", "bob", USERS["bob"])
        assert [n["namespace"] for n in json.loads(c("ONCE.STATS"))["namespaces"]] == ["pay"]


def test_pages_of_all_namespaces(http):
    for i in range(25):
        http.fence(f"page-{i % 5}", f"p{i}")
    seen, cursor = [], "0"
    while True:
        page = http.get(f"/v1/ops?state=started&count=7&cursor={cursor}").json()
        assert len(page["operations"]) <= 7
        seen += [(o["namespace"], o["key"]) for o in page["operations"]]
        cursor = page["cursor"]
        if cursor == "0":
            break
    assert len(seen) == len(set(seen))
    assert {(f"page-{i % 5}", f"p{i}") for i in range(25)} <= set(seen)
    problem(http.get("/v1/ops?state=lost"), 400, "bad-field")
    problem(http.get("/v1/search"), 400, "bad-field")
    problem(http.get("/v1/search?key="), 400, "bad-field")
    assert http.get("/v1/search?key=%3Cimg%20src%3Dx%3E").json()["operations"] == []


def test_a_key_is_found_after_a_restart(tmp_path):
    """Its namespace is named nowhere: the server has to have looked for it."""
    with Server(tmp_path) as server:
        http = Http(server.url)
        for i in range(300):
            http.fence(f"old-{i % 3}", f"k{i}")
        server.stop()
        server.start()
        found = Http(server.url).get("/v1/search?key=k200").json()
        assert [o["namespace"] for o in found["operations"]] == ["old-2"]
        assert found["complete"] and found["namespaces"] >= 3
    shutil.rmtree(tmp_path)


def test_no_more_doubts_are_counted_than_it_takes(tmp_path):
    with Server(tmp_path) as server:
        with server.connect() as c:
            for page in range(21):
                c.socket.sendall(b"".join(pack("ONCE.BEGIN", "many", f"{page}-{i}", "LEASE", 1)
                                          for i in range(500)))
                for _ in range(500):
                    assert c.read()[0] == "EXECUTE"
        http = Http(server.url)
        found = fresh(http, lambda s: s["doubts_more"])
        assert (found["doubts"], found["started"]) == (10000, 500)
        page = http.get("/v1/ops?state=doubt&count=1000").json()
        assert len(page["operations"]) == 1000 and page["cursor"] != "0"
    shutil.rmtree(tmp_path)


def test_the_owner_of_the_process_sees_everything(shared):
    """Over the unix socket."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.connect(str(shared.socket_path))
        s.sendall(pack("ONCE.STATS"))
        assert s.recv(64).startswith(b"$")
