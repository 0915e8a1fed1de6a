# SPDX-License-Identifier: Apache-2.0
"""The payment service: POST /charges takes an order and an amount, and charges it.

    service.py --ledger FILE --events FILE [--once PORT_FILE --lease-ms N] [--unfenced]

Without --once it is the service that everyone writes first. With --once it asks before it charges,
and says afterwards what came of it; `charge_once` is all that changes. A request may carry the
header Demo-Fault, which the demo's network adds: the process then kills or stops itself at that
place, so that a seed always hits the same line of code.
"""
import argparse
import contextlib
import json
import os
import signal
import sqlite3
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.dont_write_bytecode = True

from events import Teller  # noqa: E402
from ledger import Ledger, Refused, receipt  # noqa: E402
from once_http import Once, Unreachable  # noqa: E402

WORK_S = 0.008   # asking the card network takes its time
WAIT_MS = 200    # how long a duplicate waits for the one who is at it
BODY_MAX = 4096
SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP}


class Request:
    """One arrival of one charge."""

    def __init__(self, service, key, charge, fault):
        self.service, self.key, self.fault = service, key, fault
        self.order, self.amount = charge["order"], charge["amount"]
        self.paused = False

    def place(self, name):
        """Where the network's fault strikes, if it is meant for this place."""
        what, _, where = self.fault.partition(":")
        if where != name:
            return
        # A process that is stopped inside of a transaction would hold up everyone's ledger, which
        # no bank allows: so no other thread of this process is in one while it stops.
        with self.service.ledger_lock:
            if what == "kill":  # not before a writer that was paused here has told what it was told
                self.service.ledger_lock.wait_for(lambda: not self.service.pauses)
            self.service.teller.tell("fault", fault=self.fault, order=self.order)
            self.paused = what == "pause"
            self.service.pauses += self.paused
            # To this very thread: it does not reach the next line before it is hit.
            signal.pthread_kill(threading.get_ident(), SIGNALS[what])

    def append(self, fence):
        self.place("before")
        time.sleep(WORK_S)
        with self.service.ledger_lock:
            entry = self.service.ledger.append(self.order, self.amount, fence, str(os.getpid()))
        self.place("after")
        return entry

    def charge(self):
        """(status, body) without Once: it came, so it is done."""
        entry = self.append(None)
        self.outcome("charged")
        return 201, receipt(entry)

    def charge_once(self):
        """(status, body) with Once: it is done if Once says that it is ours."""
        said = self.ask("begin", fingerprint=f"{self.order} {self.amount}", owner=uuid.uuid4().hex,
                        lease_ms=self.service.lease_ms, wait_ms=WAIT_MS)
        if said["verdict"] == "REPLAY":
            return said["code"], said["result"]
        if said["verdict"] == "MISMATCH":
            return 422, "this key belongs to another charge"
        if said["verdict"] != "EXECUTE":  # BUSY: someone is at it. DOUBT: someone was.
            return 409, said["verdict"]

        fence = said["fence"]
        try:
            entry = self.append(fence)
        except Refused:
            self.outcome("refused")
            self.ask("fail", fence=fence, reason="the ledger refused the fence")
            return 409, "another one has this charge"
        except sqlite3.Error:
            # Nobody knows whether it was written. Give it up at once: a doubt, for who can look.
            self.outcome("unknown")
            self.ask("renew", fence=fence, lease_ms=0)
            return 503, "the ledger gave no answer"
        self.outcome("charged")
        if self.ask("complete", fence=fence, code=201, result=receipt(entry))["verdict"] != "OK":
            return 409, "another one has answered for this charge"
        return 201, receipt(entry)

    def ask(self, call, **fields):
        said = self.service.once.verdict(self.key, call, **fields)
        self.service.teller.tell("verdict", call=call, word=said["verdict"], order=self.order)
        return said

    def outcome(self, what):
        self.service.teller.tell("outcome", what=what, order=self.order)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        service = self.server.service
        with service.count():
            size = min(int(self.headers.get("Content-Length") or 0), BODY_MAX)
            charge = json.loads(self.rfile.read(size))
            request = Request(service, self.headers["Idempotency-Key"], charge,
                              self.headers.get("Demo-Fault", ""))
            try:
                status, body = request.charge_once() if service.once else request.charge()
            except (Unreachable, sqlite3.Error) as error:
                status, body = 503, str(error)
            if request.paused:
                service.teller.tell("late", status=status, order=request.order)
                with service.ledger_lock:
                    service.pauses -= 1
                    service.ledger_lock.notify_all()
            self.answer(status, body)

    def do_GET(self):
        """How many requests it is at: the demo closes the books when there are none."""
        self.answer(200, str(self.server.service.busy))

    def answer(self, status, body):
        data = body.encode()
        with contextlib.suppress(OSError):  # who asked may be gone
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
        self.close_connection = True

    def log_message(self, *_):
        pass


class Service:
    def __init__(self, options):
        self.teller = Teller(options.events)
        self.ledger = Ledger(options.ledger, fenced=not options.unfenced)
        self.ledger_lock = threading.Condition(threading.Lock())
        self.pauses = 0  # requests that were stopped, and have not ended yet
        self.once = Once(options.once) if options.once else None
        self.lease_ms = options.lease_ms
        self.busy, self.busy_lock = 0, threading.Lock()

    @contextlib.contextmanager
    def count(self):
        with self.busy_lock:
            self.busy += 1
        try:
            yield
        finally:
            with self.busy_lock:
                self.busy -= 1


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        kind, error = sys.exc_info()[:2]
        if not issubclass(kind, OSError):  # who asked may be gone
            self.service.teller.tell("error", why=f"{kind.__name__}: {error}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("--ledger", "--events"):
        parser.add_argument(name, required=True)
    parser.add_argument("--once")
    parser.add_argument("--lease-ms", type=int, default=30000)
    parser.add_argument("--unfenced", action="store_true")
    server = Server(("127.0.0.1", 0), Handler)
    server.service = Service(parser.parse_args())
    server.service.teller.tell("up", port=server.server_address[1])
    server.serve_forever()


if __name__ == "__main__":
    main()
