# SPDX-License-Identifier: Apache-2.0
"""HTTP as its clients use it: operations, bodies, queries and the server itself, good and bad.
Every answer is held against the OpenAPI document of the server that gave it (openapi_check.py).
"""
import base64
import concurrent.futures
import re
import socket

import pytest
import requests

from openapi_check import Http, http, key, metric, problem, raw, server  # noqa: F401 (fixtures)
from serving import HOST, Server, wait_for


# ---- Operations ---------------------------------------------------------------------------------

def test_begin_complete_replay(http, key):
    first = http.begin("pay", key, fingerprint="order 7", owner="w1").json()
    assert first == {"verdict": "EXECUTE", "fence": first["fence"], "attempt": 1, "point": None,
                     "data": None}
    again = http.begin("pay", key, fingerprint="order 7", owner="w1").json()
    assert again == first, "the same owner gets the same EXECUTE"
    done = {"fence": first["fence"], "code": 201, "result": "paid \u00fc \u0000 \"7\""}
    for _ in range(2):
        assert http.post(f"/v1/ops/pay/{key}/complete", done).json() == {"verdict": "OK"}
        replay = http.begin("pay", key, fingerprint="order 7").json()
        assert replay == {"verdict": "REPLAY", "code": 201, "result": done["result"]}


def test_an_empty_body_is_an_empty_object(http, key):
    answer = http.post(f"/v1/ops/pay/{key}/begin")
    assert answer.status_code == 200 and answer.json()["verdict"] == "EXECUTE"


def test_binary_travels_in_base64(http, key):
    data = bytes(range(256))
    coded = base64.b64encode(data).decode()
    fence = http.fence("bin", key, fingerprint_base64=coded)
    http.post(f"/v1/ops/bin/{key}/checkpoint",
              {"fence": fence, "point": "half", "data_base64": coded})
    assert http.get(f"/v1/ops/bin/{key}").json()["data_base64"] == coded
    assert http.post(f"/v1/ops/bin/{key}/complete",
                     {"fence": fence, "code": 0, "result_base64": coded}).status_code == 200
    assert http.begin("bin", key, fingerprint_base64=coded).json() == {
        "verdict": "REPLAY", "code": 0, "result_base64": coded}
    problem(http.begin("bin", key, fingerprint="another"), 422, "mismatch")
    # Text that was sent in base64 is answered as text.
    text = http.fence("bin", key + "t")
    http.post(f"/v1/ops/bin/{key}t/complete",
              {"fence": text, "code": 0, "result_base64": base64.b64encode(b"text").decode()})
    assert http.begin("bin", key + "t").json()["result"] == "text"


def test_the_largest_result_goes_through(http, key):
    data = bytes(range(256)) * (1 << 16)
    coded = base64.b64encode(data).decode()
    fence = http.fence("big", key)
    done = http.post(f"/v1/ops/big/{key}/complete",
                     {"fence": fence, "code": 1, "result_base64": coded})
    assert done.status_code == 200, done.text
    assert base64.b64decode(http.begin("big", key).json()["result_base64"]) == data


def test_busy_says_when_to_come_back(http, key):
    http.fence("pay", key)
    answer = http.begin("pay", key)
    found = problem(answer, 409, "busy")
    assert found["verdict"] == "BUSY" and 0 < found["retry_ms"] <= 1000
    assert answer.headers["Retry-After"] == "1"


def test_who_waits_gets_the_answer(http, server, key):
    fence = http.fence("pay", key)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        def wait(_):
            return requests.post(f"{server.url}/v1/ops/pay/{key}/begin", timeout=60,
                                 json={"wait_ms": 30000}).json()
        waiting = [pool.submit(wait, i) for i in range(20)]
        wait_for("all are parked", lambda: metric(server.url, "once_parked") == 20)
        http.post(f"/v1/ops/pay/{key}/complete", {"fence": fence, "code": 7, "result": "x"})
        assert [w.result() for w in waiting] == [
            {"verdict": "REPLAY", "code": 7, "result": "x"}] * 20


def test_a_wait_ends(http, key):
    http.fence("pay", key)
    assert problem(http.begin("pay", key, wait_ms=50), 409, "busy")["verdict"] == "BUSY"


def test_who_waited_and_went_away_is_not_given_the_operation(http, server, key):
    fence = http.fence("pay", key)
    body = b'{"wait_ms":60000}'
    gone = socket.create_connection((HOST, server.http))
    gone.sendall(b"POST /v1/ops/pay/%s/begin HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 b"application/json\r\nContent-Length: %d\r\n\r\n%s"
                 % (key.encode(), len(body), body))
    wait_for("it is parked", lambda: metric(server.url, "once_parked") == 1)
    gone.close()
    wait_for("it is gone", lambda: metric(server.url, "once_parked") == 0)
    assert http.post(f"/v1/ops/pay/{key}/fail", {"fence": fence}).status_code == 200
    assert http.begin("pay", key).json()["attempt"] == 2


def test_checkpoints_resume(http, key):
    fence = http.fence("pay", key, lease_ms=1)
    for _ in range(2):
        assert http.post(f"/v1/ops/pay/{key}/checkpoint", {
            "fence": fence, "point": "charged", "data": "ch_1", "after": ""}).json() == {
                "verdict": "OK"}

    def doubt():
        return http.begin("pay", key).status_code == 409 and \
            http.get(f"/v1/ops/pay/{key}").json()["state"] == "doubt"
    wait_for("the lease is over", doubt)
    found = problem(http.begin("pay", key), 409, "doubt")
    assert (found["verdict"], found["fence"], found["point"], found["data"]) == (
        "DOUBT", fence, "charged", "ch_1")
    taken = http.begin("pay", key, on_doubt="retry").json()
    assert taken["fence"] > fence and taken["point"] == "charged" and taken["data"] == "ch_1"
    stale = http.post(f"/v1/ops/pay/{key}/complete", {"fence": fence, "code": 0})
    assert problem(stale, 409, "stale")["verdict"] == "STALE"


def test_fail_frees_the_key(http, key):
    fence = http.fence("pay", key)
    assert http.post(f"/v1/ops/pay/{key}/fail", {"fence": fence, "reason": "no funds"}).json() == {
        "verdict": "OK"}
    found = http.get(f"/v1/ops/pay/{key}").json()
    assert (found["state"], found["reason"]) == ("failed", "no funds")
    assert http.begin("pay", key).json()["attempt"] == 2


def test_renew_and_giving_up(http, key):
    fence = http.fence("pay", key, lease_ms=60000)
    before = http.get(f"/v1/ops/pay/{key}").json()["lease_end_ms"]
    assert http.post(f"/v1/ops/pay/{key}/renew",
                     {"fence": fence, "lease_ms": 120000}).status_code == 200
    assert http.get(f"/v1/ops/pay/{key}").json()["lease_end_ms"] > before
    assert http.post(f"/v1/ops/pay/{key}/renew", {"fence": fence, "lease_ms": 0}).status_code == 200
    assert http.get(f"/v1/ops/pay/{key}").json()["state"] == "doubt"


@pytest.mark.parametrize("body, state", [
    ({"done": True, "code": 5, "result": "found it"}, "completed"), ({"done": False}, "failed"),
    ({"outcome": "DONE", "code": 5}, "completed"), ({"outcome": "NOTDONE"}, "failed")])
def test_resolve(http, key, body, state):
    fence = http.fence("pay", key)
    problem(http.post(f"/v1/ops/pay/{key}/resolve", body), 409, "busy")
    http.post(f"/v1/ops/pay/{key}/renew", {"fence": fence, "lease_ms": 0})
    problem(http.post(f"/v1/ops/pay/{key}/resolve", {**body, "fence": fence + 1}), 409, "stale")
    for _ in range(2):
        answer = http.post(f"/v1/ops/pay/{key}/resolve", body)
        assert answer.json() == {"verdict": "OK"}, answer.text
    assert http.get(f"/v1/ops/pay/{key}").json()["state"] == state


@pytest.mark.parametrize("body, field", [
    ({}, "done"), ({"done": True}, "code"), ({"done": False, "code": 1}, "code"),
    ({"done": False, "result": "x"}, "result"), ({"done": True, "outcome": "DONE"}, "done"),
    ({"outcome": "MAYBE"}, "outcome")])
def test_resolve_says_what_is_missing(http, key, body, field):
    found = problem(http.post(f"/v1/ops/pay/{key}/resolve", body), 400, "bad-field")
    assert found["field"] == field


def test_forget(http, key):
    fence = http.fence("pay", key)
    problem(http.delete(f"/v1/ops/pay/{key}"), 409, "busy")
    problem(http.delete(f"/v1/ops/pay/{key}?fence={fence + 1}"), 409, "stale")
    assert http.delete(f"/v1/ops/pay/{key}?fence={fence}").json() == {"verdict": "OK"}
    assert problem(http.get(f"/v1/ops/pay/{key}"), 404, "not-found")["verdict"] == "NOTFOUND"
    problem(http.delete(f"/v1/ops/pay/{key}"), 404, "not-found")


def test_what_was_never_begun_is_not_found(http, key):
    for name, body in (("complete", {"fence": 1, "code": 0}), ("fail", {"fence": 1}),
                       ("checkpoint", {"fence": 1, "point": "p"}),
                       ("renew", {"fence": 1, "lease_ms": 1}), ("resolve", {"done": False})):
        found = problem(http.post(f"/v1/ops/pay/{key}/{name}", body), 404, "not-found")
        assert found["verdict"] == "NOTFOUND", name


def test_an_old_key_is_too_old(http):
    found = problem(http.begin("pay", "01890a5d-ac96-774b-bcce-b302099a8057"), 422, "too-old")
    assert found["verdict"] == "TOO_OLD"


def test_codes_that_are_http_statuses(http, key):
    for code, verdict, state in ((200, "OK", "completed"), (429, "RELEASED", "failed"),
                                 (502, "DOUBT", "doubt")):
        name = f"{key}-{code}"
        fence = http.fence("web", name)
        assert http.post(f"/v1/ops/web/{name}/complete",
                         {"fence": fence, "code": code}).json() == {"verdict": verdict}
        assert http.get(f"/v1/ops/web/{name}").json()["state"] == state


def test_list_pages(http):
    fences = {f"k{i}": http.fence("pages", f"k{i}") for i in range(25)}
    http.post("/v1/ops/pages/k0/complete", {"fence": fences["k0"], "code": 3})
    found, cursor = [], "0"
    while True:
        page = http.get(f"/v1/ops/pages?count=7&cursor={cursor}").json()
        found += page["operations"]
        cursor = page["cursor"]
        if cursor == "0":
            break
    assert {item["key"]: item["fence"] for item in found} == fences and len(found) == 25
    done = http.get("/v1/ops/pages?state=completed").json()["operations"]
    assert [(item["key"], item["code"]) for item in done] == [("k0", 3)]
    assert len(http.get("/v1/ops/pages?state=started").json()["operations"]) == 24
    assert http.get("/v1/ops/nobody").json()["operations"] == []


def test_paths_are_decoded(http, server):
    fence = http.fence("pay", "a%2Fb%20c%3F")
    assert http.get("/v1/ops/pay/a%2Fb%20c%3F").json()["key"] == "a/b c?"
    assert fence > 0
    for bad in ("%zz", "%", "a%4", "%4g"):
        assert raw(server, f"GET /v1/ops/pay/{bad} HTTP/1.1\r\nHost: localhost\r\n\r\n") == 400
    found = problem(http.begin("pay", "%C3%BC"), 400, "bad-field")
    assert found["error"] == "ERR_KEY_CHARACTER"
    found = problem(http.begin("pay", "k" * 256), 400, "bad-field")
    assert found["error"] == "ERR_KEY_TOO_LONG"
    problem(http.begin("pay", "k" * 2000), 400, "bad-request")
    problem(http.begin("a%20b", "k"), 400, "bad-field")
    assert problem(http.begin("pay", ""), 400, "bad-field")["error"] == "ERR_KEY_EMPTY"
    assert problem(http.begin("", "k"), 400, "bad-field")["error"] == "ERR_INVALID"


# ---- Bad bodies ---------------------------------------------------------------------------------

BAD_FIELDS = [
    ("begin", {"fingreprint": "x"}, "fingreprint", "not a field"),
    ("begin", {"fingerprint": 7}, "fingerprint", "is a string, not a number"),
    ("begin", {"fingerprint": "a", "fingerprint_base64": "YQ=="}, "fingerprint", "twice"),
    ("begin", {"fingerprint_base64": "YQ="}, "fingerprint_base64", "base64"),
    ("begin", {"fingerprint_base64": "Y R="}, "fingerprint_base64", "base64"),
    ("begin", {"owner_base64": "YQ=="}, "owner_base64", "not a field"),
    ("begin", {"owner": None}, "owner", "not null"),
    ("begin", {"owner": "o" * 65}, "owner", "at most 64"),
    ("begin", {"ttl_ms": "5"}, "ttl_ms", "whole number, not a string"),
    ("begin", {"ttl_ms": 1.5}, "ttl_ms", "fraction"),
    ("begin", {"ttl_ms": 0}, "ttl_ms", "from 1 to"),
    ("begin", {"lease_ms": -1}, "lease_ms", "from 1 to"),
    ("begin", {"on_doubt": "RETRY"}, "on_doubt", '"reject", "retry"'),
    ("begin", {"wait_ms": True}, "wait_ms", "not true or false"),
    ("complete", {"code": 1}, "fence", "missing"),
    ("complete", {"fence": 1}, "code", "missing"),
    ("complete", {"fence": 1, "code": 1 << 31}, "code", "from -2147483648 to 2147483647"),
    ("complete", {"fence": 1 << 53, "code": 1}, "fence", "9007199254740991"),
    ("complete", {"fence": 1, "code": 1, "result": {"a": 1}}, "result", "string, not an object"),
    ("fail", {"fence": 1, "reason": "r" * 5000}, "reason", "at most 4096"),
    ("checkpoint", {"fence": 1}, "point", "missing"),
    ("checkpoint", {"fence": 1, "point": "p" * 65}, "point", "at most 64"),
    ("renew", {"fence": 1}, "lease_ms", "missing"),
    ("resolve", {"done": 1}, "done", "true or false, not a number"),
]


@pytest.mark.parametrize("call, body, field, text", BAD_FIELDS)
def test_a_bad_field_is_named(http, call, body, field, text):
    found = problem(http.post(f"/v1/ops/bad/k/{call}", body), 400, "bad-field")
    assert found["field"] == field and text in found["detail"] and found["error"] == "ERR_INVALID"
    assert found["detail"].startswith(field + ": ")


@pytest.mark.parametrize("body, text", [
    (b"{", "not JSON: line 1"), (b"[]", "not an array"), (b'"x"', "not a string"),
    (b'{"a":1}{', "not JSON"), (b'{"owner":"a","owner":"b"}', "not JSON"),
    (b'{"owner":"\xff"}', "not JSON"), (b'{"ttl_ms":99999999999999999999}', "not JSON"),
    (b"[" + b"0," * 30000 + b"0]", "not an array")])
def test_a_bad_body_says_where(http, body, text):
    answer = http.post("/v1/ops/bad/k/begin", data=body,
                       headers={"Content-Type": "application/json"})
    assert text in problem(answer, 400, "bad-field")["detail"]


def test_bodies_have_bounds(http, server):
    large = {"fingerprint": "x" * 70000}
    found = problem(http.post("/v1/ops/bad/k/begin", large), 413, "too-large")
    assert "65536" in found["detail"]
    answer = http.post("/v1/ops/bad/k/begin", data=(b" " * 1000 for _ in range(100)),
                       headers={"Content-Type": "application/json"})
    problem(answer, 413, "too-large")  # in pieces, without a length
    many = b'{"do":' + b"[" * 100 + b"[]," * 300000 + b"[]" + b"]" * 100 + b"}"
    answer = http.post("/v1/apply", data=many, headers={"Content-Type": "application/json"})
    assert "values" in problem(answer, 400, "bad-field")["detail"]
    problem(http.get("/healthz", data=b"x"), 413, "too-large")
    # The same connection goes on.
    session = requests.Session()
    for _ in range(3):
        assert session.post(f"{server.url}/v1/ops/bad/k/begin", json={"x": 1},
                            timeout=30).status_code == 400
        assert session.get(f"{server.url}/healthz", timeout=30).status_code == 200


@pytest.mark.parametrize("query", ["state=done", "count=0", "count=1001", "count=x", "cursor=-1",
                                   "cursor=99999999999999999999", "kount=1", "count=1&count=2"])
def test_bad_queries(http, query):
    found = problem(http.get(f"/v1/ops/pay?{query}"), 400, "bad-field")
    assert found["field"] == query.split("=")[0]


def test_a_query_that_is_no_text_is_refused_in_text(http):
    found = problem(http.get("/v1/ops/pay?%FF%FE=1"), 400, "bad-field")
    assert found["detail"] == "a parameter whose name is not UTF-8" and "field" not in found


def test_queries_are_decoded(http, server):
    assert http.get("/v1/ops/pay?st%61te=%73tarted").status_code == 200
    assert raw(server, "GET /v1/ops/pay?state=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n") == 400


def test_types_of_bodies(http):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx",
                 "multipart/form-data; boundary=x", "text/json"):
        answer = http.post("/v1/ops/bad/k/begin", data=b"{}", headers={"Content-Type": kind})
        problem(answer, 415, "media-type")
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json", None):
        answer = http.post("/v1/ops/bad/types/begin", data=b'{"owner":"o"}',
                           headers={"Content-Type": kind})
        assert answer.status_code == 200, kind


# ---- The server ---------------------------------------------------------------------------------

def test_retention_is_published(http):
    found = http.get("/v1/namespaces/anything").json()
    assert (found["namespace"], found["retention_ms"], found["lease_ms"]) == (
        "anything", 86400000, 30000)
    listed = {n["namespace"]: n for n in http.get("/v1/namespaces").json()["namespaces"]}
    assert listed["web"]["codes"] == "http" and listed["*"]["codes"] == "any"
    problem(http.get("/v1/namespaces/a%20b"), 400, "bad-field")


def test_only_declared_namespaces(tmp_path):
    with Server(tmp_path, "namespaces = declared\n[namespace pay]\nretention = 1h\n"
                "[namespace ready]\n") as running:
        http = Http(running.url)
        assert http.get("/v1/namespaces/pay").json()["retention_ms"] == 3600000
        problem(http.get("/v1/namespaces/other"), 404, "no-namespace")
        listed = http.get("/v1/namespaces").json()
        assert listed["declared_only"] and {n["namespace"] for n in listed["namespaces"]} == {
            "pay", "ready"}
        problem(http.begin("other", "k"), 400, "bad-field")


def test_health_and_metrics(http, server):
    assert http.get("/healthz").json() == {"status": "alive"}
    assert http.get("/readyz").json() == {"status": "ready"}
    before = metric(server.url, "once_http_requests_total")
    assert http.get("/metrics").status_code == 200
    assert metric(server.url, "once_http_requests_total") > before


def test_the_page_and_its_files(http):
    """The dashboard in the binary: what it names is there, of its type, and may be kept and asked
    for again. What it does is told in test_dashboard*.py."""
    page = http.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    paths, seen = re.findall(r'(?:src|href)="(web/[^"]+)"', page.text), {"/": page}
    while paths:
        path = "/" + paths.pop()
        if path not in seen:
            seen[path] = http.get(path)
            paths += ["web/" + name for name in re.findall(r"from '\./([^']+)'", seen[path].text)]
    assert len(seen) > 10 and {"/web/app.js", "/web/style.css", "/web/icon.svg"} < set(seen)
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
             ".svg": "image/svg+xml", "/": "text/html; charset=utf-8"}
    for path, answer in seen.items():
        assert answer.status_code == 200, path
        headers = answer.headers
        assert headers["Content-Type"] == types["/" if path == "/" else path[path.rindex("."):]]
        assert headers["Cache-Control"] == "no-cache" and headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "base-uri 'none'",
                     "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
            assert part in policy.split("; "), path
        assert "unsafe" not in policy
        etag = headers["ETag"]
        for known in (etag, f'"x", W/{etag}', "*"):
            same = http.get(path, headers={"If-None-Match": known})
            assert same.status_code == 304 and same.content == b"" and same.headers["ETag"] == etag
        assert http.get(path, headers={"If-None-Match": '"other"'}).content == answer.content
    for path in ("/web/none.js", "/web/index.html", "/web/..%2Fweb.h", "/web/%00"):
        problem(http.get(path), 404, "no-file")


def test_head_is_get_without_its_body(http, key):
    http.fence("pay", key)
    for path in (f"/v1/ops/pay/{key}", "/v1/namespaces", "/healthz", "/metrics", "/"):
        answer = http("HEAD", path)
        assert answer.status_code == 200 and int(answer.headers["Content-Length"]) > 0
    problem_head = http("HEAD", "/v1/ops/pay/none-such")
    assert problem_head.status_code == 404


def test_unknown_paths_and_methods(http):
    for path in ("/v1", "/v1/op", "/v1/ops/a/b/c", "/v1/ops/a/b/begin/", "/healthz/", "//", "/v2"):
        problem(http.get(path), 404, "no-route")
    for method, path, allow in (("PUT", "/v1/ops/a/b", "GET, HEAD, DELETE"),
                                ("GET", "/v1/ops/a/b/begin", "POST"),
                                ("OPTIONS", "/v1/objects/x", "GET, HEAD, PUT, DELETE"),
                                ("POST", "/", "GET, HEAD")):
        answer = http(method, path)
        problem(answer, 405, "method")
        assert answer.headers["Allow"] == allow
