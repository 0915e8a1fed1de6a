# SPDX-License-Identifier: Apache-2.0
"""The bounds of hosts/postgres are those of include/once/limits.h. A released script keeps its numbers,
so they are written out there; here each is met at its edge: the largest value passes, the next one is
refused by its name.
"""
import itertools
import re
import time

import psycopg
import pytest
from pg_tools import PgSession
from serving import ROOT

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
LINE = re.compile(r"^#define ONCE_(\w+) (.+)$", re.MULTILINE)
NUMBER = re.compile(r"\b(\d+)(?:U|L|LL|ULL)\b")


def limits():
    found = {}
    text = COMMENT.sub("", (ROOT / "include" / "once" / "limits.h").read_text())
    for name, value in LINE.findall(text):
        value = re.sub(r"\bONCE_(\w+)", lambda m: str(found[m.group(1)]), NUMBER.sub(r"\1", value))
        if re.fullmatch(r"[\d\s()<+*/-]+", value):
            found[name] = eval(value.replace("/", "//"))  # numbers and operators, nothing else
    return found


LIMITS = limits()


@pytest.fixture(scope="module")
def session(pg):
    with PgSession(pg.installed()) as made:
        yield made


NUMBERS = itertools.count(1)


def fresh():
    return f"limit-{next(NUMBERS)}"


def begun(session):
    key = fresh()
    return key, session.value("SELECT fence FROM once.begin('ns', %s)", key)


def begin(session, ns="ns", key=None, owner=None, ttl=1000, lease=1000, doubt="REJECT"):
    session.rows("SELECT * FROM once.begin(%s, %s, NULL, %s, %s::bigint, %s::bigint, %s)", ns,
                 key or fresh(), owner, ttl, lease, doubt)


def complete(session, size):
    key, fence = begun(session)
    session.rows("SELECT once.complete('ns', %s, %s, 0, %s)", key, fence, b"x" * size)


def fail(session, size):
    key, fence = begun(session)
    session.rows("SELECT once.fail('ns', %s, %s, %s)", key, fence, "x" * size)


def checkpoint(session, point=4, data=4):
    key, fence = begun(session)
    session.rows("SELECT once.checkpoint('ns', %s, %s, %s, %s)", key, fence, "p" * point, b"x" * data)


def renew(session, lease):
    key, fence = begun(session)
    session.rows("SELECT once.renew('ns', %s, %s, %s::bigint)", key, fence, lease)


def resolve(session, size):
    key, fence = begun(session)
    session.rows("SELECT once.renew('ns', %s, %s, 0)", key, fence)
    session.rows("SELECT once.resolve('ns', %s, true, 0, %s)", key, b"x" * size)


def emit(session, topic="topic", group=None, size=10):
    session.rows("SELECT once.emit(%s, to_jsonb(%s::text), %s)", topic, "x" * (size - 2), group)


def machine(session, states):
    names = [f"s{i}" for i in range(states)]
    session.rows("SELECT once.machine(%s, %s)", fresh(), [f"{a}>{b}" for a, b in zip(names, names[1:])])


def uuid7(ms):
    text = f"{int(ms):012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{time.monotonic_ns() % 2**48:012x}"


def born(session, ahead_ms):
    """A key of the future; the clocks are one, but time goes on."""
    begin(session, key=uuid7(time.time() * 1000 + ahead_ms), ttl=LIMITS["RETENTION_MS_MAX"])


def merge_count(session, name_size):
    session.rows("SELECT once.merge_gcounter(jsonb_build_object(%s::text, 1), '{}')", "n" * name_size)


CASES = {
    "namespace": ("NAMESPACE_SIZE_MAX", "ERR_INVALID", lambda s, n: begin(s, ns="n" * n)),
    "key": ("KEY_SIZE_MAX", "ERR_KEY_TOO_LONG", lambda s, n: begin(s, key="k" * n)),
    "owner": ("OWNER_SIZE_MAX", "ERR_INVALID", lambda s, n: begin(s, owner="o" * n)),
    "retention": ("RETENTION_MS_MAX", "ERR_INVALID", lambda s, n: begin(s, ttl=n)),
    "lease": ("LEASE_MS_MAX", "ERR_INVALID", lambda s, n: begin(s, lease=n)),
    "renewed lease": ("LEASE_MS_MAX", "ERR_INVALID", renew),
    "result": ("RESULT_SIZE_MAX", "ERR_FULL", complete),
    "resolved result": ("RESULT_SIZE_MAX", "ERR_FULL", resolve),
    "reason": ("REASON_SIZE_MAX", "ERR_FULL", fail),
    "point": ("POINT_SIZE_MAX", "ERR_INVALID", lambda s, n: checkpoint(s, point=n)),
    "data": ("DATA_SIZE_MAX", "ERR_FULL", lambda s, n: checkpoint(s, data=n)),
    "payload": ("PAYLOAD_SIZE_MAX", "ERR_FULL", lambda s, n: emit(s, size=n)),
    "group": ("GROUP_SIZE_MAX", "ERR_INVALID", lambda s, n: emit(s, group="g" * n)),
    "topic": ("OBJECT_NAME_SIZE_MAX", "ERR_INVALID", lambda s, n: emit(s, topic="t" * n)),
    "message": ("EVENT_ID_SIZE_MAX", "ERR_INVALID", lambda s, n: s.rows(
        "SELECT once.seen('group', 'topic', %s)", "m" * n)),
    "kept message": ("RETENTION_MS_MAX", "ERR_INVALID", lambda s, n: s.rows(
        "SELECT once.seen('group', 'topic', %s, %s::bigint)", fresh(), n)),
    "resource": ("OBJECT_NAME_SIZE_MAX", "ERR_INVALID", lambda s, n: s.rows(
        "SELECT once.grant(%s)", "r" * n)),
    "states": ("MACHINE_STATES_MAX", "ERR_FULL", machine),
    "state's name": ("STATE_NAME_SIZE_MAX", "ERR_INVALID", lambda s, n: s.rows(
        "SELECT once.machine(%s, %s)", fresh(), ["a>" + "b" * n])),
    "take's lease": ("LEASE_MS_MAX", "ERR_INVALID", lambda s, n: s.rows(
        "SELECT * FROM once.take('empty', 1, %s::bigint)", n)),
    "node": ("NODE_SIZE_MAX", "ERR_INVALID", merge_count),
}


@pytest.mark.parametrize("case", CASES)
def test_the_edge(session, case):
    name, error, call = CASES[case]
    call(session, LIMITS[name])
    with pytest.raises(psycopg.Error) as refused:
        call(session, LIMITS[name] + 1)
    assert refused.value.diag.message_detail == error, refused.value


def test_a_key_of_the_future(session):
    born(session, LIMITS["KEY_SKEW_MS_MAX"] - 60000)
    with pytest.raises(psycopg.Error) as refused:
        born(session, LIMITS["KEY_SKEW_MS_MAX"] + 60000)
    assert refused.value.diag.message_detail == "ERR_KEY_FUTURE"


@pytest.mark.parametrize("arguments, error", [
    ({"ttl": 0}, "ERR_INVALID"), ({"ttl": -2**63}, "ERR_INVALID"), ({"ttl": None}, "ERR_INVALID"),
    ({"lease": 0}, "ERR_INVALID"), ({"lease": -2**63}, "ERR_INVALID"),
    ({"lease": None}, "ERR_INVALID"), ({"owner": "ä" * 33}, "ERR_INVALID"),
    ({"ns": "a b"}, "ERR_INVALID"), ({"ns": "ä"}, "ERR_INVALID"), ({"ns": ""}, "ERR_INVALID"),
    ({"key": "a\nb"}, "ERR_KEY_CHARACTER"), ({"key": "ä"}, "ERR_KEY_CHARACTER"),
    ({"doubt": "maybe"}, "ERR_INVALID"), ({"doubt": None}, "ERR_INVALID")])
def test_the_other_edge(session, arguments, error):
    """Where the smallest, or none, is refused; and what is counted in bytes, not in characters."""
    with pytest.raises(psycopg.Error) as refused:
        begin(session, **arguments)
    assert refused.value.diag.message_detail == error, refused.value
    begin(session, ttl=1, lease=1, owner="ä" * 32, doubt="retry")


def test_what_is_not_said(session):
    key, _ = begun(session)
    kept = session.rows("SELECT retention_ms, lease_end_ms - created_ms FROM once.get('ns', %s)", key)
    assert kept == [(LIMITS["RETENTION_MS_DEFAULT"], LIMITS["LEASE_MS_DEFAULT"])]


def test_fences_end(session):
    assert session.value("SELECT seqmax FROM pg_sequence WHERE seqrelid = 'once.fence_seq'::regclass") \
        == LIMITS["FENCE_MAX"]
