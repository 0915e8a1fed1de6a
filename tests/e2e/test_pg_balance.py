# SPDX-License-Identifier: Apache-2.0
"""The key and the effect in one transaction, on hosts/postgres: 64 connections send 1,000 keys 20
times each, every payment moves a balance, and backends are killed at random. Balances are exact,
everybody is told one result, nothing waits for ever and no key is lost. The sender and checker is
pg_balance.c in tests/conformance. ONCE_PG_ROUNDS=n, for `make soak`: n rounds, in which PostgreSQL
crashes as well.
"""
import os
import re
import subprocess

import pytest
from pg_tools import Postgres, break_function, test_program

COUNTS = re.compile(r"executed (\d+) replayed (\d+) busy (\d+) lost (\d+) abandoned (\d+) "
                    r"killed (\d+) failures (\d+)")


def send(url, *options):
    """(exit status, what was counted, what it said)"""
    done = subprocess.run([test_program("pg_balance"), *map(str, options)], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, ONCE_PG_URL=url))
    names = ("executed", "replayed", "busy", "lost", "abandoned", "killed", "failures")
    counts = COUNTS.search(done.stdout)
    assert counts, done.stdout[-4000:]
    return done.returncode, dict(zip(names, map(int, counts.groups()))), done.stdout[-4000:]


def test_balances_are_exact_whatever_is_killed(pg):
    status, counts, said = send(pg.installed(), "--connections", 64, "--keys", 1000, "--sends", 20,
                                "--kills", 60, "--seed", os.environ.get("ONCE_SEED", "1"))
    assert status == 0, said
    assert counts["killed"] == 60 and counts["lost"] >= 60 and counts["abandoned"] > 20, said
    assert counts["executed"] <= 1000 and counts["replayed"] >= 18000 and counts["busy"] > 0, said
    assert "deadlock" not in pg.tail(200000)


def test_the_check_finds_payments_without_once(pg):
    status, _, said = send(pg.installed(), "--connections", 16, "--keys", 200, "--sends", 3,
                           "--kills", 5, "--without")
    assert status == 1 and "a balance" in said, said


@pytest.mark.parametrize("function, pattern, replacement, said_then", [
    ("begin", r"ON CONFLICT \(ns, key\) DO NOTHING",
     "ON CONFLICT (ns, key) DO UPDATE SET state = 1, fence = EXCLUDED.fence", "a balance"),
    ("complete", r"result = coalesce\(\$5, ''\)", "result = random()::text::bytea",
     "another result")])
def test_the_check_finds_a_broken_function(pg, function, pattern, replacement, said_then):
    url = pg.installed()
    break_function(url, function, pattern, replacement)
    status, _, said = send(url, "--connections", 8, "--keys", 50, "--sends", 4, "--kills", 0)
    assert status == 1 and said_then in said, said


def test_balances_are_exact_when_postgresql_crashes(tmp_path):
    """A backend that is killed with SIGKILL takes all others with it, and PostgreSQL recovers."""
    for seed in range(int(os.environ.get("ONCE_PG_ROUNDS", "1"))):
        with Postgres(tmp_path) as server:
            status, counts, said = send(server.installed(), "--connections", 32, "--keys", 200,
                                        "--sends", 6, "--kills", 6, "--crashes", 2, "--seed", seed)
            assert status == 0, said
            assert counts["killed"] == 8, said
            assert server.tail(400000).count("terminated by signal 9") >= 1
