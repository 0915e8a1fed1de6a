# SPDX-License-Identifier: Apache-2.0
"""The database goes away under `once serve --store`, and comes back, or does not."""
import signal
import subprocess
import time

import pytest
from failover_cluster import StoreServer
from pg_tools import Postgres
from serving import Error, wait_for
from test_pg_served import http


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with Postgres(tmp_path_factory.mktemp("database")) as server:
        yield server


def test_a_server_waits_a_moment_for_a_database_that_is_being_started(database, tmp_path):
    server = StoreServer(tmp_path / "server", database.url())
    database.stop()
    with server.log.open("ab") as log:
        server.process = subprocess.Popen(server.command(), stdout=log, stderr=log,
                                          env=server.environment)
    wait_for("it waits", lambda: "store_awaited" in server.log.read_text())
    assert http(server, "GET", "/readyz").json()["status"] == "loading"
    database.start()
    wait_for("it is ready", server.ready)
    assert server.stop() == 0


def test_told_to_stop_while_it_waits_it_stops(database, tmp_path):
    server = StoreServer(tmp_path / "server", database.url())
    database.stop()
    try:
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(server.command(), stdout=log, stderr=log,
                                              env=server.environment)
        wait_for("it waits", lambda: "store_awaited" in server.log.read_text())
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)
        assert time.monotonic() - began < 15, "it did not wait for the database any longer"
    finally:
        database.start()


def not_ready(server):
    """What /readyz says when it says no."""
    answer = http(server, "GET", "/readyz")
    assert answer.status_code == 200 or "Retry-After" in answer.headers
    return answer.json() if answer.status_code == 503 else None


def test_ready_only_while_the_database_answers(database, tmp_path):
    with StoreServer(tmp_path / "server", database.url()) as server, server.connect() as c:
        fence = c("ONCE.BEGIN", "pay", "k", "LEASE", 600000)[1]
        database.stop("immediate")
        assert wait_for("it says so", lambda: not_ready(server)) == {"status": "unreachable"}
        assert http(server, "GET", "/healthz").status_code == 200
        assert http(server, "GET", "/v1/stats").json()["unreachable"]
        assert "once_store_reachable 0" in http(server, "GET", "/metrics").text
        c.send("ONCE.COMPLETE", "pay", "k", fence, 0, "r")
        database.start()
        assert c.read() == "OK", "a call that waits for the database is answered by it"
        wait_for("it is ready", server.ready)
        assert c("ONCE.BEGIN", "pay", "k") == ["REPLAY", 0, b"r"]


def test_a_call_is_told_when_nobody_answers_and_stopping_does_not_hang(database, tmp_path):
    with StoreServer(tmp_path / "server", database.url()) as server, server.connect() as c:
        assert c("ONCE.BEGIN", "pay", "first")[0] == "EXECUTE"
        database.stop("immediate")
        try:
            began = time.monotonic()
            with pytest.raises(Error, match="^STOPPED .*nothing was decided"):
                c("ONCE.BEGIN", "pay", "second")
            assert 5 < time.monotonic() - began < 30
            began = time.monotonic()
            assert server.stop() == 0 and time.monotonic() - began < 20
        finally:
            database.start()
    with StoreServer(tmp_path / "server", database.url()) as server, server.connect() as c:
        assert c("ONCE.BEGIN", "pay", "first")[0] == "BUSY"
        assert c("ONCE.BEGIN", "pay", "second")[0] == "EXECUTE", "nothing was decided"
