# SPDX-License-Identifier: Apache-2.0
"""Who takes part: customers who pay through the network, and the reconciler who ends doubts."""
import contextlib
import http.client
import json
import queue
import random
import threading
import time

from ledger import Ledger, receipt
from once_http import Unreachable
from plan import PATIENCE_S

CUSTOMERS = 8
GIVE_UP_S = 40
ROUND_S = 0.25  # between two looks at the doubts
BACKOFF_S, BACKOFF_MAX_S = 0.03, 0.4


def send(port, key, charge, patience_s=PATIENCE_S):
    """(status, body), or None when no answer came."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    try:
        link.request("POST", "/charges", json.dumps(charge._asdict()), {"Idempotency-Key": key})
        answer = link.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        link.close()


class Customers:
    """Each pays one order after the other. The key is the order's name: made before the first
    attempt, and the same in every one."""

    def __init__(self, plan, port, retries, new_keys):
        self.port, self.retries, self.new_keys = port, retries, new_keys
        self.seed = plan.seed
        self.open = queue.SimpleQueue()
        for charge in plan.charges:
            self.open.put(charge)
        self.answers = {}  # order → the body that its customer got, or None
        self.sent = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(CUSTOMERS)]
        for thread in self.threads:
            thread.start()

    def work(self):
        with contextlib.suppress(queue.Empty):
            while not self.stop.is_set():
                charge = self.open.get_nowait()
                answer = self.pay(charge)
                with self.lock:
                    self.answers[charge.order] = answer

    def pay(self, charge):
        rng = random.Random(f"customer {self.seed} {charge.order}")
        end = time.monotonic() + GIVE_UP_S
        attempt = 0
        while not self.stop.is_set() and time.monotonic() < end:
            attempt += 1
            with self.lock:
                self.sent += 1
            key = f"{charge.order}.{attempt}" if self.new_keys else charge.order
            answer = send(self.port, key, charge)
            if answer and answer[0] == 201:
                return answer[1]
            if not self.retries:
                return None
            # Exponential, with full jitter: customers that failed together do not come together.
            self.stop.wait(rng.uniform(0, min(BACKOFF_MAX_S, BACKOFF_S * 2 ** attempt)))
        return None

    def done(self):
        return not any(thread.is_alive() for thread in self.threads)

    def close(self):
        self.stop.set()


class Reconciler:
    """Looks for doubts, looks into the ledger, and says what happened.

    First the ledger's door is closed to the attempt in doubt, then it is looked into: so "not done"
    means that it has not happened and no longer can. The doubt's fence goes with the answer: had
    someone taken the operation over meanwhile, Once would say STALE.
    """

    def __init__(self, once, ledger_path, blind, unfenced):
        self.once, self.blind = once, blind
        self.ledger_path, self.unfenced = ledger_path, unfenced
        self.found, self.done, self.not_done = 0, 0, 0
        self.failure = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        ledger = Ledger(self.ledger_path, fenced=not self.unfenced)
        try:
            while not self.stop.wait(ROUND_S):
                for doubt in self.once.list("doubt"):
                    self.resolve(ledger, doubt["key"], doubt["fence"])
        except (Unreachable, RuntimeError) as error:
            self.failure = str(error)
        finally:
            ledger.close()

    def resolve(self, ledger, key, fence):
        self.found += 1
        order = key.partition(".")[0]  # with --break key, a key is the order and the attempt
        entry = None if self.blind else ledger.close_and_look(order, fence)
        if entry:
            said = self.once.verdict(key, "resolve", done=True, fence=fence, code=201,
                                     result=receipt(entry))
            self.done += said["verdict"] == "OK"
        else:
            said = self.once.verdict(key, "resolve", done=False, fence=fence)
            self.not_done += said["verdict"] == "OK"

    def close(self):
        self.stop.set()
        self.thread.join(2)
