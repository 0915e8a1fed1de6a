# SPDX-License-Identifier: Apache-2.0
"""The ways in which nginx itself would ask a service again, or another one: error pages, redirects
inside of nginx into locations of their own, methods that it takes for harmless. One effect per key,
whatever the configuration around `once` says. And what it takes for an answer that is none.
"""
import pytest
from gateway_raw import Client, state
from gateway_tools import Gateway, stack
from serving import HOST, wait_for

HTTP = """
    proxy_cache_path {folder}/cache keys_zone=cache:1m;
    upstream twice {{ server {host}:{port} max_fails=0; server {host}:{port} max_fails=0; }}
"""
TWICE = "proxy_pass http://twice;"
LOCATIONS = {
    "/": "once on;",
    "/other/": "once on; proxy_intercept_errors on; error_page 404 500 502 503 504 = @other;",
    "@other": "proxy_set_header X-Do ok; proxy_pass http://behind;",
    "/never/": "once on; once_namespace $http_x_ns; error_page 500 = @other;",
    "/page/": "once on; proxy_intercept_errors on; error_page 500 502 = @page;",
    "@page": "default_type text/plain; return 502 page;",
    "/tried/": "once on; once_methods POST PUT; root /nowhere; try_files $uri @tried;",
    "@tried": f"proxy_next_upstream error timeout non_idempotent; {TWICE}",
    "/cached/": "once on; proxy_cache cache; proxy_cache_methods POST; proxy_cache_key $uri; "
                "proxy_cache_valid any 1h;",
    "/upgrade/": "once on; proxy_set_header Connection $http_connection; "
                 "proxy_set_header Upgrade $http_upgrade;",
    "/unknown/": f"once on; {TWICE}",
    "/second/": "internal; proxy_set_header X-Do status=503,no_effect; proxy_pass http://behind;",
}


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    real = Gateway.text

    def text(self):
        if "upstream twice" not in self.http:
            self.http += HTTP.format(folder=self.folder, host=HOST, port=self.upstream.port)
        return real(self)

    Gateway.text = text
    try:
        with stack(tmp_path_factory.mktemp("repeat"), LOCATIONS) as running:
            yield running
    finally:
        Gateway.text = real


@pytest.mark.parametrize("plan", ["close", "status=500"])
def test_an_error_page_does_not_ask_again(s, plan):
    key = f"other-{plan}"
    answer = s.gateway.post("/other/", key, do=plan)
    assert s.upstream.effects(key) == 1, answer
    assert answer.get("X-Should-Retry") == "false", answer
    assert state(s.server, key) == "doubt"


@pytest.mark.parametrize("plan", ["status=404,no_effect", "status=503,no_effect"])
def test_an_error_page_may_ask_where_nothing_happened(s, plan):
    key = "may-" + plan.split(",")[0]
    assert s.gateway.post("/other/", key, do=plan).status == 201
    assert s.upstream.effects(key) == 1 and state(s.server, key) == "completed"


def test_an_error_page_is_no_way_around(s):
    """A request that cannot even begin is not sent on by the page for that."""
    headers = {"X-Ns": "not a namespace" * 10}
    assert s.gateway.post("/never/", "never-1", headers=headers).status == 500
    assert s.upstream.requests("never-1") == 0


def test_an_error_page_that_asks_nobody_is_shown(s):
    answer = s.gateway.post("/page/", "page-1", do="close")
    assert answer.body == b"page" and state(s.server, "page-1") == "doubt"


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_location_behind_try_files_is_guarded(s, method):
    key = f"tried-{method}"
    assert s.gateway.ask("/tried/", key, method=method, do="close").status == 502
    assert s.upstream.effects(key) == 1
    assert state(s.server, key) == "doubt"


def test_a_client_that_goes_behind_try_files(s):
    with Client(s.gateway.port) as client:
        client.head("/tried/", "Idempotency-Key: gone-1", "X-Do: after=0.3", "Content-Length: 0")
        s.upstream.wait_effects("gone-1")
    wait_for("its end", lambda: state(s.server, "gone-1") == "completed")


def test_an_unknown_method_is_not_protected(s):
    answer = s.gateway.ask("/unknown/", "unknown-1", method="FROB")
    again = s.gateway.ask("/unknown/", "unknown-1", method="FROB")
    assert answer.status == 201 and not again.replayed
    assert state(s.server, "unknown-1") is None


def test_a_second_service_that_was_busy_does_not_free_the_key(s):
    """The first has done it, and sends the client on to another, which says 503."""
    plan = "status=200,header=X-Accel-Redirect:/second/"
    answer = s.gateway.post("/", "accel-503", do=plan)
    assert s.upstream.effects("accel-503") == 1, answer
    assert state(s.server, "accel-503") == "doubt", answer
    s.gateway.post("/", "accel-503", do=plan)
    assert s.upstream.effects("accel-503") == 1


@pytest.mark.parametrize("status", [100, 101, 103])
def test_what_is_no_answer_is_not_passed_on(s, status):
    key = f"early-{status}"
    with Client(s.gateway.port) as client:
        client.head("/upgrade/", f"Idempotency-Key: {key}", f"X-Do: status={status}",
                    "Content-Length: 0", "Connection: upgrade", "Upgrade: x")
        answer = client.answer()
        assert answer.status == 502 and answer.problem == "doubt", answer
    assert s.upstream.effects(key) == 1 and state(s.server, key) == "doubt"


def test_a_cache_does_not_answer_for_another_key(s):
    for key in ("cached-1", "cached-2"):
        answer = s.gateway.post("/cached/", key)
        assert answer.json["key"] == key and s.upstream.effects(key) == 1
        assert s.gateway.post("/cached/", key).replayed
