# SPDX-License-Identifier: Apache-2.0
"""What a session brings along changes nothing: a collation of its text, its settings, functions of
strangers on its search path, tables that were small when its plans were made, and the time that it
waited for another transaction.
"""
import re
import threading
import time

import psycopg
import pytest
from pg_tools import PgSession, break_function
from serving import wait_for


@pytest.fixture(scope="module")
def url(pg):
    return pg.installed()


@pytest.fixture
def db(url):
    with PgSession(url) as session:
        yield session


@pytest.fixture
def other(url):
    with PgSession(url) as session:
        yield session


class Behind:
    """A statement that waits for a transaction of another session."""

    def __init__(self, url, watcher, statement, *arguments):
        self.session, self.rows, self.error = PgSession(url), None, None
        self.thread = threading.Thread(target=self.run, args=(statement, arguments), daemon=True)
        self.thread.start()
        wait_for("it waits for a lock", lambda: watcher.rows(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
            self.session.pid))

    def run(self, statement, arguments):
        try:
            self.rows = self.session.rows(statement, *arguments)
        except psycopg.Error as error:
            self.error = error.sqlstate

    def end(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.session.close()
        return self.rows or self.error


def later(session, ms):
    session.rows("SELECT once.set_clock(coalesce(pg_sequence_last_value('once.ahead_seq'), 0) + %s,"
                 " NULL)", ms)


def born_now(session):
    """A key that is a UUIDv7 of this moment."""
    digits = f"{session.value('SELECT once.now_ms()'):012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{time.monotonic_ns() % 10 ** 12:012d}"


# ---- Time that was waited ------------------------------------------------------------------------

def test_a_lease_begins_when_the_wait_is_over(url, db, other):
    """Whoever waits for a transaction that is rolled back has its whole lease before it."""
    with db.transaction() as undo:
        db.rows("SELECT once.begin('wait', 'lease')")
        behind = Behind(url, other, "SELECT verdict, fence, attempt FROM"
                                    " once.begin('wait', 'lease', lease_ms => 60000)")
        later(other, 3600000)
        drawn = other.value("SELECT once.grant('wait')")
        raise psycopg.Rollback(undo)
    (verdict, fence, attempt), = behind.end()
    assert (verdict, attempt) == ("EXECUTE", 1)
    assert fence > drawn, "a fence that is told later is larger"
    state, left, age = other.one("SELECT state, lease_end_ms - once.now_ms(),"
                                 " once.now_ms() - created_ms FROM once.get('wait', 'lease')")
    assert state == "started" and 30000 < left <= 60000 and age < 30000
    assert other.value("SELECT once.complete('wait', 'lease', %s)", fence) == "OK"


CALLS = ("SELECT word FROM once.calls('{0}', ARRAY['wait'], ARRAY[%s], '{f}',"
         " ARRAY[decode(repeat('00', 32), 'hex')], ARRAY[''::bytea], ARRAY[once.birth_ms(%s)],"
         " '{10000}', '{1000}', '{f}', '{0}', '{f}', '{0}', ARRAY[''::bytea], ARRAY[''::bytea],"
         " ARRAY[''::bytea], '{f}', ARRAY[''::bytea], ARRAY[gen_random_uuid()])")


@pytest.mark.parametrize("call, answer, again", [
    ("SELECT verdict FROM once.begin('wait', %s, ttl_ms => 10000)", [("TOO_OLD",)], ("TOO_OLD",)),
    (CALLS, "40001", (5,))], ids=["begin", "calls"])
def test_no_gap_between_a_sweep_and_too_old(url, db, other, call, answer, again):
    """A key that becomes too old while its begin waits for the sweep that removes it does not
    execute a second time."""
    key = born_now(db)
    fence = db.value("SELECT (once.begin('wait', %s, ttl_ms => 10000)).fence", key)
    db.rows("SELECT once.complete('wait', %s, %s)", key, fence)
    arguments = [key] * call.count("%s")
    with db.transaction():
        # What a sweep does, held still, while a begin has read the time already.
        db.rows("DELETE FROM once.operation WHERE key = %s", key)
        behind = Behind(url, other, call, *arguments)
        later(other, 20000)
    assert behind.end() == answer
    assert other.rows(call, *arguments) == [again]
    assert other.rows("SELECT state FROM once.get('wait', %s)", key) == []


def test_a_message_is_known_for_its_retention_after_the_wait(url, db, other):
    with db.transaction() as undo:
        db.rows("SELECT once.seen('wait', 't', 'm')")
        behind = Behind(url, other, "SELECT once.seen('wait', 't', 'm', 60000)")
        later(other, 3600000)
        raise psycopg.Rollback(undo)
    assert behind.end() == [(False,)]
    other.rows("SELECT once.sweep()")
    assert other.value("SELECT once.seen('wait', 't', 'm', 60000)")


# ---- Time that stands ----------------------------------------------------------------------------

NOON_MS = 1800000000000
STILL = ("CREATE SEQUENCE once.still AS bigint; CREATE OR REPLACE FUNCTION once.clock_ms()"
         " RETURNS bigint LANGUAGE sql VOLATILE AS"
         " $$ SELECT pg_catalog.pg_sequence_last_value('once.still') $$")


@pytest.fixture(scope="module")
def still(pg):
    """A database whose clock goes on only when it is set: edges are met to the millisecond."""
    found = pg.installed()
    with PgSession(found) as session:
        session.rows(STILL)
    return found


@pytest.fixture
def noon(still):
    with PgSession(still) as session:
        clock(session, NOON_MS)
        session.rows("DELETE FROM once.operation")
        yield session


def clock(session, ms):
    session.rows("SELECT setval('once.still', %s)", ms)


def born(ms):
    digits = f"{ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000001"


@pytest.mark.parametrize("age_ms, ended, waited_ms, answer", [
    (0, "ROLLBACK", 99, ("EXECUTE", 0)), (0, "ROLLBACK", 100, ("EXECUTE", 100)),
    (900, "ROLLBACK", 99, ("EXECUTE", 0)), (901, "ROLLBACK", 98, ("EXECUTE", 0)),
    (901, "ROLLBACK", 99, ("TOO_OLD", None)), (999, "ROLLBACK", 1, ("TOO_OLD", None)),
    (0, "COMMIT", 99, ("BUSY", 0)), (0, "COMMIT", 100, ("BUSY", 0))])
def test_a_short_wait_is_no_wait_but_for_a_key_at_its_age(still, noon, age_ms, ended, waited_ms,
                                                          answer):
    """100 ms are what a begin may be late; a key is not executed past its retention by any."""
    key = born(NOON_MS - age_ms)
    with PgSession(still) as first, PgSession(still) as second:
        first.rows("BEGIN")
        first.rows("SELECT once.begin('still', %s, ttl_ms => 1000)", key)
        behind = Behind(still, second, "SELECT verdict FROM once.begin('still', %s,"
                                       " ttl_ms => 1000)", key)
        clock(second, NOON_MS + waited_ms)
        first.rows(ended)
        (verdict,), = behind.end()
    made = noon.rows("SELECT created_ms - %s FROM once.operation WHERE key = %s", NOON_MS, key)
    assert (verdict, made[0][0] if made else None) == answer


@pytest.mark.parametrize("age_ms, answer", [
    (-86400000, "EXECUTE"), (-86400001, "ERR_KEY_FUTURE"), (0, "EXECUTE"), (899, "EXECUTE"),
    (900, "EXECUTE"), (999, "EXECUTE"), (1000, "TOO_OLD"), (1001, "TOO_OLD")])
def test_a_key_at_the_edges_of_its_age(noon, age_ms, answer):
    key = born(NOON_MS - age_ms)
    try:
        said = noon.value("SELECT verdict FROM once.begin('still', %s, ttl_ms => 1000)", key)
    except psycopg.Error as error:
        said = error.diag.message_detail
    assert said == answer
    # It is kept for its retention after its birth, if that is still to come.
    assert noon.rows("SELECT expires_ms - %s FROM once.operation", NOON_MS) == (
        [(1000 + max(0, -age_ms),)] if answer == "EXECUTE" else [])


def test_the_last_millisecond_of_the_year_9999(noon):
    begin = "SELECT verdict FROM once.begin('still', %s)"
    clock(noon, 253402300799999)
    assert noon.value(begin, "last") == "EXECUTE"
    clock(noon, 253402300800000)
    with pytest.raises(psycopg.Error) as caught:
        noon.rows(begin, "after")
    assert caught.value.diag.message_detail == "ERR_CLOCK"


def test_a_complete_never_shortens_what_is_kept(noon):
    """A key of the future is kept until its own time is over; any other from its complete on."""
    for birth_ms, expires_ms in ((86400000, 86400000 + 1000), (0, 5000 + 1000)):
        key = born(NOON_MS + birth_ms)
        clock(noon, NOON_MS)
        fence = noon.value("SELECT fence FROM once.begin('still', %s, ttl_ms => 1000)", key)
        clock(noon, NOON_MS + 5000)
        assert noon.value("SELECT once.complete('still', %s, %s)", key, fence) == "OK"
        assert noon.value("SELECT expires_ms - %s FROM once.operation WHERE key = %s", NOON_MS,
                          key) == expires_ms


def test_who_does_not_wait_does_not_wait_for_a_locked_table(still, noon):
    """While an index is made, say: even the plan of a statement waits for the table."""
    begin = "SELECT verdict, retry_ms FROM once.begin('still', %s, wait => false)"
    with PgSession(still, options="-c lock_timeout=20s") as fresh, noon.transaction():
        noon.rows("LOCK TABLE once.operation IN SHARE MODE")
        assert fresh.one(begin, "locked") == ("BUSY", 100)
        assert fresh.value("SHOW lock_timeout") == "20s"
        waiting = Behind(still, noon, "SELECT verdict FROM once.begin('still', 'null', wait => NULL)")
    assert waiting.end() == [("EXECUTE",)]
    with PgSession(still) as fresh:
        assert fresh.one(begin, "locked") == ("EXECUTE", None)


# ---- Collations and settings ---------------------------------------------------------------------

def day(db, collation):
    """Everything twice, with names of this collation: what is answered."""
    text = "(%s COLLATE " + collation + ")"
    fence = db.value(f"SELECT (once.begin({text}, {text}, 'f')).fence", "collated", "Key")
    said = [db.value(f"SELECT (once.begin({text}, {text}, 'f', wait => %s)).verdict", "collated",
                     key, wait) for key, wait in (("Key", True), ("Key", False), ("KEY", True))]
    said.append(db.value(f"SELECT once.complete({text}, {text}, %s)", "collated", "Key", fence))
    said.append(db.value(f"SELECT state FROM once.get({text}, {text})", "collated", "Key"))
    said += [db.value(f"SELECT once.seen({text}, 't', {text})", "collated", name)
             for name in ("m", "M", "m")]
    token = db.value(f"SELECT once.grant({text})", "collated")
    said.append(db.value(f"SELECT once.guard({text}, %s)", "collated", token))
    said += [db.value(f"SELECT once.machine({text}, '{{a>b}}'::text[] COLLATE {collation})",
                      "collated") for _ in range(2)]
    said += [db.value(f"SELECT once.move({text}, 'e', 'a', {text})", "collated", "b")
             for _ in range(2)]
    said.append(db.value(f"SELECT once.state({text}, {text})", "collated", "e"))
    with pytest.raises(psycopg.Error, match="NO_STATE"):
        db.rows(f"SELECT once.move({text}, 'e', 'A', {text})", "collated", "B")
    said.append(db.value(f"SELECT once.machine_change({text}, '{{a>b,b>c}}')", "collated"))
    db.rows(f"SELECT once.emit({text}, '1', {text})", "collated", "g")
    said += db.rows(f"SELECT \"group\", once.ack(id, token) FROM once.take({text})", "collated")
    return said


@pytest.mark.parametrize("scoped", [False, True], ids=["", "confined to a namespace"])
@pytest.mark.parametrize("collation", ['"POSIX"', "caseless"])
def test_text_of_any_collation_is_compared_by_its_bytes(pg, collation, scoped):
    with PgSession(pg.installed()) as db:
        db.rows("CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2',"
                " deterministic = false)")
        if scoped:
            db.rows("INSERT INTO once.scope VALUES ('nobody', 'x')")
        assert day(db, collation) == [
            "BUSY", "BUSY", "EXECUTE", "OK", "completed", False, False, True, True, True, False,
            True, False, "b", True, ("g", True)]


def test_backslashes_that_escape_change_nothing(url):
    with PgSession(url, options="-c standard_conforming_strings=off") as db:
        heard = []
        db.connection.add_notice_handler(lambda d: heard.append(d.message_primary))
        fence = db.value("SELECT (once.begin('scs', 'k')).fence")
        assert db.value("SELECT (once.begin('scs', 'k', 'f')).verdict") == "MISMATCH"
        assert db.value("SELECT once.fail('scs', 'k', %s)", fence) == "OK"
        assert db.value("SELECT once.seen('scs', 't', 'm')") is False
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="control character"):
            db.rows("SELECT once.seen('scs', 't', E'\\n')")
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="control character"):
            db.rows("SELECT once.begin('scs', E'\\n')")
        assert heard == []


# ---- Functions of strangers ----------------------------------------------------------------------

# What a literal fits better than what is in the catalog, where everybody may make functions.
BETTER = """
    CREATE FUNCTION public.convert_to(text, text) RETURNS bytea LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING 'convert_to ran'; RETURN ''; END $$;
    CREATE FUNCTION public.convert_from(bytea, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING 'convert_from ran'; RETURN ''; END $$;
    CREATE FUNCTION public.echo(jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT $1';
"""
# And operators, for who looks from a path on which they come first.
OPERATORS = """
    CREATE SCHEMA first;
    CREATE FUNCTION first.same(int2, int4) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING '= ran'; RETURN true; END $$;
    CREATE OPERATOR first.= (LEFTARG = int2, RIGHTARG = int4, FUNCTION = first.same);
"""


def look(url):
    """Calls what runs with the caller's rights. Which functions of the stranger ran."""
    with PgSession(url) as db:
        heard = []
        db.connection.add_notice_handler(lambda d: heard.append(d.message_primary))
        db.rows(BETTER + OPERATORS)
        db.rows("SELECT once.begin('n', 'k', owner => 'me', lease_ms => 1)")
        later(db, 1000)
        found = db.rows("SELECT once.fingerprint('{}') = sha256('{}')")
        found += db.rows("SELECT once.apply('n', 'a', '{}', 'echo')")
        found += db.rows("SELECT owner FROM once.doubts")
        db.rows("SET search_path = first, pg_catalog")
        found += db.rows("SELECT ns, doubt, completed FROM once.stats")
        assert heard or found == [(True,), ({},), ("me",), ("n", 1, 1)]
        return heard


def test_nobody_runs_a_strangers_function(pg):
    """With the rights of the caller: a function in public is not taken for one of the catalog's."""
    assert look(pg.installed()) == []


@pytest.mark.parametrize("function, pattern, replacement", [
    ("fingerprint", r"pg_catalog\.convert_to", "convert_to"),
    ("text_of", r"SET search_path TO .*", ""),
    ("state_at", r"OPERATOR\(pg_catalog\.=\)", "=")])
def test_a_name_that_is_not_whole_is_found(pg, function, pattern, replacement):
    url = pg.installed()
    break_function(url, function, pattern, replacement)
    assert look(url) != []


# ---- Plans ---------------------------------------------------------------------------------------

WORK = [
    "SELECT once.begin('p', 'k')", "SELECT once.begin('p', 'k', wait => false)",
    "SELECT once.get('p', 'k')", "SELECT once.grant('p')", "SELECT once.guard('p', 1000000)",
    "SELECT once.move('p', 'e', 'a', 'b')", "SELECT once.state('p', 'e')",
    "SELECT once.machine('p', '{a>b}')", "SELECT once.machine_change('p', '{a>b}')",
    "SELECT once.emit('p', '1', 'g')", "SELECT once.emit('p', '1')",
    "SELECT once.ack(id, token) FROM once.take('p')", "SELECT once.seen('p', 't', 'm')",
    "SELECT once.sweep()",
]
TABLES = "operation|message|resource|machine|entity|outbox"


def test_plans_of_small_tables_are_those_of_large_ones(pg):
    """A session keeps the plans that it made while tables were small."""
    with PgSession(pg.installed(), options="-c plan_cache_mode=force_generic_plan") as db:
        for _ in range(2):
            db.rows("SELECT once.machine('p', '{a>b}')")
            for text in WORK:
                try:
                    db.rows(text)
                except psycopg.errors.RaiseException:
                    pass
                except psycopg.Error as error:
                    assert error.sqlstate == "ON007", text  # a token guards one write
            db.rows("ANALYZE")
        plans = []
        db.connection.add_notice_handler(lambda d: plans.append(d.message_primary))
        db.rows("LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                " SET auto_explain.log_nested_statements = on; SET client_min_messages = log")
        for text in WORK:
            try:
                db.rows(text)
            except psycopg.Error as error:
                assert error.sqlstate == "ON007", text
        assert len(plans) > len(WORK)
        assert [plan for plan in plans if re.search(rf"Seq Scan on ({TABLES})\b", plan)] == []
