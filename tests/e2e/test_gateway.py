# SPDX-License-Identifier: Apache-2.0
"""The way of a request through the gateway: its key, its scope, its fingerprint, and the verdicts.
Replays and what stands around in nginx are in test_gateway_around, what became of the upstream's
call in test_gateway_outcomes.
"""
import hashlib
import subprocess
import time

import pytest
from gateway_raw import Client, Later, operation, said, state
from gateway_tools import stack
from serving import once_binary, wait_for

HTTP = 'map $http_x_tenant $tenant { default $http_x_tenant; "" none; }'
LOCATIONS = {
    "/": "once on;",
    "/require/": "once require;",
    "/off/": "once off;",
    "/scope/": "once on; once_namespace scope; once_scope $http_authorization;",
    "/tenant/": 'once on; once_namespace "t.$tenant";',
    "/json/": "once on; once_fingerprint json X-Version;",
    "/wait/": "once on; once_wait 20s;",
    "/short-wait/": "once on; once_wait 100ms;",
    "/methods/": "once on; once_methods PUT DELETE GET;",
    "/small/": "once on; once_max_body 1k; client_max_body_size 0;",
    "/stripe/": "once require; once_profile stripe;",
    "/ttl/": "once on; once_ttl 1h;",
}


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    with stack(tmp_path_factory.mktemp("gateway"), LOCATIONS, http=HTTP) as running:
        yield running


# ---- Keys ----------------------------------------------------------------------------------------

def test_a_key_quoted_or_bare_is_the_same_key(s):
    first = s.gateway.post("/", "form-1", b"{}")
    again = s.gateway.post("/", '"form-1"', b"{}")
    assert (first.status, again.status) == (201, 201)
    assert again.replayed and not first.replayed and again.body == first.body
    assert s.upstream.effects("form-1") == 1


@pytest.mark.parametrize("key", ['"open', '""', "", "a b", '"a\\x"', "k\xe9", "x" * 256,
                                 '"%s"' % ("x" * 256), "a\tb", '"a" b', "a,b\x7f"])
def test_a_malformed_key_is_refused(s, key):
    before = s.gateway.counts()["bad_key"]
    answer = s.gateway.post("/", key, b"{}")
    assert (answer.status, answer.problem) == (400, "key-malformed"), answer
    assert answer.get("X-Should-Retry") == "false" and answer.json["detail"]
    assert s.gateway.counts()["bad_key"] == before + 1
    assert not any(len(k) > 255 or k.strip('"') == key.strip('"') for k in s.upstream.counts())


def test_the_longest_key(s):
    key = "k" * 255
    assert s.gateway.post("/", key, b"{}").status == 201
    assert s.gateway.post("/", key, b"{}").replayed
    assert s.upstream.effects(key) == 1


def test_two_keys_are_refused(s):
    for lines in (["Idempotency-Key: two-1", "Idempotency-Key: two-1"],
                  ["Idempotency-Key: two-1", "idempotency-key: two-2"]):
        with Client(s.gateway.port) as client:
            answer = client.head("/", *lines, "Content-Length: 0").answer()
        assert (answer.status, answer.problem) == (400, "key-malformed")
    assert s.upstream.effects("two-1") == s.upstream.effects("two-2") == 0


def test_no_key(s):
    assert s.gateway.post("/", None, b"{}").status == 201
    refused = s.gateway.post("/require/", None, b"{}")
    assert (refused.status, refused.problem) == (400, "key-missing")
    assert s.gateway.post("/require/", "required-1", b"{}").status == 201


def test_off(s):
    for count in (1, 2):
        assert s.gateway.post("/off/", "off-1", b"{}").json["effects"] == count
    assert state(s.server, "off-1") is None


def test_other_methods_pass(s):
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        for count in (1, 2):
            answer = s.gateway.ask("/", f"pass-{method}", method=method)
            assert (answer.status, answer.json["effects"]) == (201, count)
    assert s.gateway.ask("/", "pass-head", method="HEAD").status == 201
    assert s.upstream.effects("pass-head") == 1 and state(s.server, "pass-head") is None


def test_chosen_methods(s):
    for method in ("PUT", "DELETE", "GET"):
        first = s.gateway.ask("/methods/", f"chosen-{method}", method=method)
        again = s.gateway.ask("/methods/", f"chosen-{method}", method=method)
        assert again.replayed and said(first) == said(again)
    for count in (1, 2):
        assert s.gateway.post("/methods/", "chosen-post").json["effects"] == count


# ---- Scope and fingerprint -----------------------------------------------------------------------

def test_callers_never_meet(s):
    seen = {}
    for who in ("Bearer a", "Bearer b", None):
        headers = {"Authorization": who} if who else {}
        answer = s.gateway.post("/scope/", "shared", b"{}", headers=headers)
        assert answer.status == 201 and not answer.replayed
        seen[who] = answer.body
        assert s.gateway.post("/scope/", "shared", b"{}", headers=headers).body == answer.body
    assert len(set(seen.values())) == 3 and s.upstream.effects("shared") == 3
    with s.server.connect() as call:
        assert b"Bearer" not in repr(call("ONCE.LIST", "scope")).encode()


def test_a_namespace_of_variables(s):
    for tenant in ("red", "blue"):
        assert not s.gateway.post("/tenant/", "t-1", headers={"X-Tenant": tenant}).replayed
        assert state(s.server, "t-1", f"t.{tenant}") == "completed"
    bad = s.gateway.post("/tenant/", "t-1", headers={"X-Tenant": "no blanks"})
    assert bad.status == 500 and s.upstream.effects("t-1") == 2
    bad = s.gateway.post("/tenant/", "t-1", headers={"X-Tenant": "x" * 300})
    assert bad.status == 500 and s.upstream.effects("t-1") == 2


def test_a_fence_of_a_client_is_not_believed(s):
    forged = {"Once-Fence": "999999", "Once-Attempt": "77"}
    answer = s.gateway.post("/", "forged-1", b"{}", headers=forged).json
    assert 0 < int(answer["fence"]) < 999999 and answer["attempt"] == "1"
    assert [k.lower() for k, _ in answer["headers"]].count("once-fence") == 1
    for key, method in ((None, "POST"), ("forged-2", "PUT"), (None, "GET")):
        answer = s.gateway.ask("/", key, method=method, headers=forged).json
        assert (answer["fence"], answer["attempt"]) == ("0", "0")


def test_the_upstream_gets_key_fence_and_attempt(s):
    first = s.gateway.post("/", '"told-1"', b"{}", do="status=503,no_effect|ok")
    answer = s.gateway.post("/", '"told-1"', b"{}", do="status=503,no_effect|ok").json
    headers = {k.lower(): v for k, v in answer["headers"]}
    assert first.status == 503
    assert headers["idempotency-key"] == '"told-1"' and answer["attempt"] == "2"
    assert int(answer["fence"]) == operation(s.server, "told-1")["fence"]


@pytest.mark.parametrize("other", [dict(body=b'{"a":2}'), dict(path="/elsewhere"),
                                   dict(path="/?x=1"), dict(method="PATCH")],
                         ids=lambda other: next(iter(other.values())))
def test_another_request_with_the_key_is_refused(s, other):
    key = "mismatch-" + hashlib.sha256(repr(other).encode()).hexdigest()
    request = {"path": "/", "body": b'{"a":1}', "method": "POST"}
    assert s.gateway.ask(key=key, **request).status == 201
    refused = s.gateway.ask(key=key, **{**request, **other})
    assert (refused.status, refused.problem) == (422, "mismatch")
    assert refused.get("Stripe-Should-Retry") == "false" and s.upstream.effects(key) == 1


def test_mismatch_comes_before_busy_and_doubt(s):
    running = Later(s.gateway.post, "/", "first-1", b"a", do="hold=first-1")
    s.upstream.wait_effects("first-1")
    assert s.gateway.post("/", "first-1", b"b").problem == "mismatch"
    assert s.gateway.post("/", "first-1", b"a").problem == "busy"
    s.upstream.let_go("first-1")
    assert running.result().status == 201
    assert s.gateway.post("/", "first-2", b"a", do="close").status == 502
    assert s.gateway.post("/", "first-2", b"b").problem == "mismatch"


def test_json_fingerprints(s):
    ask = s.gateway.post
    version = {"X-Version": "1"}
    first = ask("/json/", "json-1", b'{"a": 1, "b": [true]}', headers=version)
    assert ask("/json/", "json-1", b'{"b":[true],"a":1.0}', headers=version).body == first.body
    assert ask("/json/", "json-1", b'{"b":[true],"a":2}', headers=version).problem == "mismatch"
    other = ask("/json/", "json-1", b'{"b":[true],"a":1}', headers={"X-Version": "2"})
    assert other.problem == "mismatch"
    # No JSON: byte for byte.
    assert ask("/json/", "json-2", b"{not json").status == 201
    assert ask("/json/", "json-2", b"{not json").replayed
    assert ask("/json/", "json-2", b"{not  json").problem == "mismatch"
    # Raw: a blank more is another request.
    assert ask("/", "json-3", b'{"a":1}').status == 201
    assert ask("/", "json-3", b'{"a": 1}').problem == "mismatch"


def test_a_body_in_a_file_is_fingerprinted(s):
    body = bytes(range(256)) * 1024
    first = s.gateway.post("/", "file-1", body)
    assert first.json["size"] == len(body)
    assert s.gateway.post("/", "file-1", body).body == first.body
    assert s.gateway.post("/", "file-1", body[:-1] + b"!").problem == "mismatch"


# ---- Verdicts ------------------------------------------------------------------------------------

def test_busy(s):
    running = Later(s.gateway.post, "/", "busy-1", b"", do="hold=busy-1")
    s.upstream.wait_effects("busy-1")
    refused = s.gateway.post("/", "busy-1")
    assert (refused.status, refused.problem) == (409, "busy")
    assert int(refused.get("Retry-After")) >= 1 and refused.get("Cache-Control") == "no-store"
    assert refused.get("X-Should-Retry") is None
    late = s.gateway.post("/short-wait/", "busy-1")
    assert late.problem == "mismatch"  # another path
    s.upstream.let_go("busy-1")
    assert running.result().status == 201 and s.upstream.effects("busy-1") == 1


def test_wait(s):
    first = Later(s.gateway.post, "/wait/", "wait-1", do="hold=wait-1")
    s.upstream.wait_effects("wait-1")
    waited = s.gateway.counts()["waited"]
    second = Later(s.gateway.post, "/wait/", "wait-1")
    wait_for("it waits", lambda: s.gateway.counts()["waited"] == waited + 1)
    s.upstream.let_go("wait-1")
    assert second.result().replayed and said(second.value) == said(first.result())
    # One that waits too long is told so.
    third = Later(s.gateway.post, "/short-wait/", "wait-2", do="hold=wait-2")
    s.upstream.wait_effects("wait-2")
    began = time.monotonic()
    assert s.gateway.post("/short-wait/", "wait-2").problem == "busy"
    assert 0.1 <= time.monotonic() - began < 10
    s.upstream.let_go("wait-2")
    assert third.result().status == 201


def test_one_that_waits_takes_over_what_was_released(s):
    plan = "hold=over-1,no_effect,status=503|ok"
    first = Later(s.gateway.post, "/wait/", "over-1", do=plan)
    s.upstream.wait_requests("over-1")
    waited = s.gateway.counts()["waited"]
    second = Later(s.gateway.post, "/wait/", "over-1", do=plan)
    wait_for("it waits", lambda: s.gateway.counts()["waited"] == waited + 1)
    s.upstream.let_go("over-1")
    assert first.result().status == 503
    assert second.result().status == 201 and second.value.json["attempt"] == "2"


def test_doubt_is_refused_until_it_is_resolved(s):
    assert s.gateway.post("/", "doubt-1", b"{}", do="close").status == 502
    refused = s.gateway.post("/", "doubt-1", b"{}")
    assert (refused.status, refused.problem) == (409, "doubt")
    assert refused.get("Stripe-Should-Retry") == refused.get("X-Should-Retry") == "false"
    assert refused.get("Retry-After") is None and s.upstream.effects("doubt-1") == 1
    for key, options, status, kind in (
            ("doubt-1", ["--done", "--code", "202", "--result", '{"by":"hand"}'], 202,
             "application/json"),
            ("doubt-2", ["--done", "--result", "plain"], 200, "text/plain")):
        s.gateway.post("/", key, b"{}", do="close")
        subprocess.run([str(once_binary()), "resolve", "--dir", str(s.server.dir), "http", key,
                        *options], check=True, stdout=subprocess.DEVNULL, timeout=30)
        answer = s.gateway.post("/", key, b"{}")
        assert (answer.status, answer.body.decode()) == (status, options[-1]), answer
        assert answer.replayed and answer.get("Content-Type") == kind
        assert s.upstream.effects(key) == 1
    s.gateway.post("/", "doubt-3", b"{}", do="drop|ok")
    subprocess.run([str(once_binary()), "resolve", "--dir", str(s.server.dir), "http", "doubt-3",
                    "--not-done"], check=True, stdout=subprocess.DEVNULL, timeout=30)
    assert s.gateway.post("/", "doubt-3", b"{}", do="drop|ok").json["effects"] == 1


def test_a_key_that_is_too_old(s):
    def key(age_s):
        ms = int((time.time() - age_s) * 1000)
        return f"{ms >> 16:08x}-{ms & 0xffff:04x}-7000-8000-000000000001"

    refused = s.gateway.post("/ttl/", key(3 * 86400))
    assert (refused.status, refused.problem) == (422, "too-old")
    assert refused.get("X-Should-Retry") == "false" and s.upstream.effects(key(3 * 86400)) == 0
    assert s.gateway.post("/ttl/", key(60)).status == 201


def test_the_stripe_profile(s):
    def error(answer):
        assert answer.get("Content-Type") == "application/json"
        return answer.status, answer.json["error"]["type"], answer.json["error"].get("code")

    ask = s.gateway.post
    assert error(ask("/stripe/", None)) == (400, "invalid_request_error", None)
    running = Later(ask, "/stripe/", "stripe-1", b"a", do="hold=stripe-1")
    s.upstream.wait_effects("stripe-1")
    assert error(ask("/stripe/", "stripe-1", b"b")) == (400, "idempotency_error", None)
    in_use = (409, "idempotency_error", "idempotency_key_in_use")
    assert error(ask("/stripe/", "stripe-1", b"a")) == in_use
    s.upstream.let_go("stripe-1")
    running.result()
    again = ask("/stripe/", "stripe-1", b"a")
    assert again.get("Idempotent-Replayed") == "true" and said(again) == said(running.value)
    assert error(ask("/stripe/", "stripe-2", do="close"))[0] == 502
    refused = ask("/stripe/", "stripe-2")
    assert error(refused) == (409, "idempotency_error", "idempotency_in_doubt")
    assert refused.get("Stripe-Should-Retry") == "false"


def test_a_body_over_the_bound(s):
    small = s.gateway.post("/small/", "bound-1", b"x" * 1024)
    assert small.status == 201
    refused = s.gateway.post("/small/", "bound-2", b"x" * 1025)
    assert (refused.status, refused.problem) == (413, "too-large")
    with Client(s.gateway.port) as client:
        client.head("/small/", "Idempotency-Key: bound-2", "Transfer-Encoding: chunked")
        client.send("800\r\n", b"x" * 2048, "\r\n0\r\n\r\n")
        refused = client.answer()
        assert (refused.status, refused.problem) == (413, "too-large")
        # The connection is still good.
        client.head("/small/", "Idempotency-Key: bound-3", "Transfer-Encoding: chunked")
        client.send("400\r\n", b"x" * 1024, "\r\n0\r\n\r\n")
        assert client.answer().json["size"] == 1024
    with Client(s.gateway.port) as client:
        client.head("/small/", "Idempotency-Key: bound-2", "Transfer-Encoding: chunked")
        for _ in range(100):
            client.send("10000\r\n", b"x" * 65536, "\r\n")
        refused = client.send("0\r\n\r\n").answer()
        assert (refused.status, refused.problem) == (413, "too-large")
        client.head("/small/", "Idempotency-Key: bound-4", "Content-Length: 0")
        assert client.answer().status == 201
    written = s.gateway.folder.glob("temp/body/**/*")
    assert sum(path.stat().st_size for path in written if path.is_file()) < 200000
    assert s.upstream.effects("bound-2") == 0 and state(s.server, "bound-2") is None
