# SPDX-License-Identifier: Apache-2.0
"""A wire between a server and a database that can be cut where it hurts. It passes bytes on and
knows nothing of what they mean. `cut` decides what happens to the connections that are open now:

    now        both ends are closed
    sent       the next query arrives, then both ends are closed: nobody reads its answer
    answered   the next answer is swallowed, then both ends are closed: it has committed
    half       the next answer is swallowed and the caller's end is closed; the database is not told
               and keeps its side, with its locks
    late       the same, but the query is held back and arrives a second after the caller was cut

`hole` keeps everything open and passes nothing on, until `heal`; then what was held back arrives,
late. `refuse` accepts nobody and cuts everyone, and what a hole held back is lost: the machine
behind is fenced off.
"""
import contextlib
import socket
import threading
import time

from serving import HOST, free_port

CUTS = ("now", "sent", "answered", "half", "late")
LATE_S = 1
KEPT_S = 20  # how long a half that nobody uses is kept open


class Pair:
    """One connection: the caller's end and the database's."""

    def __init__(self, front, back):
        self.front, self.back, self.fate = front, back, None

    def close(self, *ends):
        for end in ends or (self.front, self.back):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Wire:
    def __init__(self, target):
        self.target, self.port = target, free_port()
        self.open = threading.Event()
        self.open.set()
        self.lock = threading.Lock()
        self.pairs = set()
        self.cuts = 0
        self.refusing = self.ended = False
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = socket.create_server((HOST, self.port), reuse_port=False)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                front, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(front,), daemon=True).start()

    def serve(self, front):
        self.open.wait()
        try:
            back = socket.create_connection((HOST, self.target), timeout=10)
        except OSError:
            front.close()
            return
        for end in (front, back):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(front, back)
        with self.lock:
            if self.refusing:
                pair.close()
            self.pairs.add(pair)
        threads = [threading.Thread(target=self.pump, args=(pair, *way), daemon=True)
                   for way in ((front, back, "query"), (back, front, "answer"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self.lock:
            self.pairs.discard(pair)
        front.close()
        back.close()

    def pump(self, pair, source, sink, way):
        try:
            while data := source.recv(65536):
                self.open.wait()
                if self.refusing:
                    break  # what a hole held back is lost
                if not self.struck(pair, way, sink, data):
                    sink.sendall(data)
        except OSError:
            pass
        if not (pair.fate in ("half", "late") and source is pair.front):
            pair.close()

    def struck(self, pair, way, sink, data):
        """Whether these bytes were the ones that the cut was waiting for."""
        fate = pair.fate
        if fate is None or (way == "query") != (fate in ("sent", "late")):
            return False
        with self.lock:
            self.cuts += 1
        if fate in ("sent", "answered"):
            if fate == "sent":
                sink.sendall(data)
            pair.close()
        else:
            pair.close(pair.front)
            if fate == "late":
                time.sleep(LATE_S)
                sink.sendall(data)
            threading.Timer(KEPT_S, pair.close).start()
        raise ConnectionAbortedError

    def cut(self, how):
        with self.lock:
            for pair in self.pairs:
                pair.fate = how
                if how == "now":
                    self.cuts += 1
                    pair.close()

    def hole(self):
        self.open.clear()

    def heal(self):
        self.open.set()

    def refuse(self):
        self.refusing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.heal()
        self.cut("now")

    def accept_again(self):
        self.refusing = False
        self.listen()

    def close(self):
        if not self.refusing:
            self.refuse()
