# SPDX-License-Identifier: Apache-2.0
"""Answers that are larger than what is kept, while the server of Once takes its time or is away:
what the gateway holds in memory has a bound, and what it says instead is all that it says.
"""
import os
import shutil
import signal
from pathlib import Path

import pytest
from gateway_raw import Client
from gateway_tools import Stack
from serving import wait_for

SIZE = 96 << 20
BUFFERING = ["on", "off"]
LOCATIONS = {f"/{word}/": f"once on; once_max_answer 16k; proxy_buffering {word}; "
                          "proxy_max_temp_file_size 0;" for word in BUFFERING}
LOCATIONS["/none"] = "return 404;"


@pytest.fixture
def s(tmp_path):
    made = Stack(tmp_path, LOCATIONS, workers=1)
    made.gateway.server = f"unix:{made.server.socket_path} end_timeout=6s"
    try:
        with made.server, made.upstream, made.gateway:
            try:
                yield made
            finally:
                made.server.process.send_signal(signal.SIGCONT)
    finally:
        shutil.rmtree(made.server.dir, ignore_errors=True)


def resident(pid):
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def ask_and_pause(s, path, key, plan):
    """The service has the request, and the server of Once stands still when the answer comes."""
    client = Client(s.gateway.port)
    client.head(path, f"Idempotency-Key: {key}", f"X-Do: hold=go,{plan}", "Content-Length: 0")
    s.upstream.wait_effects(key)
    s.server.process.send_signal(signal.SIGSTOP)
    s.upstream.let_go("go")
    return client


@pytest.mark.parametrize("word", BUFFERING)
def test_what_is_held_has_a_bound(s, word):
    worker = s.gateway.worker_pids()[-1]
    before = resident(worker)
    with ask_and_pause(s, f"/{word}/", "large", f"big={SIZE}") as client:
        with pytest.raises(AssertionError):
            wait_for("too much memory", lambda: resident(worker) > before + (SIZE >> 2), 1.5)
        s.server.process.send_signal(signal.SIGCONT)
        answer = client.answer()
        assert answer.status == 201 and len(answer.body) >= SIZE


@pytest.mark.parametrize("word", BUFFERING)
def test_nothing_comes_behind_what_is_said_instead(s, word):
    with ask_and_pause(s, f"/{word}/", "instead", "slow=0.5,big=4000000") as client:
        client.head("/none", "Content-Length: 0", "Connection: close")
        said = client.rest()
        s.server.process.send_signal(signal.SIGCONT)
        assert said.startswith(b"HTTP/1.1 503") and b"urn:once:problem:unrecorded" in said
        assert said.count(b"HTTP/1.1") == 2 and len(said) < 4096, (len(said), said[-200:])
