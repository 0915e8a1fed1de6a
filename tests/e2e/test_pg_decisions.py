# SPDX-License-Identifier: Apache-2.0
"""What SQL decides is what the core decides, case by case: tests/conformance/pg_table.c enumerates
the decision table and asks both, through the pure function and through every way in which real rows
are decided on. ONCE_SEED=n plays other cases; ONCE_PG_CASES=n, for `make soak`, so many times more.
"""
import os
import re
import subprocess

import pytest
from pg_tools import break_function, test_program

PASSES = {"decide": 75000, "calls": 4000, "calls, one after the other": 4000, "functions": 4000,
          "sequence": 1000}
FEW = ["--random", "0", "--stride", "16", "--rounds", "60"]


def play(url, *options):
    """(exit status, cases of each pass that was played, what it said)"""
    done = subprocess.run([test_program("pg_table"), *options], text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, ONCE_PG_URL=url
                                   + "?options=-csynchronous_commit%3Doff"))
    found = re.findall(r"^(?:not )?ok (.*): (\d+) (?:cases|calls)", done.stdout, re.MULTILINE)
    return done.returncode, {name: int(count) for name, count in found}, done.stdout[-6000:]


def test_sql_and_the_core_decide_the_same(pg):
    more = int(os.environ.get("ONCE_PG_CASES", "1"))
    status, played, said = play(pg.installed(), "--seed", os.environ.get("ONCE_SEED", "1"),
                                "--random", str(2000 * more), "--rounds", str(120 * more),
                                "--stride", str(max(1, 12 // more)))
    assert status == 0, said
    assert set(played) == set(PASSES)
    assert all(played[name] >= least for name, least in PASSES.items()), played


@pytest.mark.parametrize("function, pattern, replacement, thin", [
    ("state_at", r"pg_catalog\.>=\) \$1\.expires_ms", "pg_catalog.>) $1.expires_ms", 6),
    ("decide_begin", r"\$3 - \$2\.birth_ms >= ", "$3 - $2.birth_ms > ", 6),
    ("decide", r"n\.point <> \$3\.after", "false", 6),
    ("calls", r"AND o\.fence = a\.fence", "", 60),
    ("complete", r"AND o\.fence OPERATOR\(pg_catalog\.=\) \$3", "", 60),
    ("decided", r"WHEN \$1 = 0 THEN", "WHEN false THEN", 60),
])
def test_a_broken_decision_is_found(pg, function, pattern, replacement, thin):
    url = pg.installed()
    break_function(url, function, pattern, replacement)
    status, _, said = play(url, "--thin", str(thin), *FEW)
    assert status == 1, said
