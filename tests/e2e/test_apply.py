# SPDX-License-Identifier: Apache-2.0
"""once apply and once object, on real stores."""
import base64
import ctypes
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("ONCE_BIN", ROOT / "build" / "once")).resolve()
LIBRARY = Path(os.environ.get("ONCE_LIB", BINARY.parents[2] / "libonce.so"))


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Name(ctypes.Structure):
    _fields_ = [("ns", Bytes), ("key", Bytes)]


class BeginOptions(ctypes.Structure):
    _fields_ = [("fingerprint", Bytes), ("owner", Bytes), ("ttl_ms", ctypes.c_int64),
                ("lease_ms", ctypes.c_int64), ("on_doubt", ctypes.c_int)]


class Reply(ctypes.Structure):
    """The beginning of struct once_reply, and room for the rest."""
    _fields_ = [("err", ctypes.c_int), ("word", ctypes.c_int), ("what", ctypes.c_char_p),
                ("effect", ctypes.c_uint32), ("fence", ctypes.c_uint64),
                ("rest", ctypes.c_uint64 * 64)]


class Program:
    """Another program that uses the store, through the real library."""

    def __init__(self, folder):
        self.library = ctypes.CDLL(str(LIBRARY))
        self.handle = ctypes.c_void_p()
        assert self.library.once_open(os.fsencode(folder), None, ctypes.byref(self.handle), None) == 0

    def call(self, function, key, *args):
        reply = Reply()
        err = function(self.handle, Name(Bytes(b"pay", 3), Bytes(key, len(key))), *args,
                       ctypes.byref(reply))
        fence = reply.fence
        self.library.once_reply_release(ctypes.byref(reply))
        assert err == 0
        return fence

    def begin(self, key, fingerprint):
        options = BeginOptions(fingerprint=Bytes(fingerprint, len(fingerprint)))
        return self.call(self.library.once_begin, key, ctypes.byref(options))

    def complete(self, key, fence, code, result):
        self.call(self.library.once_complete, key, ctypes.c_uint64(fence), ctypes.c_int32(code),
                  Bytes(result, len(result)))

    def give_up(self, key, fence):
        self.call(self.library.once_renew, key, ctypes.c_uint64(fence), ctypes.c_int64(0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.library.once_close(self.handle) == 0


class Shell:
    """The command line on one folder."""

    def __init__(self, once_bin, folder):
        self.once_bin, self.folder = once_bin, folder
        self.env = {k: v for k, v in os.environ.items() if k not in ("ONCE_DIR", "XDG_DATA_HOME")}
        self.env |= {"HOME": str(folder.parent), "ONCE_DIR": str(folder)}

    def run(self, *args, binary=False, **options):
        return subprocess.run([self.once_bin, *map(str, args)], text=not binary, env=self.env,
                              capture_output=True, timeout=120, **options)

    def apply(self, *args):
        return self.run("apply", *args)

    def json(self, *args, status=0, **options):
        done = self.run(*args, "--json", **options)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def object(self, name):
        return self.json("object", name)


@pytest.fixture
def shell(once_bin, tmp_path):
    return Shell(once_bin, tmp_path / "store")


# ---- apply ---------------------------------------------------------------------------------------

CHARGE = ("ADD acct:42 -100 MIN 0", 'EMIT charges {"amount": 100}')


def test_first_time_applies_and_again_replays(shell):
    assert shell.apply("bank", "opening", "ADD acct:42 1000").returncode == 0
    done = shell.apply("pay", "order-7", *CHARGE)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout == ("APPLIED\n  ADD acct:42 -100 MIN 0 -> 900\n"
                           '  EMIT charges {"amount": 100} -> 1\n')
    again = shell.apply("pay", "order-7", *CHARGE)
    assert again.returncode == 0
    assert again.stdout == done.stdout.replace("APPLIED", "REPLAYED")
    assert shell.json("apply", "pay", "order-7", *CHARGE) == {"verdict": "REPLAY",
                                                              "results": [900, 1]}
    assert shell.json("apply", "pay", "order-8", *CHARGE) == {"verdict": "APPLIED",
                                                              "results": [800, 2]}
    assert shell.object("acct:42") == {"name": "acct:42", "type": "counter", "value": 800}


def test_another_request_under_the_key_is_a_mismatch(shell):
    shell.apply("pay", "k", "ADD n 1")
    done = shell.apply("pay", "k", "ADD n 2")
    assert done.returncode == 65 and done.stdout == "MISMATCH\n"
    assert "another request" in done.stderr and "once key" in done.stderr
    assert shell.json("apply", "pay", "k", "ADD n 2", status=65)["verdict"] == "MISMATCH"
    assert shell.object("n")["value"] == 1
    # Another namespace is another key.
    assert shell.json("apply", "other", "k", "ADD n 2")["results"] == [3]


def test_fingerprint_says_what_must_be_the_same(shell):
    assert shell.apply("pay", "k", "--fingerprint", "body-1", "ADD n 1").returncode == 0
    replay = shell.apply("pay", "k", "--fp=body-1", "ADD n 7", "ADD n 8")
    assert replay.returncode == 0 and replay.stdout == "REPLAYED\n  effect 1 -> 1\n"
    assert shell.apply("pay", "k", "--fp", "body-2", "ADD n 1").returncode == 65
    assert shell.apply("pay", "k", "ADD n 1").returncode == 65
    assert shell.object("n")["value"] == 1


def test_rejection_is_an_answer_and_replays(shell):
    shell.apply("bank", "opening", "ADD acct:42 50")
    done = shell.apply("pay", "k", "FLAG seen", "ADD acct:42 -100 MIN 0")
    assert done.returncode == 77 and done.stdout == "REJECTED\n"
    assert "effect 2, 'ADD acct:42 -100 MIN 0'" in done.stderr and "BELOW_MIN" in done.stderr
    again = shell.apply("pay", "k", "FLAG seen", "ADD acct:42 -100 MIN 0")
    assert again.returncode == 77 and again.stdout == "REJECTED, replayed\n"
    assert again.stderr == done.stderr
    # The money is there now, and the answer stays what it was.
    shell.apply("bank", "more", "ADD acct:42 500")
    answer = shell.json("apply", "pay", "k", "FLAG seen", "ADD acct:42 -100 MIN 0", status=77)
    assert answer["verdict"] == "REJECTED" and answer["replayed"] is True
    assert (answer["rejected"], answer["word"]) == (2, "BELOW_MIN") and "50" in answer["reason"]
    fresh = shell.json("apply", "pay", "k2", "ADD acct:42 -1000 MIN 0", status=77)
    assert fresh["replayed"] is False
    assert shell.object("acct:42")["value"] == 550
    assert shell.run("object", "seen").returncode == 66  # all or nothing


def test_no_key(shell):
    assert shell.json("apply", "--no-key", "MAX high 17", "UNION who a b")["results"] == [17, 2]
    assert shell.json("apply", "--no-key", "MAX high 5", "UNION who b c")["results"] == [17, 1]
    for effect in ("ADD n 1", "APPEND log e1 x", "EMIT t x", "GRANT f", "BUCKET b x 1", "SET r v"):
        done = shell.apply("--no-key", effect)
        assert done.returncode == 64 and "key" in done.stderr and effect in done.stderr, effect
        name = effect.split()[1]
        assert shell.run("object", name).returncode == 66, "nothing happened"
    done = shell.apply("--no-key", "MAX high 99", "ADD n 1")
    assert done.returncode == 64 and "effect 2" in done.stderr and "once key" in done.stderr
    assert shell.object("high")["value"] == 17
    answer = shell.json("apply", "--no-key", "ADD n 1", status=64)
    assert answer["exit_status"] == 64 and "effect 1" in answer["error"]


def test_types_are_fixed_by_first_use(shell):
    shell.apply("n", "k", "ADD acct 1")
    done = shell.apply("n", "k2", "MAX other 1", "MAX acct 5")
    assert done.returncode == 64 and "effect 2" in done.stderr and "counter" in done.stderr
    assert shell.object("acct")["type"] == "counter"
    # An error is no answer: the key is free.
    assert shell.apply("n", "k2", "ADD acct 1").stdout.startswith("APPLIED")


@pytest.mark.parametrize("args, parts", [
    ([], ["namespace", "once key uuid7"]),
    (["ADD n 1"], ["one argument is too few", "--no-key"]),
    (["pay", "k"], ["two arguments are too few"]),
    (["pay", "", "ADD n 1"], ["the key ''"]),
    (["pay", "k\n", "ADD n 1"], [r"the key 'k\x0a', character 2"]),
    (["pay", "k" * 256, "ADD n 1"], ["the key"]),
    (["my pay", "k", "ADD n 1"], ["the namespace 'my pay', character 3"]),
    (["pay", "k", ""], ["effect 1 is empty"]),
    (["pay", "k", "FLAG f", "  "], ["effect 2 is empty"]),
    (["pay", "k", "FLAG f", "AD n 1"], ["effect 2, word 1 'AD'"]),
    (["pay", "k", "ADD n 1x"], ["effect 1, word 3 '1x'", "whole number"]),
    (["pay", "k", "ADD n 1 MIN"], ["effect 1, word 5"]),
    (["pay", "k", "ADD n 1 LOW 2"], ["effect 1, word 4 'LOW'"]),
    (["pay", "k", "ADD n"], ["effect 1, word 3"]),
    (["pay", "k", 'EMIT t {"a": 1'], ["effect 1, character 8", "closed"]),
    (["pay", "k", "EMIT t 'a"], ["effect 1, character 8", "closed"]),
    (["pay", "k", "FLAG a b"], ["effect 1, word 3 'b'"]),
    (["pay", "k", "ADD \x1b[31m 1"], [r"word 2 '\x1b[31m'"]),
    (["pay", "k", "--ttl", "5", "ADD n 1"], ["--ttl", "24h", "'5'"]),
    (["pay", "k", "--ttl", "0h", "ADD n 1"], ["--ttl"]),
    (["pay", "k", "--ttl", "4000d", "ADD n 1"], ["--ttl"]),
    (["pay", "k", "--ttl", "99999999999999999999999h", "ADD n 1"], ["--ttl"]),
    (["pay", "k", "--fp", "", "ADD n 1"], ["fingerprint is empty"]),
    (["--no-key"], ["which effects?"]),
    (["--no-key", "--ttl", "5m", "FLAG f"], ["--no-key keeps no answer", "--ttl"]),
    (["--no-key", "--fp", "x", "FLAG f"], ["--no-key keeps no answer", "--fingerprint"]),
    (["--no-key", "pay", "k", "FLAG f"], ["effect 1, word 1 'pay'"]),
    (["pay", "k", "--nonsense", "FLAG f"], ["no option '--nonsense'"]),
    (["pay", "k", *["FLAG f"] * 65], ["65 effects are too many", "64"]),
    (["pay", "k", "UNION s " + "a " * 4096], ["more than 4096 words"]),
], ids=str)
def test_mistakes_are_named_and_make_no_store(shell, args, parts):
    done = shell.apply(*args)
    assert done.returncode == 64 and not done.stdout
    assert "\x1b" not in done.stderr and "--help" in done.stderr or "character" in done.stderr
    for part in parts:
        assert part in done.stderr
    answer = shell.json("apply", *args, status=64)
    assert answer["exit_status"] == 64 and parts[0] in answer["error"]
    assert not shell.folder.exists()


def test_caret_points_at_the_word(shell):
    lines = shell.apply("pay", "k", "ADD 'a name' 1x MIN 0").stderr.splitlines()
    text = next(i for i, line in enumerate(lines) if "ADD 'a name'" in line and "^" in lines[i + 1])
    assert lines[text + 1].index("^") == lines[text].index("1x")


def test_quotes_and_json(shell):
    shell.apply("n", "1", "SET greeting 'good morning'")
    assert shell.object("greeting")["value"] == "good morning"
    shell.apply("n", "2", r'SET greeting "she said \"hi\""')
    assert shell.object("greeting")["value"] == 'she said "hi"'
    shell.apply("n", "3", 'SET greeting {"a": [1, "} "]} IF 2')
    assert shell.object("greeting")["value"] == '{"a": [1, "} "]}'


def test_words_are_matched_without_regard_to_case(shell):
    assert shell.json("apply", "n", "1", "add n 5 max 10")["results"] == [5]


def test_ttl_is_how_long_the_answer_is_kept(shell):
    assert shell.apply("n", "short", "--ttl", "1ms", "ADD n 1").returncode == 0
    assert shell.apply("n", "long", "--ttl", "7d", "ADD n 1").returncode == 0
    deadline = time.monotonic() + 30
    # Behind its time a key is new again: that is what a window is. Mostly at once.
    while not shell.apply("n", "short", "--ttl", "1ms", "ADD n 1").stdout.startswith("APPLIED"):
        assert time.monotonic() < deadline
    assert shell.apply("n", "long", "--ttl", "7d", "ADD n 1").stdout.startswith("REPLAYED")


def test_a_key_that_is_older_than_its_answer_is_refused(shell):
    old = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    done = shell.apply("n", old, "ADD n 1")
    assert done.returncode == 77 and done.stdout == "TOO_OLD\n" and "longer ago" in done.stderr
    assert shell.json("apply", "n", old, "ADD n 1", status=77)["verdict"] == "TOO_OLD"


def test_a_key_that_someone_began(shell):
    with Program(shell.folder) as program:
        program.begin(b"running", b"fp")
        program.give_up(b"lost", program.begin(b"lost", b"fp"))
    for key, status, word, part in (("running", 75, "BUSY", "Come back"),
                                    ("lost", 76, "DOUBT", "resolve")):
        done = shell.apply("pay", key, "--fp", "fp", "ADD n 1")
        assert done.returncode == status and done.stdout == f"{word}\n"
        assert part in done.stderr and "nothing happened" in done.stderr
        answer = shell.json("apply", "pay", key, "--fp", "fp", "ADD n 1", status=status)
        assert answer["verdict"] == word and answer["exit_status"] == status
        assert answer.get("retry_ms", 1) > 0 and answer.get("fence", 1) > 0
        # Another request is told that before anything else.
        assert shell.apply("pay", key, "ADD n 1").returncode == 65
    assert shell.run("object", "n").returncode == 66


def test_a_key_that_was_completed_elsewhere_replays_its_answer(shell):
    with Program(shell.folder) as program:
        for key, code, result in ((b"a", 201, b"receipt \x1b[31m"), (b"b", 0, b"\xff"),
                                  (b"c", 1, b"not a rejection")):
            program.complete(key, program.begin(key, b"fp"), code, result)
    done = shell.apply("pay", "a", "--fp", "fp", "ADD n 1")
    assert done.returncode == 0 and done.stdout.startswith("REPLAYED\n")
    assert r"code 201: receipt \x1b[31m" in done.stdout
    assert shell.json("apply", "pay", "a", "--fp", "fp", "ADD n 1") == {
        "verdict": "REPLAY", "code": 201, "result": "receipt \x1b[31m"}
    answer = shell.json("apply", "pay", "b", "--fp", "fp", "ADD n 1")
    assert answer == {"verdict": "REPLAY", "code": 0, "result_base64": "/w=="}
    assert shell.json("apply", "pay", "c", "--fp", "fp", "ADD n 1")["code"] == 1
    assert shell.run("object", "n").returncode == 66


def test_locked_store_names_its_owner(shell):
    with Program(shell.folder):
        for args in (["apply", "n", "k", "ADD n 1"], ["object"], ["object", "n"]):
            done = shell.run(*args)
            assert done.returncode == 69 and str(os.getpid()) in done.stderr, done.stderr
            assert shell.json(*args, status=69)["exit_status"] == 69


def test_damaged_store(shell, tmp_path):
    shell.apply("n", "k", "ADD n 1")
    (shell.folder / "store").write_bytes(b"nonsense" * 64)
    done = shell.apply("n", "k2", "ADD n 1")
    assert done.returncode in (69, 70) and "store" in done.stderr


def test_no_folder(shell):
    del shell.env["HOME"], shell.env["ONCE_DIR"]
    done = shell.apply("n", "k", "ADD n 1")
    assert done.returncode == 64 and "--dir" in done.stderr


def test_killed_between_answer_and_retry(shell):
    """Whenever it is killed, the retry finds one effect."""
    for number in range(20):
        child = subprocess.Popen([shell.once_bin, "apply", "n", f"k-{number}", "ADD n 1"],
                                 env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(number / 500)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        answer = shell.json("apply", "n", f"k-{number}", "ADD n 1")
        assert answer["results"] == [number + 1]
    assert shell.object("n")["value"] == 20


def test_help_names_every_effect_and_status(once_bin, shell):
    text = shell.run("apply", "--help").stdout
    laws = json.loads(subprocess.run([once_bin, "laws", "--json"], text=True, capture_output=True,
                                     timeout=120).stdout)
    forms = {row["form"].split()[0] for row in laws["operations"] if row["form"][:3].isupper()}
    assert len(forms) > 15
    for word in forms:
        assert re.search(rf"\b{word} \w", text), word
    for command, statuses in (("apply", "0 64 65 69 70 71 75 76 77"), ("object", "0 64 66 69 70 71")):
        text = shell.run(command, "--help").stdout
        assert all(re.search(rf"\b{s}\b", text.split("exit status:")[1]) for s in statuses.split())
        assert max(map(len, text.splitlines())) <= 100


# ---- object --------------------------------------------------------------------------------------

def test_list(shell):
    assert shell.run("object").returncode == 66
    assert not shell.folder.exists()
    shell.apply("n", "1", "ADD acct:42 5", "FLAG seen", "EMIT charges x")
    done = shell.run("object")
    assert done.stdout == "counter   acct:42\nflag      seen\noutbox    charges\n"
    listed = shell.json("object")
    assert listed["objects"][0] == {"name": "acct:42", "type": "counter"} and listed["cursor"] == 0
    names, cursor = [], 0
    while True:
        page = shell.json("object", "--after", cursor, "--count", 2)
        names += [item["name"] for item in page["objects"]]
        cursor = page["cursor"]
        if cursor == 0:
            break
    assert names == ["acct:42", "seen", "charges"]


def test_many_objects_are_listed(shell):
    for start in range(0, 1200, 60):
        effects = [f"FLAG flag:{i}" for i in range(start, start + 60)]
        assert shell.apply("--no-key", *effects).returncode == 0
    assert shell.run("object").stdout.count("flag      flag:") == 1200
    assert len(shell.json("object")["objects"]) == 1200


def test_empty_store_has_no_objects(shell):
    with Program(shell.folder):
        pass
    done = shell.run("object")
    assert done.returncode == 0 and not done.stdout and "no objects yet" in done.stderr
    assert shell.json("object") == {"objects": [], "cursor": 0}


def test_show(shell):
    shell.apply("n", "1", "ADD acct:42 900")
    assert shell.run("object", "acct:42").stdout == ("name      acct:42\ntype      counter\n"
                                                     "value     900\n")
    assert shell.run("object", "show", "acct:42").stdout == shell.run("object", "acct:42").stdout
    done = shell.run("object", "nobody")
    assert done.returncode == 66 and "'nobody'" in done.stderr and "once apply" in done.stderr
    assert shell.json("object", "nobody", status=66)["exit_status"] == 66


def test_objects_named_like_actions_and_options(shell):
    shell.apply("n", "1", "ADD merge 1", "ADD --json 2")
    assert "value     1" in shell.run("object", "show", "merge").stdout
    assert "value     2" in shell.run("object", "--", "--json").stdout


def test_every_type_is_shown(shell):
    effects = ["ADD counter 1", "MAX max 1", "MIN min 1", "FLAG flag", "UNION gset a", "CLOCK vv a 1",
               "LWW lww 1 a v", "GADD gcounter a 1", "PNADD pncounter a -1", "INSERT awset a m",
               "SET register v", "MACHINE machine a>b", "APPEND log e p", "GRANT fence",
               "LEASE lease me 1000", "SEQ sequence 0 0", "BUCKET buckets b 1", "EMIT outbox p"]
    assert shell.apply("n", "1", *effects).returncode == 0
    for effect in effects:
        name = effect.split()[1]
        shown = shell.object(name)
        assert shown["name"] == shown["type"] == name
        lines = shell.run("object", name).stdout.splitlines()
        assert lines[:2] == [f"name      {name}", f"type      {name}"]
        assert len(lines) == len(shown)


def test_hostile_values_do_not_reach_the_terminal(shell):
    shell.apply("n", "1", "SET r \x1b[31m\x07\u009b", "APPEND log \x1b[2J \x1b[31m\u009b",
                "UNION s \x1b[31m")
    for args in (["r"], ["r", "--json"], ["log", "--after", "0"], ["log", "--after", "0", "--json"],
                 ["s"], ["s", "--json"]):
        done = shell.run("object", *args)
        assert done.returncode == 0
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f]", done.stdout), args
    assert shell.json("object", "log", "--after", "0")["items"][0]["id"] == "\x1b[2J"


def test_bytes_that_are_no_utf8_are_base64(shell):
    subprocess.run([shell.once_bin, "apply", "n", "1", b"APPEND log e \xff\xfe", b"SET r \xff",
                    b"EMIT box \xff GROUP \xfe"],
                   env=shell.env, check=True, capture_output=True)
    item = shell.json("object", "log", "--after", "0")["items"][0]
    assert base64.b64decode(item["payload_base64"]) == b"\xff\xfe" and "payload" not in item
    assert base64.b64decode(shell.object("r")["value_base64"]) == b"\xff"
    item = shell.json("object", "box", "--after", "0")["items"][0]
    assert base64.b64decode(item["group_base64"]) == b"\xfe"
    assert r"\xff\xfe" in shell.run("object", "log", "--after", "0").stdout


def test_read_with_a_cursor(shell):
    for number in range(1, 8):
        shell.apply("n", f"k{number}", f"APPEND log e{number} payload-{number}",
                    f"EMIT box m{number}" + (" GROUP g" if number % 2 else ""),
                    f"BUCKET days 2026-01-0{number} {number}")
    for name in ("log", "box", "days"):
        items, cursor, pages = [], 0, 0
        while True:
            page = shell.json("object", name, "--after", cursor, "--count", 3)
            items += page["items"]
            cursor, pages = page["cursor"], pages + 1
            if not page["more"]:
                break
        assert len(items) == 7 and pages == 3
    assert items[6] == {"bucket": "2026-01-07", "count": 7}
    page = shell.json("object", "log", "--after", 6)
    assert page["items"] == [{"number": 7, "id": "e7", "payload": "payload-7"}]
    assert shell.json("object", "log", "--after", 7)["cursor"] == 7
    shell.apply("--no-key", "SENT box 1 2 3 5")
    page = shell.json("object", "box", "--after", 0)
    assert [i["number"] for i in page["items"]] == [4, 6, 7]
    assert page["items"][2]["group"] == "g" and "group" not in page["items"][0]
    done = shell.run("object", "log", "--count", "2")
    assert done.stdout == "1  e1  payload-1\n2  e2  payload-2\n" and "--after 2" in done.stderr
    assert shell.run("object", "box", "--count", "1").stdout == "4  -  m4\n"
    assert shell.run("object", "days", "--count", "1").stdout == "2026-01-01  1\n"


@pytest.mark.parametrize("args, parts", [
    (["object", "n", "--after", "0"], ["'n' is a counter", "logs"]),
    (["object", "n", "--count", "0"], ["--count", "1 to 1000"]),
    (["object", "n", "--count", "x"], ["'x'"]),
    (["object", "n", "--after", "-1"], ["--after", "'-1'"]),
    (["object", "n", "m"], ["'m' is one too many"]),
    (["object", ""], ["the name ''"]),
    (["object", "show"], ["show NAME"]),
    (["object", "delta"], ["delta NAME"]),
    (["object", "delta", "n"], ["'n' is a counter", "no delta"]),
    (["object", "delta", "s", "--since", "x"], ["--since", "'x'"]),
    (["object", "s", "--since", "1"], ["--since is for delta and changes"]),
    (["object", "delta", "s", "--count", "1"], ["--after and --count"]),
    (["object", "changes", "--since", "17"], ["'17' is no cursor"]),
    (["object", "changes", "--since", "00" * 16 + ".1.2"], ["no cursor"]),
    (["object", "changes", "s"], ["'s' is one too many"]),
    (["object", "merge", "s"], ["merge NAME TYPE"]),
    (["object", "merge", "s", "set"], ["'set' is no mergeable type", "gset"]),
    (["object", "merge", "s", "counter"], ["no mergeable type"]),
    (["object", "merge", "s", "gset"], ["byte 0"]),
    (["object", "merge"], ["once object changes"]),
    (["object", "sync"], ["sync OTHER"]),
    (["object", "sync", ""], ["empty"]),
    (["object", "sync", "http://localhost:7412"], ["address of a server"]),
    (["object", "sync", "redis://localhost"], ["address of a server"]),
    (["object", "sync", "a", "b"], ["'b' is one too many"]),
], ids=str)
def test_mistakes_of_object(shell, args, parts):
    shell.apply("n", "1", "ADD n 1", "UNION s a")
    done = shell.run(*args, input="nonsense")
    assert done.returncode == 64 and not done.stdout, done.stderr
    for part in parts:
        assert part in done.stderr
    assert parts[0] in shell.json(*args, status=64, input="nonsense")["error"]


# ---- exchange ------------------------------------------------------------------------------------

@pytest.fixture
def other(once_bin, tmp_path):
    return Shell(once_bin, tmp_path / "other")


def test_delta_and_merge(shell, other):
    shell.apply("--no-key", "UNION s a b")
    whole = shell.run("object", "delta", "s", binary=True)
    assert whole.returncode == 0 and b"--since" in whole.stderr
    version = re.search(rb"--since (\d+)", whole.stderr)[1].decode()
    merge = other.run("object", "merge", "s", "gset", input=whole.stdout, binary=True)
    assert merge.returncode == 0 and merge.stdout == b"merged\n"
    again = other.run("object", "merge", "s", "gset", input=whole.stdout, binary=True)
    assert again.stdout == b"merged; nothing in it was new\n"
    nothing = shell.json("object", "delta", "s", "--since", version)
    assert nothing["delta_base64"] == "" and str(nothing["version"]) == version
    shell.apply("--no-key", "UNION s c")
    delta = shell.json("object", "delta", "s", "--since", version)
    assert delta["type"] == "gset" and delta["version"] > int(version)
    answer = json.loads(other.run("object", "merge", "s", "gset", "--json", binary=True,
                                  input=base64.b64decode(delta["delta_base64"])).stdout)
    assert answer == {"name": "s", "type": "gset", "changed": True}
    a, b = (side.object("s") for side in (shell, other))
    assert a == b or {k: v for k, v in a.items() if k != "version"} == \
        {k: v for k, v in b.items() if k != "version"}
    # Another type, in the bytes or in the store.
    done = other.run("object", "merge", "s", "max", input=whole.stdout, binary=True)
    assert done.returncode == 64 and b"is a gset, not a max" in done.stderr
    other.apply("n", "1", "ADD n 1")
    done = other.run("object", "merge", "n", "gset", input=whole.stdout, binary=True)
    assert done.returncode == 64 and b"'n'" in done.stderr
    assert other.object("n")["value"] == 1
    done = other.run("object", "merge", "s", "gset", input=b"", binary=True)
    assert done.returncode == 64 and b"empty" in done.stderr
    assert shell.run("object", "delta", "nobody").returncode == 66


def test_bytes_are_not_sent_to_a_terminal(shell):
    import pty
    shell.apply("--no-key", "UNION s a")
    for args in (["delta", "s"], ["changes"]):
        master, slave = pty.openpty()
        done = subprocess.run([shell.once_bin, "object", *args], env=shell.env, stdout=slave,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(slave)
        os.close(master)
        assert done.returncode == 64 and "--json" in done.stderr


def test_changes_and_merge(shell, other):
    shell.apply("n", "1", "UNION s a", "MAX m 5", "ADD counter 1", "GADD g node-a 3")
    first = shell.run("object", "changes", binary=True)
    cursor = re.search(rb"--since (\S+)", first.stderr)[1].decode()
    done = other.run("object", "merge", input=first.stdout, binary=True)
    assert done.stdout == b"merged; news for 3 objects\n"
    for _ in range(2):
        done = other.run("object", "merge", "--json", input=first.stdout, binary=True)
        assert json.loads(done.stdout) == {"changed": 0}
    nothing = shell.json("object", "changes", "--since", cursor)
    assert nothing["changes_base64"] == "" and nothing["more"] is False
    shell.apply("--no-key", "MAX m 9")
    news = shell.json("object", "changes", "--since", nothing["cursor"])
    done = other.run("object", "merge", input=base64.b64decode(news["changes_base64"]), binary=True)
    assert done.stdout == b"merged; news for 1 object\n"
    assert other.object("m")["value"] == 9
    assert other.run("object", "counter").returncode == 66  # not mergeable, not exchanged


def test_nothing_new_is_no_bytes(shell):
    shell.apply("n", "1", "UNION s a", "ADD c 1")
    version = re.search(r"--since (\d+)", shell.run("object", "delta", "s", binary=True)
                        .stderr.decode())[1]
    cursor = json.loads(shell.run("object", "changes", "--json").stdout)["cursor"]
    for args in (["delta", "s", "--since", version], ["changes", "--since", cursor]):
        done = shell.run("object", *args, binary=True)
        assert done.returncode == 0 and done.stdout == b"" and b"0 bytes" in done.stderr
        assert b"runtime error" not in done.stderr  # of a build with sanitizers


def test_sync(shell, other):
    shell.apply("n", "1", "UNION s a", "MAX m 5", "GADD g a 3", "ADD counter 7")
    other.apply("n", "1", "UNION s b", "MAX m 4", "GADD g b 4", "FLAG up")
    done = shell.run("object", "sync", other.folder)
    assert done.returncode == 0 and "equal now" in done.stdout, done.stderr
    for side in (shell, other):
        assert side.object("m")["value"] == 5 and side.object("g")["value"] == 7
        assert side.run("object", "up").returncode == 0
    assert shell.run("object", "delta", "s", binary=True).stdout == \
        other.run("object", "delta", "s", binary=True).stdout
    assert shell.json("object", "sync", other.folder) == {"sent": 0, "received": 0}
    assert other.run("object", "counter").returncode == 66
    # A store that is not there yet is a replica that has nothing; the one to sync from must be there.
    assert shell.json("object", "sync", shell.folder.parent / "third")["sent"] == 4
    gone = Shell(shell.once_bin, shell.folder.parent / "gone")
    assert gone.run("object", "sync", other.folder).returncode == 66
    for name in (shell.folder, f"{shell.folder}/../store"):
        done = shell.run("object", "sync", name)
        assert done.returncode == 64 and "same folder" in done.stderr


def test_sync_of_many(shell, other):
    for start in range(0, 600, 60):
        shell.apply("--no-key", *[f"UNION set:{i} {'x' * 2000}" for i in range(start, start + 60)])
    assert shell.json("object", "sync", other.folder) == {"sent": 600, "received": 0}
    assert len(other.json("object")["objects"]) == 600


def test_sync_of_another_type(shell, other):
    shell.apply("n", "1", "UNION x a", "UNION s a")
    other.apply("n", "1", "ADD x 1", "UNION s b")
    done = shell.run("object", "sync", other.folder)
    assert done.returncode == 64
    assert "'x' is a gset" in done.stderr and "a counter" in done.stderr
    assert other.object("x")["value"] == 1
    assert shell.run("object", "delta", "s", binary=True).stdout == \
        other.run("object", "delta", "s", binary=True).stdout


def test_sync_of_an_object_at_its_bound(shell, other):
    """One set that does not fit any more keeps no other object from being exchanged."""
    for side, letter in ((shell, "a"), (other, "b")):
        for i in range(12):
            side.apply("--no-key", f"UNION big {letter}{i:02}{'x' * 50000}")
        for start in range(0, 600, 60):  # more than are merged at one go
            side.apply("--no-key", *[f"FLAG {letter}{i}" for i in range(start, start + 60)])
    done = shell.run("object", "sync", other.folder)
    assert done.returncode == 69 and "'big'" in done.stderr and "equal now" in done.stderr
    for side in (shell, other):
        assert len(side.json("object")["objects"]) == 1201
        assert side.object("big")["count"] == 12
    whole = shell.run("object", "changes", "--json")
    message = base64.b64decode(json.loads(whole.stdout)["changes_base64"])
    done = other.run("object", "merge", input=message, binary=True)
    assert done.returncode == 69 and b"the others were merged" in done.stderr


def test_sync_with_a_store_in_use(shell, other):
    shell.apply("--no-key", "FLAG f")
    with Program(other.folder):
        done = shell.run("object", "sync", other.folder)
        assert done.returncode == 69 and str(os.getpid()) in done.stderr
        assert str(other.folder) in done.stderr and "the same command again" in done.stderr
