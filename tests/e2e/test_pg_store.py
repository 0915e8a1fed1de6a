# SPDX-License-Identifier: Apache-2.0
"""The store of `once serve --store postgres://…` on a real server that is not well: connections cut
at every moment, backends that end, a commit that is answered with a warning, rows that an
application's transaction holds, a restart. Each asks for the same: what was told is durable, no key
gets two EXECUTEs, and whoever was given an EXECUTE is told so.
"""
import random
import threading
import time

import pytest
from pg_cut import ANSWER, HALF, ORPHAN, QUESTION, Cutter, Driver
from pg_tools import Postgres, break_function
from serving import wait_for

SEED = random.randrange(1 << 32)
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'once' AND datname = %s"


@pytest.fixture(name="url")
def fixture_url(pg):
    return pg.installed()


@pytest.fixture(scope="module", name="own")
def fixture_own(tmp_path_factory):
    """A server whose settings are changed, and which is restarted."""
    with Postgres(tmp_path_factory.mktemp("own")) as server:
        yield server


def name_of(url):
    return url.rsplit("/", 1)[1]


def disturb(driver, hurt, seconds=4, keys=10, threads=8):
    """Runs the load, and hurt() again and again meanwhile. What came of it."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    driver.load(threads, keys, int(seconds * 1000))
    until = time.monotonic() + seconds
    hurts = 0
    while time.monotonic() < until:
        hurts += bool(hurt(chance))
        time.sleep(chance.uniform(0.01, 0.06))
    came = driver.loaded()
    assert hurts > 5, "nothing was disturbed"
    assert came["keys"] > 0 and came["once"] == came["keys"], (came, driver.said[-20:])
    assert came["twice"] == came["never"] == came["wrong"] == came["given_up"] == 0, came
    return came


def test_everybody_begins_the_same_keys(url):
    with Driver(url) as driver:
        driver.load(16, 20, 500)
        came = driver.loaded()
        assert came["once"] == came["keys"] > 0 and not came["wrong"] + came["given_up"], came
        stats = driver.stats()
        assert stats["batches"] < stats["calls"] / 2, stats  # they share round trips
        assert stats["asked_again"] == stats["unsettled"] == stats["links_lost"] == 0, stats
        error, found = driver.list(2)
        assert error == "OK" and len({line[0] for line in found}) == len(found) == came["keys"]
        assert driver.list(1) == ("OK", []) == driver.list(4)


def test_connections_are_cut(pg):
    for _ in range(5):  # a slow machine may be cut where nothing is under way
        with Cutter(pg.port) as cutter, Driver(cutter.url(pg.installed())) as driver:
            def cut(chance, cutter=cutter):
                pairs = [pair for pair in cutter.live() if pair.mode is None]
                if pairs:
                    chance.choice(pairs).mode = chance.choice((QUESTION, ANSWER, ANSWER, HALF))
                return pairs
            disturb(driver, cut, keys=4, threads=100)  # so many use several lanes
            stats = driver.stats()
        assert stats["unsettled"] == 0
        if stats["asked_again"]:
            break
    assert stats["asked_again"] > 0


def test_backends_end(pg, url):
    with Driver(url) as driver, pg.session() as session:
        def end(chance):
            pids = [pid for pid, in session.rows(SESSIONS, name_of(url))]
            return pids and session.rows("SELECT pg_terminate_backend(%s)", chance.choice(pids))
        disturb(driver, end)
        assert driver.stats()["links_lost"] > 0


def test_lost_begin_is_the_same_execute(pg, url):
    """Of each kind of loss, one by one: the only begin of a key, anonymous, is told EXECUTE."""
    with Cutter(pg.port) as cutter, Driver(cutter.url(url), 1) as driver, \
            pg.session(name_of(url)) as session:
        for number, mode in enumerate((QUESTION, ANSWER, HALF) * 3):
            wait_for("a session", lambda: driver.stats()["links_up"] == 1)
            for pair in cutter.live():
                pair.mode = mode
            word, fence, *_ = driver.ask("begin", f"b{number}", f"key{number}")
            assert word == "EXECUTE", (mode, word)
            kept = session.one("SELECT fence, attempt, state FROM once.get('drive', %s)",
                               f"key{number}")
            assert kept == (int(fence), 1, "started"), (mode, kept)
        assert driver.stats()["unsettled"] == 0


def test_session_that_stays_is_ended_first(pg, url):
    """The server did not notice that the connection is gone: its session could still do what it was
    sent. So it is ended before anything is asked again."""
    with Cutter(pg.port) as cutter, Driver(cutter.url(url), 1) as driver, pg.session() as session:
        wait_for("a session", lambda: driver.stats()["links_up"] == 1)
        before = {pid for pid, in session.rows(SESSIONS, name_of(url))}
        for pair in cutter.live():
            pair.mode = ORPHAN
        word, *_, took_ms = driver.ask("begin", "b", "orphan")
        assert word == "EXECUTE" and 1900 < took_ms < 9000, (word, took_ms)
        gone = before - {pid for pid, in session.rows(SESSIONS, name_of(url))}
        assert gone, "the session that was lost is still there"
        assert any("told to end" in line for line in driver.said)


def test_commit_with_a_warning_is_unknown(own):
    """A commit that did not wait for its standby is durable here only: not told, asked again."""
    url = own.database()
    with Driver(url, 1) as driver, own.session() as session:
        wait_for("a session", lambda: driver.stats()["links_up"] == 1)
        own.configure(synchronous_standby_names="nobody")
        try:
            driver.send("begin b warned")
            waiting = ("SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event ="
                       " 'SyncRep' AND query LIKE '%%once.calls(%%'")
            for again in range(1, 3):
                wait_for("the commit waits", lambda: session.rows(waiting, name_of(url)))
                (pid,), = session.rows(waiting, name_of(url))
                assert session.value("SELECT pg_cancel_backend(%s)", pid)
                wait_for("asked again", lambda again=again: driver.stats()["asked_again"] >= again)
                assert not driver.has("b"), "told what no standby has"
        finally:
            own.configure(synchronous_standby_names="")
        assert driver.answer("b")[0] == "EXECUTE"
        assert driver.stats()["unsettled"] == 0


def test_transaction_of_an_application_holds_the_key(pg, url):
    with Driver(url, 1) as driver, pg.session(name_of(url)) as session:
        with session.transaction():
            (word, fence, *_), = session.rows("SELECT * FROM once.begin('drive', 'held')")
            assert word == "EXECUTE"
            for number in range(40):  # in one batch with the key that is held
                driver.send(f"begin o{number} other{number}")
            word, *_, took_ms = driver.ask("begin", "b", "held")
            assert word == "BUSY" and took_ms < 9000, (word, took_ms)
            for number in range(40):
                assert driver.answer(f"o{number}")[0] == "EXECUTE"
            driver.send("get g held")  # decided after the transaction: it has not begun for us
            assert driver.ask("begin", "c", "held")[0] == "BUSY"
            session.rows("SELECT once.complete('drive', 'held', %s, 3, 'done')", fence)
        driver.answer("g")
        wait_for("its answer", lambda: driver.ask("begin", "d", "held")[0] == "REPLAY")
        assert driver.ask("begin", "e", "held")[2:4] == ("3", "done")


def test_owner_waits_for_a_transaction_that_holds_its_key(pg, url):
    with Driver(url, 1) as driver, pg.session(name_of(url)) as session:
        word, fence, *_ = driver.ask("begin", "b", "mine")
        with session.transaction():
            session.rows("SELECT 1 FROM once.operation WHERE key = 'mine' FOR UPDATE")
            driver.send(f"complete c mine {fence} done")
            assert driver.ask("begin", "other", "other")[0] == "EXECUTE"
            time.sleep(0.5)
            assert not driver.has("c")
        assert driver.answer("c")[0] == "OK"


def test_server_restarts(own):
    url = own.database()
    with Driver(url) as driver:
        restarted = threading.Thread(target=lambda: [time.sleep(0.5), own.restart("immediate")])
        driver.load(8, 20, 2500)
        restarted.start()
        came = driver.loaded()
        restarted.join()
        assert came["once"] == came["keys"] > 0, came
        assert came["twice"] == came["wrong"] == came["given_up"] == 0, came
        assert driver.stats()["links_lost"] > 0


def test_closing_when_the_database_is_gone(tmp_path):
    with Postgres(tmp_path) as server:
        url = server.database()
        driver = Driver(url)
        with driver:
            assert driver.ask("begin", "a", "k")[0] == "EXECUTE"
            server.stop("immediate")
            driver.send("begin b other")
            error, took_ms = driver.close()
            assert error == "OK" and took_ms < 6000
            assert driver.answer("b")[0] == "ERR_IO"


@pytest.mark.parametrize("state, broken", [
    ("53100", "ERR_IO"),  # the disk is full when it is asked again
    ("55P03", "ERR_IO"),  # someone holds the row by then
])
def test_two_failures_in_a_row_are_unknown(pg, url, state, broken):
    """The answer is lost, and the question that is asked again fails. That it failed says nothing of
    the first: it was kept, and nobody may be told that nothing was decided, or that it is BUSY."""
    break_function(url, "calls", "IF now NOT BETWEEN",
                   "IF EXISTS (SELECT FROM once.operation o WHERE o.key = 'lost') THEN"
                   f" RAISE EXCEPTION 'broken' USING ERRCODE = '{state}'; END IF;"
                   " IF now NOT BETWEEN")
    with Cutter(pg.port) as cutter, Driver(cutter.url(url), 1) as driver, \
            pg.session(name_of(url)) as session:
        wait_for("a session", lambda: driver.stats()["links_up"] == 1)
        for pair in cutter.live():
            pair.mode = ANSWER
        assert driver.ask("begin", "b", "lost")[0] == broken
        assert session.value("SELECT state FROM once.get('drive', 'lost')") == "started"
        assert driver.stats()["unsettled"] == 1


def test_failure_of_a_call_that_was_not_lost_is_known(pg, url):
    break_function(url, "calls", "IF now NOT BETWEEN",
                   "IF count > 0 THEN RAISE EXCEPTION 'broken' USING ERRCODE = '53100'; END IF;"
                   " IF now NOT BETWEEN")
    with Driver(url, 1) as driver:
        for number in range(20):
            driver.send(f"begin b{number} key{number}")
        for number in range(20):
            assert driver.answer(f"b{number}")[0] == "ERR_SPACE"
        assert driver.stats()["unsettled"] == 0
