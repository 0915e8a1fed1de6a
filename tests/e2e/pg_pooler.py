# SPDX-License-Identifier: Apache-2.0
"""A pooler between a client and PostgreSQL, as pgbouncer is one: a client has a backend for as long as
a transaction lasts, or for as long as it is connected, and is told a number that is not the
backend's. Knows no password and no COPY.
"""
import socket
import struct
import threading

from serving import HOST


def receive(side, size):
    data = b""
    while len(data) < size:
        more = side.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def message(side):
    """(type, the whole of it)."""
    head = receive(side, 5)
    return head[:1], head + receive(side, struct.unpack("!i", head[1:])[0] - 4)


class Pooler:
    def __init__(self, to_port, whole_sessions):
        self.to_port, self.whole = to_port, whole_sessions
        self.free, self.lock = [], threading.Lock()
        self.listener = socket.create_server((HOST, 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def backend(self, startup):
        """The one that was used last, or a new one; and what it said when it was new."""
        with self.lock:
            if self.free and not self.whole:
                return self.free.pop()
        side = socket.create_connection((HOST, self.to_port))
        side.sendall(startup)
        said, kind = b"", b""
        while kind != b"Z":
            kind, text = message(side)
            said += b"K" + struct.pack("!iii", 12, 4711, 1) if kind == b"K" else text
        return side, said

    def serve(self, client):
        backend = None
        try:
            size = receive(client, 4)
            startup = size + receive(client, struct.unpack("!i", size)[0] - 4)
            if len(startup) == 8:  # is there TLS?
                client.sendall(b"N")
                size = receive(client, 4)
                startup = size + receive(client, struct.unpack("!i", size)[0] - 4)
            backend = self.backend(startup)
            client.sendall(backend[1])
            while True:
                kind, text = message(client)
                if kind == b"X":
                    break
                backend = backend or self.backend(startup)
                backend[0].sendall(text)
                if kind in b"QS":
                    backend = self.answer(client, backend)
        except OSError:
            pass
        client.close()
        if backend:
            backend[0].close()

    def answer(self, client, backend):
        """The backend that the client still has."""
        kind = b""
        while kind != b"Z":
            kind, text = message(backend[0])
            last = text if kind == b"Z" else b""
            if not last:
                client.sendall(text)
        idle = last.endswith(b"I") and not self.whole
        if idle:
            with self.lock:
                self.free.append(backend)
        client.sendall(last)
        return None if idle else backend

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for side, _ in self.free:
            side.close()
