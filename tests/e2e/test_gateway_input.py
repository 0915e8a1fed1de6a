# SPDX-License-Identifier: Apache-2.0
"""Input that is not meant well: shaped to smuggle a request past the gateway, too large, too slow,
or too much at once. nginx handles most of it; here it is seen that it still does with the module in
between, that no key is passed on twice, and that nothing hangs.
"""
import json
import re
import time

import pytest
from gateway_raw import Client, Http2, Later, curl, said, state
from gateway_tools import Gateway, stack
from serving import wait_for

SLOW_S = 5  # more than a slow machine takes for what the tests send in time


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    locations = {
        "/": "once on;",
        "/require/": "once require;",
        "/pages/": "once on; error_page 413 500 /page;",
        "/page": "internal; once on; root /nowhere;",
        "/tiny/": "once on; client_max_body_size 1k;",
    }
    http = f"client_body_timeout {SLOW_S}s; client_header_timeout {SLOW_S}s; keepalive_timeout 20s;"
    with stack(tmp_path_factory.mktemp("input"), locations, http=http) as running:
        yield running


def whole(s, text):
    """The statuses of all answers to these bytes."""
    with Client(s.gateway.port) as client:
        client.send(text)
        return [int(x) for x in re.findall(rb"HTTP/1\.1 (\d\d\d) ", client.rest())]


def head(*lines, path="/", method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: gate", *lines, "", ""])


# ---- Shaped to smuggle ---------------------------------------------------------------------------

INNER = head("Idempotency-Key: smuggled", "Content-Length: 0", path="/require/")


@pytest.mark.parametrize("lines", [
    ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 5"],
    ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: 5", "Content-Length: 5"],
    ["Content-Length: 5, 5"],
    ["Content-Length: +5"],
    ["Content-Length: -1"],
    ["Content-Length: 0x5"],
    ["Content-Length: 99999999999999999999"],
    ["Content-Length : 5"],
    ["Transfer-Encoding: chunked, chunked"],
    ["Transfer-Encoding: identity, chunked"],
    ["Transfer-Encoding: xchunked"],
    ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding : chunked"],
    ["Content-Length: 5\x00"],
    ["X: a\x00b", "Content-Length: 0"],
], ids=lambda lines: re.sub("[^a-z0-9]+", "-", "-".join(lines).lower()))
def test_a_length_that_can_be_read_in_two_ways(s, lines):
    before = s.upstream.counts("requests")["smuggled"]
    found = whole(s, head(*lines, "Idempotency-Key: shaped") + "0\r\n\r\n" + INNER)
    assert found and found[0] in (400, 413, 501), found
    assert len(found) == 1 and s.upstream.counts("requests")["smuggled"] == before
    assert s.upstream.requests("shaped") == 0 and state(s.server, "shaped") is None


@pytest.mark.parametrize("lines", [
    [" Idempotency-Key: folded"], ["X-A: b", " Idempotency-Key: folded"],
    ["Idempotency-Key:", " folded"], ["Idempotency-Key : folded"],
    ["X-A: b", "\tIdempotency-Key: folded"], ["Idempotency_Key: folded"]])
def test_a_folded_line_is_no_header(s, lines):
    """Refused, or read as having no key: in no case passed on under another name for it."""
    found = whole(s, head(*lines, "Content-Length: 0", "Connection: close", path="/require/"))
    assert found == [400] and s.upstream.requests("folded") == 0


@pytest.mark.parametrize("body", ["x\r\n", "5\r\nhel", "-1\r\n\r\n",
                                  "5\r\nhelloX\r\n0\r\n\r\n", "ffffffffffffffffff\r\n",
                                  "0x5\r\nhello\r\n0\r\n\r\n"])
def test_chunks_that_are_none(s, body):
    number = re.sub("[^a-z0-9]", "", body.lower())
    found = whole(s, head(f"Idempotency-Key: chunk-{number}", "Transfer-Encoding: chunked") + body)
    assert not found or found[0] in (400, 408, 413)
    assert s.upstream.requests(f"chunk-{number}") == 0
    assert state(s.server, f"chunk-{number}") is None


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1",
                                 "a%0d%0aX-Evil: 1", '"a\r\n b"', "a\x00b"])
def test_a_key_with_a_line_end(s, key):
    before = sum(s.upstream.counts().values())
    with Client(s.gateway.port) as client:
        client.send(head(f"Idempotency-Key: {key}", "Content-Length: 0", "Connection: close"))
        answer = client.rest()
    evil = [h for h in s.upstream.counts() if "Evil" in h]
    assert not evil and b"X-Evil" not in answer.split(b"\r\n\r\n")[0]
    if b" 201 " in answer:  # then it was a header of its own, and the key is "a"
        assert b'"key": "a"' in answer
    else:
        assert b" 400 " in answer and sum(s.upstream.counts().values()) == before


def test_garbage_behind_a_request(s):
    found = whole(s, head("Idempotency-Key: trail-1", "Content-Length: 2")
                  + "{}\x01\x02garbage\r\n\r\n")
    assert found == [201, 400] and s.upstream.effects("trail-1") == 1
    # More bytes than were announced are the next request's.
    found = whole(s, head("Idempotency-Key: trail-2", "Content-Length: 2") + "{}"
                  + head("Idempotency-Key: trail-3", "Content-Length: 0", "Connection: close"))
    assert found == [201, 201]
    assert s.upstream.effects("trail-2") == s.upstream.effects("trail-3") == 1


def test_chunk_extensions_and_trailers(s):
    body = "5;a=b;c=\"d\"\r\nhello\r\n0\r\nIdempotency-Key: other\r\nX-Trailer: y\r\n\r\n"
    with Client(s.gateway.port) as client:
        client.send(head("Idempotency-Key: trailer-1", "Transfer-Encoding: chunked") + body)
        answer = client.answer()
    assert answer.json["size"] == 5 and answer.json["key"] == "trailer-1"
    # How it was cut makes no difference, and neither does its length being known.
    assert s.gateway.post("/", "trailer-1", b"hello").replayed
    assert s.upstream.effects("other") == 0


def test_chunked_bodies_of_all_cuts(s):
    data = bytes(range(256)) * 40
    first = s.gateway.post("/", "cuts-1", data)
    for size in (1, 7, 1000, 4096, len(data)):
        with Client(s.gateway.port) as client:
            client.head("/", "Idempotency-Key: cuts-1", "Transfer-Encoding: chunked")
            parts = (data[at:at + size] for at in range(0, len(data), size))
            client.send(b"".join(b"%X\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n")
            again = client.answer()
        assert again.replayed and said(again) == said(first)


# ---- Large and slow ------------------------------------------------------------------------------

def test_huge_headers(s):
    answer = s.gateway.post("/", "huge-1", headers={"X-Big": "x" * 100000})
    assert answer.status == 400 and state(s.server, "huge-1") is None
    answer = s.gateway.post("/", "huge-2", headers={f"X-{n}": "x" * 7000 for n in range(3)})
    assert answer.status == 201
    assert s.gateway.post("/" + "p" * 20000, "huge-3").status == 414
    with Client(s.gateway.port) as client:
        client.head("/", *[f"X-{n}: y" for n in range(900)], "Idempotency-Key: huge-4",
                    "Content-Length: 0")
        assert client.answer().status == 201
    assert s.gateway.post("/", "k" * 20000).status == 400


def test_a_huge_answer_header_is_kept_or_refused(s):
    """The upstream's header is larger than nginx takes: no answer, so a doubt."""
    answer = s.gateway.post("/?do=header%3DX-Big:" + "y" * 6000, "head-1")
    assert answer.problem == "doubt" and state(s.server, "head-1") == "doubt"
    first = s.gateway.post("/?do=header%3DX-Big:" + "y" * 3000, "head-2")
    again = s.gateway.post("/?do=header%3DX-Big:" + "y" * 3000, "head-2")
    assert again.get("X-Big") == "y" * 3000 and said(first) == said(again)


@pytest.mark.parametrize("form", ["Content-Length: 2000", "Transfer-Encoding: chunked"])
def test_a_body_that_stops(s, form):
    """Slowloris: let go in time, and nothing was begun."""
    key = "stops-" + form[0].lower()
    began = time.monotonic()
    with Client(s.gateway.port) as client:
        client.head("/", f"Idempotency-Key: {key}", form).send("7D0\r\nxxxx")
        client.rest()
    assert SLOW_S * 0.5 < time.monotonic() - began < SLOW_S + 20
    assert s.upstream.requests(key) == 0 and state(s.server, key) is None


def test_many_slow_bodies_hold_nobody_up(s):
    slow = [Client(s.gateway.port) for _ in range(100)]
    try:
        for number, client in enumerate(slow):
            client.head("/", f"Idempotency-Key: crawl-{number}", "Content-Length: 10").send("x")
        began = time.monotonic()
        assert s.gateway.post("/", "quick-1").status == 201
        assert time.monotonic() - began < SLOW_S
        for client in slow[:50]:
            client.send("y" * 9)
        assert all(client.answer().status == 201 for client in slow[:50])
    finally:
        for client in slow:
            client.close()
    assert all(s.upstream.effects(f"crawl-{n}") == 1 for n in range(50))


def test_a_head_that_stops(s):
    with Client(s.gateway.port) as client:
        client.send("POST / HTTP/1.1\r\nIdempotency-Key: never-ends")
        client.rest()
    assert s.upstream.requests("never-ends") == 0


@pytest.mark.parametrize("path, status", [("/pages/", 404), ("/tiny/", 413)])
def test_chunks_over_the_bound_of_nginx(s, path, status):
    """Found out while the body is read; the error page of a request that never began is shown."""
    key = "bound" + path.replace("/", "-")
    with Client(s.gateway.port) as client:
        client.head(path, f"Idempotency-Key: {key}", "Transfer-Encoding: chunked")
        sender = Later(client.send, b"".join([b"10000\r\n%s\r\n" % (b"x" * 65536)] * 20))
        answer = client.answer()
        client.close()
        sender.join(10)
    assert answer.status == status, answer
    assert s.upstream.requests(key) == 0 and state(s.server, key) is None


# ---- Many on one connection ----------------------------------------------------------------------

def test_pipelined_requests(s):
    """All sent before the first answer; answered in order, each key once."""
    count = 50
    text = "".join(head(f"Idempotency-Key: pipe-{n // 2}", "Content-Length: 2") + "{}"
                   for n in range(count))
    with Client(s.gateway.port) as client:
        client.send(text)
        answers = answers_of(client, count)
    assert [key for _, key in answers] == [f"pipe-{n // 2}" for n in range(count)]
    assert {status for status, _ in answers} == {201}
    assert all(s.upstream.effects(f"pipe-{n}") == 1 for n in range(count // 2))


def answers_of(client, count):
    """(status, key) of as many answers, read as one stream of bytes."""
    found = b""
    while found.count(b'"sha256"') < count:
        more = client.socket.recv(65536)
        assert more, found[-500:]
        found += more
    statuses = re.findall(rb"HTTP/1\.1 (\d\d\d) ", found)
    keys = re.findall(rb'^\{"key": "([^"]*)"', found, re.M)
    return [(int(status), key.decode()) for status, key in zip(statuses, keys, strict=True)]


def test_pipelined_with_refusals_in_between(s):
    """A refused body is read away, so that what follows is not taken for it."""
    text = (head("Idempotency-Key: bad key", "Content-Length: 6") + "POST /"
            + head("Content-Length: 4", path="/require/") + "GET "
            + head("Idempotency-Key: between-1", "Content-Length: 0", "Connection: close"))
    assert whole(s, text) == [400, 400, 201] and s.upstream.effects("between-1") == 1


# ---- HTTP/2 --------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def h2(s, tmp_path_factory):
    locations = {"/": "once on;", "/small/": "once on; once_max_body 1k; client_max_body_size 0;"}
    with Gateway(tmp_path_factory.mktemp("input-h2"), s.server, s.upstream, locations,
                 listen="http2") as gateway:
        yield gateway


def test_http2(s, h2):
    first = curl(h2.port, "/", "h2-1")
    again = curl(h2.port, "/", "h2-1")
    assert first[0] == again[0] == 201 and first[2] == again[2]
    assert "idempotency-replayed: true" in again[1] and "idempotency-replayed" not in first[1]
    assert curl(h2.port, "/", "h2-1", body="other")[0] == 422
    assert curl(h2.port, "/", "h2-2", do="close")[0] == 502
    status, headers, _ = curl(h2.port, "/", "h2-2", do="close")
    assert status == 409 and "x-should-retry: false" in headers
    assert curl(h2.port, "/", "h2-3", do="status=204,empty")[::2] == (204, b"")
    assert curl(h2.port, "/", "h2-3", do="status=204,empty")[::2] == (204, b"")
    assert s.upstream.effects("h2-1") == s.upstream.effects("h2-3") == 1
    # A key that was used over HTTP/1.1 is the same key.
    assert s.gateway.post("/", "h2-1", b"{}").replayed


def test_http2_refused_early(s, h2):
    """Before the body: the stream is ended, the connection goes on."""
    with Http2(h2.port) as client:
        for number, key in enumerate(("a b", '"open', "x" * 256)):
            client.request(2 * number + 1, key, body=b"x" * 3000)
            status, body = client.answer(2 * number + 1)
            assert status == 400 and b"key-malformed" in body
        client.request(9, "h2-good")
        assert client.answer(9)[0] == 201


def test_http2_over_the_bound(s, h2):
    """No length said before: found out while it is read."""
    with Http2(h2.port) as client:
        for stream, size, status in ((1, 1024, 201), (3, 1025, 413), (5, 60000, 413), (7, 5, 201)):
            client.request(stream, f"h2-bound-{stream}", path="/small/", body=b"", end=False)
            for at in range(0, size, 16000):
                last = at + 16000 >= size
                client.frame(client.DATA, client.END_STREAM if last else 0, stream,
                             b"x" * min(16000, size - at))
            found, _ = client.answer(stream)
            assert found == status, stream
            assert s.upstream.requests(f"h2-bound-{stream}") == (status == 201)


def test_http2_large_bodies(s, h2, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"z" * 900000)
    for _ in range(2):
        status, _, answer = curl(h2.port, "/", "h2-large", body=f"@{body}", do="big=700000")
        assert status == 201 and answer == b"x" * 700000
    assert s.upstream.effects("h2-large") == 1


def test_http2_many_streams(s, h2):
    """A hundred streams of one connection, two of each key."""
    with Http2(h2.port) as client:
        for number in range(100):
            client.request(2 * number + 1, f"streams-{number // 2}")
        client.request(201, "streams-last")
        assert client.answer(201)[0] == 201
        wait_for("all are done", lambda: all(
            state(s.server, f"streams-{n}") == "completed" for n in range(50)))
    assert all(s.upstream.effects(f"streams-{n}") == 1 for n in range(50))


@pytest.mark.parametrize("more", [
    [("transfer-encoding", "chunked")], [("content-length", "1")], [("content-length", "99")],
    [("idempotency-key", "second")], [("x-evil", "a\r\nidempotency-key: b")],
    [("x\r\nevil", "a")], [("Idempotency-Key", "upper")], [(":path", "/other")],
    [("content-length", "2"), ("content-length", "3")]],
    ids=lambda more: re.sub("[^a-z0-9]+", "-", repr(more).lower()).strip("-"))
def test_http2_shaped_to_smuggle(s, h2, more):
    """What HTTP/1.1 behind could read as another request; and a second key."""
    key = "h2-shaped-" + re.sub("[^a-z0-9]+", "-", repr(more).lower()).strip("-")
    with Http2(h2.port) as client:
        client.request(1, key, *more)
        status, body = client.answer(1)
    if status == 201:  # nginx dropped what it does not pass on
        told = [name.lower() for name, _ in json.loads(body)["headers"]]
        assert told.count("idempotency-key") == 1 and told.count("content-length") == 1
        assert "transfer-encoding" not in told and s.upstream.effects(key) == 1
    else:
        assert status in (None, 400) and s.upstream.requests(key) == 0


def test_nothing_is_left_behind(s):
    """After all of it nginx has not crashed, and nothing was begun that did not end."""
    errors = s.gateway.errors()
    assert not re.search(r"exited on signal|\[alert\]|\[emerg\]|\[crit\]", errors), errors[-3000:]
    with s.server.connect() as call:
        _, keys = call("ONCE.LIST", "http", "STATE", "started")
    assert not keys
