# SPDX-License-Identifier: Apache-2.0
"""The lossy network between customers and service: an HTTP proxy that does what plan.py says.

It loses requests, loses answers, delivers twice, delivers late: also to nobody, when the customer
has gone. It keeps every answer that the service gave, lost ones too: the proof compares them.
"""
import contextlib
import http.client
import json
import socket
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DELIVERY_S = 40  # longer than any pause
NOBODY_S = 1     # how long a request waits for an instance to be there


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.network.carry(self.headers["Idempotency-Key"], body)
        self.close_connection = True
        with contextlib.suppress(OSError):  # the customer may be gone
            if answer is None:
                self.connection.shutdown(socket.SHUT_RDWR)  # no answer, and no word about why
                return
            status, data = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_):
        pass


class Proxy(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a customer that hung up while it was read from


class Network:
    def __init__(self, plan, events, pick):
        """`pick()` gives the port of an instance of the service, or None if there is none."""
        self.plan, self.events, self.pick = plan, events, pick
        self.calm = False
        self.lock = threading.Lock()
        self.attempts = Counter()
        self.injected = Counter()
        self.answers = defaultdict(list)  # order → bodies of all answers that say "charged"
        self.under_way = 0
        self.server = Proxy(("127.0.0.1", 0), Handler)
        self.server.network = self
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def count(self, what):
        with self.lock:
            self.injected[what] += 1

    def carry(self, key, body):
        """One request, as often as the network likes. The answer, or None if it does not arrive."""
        order = json.loads(body)["order"]
        if self.calm:
            return self.deliver(key, body, order, "")
        with self.lock:
            self.attempts[order] += 1
            fault = self.plan.fault(order, self.attempts[order])
        if fault.request_lost:
            self.count("requests lost")
            return None
        if fault.copy_delay_s is not None:
            self.count("requests delivered twice")
            threading.Thread(target=self.deliver_late, args=(key, body, order, fault.copy_delay_s),
                             daemon=True).start()
        if fault.delay_s:
            self.count("requests delayed")
            time.sleep(fault.delay_s)
        answer = self.deliver(key, body, order, self.strike_of(order))
        if fault.answer_lost and answer is not None:
            self.count("answers lost")
            return None
        return answer

    def strike_of(self, order):
        """The order's strike, until it has hit: the instance it was meant for may die before."""
        if order not in self.plan.strikes:
            return ""
        self.events.read()
        return "" if order in self.events.fired else self.plan.strikes[order]

    def deliver_late(self, key, body, order, delay_s):
        with self.lock:
            self.under_way += 1
        time.sleep(delay_s)
        self.deliver(key, body, order, "")
        with self.lock:
            self.under_way -= 1

    def deliver(self, key, body, order, strike):
        with self.lock:
            self.under_way += 1
        try:
            link = self.connect()
            return self.post(link, key, body, order, strike) if link else None
        except (OSError, http.client.HTTPException):
            return None  # the instance died
        finally:
            with self.lock:
                self.under_way -= 1

    def connect(self):
        """To an instance that is there, or None. One that refuses was not reached: try the next."""
        end = time.monotonic() + NOBODY_S
        while time.monotonic() < end:
            if port := self.pick():
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=DELIVERY_S)
                with contextlib.suppress(ConnectionRefusedError):
                    link.connect()
                    return link
            time.sleep(0.01)
        return None

    def post(self, link, key, body, order, strike):
        try:
            headers = {"Idempotency-Key": key, "Demo-Fault": strike}
            link.request("POST", "/charges", body, headers)
            answer = link.getresponse()
            data = answer.read()
            if answer.status == 201:
                with self.lock:
                    self.answers[order].append(data)
            return answer.status, data
        finally:
            link.close()
