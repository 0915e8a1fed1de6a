# SPDX-License-Identifier: Apache-2.0
"""The conformance suite (tests/conformance) on the SQL functions of hosts/postgres: each step is a
transaction of its own on a real PostgreSQL, and a restart ends every backend.
"""
import os
import re
import subprocess

import pytest
from pg_tools import break_function, test_program

SCENARIOS = 45


def play(url, *options):
    """(scenarios that held, lines of those that did not). Nothing here outlives the server, so no
    commit waits for the disk."""
    url += "?options=-csynchronous_commit%3Doff"
    done = subprocess.run([test_program("conformance_postgres"), *options], text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, ONCE_PG_URL=url))
    held = re.findall(r"^ok \d+ - (.*)$", done.stdout, re.MULTILINE)
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert done.returncode in (0, 1), done.stdout[-4000:]
    assert (done.returncode == 1) == ("not ok" in done.stdout), done.stdout[-4000:]
    return held, "\n".join(failed)[-6000:]


@pytest.mark.parametrize("version, options, times", [
    ("1.0", [], 2), ("1.1", ["--business"], 2),
    ("1.1", ["--business", "--straight", "--threads", "16"], 1)])
def test_the_suite_holds(pg, version, options, times):
    """Straight through, and (where not said otherwise) with a restart after every step."""
    held, failed = play(pg.installed(version), *options)
    assert len(held) == times * SCENARIOS, failed


@pytest.mark.parametrize("function, pattern, replacement, scenario", [
    ("state_at", r"pg_catalog\.>=\) \$1\.lease_end_ms", "pg_catalog.>) $1.lease_end_ms", "lease"),
    ("decide_begin", r"\$1\.fingerprint <> \$2\.fingerprint", "false", "mismatch"),
    ("complete", r"result = coalesce\(\$5, ''\)", "result = ''", "replay"),
    ("decide_execute", r"n\.fence := \$4", "n.id := n.id", "retry")])
def test_a_broken_function_is_found(pg, function, pattern, replacement, scenario):
    url = pg.installed()
    assert "not ok" not in play(url, scenario)[1]
    break_function(url, function, pattern, replacement)
    assert "not ok" in play(url, scenario)[1]
