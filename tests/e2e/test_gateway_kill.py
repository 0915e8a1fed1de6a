# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a worker of nginx, of the service behind, and of the server of Once, at every step of
a request, while other requests run; and clients that ask again until they know. No key has more than
one effect unless `once_doubt retry` was chosen, whoever was told of an answer finds it again, every
client is told something in time, and in the end every key is completed, failed or in doubt.
ONCE_KILL_ROUNDS says how often (15; `make soak`: 300), ONCE_SEED which ones.
"""
import http.client
import os
import random
import signal
import time

import pytest
from gateway_raw import Client, Later, started, state
from gateway_tools import Stack
from serving import wait_for

ROUNDS = int(os.environ.get("ONCE_KILL_ROUNDS", "15"))
SEED = int(os.environ.get("ONCE_SEED", "1"))
BOUND_S = 20  # for one answer; the timeouts below are all shorter
TIMES = "proxy_connect_timeout 2s; proxy_read_timeout 2s; once_lease 1s;"
LOCATIONS = {"/": f"once on; {TIMES}",
             "/retry/": f"once on; once_doubt retry; {TIMES}",
             "/wait/": f"once on; once_wait 3s; {TIMES}"}
VICTIMS = ("worker", "workers", "upstream", "server", "nginx")
STEPS = ("body", "ask", "before", "after", "answer", "record", "any")
BODY = b"x" * 2000


def patient(folder, times):
    """With other times for calls of the server."""
    made = Stack(folder, LOCATIONS)
    made.gateway.server = f"unix:{made.server.socket_path} {times}"
    return started(made)


class Told:
    """What clients were told of a key."""

    def __init__(self, key, path, plan):
        self.key, self.path, self.plan, self.answers = key, path, plan, []

    def add(self, answer):
        if answer is not None:
            self.answers.append(answer)
        return answer

    @property
    def done(self):
        return [a for a in self.answers if a.status == 201]


def knows(answer):
    """Whether a client that got this stops asking."""
    return answer is not None and (answer.status == 201 or answer.get("X-Should-Retry") == "false")


class Rounds:
    def __init__(self, s, rng):
        self.s, self.rng, self.told = s, rng, []

    # ---- Clients ----

    def lines(self, told):
        return [f"Idempotency-Key: {told.key}", f"X-Do: {told.plan}",
                f"Content-Length: {len(BODY)}", "Connection: close"]

    def ask(self, told):
        """Once; None: the connection was closed. Never longer than the bound."""
        began = time.monotonic()
        try:
            with Client(self.s.gateway.port, timeout=BOUND_S) as client:
                client.head(told.path, *self.lines(told)).send(BODY)
                return told.add(client.answer())
        except (ConnectionError, http.client.HTTPException):
            return None
        finally:
            assert time.monotonic() - began < BOUND_S, "a client waited too long"

    def insist(self, told):
        """As a client with a retry policy: until it knows."""
        end = time.monotonic() + BOUND_S
        while not knows(answer := self.ask(told)):
            assert time.monotonic() < end, (told.key, answer, told.answers[-3:])
            time.sleep(self.rng.uniform(0.01, 0.1))
        return answer

    # ---- Killing ----

    def kill(self, victim):
        s = self.s
        if victim == "worker":
            s.gateway.kill_worker(self.rng.choice(s.gateway.worker_pids()))
        elif victim == "workers":
            for pid in s.gateway.worker_pids():
                s.gateway.kill_worker(pid)
        elif victim == "nginx":
            s.gateway.kill()
            s.gateway.start()
        else:
            part = getattr(s, victim)
            part.kill()
            part.start()

    # ---- Steps: the request is there, then the victim is killed ----

    def at_body(self, told, victim):
        with Client(self.s.gateway.port, timeout=BOUND_S) as client:
            client.head(told.path, *self.lines(told)).send(BODY[:1000])
            self.kill(victim)
            try:
                told.add(client.send(BODY[1000:]).answer())
            except ConnectionError:
                pass

    def paused(self, act):
        """While the server of Once is not answering."""
        process = self.s.server.process
        process.send_signal(signal.SIGSTOP)
        try:
            act()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)

    def at_ask(self, told, victim):
        running = []

        def act():
            running.append(Later(self.ask, told))
            time.sleep(self.rng.uniform(0, 0.03))
            self.kill(victim)

        self.paused(act)
        running[0].result(BOUND_S)

    def at_before(self, told, victim):
        told.plan = f"hold_before={told.key}"
        running = Later(self.ask, told)
        self.s.upstream.wait_requests(told.key)
        self.kill(victim)
        self.s.upstream.let_go(told.key)
        running.result(BOUND_S)

    def at_after(self, told, victim):
        told.plan = f"hold={told.key}"
        running = Later(self.ask, told)
        self.s.upstream.wait_effects(told.key)
        self.kill(victim)
        self.s.upstream.let_go(told.key)
        running.result(BOUND_S)

    def at_answer(self, told, victim):
        told.plan = "big=50000,slow=0.01"
        running = Later(self.ask, told)
        self.s.upstream.wait_effects(told.key)
        time.sleep(self.rng.uniform(0, 0.1))
        self.kill(victim)
        running.result(BOUND_S)

    def at_record(self, told, victim):
        told.plan = f"hold={told.key}"
        running = Later(self.ask, told)
        self.s.upstream.wait_effects(told.key)

        def act():
            self.s.upstream.let_go(told.key)
            time.sleep(self.rng.uniform(0, 0.05))
            self.kill(victim)

        self.paused(act)
        running.result(BOUND_S)

    def at_any(self, told, victim):
        pause = self.rng.choice(("before", "after", "slow"))
        told.plan = f"{pause}={self.rng.uniform(0, 0.03):.3f}"
        running = Later(self.ask, told)
        time.sleep(self.rng.uniform(0, 0.06))
        self.kill(victim)
        running.result(BOUND_S)

    # ---- A round ----

    def round(self, number):
        victim = VICTIMS[number % len(VICTIMS)]
        step = STEPS[number % len(STEPS)]
        beside = [Told(f"r{number}-beside-{n}", path, f"after={self.rng.uniform(0, 0.05):.3f}")
                  for n, path in enumerate(LOCATIONS)]
        crowd = [Later(self.insist, told) for told in beside for _ in range(2)]
        told = Told(f"r{number}-{victim}-{step}", self.rng.choice(list(LOCATIONS)), "ok")
        getattr(self, f"at_{step}")(told, victim)
        for later in [Later(self.insist, told), *crowd]:
            later.result(2 * BOUND_S)
        self.told += [told, *beside]

    def check(self):
        """At the end: what was told, what was done, and what the store says."""
        effects = self.s.upstream.counts()
        for told in self.told:
            key = told.key
            wait_for(f"{key} is not running any more",
                     lambda: state(self.s.server, key) in ("completed", "failed", "doubt"))
            if told.path != "/retry/":
                assert effects[key] <= 1, (key, effects[key], told.answers)
            else:
                assert state(self.s.server, key) == "completed", key
            if told.done:
                assert state(self.s.server, key) == "completed", key
                assert effects[key] >= 1, key
                assert len({a.body for a in told.done}) == 1, (key, told.done)
                assert self.ask(told).replayed, key


def test_every_step_every_victim(tmp_path):
    rng = random.Random(SEED)
    with patient(tmp_path, "timeout=1s end_timeout=2s") as s:
        rounds = Rounds(s, rng)
        order = list(range(len(VICTIMS) * len(STEPS)))
        rng.shuffle(order)
        for number in range(ROUNDS):
            offset = len(order) * (number // len(order))
            rounds.round(offset + order[number % len(order)])
        rounds.check()
        assert len(rounds.told) >= 4 * ROUNDS
        assert any(told.done for told in rounds.told)
        assert "exited on signal 11" not in s.gateway.errors()


@pytest.mark.parametrize("victim", ["upstream", "server", "workers"])
def test_nothing_waits_for_ever(tmp_path, victim):
    """The victim is gone and stays away, or does not answer: everyone is told so in time."""
    with patient(tmp_path, "timeout=500ms end_timeout=500ms") as s:
        rounds = Rounds(s, random.Random(SEED))
        told = [Told(f"stay-{n}", "/", "after=0.2") for n in range(10)]
        crowd = [Later(rounds.ask, one) for one in told]
        s.upstream.wait_effects("stay-0")
        stopped = []
        if victim == "workers":
            for pid in s.gateway.worker_pids():
                s.gateway.kill_worker(pid)
        else:
            stopped.append(getattr(s, victim).process)
            stopped[0].send_signal(signal.SIGSTOP)
        try:
            for later in crowd:
                later.result(BOUND_S)
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        for one in told:
            wait_for("it ended", lambda: state(s.server, one.key) in
                     (None, "completed", "failed", "doubt"))
            assert s.upstream.effects(one.key) <= 1
