# SPDX-License-Identifier: Apache-2.0
"""The mergeable functions and aggregates in PostgreSQL: every merge is commutative, associative and
idempotent, on many random states; what a value's one form is; what is refused."""
import itertools
import json
import random

import psycopg
import pytest
from pg_tools import PgSession

SEED = 7411
NODES = ["a", "b", "Z", "ä", "node with space", "'; DROP TABLE x; --"]


@pytest.fixture(scope="module")
def db(pg):
    with PgSession(pg.installed("1.1")) as session:
        yield session


def counts(rng):
    return json.dumps({node: rng.choice([1, 2, 3, 2**53, 2**63 - 1])
                       for node in rng.sample(NODES, rng.randrange(4))})


def lww(rng):
    return json.dumps({"time": rng.choice([-2**63, 0, 1, 2**63 - 1]), "node": rng.choice(NODES),
                       "value": rng.choice([None, 1, 1.0, "1", "a", "B", [1], {"x": {}}, True])})


def union(rng):
    return sorted(rng.sample(["", "a", "B", "b", "ä", "Ä", "{}", ","], rng.randrange(5)),
                  key=lambda member: member.encode())


# name: (type, a random state in its one form)
TYPES = {
    "merge_max": ("bigint", lambda rng: rng.choice([-2**63, -1, 0, 1, 2**63 - 1])),
    "merge_min": ("bigint", lambda rng: rng.choice([-2**63, -1, 0, 1, 2**63 - 1])),
    "merge_or": ("boolean", lambda rng: rng.random() < 0.5),
    "merge_union": ("text[]", union),
    "merge_vv": ("jsonb", counts),
    "merge_gcounter": ("jsonb", counts),
    "merge_lww": ("jsonb", lww),
}

# Compared as text: two forms of one value are a difference.
LAWS = """
    WITH s AS (SELECT i, v FROM unnest(%s::text[]) WITH ORDINALITY AS u (t, i),
               LATERAL (SELECT u.t::{type} AS v) x)
    SELECT a.v::text, b.v::text, c.v::text
    FROM s a, s b, s c
    WHERE {f}(a.v, b.v)::text IS DISTINCT FROM {f}(b.v, a.v)::text
       OR {f}(a.v, {f}(b.v, c.v))::text IS DISTINCT FROM {f}({f}(a.v, b.v), c.v)::text
       OR {f}(a.v, a.v)::text IS DISTINCT FROM a.v::text
       OR {f}(a.v, {f}(a.v, b.v))::text IS DISTINCT FROM {f}(a.v, b.v)::text
    LIMIT 3
"""


def as_text(db, kind, value):
    return db.value(f"SELECT (%s::{kind})::text", value)


def broken(db, function, kind, states):
    texts = [None if state is None else as_text(db, kind, state) for state in states]
    return db.rows(LAWS.format(type=kind, f=function), texts)


@pytest.mark.parametrize("name", TYPES)
def test_laws(db, name):
    """NULL, which is "nothing yet", is one of the states."""
    kind, make = TYPES[name]
    rng = random.Random(SEED)
    assert broken(db, f"once.{name}", kind, [None] + [make(rng) for _ in range(10)]) == []


def test_a_merge_that_breaks_a_law_is_found(db):
    db.rows("CREATE FUNCTION plus(a bigint, b bigint) RETURNS bigint LANGUAGE sql AS"
            " 'SELECT coalesce($1, 0) + coalesce($2, 0)'")
    db.rows("CREATE FUNCTION last(a bigint, b bigint) RETURNS bigint LANGUAGE sql AS"
            " 'SELECT coalesce($2, $1)'")
    assert broken(db, "plus", "bigint", [1, 2])
    assert broken(db, "last", "bigint", [1, 2])


@pytest.mark.parametrize("name", TYPES)
def test_aggregate_is_the_merge_of_all_in_any_order(db, name):
    kind, make = TYPES[name]
    rng = random.Random(SEED)
    states = [as_text(db, kind, make(rng)) for _ in range(4)]
    found = {db.value(f"SELECT once.{name}(t::{kind})::text FROM unnest(%s::text[]) t",
                      list(order) + [None, order[0]])
             for order in itertools.permutations(states)}
    assert len(found) == 1
    folded = states[0]
    for state in states[1:]:
        folded = db.value(f"SELECT once.{name}(%s::{kind}, %s::{kind})::text", folded, state)
    assert found == {folded}
    assert db.value(f"SELECT once.{name}(NULL::{kind}) FROM generate_series(1, 0)") is None


def test_aggregate_in_parallel(db):
    """The states of parallel workers are combined."""
    db.rows("CREATE TABLE many AS SELECT n, ARRAY['m' || n % 7] AS members,"
            " jsonb_build_object('n' || n % 5, n) AS vector FROM generate_series(1, 10000) n")
    with db.transaction():
        for setting in ("parallel_setup_cost = 0", "parallel_tuple_cost = 0",
                        "min_parallel_table_scan_size = 0", "max_parallel_workers_per_gather = 2"):
            db.rows(f"SET LOCAL {setting}")
        query = "SELECT once.merge_max(n), once.merge_union(members), once.merge_vv(vector) FROM many"
        plan = "\n".join(row[0] for row in db.rows("EXPLAIN " + query))
        assert "Partial Aggregate" in plan
        assert db.one(query) == (10000, [f"m{i}" for i in range(7)], {
            "n0": 10000, "n1": 9996, "n2": 9997, "n3": 9998, "n4": 9999})


def test_upsert_merges(db):
    db.rows("CREATE TABLE replica (name text PRIMARY KEY, state jsonb)")
    for state in ('{"a": 1}', '{"b": 2}', '{"a": 3}', '{"a": 1}', '{"b": 2}'):
        db.rows("INSERT INTO replica VALUES ('x', %s) ON CONFLICT (name) DO UPDATE"
                " SET state = once.merge_gcounter(replica.state, excluded.state)", state)
    assert db.one("SELECT state, once.gcounter_value(state) FROM replica") == ({"a": 3, "b": 2}, 5)


def test_forms(db):
    assert db.value("SELECT once.merge_union('{b,a,b}', NULL)") == ["a", "b"]
    assert db.value("SELECT once.merge_union('{Z,a,NULL}', '{ä}')") == ["Z", "a", "ä"]
    assert db.value("SELECT once.merge_union('{}', NULL)") == []
    assert db.value("SELECT once.merge_vv('{\"a\": 0, \"b\": 1}', NULL)") == {"b": 1}


def test_counter_and_vector(db):
    state = db.value("SELECT once.gcounter_add(once.gcounter_add(NULL, 'a', 5), 'b')::text")
    assert json.loads(state) == {"a": 5, "b": 1}
    assert db.value("SELECT once.gcounter_value(%s)", state) == 6
    assert db.value("SELECT once.gcounter_value(NULL)") == 0
    assert db.value("SELECT once.gcounter_value('{\"a\": 9223372036854775807,"
                    " \"b\": 9223372036854775807}')") == 2**64 - 2
    for a, b, order in (('{"a": 1}', '{"a": 1, "b": 0}', "equal"), (None, "{}", "equal"),
                        ('{"a": 1}', '{"a": 2}', "before"), ('{"a": 2, "b": 1}', '{"a": 2}', "after"),
                        ('{"a": 1}', '{"b": 1}', "concurrent")):
        assert db.value("SELECT once.vv_order(%s, %s)", a, b) == order
    assert db.value("SELECT once.vv_order(v, once.vv_tick(v, 'x')) FROM (SELECT '{\"x\": 4}'::jsonb"
                    " AS v) s") == "before"


def test_last_writer(db):
    def merged(*writes):
        return db.value("SELECT once.merge_lww(once.lww(t, n, v)) -> 'value' FROM unnest(%s::bigint[],"
                        " %s::text[], %s::jsonb[]) AS u (t, n, v)",
                        *(list(column) for column in zip(*writes)))

    assert merged((1, "b", '"old"'), (2, "a", '"new"')) == "new"
    assert merged((2, "B", '"upper"'), (2, "a", '"lower"')) == "lower"  # by bytes
    assert merged((2, "a", "[1]"), (2, "a", "[2]")) == [2]


@pytest.mark.parametrize("call, state, text", [
    ("merge_vv('[]', '{}')", "22023", "not an object of nodes and numbers"),
    ("merge_vv('{\"a\": -1}', NULL)", "22023", "not a whole one"),
    ("merge_vv('{\"a\": 1.5}', NULL)", "22023", "not a whole one"),
    ("merge_vv(NULL, '{\"a\": \"1\"}')", "22023", "not a whole one"),
    ("merge_vv('{\"a\": 9223372036854775808}', NULL)", "22023", "not a whole one"),
    ("merge_vv('{\"\": 1}', NULL)", "22023", "a node's name has 1 to 64 bytes"),
    ("merge_gcounter(jsonb_build_object(repeat('x', 65), 1), NULL)", "22023", "1 to 64 bytes"),
    ("gcounter_add('{\"a\": 9223372036854775807}', 'a')", "22023", "not a whole one"),
    ("gcounter_add(NULL, 'a', -1)", "22023", "less than 0"),
    ("gcounter_add(NULL, NULL, 1)", "22023", "a node's name"),
    ("merge_lww('{\"time\": 1, \"node\": \"a\"}', NULL)", "22023", "the state is not"),
    ("merge_lww('{\"time\": 1, \"node\": \"a\", \"value\": 1, \"x\": 1}', NULL)", "22023",
     "the state is not"),
    ("merge_lww('{\"time\": 1.5, \"node\": \"a\", \"value\": 1}', NULL)", "22023", "the time"),
    ("merge_lww('{\"time\": 1, \"node\": \"\", \"value\": 1}', NULL)", "22023", "a node's name"),
    ("lww(1, repeat('x', 65), '1')", "22023", "a node's name"),
    ("lww(NULL, 'a', '1')", "22023", "the time"),
    ("lww(1, 'a', to_jsonb(repeat('x', 1048576)))", "54000", "larger than 1 MiB"),
    ("merge_vv((SELECT jsonb_object_agg(lpad(i::text, 64, '0'), 1) FROM generate_series(1, 15700) i),"
     " NULL)", "54000", "larger than 1 MiB"),
])
def test_refusals_name_what_is_wrong(db, call, state, text):
    with pytest.raises(psycopg.Error) as caught:
        db.rows(f"SELECT once.{call}")
    assert caught.value.sqlstate == state and text in str(caught.value), caught.value
