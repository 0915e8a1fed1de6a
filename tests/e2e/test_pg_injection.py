# SPDX-License-Identifier: Apache-2.0
"""Hostile values in every argument of every function of hosts/postgres. Functions are found in the
catalog, so new ones are included. A value that becomes part of a statement would trip a wire that
no rollback resets, or end in an error of syntax; and whatever is stored comes back byte for byte.
"""
import json

import psycopg
import pytest
from pg_tools import PgSession

TRIP = "public.trip()"
TEXTS = [
    f"'; SELECT {TRIP}; --",
    f"' || {TRIP} || '",
    f"\\'; SELECT {TRIP}; --",
    f"$$; SELECT {TRIP}; $$",
    f"\"; SELECT {TRIP}; --",
    f"1); SELECT {TRIP}; --",
    f"x', 'y'); SELECT {TRIP}; --",
    f"E'\\047; SELECT {TRIP}; --",
    TRIP,
    f"%s %I %L %1$s {TRIP}",
    "' OR '1'='1",
    "' UNION SELECT 1 --",
    "%",
    "_*",
    "*",
    "\u2019; \u02bc --",
    "",
    "A" * 70000,
]
NUMBERS = {"smallint": 15, "integer": 31, "bigint": 63}
# Of statements that hold a piece of somebody's text: syntax, unknown tables, columns and functions.
OF_STATEMENTS = {"42601", "42P01", "42703", "42883"}
# What may refuse a value where a caller's comes in: data, constraints, bounds, rights, a word of
# Once, RAISE. Not: an internal error, a timeout.
REFUSALS = ("22", "23", "54", "42501", "ON", "P0001")
BASE = {
    "ns": "inject", "on_doubt": "REJECT", "machine": "order", "entity": "e", "from_state": "new",
    "to_state": "paid", "ttl_ms": 86400000, "lease_ms": 30000, "retention_ms": 86400000,
    "now_ms": 1767225600000, "point": "charged", "after": None, "moves": ["new>paid"],
}
BY_TYPE = {
    "text": "word", "bytea": b"bytes", "boolean": True, "jsonb": '{"a": 1}', "name": "someone",
    "uuid": "00000000-0000-7000-8000-000000000001", "regproc": "public.echo", "smallint": 1,
    "integer": 1, "bigint": 1, "numeric": 1,
}
FUNCTIONS = """
    SELECT p.oid, p.proname, p.prokind::text,
           ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t),
           coalesce(p.proargnames, '{}'),
           EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner)
    FROM pg_proc p
    WHERE p.pronamespace = 'once'::regnamespace
          AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
          AND 'internal'::regtype <> ALL (p.proargtypes)
    ORDER BY 2, 1"""


@pytest.fixture(scope="module")
def hostile(pg):
    url = pg.installed()
    with PgSession(url, autocommit=True) as session:
        session.rows("SET statement_timeout = '20s'")
        session.rows("SET client_min_messages = error")
        session.rows("CREATE SEQUENCE public.tripped")
        session.rows("CREATE FUNCTION public.trip() RETURNS text LANGUAGE sql AS"
                     " $$ SELECT nextval('public.tripped')::text $$")
        session.rows("CREATE FUNCTION public.echo(jsonb) RETURNS jsonb LANGUAGE sql AS"
                     " $$ SELECT $1 $$")
        session.rows("SELECT once.machine('order', ARRAY['new>paid', 'paid>sent'])")
        yield session


def trips(session):
    return session.value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END"
                         " FROM public.tripped")


def values(kind):
    """Hostile values of a type, as (value, cast)."""
    if kind.endswith("[]"):
        inner = [[value] for value in values(kind[:-2])]
        return inner + [[], None, [BY_TYPE.get(kind[:-2])] * 3, [None]]
    if kind in ("text", "name", "character varying"):
        return TEXTS + [None]
    if kind == "bytea":
        return [text.encode() for text in TEXTS] + [b"\x00\xff'", None]
    if kind in NUMBERS:
        edge = 2 ** NUMBERS[kind]
        return [-edge, edge - 1, -1, 0, None]
    if kind == "jsonb":
        return ([json.dumps(text) for text in TEXTS] + [json.dumps({text: text}) for text in TEXTS]
                + [json.dumps({"a": [TEXTS[0]]}), "null", "[]", "1e400", "[" * 500 + "]" * 500,
                   None])
    if kind == "regproc":
        return [TRIP, "public.trip", "trip", "pg_catalog.pg_sleep", "public.echo, public.trip", "0",
                None]
    return [None]


def base(name, kind, key, fence):
    if name == "key" and kind == "text":
        return key
    if name == "fence" and kind == "bigint":
        return fence
    if name in BASE and (kind == "text" or kind in NUMBERS or kind == "text[]"):
        return BASE[name]
    if kind.endswith("[]"):
        return [base(name, kind[:-2], key, fence)]
    return BY_TYPE.get(kind)


def attack(session, function, tries):
    """Each hostile value in each argument, with values in the others that are in order. What was
    refused by something that is no refusal of a value."""
    _, name, kind, types, names, granted = function
    names = list(names) + [""] * (len(types) - len(names))
    call = ", ".join(f"%s::{t}" for t in types)
    text = f'SELECT once."{name}"({call})' + (" FROM generate_series(1, 2)" if kind == "a" else "")
    wrong = []
    with session.transaction() as outer:
        fence = session.value("SELECT fence FROM once.begin('inject', 'k', 'f')")
        for i, kind_of in enumerate(types):
            for value in values(kind_of)[::1 if granted else 3]:
                tries[0] += 1
                arguments = [base(n, t, "k", fence) for n, t in zip(names, types)]
                arguments[i] = value
                try:
                    with session.transaction() as inner:
                        session.rows(text, *arguments)
                        raise psycopg.Rollback(inner)
                except psycopg.Error as error:
                    state = error.sqlstate or ""
                    if kind_of.startswith("reg"):
                        continue  # it is a name in the catalog, or it is refused by the cast
                    if state in OF_STATEMENTS or granted and not state.startswith(REFUSALS):
                        wrong.append(f"{name}, argument {i + 1} {names[i]} = {value!r:.80}: "
                                     f"{state} {str(error):.200}")
        raise psycopg.Rollback(outer)
    return wrong


def test_no_argument_of_any_function_becomes_a_statement(hostile):
    found = hostile.rows(FUNCTIONS)
    assert len(found) > 20
    tries = [0]
    wrong = [line for function in found for line in attack(hostile, function, tries)]
    assert tries[0] > 1000
    assert trips(hostile) == 0, "a value was run as a statement"
    assert wrong == [], "\n".join(wrong[:20])


@pytest.mark.parametrize("body", [
    "EXECUTE 'SELECT count(*) FROM once.operation WHERE key = ''' || $1 || ''''",
    "EXECUTE format('SELECT %s', $1)"])
def test_a_function_that_puts_text_into_a_statement_is_found(hostile, body):
    """The attack itself: it must find the mistake that it looks for."""
    before = trips(hostile)
    with hostile.transaction() as undo:
        hostile.rows("CREATE FUNCTION once.careless(word text) RETURNS void LANGUAGE plpgsql AS"
                     f" $f$ BEGIN {body}; END $f$")
        hostile.rows("GRANT EXECUTE ON FUNCTION once.careless TO once_app")
        function = [row for row in hostile.rows(FUNCTIONS) if row[1] == "careless"][0]
        wrong = attack(hostile, function, [0])
        raise psycopg.Rollback(undo)
    assert wrong and trips(hostile) > before
    hostile.rows("SELECT setval('public.tripped', 1, false)")


def test_hostile_words_are_kept_as_they_are(hostile):
    """And what reads them later (views, sweep, lists) does not run them either."""
    words = [text for text in TEXTS if 0 < len(text) <= 60 and text.isascii()]
    assert len(words) > 10
    for number, word in enumerate(words):
        short = word.encode()
        fence = hostile.value("SELECT fence FROM once.begin('kept', %s, %s, %s)", word, short, word)
        hostile.value("SELECT once.checkpoint('kept', %s, %s, %s, %s)", word, fence, word, short)
        again = hostile.one("SELECT verdict, point, data FROM once.begin('kept', %s, %s, %s)", word,
                            short, word)
        assert again == ("EXECUTE", word, short)
        if number % 3 == 0:
            hostile.value("SELECT once.renew('kept', %s, %s, 0)", word, fence)
            assert hostile.value("SELECT owner FROM once.doubts WHERE ns = 'kept' AND key = %s",
                                 word) == word
        else:
            hostile.value("SELECT once.complete('kept', %s, %s, 7, %s)", word, fence, short)
            assert hostile.one("SELECT verdict, code, result FROM once.begin('kept', %s, %s, %s)",
                               word, short, word) == ("REPLAY", 7, short)
        assert hostile.value("SELECT once.seen(%s, %s, %s)", word, word, word) is not None
        token = hostile.value('SELECT once."grant"(%s)', word)
        hostile.value("SELECT once.guard(%s, %s)", word, token)
        hostile.value("SELECT once.emit(%s, %s::jsonb, %s)", word, json.dumps({word: word}), word)
        assert hostile.one('SELECT "group", payload FROM once.take(%s, 1)', word) == (
            word, {word: word})
    for view, in hostile.rows("SELECT relname FROM pg_class WHERE relnamespace ="
                              " 'once'::regnamespace AND relkind = 'v'"):
        hostile.rows(f'SELECT * FROM once."{view}"')
    hostile.rows("SELECT once.sweep()")
    assert {key for key, in hostile.rows("SELECT key FROM once.operation WHERE ns = 'kept'")
            } == set(words)
    assert trips(hostile) == 0


def test_wildcards_find_nothing_but_themselves(hostile):
    hostile.rows("SELECT once.begin('wild', 'abc')")
    for word in ("%", "a%", "_bc", "a*", ".*", "a.c", "abc%"):
        assert hostile.rows("SELECT * FROM once.get('wild', %s)", word) == []
        assert hostile.rows("SELECT * FROM once.get(%s, 'abc')", word) == []
