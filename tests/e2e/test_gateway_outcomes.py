# SPDX-License-Identifier: Apache-2.0
"""What became of the upstream's call, told apart: each row with a real upstream that misbehaves,
and the same request again afterwards.
"""
import re
import signal

import pytest
from gateway_raw import Client, Http2, Later, operation, said, start, state, wait_state
from gateway_tools import Gateway, alive, ask, black_hole, stack
from serving import HOST, free_port, wait_for

# Long enough for an effect on a slow machine; only where it is to be over.
QUICK = "proxy_connect_timeout 2s; proxy_read_timeout 2s; proxy_send_timeout 2s;"


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    dead = free_port()
    with black_hole() as hole:
        locations = {
            "/": "once on;",
            "/quick/": f"once on; {QUICK}",
            "/dead/": f"once on; proxy_pass http://{HOST}:{dead}; {QUICK}",
            "/hole/": f"once on; proxy_pass http://{HOST}:{hole}; {QUICK}",
            "/tls/": f"once on; proxy_pass https://behind; {QUICK}",
            "/name/": f"once on; resolver {HOST}:{dead}; resolver_timeout 300ms; "
                      "set $where nowhere.invalid; proxy_pass http://$where;",
            "/release/": "once on; once_on_5xx release;",
            "/store/": "once on; once_on_5xx store;",
            "/doubt/": "once on; once_on_5xx doubt;",
            "/retry/": "once on; once_doubt retry;",
            "/small/": "once on; once_max_answer 1k;",
            "/small-direct/": "once on; once_max_answer 1k; proxy_buffering off;",
            "/direct/": "once on; proxy_buffering off;",
            "/direct/quick/": f"once on; proxy_buffering off; {QUICK}",
            "/wait/": "once on; once_wait 20s;",
            "/lease/": "once on; once_lease 3s;",
            "/slow-send/": "once on; send_timeout 1s;",
        }
        with stack(tmp_path_factory.mktemp("outcomes"), locations) as running:
            running.status_port = free_port()
            yield running


def log_of(s, key):
    return [line for line in s.gateway.errors().splitlines() if f'"{key}"' in line]


# ---- Did not happen: the key is free -------------------------------------------------------------

@pytest.mark.parametrize("path, status", [("/dead/", 502), ("/hole/", 504), ("/name/", 502)])
def test_never_connected_is_released(s, path, status):
    key = "never" + path.replace("/", "-")
    before = s.gateway.counts()
    for _ in range(2):
        answer = s.gateway.post(path, key)
        assert answer.status == status, answer
        assert answer.get("X-Should-Retry") is None
        assert state(s.server, key) == "failed"
    after = s.gateway.counts()
    assert after["released"] == before["released"] + 2
    assert after["execute"] == before["execute"] + 2 and s.upstream.requests(key) == 0


def test_never_connected_says_that_a_retry_is_good(s):
    answer = s.gateway.post("/dead/", "unreached-1")
    assert (answer.status, answer.problem) == (502, "unreached")
    assert answer.get("Retry-After") == "1"


def test_connected_and_nothing_sent_is_released(s):
    """The service behind speaks no TLS: the handshake fails, and not a byte of the request went."""
    answer = s.gateway.post("/tls/", "tls-1")
    assert (answer.status, answer.problem) in ((502, "unreached"), (504, "unreached"))
    assert state(s.server, "tls-1") == "failed" and s.upstream.effects("tls-1") == 0


def test_the_upstream_is_down_and_comes_back(s):
    s.upstream.stop()
    assert s.gateway.post("/", "back-1").problem == "unreached"
    s.upstream.start()
    assert s.gateway.post("/", "back-1").json["attempt"] == "2"
    assert s.upstream.effects("back-1") == 1


# ---- Nobody knows: in doubt ----------------------------------------------------------------------

@pytest.mark.parametrize("path", ["/", "/direct/"])
@pytest.mark.parametrize("plan", ["close", "reset", "early", "drop", "never", "half", "half_head",
                                  "half_chunk", "junk", "big=50000,half", "big=50000,half_chunk"])
def test_no_whole_answer_is_a_doubt(s, plan, path):
    key = "doubt" + re.sub("[^a-z0-9]", "-", path + plan)
    effects = 0 if plan in ("early", "drop") else 1
    body = b"x" * 3000
    path += "quick/" if plan == "never" else ""
    answer = s.gateway.post(path, key, body, do=f"{plan}|ok")
    assert answer.status == (504 if plan == "never" else 502)
    assert answer.problem == "doubt", answer
    assert answer.get("Stripe-Should-Retry") == answer.get("X-Should-Retry") == "false"
    assert answer.get("Retry-After") is None and answer.get("X-Upstream") is None
    assert state(s.server, key) == "doubt"
    assert "in doubt" in "".join(log_of(s, key))
    refused = s.gateway.post(path, key, body, do=f"{plan}|ok")
    assert (refused.status, refused.problem) == (409, "doubt")
    assert s.upstream.effects(key) == effects and s.upstream.requests(key) == 1


def test_an_answer_that_stops_in_the_middle(s):
    """It hangs instead of closing: over when nginx has waited long enough."""
    answer = s.gateway.post("/quick/", "hang-1", do="big=100000,slow=6")
    assert answer.problem == "doubt" and state(s.server, "hang-1") == "doubt"


def test_a_body_that_the_upstream_does_not_take(s):
    """It closes while the request is being sent."""
    body = b"x" * 1000000
    answer = s.gateway.post("/", "early-1", body, do="early")
    assert answer.problem == "doubt" and state(s.server, "early-1") == "doubt"


def test_the_upstream_is_killed_with_the_request(s):
    running = Later(s.gateway.post, "/", "killed-1", do="hold=killed-1")
    s.upstream.wait_effects("killed-1")
    s.upstream.kill()
    s.upstream.start()
    assert running.result().problem == "doubt"
    assert s.gateway.post("/", "killed-1", do="hold=killed-1").problem == "doubt"
    assert s.upstream.effects("killed-1") == 1


def test_retry_of_a_doubt_where_it_was_chosen(s):
    assert s.gateway.post("/retry/", "retry-1", do="close|ok").status == 502
    answer = s.gateway.post("/retry/", "retry-1", do="close|ok")
    assert (answer.status, answer.json["attempt"], answer.json["effects"]) == (201, "2", 2)
    assert s.gateway.post("/retry/", "retry-1", do="close|ok").replayed


# ---- 5xx, by policy ------------------------------------------------------------------------------

FREE, KEPT, DOUBT = "failed", "completed", "doubt"


@pytest.mark.parametrize("path, outcomes", [
    ("/", {500: DOUBT, 502: DOUBT, 503: FREE, 504: DOUBT, 599: DOUBT}),
    ("/release/", {500: FREE, 502: FREE, 503: FREE, 504: FREE}),
    ("/store/", {500: KEPT, 502: KEPT, 503: KEPT, 504: KEPT}),
    ("/doubt/", {500: DOUBT, 502: DOUBT, 503: DOUBT, 504: DOUBT})])
def test_statuses_of_5xx(s, path, outcomes):
    for status, outcome in outcomes.items():
        key = f"policy{path.replace('/', '-')}{status}"
        first = s.gateway.post(path, key, do=f"status={status}|ok")
        assert first.status == status and first.get("X-Upstream") == "yes"
        assert state(s.server, key) == outcome, status
        assert first.get("X-Should-Retry") == ("false" if outcome == DOUBT else None)
        again = s.gateway.post(path, key, do=f"status={status}|ok")
        if outcome == FREE:
            assert again.status == 201 and not again.replayed
        elif outcome == KEPT:
            assert again.replayed and said(first) == said(again)
        else:
            assert again.problem == "doubt"


@pytest.mark.parametrize("status, outcome", [(400, KEPT), (401, KEPT), (404, KEPT), (409, KEPT),
                                             (422, KEPT), (408, FREE), (425, FREE), (429, FREE)])
def test_statuses_of_4xx(s, status, outcome):
    answer = s.gateway.post("/", f"four-{status}", do=f"status={status},no_effect")
    assert answer.status == status and state(s.server, f"four-{status}") == outcome


# ---- Answers that are too large ------------------------------------------------------------------

@pytest.mark.parametrize("path", ["/small/", "/small-direct/"])
@pytest.mark.parametrize("plan", ["big=1025", "big=3000000", "big=200000,chunked",
                                  "big=20000,slow=0.01", "big=20000,old", "big=300000,gzip,slow=0"])
def test_an_answer_larger_than_is_kept(s, path, plan):
    key = "large" + re.sub("[^a-z0-9]", "-", path + plan)
    before = s.gateway.counts()["not_kept"]
    if "gzip" in plan:
        plan = plan.replace("big=300000", "header=X-Pad:" + "y" * 2000)
    first = s.gateway.post(path, key, do=plan)
    assert first.status == 201
    if "gzip" not in plan:
        assert first.body == b"x" * int(re.search(r"\d+", plan).group())
        assert s.gateway.counts()["not_kept"] == before + 1
        assert state(s.server, key) == "completed"
        again = s.gateway.post(path, key, do=plan)
        assert again.status == 201 and again.replayed and again.problem == "not-kept"
        assert again.get("X-Should-Retry") == "false"
    assert s.upstream.effects(key) == 1


def test_an_answer_at_the_bound_is_kept(s):
    first = s.gateway.post("/small/", "edge-1", do="big=1024")
    again = s.gateway.post("/small/", "edge-1", do="big=1024")
    assert again.replayed and said(first) == said(again)


def test_an_answer_larger_than_the_server_takes(tmp_path):
    """The namespace's own bound is narrower than the gateway's: that it was done is kept anyway."""
    with stack(tmp_path, settings="[namespace http]\nresult_max = 100\n") as s:
        first = s.gateway.post("/", "narrow-1", do="header=X-Long:" + "y" * 500)
        assert first.status == 201 and first.get("X-Long") == "y" * 500
        assert state(s.server, "narrow-1") == "completed"
        assert s.gateway.counts()["not_kept"] == 1 and s.gateway.counts()["unrecorded"] == 0
        assert "kept without its body" in "".join(log_of(s, "narrow-1"))
        again = s.gateway.post("/", "narrow-1", do="header=X-Long:" + "y" * 500)
        assert again.status == 201 and again.replayed and again.problem == "not-kept"
        assert s.upstream.effects("narrow-1") == 1


# ---- The client goes away ------------------------------------------------------------------------

def test_the_client_goes_while_the_upstream_works(s):
    client = start(s.gateway.port, "gone-1", do="hold=gone-1")
    s.upstream.wait_effects("gone-1")
    client.close()
    s.upstream.let_go("gone-1")
    wait_state(s.server, "gone-1", "completed")
    again = s.gateway.post("/", "gone-1", b"{}", do="hold=gone-1")
    assert again.replayed and s.upstream.effects("gone-1") == 1


def test_the_client_goes_while_the_answer_comes(s):
    client = start(s.gateway.port, "gone-2", do="big=100000,slow=0.03")
    s.upstream.wait_effects("gone-2")
    client.close()
    wait_state(s.server, "gone-2", "completed")
    again = s.gateway.post("/", "gone-2", b"{}", do="big=100000,slow=0.03")
    assert again.replayed and len(again.body) == 100000


def test_the_client_goes_inside_of_its_body(s):
    with Client(s.gateway.port) as client:
        client.head("/", "Idempotency-Key: gone-3", "Content-Length: 100").send("x" * 50)
    assert s.gateway.post("/", "gone-3", b"x" * 100).status == 201
    assert s.upstream.effects("gone-3") == 1


def test_the_client_goes_while_it_waits(s):
    first = Later(s.gateway.post, "/wait/", "gone-4", b"{}", do="hold=gone-4")
    s.upstream.wait_effects("gone-4")
    waited = s.gateway.counts()["waited"]
    client = start(s.gateway.port, "gone-4", "/wait/", do="hold=gone-4")
    wait_for("it waits", lambda: s.gateway.counts()["waited"] == waited + 1)
    client.close()
    wait_for("it is let go", lambda: any(a["status"] == 499 for a in s.gateway.accesses()
                                         if a["key"] == "gone-4"))
    s.upstream.let_go("gone-4")
    assert first.result().status == 201 and s.upstream.requests("gone-4") == 1


def test_the_client_goes_while_the_server_is_asked(s):
    """The server is paused: the begin is under way when the client goes. Nothing was done then, and
    a retry does it."""
    s.server.process.send_signal(signal.SIGSTOP)
    try:
        client = start(s.gateway.port, "gone-5")
        client.close()
    finally:
        s.server.process.send_signal(signal.SIGCONT)
    wait_for("it was taken up", lambda: operation(s.server, "gone-5"))
    wait_for("it ended", lambda: state(s.server, "gone-5") in ("completed", "failed"))
    answer = s.gateway.post("/", "gone-5", b"{}")
    assert answer.status == 201 and s.upstream.effects("gone-5") == 1


def test_the_client_goes_while_its_outcome_is_recorded(s):
    client = start(s.gateway.port, "gone-6", do="hold=gone-6")
    s.upstream.wait_effects("gone-6")
    stored = s.gateway.counts()["stored"]
    s.server.process.send_signal(signal.SIGSTOP)
    try:
        s.upstream.let_go("gone-6")
        wait_for("its outcome is on the way", lambda: s.gateway.counts()["stored"] == stored + 1)
        client.close()
    finally:
        s.server.process.send_signal(signal.SIGCONT)
    wait_state(s.server, "gone-6", "completed")
    assert s.gateway.post("/", "gone-6", b"{}", do="hold=gone-6").replayed


def test_no_byte_is_sent_before_the_outcome_is_durable(s):
    client = start(s.gateway.port, "durable-1", do="hold=durable-1")
    s.upstream.wait_effects("durable-1")
    s.server.process.send_signal(signal.SIGSTOP)
    try:
        s.upstream.let_go("durable-1")
        client.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
    finally:
        s.server.process.send_signal(signal.SIGCONT)
    client.socket.settimeout(30)
    assert client.answer().status == 201 and state(s.server, "durable-1") == "completed"
    client.close()


# ---- A lease that is shorter than the work -------------------------------------------------------

def test_a_long_request_keeps_its_lease(s):
    """Renewed while the upstream works: nobody else gets in."""
    running = Later(s.gateway.post, "/lease/", "long-1", do="hold=long-1")
    s.upstream.wait_effects("long-1")
    began = operation(s.server, "long-1")["lease_end_ms"]
    wait_for("it is renewed twice",
             lambda: operation(s.server, "long-1")["lease_end_ms"] > began + 1800)
    assert s.gateway.post("/lease/", "long-1").problem == "busy"
    s.upstream.let_go("long-1")
    assert running.result().status == 201 and s.gateway.post("/lease/", "long-1").replayed


def test_a_worker_that_was_killed_leaves_a_doubt(s):
    client = start(s.gateway.port, "worker-1", "/lease/", do="hold=worker-1")
    s.upstream.wait_effects("worker-1")
    for pid in s.gateway.worker_pids():
        s.gateway.kill_worker(pid)
    assert client.answer() is None
    wait_state(s.server, "worker-1", "doubt")
    s.upstream.let_go("worker-1")
    wait_for("workers are back", s.gateway.ready)
    refused = s.gateway.post("/lease/", "worker-1", b"{}", do="hold=worker-1")
    assert refused.problem == "doubt" and s.upstream.effects("worker-1") == 1


def test_a_worker_that_must_not_wait_longer_records_the_doubt(tmp_path):
    """worker_shutdown_timeout: requests are cut off, and their doubt is there at once, not when the
    lease is over."""
    with stack(tmp_path, main="worker_shutdown_timeout 200ms;") as s:
        client = start(s.gateway.port, "cut-1", do="hold=cut-1")
        s.upstream.wait_effects("cut-1")
        old = s.gateway.reload()
        assert client.answer() is None
        wait_state(s.server, "cut-1", "doubt", seconds=20)  # the lease has 30
        wait_for("the old ones ended", lambda: not any(map(alive, old)))
        s.upstream.let_go("cut-1")
        assert s.gateway.post("/", "cut-1", b"{}", do="hold=cut-1").problem == "doubt"
        assert not re.search(r"\[alert\]|signal 11", s.gateway.errors())


def test_resolved_while_it_runs(s):
    """Someone said meanwhile that it did not happen: the answer that comes later is not the
    operation's, and the client is told."""
    running = Later(s.gateway.post, "/", "stale-1", do="hold=stale-1")
    s.upstream.wait_effects("stale-1")
    fence = operation(s.server, "stale-1")["fence"]
    with s.server.connect() as call:
        call("ONCE.FAIL", "http", "stale-1", fence, "by hand")
    s.upstream.let_go("stale-1")
    answer = running.result()
    assert (answer.status, answer.problem) == (409, "stale")


# ---- HTTP/2 --------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def h2(s, tmp_path_factory):
    """Another gateway, for HTTP/2, to the same server and service."""
    gateway = Gateway(tmp_path_factory.mktemp("h2"), s.server, s.upstream,
                      {"/": "once on;", "/wait/": "once on; once_wait 20s;"}, listen="http2")
    # Without TLS a port is for HTTP/2 or for HTTP/1.1.
    gateway.http = (f"server {{ listen {HOST}:{s.status_port};"
                    " location = /once-status { once_status; } }")
    with gateway:
        yield gateway


def waited(s):
    text = ask(s.status_port, "/once-status", method="GET").body.decode()
    return int(re.search(r"^once_gateway_waited_total (\d+)", text, re.M).group(1))


@pytest.mark.parametrize("all_of_it", [False, True])
def test_a_stream_that_is_reset(s, h2, all_of_it):
    """HTTP/2: the stream, or the connection, ends while the upstream works; the outcome is
    recorded."""
    key = f"stream-{all_of_it}"
    client = Http2(h2.port)
    client.request(1, key, ("x-do", f"hold={key}"))
    s.upstream.wait_effects(key)
    if all_of_it:
        client.close()
    else:
        client.reset(1)
        client.ping()
    s.upstream.let_go(key)
    wait_state(s.server, key, "completed")
    with Http2(h2.port) as again:
        again.request(1, key, ("x-do", f"hold={key}"))
        status, body = again.answer(1)
    assert status == 201 and b'"effects": 1' in body and s.upstream.effects(key) == 1
    client.close()


def test_a_stream_that_is_reset_while_it_waits(s, h2):
    with Http2(h2.port) as client:
        client.request(1, "stream-3", ("x-do", "hold=stream-3"), path="/wait/")
        s.upstream.wait_effects("stream-3")
        before = waited(s)
        client.request(3, "stream-3", ("x-do", "hold=stream-3"), path="/wait/")
        client.request(5, "stream-3", ("x-do", "hold=stream-3"), path="/wait/")
        wait_for("they wait", lambda: waited(s) == before + 2)
        client.reset(3)
        client.ping()
        wait_for("it is let go", lambda: any(a["status"] == 499 for a in h2.accesses()))
        s.upstream.let_go("stream-3")
        assert client.answer(1)[0] == 201
        assert s.upstream.requests("stream-3") == 1


def test_a_stream_that_is_reset_inside_of_its_body(s, h2):
    with Http2(h2.port) as client:
        client.request(1, "stream-4", ("content-length", "10"), body=b"12345", end=False)
        client.reset(1)
        client.ping()
        assert state(s.server, "stream-4") is None
        client.request(3, "stream-4", ("content-length", "10"), body=b"1234567890")
        assert client.answer(3)[0] == 201 and s.upstream.effects("stream-4") == 1


def test_a_stream_that_is_reset_while_the_server_is_asked(s, h2):
    with Http2(h2.port) as client:
        s.server.process.send_signal(signal.SIGSTOP)
        try:
            client.request(1, "stream-5")
            client.ping()
            client.reset(1)
            client.ping()
        finally:
            s.server.process.send_signal(signal.SIGCONT)
        wait_for("it ended", lambda: state(s.server, "stream-5") in ("completed", "failed"))
        client.request(3, "stream-5")
        assert client.answer(3)[0] == 201 and s.upstream.effects("stream-5") == 1
