# SPDX-License-Identifier: Apache-2.0
"""Objects and values of `once serve --store postgres://…`: the tests of the embedded store, as they
are, on a server without state. Over HTTP with the OpenAPI document, and over RESP beside a real
Redis.
"""
import pytest
from failover_cluster import StoreServer
from openapi_check import Http, key  # noqa: F401 (a fixture)
from pg_tools import Postgres, PgSession
from serving import HOST, Error, RealRedis, wait_for
from test_clients_values import (pair, test_del_exists_mget,  # noqa: F401 (they run here)
                                 test_set_and_get, test_set_get_gives_the_old_value,
                                 test_set_nx_is_a_claim, test_times_to_live)
from test_http_objects import (test_a_rejection_replays, test_apply,  # noqa: F401
                               test_apply_meets_a_key_that_was_completed, test_apply_without_a_key,
                               test_deleting_leaves_a_tombstone,
                               test_effects_that_the_store_refuses, test_items, test_merge,
                               test_objects_are_listed, test_registers_have_etags,
                               test_values_have_a_bound, test_writes_under_a_key)
from test_redis_parity import test_same_commands_same_bytes  # noqa: F401


@pytest.fixture(scope="module")
def server(pg, tmp_path_factory):
    with StoreServer(tmp_path_factory.mktemp("served"), pg.installed()) as running:
        yield running


@pytest.fixture(scope="module")
def http(server):
    return Http(f"http://{HOST}:{server.http}")


@pytest.fixture(scope="module")
def both(server, tmp_path_factory):
    with RealRedis(tmp_path_factory.mktemp("redis")) as redis:
        yield redis, server


def test_pipelined_calls_of_a_name_keep_their_order(both):
    """Sets, gets and deletes of a name go different ways to the database, and arrive in order."""
    answers = []
    for one in both:
        with one.connect() as connection:
            for number in range(60):
                name = f"pipelined-{number % 3}"
                for words in (("SET", name, number), ("GET", name), ("SET", name, "x", "GET"),
                              ("DEL", name), ("GET", name), ("SETNX", name, "y"), ("MGET", name)):
                    connection.send(*words)
            answers.append([connection.read() for _ in range(60 * 7)])
    assert answers[0] == answers[1]


def test_a_row_that_cannot_be_read_stops_nobody_else(server):
    with server.connect() as c, PgSession(server.store) as session:
        for name in ("damaged", "sound"):
            assert c("ONCE.APPLY", "bank", f"make {name}", "DO", 3, "ADD", name, 5)[0] == "APPLIED"
        session.rows("UPDATE once.object SET body = decode('deadbeef', 'hex') WHERE name = 'damaged'")
        for number in range(8):  # so many that some of them share a transaction
            c.send("ONCE.APPLY", "bank", f"damaged {number}", "DO", 3, "ADD", "damaged", 1)
            c.send("ONCE.APPLY", "bank", f"sound {number}", "DO", 3, "ADD", "sound", 1)
        for number in range(8):
            answer = c.read()
            assert isinstance(answer, Error) and "once.object" in str(answer), answer
            assert c.read()[0] == "APPLIED"
        with pytest.raises(Error):
            c("ONCE.OBJECT", "damaged")
        assert session.value("SELECT body FROM once.object WHERE name = 'damaged'").hex() == "deadbeef"
        assert session.value("SELECT count(*) FROM once.operation WHERE key LIKE 'damaged %%'") == 0


def test_a_commit_with_a_warning_is_settled_not_repeated(tmp_path):
    """A set whose commit did not wait for the standby is durable here only: not told, and asked
    about until a commit has waited. Setting again would tell its own value as the one before."""
    waiting = ("SELECT pid FROM pg_stat_activity WHERE application_name = 'once' AND wait_event ="
               " 'SyncRep' AND query = 'COMMIT'")
    with Postgres(tmp_path) as own:
        with StoreServer(tmp_path / "once", own.database()) as server, server.connect() as c, \
                own.session() as session:
            assert c("SET", "value", "one") == "OK"
            own.configure(synchronous_standby_names="nobody")
            try:
                c.send("SET", "value", "two", "GET")
                for _ in range(2):  # the set itself, then the question what became of it
                    wait_for("the commit waits", lambda: session.rows(waiting))
                    (pid,), = session.rows(waiting)
                    assert session.value("SELECT pg_cancel_backend(%s)", pid)
                    wait_for("it was cancelled", lambda pid=pid: (pid,) not in session.rows(waiting))
            finally:
                own.configure(synchronous_standby_names="")
            assert c.read() == b"one"
            assert c("GET", "value") == b"two"
