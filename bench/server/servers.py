# SPDX-License-Identifier: Apache-2.0
"""The servers that bench_server.py compares, each on a folder of its own below the same one, so on the same
disk. They listen on this machine only, and end with the process that started them."""
import ctypes
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

START_SECONDS = 30
STOP_SECONDS = 60
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class CannotMeasure(Exception):
    """Something is missing or went wrong; the message says what."""


def program(name):
    path = shutil.which(name)
    if not path:
        raise CannotMeasure(f"{name} is not installed (scripts/setup.sh all)")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(ready, what, failed=lambda: False):
    """Asks until ready() is true."""
    end = time.monotonic() + START_SECONDS
    while not ready():
        if failed() or time.monotonic() > end:
            raise CannotMeasure(what())
        time.sleep(0.01)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Server:
    """One process; its output goes to FOLDER.log and is shown when it fails."""
    name = ""
    stop_signal = signal.SIGTERM

    def __init__(self, parent, user=None):
        self.folder = parent / self.name
        self.folder.mkdir()
        self.log = parent / f"{self.name}.log"
        self.user = user
        self.process = None
        if user:
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    def spawn(self, *command):
        who = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        with open(self.log, "ab") as log:
            try:
                return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=log, cwd="/", preexec_fn=die_with_parent, **who)
            except OSError as error:
                raise CannotMeasure(f"{command[0]}: {error.strerror}") from None

    def said(self):
        return f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-4000:]}"

    def start(self):
        self.process = self.spawn(*self.command())
        wait_until(self.ready, self.said, lambda: self.process.poll() is not None)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise CannotMeasure(f"{self.name} did not stop within {STOP_SECONDS} s") from None

    def resident(self):
        """Bytes of anonymous memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s*(\d+) kB", status).group(1)) << 10


class RespServer(Server):
    """peer is what bench_load calls it."""
    peer = ""

    def __init__(self, parent):
        super().__init__(parent)
        self.port = free_port()

    def ask(self, *words):
        """What redis-cli prints; "" when nobody listens yet."""
        return subprocess.run([program("redis-cli"), "-p", str(self.port), *words], capture_output=True,
                              text=True).stdout.strip()

    def ready(self):
        return self.ask("PING") == "PONG"


class Redis(RespServer):
    """No rewrite of the append-only file falls into a run."""
    peer = "redis"
    settings = ()

    def command(self):
        return (program("redis-server"), "--bind", "127.0.0.1", "--port", self.port, "--dir", self.folder,
                "--save", "", "--auto-aof-rewrite-percentage", "0", *self.settings)

    def start(self):
        super().start()
        # What was asked for must be what it does.
        for option, value in zip(self.settings[::2], self.settings[1::2]):
            found = self.ask("CONFIG", "GET", option[2:]).split()
            if found != [option[2:], value]:
                raise CannotMeasure(f"{self.name}: {option[2:]} is not {value}, but {found}")

    def keys(self):
        return int(self.ask("DBSIZE"))


class RedisAlways(Redis):
    name = "redis_always"
    settings = ("--appendonly", "yes", "--appendfsync", "always")


class RedisOff(Redis):
    name = "redis_off"
    settings = ("--appendonly", "no")


class Once(RespServer):
    """Every answer waits for its record to be on the disk, which is the default; all else is, too."""
    name = "once"
    peer = "once"

    def __init__(self, parent, binary, socket_path):
        super().__init__(parent)
        self.binary = binary
        self.socket = socket_path
        self.http_port = free_port()

    def command(self):
        return (self.binary, "serve", "--dir", self.folder, "--durability", "always", "--socket", self.socket,
                "--listen", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}")

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/readyz") as answer:
                return answer.status == 200
        except OSError:  # refused, or 503: the store is still being opened
            return False

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics") as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        if not found:
            raise CannotMeasure(f"/metrics has no {name}")
        return float(found.group(1))

    def keys(self):
        return self.metric("once_keys")

    def index_size(self):
        return self.metric("once_index_bytes")


class Postgres(Server):
    """A cluster of its own with the settings that make it durable, which it is asked for, more memory, and room in
    its log, so that no checkpoint falls into a run. Reached through a Unix socket. Root may not run it."""
    name = "postgres"
    stop_signal = signal.SIGINT  # "fast": ends connections, then stops

    def __init__(self, parent, sockets):
        super().__init__(parent, self.other_user())
        self.sockets = sockets
        self.bin = Path(subprocess.run([program("pg_config"), "--bindir"], capture_output=True, text=True,
                                       check=True).stdout.strip())
        if self.user:
            os.chown(sockets, self.user.pw_uid, self.user.pw_gid)
        self.making = self.spawn(self.bin / "initdb", "--pgdata", self.folder, "--username=bench",
                                 "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")

    @staticmethod
    def other_user():
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                pass
        raise CannotMeasure("root may not run postgres, and there is no user postgres or nobody")

    def command(self):
        return (self.bin / "postgres", "-D", self.folder, "-clisten_addresses=",
                f"-cunix_socket_directories={self.sockets}", "-cmax_connections=200",
                "-cshared_buffers=512MB", "-cmax_wal_size=16GB", "-cmin_wal_size=2GB",
                "-ccheckpoint_timeout=1h")

    def ready(self):
        asked = subprocess.run([self.bin / "pg_isready", "-q", "-h", self.sockets], check=False)
        return asked.returncode == 0

    def start(self):
        if self.making.wait() != 0:
            raise CannotMeasure(self.said())
        super().start()
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            if self.sql(f"SHOW {setting}") != "on":
                raise CannotMeasure(f"postgres: {setting} is not on")

    def stop(self):
        if self.making.poll() is None:
            self.making.kill()
            self.making.wait()
        super().stop()

    def sql(self, text):
        done = subprocess.run([self.bin / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.sockets,
                               "-U", "bench", "-d", "postgres", "-c", text], capture_output=True, text=True)
        if done.returncode != 0:
            raise CannotMeasure(f"postgres: {done.stderr.strip()}")
        return done.stdout.strip()

    def fill(self, keys):
        self.sql("CREATE TABLE claims (key text PRIMARY KEY, state smallint NOT NULL, "
                 "expires timestamptz NOT NULL)")
        self.sql("INSERT INTO claims SELECT gen_random_uuid()::text, 1, now() + interval '24 hours' "
                 f"FROM generate_series(1, {keys})")
        self.sql("CHECKPOINT")

    def keys(self):
        return int(self.sql("SELECT count(*) FROM claims"))
