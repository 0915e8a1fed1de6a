# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the runner, of the command and of the server, at every step: what must happen once
never happens twice without --on-doubt retry.

The command writes a line into a ledger. The runner is killed before its n-th system call, for n over
its whole life: between any two of them nothing happens that others can see. A server is killed at
random moments while shells run through it. ONCE_KILL_ROUNDS says how often (20; `make soak`: 200).
"""
import ctypes
import os
import platform
import random
import signal
import subprocess
import threading

import pytest

from running import Place, alive
from serving import once_binary, wait_for

ROUNDS = int(os.environ.get("ONCE_KILL_ROUNDS", "20"))
SEED = int(os.environ.get("ONCE_SEED", "0")) or random.randrange(1, 1 << 30)
TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420e
TRACESYSGOOD, SYSCALL_STOP, ENTRY = 1, signal.SIGTRAP | 0x80, 1
SIGNALFD = {"x86_64": 289, "aarch64": 74}[platform.machine()]
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]  # which is how glibc forks
SCRIPT = "echo $ONCE_ATTEMPT >> \"$0\"; echo done"

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


@pytest.fixture(scope="module", params=["folder", "owned"])
def place(request):
    place = Place(request.param)
    # A leak cannot be looked for by a process that is being traced.
    place.env["ASAN_OPTIONS"] = "detect_leaks=0"
    yield place
    place.close()


def command(place, key, ledger, *options):
    return [once_binary(), "run", key, *place.where, *options, "--", "sh", "-c", SCRIPT, ledger]


class SyscallInfo(ctypes.Structure):
    _fields_ = [("op", ctypes.c_uint8), ("pad", ctypes.c_uint8 * 3), ("arch", ctypes.c_uint32),
                ("ip", ctypes.c_uint64), ("sp", ctypes.c_uint64), ("number", ctypes.c_uint64),
                ("args", ctypes.c_uint64 * 8)]


def entered(pid):
    """The number of the system call that it is about to make; None if it has just made one."""
    info = SyscallInfo()
    libc.ptrace(GET_SYSCALL_INFO, pid, ctypes.c_void_p(ctypes.sizeof(info)), ctypes.byref(info))
    return info.number if info.op == ENTRY else None


def trace(place, words, kill_at=None, before_fork=None):
    """Runs it and counts the system calls of its main thread from the one on that keeps signals for
    later: the first of them begins the operation. Kills it before call number kill_at, or calls
    before_fork while it stands still there. Gives how many there were, or None: it was killed."""
    output = os.open(place.path("output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(place.home)
            os.dup2(output, 1)
            os.dup2(output, 2)
            libc.ptrace(TRACEME, 0, None, None)
            os.execve(words[0], [str(word) for word in words], place.env)
        finally:
            os._exit(1)
    os.close(output)
    _, status = os.waitpid(pid, 0)
    libc.ptrace(SETOPTIONS, pid, None, TRACESYSGOOD)
    calls = None
    while os.WIFSTOPPED(status):
        number = os.WSTOPSIG(status)
        if number in (SYSCALL_STOP, signal.SIGTRAP):
            call, number = entered(pid), 0
            if call is not None and (calls is not None or call == SIGNALFD):
                calls = (calls or 0) + 1
                if call == CLONE and before_fork:
                    before_fork()
                    before_fork = None
                if calls == kill_at:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return None
        libc.ptrace(SYSCALL, pid, None, number)
        _, status = os.waitpid(pid, 0)
    assert calls, "it did not come so far: " + place.path("output").read_text()[-1000:]
    return calls


def settle(place, key, ledger):
    """Whatever was left behind: it ends, the ledger has one line, and only a person may say that it
    did not happen."""
    done = place.run(key, "--wait", "1m", "--", "sh", "-c", SCRIPT, ledger)
    lines = place.lines(ledger)
    assert len(lines) <= 1, f"{key}: it happened {len(lines)} times"
    if done.returncode == 0:
        assert len(lines) == 1 and done.stdout == b"done\n", done
        return "ended"
    assert done.returncode == 76, done
    again = place.run(key, "--", "sh", "-c", SCRIPT, ledger)
    assert again.returncode == 76 and place.lines(ledger) == lines, again
    if lines:
        assert place.once("resolve", key, "--done", "--result", "done\n").returncode == 0
    else:
        assert place.once("resolve", key, "--not-done").returncode == 0
    done = place.run(key, "--", "sh", "-c", SCRIPT, ledger)
    assert done.returncode == 0 and done.stdout == b"done\n", done
    assert len(place.lines(ledger)) == 1
    return "doubt"


def test_the_runner_is_killed_before_any_system_call(place):
    chance = random.Random(SEED)
    key = place.key()
    count = trace(place, command(place, key, "ledger-calls"))
    assert count > 20 and len(place.lines("ledger-calls")) == 1
    seen = {"ended": 0, "doubt": 0}
    rounds = max(10, ROUNDS // 2)
    for number in range(rounds):
        key, ledger = place.key(), f"ledger-{number}"
        # One of each part of its life, which grows with the log of a folder.
        before = 1 + (number * count + chance.randrange(count)) * 5 // (4 * rounds)
        trace(place, command(place, key, ledger), before)
        try:
            seen[settle(place, key, ledger)] += 1
        except AssertionError as error:
            raise AssertionError(f"killed before call {before} of {count}, ONCE_SEED={SEED}") from error
    assert seen["doubt"] > 0, "none of the kills came in between"


def test_a_runner_that_stands_still_until_its_lease_is_over(place):
    """It had the key and ran nothing; by the time it goes on another one has done it."""
    key, ledger, others = place.key(), "late", []

    def others_turn():
        words = [key, "--", "sh", "-c", SCRIPT, ledger]
        wait_for("the lease is over", lambda: place.run(*words).returncode == 76)
        assert place.once("resolve", key, "--not-done").returncode == 0
        others.append(place.run(*words).returncode)

    trace(place, command(place, key, ledger, "--lease", "2s"), before_fork=others_turn)
    assert others == [0]
    assert len(place.lines(ledger)) == 1
    assert f"replayed '{key}'" in place.path("output").read_text()


def test_the_command_is_killed(place):
    """Before its effect, behind it, and together with its runner: never a second time by itself."""
    for number, script in enumerate(["kill -9 $$; echo >> LEDGER", "echo >> LEDGER; kill -9 $$",
                                     "(echo >> LEDGER; kill -9 $PPID); echo never"]):
        key, ledger = place.key(), f"killed-{number}"
        script = script.replace("LEDGER", ledger)
        first = place.run(key, script).returncode
        assert first == (76 if number < 2 else -signal.SIGKILL)
        assert place.run(key, script).returncode == 76
        assert len(place.lines(ledger)) == (0 if number == 0 else 1)


def test_a_command_that_was_left_by_its_runner(place):
    """It is killed with it; what it had started itself may live on, and the key stays in doubt."""
    key = place.key()
    script = "echo $$ > left; while :; do sleep 0.01; done"
    run = place.start(key, script)
    place.has("left")
    child = wait_for("a pid", lambda: int(place.path("left").read_text() or 0))
    run.kill()
    run.communicate()
    wait_for("the command is dead", lambda: not alive(child))
    shells = [place.start(key, "--wait", "1m", script) for _ in range(10)]
    for shell in shells:
        shell.communicate(timeout=60)
        assert shell.returncode == 76
    assert int(place.path("left").read_text()) == child
    place.path("left").unlink()


def test_many_shells_and_kills(place):
    """Fifty shells want the same key, and the first ones are killed: one effect, or a doubt."""
    chance = random.Random(SEED)
    for number in range(max(1, ROUNDS // 10)):
        key, ledger = place.key(), f"many-{number}"
        shells = [subprocess.Popen(command(place, key, ledger, "--wait", "1m"), cwd=place.home,
                                   env=place.env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL) for _ in range(20)]
        for shell in chance.sample(shells, 8):
            threading.Event().wait(chance.random() * 0.1)
            shell.kill()
        for shell in shells:
            assert shell.wait(120) in (0, 76, -signal.SIGKILL)
        settle(place, key, ledger)


def test_the_server_is_killed():
    """Shells that go through it wait for the next one, or for the folder; each effect happens once,
    and nothing is in doubt, because no runner was killed."""
    chance = random.Random(SEED)
    place = Place("owned")
    running, threads, over = [], [], threading.Event()
    try:
        def shells(name):
            number = 0
            while not over.is_set():
                key = f"{name}-{number}"
                number += 1
                for _ in range(2):
                    done = place.run(key, "--", "sh", "-c", SCRIPT, key)
                    running.append((key, done))

        threads += [threading.Thread(target=shells, args=(f"s{i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(max(3, ROUNDS // 4)):
            before = len(running)
            wait_for("some have ended", lambda: len(running) > before + 1, 60)
            over.wait(chance.random() * 0.2)
            place.owner.kill()
            over.wait(chance.random() * 0.2)
            place.owner.start()
        over.set()
        for thread in threads:
            thread.join(120)
        for key, done in running:
            assert done.returncode == 0 and done.stdout == b"done\n", (SEED, key, done)
            assert place.lines(key) == ["1"], (SEED, key)
    finally:
        over.set()
        for thread in threads:
            thread.join(120)
        place.close()
