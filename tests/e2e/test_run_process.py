# SPDX-License-Identifier: Apache-2.0
"""The process that `once run` starts: signals, pipes, descriptors, and the lease while it runs."""
import contextlib
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from running import Place, alive, state, stop_outside_the_store
from serving import Error, once_binary, wait_for

REPLAYED = b"once run: replayed "


@pytest.fixture(scope="module")
def place():
    place = Place("folder")
    yield place
    place.close()


@pytest.fixture(scope="module")
def owned():
    place = Place("owned")
    yield place
    place.close()


def clear(place, *names):
    for name in names:
        place.path(name).unlink(missing_ok=True)


def child_of(place, name):
    """The process number that a command wrote."""
    place.has(name)
    return wait_for("a pid", lambda: int(place.path(name).read_text() or 0))


# ---- Signals ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(place, number):
    """The command decides what they mean; the runner waits for it and records its end."""
    key, name = place.key(), signal.Signals(number).name[3:]
    script = (f"trap 'echo got {name}; exit 0' {name}; echo $$ > pid; mv pid ready; "
              "while :; do sleep 0.01; done")
    run = place.start(key, script)
    child_of(place, "ready")
    run.send_signal(number)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and out == f"got {name}\n".encode(), err
    assert place.run(key, "--quiet", script).stdout == out
    clear(place, "ready")


def test_a_signal_that_kills_the_command_is_a_doubt(place):
    key = place.key()
    run = place.start(key, "echo $$ > pid; exec sleep 1000")
    child = child_of(place, "pid")
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 76 and b"SIGTERM" in err
    assert not alive(child)
    clear(place, "pid")


def test_the_child_does_not_outlive_the_runner(place):
    key = place.key()
    run = place.start(key, "echo $$ > pid; exec sleep 1000")
    child = child_of(place, "pid")
    run.kill()
    run.wait()
    wait_for("the command is killed", lambda: not alive(child))
    # The lease has half a minute to go, and the owner is known to be gone.
    done = place.run(key, "echo $$ > pid; exec sleep 1000")
    assert done.returncode == 76 and b"began it and vanished" in done.stderr, done
    run.stdout.close()
    run.stderr.close()
    clear(place, "pid")


def test_waiting_can_be_interrupted(place):
    key = place.key()
    script = "touch waited; until test -e over; do sleep 0.01; done"
    first = place.start(key, script)
    place.has("waited")
    waiter = place.start(key, "--wait", "10m", script)
    wait_for("it looks at signals in between", lambda: blocked(waiter.pid))
    waiter.send_signal(signal.SIGINT)
    assert waiter.wait(30) == -signal.SIGINT
    place.path("over").touch()
    assert first.wait(30) == 0
    for process in (first, waiter):
        process.communicate()
    clear(place, "waited", "over")


def blocked(pid):
    """Has it begun to keep signals for later?"""
    with open(f"/proc/{pid}/status") as status:
        return any(line.startswith("SigBlk:") and int(line.split()[1], 16) & 2 for line in status)


def test_stopping_and_going_on(place):
    """Ctrl-Z: both stop, the shell gets to know, and both go on."""
    key = place.key()
    run = place.start(key, "echo $$ > pid; until test -e over; do sleep 0.01; done; echo end",
                      start_new_session=True)
    child = child_of(place, "pid")

    # A session of its own is an orphaned group, in which SIGTSTP stops nobody: the pid is waited for.
    run.send_signal(signal.SIGSTOP)
    os.kill(child, signal.SIGSTOP)
    wait_for("both stand still", lambda: state(run.pid) == state(child) == "T")
    run.send_signal(signal.SIGCONT)  # and is passed on
    wait_for("both go on", lambda: state(run.pid) != "T" and state(child) != "T")
    place.path("over").touch()
    out, _ = run.communicate(timeout=30)
    assert run.returncode == 0 and out == b"end\n"
    clear(place, "pid", "over")


def test_terminal(place):
    """In a terminal: Ctrl-C reaches the command once, Ctrl-Z stops the job, fg goes on with it."""
    key = place.key()
    script = "trap 'echo INT >> ints' INT; touch on; until test -e over; do sleep 0.01; done; echo end"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.home)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], dict(place.env, PS1="prompt> "))
    seen = b""

    def until(text):
        nonlocal seen
        while text not in seen:
            seen += os.read(terminal, 4096)
        seen = seen.split(text, 1)[1]

    try:
        until(b"prompt> ")
        line = f"{once_binary()} run '{key}' {' '.join(place.where)} -- sh -c \"{script}\"; echo status=$?"
        os.write(terminal, line.encode() + b"\n")
        place.has("on")
        os.write(terminal, b"\x03")
        place.has("ints")
        os.write(terminal, b"\x1a")
        until(b"Stopped")
        until(b"prompt> ")
        os.write(terminal, b"fg; echo status=$?\n")
        until(b"fg; echo status=$?")
        place.path("over").touch()
        until(b"end\r\n")
        until(b"status=0")
        assert place.lines("ints") == ["INT"]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    clear(place, "ints", "on", "over")


# ---- What the command inherits ---------------------------------------------------------------------

def test_descriptors_and_input(place):
    key = place.key()
    read, write = os.pipe()
    done = place.run(key, "ls /proc/$$/fd; cat", stdin=None, input=b"from stdin")
    assert done.stdout == b"0\n1\n2\nfrom stdin", done  # and none of a pipe of the shell's own
    os.close(read)
    os.close(write)


def test_signals_as_they_were(place):
    """What the command ignores and blocks is what whoever started the runner had set."""
    def before():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    command = ["grep", "^Sig[BIC]", "/proc/self/status"]
    plain = subprocess.run(command, capture_output=True, preexec_fn=before)
    run = place.run(place.key(), "--", *command, preexec_fn=before)
    assert run.returncode == 0 and run.stdout == plain.stdout, run
    assert b"SigIgn" in plain.stdout


# ---- Pipes -----------------------------------------------------------------------------------------

def test_a_reader_that_is_gone(place):
    key = place.key()
    script = "head -c 200000 /dev/zero | tr '\\0' b; touch still-here; echo end"
    run = place.start(key, script)
    run.stdout.close()
    err = run.stderr.read()
    assert run.wait(60) == 71 and b"stdout is closed" in err
    assert place.path("still-here").exists()
    again = place.run(key, script)
    assert again.returncode == 0 and again.stdout == b"b" * 200000 + b"end\n"
    run.stderr.close()
    clear(place, "still-here")


def test_standard_output_that_is_closed(place):
    key = place.key()
    done = place.run(key, "echo out; echo err >&2", preexec_fn=lambda: os.close(1))
    assert done.returncode == 71 and b"err\n" in done.stderr
    assert place.run(key, "echo out; echo err >&2").stdout == b"out\n"


def test_a_slow_reader_slows_the_command_only(place):
    """The command fills the pipes and waits; its lease is renewed, and nothing is lost."""
    key = place.key()
    script = "head -c 700000 /dev/zero | tr '\\0' c; touch written"
    run = place.start(key, "--lease", "3s", script)
    deadline = time.monotonic() + 5  # well beyond the lease
    while time.monotonic() < deadline:
        assert not place.path("written").exists() and run.poll() is None
        time.sleep(0.05)
    assert place.run(key, script).returncode == 75
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and out == b"c" * 700000 and err == b""
    assert place.run(key, script).stdout == out
    clear(place, "written")


def test_recorded_before_a_slow_reader_has_read(place):
    """The end of a command does not wait for who reads its output."""
    key = place.key()
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 65536)
    os.set_blocking(write, True)
    run = place.start(key, "touch begun; echo late", stdout=write)
    os.close(write)
    place.has("begun")
    wait_for("it is recorded", lambda: REPLAYED in place.run(key, "touch begun; echo late").stderr)
    assert run.poll() is None
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read().endswith(b"xlate\n")
    assert run.wait(30) == 0
    run.stderr.close()
    clear(place, "begun")


def test_processes_left_in_the_background_are_not_waited_for(place):
    key = place.key()
    begun = time.monotonic()
    done = place.run(key, "echo seen; sleep 1000 & echo $! > pid")
    assert done.returncode == 0 and done.stdout == b"seen\n" and time.monotonic() - begun < 60
    os.kill(int(place.path("pid").read_text()), signal.SIGKILL)
    clear(place, "pid")


# ---- The lease -------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["place", "owned"])
def test_the_lease_is_renewed(kind, request):
    place = request.getfixturevalue(kind)
    key = place.key()
    script = "touch on; until test -e over; do sleep 0.01; done"
    run = place.start(key, "--lease", "3s", script)
    place.has("on")
    deadline = time.monotonic() + 5  # well beyond it; a slow disk holds a renewal up for a second
    while time.monotonic() < deadline:
        assert place.run(key, script).returncode == 75
    place.path("over").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0 and err == b""
    clear(place, "on", "over")


@pytest.mark.parametrize("outcome", ["nothing", "resolved"])
def test_a_lease_that_was_lost(place, outcome):
    """The runner stood still for too long. It says so; the command ends as it would have."""
    key = place.key()
    script = "touch on; until test -e over; do sleep 0.01; done; echo end"
    run = place.start(key, "--lease", "2s", script)
    place.has("on")
    stop_outside_the_store(run)
    wait_for("the lease is over", lambda: place.run(key, script).returncode == 76)
    if outcome == "resolved":
        assert place.once("resolve", key, "--not-done").returncode == 0
    run.send_signal(signal.SIGCONT)
    place.path("over").touch()
    out, err = run.communicate(timeout=60)
    assert out == b"end\n"
    if outcome == "resolved":
        assert run.returncode == 77 and b"not ours any more" in err.lower(), err
    else:
        assert run.returncode == 0, err
        assert place.run(key, script).stdout == b"end\n"
    clear(place, "on", "over")


def test_a_store_that_vanishes_is_not_made_anew():
    """In an empty one everybody would find every key free."""
    place = Place("folder")
    try:
        run = place.start("k", "--lease", "2s", "touch on; until test -e over; do sleep 0.01; done")
        place.has("on")
        away = place.store.rename(place.store.with_name("away"))
        # It says so when the lease is two thirds over and could not be renewed.
        assert b"cannot be renewed" in run.stderr.readline()
        place.path("over").touch()
        _, err = run.communicate(timeout=60)
        assert run.returncode == 76 and b"could not be recorded" in err, err
        assert not place.store.exists()
        away.rename(place.store)
        assert place.run("k", "touch on; until test -e over; do sleep 0.01; done").returncode == 76
    finally:
        place.close()


def test_a_namespace_that_sees_the_processes_of_another(place):
    """/proc shows other processes under the numbers of ours: nobody is taken for gone."""
    shell = ["unshare", "-rfp", "--kill-child", "sh", "-c"]
    if subprocess.run([*shell, "true"], capture_output=True).returncode != 0:
        pytest.skip("this system makes no namespaces")
    once = " ".join([str(once_binary()), "run inner", *place.where, "--on-doubt retry --"])
    script = "echo >> inner; until test -e over; do sleep 0.01; done"
    done = subprocess.run([*shell, f"{once} sh -c '{script}' & until test -e inner; do sleep 0.01; "
                           f"done; {once} sh -c '{script}'; echo $?; touch over; wait"],
                          cwd=place.home, env=dict(place.env, ASAN_OPTIONS="detect_leaks=0"),
                          capture_output=True, timeout=60)
    assert done.stdout == b"75\n", done
    assert len(place.lines("inner")) == 1
    clear(place, "inner", "over")


def test_owners_of_the_folder_come_and_go(owned):
    """begin through a server, renewals through the folder, and the end through another server."""
    key = owned.key()
    script = "touch on; until test -e over; do sleep 0.01; done; echo end"
    run = owned.start(key, "--lease", "4s", script)
    owned.has("on")
    owned.owner.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done = owned.run(key, script)
        assert done.returncode == 75, done
    owned.owner.start()
    assert owned.run(key, script).returncode == 75
    owned.path("over").touch()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0 and out == b"end\n" and err == b"", err
    assert REPLAYED in owned.run(key, script).stderr
    clear(owned, "on", "over")


def test_a_server_that_is_away_when_the_command_ends():
    place = Place("server")
    try:
        key = place.key()
        run = place.start(key, "touch on; until test -e over; do sleep 0.01; done; echo end")
        place.has("on")
        place.owner.kill()
        place.path("over").touch()
        assert run.stdout.readline() == b"end\n"
        assert run.poll() is None, "it tries on"
        place.owner.start()
        assert run.wait(60) == 0
        assert run.stderr.read() == b""
        run.communicate()
        assert len(place.lines("on")) == 0
        assert REPLAYED in place.run(
            key, "touch on; until test -e over; do sleep 0.01; done; echo end").stderr
    finally:
        place.close()


def test_a_full_disk():
    """The output has no room; that it was done has (INV-7)."""
    place = Place("owned", "disk_max = 256m\n")
    try:
        key = place.key()
        script = "touch on; until test -e over; do sleep 0.01; done; head -c 900000 /dev/zero"
        run = place.start(key, script)
        place.has("on")
        with place.owner.connect() as c, pytest.raises(Error, match="FULL"):
            for i in range(1000):
                fence = c("ONCE.BEGIN", "fill", i)[1]
                c("ONCE.COMPLETE", "fill", i, fence, 0, bytes(850000))
        place.path("over").touch()
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0 and len(out) == 900000, err
        assert b"no room for the whole output" in err
        again = place.run(key, script)
        assert again.returncode == 0 and again.stdout == bytes(len(again.stdout))
        assert len(again.stdout) < 900000 and b"were not kept" in again.stderr
    finally:
        place.close()
