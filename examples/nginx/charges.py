# SPDX-License-Identifier: Apache-2.0
"""A service as many are: every POST /charges is a new charge, and it has never heard of keys.

    python3 charges.py PORT

POST /charges/lost charges too, and then hangs up without an answer: a crash at the worst moment.
"""
import json
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()
charges = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, charges)

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        amount = dict(urllib.parse.parse_qsl(text)).get("amount")
        with lock:
            charge = {"charge": len(charges) + 1, "amount": amount}
            charges.append(charge)
        if self.path == "/charges/lost":
            self.close_connection = True
        else:
            self.answer(201, charge)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
