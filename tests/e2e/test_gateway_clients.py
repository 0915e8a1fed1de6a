# SPDX-License-Identifier: Apache-2.0
"""Ordinary clients with their own retries before the gateway, over a network and to a service that
fail at the worst moment: requests with urllib3's Retry, and curl --retry, over HTTP/1.1 and HTTP/2,
with TLS and without. Each key has one effect, and its client gets the one answer. (Stripe's SDK:
test_gateway_stripe.)
"""
import contextlib
import itertools
import signal
import subprocess
import time

import pytest
import requests
import urllib3.util
from gateway_raw import Later, state
from gateway_tools import Answer, stack
from lossy import Network
from serving import HOST, certificates, free_port, wait_for

numbers = itertools.count(1)


# ---- Clients -------------------------------------------------------------------------------------

class Requests:
    """It retries POST as well, also what it is refused, and waits as Retry-After says."""

    def __init__(self, name, port, authority=None):
        self.name, self.port, self.authority = name, port, authority

    def post(self, port, key, retries=8, timeout=20, do="ok"):
        retry = urllib3.util.Retry(
            total=retries, allowed_methods=None, status_forcelist=[409, 429, 500, 502, 503, 504],
            backoff_factor=0.1, respect_retry_after_header=True, raise_on_status=False)
        scheme = "https" if self.authority else "http"
        with requests.Session() as session:
            session.trust_env = False
            session.verify = str(self.authority) if self.authority else True
            session.mount(f"{scheme}://", requests.adapters.HTTPAdapter(max_retries=retry))
            answer = session.post(f"{scheme}://{HOST}:{port}/pay", json={"amount": 100},
                                  headers={"Idempotency-Key": key, "X-Do": do}, timeout=timeout)
        if len(answer.content) != int(answer.headers["Content-Length"]):
            raise requests.exceptions.ChunkedEncodingError("half")  # urllib3 1 does not look
        return Answer(answer.status_code, list(answer.headers.items()), answer.content)

    def give_up(self, port, key, do, when):
        """Goes away inside of its request."""
        with pytest.raises(requests.exceptions.RequestException):
            self.post(port, key, retries=0, timeout=4, do=do)  # by then it is at the service
        when()


class Curl:
    def __init__(self, name, port, version, folder, authority=None):
        self.name, self.port, self.authority = name, port, authority
        self.version, self.folder = version, folder

    def command(self, port, key, retries, timeout, do, output):
        scheme = "https" if self.authority else "http"
        return ["curl", "--silent", "--show-error", f"--{self.version}", "--include", "--output",
                str(output), "--retry", str(retries), "--retry-all-errors", "--retry-delay", "1",
                "--fail-with-body", "--max-time", str(timeout), "--noproxy", "*",
                *(["--cacert", str(self.authority)] if self.authority else []),
                "--header", f"Idempotency-Key: \"{key}\"", "--header", f"X-Do: {do}",
                "--json", '{"amount": 100}', f"{scheme}://{HOST}:{port}/pay"]

    def run(self, port, key, retries, timeout, do):
        """(whether it went well, what came, what it says itself)."""
        output = self.folder / f"{next(numbers)}.txt"
        done = subprocess.run(self.command(port, key, retries, timeout, do, output), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        came = output.read_bytes() if output.exists() else b""
        return done.returncode == 0, came, done.stdout

    def post(self, port, key, retries=8, timeout=20, do="ok"):
        if self.version == "http2-prior-knowledge":
            # Debian's curl (7.88) cannot use such a connection twice, and --retry does: a loop, as
            # in a script.
            for _ in range(retries + 1):
                well, came, errors = self.run(port, key, 0, timeout, do)
                if well:
                    break
                time.sleep(0.5)
        else:
            _, came, errors = self.run(port, key, retries, timeout, do)
        assert came, errors
        head, _, body = came.partition(b"\r\n\r\n")
        version, status = head.split(b" ")[:2]
        assert (version == b"HTTP/2") == self.version.startswith("http2"), head
        lines = head.decode("latin-1").split("\r\n")[1:]
        return Answer(int(status), [tuple(line.split(": ", 1)) for line in lines], body)

    def give_up(self, port, key, do, when):
        command = self.command(port, key, 0, 20, do, self.folder / "never")
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            when()
            process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    made = certificates(folder)
    h2c, tls = free_port(), free_port()
    more = f"; listen {HOST}:{h2c} http2; listen {HOST}:{tls} ssl http2"
    with stack(folder, {"/": "once require;"}, listen=more, certificates=made) as running:
        port = running.gateway.port
        running.clients = [
            Requests("requests", port), Requests("requests-tls", tls, made[0]),
            Curl("curl", port, "http1.1", folder),
            Curl("curl-h2c", h2c, "http2-prior-knowledge", folder),
            Curl("curl-tls", tls, "http1.1", folder, made[0]),
            Curl("curl-tls-h2", tls, "http2", folder, made[0])]
        yield running


def everyone(s, scenario):
    """Plays it with each client at the same time; (client, its key, what it gave)."""
    with contextlib.ExitStack() as networks:
        running = []
        for client in s.clients:
            network = networks.enter_context(Network(client.port))
            key = f"{scenario.__name__}-{client.name}"
            running.append((client, key, Later(scenario, client, network, key)))
        return [(client, key, later.result(60)) for client, key, later in running]


def requests_of(s, key, verdict):
    return sum(a["key"] == key and a["verdict"] == verdict for a in s.gateway.accesses())


def assert_once(s, key, answer, replayed):
    assert answer.status == 201, (key, answer)
    assert s.upstream.effects(key) == 1, key
    assert answer.json["key"] == key and answer.json["effects"] == 1
    assert answer.replayed == replayed, (key, answer)


# ---- What goes wrong -----------------------------------------------------------------------------

def test_the_answer_is_lost(s):
    def lost(client, network, key):
        asked = Later(client.post, network.port, key, do=f"hold=go-{key}")
        s.upstream.wait_effects(key)
        network.cut()
        s.upstream.let_go(f"go-{key}")
        return asked.result()

    for _, key, answer in everyone(s, lost):
        assert_once(s, key, answer, replayed=True)
        assert s.upstream.requests(key) == 1


def test_the_client_does_not_wait_that_long(s):
    def late(client, network, key):
        asked = Later(client.post, network.port, key, timeout=3, do=f"hold=go-{key}")
        wait_for("a retry is told to wait", lambda: requests_of(s, key, "BUSY") > 0)
        s.upstream.let_go(f"go-{key}")
        return asked.result()

    for _, key, answer in everyone(s, late):
        assert_once(s, key, answer, replayed=True)
        assert s.upstream.requests(key) == 1


def test_duplicates_at_the_same_time(s):
    def many(client, network, key):
        asked = [Later(client.post, network.port, key, do="after=0.1") for _ in range(4)]
        return [later.result() for later in asked]

    for _, key, answers in everyone(s, many):
        assert {a.body for a in answers} == {answers[0].body}, key
        assert sorted(a.replayed for a in answers) == [False, True, True, True]
        for answer in answers:
            assert_once(s, key, answer, answer.replayed)


def test_the_client_goes_away(s):
    def gone(client, network, key):
        client.give_up(network.port, key, f"hold=go-{key}", lambda: s.upstream.wait_effects(key))
        s.upstream.let_go(f"go-{key}")
        wait_for(f"{key} is recorded", lambda: state(s.server, key) == "completed")
        return client.post(network.port, key, do=f"hold=go-{key}")

    for _, key, answer in everyone(s, gone):
        assert_once(s, key, answer, replayed=True)


def test_a_network_that_loses_everything_a_little(s):
    def storm(client, network, key):
        network.plan("refuse", "lose", "half", "twice")
        while True:
            try:
                answer = client.post(network.port, key)
                break
            except requests.exceptions.ChunkedEncodingError:
                pass  # half a body: requests leaves it to its caller
        assert network.count >= 4, "every one of them was met"
        return answer

    for client, key, answer in everyone(s, storm):
        # What the gateway says first is its answer with plain HTTP/1.1; with TLS and HTTP/2 it says
        # something before it has seen the request, which may then not have arrived.
        sure = client.name in ("requests", "curl")
        assert_once(s, key, answer, replayed=True if sure else answer.replayed)


def test_the_service_is_away_for_a_while(s):
    s.upstream.stop()

    def away(client, network, key):
        asked = Later(client.post, client.port, key)
        wait_for(f"{key} was refused", lambda: requests_of(s, key, "EXECUTE") > 0)
        return asked

    asked = everyone(s, away)
    s.upstream.start()
    for _, key, later in asked:
        answer = later.result()
        assert_once(s, key, answer, replayed=False)
        assert int(answer.json["attempt"]) >= 2


def test_the_service_dies_inside_of_a_request(s):
    """Nobody knows whether it was done: no retry does it again, whatever the client does."""
    def dies(client, network, key):
        asked = Later(client.post, client.port, key, retries=2, do="hold=never")
        s.upstream.wait_effects(key)
        return asked

    asked = everyone(s, dies)
    s.upstream.kill()
    s.upstream.start()
    for client, key, later in asked:
        answer = later.result()
        assert answer.status in (409, 502) and answer.problem == "doubt", (key, answer)
        assert answer.get("X-Should-Retry") == "false" and not answer.get("Retry-After")
        assert client.post(client.port, key, retries=0, do="hold=never").status == 409
        assert (s.upstream.effects(key), s.upstream.requests(key)) == (1, 1)
        assert state(s.server, key) == "doubt"
