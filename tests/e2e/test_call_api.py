# SPDX-License-Identifier: Apache-2.0
"""The C API of calls as a stranger uses it: examples/call/pay.c built against the installed library,
run against a receiver that loses answers, killed, and run again."""
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from misbehaving import Receiver
from test_call import assert_once, quoted

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "call" / "pay.c"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def flags(installed, *words):
    env = dict(os.environ, PKG_CONFIG_PATH=str(installed.pkgconfig))
    done = subprocess.run(["pkg-config", *words, "once-http"], env=env, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module", params=["shared", "static"])
def pay(request, installed, tmp_path_factory):
    program = tmp_path_factory.mktemp("pay") / "pay"
    how = [*flags(installed, "--cflags", "--libs"), f"-Wl,-rpath,{installed.lib}"]
    if request.param == "static":  # our archives; libcurl as it is
        archives = {"-lonce": "-l:libonce.a", "-lonce-http": "-l:libonce-http.a"}
        how = [archives.get(flag, flag) for flag in how]
        how += ["-lcurl", "-ljansson", "-lcrypto", "-lxxhash", "-lm", "-pthread"]
    subprocess.run(["cc", *STRICT, "-o", program, EXAMPLE, *how], check=True)
    linked = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    assert ("libonce" in linked) == (request.param == "shared")
    return program


@pytest.fixture
def run(pay, tmp_path):
    environment = dict(os.environ, PAY_TOKEN="sesame")

    def run(receiver, order, amount="100", start=False):
        words = [pay, tmp_path / "store", receiver.url, order, amount]
        if start:
            return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
        return subprocess.run(words, env=environment, text=True, capture_output=True, timeout=60)
    yield run
    shutil.rmtree(tmp_path / "store", ignore_errors=True)


def test_pays_once(run):
    with Receiver(["lose answer", "503", "ok"]) as receiver:
        first = run(receiver, "order-1")
        paid = receiver.answers[quoted("order-1")].decode()
        assert (first.returncode, first.stdout) == (0, f"answered: 201 {paid}\n"), first.stderr
        assert run(receiver, "order-1").stdout == f"replayed: 201 {paid}\n"
        assert run(receiver, "order-1", "900").stdout == "mismatch\n"
        assert_once(receiver, "order-1")
        assert receiver.requests[0].get("Authorization") == "Bearer sesame"


def test_killed_and_run_again_pays_once(run):
    with Receiver(["hang", "ok"]) as receiver:
        process = run(receiver, "order-2", start=True)
        receiver.wait_for(lambda r: r.effects)
        process.send_signal(signal.SIGKILL)
        process.wait()
        again = run(receiver, "order-2")  # waits for the lease of the one that is gone
        paid = receiver.answers[quoted("order-2")].decode()
        assert (again.returncode, again.stdout) == (0, f"answered: 201 {paid}\n"), again.stderr
        assert_once(receiver, "order-2")


def test_libonce_needs_no_libcurl(installed):
    needed = subprocess.run(["ldd", installed.lib / "libonce.so"], text=True, capture_output=True,
                            check=True).stdout
    assert "libcurl" not in needed and "jansson" not in needed


def test_exports_only_what_is_public(installed):
    names = subprocess.run(["nm", "-D", "--defined-only", installed.lib / "libonce-http.so"],
                           text=True, capture_output=True, check=True).stdout.split()[2::3]
    assert names and all(name.startswith("once_http_") for name in names), names
