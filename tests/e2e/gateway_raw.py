# SPDX-License-Identifier: Apache-2.0
"""What clients of the gateway do that http.client does not: bytes as they are, two headers of one
name, a connection that goes away, HTTP/2; and what the tests of the gateway ask the store.
"""
import contextlib
import http.client
import shutil
import socket
import subprocess
import threading

from gateway_tools import Answer
from serving import HOST, Connection, wait_for

# Of a connection or of a moment: not the upstream's, and not the same in a replay.
MOMENT = {"date", "server", "connection", "transfer-encoding", "content-length",
          "idempotency-replayed", "idempotent-replayed"}


def said(answer):
    """What a replay must give again: status, headers, body."""
    headers = sorted((k.lower(), v) for k, v in answer.headers if k.lower() not in MOMENT)
    return answer.status, headers, answer.body


class Client:
    """One connection, for bytes."""

    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection((HOST, port), timeout=timeout)

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part if isinstance(part, bytes) else part.encode("latin-1"))
        return self

    def head(self, path, *lines, method="POST"):
        return self.send("\r\n".join([f"{method} {path} HTTP/1.1", "Host: gate", *lines, "", ""]))

    def answer(self, method="POST"):
        """The next one; None: closed without one."""
        response = http.client.HTTPResponse(self.socket, method=method)
        try:
            response.begin()
            return Answer(response.status, response.getheaders(), response.read())
        except (http.client.BadStatusLine, ConnectionError):
            return None

    def rest(self):
        """All bytes until the other side closes."""
        found = b""
        with contextlib.suppress(ConnectionError):
            while more := self.socket.recv(65536):
                found += more
        return found

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def start(port, key, path="/", do=None, body=b"{}"):
    """A request is sent, nobody waits for its answer yet."""
    lines = [f"Idempotency-Key: {key}", f"Content-Length: {len(body)}"]
    return Client(port).head(path, *lines, *([f"X-Do: {do}"] if do else [])).send(body)


def curl(port, path, key, body="{}", do=None, more=(), version="--http2-prior-knowledge"):
    """Status, headers as text, body; HTTP/2 on a connection without TLS unless said otherwise."""
    args = ["curl", "--silent", "--include", version, "--max-time", "30", "--data-binary", body,
            "--header", f"Idempotency-Key: {key}"]
    args += ["--header", f"X-Do: {do}"] if do else []
    done = subprocess.run([*args, *more, f"http://{HOST}:{port}{path}"], stdout=subprocess.PIPE,
                          timeout=60)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head else None
    return status, head.decode("latin-1").lower(), rest


class Http2:
    """One HTTP/2 connection without TLS, frame by frame, for what no client library sends."""

    DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
    END_STREAM, END_HEADERS = 1, 4
    KNOWN = {0x88: 200, 0x89: 204, 0x8a: 206, 0x8b: 304, 0x8c: 400, 0x8d: 404, 0x8e: 500}

    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection((HOST, port), timeout=timeout)
        self.file = self.socket.makefile("rb")
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(self.SETTINGS, 0, 0)

    def frame(self, kind, flags, stream, payload=b""):
        head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        self.socket.sendall(head + payload)

    @staticmethod
    def text(value):
        """A string as it is, its size before it."""
        data = value if isinstance(value, bytes) else value.encode("latin-1")
        size, rest = bytearray([min(len(data), 127)]), len(data) - 127
        while rest >= 0:
            size.append(rest % 128 | (128 if rest >= 128 else 0))
            rest = rest // 128 if rest >= 128 else -1
        return bytes(size) + data

    def request(self, stream, key, *more, path="/", body=b"{}", end=True):
        """more: (name, value). end: whether the body is all."""
        pairs = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "gate"),
                 ("idempotency-key", key), *more]
        block = b"".join(b"\0" + self.text(name) + self.text(value) for name, value in pairs)
        self.frame(self.HEADERS, self.END_HEADERS, stream, block)
        self.frame(self.DATA, self.END_STREAM if end else 0, stream, body)

    def reset(self, stream):
        self.frame(self.RST_STREAM, 0, stream, (8).to_bytes(4, "big"))

    def answer(self, stream):
        """(status, body); status None: the stream or the connection was ended without one."""
        status, body = None, b""
        while head := self.file.read(9):
            payload = self.file.read(int.from_bytes(head[:3], "big"))
            kind, flags, at = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == self.PING and not flags:
                self.frame(kind, 1, 0, payload)
            if kind == self.GOAWAY or kind == self.RST_STREAM and at == stream:
                break
            if at != stream:
                continue
            if kind == self.HEADERS:
                block = payload.lstrip(b"\x20")  # the size of the table
                status = self.KNOWN.get(block[0]) or int(block[2:5])
            elif kind == self.DATA:
                body += payload
            if flags & self.END_STREAM:
                break
        return status, body

    def ping(self):
        """Until it is answered: all before it was read."""
        self.frame(self.PING, 0, 0, b"are you?")
        while head := self.file.read(9):
            payload = self.file.read(int.from_bytes(head[:3], "big"))
            if head[3] == self.PING and payload == b"are you?":
                return

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Later(threading.Thread):
    """Runs it beside; result() waits, and fails as it failed."""

    def __init__(self, call, *args, **options):
        super().__init__(daemon=True)
        self.work, self.error, self.value = (call, args, options), None, None
        self.start()

    def run(self):
        call, args, options = self.work
        try:
            self.value = call(*args, **options)
        except Exception as error:  # of another thread: told in result()
            self.error = error

    def result(self, seconds=30):
        self.join(seconds)
        assert not self.is_alive(), f"{self.work} goes on after {seconds} s"
        if self.error:
            raise self.error
        return self.value


@contextlib.contextmanager
def started(made):
    """A Stack that was changed before its start; as stack() otherwise."""
    try:
        with made.server, made.upstream, made.gateway:
            yield made
    finally:
        shutil.rmtree(made.server.dir, ignore_errors=True)


# ---- The store -----------------------------------------------------------------------------------

def operation(server, key, ns="http"):
    """A dict of what the store knows, its names and words as text; None: nothing."""
    with Connection(server.socket_path) as call:
        found = call("ONCE.GET", ns, key)
    if not found:
        return None
    pairs = zip(found[::2], found[1::2])
    op = {name.decode(): value for name, value in pairs}
    op["state"] = op["state"].decode()
    return op


def state(server, key, ns="http"):
    op = operation(server, key, ns)
    return op and op["state"]


def wait_state(server, key, wanted, ns="http", seconds=30):
    wait_for(f"{key} is {wanted}", lambda: state(server, key, ns) == wanted, seconds)
