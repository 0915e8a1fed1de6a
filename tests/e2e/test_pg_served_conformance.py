# SPDX-License-Identifier: Apache-2.0
"""The conformance suite (tests/conformance) on `once serve --store postgres`, over RESP and over
HTTP: a real server, a real PostgreSQL, time that is the database's. A restart stops the server and
starts it again; every second one only ends its sessions under it. Over HTTP there are no restarts:
each takes half a dozen sessions of the database, and the store behind is the same.
"""
import os
import re
import subprocess

import pytest
from pg_tools import test_program

SCENARIOS = 45


WAYS = [("resp", 2, ["--lanes", "1"]), ("http", 1, ["--straight", "--threads", "16"])]


@pytest.mark.parametrize("protocol, rounds, options", WAYS, ids=["RESP", "HTTP"])
def test_the_suite_holds(pg, protocol, rounds, options):
    done = subprocess.run([test_program(f"conformance_{protocol}"), "--postgres", *options],
                          text=True, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, ONCE_PG_URL=pg.database()))
    held = re.findall(r"^ok \d+ - (.*)$", done.stdout, re.MULTILINE)
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert done.returncode == 0 and len(held) == rounds * SCENARIOS, "\n".join(failed)[-6000:]
