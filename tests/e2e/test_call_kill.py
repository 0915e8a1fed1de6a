# SPDX-License-Identifier: Apache-2.0
"""`once call` killed at every step, paused, interrupted, and with its server killed under it: one
effect, one answer, the same bytes and the same key on the wire.

Every step is every call that writes to the store or talks to the network: a small library that is
loaded ahead of the C library counts them, and kills the process before the one that the test names.
"""
import os
import random
import shutil
import signal
import subprocess

import pytest

from misbehaving import Receiver
from running import stop_outside_the_store
from serving import Server, once_binary, wait_for
from test_call import Caller, assert_once, quoted

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int steps;

static void step(void)
{
    static int end = -1;
    if (end < 0)
        end = getenv("KILL_STEP") ? atoi(getenv("KILL_STEP")) : 0;
    if (atomic_fetch_add(&steps, 1) + 1 == end)
        kill(getpid(), SIGKILL);
}

#define COUNTED(type, name, parameters, arguments)                    \
    type name parameters                                              \
    {                                                                 \
        static type (*next) parameters;                               \
        if (!next)                                                    \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                \
        step();                                                       \
        return next arguments;                                        \
    }

COUNTED(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
COUNTED(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
COUNTED(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t at, int f), (fd, v, n, at, f))
COUNTED(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t at, int f), (fd, v, n, at, f))
COUNTED(int, fdatasync, (int fd), (fd))
COUNTED(int, fsync, (int fd), (fd))
COUNTED(int, connect, (int fd, const struct sockaddr *a, socklen_t size), (fd, a, size))
COUNTED(ssize_t, send, (int fd, const void *data, size_t size, int f), (fd, data, size, f))
COUNTED(ssize_t, sendto, (int fd, const void *data, size_t size, int f, const struct sockaddr *a,
                          socklen_t n), (fd, data, size, f, a, n))
COUNTED(ssize_t, recv, (int fd, void *data, size_t size, int f), (fd, data, size, f))
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counter")
    source, library = folder / "counter.c", folder / "counter.so"
    source.write_text(COUNTER)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("call-kill")
    yield path
    shutil.rmtree(path / "store", ignore_errors=True)


@pytest.fixture
def call(folder):
    return Caller(folder / "store")


def killed_at(call, counter, step, words):
    """Whether it got as far as that step, and was killed there."""
    environment = dict(call.environment, LD_PRELOAD=str(counter), KILL_STEP=str(step),
                       ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
    done = subprocess.run([once_binary(), "call", *words], env=environment, capture_output=True,
                          timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def test_killed_at_every_step_and_resumed(call, counter):
    assert call("--resume", "none").returncode == 66
    with Receiver(["ok"]) as receiver:
        step, killed, answers = 1, True, {}
        seen = set()
        while killed:
            key = f"step-{step}"
            words = ["POST", receiver.url, "--key", key, "-d", f'{{"step":{step}}}']
            killed = killed_at(call, counter, step, words)
            before = receiver.effects.get(quoted(key), 0)
            resumed = call("--resume", key)
            seen.add((before, resumed.returncode))
            # Not begun; or its request was not kept yet: that is in doubt until it is sent again.
            if resumed.returncode == 66 or b"no request is kept" in resumed.stderr:
                assert before == 0, "what was sent is never taken for unsent"
                resumed = call(*words)
            assert resumed.returncode == 0, (step, resumed.stderr)
            assert receiver.effects[quoted(key)] == 1, step
            assert len({r.wire for r in receiver.requests if r.key == quoted(key)}) == 1
            assert resumed.stdout == receiver.answers[quoted(key)]
            count = len(receiver.requests)
            replayed = call(*words)
            assert (replayed.returncode, replayed.stdout) == (0, resumed.stdout)
            assert len(receiver.requests) == count
            answers[key] = resumed.stdout
            step += 1
        assert step > 20, "there are more steps than that"
        # Killed before its begin, before its request, after that, and after it was sent.
        assert {(0, 66), (0, 76), (0, 0), (1, 0)} <= seen, seen
        assert len(set(answers.values())) == len(answers)
    assert subprocess.run([once_binary(), "check", "--dir", call.folder], capture_output=True,
                          timeout=60).returncode == 0


def test_killed_again_and_again_while_it_retries(call, counter):
    """The receiver loses every second answer, and every resume is killed somewhere, too."""
    key = "again"
    with Receiver() as receiver:
        receiver.script = ["lose answer", "503", "lose answer", "cut", "lose request"] * 20
        words = ["POST", receiver.url, "--key", key, "-d", "x"]
        killed_at(call, counter, 30, words)
        for step in (random.randint(5, 60) for _ in range(6)):
            environment = dict(call.environment, LD_PRELOAD=str(counter), KILL_STEP=str(step),
                               ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
            subprocess.run([once_binary(), "call", *words, "--on-doubt", "retry", "--retries", "2"],
                           env=environment, capture_output=True, timeout=60)
        receiver.script = ["ok"]
        done = call(*words, "--on-doubt", "retry")
        assert (done.returncode, done.stdout) == (0, receiver.answers[quoted(key)]), done.stderr
        assert_once(receiver, key)


def test_killed_while_it_waits_for_the_answer(call):
    """The doubt is there at once: its owner is known to be gone, and nobody waits for its lease."""
    key = "killed"
    with Receiver(["hang", "ok"]) as receiver:
        words = ["POST", receiver.url, "--key", key, "-d", "x", "--lease", "1h"]
        process = call.start(*words)
        receiver.wait_for(lambda r: r.effects)
        process.kill()
        process.wait()
        found = call.json(*words)
        assert (found["verdict"], found["exit_status"]) == ("DOUBT", 76)
        assert len(receiver.requests) == 1, "never sent again unasked"
        assert call("--resume", "--all").returncode == 0
        assert_once(receiver, key)
        assert call(*words).stdout == receiver.answers[quoted(key)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_waits_for_the_answer(call, number):
    key = f"interrupted-{number}"
    with Receiver(["hang", "ok"]) as receiver:
        process = call.start("POST", receiver.url, "--key", key)
        receiver.wait_for(lambda r: r.effects)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 76 and f"--resume '{key}'".encode() in err
        assert call("--resume", key).returncode == 0
        assert_once(receiver, key)


def test_interrupted_before_anything_was_sent(call):
    receiver = Receiver().start()
    receiver.stop()
    process = call.start("POST", receiver.url, "--key", "unsent", "--retries", "900")
    assert b"attempt 1" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 69
    with receiver:
        assert call("POST", receiver.url, "--key", "unsent").returncode == 0
        assert_once(receiver, "unsent")


def test_interrupted_while_it_waits_for_another(call):
    with Receiver(["held"]) as receiver:
        words = ["POST", receiver.url, "--key", "waits"]
        first = call.start(*words)
        receiver.wait_for(lambda r: r.requests)
        second = call.start(*words, "--wait", "1h")
        # It waits, if it is still there after a third one has been told so.
        assert call(*words).returncode == 75 and second.poll() is None
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=30)
        assert second.returncode in (75, -signal.SIGINT)  # before its handler was there
        receiver.gate.set()
        assert first.communicate(timeout=30)[0] == receiver.answers[quoted("waits")]
        assert len(receiver.requests) == 1


def test_paused_while_another_takes_over(call):
    """Its lease ends while it stands still; the other one's answer is its answer, too."""
    key = "paused"
    with Receiver(["hang", "ok"]) as receiver:
        words = ["POST", receiver.url, "--key", key, "-d", "x"]
        process = call.start(*words, "--lease", "2s")
        receiver.wait_for(lambda r: r.effects)
        stop_outside_the_store(process)
        assert wait_for("the lease ends", lambda: call(*words).returncode == 76)
        resumed = call("--resume", key)
        assert (resumed.returncode, resumed.stdout) == (0, receiver.answers[quoted(key)])
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, resumed.stdout), err
        assert_once(receiver, key)
        assert len(receiver.requests) == 2


def test_paused_and_nobody_took_over(call):
    """It takes the call again under a new fence, and goes on."""
    key = "paused-alone"
    with Receiver(["held"]) as receiver:
        words = ["POST", receiver.url, "--key", key, "-d", "x"]
        process = call.start(*words, "--lease", "2s")
        receiver.wait_for(lambda r: r.requests)
        stop_outside_the_store(process)
        assert wait_for("the lease ends", lambda: call(*words).returncode == 76)
        process.send_signal(signal.SIGCONT)
        assert wait_for("it is at it again", lambda: call(*words).returncode == 75)
        receiver.gate.set()
        assert process.communicate(timeout=30)[0] == receiver.answers[quoted(key)]
        assert_once(receiver, key)


def test_server_that_owns_the_folder_is_killed(folder):
    """Begun through a server, kept by the folder without one, resumed through a server again."""
    server = Server(folder / "served")
    call = Caller(server.dir)
    try:
        with Receiver(["held"]) as receiver:
            with server:
                process = call.start("POST", receiver.url, "--key", "served", "--lease", "1s")
                receiver.wait_for(lambda r: r.requests)
                server.kill()
                assert wait_for("the lease is kept without a server", lambda: call(
                    "POST", receiver.url, "--key", "served").returncode == 75)
                server.start()
                receiver.gate.set()
                out, err = process.communicate(timeout=60)
                assert (process.returncode, out) == (0, receiver.answers[quoted("served")]), err
                assert call("POST", receiver.url, "--key", "served").stdout == out
                over_tcp = Caller(folder / "nowhere")
                assert over_tcp("POST", receiver.url, "--key", "served", "--server",
                                f"127.0.0.1:{server.port}").stdout == out
                assert not (folder / "nowhere").exists()
            assert call("POST", receiver.url, "--key", "served").stdout == out
            assert_once(receiver, "served")
    finally:
        shutil.rmtree(server.dir, ignore_errors=True)


def test_doubts_of_others_are_left_alone(folder):
    """Whose recovery point is empty may be anything: to say that nothing was sent, and that the key
    is free, is for who sends the same request."""
    server = Server(folder / "others")
    call = Caller(server.dir)
    try:
        with server, server.connect() as c:
            for key in ("charge-1", "charge-2"):
                assert c("ONCE.BEGIN", "call", key, "LEASE", "1", "FP", "x" * 32)[0] == "EXECUTE"
            wait_for("a doubt", lambda: c("ONCE.BEGIN", "call", "charge-2", "FP", "x" * 32)[0] == "DOUBT")
            done = call("--resume", "charge-1")
            assert done.returncode == 76 and b"no request is kept" in done.stderr, done
            assert call("--resume", "--all").returncode == 76
            for key in ("charge-1", "charge-2"):
                assert c("ONCE.BEGIN", "call", key, "FP", "x" * 32)[0] == "DOUBT"
    finally:
        shutil.rmtree(server.dir, ignore_errors=True)
