# SPDX-License-Identifier: Apache-2.0
"""The functions beside begin and complete in a real PostgreSQL: apply, seen, grant and guard, move,
emit and take, sweep, views, tenants. Mergeables are in test_pg_merge.py."""
import json
import threading
import time

import psycopg
import pytest
from pg_tools import PgSession
from serving import wait_for

BUSY, MISMATCH, DOUBT, TOO_OLD = "ON002", "ON003", "ON004", "ON005"
STALE, NOTFOUND, REJECTED = "ON007", "ON008", "ON010"
INVALID, TOO_LARGE, DENIED, SERIALIZATION = "22023", "54000", "42501", "40001"
DAY_MS = 86400000


@pytest.fixture(scope="module")
def url(pg):
    """A statement that waits where it should not fails; it does not hang."""
    found = pg.installed("1.1")
    pg.sql(f"ALTER DATABASE {found.rsplit('/', 1)[1]} SET lock_timeout = '20s'")
    return found


@pytest.fixture
def db(url):
    """A session in a database where nothing has happened yet."""
    with PgSession(url) as session:
        tables = [name for (name,) in session.rows(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'once'::regnamespace")]
        session.rows("DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
                     "SELECT once.set_clock(0, 0);"
                     + "".join(f"DELETE FROM {name};" for name in tables))
        yield session


@pytest.fixture
def other(url):
    with PgSession(url) as session:
        yield session


def refused(session, state, text, statement, *arguments):
    """The statement raises this SQLSTATE with a message that has this text."""
    with pytest.raises(psycopg.Error) as caught:
        session.rows(statement, *arguments)
    assert caught.value.sqlstate == state, caught.value
    assert text in str(caught.value), caught.value


def later(session, ms):
    session.rows("SELECT once.set_clock(coalesce(pg_sequence_last_value('once.ahead_seq'), 0) + %s,"
                 " NULL)", ms)


class Waiting:
    """A statement in a thread, of which is known that it waits for another transaction."""

    def __init__(self, session, watcher, statement, *arguments):
        self.outcome = None
        self.thread = threading.Thread(target=self.run, args=(session, statement, arguments))
        self.thread.start()
        wait_for("it waits for a lock", lambda: watcher.rows(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
            session.pid))

    def run(self, session, statement, arguments):
        try:
            self.outcome = session.rows(statement, *arguments)
        except psycopg.Error as error:
            self.outcome = error.sqlstate

    def end(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.outcome


# ---- apply ---------------------------------------------------------------------------------------

PAY = """
    CREATE TABLE account (id text PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO account VALUES ('a', 100);
    CREATE FUNCTION pay(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
    DECLARE rest bigint;
    BEGIN
        UPDATE account SET balance = balance - (request ->> 'amount')::bigint
        WHERE id = request ->> 'from' RETURNING balance INTO rest;
        IF rest < 0 THEN RAISE EXCEPTION 'not enough'; END IF;
        RETURN jsonb_build_object('rest', rest);
    END $$;
"""
APPLY = "SELECT once.apply('pay', %s, %s, 'pay')"


def request(amount):
    return json.dumps({"from": "a", "amount": amount})


def balance(db):
    return db.value("SELECT balance FROM account")


def test_apply_runs_once_and_replays(db):
    db.rows(PAY)
    assert [db.value(APPLY, "k", request(30)) for _ in range(3)] == [{"rest": 70}] * 3
    assert balance(db) == 70
    # the same request in another form of JSON
    assert db.value(APPLY, "k", '{ "amount": 30 , "from":"a"}') == {"rest": 70}
    assert db.value("SELECT state FROM once.get('pay', 'k')") == "completed"


def test_apply_another_request_is_a_mismatch(db):
    db.rows(PAY)
    db.value(APPLY, "k", request(30))
    refused(db, MISMATCH, "MISMATCH this key belongs to another request", APPLY, "k", request(31))
    assert balance(db) == 70


def test_apply_error_takes_the_key_back(db):
    db.rows(PAY)
    refused(db, "P0001", "not enough", APPLY, "k", request(101))
    assert (balance(db), db.rows("SELECT 1 FROM once.operation")) == (100, [])
    assert db.value(APPLY, "k", request(99)) == {"rest": 1}


def test_apply_rolls_back_with_its_caller(db):
    db.rows(PAY)
    with pytest.raises(ZeroDivisionError):
        with db.transaction():
            db.value(APPLY, "k", request(30))
            raise ZeroDivisionError
    assert (balance(db), db.rows("SELECT 1 FROM once.operation")) == (100, [])


def test_apply_duplicate_waits_and_replays(db, other, url):
    db.rows(PAY)
    with PgSession(url) as watcher:
        with db.transaction():
            assert db.value(APPLY, "k", request(30)) == {"rest": 70}
            waiting = Waiting(other, watcher, APPLY, "k", request(30))
        assert waiting.end() == [({"rest": 70},)]
        with db.transaction():
            db.value(APPLY, "k2", request(30))
            waiting = Waiting(other, watcher, APPLY, "k2", request(10))
        assert waiting.end() == MISMATCH
    assert balance(db) == 40


def test_apply_says_busy_doubt_and_too_old(db):
    db.rows(PAY)
    print_of = "once.fingerprint('{\"from\": \"a\", \"amount\": 1}')"
    db.rows(f"SELECT once.begin('pay', 'k', {print_of}, lease_ms => 60000)")
    refused(db, BUSY, "BUSY someone holds a live lease", APPLY, "k", request(1))
    later(db, 60001)
    refused(db, DOUBT, "DOUBT", APPLY, "k", request(1))
    refused(db, TOO_OLD, "TOO_OLD", APPLY, "01890000-0000-7000-8000-000000000001", request(1))
    assert balance(db) == 100


def test_apply_null_and_foreign_results(db):
    db.rows("CREATE FUNCTION nothing(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb'")
    for _ in range(2):
        assert db.value("SELECT once.apply('n', 'k', '1', 'nothing')") is None
    fence = db.value("SELECT (once.begin('n', 'j', once.fingerprint('1'))).fence")
    db.rows("SELECT once.complete('n', 'j', %s, 0, '\\x80ff')", fence)
    refused(db, INVALID, "not JSON", "SELECT once.apply('n', 'j', '1', 'nothing')")


def test_apply_takes_one_kind_of_function(db):
    db.rows(PAY)
    db.rows("CREATE SCHEMA \"od'd \"\"one\"")
    db.rows("CREATE FUNCTION \"od'd \"\"one\".\"f; DROP\"(jsonb) RETURNS jsonb LANGUAGE sql"
            " AS 'SELECT $1'")
    db.rows("CREATE FUNCTION two(jsonb, int DEFAULT 0) RETURNS jsonb LANGUAGE sql AS 'SELECT $1'")
    db.rows("CREATE FUNCTION set_of(jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $1'")
    name = "\"od'd \"\"one\".\"f; DROP\""
    assert db.value("SELECT once.apply('n', 'k', '{\"x\": 1}', %s::text::regproc)", name) == {"x": 1}
    for bad in ("two", "set_of", "pg_catalog.now", "pg_catalog.jsonb_typeof", "pg_catalog.abs"):
        with pytest.raises(psycopg.Error):
            db.rows("SELECT once.apply('n', 'j', '1', %s::text::regproc)", bad)
    refused(db, INVALID, "one jsonb", "SELECT once.apply('n', 'j', '1', 'two')")
    refused(db, INVALID, "no function", "SELECT once.apply('n', 'j', '1', NULL)")
    refused(db, INVALID, "no request", "SELECT once.apply('n', 'j', NULL, 'pay')")
    assert db.value("SELECT count(*) FROM once.operation") == 1


def test_apply_uses_the_callers_rights(db):
    db.rows(PAY)
    db.rows("GRANT USAGE ON SCHEMA public TO PUBLIC")
    with db.transaction():
        db.rows("SET LOCAL ROLE once_app")
        refused(db, DENIED, "permission denied for table account", APPLY, "k", request(1))


# ---- seen ----------------------------------------------------------------------------------------

SEEN = "SELECT once.seen(%s, %s, %s)"


def test_seen_is_false_the_first_time(db):
    assert [db.value(SEEN, "billing", "orders", "m1") for _ in range(3)] == [False, True, True]
    assert not db.value(SEEN, "billing", "orders", "m2")
    assert not db.value(SEEN, "billing", "refunds", "m1")
    assert not db.value(SEEN, "audit", "orders", "m1")


def test_seen_goes_back_with_the_transaction(db):
    with pytest.raises(ZeroDivisionError):
        with db.transaction():
            assert not db.value(SEEN, "g", "t", "m")
            raise ZeroDivisionError
    assert not db.value(SEEN, "g", "t", "m")


def test_seen_duplicate_waits(db, other, url):
    with PgSession(url) as watcher:
        with db.transaction():
            assert not db.value(SEEN, "g", "t", "m")
            waiting = Waiting(other, watcher, SEEN, "g", "t", "m")
        assert waiting.end() == [(True,)]
        transaction = db.transaction()
        transaction.__enter__()
        db.value(SEEN, "g", "t", "n")
        waiting = Waiting(other, watcher, SEEN, "g", "t", "n")
        transaction.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        assert waiting.end() == [(False,)]


def test_seen_repeatable_read_is_told_to_try_again(db, other):
    with pytest.raises(psycopg.errors.SerializationFailure):
        with db.transaction():
            db.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            db.rows("SELECT 1")
            other.value(SEEN, "g", "t", "m")
            db.value(SEEN, "g", "t", "m")


def test_seen_is_forgotten_by_a_sweep_after_its_retention(db):
    db.value("SELECT once.seen('g', 't', 'm', 1000)")
    db.value("SELECT once.seen('g', 't', 'long')")
    assert db.value("SELECT once.sweep()") == 0
    later(db, 2000)
    assert db.value(SEEN, "g", "t", "m")
    assert db.value("SELECT once.sweep()") == 1
    assert not db.value(SEEN, "g", "t", "m")
    assert db.value(SEEN, "g", "t", "long")


@pytest.mark.parametrize("arguments, text", [
    (("", "t", "m"), "a consumer group has at least one character"),
    (("g", None, "m"), "a topic has at least one character"),
    (("g", "t", "x" * 256), "a message's id has at most 255 bytes"),
    (("g", "t", "ä" * 128), "a message's id has at most 255 bytes"),
    (("g", "t\n", "m"), "a control character may not stand in a topic"),
])
def test_seen_names_what_is_wrong(db, arguments, text):
    refused(db, INVALID, text, SEEN, *arguments)


# ---- grant, guard --------------------------------------------------------------------------------

GUARD = "SELECT once.guard(%s, %s)"


def test_token_passes_once_and_older_ones_are_stale(db):
    first, second = (db.value("SELECT once.grant('printer')") for _ in range(2))
    assert 0 < first < second
    refused(db, STALE, f"STALE printer has granted token {second}", GUARD, "printer", first)
    assert db.value(GUARD, "printer", second)
    refused(db, STALE, f"STALE printer has seen token {second}", GUARD, "printer", second)
    refused(db, STALE, f"STALE printer has seen token {second}", GUARD, "printer", first)
    assert db.value(GUARD, "scanner", first)


def test_grant_is_larger_than_a_foreign_token(db):
    assert db.value(GUARD, "r", 10**12)
    assert db.value("SELECT once.grant('r')") == 10**12 + 1
    assert db.value("SELECT once.grant('r')") == 10**12 + 2
    refused(db, STALE, "STALE", GUARD, "r", 10**12 - 1)


def test_token_of_a_rolled_back_grant_is_not_given_again(db):
    with pytest.raises(ZeroDivisionError):
        with db.transaction():
            lost = db.value("SELECT once.grant('r')")
            raise ZeroDivisionError
    assert db.value("SELECT once.grant('r')") > lost


def test_guard_holds_the_resource(db, other, url):
    old, new = (db.value("SELECT once.grant('r')") for _ in range(2))
    with PgSession(url) as watcher:
        with db.transaction():
            db.value(GUARD, "r", new)
            waiting = Waiting(other, watcher, GUARD, "r", old)
        assert waiting.end() == STALE


@pytest.mark.parametrize("token", [0, -1, 2**53, None])
def test_guard_token_out_of_range(db, token):
    refused(db, INVALID, "a token is between 1 and 9007199254740991", GUARD, "r", token)


# ---- machines ------------------------------------------------------------------------------------

MACHINE = "SELECT once.machine(%s, %s)"
MOVE = "SELECT once.move('order', %s, %s, %s)"
ORDER = ["placed>paid", "placed>cancelled", "paid>shipped"]


def test_moves_that_are_declared(db):
    assert db.value(MACHINE, "order", ORDER)
    assert not db.value(MACHINE, "order", ORDER)
    assert db.value("SELECT once.state('order', '7')") == "placed"
    assert db.value(MOVE, "7", "placed", "paid")
    assert not db.value(MOVE, "7", "placed", "paid")
    assert db.value(MOVE, "7", "paid", "shipped")
    assert db.value("SELECT once.state('order', '7')") == "shipped"
    assert db.value("SELECT once.state('order', '8')") == "placed"
    assert not db.value(MOVE, "9", "paid", "placed")  # there already


@pytest.mark.parametrize("move, text", [
    (("placed", "cancelled"), "ELSEWHERE: 7 is in paid, not in placed; it may move to shipped"),
    (("shipped", "placed"), "NO_MOVE: order has no move from shipped to placed; 7 is in paid"),
    (("paid", "delivered"), "NO_STATE: order has no state delivered; 7 is in paid"),
    (("paid", None), "NO_STATE"),
])
def test_moves_that_are_rejected(db, move, text):
    db.rows(MACHINE, "order", ORDER)
    db.rows(MOVE, "7", "placed", "paid")
    refused(db, REJECTED, text, MOVE, "7", *move)
    assert db.value("SELECT once.state('order', '7')") == "paid"
    refused(db, NOTFOUND, "no such machine", "SELECT once.move('other', '7', 'a', 'b')")
    assert db.value("SELECT count(*) FROM once.entity") == 1


def test_one_of_two_moves_wins(db, other, url):
    db.rows(MACHINE, "order", ORDER)
    with PgSession(url) as watcher:
        with db.transaction():
            assert db.value(MOVE, "7", "placed", "paid")
            waiting = Waiting(other, watcher, MOVE, "7", "placed", "cancelled")
            same = PgSession(url)
            second = Waiting(same, watcher, MOVE, "7", "placed", "paid")
        assert (waiting.end(), second.end()) == (REJECTED, [(False,)])
        same.close()


def test_machine_is_declared_anew_by_an_operator(db):
    db.rows(MACHINE, "order", ORDER)
    db.rows(MOVE, "7", "placed", "paid")
    refused(db, REJECTED, "REDECLARED", MACHINE, "order", ORDER + ["paid>refunded"])
    change = "SELECT once.machine_change(%s, %s)"
    assert db.value(change, "order", ORDER + ["paid>refunded"])
    assert db.value(MOVE, "7", "paid", "refunded")
    refused(db, REJECTED, "7 is in refunded", change, "order", ORDER)
    refused(db, NOTFOUND, "no such machine", change, "none", ORDER)
    assert not db.value(MACHINE, "order", ORDER + ["paid>refunded"])


@pytest.mark.parametrize("moves, state, text", [
    ([], INVALID, "at least one move"),
    (None, INVALID, "at least one move"),
    (["a"], INVALID, "is not from>to"),
    (["a>b>c"], INVALID, "is not from>to"),
    (["a>a"], INVALID, "leads nowhere"),
    ([None], INVALID, "is not from>to"),
    (["a>" + "b" * 33], INVALID, "1 to 32 characters"),
    (["a b>c"], INVALID, "is not from>to"),
    ([f"a>{i}" for i in range(64)], TOO_LARGE, "at most 64 states"),
])
def test_declarations_that_are_wrong(db, moves, state, text):
    refused(db, state, text, "SELECT once.machine('m', %s::text[])", moves)


# ---- the outbox ----------------------------------------------------------------------------------

TAKE = "SELECT * FROM once.take(%s, %s, %s)"


def emit(db, topic, payload, group=None):
    return db.value("SELECT once.emit(%s, %s, %s)", topic, json.dumps(payload), group)


def take(db, topic="t", batch=10, lease_ms=30000):
    return db.dicts(TAKE, topic, batch, lease_ms)


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_messages_are_taken_and_acknowledged(db):
    first, second = emit(db, "t", {"n": 1}), emit(db, "t", {"n": 2})
    assert first < second
    assert take(db, "other") == []
    got = take(db)
    assert [(row["id"], row["payload"], row["group"], row["attempt"]) for row in sorted(
        got, key=lambda row: row["id"])] == [(first, {"n": 1}, None, 1), (second, {"n": 2}, None, 1)]
    assert take(db) == []  # under a lease
    token = got[0]["token"]
    assert [db.value("SELECT once.ack(%s, %s)", first, token) for _ in range(2)] == [True, False]
    later(db, 30000)
    again = take(db)
    assert [(row["id"], row["attempt"]) for row in again] == [(second, 2)]
    refused(db, STALE, "STALE another worker", "SELECT once.ack(%s, %s)", second, token)
    assert db.value("SELECT once.ack(%s, %s)", second, again[0]["token"])
    refused(db, NOTFOUND, "no such message", "SELECT once.ack(%s, 1)", second + 1000)


def test_messages_given_back_come_later(db):
    number = emit(db, "t", 1)
    token = take(db)[0]["token"]
    assert db.value("SELECT once.release(%s, %s, 5000)", number, token)
    assert take(db) == []
    refused(db, STALE, "given back", "SELECT once.ack(%s, %s)", number, token)
    later(db, 5000)
    assert ids(take(db)) == [number]


def test_emit_goes_back_with_the_transaction(db):
    with pytest.raises(ZeroDivisionError):
        with db.transaction():
            emit(db, "t", 1)
            raise ZeroDivisionError
    assert take(db) == []


def test_group_keeps_its_order_one_at_a_time(db):
    mine = [emit(db, "t", n, "order-7") for n in range(5)]
    yours = emit(db, "t", 0, "order-8")
    free = emit(db, "t", 0)
    got = take(db)
    assert ids(got) == sorted([mine[0], yours, free])
    for number, after in zip(mine, mine[1:]):
        assert not [row for row in take(db) if row["group"] == "order-7"]
        token = db.value("SELECT token FROM once.outbox WHERE id = %s", number)
        db.rows("SELECT once.ack(%s, %s)", number, token)
        assert ids(take(db)) == [after]


def test_locked_messages_are_skipped(db, other):
    """A worker that takes, performs and acknowledges in one transaction keeps others off."""
    head, behind = emit(db, "t", 1, "g"), emit(db, "t", 2, "g")
    free = emit(db, "t", 3)
    with db.transaction():
        got = take(db)
        assert ids(got) == sorted([head, free])
        assert take(other) == []
        for row in got:
            db.rows("SELECT once.ack(%s, %s)", row["id"], row["token"])
        assert take(other) == []
    assert ids(take(other)) == [behind]


def test_order_of_a_group_is_the_order_of_commits(db, other, url):
    with PgSession(url) as watcher:
        with db.transaction():
            first = emit(db, "t", 1, "g")
            waiting = Waiting(other, watcher, "SELECT once.emit('t', '2', 'g')")
            with PgSession(url) as third:
                emit(third, "t", 3, "h")  # another group does not wait
        second = waiting.end()[0][0]
        assert second > first
    assert [row["id"] for row in take(db) if row["group"] == "g"] == [first]


def test_every_group_has_its_turn(db):
    """60 groups of 5 with small batches: each message once, in order."""
    db.rows("SELECT once.emit('t', to_jsonb(n), 'g' || g)"
            " FROM generate_series(1, 5) n, generate_series(1, 60) g")
    seen = {}
    for _ in range(2000):
        got = take(db, batch=7)
        if not got:
            break
        for row in got:
            seen.setdefault(row["group"], []).append(row["payload"])
        db.rows("SELECT once.ack(id, token) FROM once.outbox WHERE token = %s", got[0]["token"])
    assert len(seen) == 60 and all(each == [1, 2, 3, 4, 5] for each in seen.values())


def test_a_long_queue_in_one_group_costs_nothing(db):
    emit(db, "t", 0, "hot")
    db.rows("INSERT INTO once.outbox (id, topic, grp, lane, payload, emitted_ms) SELECT"
            " nextval('once.fence_seq'), 't', 'hot', once.hash64('hot'), '1', 1"
            " FROM generate_series(1, 50000)")
    db.rows("SELECT once.emit('t', '0', 'g' || g) FROM generate_series(1, 10) g")
    assert len(take(db, batch=100)) == 11
    took = []
    for _ in range(20):
        before = time.monotonic()
        assert take(db, batch=100) == []
        took.append(time.monotonic() - before)
    assert min(took) < 0.1  # a busy machine makes some of them slow; a scan of the queue all


def test_workers_share_and_nothing_is_lost(db, url):
    """Four workers, every fifth batch abandoned: each message is acknowledged once."""
    db.rows("SELECT once.emit('t', to_jsonb(n), CASE WHEN n % 2 = 0 THEN 'g' || n % 17 END)"
            " FROM generate_series(1, 300) n")
    acked, order, lock = [], {}, threading.Lock()

    def work(number):
        with PgSession(url) as session:
            for turn in range(10000):
                if not session.rows("SELECT 1 FROM once.outbox WHERE acked_ms IS NULL LIMIT 1"):
                    return
                for row in take(session, batch=5, lease_ms=20 if turn % 5 == number else 60000):
                    if turn % 5 == number:
                        continue
                    with lock:  # before the ack: from then on another may have the next one
                        order.setdefault(row["group"], []).append(row["id"])
                    if session.value("SELECT once.ack(%s, %s)", row["id"], row["token"]):
                        with lock:
                            acked.append(row["id"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(acked) == len(set(acked)) == 300
    assert all(each == sorted(each) for group, each in order.items() if group)


@pytest.mark.parametrize("statement, state, text", [
    ("SELECT once.emit('', '1')", INVALID, "a topic has at least one character"),
    ("SELECT once.emit('t', NULL)", INVALID, "there is no payload"),
    ("SELECT once.emit('t', to_jsonb(repeat('x', 262143)))", TOO_LARGE, "at most 262144 bytes"),
    ("SELECT once.emit('t', '1', '')", INVALID, "a group has at least one character"),
    ("SELECT once.take('t', 0)", INVALID, "a batch is between 1 and 1000"),
    ("SELECT once.take('t', 1001)", INVALID, "a batch is between 1 and 1000"),
    ("SELECT once.take('t', 1, 0)", INVALID, "the lease is not between 1 ms and 7 days"),
    ("SELECT once.release(1, 1, -1)", INVALID, "the delay is not between 0 ms and 7 days"),
    ("SELECT once.ack(1, NULL)", NOTFOUND, "no such message"),
])
def test_outbox_names_what_is_wrong(db, statement, state, text):
    refused(db, state, text, statement)


# ---- sweep and views -----------------------------------------------------------------------------

def ended(db, key, ttl_ms=1000, ns="n"):
    fence = db.value("SELECT (once.begin(%s, %s, ttl_ms => %s)).fence", ns, key, ttl_ms)
    db.rows("SELECT once.complete(%s, %s, %s)", ns, key, fence)


def test_sweep_removes_what_is_over_in_batches(db):
    for n in range(25):
        ended(db, f"short-{n}")
    ended(db, "long", 10 * DAY_MS)
    later(db, 1000)
    assert [db.value("SELECT once.sweep(10)") for _ in range(4)] == [10, 10, 5, 0]
    assert db.rows("SELECT key FROM once.operation") == [("long",)]
    for bad in (0, 100001, None):
        refused(db, INVALID, "a batch is between", "SELECT once.sweep(%s::int)", bad)


def test_sweep_never_removes_a_doubt(db):
    """INV-4: neither what runs nor what is in doubt, however old."""
    db.rows("SELECT once.begin('n', 'running', ttl_ms => 1, lease_ms => 604800000)")
    db.rows("SELECT once.begin('n', 'vanished', ttl_ms => 1, lease_ms => 1)")
    db.rows("SELECT once.begin('n', 'told', ttl_ms => 1, lease_ms => 1)")
    later(db, 1000)
    assert db.value("SELECT (once.begin('n', 'told')).verdict") == "DOUBT"
    later(db, 1000 * DAY_MS)
    assert db.value("SELECT once.sweep()") == 0
    assert db.value("SELECT count(*) FROM once.doubts") == 3
    assert db.value("SELECT once.resolve('n', 'told', false)") == "OK"
    later(db, 1000)
    assert db.value("SELECT once.sweep()") == 1


def test_sweep_skips_what_is_held_and_waits_for_nobody(db, other):
    ended(db, "held")
    ended(db, "free")
    later(db, 1000)
    with db.transaction():
        db.rows("SELECT 1 FROM once.operation WHERE key = 'held' FOR UPDATE")
        assert other.value("SELECT once.sweep()") == 1
    assert other.value("SELECT once.sweep()") == 1


def test_sweep_keeps_a_key_that_was_begun_again(db, other, url):
    ended(db, "k")
    later(db, 1000)
    with db.transaction():
        assert db.value("SELECT (once.begin('n', 'k')).verdict") == "EXECUTE"
        assert other.value("SELECT once.sweep()") == 0
    assert other.value("SELECT once.sweep()") == 0
    assert other.value("SELECT state FROM once.get('n', 'k')") == "started"


def test_sweep_goes_by_the_time_that_is_written_down(db, other):
    """A sweep that finds another at writing the time keeps to the time that was committed before."""
    db.value("SELECT once.tick()")
    ended(db, "k")
    later(db, 1000)
    with db.transaction():
        db.rows("SELECT pg_advisory_xact_lock(hashtextextended('once.tick', 0))")
        assert other.value("SELECT once.sweep()") == 0
    assert other.value("SELECT once.sweep()") == 1


def test_sweep_removes_acknowledged_messages_after_a_day(db):
    gone, waiting = emit(db, "t", 1), emit(db, "t", 2)
    token = take(db)[0]["token"]
    db.rows("SELECT once.ack(%s, %s)", gone, token)
    later(db, DAY_MS - 60000)
    assert db.value("SELECT once.sweep()") == 0
    later(db, 60000)
    assert db.value("SELECT once.sweep()") == 1
    assert ids(take(db)) == [waiting]


def test_views(db):
    ended(db, "done", DAY_MS)
    ended(db, "over", 1)
    fence = db.value("SELECT (once.begin('n', 'no')).fence")
    db.rows("SELECT once.fail('n', 'no', %s, 'why')", fence)
    db.rows("SELECT once.begin('n', 'gone', owner => 'me', lease_ms => 10)")
    db.rows("SELECT once.begin('n', 'runs', lease_ms => 600000)")
    db.rows("SELECT once.begin('m', 'runs', lease_ms => 600000)")
    later(db, 1000)
    assert db.rows("SELECT ns, started, completed, failed, doubt, expired FROM once.stats"
                   " ORDER BY ns") == [("m", 1, 0, 0, 0, 0), ("n", 1, 1, 1, 1, 1)]
    found = db.dicts("SELECT * FROM once.doubts")
    assert [(row["ns"], row["key"], row["owner"], row["point"]) for row in found] == [
        ("n", "gone", "me", None)]
    assert found[0]["lease_ended"] > found[0]["created"]
    emit(db, "t", 1)
    emit(db, "t", 2)
    take(db, batch=1)
    assert db.rows("SELECT topic, waiting, taken, attempts FROM once.waiting") == [("t", 2, 1, 1)]


# ---- tenants and rights --------------------------------------------------------------------------

@pytest.fixture
def tenants(pg, url, db):
    """Roles of one database: alice may use shop, bob what begins with pub, carol is a member of a
    role with rows, dave has none."""
    names = {name: f"{name}_{time.monotonic_ns()}" for name in ("alice", "bob", "carol", "dave",
                                                                 "group")}
    for role in names.values():
        db.rows(f"CREATE ROLE {role} LOGIN")
        db.rows(f"GRANT once_operator TO {role}")
    db.rows(f"GRANT {names['group']} TO {names['carol']}")
    db.rows("CREATE OR REPLACE FUNCTION public.echo(jsonb) RETURNS jsonb LANGUAGE sql AS"
            " 'SELECT $1'")
    scope = "INSERT INTO once.scope VALUES (%s, %s)"
    db.rows(scope, names["alice"], "shop")
    db.rows(scope, names["bob"], "pub*")
    db.rows(scope, names["group"], "shop")
    sessions = {name: PgSession(pg.url(url.rsplit("/", 1)[1], role))
                for name, role in names.items() if name != "group"}
    yield sessions
    for session in sessions.values():
        session.close()
    for role in names.values():
        db.rows(f"DROP OWNED BY {role}")
        db.rows(f"DROP ROLE {role}")


BEGIN = "SELECT (once.begin(%s, 'k')).verdict"


def test_tenants_use_their_own_names(tenants):
    for name, good, bad in (("alice", ["shop", "shop~eu"], ["shops", "pub", "sho", "shop-"]),
                            ("bob", ["pub", "public", "pub~x"], ["shop", "pu"]),
                            ("carol", ["shop~a"], ["pub"]),
                            ("dave", ["anything"], [])):
        for ns in good:
            assert tenants[name].value(BEGIN, ns) == "EXECUTE"
        for ns in bad:
            refused(tenants[name], DENIED, f"may not use the namespace {ns}", BEGIN, ns)


@pytest.mark.parametrize("statement", [
    "SELECT once.complete('pub', 'k', 1)", "SELECT once.fail('pub', 'k', 1)",
    "SELECT once.checkpoint('pub', 'k', 1, 'p')", "SELECT once.renew('pub', 'k', 1, 1)",
    "SELECT once.resolve('pub', 'k', true)", "SELECT once.forget('pub', 'k')",
    "SELECT once.get('pub', 'k')", "SELECT once.seen('pub', 't', 'm')", "SELECT once.grant('pub')",
    "SELECT once.guard('pub', 1)", "SELECT once.machine('pub', '{a>b}')",
    "SELECT once.machine_change('pub', '{a>b}')", "SELECT once.move('pub', 'e', 'a', 'b')",
    "SELECT once.state('pub', 'e')", "SELECT once.emit('pub', '1')", "SELECT once.take('pub')",
    "SELECT once.apply('pub', 'k', '1', p.oid) FROM pg_proc p WHERE p.proname = 'echo'",
])
def test_tenant_is_kept_out_by_every_function(tenants, statement):
    refused(tenants["alice"], DENIED, "may not use", statement)


def test_tenant_cannot_acknowledge_for_another(tenants):
    number = emit(tenants["bob"], "pub", 1)
    token = take(tenants["bob"], "pub")[0]["token"]
    refused(tenants["alice"], NOTFOUND, "no such message", "SELECT once.ack(%s, %s)", number, token)
    refused(tenants["alice"], NOTFOUND, "no such message", "SELECT once.release(%s, %s)", number,
            token)
    assert tenants["bob"].value("SELECT once.ack(%s, %s)", number, token)


def test_tenant_cannot_complete_for_another(tenants, db):
    """Not even with the fence, and while it runs."""
    fence = tenants["bob"].value("SELECT fence FROM once.begin('pub', 'k')")
    complete = "SELECT once.complete('pub', 'k', %s)"
    refused(tenants["alice"], DENIED, "may not use", complete, fence)
    assert db.value("SELECT state FROM once.get('pub', 'k')") == "started"
    assert tenants["bob"].value(complete, fence) == "OK"


def test_complete_is_of_one_name(db):
    """A fence is of one operation; and an ended one is no longer what a server's call left."""
    fence = db.value("SELECT fence FROM once.begin('n', 'k')")
    db.rows("SELECT once.begin('n', 'j'), once.begin('m', 'k')")
    db.rows("UPDATE once.operation SET call = gen_random_uuid()")
    for ns, key in (("n", "j"), ("m", "k")):
        refused(db, STALE, "STALE", "SELECT once.complete(%s, %s, %s)", ns, key, fence)
    assert db.value("SELECT once.complete('n', 'k', %s)", fence) == "OK"
    assert db.rows("SELECT ns, key, state, call IS NULL FROM once.operation ORDER BY id") == [
        ("n", "k", 2, True), ("n", "j", 1, False), ("m", "k", 1, False)]


def test_tenant_sees_its_own_rows_only(tenants, db):
    for ns in ("shop", "pub", "other"):
        db.rows("SELECT once.begin(%s, 'k', lease_ms => 1)", ns)
        emit(db, ns, 1)
        db.rows(SEEN, ns, "t", "m")
    later(db, 10)
    role = tenants["alice"].value("SELECT current_user")
    db.rows(f"GRANT SELECT ON ALL TABLES IN SCHEMA once TO {role}")
    for query in ("SELECT ns FROM once.doubts", "SELECT ns FROM once.stats",
                  "SELECT topic FROM once.waiting", "SELECT ns FROM once.operation",
                  "SELECT consumer_group FROM once.message", "SELECT topic FROM once.outbox"):
        assert tenants["alice"].rows(query) == [("shop",)], query
    assert len(tenants["dave"].rows("SELECT ns FROM once.doubts")) == 3


def test_tenant_stays_one_with_another_role(tenants, db):
    """A role without rows lets nobody out; a tenant's role makes everyone a tenant."""
    alice = tenants["alice"]
    alice.rows("SET ROLE once_operator")
    refused(alice, DENIED, "may not use the namespace pub", BEGIN, "pub")
    assert alice.value(BEGIN, "shop") == "EXECUTE"
    role = tenants["bob"].value("SELECT current_user")
    with db.transaction():
        db.rows(f"SET LOCAL ROLE {role}")
        assert db.value(BEGIN, "pub") == "EXECUTE"
    with db.transaction():
        db.rows(f"SET LOCAL ROLE {role}")
        refused(db, DENIED, "may not use the namespace other", BEGIN, "other")


def test_roles_get_what_they_need_and_no_more(db):
    may = ("SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'once'::regnamespace"
           " AND has_function_privilege(%s, p.oid, 'EXECUTE')")
    can = {role: {name for (name,) in db.rows(may, role)}
           for role in ("once_app", "once_operator", "once_server")}
    assert {"begin", "apply", "seen", "grant", "guard", "move", "emit", "take", "ack",
            "merge_max"} <= can["once_app"] < can["once_operator"]
    assert can["once_operator"] - can["once_app"] >= {"resolve", "forget", "sweep", "machine_change"}
    assert not can["once_server"] & {"begin", "resolve", "forget", "machine_change"}
    assert "sweep" in can["once_server"]
    for role in can:
        assert not db.rows("SELECT 1 FROM pg_class WHERE relnamespace = 'once'::regnamespace AND relkind"
                           " IN ('r', 'S') AND has_table_privilege(%s, oid, 'SELECT, INSERT, UPDATE,"
                           " DELETE, TRUNCATE, REFERENCES, TRIGGER')", role)
    assert not db.rows("SELECT 1 FROM pg_proc p, aclexplode(coalesce(p.proacl,"
                       " acldefault('f', p.proowner))) a WHERE a.grantee = 0"
                       " AND p.pronamespace = 'once'::regnamespace")


def test_every_definer_function_fixes_its_search_path(db):
    """begin and complete do without, for speed: every operator in them is named with its schema."""
    assert db.rows("SELECT p.oid::regprocedure FROM pg_proc p WHERE p.prosecdef AND"
                   " p.pronamespace = 'once'::regnamespace AND p.proname NOT IN ('begin', 'complete')"
                   " AND (p.proconfig IS NULL OR NOT"
                   " 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig))") == []
