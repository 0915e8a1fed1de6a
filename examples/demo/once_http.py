# SPDX-License-Identifier: Apache-2.0
"""Once over HTTP, with the standard library alone. docs/http.md describes the calls.

Every call may be repeated, so a call that got no answer is sent again, until the patience is over:
the server may be killed and started again at any time. It finds the port in a file, because a
server that is started again may have another one.
"""
import http.client
import json
import time
from pathlib import Path
from urllib.parse import quote

NAMESPACE = "payments"
PAGE = 500


class Unreachable(Exception):
    pass


class Once:
    def __init__(self, port_file, patience_s=10):
        self.port_file, self.patience_s = Path(port_file), patience_s

    def call(self, method, path, body=None):
        """(status, what it said)"""
        end = time.monotonic() + self.patience_s
        while True:
            try:
                status, said = self._send(method, path, body)
                if status != 503:
                    return status, said
            except (OSError, ValueError, http.client.HTTPException):
                pass
            if time.monotonic() > end:
                raise Unreachable(f"{method} {path}: no answer within {self.patience_s} s")
            time.sleep(0.02)

    def _send(self, method, path, body):
        link = http.client.HTTPConnection("127.0.0.1", int(self.port_file.read_text()), timeout=5)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            link.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = link.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            link.close()

    def verdict(self, key, word, **fields):
        said = self.call("POST", f"/v1/ops/{NAMESPACE}/{quote(key, safe='')}/{word}", fields)[1]
        if "verdict" not in said:
            raise RuntimeError(f"{word} {key}: {said.get('detail', said)}")
        return said

    def get(self, key):
        """The record, or None."""
        status, said = self.call("GET", f"/v1/ops/{NAMESPACE}/{quote(key, safe='')}")
        return said if status == 200 else None

    def list(self, state=None):
        """All operations, in this state or in any."""
        found, cursor = [], "0"
        while True:
            only = f"&state={state}" if state else ""
            path = f"/v1/ops/{NAMESPACE}?count={PAGE}&cursor={cursor}{only}"
            said = self.call("GET", path)[1]
            found += said["operations"]
            cursor = said["cursor"]
            if cursor == "0":
                return found
