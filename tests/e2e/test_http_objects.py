# SPDX-License-Identifier: Apache-2.0
"""Objects over HTTP: apply, registers with ETag and If-Match, items, lists and merging.
Every answer is held against the OpenAPI document of the server that gave it (openapi_check.py).
"""
import base64

import pytest

from openapi_check import http, key, problem, server  # noqa: F401 (fixtures)


def test_apply(http, key):
    http.post(f"/v1/apply/pay/{key}-fill", {"do": [["ADD", f"acct:{key}", 1000]]})
    body = {"do": [["ADD", f"acct:{key}", -100, "MIN", "0"], ["seq", f"seq:{key}", 1, 0]]}
    assert http.post(f"/v1/apply/pay/{key}", body).json() == {
        "verdict": "APPLIED", "results": [900, "new"]}
    assert http.post(f"/v1/apply/pay/{key}", body).json() == {
        "verdict": "REPLAY", "results": [900, "new"]}
    body["do"][0][2] = -200
    other = problem(http.post(f"/v1/apply/pay/{key}", body), 422, "mismatch")
    assert other["verdict"] == "MISMATCH"
    assert http.get(f"/v1/objects/acct:{key}").json() == {
        "name": f"acct:{key}", "type": "counter", "value": 900}


def test_a_rejection_replays(http, key):
    body = {"do": [["ADD", f"a:{key}", 5], ["ADD", f"b:{key}", -1, "MIN", 0]], "fingerprint": "f"}
    for replayed in (False, True, True):
        found = problem(http.post(f"/v1/apply/pay/{key}", body), 422, "rejected")
        assert (found["verdict"], found["effect"], found["word"], found["replayed"]) == (
            "REJECTED", 2, "BELOW_MIN", replayed)
        assert "below its minimum" in found["reason"]
    problem(http.get(f"/v1/objects/a:{key}"), 404, "no-object")


def test_apply_without_a_key(http, key):
    assert http.post("/v1/apply", {"do": [["UNION", f"s:{key}", "a", {"base64": "/w=="}]]}).json() \
        == {"verdict": "APPLIED", "results": [2]}
    found = problem(http.post("/v1/apply", {"do": [["ADD", "x", 1]]}), 400, "bad-field")
    assert found["error"] == "ERR_KEY_NEEDED" and found["effect"] == 1
    assert http.get(f"/v1/objects/s:{key}").json()["members_base64"] == ["/w=="]


@pytest.mark.parametrize("do, field", [
    (None, "do"), ([], "do"), ("ADD x 1", "do"), (["ADD", "x", 1], "do[0]"), ([[]], "do[0]"),
    ([["ADD", "x", 1], ["ADD", None]], "do[1][1]"), ([["ADD", "x", 1.5]], "do[0][2]"),
    ([["ADD", {"base64": "?"}, 1]], "do[0][1]"), ([["ADD", {"base64": "", "x": 1}, 1]], "do[0][1]"),
    ([["FLAG", "x"]] * 65, "do")])
def test_bad_effects_are_named(http, key, do, field):
    found = problem(http.post(f"/v1/apply/pay/{key}", {"do": do}), 400, "bad-field")
    assert found["field"] == field


def test_effects_that_the_store_refuses(http, key):
    found = problem(http.post(f"/v1/apply/pay/{key}", {"do": [["FLAG", "f"], ["JUMP", "x"]]}), 400,
                    "bad-field")
    assert found["effect"] == 2 and found["detail"].startswith("effect 2: ")
    http.post(f"/v1/apply/pay/{key}-c", {"do": [["ADD", f"c:{key}", 1]]})
    found = problem(http.post(f"/v1/apply/pay/{key}-f", {"do": [["FLAG", f"c:{key}"]]}), 409,
                    "object-type")
    assert found["error"] == "ERR_OBJECT_TYPE"


def test_apply_meets_a_key_that_was_completed(http, key):
    do = {"do": [["ADD", f"n:{key}", 1]], "fingerprint": "f"}
    fence = http.fence("pay", key, fingerprint="f")
    problem(http.post(f"/v1/apply/pay/{key}", do), 409, "busy")
    for code, result in ((1, "by hand"), ):
        http.post(f"/v1/ops/pay/{key}/complete", {"fence": fence, "code": code, "result": result})
        assert http.post(f"/v1/apply/pay/{key}", do).json() == {
            "verdict": "REPLAY", "code": code, "result": result}


def test_registers_have_etags(http, key):
    path = f"/v1/objects/doc:{key}"
    problem(http.get(path), 404, "no-object")
    problem(http.put(path, b"a"), 428, "condition")
    problem(http.delete(path), 428, "condition")
    made = http.put(path, b"one", headers={"If-None-Match": "*"})
    assert made.json() == {"verdict": "APPLIED", "version": 1} and made.headers["ETag"] == '"1"'
    problem(http.put(path, b"two", headers={"If-None-Match": "*"}), 412, "version")
    got = http.get(path)
    assert got.headers["ETag"] == '"1"' and got.json()["value"] == "one"
    assert http.get(path, headers={"If-None-Match": '"1"'}).status_code == 304
    assert http.get(path, headers={"If-None-Match": '"7", "1"'}).status_code == 304
    assert http.get(path, headers={"If-None-Match": '"2"'}).status_code == 200
    binary = bytes(range(256))
    second = http.put(path, binary, headers={"If-Match": '"1"', "Content-Type": "image/png"})
    assert second.headers["ETag"] == '"2"'
    found = problem(http.put(path, b"late", headers={"If-Match": '"1"'}), 412, "version")
    assert found["verdict"] == "REJECTED" and "version 2" in found["detail"]
    assert base64.b64decode(http.get(path).json()["value_base64"]) == binary
    for bad in ("*", "1", '"x"', 'W/"1"', '"1", "2"', '""', '"' + "9" * 30 + '"'):
        problem(http.put(path, b"x", headers={"If-Match": bad}), 400, "bad-request")
    problem(http.put(path, b"x", headers={"If-None-Match": '"1"'}), 400, "bad-request")
    problem(http.put(path, b"x", headers={"If-Match": '"1"', "If-None-Match": "*"}), 400,
            "bad-request")


def test_deleting_leaves_a_tombstone(http, key):
    path = f"/v1/objects/doc:{key}"
    http.put(path, b"one", headers={"If-None-Match": "*"})
    for _ in range(2):
        assert http.delete(path, headers={"If-Match": '"1"'}).json()["version"] == 2
    gone = http.get(path)
    assert problem(gone, 404, "no-object")["version"] == 2 and gone.headers["ETag"] == '"2"'
    problem(http.put(path, b"late", headers={"If-Match": '"1"'}), 412, "version")
    assert http.put(path, b"new", headers={"If-Match": '"2"'}).json()["version"] == 3


def test_writes_under_a_key(http, key):
    path = f"/v1/objects/doc:{key}"
    for header, verdict in ((f'"{key}"', "APPLIED"), (key, "REPLAY")):
        answer = http.put(path, b"one", headers={"Idempotency-Key": header})
        assert answer.json() == {"verdict": verdict, "version": 1}
        assert answer.headers["ETag"] == '"1"'
    problem(http.put(path, b"two", headers={"Idempotency-Key": key}), 422, "mismatch")
    other = {"Idempotency-Key": key, "Once-Namespace": "pay"}
    assert http.put(path, b"two", headers=other).json()["version"] == 2
    assert http.get(f"/v1/ops/http/{key}").json()["state"] == "completed"
    assert http.get(f"/v1/ops/pay/{key}").json()["state"] == "completed"
    both = {"Idempotency-Key": key + "b", "If-Match": '"1"'}
    for replayed in (False, True):
        assert problem(http.put(path, b"x", headers=both), 412, "version")["replayed"] is replayed
    for _ in range(2):
        gone = http.delete(path, headers={"Idempotency-Key": key + "d"})
        assert gone.json()["version"] == 3
    for bad in ('"', "a b", "a,b", '"a";x=1', "k" * 256):
        problem(http.put(path, b"x", headers={"Idempotency-Key": bad}), 400, "bad-request")
    fence = http.fence("http", key + "o")
    http.post(f"/v1/ops/http/{key}o/complete", {"fence": fence, "code": 0, "result": "x"})
    problem(http.put(path, b"x", headers={"Idempotency-Key": key + "o"}), 422, "mismatch")


def test_values_have_a_bound(http, key):
    path = f"/v1/objects/doc:{key}"
    first = {"If-None-Match": "*"}
    problem(http.put(path, b"x" * ((1 << 18) + 1), headers=first), 413, "too-large")
    assert http.put(path, b"x" * (1 << 18), headers=first).status_code == 200
    assert len(http.get(path).json()["value"]) == 1 << 18


def test_items(http, key):
    for i in range(1, 6):
        http.post(f"/v1/apply/log/{key}-{i}", {"do": [
            ["APPEND", f"log:{key}", f"e{i}", f"payload {i}"],
            ["EMIT", f"out:{key}", {"base64": "/w=="}, "GROUP", "g"],
            ["BUCKET", f"b:{key}", f"day{i}", i]]})
    page = http.get(f"/v1/objects/log:{key}/items?count=3").json()
    assert [i["id"] for i in page["items"]] == ["e1", "e2", "e3"] and page["more"]
    rest = http.get(f"/v1/objects/log:{key}/items?after={page['cursor']}").json()
    assert rest["items"][0] == {"number": 4, "id": "e4", "payload": "payload 4"}
    assert not rest["more"] and rest["cursor"] == "5"
    message = http.get(f"/v1/objects/out:{key}/items?count=1").json()["items"][0]
    assert message == {"number": 1, "group": "g", "payload_base64": "/w=="}
    buckets = http.get(f"/v1/objects/b:{key}/items").json()["items"]
    assert buckets[1] == {"number": 2, "id": "day2"}
    assert http.get(f"/v1/objects/log:{key}").headers["ETag"] == '"5"'
    http.post(f"/v1/apply/log/{key}-c", {"do": [["ADD", f"c:{key}", 1]]})
    problem(http.get(f"/v1/objects/c:{key}/items"), 409, "object-type")


def test_objects_are_listed(http, key):
    names = {f"list:{key}:{i}" for i in range(30)}
    http.post("/v1/apply", {"do": [["FLAG", name] for name in sorted(names)]})
    found, cursor = {}, "0"
    while True:
        page = http.get(f"/v1/objects?count=9&cursor={cursor}").json()
        found.update((o["name"], o["type"]) for o in page["objects"])
        cursor = page["cursor"]
        if cursor == "0":
            break
    assert names <= set(found) and found[f"list:{key}:0"] == "flag"


def test_merge(http, server, key):
    http.post("/v1/apply", {"do": [["UNION", f"from:{key}", "a", "b"]]})
    with server.connect() as c:
        _, state = c("ONCE.DELTA", f"from:{key}", 0)
    body = {"state_base64": base64.b64encode(state).decode()}
    for changed in (True, False):
        assert http.post(f"/v1/objects/to:{key}/merge", body).json() == {
            "verdict": "OK", "changed": changed}
    assert http.get(f"/v1/objects/to:{key}").json()["members"] == ["a", "b"]
    problem(http.post(f"/v1/objects/to:{key}/merge", {"state_base64": "AAAA"}), 400, "bad-field")
    problem(http.post(f"/v1/objects/to:{key}/merge", {}), 400, "bad-field")
    http.post("/v1/apply", {"do": [["MAX", f"max:{key}", 1]]})
    problem(http.post(f"/v1/objects/max:{key}/merge", body), 409, "object-type")
