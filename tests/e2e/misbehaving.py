# SPDX-License-Identifier: Apache-2.0
"""A receiver of HTTP calls that does its work once for each Idempotency-Key, and misbehaves on the
way: it loses answers and requests, hangs up in the middle of a body, says 503, is slow, restarts.

What it does with each request is a script: the request number n gets script[n], and the last entry
stands for all that follow. An entry is a name of MISBEHAVIOURS or a function of the request.
"""
import contextlib
import email.utils
import json
import socket
import struct
import threading
import time

from serving import HOST, free_port


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def get(self, name):
        return next(iter(self.all(name)), None)

    @property
    def key(self):
        return self.get("Idempotency-Key")

    @property
    def wire(self):
        """All that was sent, but for what names the connection."""
        return self.method, self.target, tuple(self.headers), self.body


def answer(status, body=b"", headers=(), size=None):
    head = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body) if size is None else size}",
            "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Receiver:
    """Effects are counted by key; the answer to a key is always the first one."""

    def __init__(self, script=("ok",)):
        self.script = list(script)
        self.requests, self.effects, self.answers = [], {}, {}
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.gate = threading.Event()  # "held" answers wait for it
        self.port = free_port()  # which it has again after a stop
        self.listener = None

    @property
    def url(self):
        return f"http://{HOST}:{self.port}/charges"

    # ---- Its life ----

    def start(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((HOST, self.port))
        self.listener.listen(64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()
        return self

    def stop(self):
        """From now on connections are refused; effects and answers stay, as in a database."""
        if self.listener:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        self.gate.set()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    # ---- One request ----

    def serve(self, connection):
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.settimeout(30)
            request = self.read(connection)
            if request is None:
                return
            with self.changed:
                number = len(self.requests)
                self.requests.append(request)
                self.changed.notify_all()
            step = self.script[min(number, len(self.script) - 1)]
            step = MISBEHAVIOURS.get(step, step)
            step(self, connection, request)

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
        head, body = data.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
        method, target, _ = first.split(" ")
        request = Request(method, target, headers, b"")
        size = int(request.get("Content-Length") or 0)
        while len(body) < size:
            piece = connection.recv(65536)
            if not piece:
                return None
            body += piece
        request.body = body
        return request

    def work(self, request):
        """The effect, once for each key, and its answer."""
        with self.changed:
            if request.key not in self.answers:
                self.effects[request.key] = self.effects.get(request.key, 0) + 1
                self.answers[request.key] = json.dumps(
                    {"charge": len(self.answers) + 1, "of": request.body.decode("latin-1")}).encode()
            self.changed.notify_all()
            return self.answers[request.key]

    # ---- What tests ask ----

    def wait_for(self, condition, seconds=30):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), seconds), "not in time"

    @property
    def keys(self):
        return {request.key for request in self.requests}

    @property
    def wires(self):
        return {request.wire for request in self.requests}


def ok(receiver, connection, request):
    connection.sendall(answer(201, receiver.work(request), ["Content-Type: application/json"]))


def lose_answer(receiver, connection, request):
    receiver.work(request)


def lose_request(_receiver, connection, _request):
    # A reset, not an end: as from a machine that was switched off.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def cut(receiver, connection, request):
    body = receiver.work(request)
    connection.sendall(answer(201, body[: len(body) // 2], size=len(body)))


def status(number, *headers, work=False):
    def step(receiver, connection, request):
        if work:
            receiver.work(request)
        connection.sendall(answer(number, b"no", headers))
    return step


def later_date(receiver, connection, request):
    date = email.utils.formatdate(time.time() + 2, usegmt=True)
    connection.sendall(answer(503, b"", [f"Retry-After: {date}"]))


def hang(receiver, connection, request):
    """Does its work, and never answers."""
    receiver.work(request)
    with contextlib.suppress(OSError):
        connection.recv(1)


def held(receiver, connection, request):
    """Answers when the test says so."""
    receiver.gate.wait(120)
    ok(receiver, connection, request)


MISBEHAVIOURS = {
    "ok": ok, "lose answer": lose_answer, "lose request": lose_request, "cut": cut, "hang": hang,
    "held": held, "later": later_date, "503": status(503), "500": status(500), "429": status(429),
    "408": status(408), "409": status(409), "425": status(425), "502 worked": status(502, work=True),
    "503 in 1 s": status(503, "Retry-After: 1"), "doubt": status(409, "Stripe-Should-Retry: false"),
}
