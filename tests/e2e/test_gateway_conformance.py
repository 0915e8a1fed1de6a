# SPDX-License-Identifier: Apache-2.0
"""The conformance suite (tests/conformance) through nginx with our module: what every store and
host of Once must answer, asked with POST. conformance_gateway is the client, the service behind and
the server of Once; this starts nginx between them. tests/README.md has what no gateway says.
"""
import re
import subprocess

import pytest
from gateway_tools import Gateway
from serving import HOST, once_binary

# Calls that are begins or ends and yet did not go through the gateway, of both rounds. Who changes
# these changes the table in tests/README.md.
AROUND = {"begin of an owner who asks again": 14,
          "begin that no request can be": 12,
          "complete of a request that has ended": 24,
          "fail of a request that has ended, or with a reason": 18}
NEVER_SAID = {"renew", "checkpoint", "resolve", "forget", "get"}

FOLDER = once_binary().resolve().parents[2] / "tests" / "conformance"
ADAPTER, SLOW_CLOCK = FOLDER / "conformance_gateway", FOLDER / "slow_clock.so"
SCENARIOS = 45

# One for each set of times: they are nginx's configuration, and a call has its own.
HOST_TEXT = """
    server {{
        listen {host}:{port};
        server_name t{ttl}.l{lease}.{doubt};
        location / {{
            once require;
            once_namespace $http_x_namespace;
            {times}
            once_doubt {doubt};
            proxy_pass http://$http_x_upstream;
            proxy_read_timeout 1h;
        }}
    }}
"""


def hosts(port):
    settings = subprocess.run([ADAPTER, "--settings"], text=True, check=True, timeout=30,
                              stdout=subprocess.PIPE).stdout
    for line in sorted(set(settings.splitlines())):
        ttl, lease, doubt = line.split()
        times = "".join(f"{name} {value}ms; " for name, value in (("once_ttl", ttl),
                                                                  ("once_lease", lease))
                        if value != "0")
        yield HOST_TEXT.format(host=HOST, port=port, ttl=ttl, lease=lease, doubt=doubt, times=times)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    assert ADAPTER.exists(), f"{ADAPTER} is not built; run `make`"
    folder = tmp_path_factory.mktemp("conformance")
    gateway = Gateway(folder, f"unix:{folder}/once.sock", f"{HOST}:1",
                      environment={"LD_PRELOAD": str(SLOW_CLOCK)})
    gateway.http = "server_names_hash_bucket_size 128;\n" + "".join(hosts(gateway.port))
    with gateway:
        yield gateway


def play(gateway, *options):
    """What it said: scenarios that held, and how many calls went which way."""
    done = subprocess.run([ADAPTER, "--port", str(gateway.port), "--socket",
                           gateway.folder / "once.sock", *options], text=True, timeout=600,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    assert done.returncode == 0 and "not ok" not in done.stdout, "\n".join(failed)[-6000:]
    ways = dict(re.findall(r"^# ((?:through|direct).*): (\d+)$", done.stdout, re.MULTILINE))
    return (re.findall(r"^ok \d+ - (.*)$", done.stdout, re.MULTILINE),
            {way: int(count) for way, count in ways.items()})


def test_the_suite_holds_through_the_gateway(gateway):
    held, ways = play(gateway)
    assert len(held) == 2 * SCENARIOS, "each straight through, and restarted after every step"
    through = [n for way, n in ways.items() if way.startswith("through")]
    direct = {way.partition(": ")[2]: n for way, n in ways.items() if way.startswith("direct")}
    assert {way: n for way, n in direct.items() if way not in NEVER_SAID} == AROUND
    assert all(through)


def test_many_at_the_same_time_and_power_cuts(gateway):
    held, _ = play(gateway, "--threads", "8", "--disk")
    assert len(held) == 2 * SCENARIOS


@pytest.mark.parametrize("times", ["once_lease 0;", "once_lease 999ms;", "once_lease 604801s;",
                                   "once_lease -1;", "once_ttl 0;", "once_ttl 11y;",
                                   "once_ttl -1;"])
def test_times_that_no_call_may_have_are_refused_at_the_start(tmp_path, times):
    """The rest of "bad calls change nothing": a gateway's calls have the times of its
    configuration."""
    status, said = Gateway(tmp_path, f"unix:{tmp_path}/once.sock", f"{HOST}:1",
                           {"/": f"once on; {times}"}).check()
    assert status != 0 and times.split()[0] in said, said
