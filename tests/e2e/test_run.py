# SPDX-License-Identifier: Apache-2.0
"""`once run`: a command, once per key, whoever owns the store. What happens to its process is in
test_run_process.py, and what happens when something is killed in test_run_kill.py.
"""
import json
import os
import shlex
import subprocess
import time

import pytest

from running import ALL, Place
from serving import once_binary

REPLAYED = b"once run: replayed "


@pytest.fixture(scope="module", params=ALL)
def place(request):
    place = Place(request.param)
    yield place
    place.close()


@pytest.fixture(scope="module")
def folder():
    place = Place("folder")
    yield place
    place.close()


def test_the_second_run_replays_the_first(place):
    key = place.key()
    script = "echo x >> ledger.$ONCE_FENCE; echo out; echo err >&2; exit 0"
    first = place.run(key, script)
    assert (first.returncode, first.stdout, first.stderr) == (0, b"out\n", b"err\n")
    ledgers = list(place.home.glob("ledger.*"))
    for _ in range(2):
        again = place.run(key, script)
        assert (again.returncode, again.stdout) == (0, b"out\n")
        assert again.stderr.startswith(b"err\n" + REPLAYED) and b"nothing was run" in again.stderr
    quiet = place.run(key, "--quiet", script)
    assert quiet.stderr == b"err\n"
    assert list(place.home.glob("ledger.*")) == ledgers
    assert ledgers[0].read_text() == "x\n"
    ledgers[0].unlink()


def test_what_the_command_finds_in_its_environment(place):
    key = place.key()
    script = "echo $ONCE_NAMESPACE/$ONCE_KEY/$ONCE_ATTEMPT/$ONCE_DOUBT; test $ONCE_ATTEMPT = 2"
    old = {"ONCE_DOUBT": "1", "ONCE_KEY": "another"}
    assert place.run(key, script, env=old).stdout == f"run/{key}/1/\n".encode()
    assert place.run(key, script, env=old).stdout == f"run/{key}/2/\n".encode()
    assert place.run(key, "-n", "other", script).stdout == f"other/{key}/1/\n".encode()


def test_binary_and_large_output(place):
    key = place.key()
    place.path("bytes").write_bytes(bytes(range(256)) * 2500)
    for _ in range(2):
        done = place.run(key, "cat bytes")
        assert done.returncode == 0 and done.stdout == bytes(range(256)) * 2500
    assert REPLAYED in done.stderr


def test_the_order_of_the_streams_is_kept(place):
    """One behind the other in one pipe: what the command waits for has been passed on by then."""
    key = place.key()
    script = "; ".join(f"echo {i} >&{1 + i % 2}; until test -e go{i}; do sleep 0.01; done"
                       for i in range(6))
    live = place.start(key, script, stderr=subprocess.STDOUT)
    for i in range(6):
        assert live.stdout.readline() == b"%d\n" % i
        place.path(f"go{i}").touch()
    assert live.wait(30) == 0
    live.stdout.close()
    again = place.run(key, "--quiet", script, capture_output=False, stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT)
    assert again.stdout == b"0\n1\n2\n3\n4\n5\n"
    assert place.run(key, "--quiet", script).stderr == b"1\n3\n5\n"


def test_output_beyond_the_bound_is_shown_and_not_kept(place):
    key = place.key()
    script = "head -c 300000 /dev/zero | tr '\\0' a; echo end >&2"
    first = place.run(key, "--output-max", "1000", script)
    assert first.stdout == b"a" * 300000 and first.stderr == b"end\n"
    again = place.run(key, script)
    assert again.returncode == 0 and again.stdout == b"a" * 1000
    assert b"299004 more bytes of output were not kept" in again.stderr


def test_another_command_line_is_a_mismatch(place):
    key = place.key()
    assert place.run(key, "--", "echo", "a b").returncode == 0
    for words in (["echo", "a", "b"], ["echo", "a c"], ["echo"], ["printf", "a b"]):
        done = place.run(key, "--", *words)
        assert done.returncode == 65 and done.stdout == b"", done
        assert b"belongs to another command" in done.stderr
    assert place.run(key, "--", "echo", "a b").stdout == b"a b\n"


def test_inputs_and_variables_count(place):
    key, other = place.key(), place.key()
    place.path("in1").write_text("one")
    place.path("in2").write_text("two")
    words = ["--input", "in1", "--input", "in2", "cat in1 in2"]
    assert place.run(key, *words).stdout == b"onetwo"
    assert REPLAYED in place.run(key, *words).stderr
    place.path("in1").write_text("onetwo")
    place.path("in2").write_text("")
    assert place.run(key, *words).returncode == 65
    assert place.run(key, "cat in1 in2").returncode == 65
    place.path("in2").unlink()
    missing = place.run(key, *words)
    assert missing.returncode == 64 and b"'in2' cannot be opened" in missing.stderr
    assert place.run(key, "--input", "/tmp", "true").returncode == 64

    words = ["--env", "COLOUR", "echo $COLOUR"]
    assert place.run(other, *words, env={"COLOUR": "red"}).stdout == b"red\n"
    assert REPLAYED in place.run(other, *words, env={"COLOUR": "red"}).stderr
    for env in ({"COLOUR": "blue"}, {"COLOUR": ""}, {}):
        assert place.run(other, *words, env=env).returncode == 65


def test_which_exit_statuses_are_answers(place):
    key, third, open_end = place.key(), place.key(), place.key()
    place.path("status").write_text("1")
    script = "echo said >&2; exit $(cat status)"
    words = ["--success", "0,2,10-19", script]
    for status in (1, 9, 20):
        place.path("status").write_text(str(status))
        failed = place.run(key, *words)
        assert failed.returncode == status and f"exit status {status}".encode() in failed.stderr
        assert b"the next run tries again" in failed.stderr
    for status in (12, 0):  # the first of them stays
        place.path("status").write_text(str(status))
        done = place.run(key, *words)
        assert done.returncode == 12, done
    assert REPLAYED in done.stderr
    assert b"exit status" not in place.run(third, "--quiet", "exit 3").stderr

    place.path("status").write_text("7")
    words = ["--doubt", "5-7", script]
    for _ in range(2):
        done = place.run(open_end, *words)
        assert done.returncode == 76 and b"in doubt" in done.stderr, done


def test_commands_that_cannot_be_started(place):
    key = place.key()
    done = place.run(key, "--", "no-such-command")
    assert done.returncode == 127 and b"nothing was run" in done.stderr
    done = place.run(key, "--", str(place.path(".")))
    assert done.returncode == 126, done
    done = place.run(key, "--", "echo", "the typo is gone")  # a key is not bound to it
    assert done.returncode == 0 and done.stdout == b"the typo is gone\n", done


def test_a_signal_leaves_a_doubt(place):
    key = place.key()
    script = "echo $ONCE_ATTEMPT.$ONCE_DOUBT >> tries; test $ONCE_ATTEMPT = 2 || kill -9 $$; echo ok"
    done = place.run(key, script)
    assert done.returncode == 76 and b"SIGKILL" in done.stderr, done
    for _ in range(2):
        again = place.run(key, script)
        # What it says is typed as it is, and finds the same store.
        said = f"once resolve {' '.join(place.where)} '{key}' --done".encode()
        assert again.returncode == 76 and said in again.stderr, again
    assert place.lines("tries") == ["1."]
    assert place.run(key, "--on-doubt", "retry", "another").returncode == 65
    retried = place.run(key, "--on-doubt", "retry", script)
    assert (retried.returncode, retried.stdout) == (0, b"ok\n"), retried
    assert place.lines("tries") == ["1.", "2.1"]
    assert REPLAYED in place.run(key, "--on-doubt", "retry", script).stderr
    place.path("tries").unlink()


def test_commands_to_type_are_safe_to_type(place):
    """A key is anybody's text: in quotes, whole, whatever is in it; and it names the store."""
    for key in ("it's; touch pwned; '", "k" * 255, "'" * 255):
        done = place.run(key, "-n", "other", "kill -9 $$")
        assert done.returncode == 76
        command = done.stderr.decode().split("Find out, then: ")[1].split(", or --not-done")[0]
        assert shlex.split(command) == ["once", "resolve", *place.where, "-n", "other", key, "--done"]


def test_a_namespace_that_retries_hears_a_reject():
    place = Place("owned", "[namespace run]\ndoubt = retry\n")
    try:
        script = "echo x >> tries; test -e sound || kill -9 $$"
        assert place.run("k", script).returncode == 76
        assert place.run("k", "--on-doubt", "reject", script).returncode == 76
        assert len(place.lines("tries")) == 1
        place.path("sound").touch()
        assert place.run("k", script).returncode == 0
        assert len(place.lines("tries")) == 2
    finally:
        place.close()


def test_a_retry_that_comes_to_nothing_leaves_the_doubt(place):
    """It says nothing about the attempt before: the key must not be free for who does not retry."""
    key, script = place.key(), place.path("charge")
    script.write_text("#!/bin/sh\necho $ONCE_DOUBT >> charges\ntest -e refused && exit 3\n"
                      "test -e sound || kill -9 $$\n")
    script.chmod(0o755)
    words = [key, "--", "./charge"]
    assert place.run(*words).returncode == 76
    script.chmod(0o644)
    done = place.run(key, "--on-doubt", "retry", "--", "./charge")
    assert done.returncode == 126 and b"stays in doubt" in done.stderr, done
    script.chmod(0o755)
    assert place.run(*words).returncode == 76
    place.path("refused").touch()
    done = place.run(key, "--on-doubt", "retry", "--", "./charge")
    assert done.returncode == 76 and b"exit status 3" in done.stderr, done
    place.path("refused").unlink()
    place.path("sound").touch()
    assert place.run(*words).returncode == 76
    assert place.lines("charges") == ["", "1"]
    assert place.run(key, "--on-doubt", "retry", "--", "./charge").returncode == 0
    assert REPLAYED in place.run(*words).stderr
    assert place.lines("charges") == ["", "1", "1"]
    for name in ("charge", "charges", "sound"):
        place.path(name).unlink()


def test_a_doubt_that_is_resolved(place):
    done, undone = place.key(), place.key()
    script = "echo x >> resolved; test $ONCE_ATTEMPT = 2 || kill -9 $$"
    for key in (done, undone):
        assert place.run(key, script).returncode == 76
    answer = place.once("resolve", done, "--done", "--code", "3", "--result", "by hand")
    assert answer.returncode == 0, answer
    again = place.run(done, script)
    assert (again.returncode, again.stdout) == (3, b"by hand"), again
    assert place.once("resolve", undone, "--not-done").returncode == 0
    assert len(place.lines("resolved")) == 2
    assert place.run(undone, script).returncode == 0
    assert len(place.lines("resolved")) == 3
    place.path("resolved").unlink()


def test_one_that_is_running_is_busy(place):
    key = place.key()
    os.mkfifo(place.path("go"))
    script = "echo x >> busy; read line < go; echo done"
    first = place.start(key, script)
    place.has("busy")
    for words in ([], ["--wait", "100ms"], ["--on-doubt", "retry"]):
        done = place.run(key, *words, script)
        assert done.returncode == 75, done
        assert f"process {first.pid} of this machine".encode() in done.stderr
    assert place.run(key, "other").returncode == 65
    waiters = [place.start(key, "--wait", "1m", script) for _ in range(3)]
    place.path("go").write_text("on\n")
    for process in [first, *waiters]:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and out == b"done\n", err
        assert (REPLAYED in err) == (process is not first)
    assert place.lines("busy") == ["x"]
    place.path("busy").unlink()
    place.path("go").unlink()


def test_fifty_shells_at_once(place):
    key = place.key()
    script = "echo x >> fifty; echo the answer"
    shells = [place.start(key, script) for _ in range(50)]
    replays = busy = 0
    for shell in shells:
        out, err = shell.communicate(timeout=120)
        if shell.returncode == 75:
            busy += 1
            continue
        assert shell.returncode == 0 and out == b"the answer\n", err
        replays += REPLAYED in err
    assert place.lines("fifty") == ["x"]
    assert replays + busy == 49
    place.path("fifty").unlink()


def test_json(place):
    key = place.key()
    script = "printf 'a\\377'; echo b >&2; exit 0"
    for verdict in ("EXECUTE", "REPLAY"):
        done = place.run(key, "--json", script)
        said = json.loads(done.stdout)
        assert done.returncode == 0
        assert said["verdict"] == verdict and said["exit_status"] == 0 and said["key"] == key
        assert said["stdout_base64"] == "Yf8=" and said["stderr"] == "b\n" and said["lost"] == 0
    assert said.get("fence") is None
    for script, status, verdict in (("exit 4", 4, "FAILED"), ("kill -9 $$", 76, "DOUBT")):
        key = place.key()
        done = place.run(key, "--json", script)
        said = json.loads(done.stdout)
        assert (done.returncode, said["exit_status"], said["verdict"]) == (status, status, verdict)
        assert said["fence"] > 0 and said["attempt"] == 1
    mismatch = place.run(key, "--json", "other")
    assert json.loads(mismatch.stdout)["verdict"] == "MISMATCH"
    assert json.loads(place.run("k\n", "--json", "x").stdout)["exit_status"] == 64


def test_answers_are_kept_as_long_as_is_said(place):
    key = place.key()
    words = ["--ttl", "300ms", "echo x >> kept"]
    assert place.run(key, *words).returncode == 0
    end = time.monotonic() + 30
    while len(place.lines("kept")) == 1 and time.monotonic() < end:
        assert place.run(key, *words).returncode == 0
    assert len(place.lines("kept")) == 2
    place.path("kept").unlink()


def test_keys_that_are_too_old(place):
    key = "01890000-0000-7000-8000-000000000000"  # a UUIDv7 of the year 2023
    done = place.run(key, "echo x >> old")
    assert done.returncode == 77 and b"born longer ago" in done.stderr, done
    assert place.lines("old") == []
    future = "0fff0000-0000-7000-8000-000000000000"
    assert place.run(future, "echo x >> old").returncode == 64
    assert place.lines("old") == []


@pytest.mark.parametrize("words, said", [
    ([], "which key?"),
    (["k"], "which command?"),
    (["--", "true"], "the key comes before --"),
    (["k", "true"], "the command comes behind --"),
    (["", "--", "true"], "the key ''"),
    (["k\t", "--", "true"], "character 2"),
    (["k" * 256, "--", "true"], "character 256"),
    (["-n", "a b", "k", "--", "true"], "the namespace 'a b'"),
    (["k", "--wait", "soon", "--", "true"], "--wait takes"),
    (["k", "--lease", "10ms", "--", "true"], "--lease takes"),
    (["k", "--ttl", "9999d", "--", "true"], "--ttl takes"),
    (["k", "--success", "0,256", "--", "true"], "--success takes"),
    (["k", "--success", "3-1", "--", "true"], "--success takes"),
    (["k", "--success", "0,", "--", "true"], "--success takes"),
    (["k", "--doubt", "0", "--", "true"], "stands in --success and in --doubt"),
    (["k", "--on-doubt", "maybe", "--", "true"], "reject or retry"),
    (["k", "--output-max", "1e6", "--", "true"], "--output-max takes"),
    (["k", "--env", "A=b", "--", "true"], "--env takes"),
    (["k", "--inputs", "f", "--", "true"], "--input"),
    (["k", "--dir", "x", "--server", "y:1", "--", "true"], "give one"),
])
def test_mistakes(words, said, tmp_path):
    done = subprocess.run([once_binary(), "run", *words], capture_output=True, text=True,
                          cwd=tmp_path, env=dict(os.environ, HOME=str(tmp_path)), timeout=60)
    assert done.returncode == 64 and said in done.stderr, done
    assert done.stdout == "" and not list(tmp_path.iterdir())


def test_stores_that_are_not_there(tmp_path):
    for where, status in ((["--server", "127.0.0.1:1"], 69), (["--dir", "/proc/x"], 69)):
        done = subprocess.run([once_binary(), "run", "k", *where, "--", "touch", "ran"],
                              capture_output=True, cwd=tmp_path, timeout=60)
        assert done.returncode == status, done
        assert not list(tmp_path.iterdir())


def test_results_of_others(folder):
    """Whoever may resolve may write anything there; it is shown, and nothing more."""
    for result in ('{"once":"run","version":1,"frames":[[1,5]],"kept":5,"lost":0}\nab',
                   '{"once":"run","version":1,"frames":[[7,2]],"kept":2,"lost":0}\nab',
                   '{"once":"run","version":1,"frames":[[1,99999999999999999999]],"kept":2,"lost":0}\n',
                   '{"once":"run","version":2,"frames":[],"kept":0,"lost":0}\n', "plain"):
        key = folder.key()
        assert folder.run(key, "kill -9 $$").returncode == 76
        assert folder.once("resolve", key, "--done", "--result", result).returncode == 0
        done = folder.run(key, "kill -9 $$")
        assert done.returncode == 0 and done.stdout.decode() == result, done
    key = folder.key()
    assert folder.run(key, "kill -9 $$").returncode == 76
    assert folder.once("resolve", key, "--done", "--code", "500").returncode == 0
    done = folder.run(key, "kill -9 $$")
    assert done.returncode == 1 and b"code 500" in done.stderr
