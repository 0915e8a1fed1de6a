# SPDX-License-Identifier: Apache-2.0
"""The server of Once is down, does not answer, goes while a request runs, or is no such server: 503
by default, passed on where that was chosen, and nothing hangs.
"""
import shutil
import signal
import socket
import threading

import pytest
from gateway_raw import Later
from gateway_tools import Gateway, Upstream, black_hole
from serving import HOST, Server, wait_for


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A gateway and a service; the server comes and goes."""
    folder = tmp_path_factory.mktemp("down")
    server, upstream = Server(folder / "server"), Upstream(folder / "upstream")
    quick = f"unix:{server.socket_path} timeout=2s end_timeout=2s"
    gateway = Gateway(folder / "nginx", quick, upstream, {
        "/": "once on;", "/open/": "once on; once_fail open;", "/require/": "once require;"})
    with upstream, gateway:
        yield server, upstream, gateway
    shutil.rmtree(server.dir)


def test_down_is_closed_unless_said_otherwise(alone):
    server, upstream, gateway = alone
    before = gateway.counts()["unavailable"]
    answer = gateway.post("/", "down-1")
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert answer.get("Retry-After") == "1" and upstream.requests("down-1") == 0
    assert gateway.counts()["unavailable"] == before + 1
    assert "did not answer; the request is refused" in gateway.errors()
    assert gateway.post("/", None).status == 201  # nothing to protect
    with server:
        assert gateway.post("/", "down-1").status == 201
        assert gateway.post("/", "down-1").replayed
    assert upstream.effects("down-1") == 1


def test_down_and_open(alone):
    server, upstream, gateway = alone
    before = gateway.counts()["open"]
    for count in (1, 2):
        answer = gateway.post("/open/", "open-1", headers={"Once-Fence": "7"})
        assert answer.json["effects"] == count and answer.json["fence"] in (None, "0")
    assert gateway.counts()["open"] == before + 2
    assert "passed on unprotected" in gateway.errors()
    wait_for("both are logged", lambda: [a["verdict"] for a in gateway.accesses()
                                         if a["key"] == "open-1"] == ["OPEN", "OPEN"])
    with server:
        assert gateway.post("/open/", "open-2").status == 201
        assert gateway.post("/open/", "open-2").replayed


def test_the_outcome_cannot_be_recorded(alone):
    """The server goes while the upstream works: what was done is not told as if it were kept."""
    server, upstream, gateway = alone
    with server:
        closed = Later(gateway.post, "/", "lost-1", do="hold=lost-1")
        opened = Later(gateway.post, "/open/", "lost-2", do="hold=lost-2")
        upstream.wait_effects("lost-1")
        upstream.wait_effects("lost-2")
        server.kill()
        before = gateway.counts()["unrecorded"]
        upstream.let_go("lost-1")
        upstream.let_go("lost-2")
        answer = closed.result()
        assert (answer.status, answer.problem) == (503, "unrecorded")
        assert answer.get("X-Should-Retry") == "false"
        assert opened.result().status == 201
        assert gateway.counts()["unrecorded"] == before + 2
        assert "could not be recorded" in gateway.errors()
        server.start()
        assert gateway.post("/", "lost-1", do="hold=lost-1").problem in ("busy", "doubt")
    assert upstream.effects("lost-1") == upstream.effects("lost-2") == 1


def test_the_server_restarts_while_the_upstream_works(alone):
    server, upstream, gateway = alone
    with server:
        running = Later(gateway.post, "/", "restart-1", do="hold=restart-1")
        upstream.wait_effects("restart-1")
        server.kill()
        server.start()
        upstream.let_go("restart-1")
        assert running.result().status == 201
        assert gateway.post("/", "restart-1", do="hold=restart-1").replayed
    assert upstream.effects("restart-1") == 1


def test_a_server_that_does_not_answer(alone):
    """Paused, not down: the request is refused in time, and what the server took up meanwhile is
    given back, because nothing was done."""
    server, upstream, gateway = alone
    with server:
        assert gateway.post("/", "paused-0").status == 201
        server.process.send_signal(signal.SIGSTOP)
        try:
            answer = gateway.post("/", "paused-1")
            assert answer.problem == "unavailable" and upstream.requests("paused-1") == 0
        finally:
            server.process.send_signal(signal.SIGCONT)
        retry = wait_for("it is free again", lambda: free_again(gateway, "paused-1"))
        assert retry.status == 201 and upstream.effects("paused-1") == 1


def free_again(gateway, key):
    answer = gateway.post("/", key)
    return answer if answer.status != 409 else None


def test_a_server_that_takes_no_connection(tmp_path, alone):
    """Given up in time, so that another address of its name is tried, and not after minutes."""
    with black_hole() as port, \
            Gateway(tmp_path / "hole", f"{HOST}:{port} timeout=1s", alone[1]) as gateway:
        assert gateway.post("/", "hole-1").problem == "unavailable"
        assert "nobody takes the connection" in gateway.errors()


def test_a_server_that_talks_nonsense(tmp_path, alone):
    """Not RESP, or an error: refused, and nothing hangs."""
    _, upstream, _ = alone
    answers = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR no such thing\r\n",
               b"*1\r\n$5\r\nWHAT!\r\n",
               b"*-1\r\n", b":1\r\n", b"+EXECUTE\r\n", b"$999999999999\r\n", b""]
    listener = socket.create_server((HOST, 0))
    port = listener.getsockname()[1]
    script = {"now": b""}

    def serve():
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                if peer.recv(65536):
                    peer.sendall(script["now"])

    threading.Thread(target=serve, daemon=True).start()
    gateway = Gateway(tmp_path, f"{HOST}:{port} timeout=200ms end_timeout=200ms", upstream,
                      {"/": "once on;"}, workers=1)
    with listener, gateway:
        for number, text in enumerate(answers):
            script["now"] = text
            answer = gateway.post("/", f"nonsense-{number}", timeout=10)
            assert (answer.status, answer.problem) == (503, "unavailable"), text
            assert upstream.requests(f"nonsense-{number}") == 0
        listener.shutdown(socket.SHUT_RDWR)
