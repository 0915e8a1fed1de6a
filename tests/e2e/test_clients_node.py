# SPDX-License-Identifier: Apache-2.0
"""node-redis, ioredis, and AWS Lambda Powertools idempotency, as npm has them."""
import json
import os
import subprocess

import pytest

from client_tools import PINNED, node_modules
from serving import Server, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    (folder / "node_modules").symlink_to(node_modules())
    for program in PINNED.glob("*.mjs"):
        (folder / program.name).write_bytes(program.read_bytes())
    return folder


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path / "server") as server:
        yield server


@pytest.mark.parametrize("protocol", [2, 3])
def test_node_redis(folder, server, protocol):
    said = run(["node", "node_redis.mjs", server.port, protocol], cwd=folder)
    assert f"node-redis RESP{protocol}: all held" in said


def test_ioredis(folder, server):
    assert "ioredis: all held" in run(["node", "ioredis.mjs", server.port], cwd=folder)


# ---- AWS Lambda Powertools ----------------------------------------------------------------------


class Lambda:
    """A warm function: one process, one invocation a line."""

    def __init__(self, folder, server, executed):
        self.process = subprocess.Popen(
            ["node", "powertools.mjs"], cwd=folder, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, CACHE_PORT=str(server.port), EXECUTED=str(executed),
                     AWS_LAMBDA_FUNCTION_NAME="payments"))

    def __call__(self, **event):
        self.process.stdin.write(json.dumps(event) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the function died:\n" + self.process.stderr.read()
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def test_powertools_executes_once(folder, server, tmp_path):
    executed = tmp_path / "executed"
    with Lambda(folder, server, executed) as invoke:
        first = invoke(user="alice", productId="book")
        assert first["statusCode"] == 200
        assert invoke(user="alice", productId="book") == first
        other = invoke(user="alice", productId="pen")
        assert other["statusCode"] == 200 and other["paymentId"] != first["paymentId"]
        # A failed execution is forgotten by Powertools, and may be tried again.
        assert invoke(user="alice", productId="car", fails=True)["error"] != ""
        assert invoke(user="alice", productId="car")["statusCode"] == 200
    with Lambda(folder, server, executed) as cold:
        assert cold(user="alice", productId="book") == first
    assert executed.read_text().splitlines() == ["alice book", "alice pen", "alice car", "alice car"]


def test_powertools_executes_once_although_the_server_was_killed(folder, tmp_path):
    """What a cache would have forgotten: SIGKILL between the first invocation and its retry."""
    executed = tmp_path / "executed"
    with Server(tmp_path / "server") as server, Lambda(folder, server, executed) as invoke:
        first = invoke(user="alice", productId="book")
        for _ in range(3):
            server.kill()
            server.start()
            assert invoke(user="alice", productId="book") == first
        server.kill()
        server.start()
        with Lambda(folder, server, executed) as cold:
            assert cold(user="alice", productId="book") == first
            assert cold(user="bob", productId="book")["statusCode"] == 200
    assert executed.read_text().splitlines() == ["alice book", "bob book"]
