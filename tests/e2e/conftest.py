# SPDX-License-Identifier: Apache-2.0
"""Where the end-to-end tests find what they test. `make test` sets both variables."""
import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure():
    """Who runs the tests in the background, or with nohup, ignores these, and so would every
    process that the tests start and send them to."""
    for number, action in ((signal.SIGINT, signal.default_int_handler),
                           (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, action)


@pytest.fixture(scope="session")
def once_bin():
    path = Path(os.environ.get("ONCE_BIN", ROOT / "build" / "once"))
    assert path.exists(), f"{path} is not built; run `make`"
    return path


@pytest.fixture(scope="session")
def plugins():
    return Path(os.environ.get("ONCE_PLUGINS", ROOT / "build" / "release" / "examples" / "laws"))


class Installed:
    """The library in a folder of its own, as `make install PREFIX=…` leaves it."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.pkgconfig = next(prefix.rglob("once.pc")).parent
        self.lib = self.pkgconfig.parent


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("install") / "prefix"
    with (ROOT / "build" / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several files of tests run at once
        done = subprocess.run(["make", "install", f"PREFIX={prefix}"], cwd=ROOT, text=True,
                              capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return Installed(prefix)


@pytest.fixture(scope="session")
def pg(tmp_path_factory):
    """A PostgreSQL for all tests of this process: `pg.database()`, `pg.installed()`."""
    from pg_tools import Postgres  # only tests of PostgreSQL need a client of it
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server
