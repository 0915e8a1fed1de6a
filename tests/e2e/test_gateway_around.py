# SPDX-License-Identifier: Apache-2.0
"""Replays that are the answer again whatever nginx does with it on its way; and what stands around
the gateway in nginx: several upstreams, error pages, redirects, filters, logs, reloads.
"""
import contextlib
import gzip
import shutil
import socket
import threading
import time

import pytest
from gateway_raw import Client, Later, operation, said, started, state
from gateway_tools import Gateway, Stack, Upstream, alive, stack
from serving import HOST, USERS, Server, free_port, users, wait_for

DEAD = free_port()
HTTP = """
    upstream several {{ server {host}:{dead} max_fails=0; server {host}:{port} max_fails=0; }}
    upstream twice {{ server {host}:{port} max_fails=0; server {host}:{port} max_fails=0; }}
"""
LOCATIONS = {
    "/": "once on;",
    "/wait/": "once on; once_wait 20s;",
    "/small/": "once on; once_max_body 1k;",
    "/direct/": "once on; proxy_buffering off; proxy_request_buffering off;",
    "/packed/": "once on; gzip on; gzip_types application/json text/plain; gzip_min_length 1;",
    "/added/": "once on; add_header X-Added yes always; charset utf-8; charset_types text/plain;",
    "/expires/": "once on; expires 1h; etag off; add_header Cache-Control public;",
    "/subbed/": "once on; sub_filter effects changes; sub_filter_types application/json; "
                "add_before_body /before; addition_types application/json;",
    "/before": "internal; default_type text/plain; return 200 before;",
    "/mirrored/": "once on; mirror /mirror;",
    "/mirror": "internal; proxy_set_header Idempotency-Key mirrored; proxy_pass http://behind;",
    "/twice/": "once on; once_methods PUT DELETE POST; proxy_pass http://twice; "
               "proxy_next_upstream error timeout http_500 http_503;",
    "/several/": "once on; proxy_pass http://several;",
    "/pages/": "once on; proxy_intercept_errors on; error_page 404 500 502 /page;",
    "/other/": "once on; proxy_intercept_errors on; error_page 404 500 502 = @other;",
    "/page": "internal; default_type text/plain; return 200 page;",
    "@other": "proxy_set_header X-Do ok; proxy_pass http://behind;",
    "/inside": "internal; default_type text/plain; return 200 inside;",
    "/auth/": "once on; auth_request /check;",
    "/check": "internal; if ($http_authorization = \"\") { return 401; } return 204;",
    "/rewritten/": "rewrite ^ /inner/x last;",
    "/inner/": "once require;",
    "/files/": "once on; root /nowhere;",
}


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    made = Stack(tmp_path_factory.mktemp("around"), LOCATIONS)
    made.gateway.http = HTTP.format(host=HOST, dead=DEAD, port=made.upstream.port)
    with started(made):
        yield made


# ---- Replays -------------------------------------------------------------------------------------

PLANS = ["ok", "status=200", "empty", "status=204,empty", "status=304,empty", "status=404",
         "status=302",
         "gzip", "chunked", "chunked,gzip", "old", "slow=0.005", "big=300000", "bye",
         "status=422,empty", "status=299", "status=303,header=Location:/things/1",
         "status=301,header=Location:http://behind/things/1",
         "status=200,header=ETag:\"a\",header=Last-Modified:Sun",
         "status=200,header=Content-Type:text/plain;charset=x",
         "status=200,header=Content-Type:text/plain; charset=\"iso-8859-1\"",
         "header=Set-Cookie:a=1,header=Set-Cookie:b=2",
         "header=X-Empty:,header=Cache-Control:no-cache,header=Cache-Control:private",
         "header=Vary:Accept,header=WWW-Authenticate:Basic,status=401,header=Expires:0",
         "header=Expires:0,header=Cache-Control:no-store,header=Link:<a>,header=Link:<b>"]


@pytest.mark.parametrize("path", ["/", "/direct/", "/packed/", "/added/", "/expires/"])
def test_replays_are_the_answer_again(s, path):
    for number, plan in enumerate(PLANS):
        for pack in ("identity", "gzip"):
            key = f"replay{path.replace('/', '-')}{number}-{pack}"
            options = dict(do=plan, headers={"Accept-Encoding": pack})
            first = s.gateway.post(path, key, b"{}", **options)
            again = s.gateway.post(path, key, b"{}", **options)
            assert again.replayed and not first.replayed, (plan, first, again)
            for answer in (first, again) if path == "/expires/" else ():
                clock = [h for h in answer.headers if h[0] == "Expires"]
                assert len(clock) <= 1
                answer.headers = [h for h in answer.headers if h not in clock]
            assert said(first) == said(again), (plan, pack)
            assert first.get("X-Upstream") == "yes" and s.upstream.effects(key) == 1
            if path == "/packed/" and pack == "gzip" and plan == "status=200":
                assert key.encode() in gzip.decompress(first.body)
            if path == "/added/":
                assert [k for k, _ in again.headers].count("X-Added") == 1


def test_a_replay_knows_no_conditions_and_ranges(s):
    """They were for the upstream; the answer to them is the first one."""
    plan = 'status=200,header=ETag:"a",header=Last-Modified:Sun%2C 06 Nov 1994 08:49:37 GMT'
    for number, headers in enumerate(({"If-None-Match": '"a"'}, {"If-Match": '"b"'},
                                      {"If-Unmodified-Since": "Sun, 06 Nov 1993 08:49:37 GMT"},
                                      {"Range": "bytes=0-3"})):
        first = s.gateway.post("/", f"range-{number}", do=plan, headers=headers)
        again = s.gateway.post("/", f"range-{number}", do=plan, headers=headers)
        assert (first.status, again.status) == (200, 200) and said(first) == said(again)


def test_a_binary_body_both_ways(s):
    body = bytes(range(256)) * 3
    first = s.gateway.post("/direct/", "binary-1", body, do="gzip")
    again = s.gateway.post("/direct/", "binary-1", body, do="gzip")
    assert first.body[:2] == b"\x1f\x8b" and first.body == again.body
    assert gzip.decompress(again.body).count(b"binary-1") >= 1


def test_a_replay_for_another_client(s):
    """The first took gzip from nginx, the second does not: both get what they can read."""
    first, again = (s.gateway.post("/packed/", "packed-1", headers={"Accept-Encoding": pack},
                                   do="status=200") for pack in ("gzip", "identity"))
    assert first.get("Content-Encoding") == "gzip" and again.get("Content-Encoding") is None
    assert gzip.decompress(first.body) == again.body and again.replayed


def test_http_1_0_client(s):
    for replayed in (False, True):
        with Client(s.gateway.port) as client:
            client.send("POST / HTTP/1.0\r\nIdempotency-Key: old-1\r\nContent-Length: 2\r\n\r\n{}")
            head, _, body = client.rest().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201") and b'"effects": 1' in body
        assert (b"Idempotency-Replayed" in head) == replayed


# ---- Around it in nginx --------------------------------------------------------------------------

def test_several_upstreams_one_dead(s):
    """The next one is asked only where nothing was sent."""
    for number in range(4):
        answer = s.gateway.post("/several/", f"several-{number}")
        assert answer.status == 201 and s.upstream.effects(f"several-{number}") == 1
    for number in range(4):
        assert s.gateway.post("/several/", f"sent-{number}", do="close|ok").status == 502
        assert s.upstream.requests(f"sent-{number}") == 1
        assert state(s.server, f"sent-{number}") == "doubt"


def test_no_method_is_sent_twice(s):
    """Left to itself nginx asks the next upstream after a PUT that had no answer."""
    for method in ("PUT", "DELETE", "POST"):
        for plan, status, wanted in (("close", 502, "doubt"), ("status=500", 500, "doubt"),
                                     ("status=503", 503, "failed")):
            key = f"twice-{method}-{wanted}-{status}"
            assert s.gateway.ask("/twice/", key, method=method, do=plan).status == status
            assert s.upstream.requests(key) == 1 and state(s.server, key) == wanted


def test_filters_and_mirrors(s):
    """What nginx adds for each client is added to a replay too, and once."""
    plan = 'status=200,header=Last-Modified:Sun,header=ETag:"a"'
    first = s.gateway.post("/subbed/", "subbed-1", do=plan)
    again = s.gateway.post("/subbed/", "subbed-1", do=plan)
    assert b'"changes": 1' in first.body and again.replayed and said(first) == said(again)
    assert first.body.startswith(b"before") and first.body.count(b"before") == 1
    for _ in range(2):
        assert s.gateway.post("/mirrored/", "mirrored-1", b"{}").status == 201
    assert s.upstream.effects("mirrored-1") == 1
    s.upstream.wait_effects("mirrored")


def test_a_slow_reader_gets_all_of_it(s):
    for _ in range(2):
        with Client(s.gateway.port) as client:
            client.head("/", "Idempotency-Key: reader-1", "Content-Length: 0", "X-Do: big=1000000",
                        "Connection: close")
            s.upstream.wait_effects("reader-1")
            time.sleep(0.1)
            assert client.rest().endswith(b"\r\n\r\n" + b"x" * 1000000)
    assert s.upstream.effects("reader-1") == 1


def test_error_pages(s):
    """What is kept is what the client got; what is judged is what the upstream said."""
    first = s.gateway.post("/pages/", "page-404", do="status=404")
    again = s.gateway.post("/pages/", "page-404", do="status=404")
    assert first.body == b"page" and said(first) == said(again) and again.replayed
    broken = s.gateway.post("/pages/", "page-500", do="status=500")
    assert broken.body == b"page" and broken.get("X-Should-Retry") == "false"
    assert state(s.server, "page-500") == "doubt"
    closed = s.gateway.post("/pages/", "page-502", do="close")
    assert closed.body == b"page" and state(s.server, "page-502") == "doubt"
    assert s.gateway.post("/pages/", "page-502").problem == "doubt"


def test_an_error_page_that_asks_again_does_not_hide_a_doubt(s):
    answer = s.gateway.post("/other/", "other-404", do="status=404,no_effect")
    assert answer.status == 201 and state(s.server, "other-404") == "completed"
    for key, plan in (("other-500", "status=500"), ("other-502", "close")):
        answer = s.gateway.post("/other/", key, do=plan)
        assert answer.get("X-Should-Retry") == "false", answer
        assert state(s.server, key) == "doubt"
        assert s.gateway.post("/other/", key, do=plan).problem == "doubt"


def test_x_accel_redirect(s):
    plan = "status=200,header=X-Accel-Redirect:/inside"
    first = s.gateway.post("/", "accel-1", do=plan)
    again = s.gateway.post("/", "accel-1", do=plan)
    assert first.body == b"inside" and again.replayed and said(first) == said(again)
    assert s.upstream.effects("accel-1") == 1


def test_auth_request(s):
    assert s.gateway.post("/auth/", "auth-1").status == 401
    assert state(s.server, "auth-1") is None
    signed = {"Authorization": "x"}
    assert s.gateway.post("/auth/", "auth-1", b"{}", headers=signed).status == 201
    assert s.gateway.post("/auth/", "auth-1", b"{}", headers=signed).replayed
    assert s.upstream.effects("auth-1") == 1


def test_an_internal_redirect_before(s):
    assert s.gateway.post("/rewritten/", None).problem == "key-missing"
    first = s.gateway.post("/rewritten/", "rewritten-1")
    assert first.status == 201 and s.gateway.post("/rewritten/", "rewritten-1").body == first.body
    assert s.upstream.effects("rewritten-1") == 1


def test_answers_that_nginx_makes(s):
    first = s.gateway.post("/files/x", "made-1")
    again = s.gateway.post("/files/x", "made-1")
    assert first.status == 404 and said(first) == said(again) and again.replayed
    assert operation(s.server, "made-1")["code"] == 404


def test_a_body_too_large_for_nginx_with_a_page(s):
    """The error page of a request that never began."""
    with Client(s.gateway.port) as client:
        client.head("/pages/", "Idempotency-Key: large-1", "Content-Length: 2000000")
        assert client.answer().status == 413


def test_expect_100_continue(s):
    for key, replayed in (("expect-1", False), ("expect-1", True)):
        with Client(s.gateway.port) as client:
            client.head("/", f"Idempotency-Key: {key}", "Content-Length: 5",
                        "Expect: 100-continue")
            first = client.socket.recv(25, 0x100)  # MSG_WAITALL
            assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
            answer = client.send("hello").answer()
        assert (answer.status, answer.json["size"]) == (201, 5) and answer.replayed == replayed
    # Refused before the body was sent.
    with Client(s.gateway.port) as client:
        client.head("/small/", "Idempotency-Key: expect-2", "Content-Length: 5000",
                    "Expect: 100-continue")
        assert client.answer().status == 413


def test_a_connection_carries_many(s):
    """Keep-alive on both sides."""
    with Client(s.gateway.port) as client:
        for number in range(20):
            for _ in range(2):
                client.head("/", f"Idempotency-Key: many-{number}", "Content-Length: 0")
                assert client.answer().json["effects"] == 1


def test_next_upstream_non_idempotent_is_refused(tmp_path):
    gateway = Gateway(tmp_path, "unix:/nowhere", f"{HOST}:{DEAD}",
                      {"/": "once on; proxy_next_upstream error timeout non_idempotent;"})
    status, text = gateway.check()
    assert status != 0 and "non_idempotent" in text
    for bad, word in (("once maybe;", "maybe"), ("once on; once_lease 10ms;", "once_lease"),
                      ("once on; once_ttl 0;", "once_ttl"),
                      ("once on; once_fingerprint xml;", "raw or json"),
                      ("once on; once_max_answer 1g;", "once_max_answer"),
                      ("once on; once_methods HEAD;", "HEAD"),
                      ("once on; once_namespace \"a\\tb\";", "once_namespace"),
                      (f"once on; once_namespace {60 * 'n'}; once_scope x;", "once_namespace"),
                      ("once on; once_server 127.0.0.1:1 connections=0;", "connections")):
        gateway.locations = {"/": bad}
        status, text = gateway.check()
        assert status != 0 and word in text, (bad, text)
    gateway.locations = {"/": "once off; proxy_next_upstream error non_idempotent;"}
    assert gateway.check()[0] == 0


def test_another_protocol_behind(tmp_path, s):
    """SCGI: the same guards, and the same outcomes."""
    listener, seen = socket.create_server((HOST, 0)), []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer:
                    head = peer.recv(65536)
                    names = head.partition(b":")[2].split(b"\0")
                    seen.append(dict(zip(names[::2], names[1::2])))
                    if seen[-1][b"HTTP_IDEMPOTENCY_KEY"] != b"scgi-lost":
                        peer.sendall(b"Status: 201 Created\r\nX-Kind: scgi\r\n\r\nmade")

    threading.Thread(target=serve, daemon=True).start()
    where = f"{HOST}:{listener.getsockname()[1]}"
    pass_on = ("once on; scgi_pass {where}; scgi_param CONTENT_LENGTH $content_length; "
               "scgi_param SCGI 1; {more} # proxy_pass is not wanted\n")
    gateway = Gateway(tmp_path, s.server, s.upstream, {"/": pass_on.format(where=where, more="")})
    with listener, gateway:
        first, again = (gateway.post("/", "scgi-1") for _ in range(2))
        assert (first.status, first.body, first.get("X-Kind")) == (201, b"made", "scgi")
        assert again.replayed and said(first) == said(again) and len(seen) == 1
        assert int(seen[0][b"HTTP_ONCE_FENCE"]) == operation(s.server, "scgi-1")["fence"]
        assert gateway.post("/", "scgi-lost").problem == "doubt"
        assert gateway.post("/", "scgi-lost").problem == "doubt" and len(seen) == 2
        gateway.locations = {"/": pass_on.format(
            where=where, more="scgi_next_upstream error non_idempotent;")}
        status, text = gateway.check()
        assert status != 0 and "non_idempotent" in text
        listener.shutdown(socket.SHUT_RDWR)


def test_a_server_with_users(tmp_path):
    """Over TCP, with a name and a password; a wrong one is told in the log, the password is not."""
    name = "root"
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(USERS[name] + "\n")
    bad.write_text("wrong-password\n")
    good.chmod(0o600)
    server = Server(tmp_path / "server", users())
    where = f"{HOST}:{server.port} user={name} password_file="
    with server, Upstream(tmp_path / "upstream") as upstream:
        gateway = Gateway(tmp_path / "nginx", f"{where}{good}", upstream, {
            "/": "once on;", "/bad/": f"once on; once_server {where}{bad} timeout=5s "
                                            "end_timeout=5s;"})
        with gateway:
            assert gateway.post("/", "users-1").status == 201
            assert gateway.post("/", "users-1").replayed
            assert gateway.post("/bad/", "users-2").problem == "unavailable"
            assert "refuses the user" in gateway.errors()
            assert "wrong-password" not in gateway.errors() and upstream.requests("users-2") == 0
    shutil.rmtree(server.dir)


def test_the_access_log_and_the_counters(s):
    before = s.gateway.counts()
    s.gateway.post("/", "log-1")
    s.gateway.post("/", "log-1")
    s.gateway.post("/", None)
    after = wait_for("counted", lambda: s.gateway.counts())
    assert after["execute"] == before["execute"] + 1 and after["replay"] == before["replay"] + 1
    assert after["stored"] == before["stored"] + 1
    def logged():
        found = [a for a in s.gateway.accesses() if a["key"] == "log-1"]
        return found if len(found) == 2 else None

    lines = wait_for("logged, which is done behind an answer", logged)
    assert [line["verdict"] for line in lines] == ["EXECUTE", "REPLAY"]
    assert int(lines[0]["fence"]) == operation(s.server, "log-1")["fence"]
    assert all(line["ms"].isdigit() for line in lines)
    text = s.gateway.ask("/once-status", method="GET")
    assert text.get("Content-Type").startswith("text/plain")
    assert s.gateway.ask("/once-status", method="POST").status == 405


# ---- Many ----------------------------------------------------------------------------------------

def test_500_duplicates_one_request(s):
    answers = []

    def hit():
        answers.append(s.gateway.post("/wait/", "crowd", b"{}", do="hold=crowd"))

    crowd = [threading.Thread(target=hit, daemon=True) for _ in range(500)]
    for thread in crowd:
        thread.start()
    s.upstream.wait_effects("crowd")
    wait_for("they wait", lambda: s.gateway.counts()["waited"] >= 100)
    s.upstream.let_go("crowd")
    for thread in crowd:
        thread.join(60)
    assert len(answers) == 500 and s.upstream.requests("crowd") == 1
    assert len({repr(said(a)) for a in answers}) == 1 and answers[0].status == 201
    assert sum(a.replayed for a in answers) == 499


def test_reload_and_upgrade_lose_nothing(tmp_path):
    """Requests go on while workers and then the binary are replaced; a request that runs all the
    while is finished by the one that took it."""
    with stack(tmp_path, {"/": "once on;"}, upgradable=True) as s:
        stop, keys, errors = threading.Event(), [], []

        def load(name):
            number = 0
            while not stop.is_set():
                key = f"{name}-{number}"
                number += 1
                try:
                    answer = s.gateway.post("/", key, b"{}")
                    assert answer.status == 201, answer
                    assert s.gateway.post("/", key, b"{}").body == answer.body
                    keys.append(key)
                except Exception as error:
                    errors.append((key, repr(error)))

        threads = [threading.Thread(target=load, args=(f"load{n}",), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        slow = Later(s.gateway.post, "/", "slow", b"{}", do="hold=slow")
        s.upstream.wait_effects("slow")
        executed = s.gateway.counts()["execute"]
        old = s.gateway.reload()
        assert s.gateway.counts()["execute"] >= executed  # the counters are kept
        assert s.gateway.post("/", "slow", b"{}").problem == "busy"
        old += s.gateway.upgrade()
        count = len(keys)
        wait_for("the new one works", lambda: len(keys) > count + 20)
        assert any(map(alive, old))
        s.upstream.let_go("slow")
        assert slow.result().status == 201
        stop.set()
        for thread in threads:
            thread.join(30)
        assert errors == [] and len(keys) > 20
        wait_for("the old ones ended", lambda: not any(map(alive, old)))
        assert set(s.upstream.counts().values()) == {1}
        assert s.gateway.post("/", "slow", b"{}").replayed
        alarming = [line for line in s.gateway.errors().splitlines()
                    if "[alert]" in line or "[crit]" in line or "[emerg]" in line]
        assert alarming == []
