# SPDX-License-Identifier: Apache-2.0
"""Memory of `once serve --store postgres://…` (INV-9): however much is asked for at once, little of it
is held at once.
"""
import time
from pathlib import Path

import pytest
from failover_cluster import StoreServer
from serving import Error, pack

MIB = 1 << 20
GIVEN_UP_S = 10  # the server waits no longer for the database
SIZE, COUNT = 12 * MIB, 40  # of which five fit into ONCE_PG_ANSWERS_SIZE_MAX


def peak_mib(server):
    """Of its whole life."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


@pytest.mark.parametrize("command, answer", [
    (("EXISTS", "large"), 1),                # one call of once.calls, with its result
    (("SET", "large", "small", "NX"), None)  # a value: decided here, on a row that is held
])
def test_large_results_that_are_asked_for_at_once(pg, tmp_path, command, answer):
    with StoreServer(tmp_path / "one", pg.database()) as server:
        with server.connect(timeout=60) as c:
            assert c("SET", "large", b"x" * SIZE) == "OK"
            for number in range(40):  # small answers let it forget that there are large ones
                c("EXISTS", f"small{number}")
            before = peak_mib(server)
            began = time.monotonic()
            c.socket.sendall(pack(*command) * COUNT)
            answers = [c.read() for _ in range(COUNT)]
            if time.monotonic() - began > GIVEN_UP_S:  # a machine that is too slow for all of them
                answers = [a for a in answers if not isinstance(a, Error) or a.code != "STOPPED"]
            assert len(answers) > 5 and set(answers) == {answer}, answers
            grown = peak_mib(server) - before
            assert grown < 0.9 * SIZE * COUNT / MIB, f"{grown} MiB: all of them were held at once"
