# SPDX-License-Identifier: Apache-2.0
"""A real `once serve` (or a real redis-server beside it) on free ports of this machine, and a small
RESP client of our own for what real clients never do: half a command, junk, ten thousand at once.
"""
import base64
import contextlib
import hashlib
import os
import random
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
START_S = 60


def once_binary():
    path = Path(os.environ.get("ONCE_BIN", ROOT / "build" / "once"))
    assert path.exists(), f"{path} is not built; run `make`"
    return path


# Ports below those that the system gives to outgoing connections: one of those could take a port
# before it is listened on, or while a server is started again. Each worker of pytest has a range of
# its own, and a port is given again only when the range is used up: what holds a port now, or will
# when its server is started again, is never met.
PORTS = range(12000, 32000)


def port_range():
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = len(PORTS) // max(workers, 1)
    return PORTS[int(worker) * size:][:size]


def free_ports():
    ours = list(port_range())
    while True:
        random.shuffle(ours)
        yield from ours


GIVEN = free_ports()


def free_port():
    while True:
        port = next(GIVEN)
        with socket.socket() as s:
            try:
                s.bind((HOST, port))
            except OSError:
                continue
            return port


def wait_for(what, condition, seconds=START_S):
    """Until the condition gives something true, which is returned. It may fail with OSError."""
    end = time.monotonic() + seconds
    last = None
    while time.monotonic() < end:
        try:
            found = condition()
            if found:
                return found
        except OSError as error:
            last = error
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {seconds} s ({last})")


class Error(Exception):
    """An error answer: "STALE a larger fence exists"."""

    @property
    def code(self):
        return str(self).split(" ")[0]


class Word(str):
    """A simple string; bulk strings are bytes."""


def pack(*words):
    """One command as bytes."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Connection:
    """RESP2 and RESP3, blocking. Errors are returned by `read` and raised by calling."""

    def __init__(self, port, host=HOST, timeout=30, source=""):
        """port: a number, or the path of a unix socket."""
        if isinstance(port, Path):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(str(port))
        else:
            self.socket = socket.create_connection((host, port), timeout=timeout,
                                                   source_address=(source, 0) if source else None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        self.socket.sendall(pack(*words))

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"closed after {line!r}")
        return line[:-2]

    def read(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Word(rest.decode())
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind in (b"$", b"="):
            size = int(rest)
            if size < 0:
                return None
            data = self.file.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError("closed inside of bytes")
            return data[:-2]
        if kind in (b"*", b"~", b">"):
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.name(self.read()): self.read() for _ in range(int(rest))}
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        raise AssertionError(f"not RESP: {line!r}")

    @staticmethod
    def name(key):
        return key.decode() if isinstance(key, bytes) else key

    def __call__(self, *words):
        self.send(*words)
        answer = self.read()
        if isinstance(answer, Error):
            raise answer
        return answer

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Process:
    """A server process that can be killed and started again on the same ports and folder."""

    def __init__(self, folder, environment=None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "server.log"
        self.environment = dict(os.environ, **(environment or {}))
        for name in list(self.environment):
            if name.startswith("ONCE_") and name not in (environment or {}):
                del self.environment[name]  # those of the tests are not those of the server
        self.cwd = None
        self.process = None

    def command(self):
        raise NotImplementedError

    def ready(self):
        raise NotImplementedError

    def start(self):
        assert self.process is None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.environment,
                                            cwd=self.cwd, preexec_fn=raise_files)
        wait_for(f"{self.process.args[0]} answers", self.alive_and_ready)
        return self

    def alive_and_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.process.args} ended with {self.process.returncode}:\n"
                                 + self.log.read_text(errors="replace")[-4000:])
        return self.ready()

    def kill(self):
        """As a power cut would, but for the machine."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self):
        """Politely. Its exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.process = None
        return status

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is not None and self.log.exists():
            print("the server's log ends:\n" + self.log.read_text(errors="replace")[-3000:])
        if self.process is not None and self.process.poll() is not None:
            status = self.process.returncode
            raise AssertionError(f"the server ended by itself with {status}:\n"
                                 + self.log.read_text(errors="replace")[-4000:])
        status = self.stop()
        assert kind is not None or status == 0, (
            f"exit status {status}:\n" + self.log.read_text(errors="replace")[-4000:])


class Server(Process):
    """`once serve`. settings: lines of a configuration file; options: further flags."""

    def __init__(self, folder, settings="", options=(), environment=None):
        super().__init__(folder, environment)
        self.port, self.http = free_port(), free_port()
        self.dir = self.folder / "store"
        self.options = list(options)
        self.config = self.folder / "once.conf"
        self.config.write_text(settings)

    @property
    def url(self):
        return f"http://{HOST}:{self.http}"

    @property
    def socket_path(self):
        return self.dir / "once.sock"

    def command(self):
        return [str(once_binary()), "serve", "--config", str(self.config), "--dir", str(self.dir),
                "--listen", f"{HOST}:{self.port}", "--http", f"{HOST}:{self.http}", *self.options]

    def ready(self):
        """Over the unix socket, where the tests are administrators whatever the users are."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.settimeout(10)
            s.connect(str(self.socket_path))
            s.sendall(pack("ONCE.GET", "ready", "ready"))
            answer = s.recv(4096)
            assert not answer.startswith(b"-ERR"), answer
            return not answer.startswith(b"-") and answer != b""

    def connect(self, **options):
        return Connection(self.port, **options)


class RealRedis(Process):
    """The model for what we share with it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()

    def command(self):
        return ["redis-server", "--port", str(self.port), "--bind", HOST, "--save", "",
                "--appendonly", "no", "--dir", str(self.folder), "--daemonize", "no"]

    def ready(self):
        with self.connect() as c:
            return c("PING") == "PONG"

    def connect(self, **options):
        return Connection(self.port, **options)


def raise_files():
    """As many open files as the machine allows: thousands of connections are held."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(command, timeout=120, **options):
    """The output of a command that must go well."""
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=timeout, **options)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}"
    return done.stdout


def hashed(password):
    """A password as the configuration keeps it, made without any code of ours."""
    salt = os.urandom(16)
    found = hashlib.scrypt(password.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26,
                           dklen=32)
    return "scrypt$15$8$1$" + "$".join(base64.b64encode(b).decode() for b in (salt, found))


USERS = {"alice": "correct-horse", "bob": "battery-staple", "root": "all-powerful"}


def users():
    """Lines of a configuration: alice pays, bob only looks, root may everything."""
    return (f"[user alice]\nrole = write\npassword = {hashed(USERS['alice'])}\n"
            "namespaces = pay, redis\nobjects = acct:\n"
            f"[user bob]\nrole = read\npassword = {hashed(USERS['bob'])}\nnamespaces = pay, redis\n"
            f"[user root]\nrole = admin\npassword = {hashed(USERS['root'])}\n")


def certificates(folder):
    """(authority, certificate, key) of 127.0.0.1 and localhost, as PEM files."""
    authority, authority_key = folder / "ca.pem", folder / "ca.key"
    certificate, key, request = folder / "server.pem", folder / "server.key", folder / "server.csr"
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=authority", "-keyout", authority_key,
         "-out", authority])
    run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-keyout", key, "-out", request])
    run(["openssl", "x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key,
         "-days", "2", "-extfile", names, "-out", certificate])
    return authority, certificate, key
