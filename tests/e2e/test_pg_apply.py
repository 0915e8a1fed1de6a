# SPDX-License-Identifier: Apache-2.0
"""Applies, merges, values and objects on a store on PostgreSQL (src/store/postgres/pg_apply.c).

The programs of tests/postgres do the asking: pg_twin compares every answer with the embedded
engine's, pg_race sends each request several times through two stores and counts, pg_bounds fills
objects and moves the clock. Here are the server, and a network that loses the answers to commits.

    ONCE_PG_APPLY_ROUNDS=20      times as long, for `make soak`
"""
import contextlib
import os
import random
import socket
import subprocess
import threading
from urllib.parse import urlsplit, urlunsplit

import pytest
from pg_tools import PgSession, test_program
from serving import HOST

ROUNDS = int(os.environ.get("ONCE_PG_APPLY_ROUNDS", "1"))
PIECE = 1 << 16
COMMIT = b"COMMIT\0"  # as a command in one direction, as its tag in the other


def play(name, *arguments, **environment):
    """(exit status, what it said)."""
    done = subprocess.run([test_program(f"../postgres/{name}"), *map(str, arguments)], text=True,
                          timeout=60 * ROUNDS + 60, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **environment})
    return done.returncode, done.stdout[-4000:]


def play_well(*arguments, **environment):
    status, said = play(*arguments, **environment)
    assert status == 0, said
    return said


class Cutter:
    """Between a store and its server: every now and then a connection ends while it commits, before
    the commit arrives or after it was done. Which of them the store cannot know."""

    def __init__(self, port, often, seed=1):
        self.port_behind = port
        self.often = often  # one commit in so many
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.before = self.after = 0
        self.listener = socket.create_server((HOST, 0), backlog=64)
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection((HOST, self.port_behind))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                swallow = threading.Event()
                for way in (self.up, self.down):
                    threading.Thread(target=way, args=(near, far, swallow), daemon=True).start()

    def fate(self, piece):
        with self.lock:
            if COMMIT not in piece or self.random.randrange(self.often) != 0:
                return "pass"
            if self.random.randrange(2) == 0:
                self.before += 1
                return "before"
            self.after += 1
            return "after"

    def up(self, near, far, swallow):
        with contextlib.suppress(OSError):
            while piece := near.recv(PIECE):
                fate = self.fate(piece)
                if fate == "before":
                    break
                if fate == "after":
                    swallow.set()
                far.sendall(piece)
        end_both(near, far)

    def down(self, near, far, swallow):
        with contextlib.suppress(OSError):
            while piece := far.recv(PIECE):
                if swallow.is_set():
                    if COMMIT in piece:
                        break
                else:
                    near.sendall(piece)
        end_both(near, far)


def end_both(*ends):
    """Whoever waits for one of them wakes up; the other side is told at once."""
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def through(url, port):
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{HOST}:{port}"))


def port_of(url):
    return urlsplit(url).port


# ---- The same as the engine ----

@pytest.mark.parametrize("seed", range(1, 3 + 10 * (ROUNDS - 1)))
def test_answers_and_objects_are_those_of_the_engine(pg, seed):
    url = pg.installed()
    said = play_well("pg_twin", seed, 100, ONCE_PG_URL=url)
    for word in ("ERROR", "REPLAY", "BUSY", "MISMATCH", "NOTFOUND", "APPLIED", "REJECTED"):
        assert f"{word} 0" not in said, f"nothing was {word}: {said}"
    with PgSession(url) as session:  # rows that were made to be held did not stay
        assert session.value("SELECT count(*) FROM once.operation WHERE state = 0") == 0
        assert session.value("SELECT count(*) FROM once.object WHERE type = 0 OR id < 0") == 0


def test_a_server_needs_no_more_than_its_role(pg):
    url = pg.installed()
    name = f"server_{os.getpid()}"
    with PgSession(url) as session:
        session.rows(f"CREATE ROLE {name} LOGIN IN ROLE once_server")
    parts = urlsplit(url)
    url = urlunsplit(parts._replace(netloc=f"{name}@{HOST}:{parts.port}"))
    play_well("pg_twin", 7, 20, ONCE_PG_URL=url)
    with PgSession(url) as session, pytest.raises(Exception, match="permission denied"):
        session.rows("SELECT * FROM once.object")


def test_others_get_nothing(pg):
    url = pg.installed()
    name = f"other_{os.getpid()}"
    with PgSession(url) as session:
        session.rows(f"CREATE ROLE {name} LOGIN IN ROLE once_app, once_operator")
    parts = urlsplit(url)
    url = urlunsplit(parts._replace(netloc=f"{name}@{HOST}:{parts.port}"))
    for call in ("hold(1, 1, '{}', '{}')", "hold_objects('{}', 0)", "moment(1)",
                 "keep_objects('{}', '{}', '{}', '{}', '{}')", "settled(1, 1)", "sweep_lanes()",
                 "object_get('x')", "object_list(0, 1)"):
        with PgSession(url) as session, pytest.raises(Exception, match="permission denied"):
            session.rows(f"SELECT once.{call}")


def test_bounds_and_time(pg):
    play_well("pg_bounds", ONCE_PG_URL=pg.installed())


# ---- Exactly once ----

def clear(url):
    """For another race in the same database."""
    with PgSession(url) as session:
        session.rows("DELETE FROM once.operation")
        session.rows("DELETE FROM once.object")


def test_two_stores_count_exactly(pg):
    play_well("pg_race", 12, 15 * ROUNDS, ONCE_PG_URL=pg.installed())


def test_commits_whose_answer_is_lost_count_once(pg):
    url = pg.installed()
    with Cutter(port_of(url), often=8) as cutter:
        play_well("pg_race", 6, 8 * ROUNDS, ONCE_PG_URL=url,
                  ONCE_PG_URL_2=through(url, cutter.port))
    assert cutter.before > 0 and cutter.after > 0, "nothing was lost: the test has tried nothing"


def test_backends_that_are_ended_lose_nothing(pg):
    url = pg.installed()
    stop = threading.Event()
    ended = 0

    def end_some():
        nonlocal ended
        choice = random.Random(1)
        with PgSession(url) as session:
            while not stop.wait(0.03):
                pids = [pid for pid, in session.rows(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'once'"
                    " AND datname = current_database() AND query ~ 'once.(hold|keep|moment)'")]
                if pids:
                    ended += 1
                    session.rows("SELECT pg_terminate_backend(%s)", choice.choice(pids))

    thread = threading.Thread(target=end_some)
    thread.start()
    try:
        for _ in range(20):  # a quick machine is done before anything has ended
            play_well("pg_race", 6, 8 * ROUNDS, ONCE_PG_URL=url)
            if ended > 3:
                break
            clear(url)
    finally:
        stop.set()
        thread.join()
    assert ended > 3


@pytest.mark.parametrize("guess", ["false", "true"])
def test_a_guess_instead_of_the_lane_s_row_is_found(pg, guess):
    """What is counted above can go wrong. A lane that takes what it committed for lost sets values
    twice; one that takes what was lost for committed tells what never happened."""
    url = pg.installed()
    with PgSession(url) as session:
        session.rows("CREATE OR REPLACE FUNCTION once.settled(lane bigint, number bigint)"
                     f" RETURNS boolean LANGUAGE sql AS 'SELECT {guess}'")
    for seed in range(1, 30):
        with Cutter(port_of(url), often=3, seed=seed) as cutter:
            status, said = play("pg_race", 6, 6, ONCE_PG_URL=url,
                                ONCE_PG_URL_2=through(url, cutter.port))
        if status != 0:
            break
        clear(url)
    assert status == 1 and (guess == "true" or "replaced twice" in said), said
