# SPDX-License-Identifier: Apache-2.0
"""Two transactions meet at one key, on every isolation level of PostgreSQL: one effect, and whoever
comes second waits and replays, or is told to try again (40001), or is BUSY at once if he asked so.
"""
import threading

import psycopg
import pytest
from pg_tools import PgSession
from serving import wait_for

LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
AGAIN = "40001"


@pytest.fixture(scope="module")
def url(pg):
    url = pg.installed()
    with PgSession(url) as session:
        session.rows("CREATE TABLE effect (key text)")
    return url


@pytest.fixture
def pair(url):
    with PgSession(url) as first, PgSession(url) as second:
        yield first, second


def start(session, level):
    session.rows(f"BEGIN ISOLATION LEVEL {level}")
    session.rows("SELECT 1")  # from here on it has a snapshot


def pay(session, key, wait=True):
    """The verdict; an EXECUTE has its effect and is completed."""
    verdict, fence, result = session.one(
        "SELECT verdict, fence, result FROM once.begin('iso', %s, 'f', wait => %s)", key, wait)
    if verdict == "EXECUTE":
        session.rows("INSERT INTO effect VALUES (%s)", key)
        session.rows("SELECT once.complete('iso', %s, %s, 0, 'paid')", key, fence)
    return verdict, result


class Beside(threading.Thread):
    """A payment that is expected to wait, on a thread."""

    def __init__(self, session, key, observer):
        super().__init__(daemon=True)
        self.session, self.key, self.answer, self.error = session, key, None, None
        self.start()
        wait_for("it waits for a lock, or is done", lambda: not self.is_alive() or observer.value(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type ="
            " 'Lock')", session.pid))

    def run(self):
        try:
            self.answer = pay(self.session, self.key)
        except psycopg.Error as error:
            self.error = error

    def end(self):
        self.join(30)
        assert not self.is_alive()
        return self


def effects(session, key):
    return session.value("SELECT count(*) FROM effect WHERE key = %s", key)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_duplicate_waits_for_the_first(url, pair, level, end):
    first, second = pair
    key = f"{level} {end}"
    start(first, level)
    start(second, level)
    assert pay(first, key) == ("EXECUTE", None)
    with PgSession(url) as observer:
        waiting = Beside(second, key, observer)
        assert waiting.is_alive(), (waiting.answer, waiting.error)
        first.rows(end)
        waiting.end()
        if end == "ROLLBACK":
            assert waiting.answer == ("EXECUTE", None), waiting.error
            second.rows("COMMIT")
        elif level == "READ COMMITTED":
            assert waiting.answer == ("REPLAY", b"paid"), waiting.error
            second.rows("COMMIT")
        else:
            assert waiting.error.sqlstate == AGAIN
            second.rows("ROLLBACK")
            start(second, level)
            assert pay(second, key) == ("REPLAY", b"paid")
            second.rows("COMMIT")
        assert effects(observer, key) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_who_does_not_wait_is_busy_at_once_and_goes_on(pair, level):
    first, second = pair
    key = f"busy {level}"
    start(first, level)
    start(second, level)
    assert pay(first, key) == ("EXECUTE", None)
    assert pay(second, key, wait=False) == ("BUSY", None)
    second.rows("INSERT INTO effect VALUES ('something else')")  # the transaction lives
    assert second.value("SHOW lock_timeout") == "0"
    second.rows("COMMIT")
    first.rows("COMMIT")
    assert pay(second, key, wait=False) == ("REPLAY", b"paid")


@pytest.mark.parametrize("level", LEVELS[1:])
def test_an_old_snapshot_does_not_execute_what_was_done_since(pair, level):
    """It cannot see the key, and yet must not run."""
    first, second = pair
    key = f"old {level}"
    start(second, level)
    assert pay(first, key) == ("EXECUTE", None)
    with pytest.raises(psycopg.errors.SerializationFailure):
        pay(second, key)
    second.rows("ROLLBACK")
    assert pay(second, key) == ("REPLAY", b"paid")
    assert effects(first, key) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_a_doubt_is_taken_over_by_one_of_two(url, pair, level):
    first, second = pair
    key = f"doubt {level}"
    fence = first.value("SELECT fence FROM once.begin('iso', %s, 'f')", key)
    first.rows("SELECT once.renew('iso', %s, %s, 0)", key, fence)
    start(first, level)
    start(second, level)
    taken = "SELECT verdict FROM once.begin('iso', %s, 'f', on_doubt => 'RETRY')"
    assert first.value(taken, key) == "EXECUTE"
    found = []

    def take():
        try:
            found.append(second.value(taken, key))
        except psycopg.Error as error:
            found.append(error.sqlstate)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    with PgSession(url) as observer:
        wait_for("it waits", lambda: observer.value("SELECT EXISTS (SELECT FROM pg_stat_activity"
                                                    " WHERE pid = %s AND wait_event_type = 'Lock')",
                                                    second.pid))
    first.rows("COMMIT")
    thread.join(30)
    assert found == ["BUSY" if level == "READ COMMITTED" else AGAIN]
    second.rows("ROLLBACK")


@pytest.mark.parametrize("level", LEVELS)
def test_a_paused_owner_cannot_complete_what_was_taken_from_it(pair, level):
    """Its fence is older: the effect of its transaction goes with it."""
    first, second = pair
    key = f"paused {level}"
    fence = first.value("SELECT fence FROM once.begin('iso', %s, 'f')", key)
    second.rows("SELECT once.renew('iso', %s, %s, 0)", key, fence)
    newer = second.value("SELECT fence FROM once.begin('iso', %s, 'f', on_doubt => 'RETRY')", key)
    assert newer > fence
    start(first, level)
    first.rows("INSERT INTO effect VALUES (%s)", key)
    with pytest.raises(psycopg.Error) as refused:
        first.rows("SELECT once.complete('iso', %s, %s)", key, fence)
    assert refused.value.sqlstate == "ON007" and str(refused.value).startswith("STALE ")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        first.rows("SELECT 1")
    first.rows("COMMIT")  # which is a rollback now
    assert effects(second, key) == 0


@pytest.mark.parametrize("level", LEVELS)
def test_those_who_replay_do_not_wait_for_each_other(pair, level):
    first, second = pair
    key = f"{level} replays"
    assert pay(first, key)[0] == "EXECUTE"
    start(first, level)
    start(second, level)
    assert pay(first, key) == ("REPLAY", b"paid")
    assert pay(second, key, wait=False) == ("REPLAY", b"paid")
    assert second.value("SELECT verdict FROM once.begin('iso', %s, 'other', wait => false)",
                        key) == "MISMATCH"
    first.rows("ROLLBACK")
    second.rows("ROLLBACK")


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_does_not_move_by_an_old_declaration(pair, level):
    first, second = pair
    first.rows("SELECT once.machine(%s, '{a>b,a>c}')", level)
    start(second, level)
    second.rows("SELECT once.state(%s, 'e')", level)
    first.rows("SELECT once.machine_change(%s, '{a>c}')", level)
    with pytest.raises(psycopg.Error) as caught:
        second.rows("SELECT once.move(%s, 'e', 'a', 'b')", level)
    second.rows("ROLLBACK")
    assert caught.value.sqlstate == ("ON010" if level == LEVELS[0] else AGAIN)
    assert first.value("SELECT once.state(%s, 'e')", level) == "a"
    start(second, level)
    assert second.value("SELECT once.move(%s, 'e', 'a', 'c')", level)
    second.rows("COMMIT")
