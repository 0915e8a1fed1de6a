# SPDX-License-Identifier: Apache-2.0
"""`once key` as a user runs it: every action with good and bad input, for people and machines."""
import hashlib
import json
import re
import subprocess
import time
import uuid

import pytest

HOSTILE = "\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def key(once_bin):
    def run(*args, **options):
        return subprocess.run([once_bin, "key", *args], timeout=60, text=True, capture_output=True,
                              check=False, **options)
    return run


def lines(done):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def refused(done, *texts):
    """A mistake of the user: named on stderr, nothing on stdout."""
    assert done.returncode == 64
    assert done.stdout == ""
    assert done.stderr.startswith("once key: ")
    for text in texts:
        assert text in done.stderr
    return done.stderr


def refused_json(done):
    """The same with --json: one object on stdout besides."""
    assert done.returncode == 64
    assert done.stderr.startswith("once key: ")
    assert done.stdout.count("\n") == 1
    error = json.loads(done.stdout)
    assert error["exit_status"] == 64
    assert error["error"] in done.stderr
    return error


# --- Making keys ---


@pytest.mark.parametrize("version", [4, 7])
def test_uuid__any_count__are_different_and_of_their_version(key, version):
    keys = lines(key(f"uuid{version}", "-n", "1000"))
    assert len(set(keys)) == 1000
    for text in keys:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (version, uuid.RFC_4122)
    assert len(lines(key(f"uuid{version}"))) == 1


def test_uuid7__many__increase_and_carry_the_time(key):
    before_ms = time.time_ns() // 1000000
    keys = lines(key("uuid7", "-n", "5000")) + lines(key("uuid7"))
    after_ms = time.time_ns() // 1000000
    assert keys[:-1] == sorted(set(keys[:-1]))
    assert before_ms <= int(keys[0].replace("-", "")[:12], 16) <= after_ms
    # Another process: later by its time, or in the same millisecond.
    assert keys[-1][:13] >= keys[0][:13]


@pytest.mark.parametrize("count", ["0", "-1", "1000001", "x", "", "1.5", "0x10", " 1",
                                   "18446744073709551617"])
def test_uuid__count_out_of_bounds__is_refused(key, count):
    refused(key("uuid7", "-n", count), "-n takes a number of keys from 1 to 1000000", "--help")
    refused(key("uuid4", f"-n={count}"), "-n takes")


def test_uuid__largest_count__is_made(key):
    assert len(lines(key("uuid4", "-n", "1000000"))) == 1000000


def test_uuid__json__is_one_object_a_line(key):
    keys = [json.loads(line)["key"] for line in lines(key("uuid7", "--json", "-n", "3"))]
    assert len({uuid.UUID(text) for text in keys}) == 3


def test_digest__parts__is_sha256_of_lengths_and_parts(key):
    parts = ["refund", "", "café", "-5"]
    expected = hashlib.sha256(b"".join(len(p.encode()).to_bytes(8, "big") + p.encode()
                                       for p in parts)).hexdigest()
    assert lines(key("digest", *parts)) == [expected]
    assert json.loads(key("digest", "--json", *parts).stdout) == {"key": expected}
    assert lines(key("digest", "ab", "c")) != lines(key("digest", "a", "bc"))
    refused(key("digest"), "an argument is missing", "PART...")


def test_sequence__client_and_number__are_joined(key):
    assert lines(key("sequence", "till-7", "0")) == ["till-7:0"]
    assert lines(key("sequence", "a:b", "18446744073709551615")) == ["a:b:18446744073709551615"]
    assert json.loads(key("sequence", "--json", 'q"', "1").stdout) == {"key": 'q":1'}


@pytest.mark.parametrize("args, text", [
    (["till"], "an argument is missing"),
    (["till", "1", "2"], "'2' is one argument too many"),
    (["till", "-1"], "'-1' is not a sequence number"),
    (["till", "18446744073709551616"], "is not a sequence number"),
    (["", "1"], "ERR_KEY"),
    (["caf\u00e9", "1"], "ERR_KEY_CHARACTER at offset 3"),
    (["x" * 254, "1"], "at most 255 characters"),
])
def test_sequence__bad_input__is_named(key, args, text):
    refused(key("sequence", *args), text)


def test_business__good_ids__come_back(key):
    for text in ("order-8841", "a b", "x" * 255, '"\\'):
        assert lines(key("business", text)) == [text]
        assert json.loads(key("business", text, "--json").stdout) == {"key": text}
    assert lines(key("business", "--", "--help")) == ["--help"]


@pytest.mark.parametrize("text, code, offset", [
    ("", "ERR_KEY_EMPTY", 0),
    ("x" * 256, "ERR_KEY_TOO_LONG", 255),
    ("caf\u00e9", "ERR_KEY_CHARACTER", 3),
    ("a\tb", "ERR_KEY_CHARACTER", 1),
    (HOSTILE, "ERR_KEY_CHARACTER", 0),
])
def test_business__bad_ids__are_pointed_at(key, text, code, offset):
    told = refused(key("business", text), f"({code} at offset {offset})")
    if text:
        assert told.splitlines()[2].strip() == "^"
    assert "\x1b" not in told and "\x07" not in told
    error = refused_json(key("business", "--json", text))
    assert (error["valid"], error["code"], error["offset"]) == (False, code, offset)


# --- Explaining ---


def test_explain__each_kind__is_recognized(key):
    digest = lines(key("digest", "a"))[0]
    fresh = lines(key("uuid7"))[0]
    for text, kind in ((fresh, "uuid7"), (lines(key("uuid4"))[0], "uuid4"), (digest, "digest"),
                       ("till-7:42", "sequence"), ("till-7:042", "business"),
                       ("00000000-0000-0000-0000-000000000000", "uuid")):
        explained = json.loads(lines(key("explain", "--json", text))[0])
        assert (explained["valid"], explained["key"], explained["kind"]) == (True, text, kind)
        assert explained["accepted"] is True
        assert ("born_ms" in explained) == (kind == "uuid7")
        assert lines(key("explain", text))[0] == f"key       {text}"


def test_explain__sequence__keeps_all_digits(key):
    explained = json.loads(key("explain", "--json", "c:18446744073709551615").stdout)
    assert (explained["client"], explained["sequence"]) == ("c", "18446744073709551615")


def test_explain__old_and_future_uuid7__are_not_accepted(key):
    for text in ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "ffffffff-ffff-7fff-bfff-ffffffffffff"):
        assert json.loads(key("explain", "--json", text).stdout)["accepted"] is False
    assert "TOO_OLD now" in key("explain", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f").stdout


def test_explain__header__reads_as_a_server_does(key):
    for value in ('"order-1"', "order-1", ' "order-1" '):
        assert json.loads(key("explain", "--header", "--json", value).stdout)["key"] == "order-1"
    error = refused_json(key("explain", "--json", "--header", '"a", "b"'))
    assert (error["code"], error["offset"]) == ("ERR_KEY_TRAILING", 3)
    refused(key("explain", "--header", '"' + HOSTILE + '"'), "\\x1b")
    refused(key("explain"), "an argument is missing")
    refused(key("explain", "a", "b"), "'b' is one argument too many")


# --- Fingerprints ---


def fingerprint_of(done):
    text, = lines(done)
    assert re.fullmatch(r"[0-9a-f]{64}", text)
    return text


def test_fingerprint__everything_that_counts__counts(key, tmp_path):
    body = tmp_path / "body"
    body.write_text('{"a": 1}')
    seen = {fingerprint_of(key("fingerprint", *args)) for args in (
        [], ["--method", "PUT"], ["--path", "/x"], ["--query", "a=1"], ["--header", "A: b"],
        ["--header", "A: c"], ["--header", "A: b", "--header", "A: c"], [str(body)],
        ["--json-body", str(body)])}
    assert len(seen) == 9
    assert fingerprint_of(key("fingerprint", "--header=A: b")) == \
        fingerprint_of(key("fingerprint", "--header", "a:  b "))
    assert fingerprint_of(key("fingerprint", "-", input='{"a": 1}')) == \
        fingerprint_of(key("fingerprint", str(body)))


def test_fingerprint__json_body__is_the_canonical_one(key):
    first = key("fingerprint", "--json-body", "--json", "-", input='{"b":1.0,"a":"caf\u00e9"}')
    second = key("fingerprint", "--json-body", "-", input='{ "a":"caf\\u00e9", "b":1 }')
    report = json.loads(first.stdout)
    assert report == {"fingerprint": fingerprint_of(second), "body_form": "json"}
    assert json.loads(key("fingerprint", "--json").stdout)["body_form"] == "raw"


@pytest.mark.parametrize("body, code, offset", [
    ("", "ERR_JSON", 0),
    ('{"a":1', "ERR_JSON", 6),
    ("[9007199254740993]", "ERR_JSON_NUMBER", 1),
    ('["' + HOSTILE + '"]', "ERR_JSON", 2),
])
def test_fingerprint__bad_json_body__is_pointed_at(key, body, code, offset):
    told = refused(key("fingerprint", "--json-body", "-", input=body), f"({code} at offset {offset})")
    assert "\x1b" not in told
    error = refused_json(key("fingerprint", "--json-body", "--json", "-", input=body))
    assert (error["code"], error["offset"]) == (code, offset)


def test_fingerprint__largest_json_body__and_one_byte_more(key):
    size = 1 << 20
    assert fingerprint_of(key("fingerprint", "--json-body", "-", input="1".ljust(size)))
    refused(key("fingerprint", "--json-body", "-", input="1".ljust(size + 1)),
            "too large for --json-body: at most 1048576 bytes")
    assert fingerprint_of(key("fingerprint", "-", input="1".ljust(size + 1)))


@pytest.mark.parametrize("args, text", [
    (["--json-body"], "needs a body"),
    (["--path", "/a?b"], "has a query in it"),
    (["--header", "no colon"], "is not a header"),
    (["--header", ": x"], "is not a header"),
    (["nowhere/to/be/found"], "No such file"),
    (["/"], "cannot read"),
    (["a", "b"], "'b' is one argument too many"),
])
def test_fingerprint__bad_arguments__are_named(key, args, text):
    refused(key("fingerprint", *args), text)
    assert text in refused_json(key("fingerprint", "--json", *args))["error"]


# --- The frame ---


def test_arguments__wrong__are_usage_errors(key):
    assert key().returncode == 64
    refused(key("frobnicate"), "there is no action 'frobnicate'")
    refused(key("uuid7", "--header"), "there is no option '--header' here")
    refused(key("digest", "-n", "3", "x"), "there is no option '-n' here")
    refused(key("uuid7", "-n"), "-n needs a value")
    refused(key("uuid7", "--json=yes"), "--json takes no value")
    refused(key("uuid7", "extra"), "one argument too many")
    told = refused(key("uuid7", HOSTILE))
    assert "\x1b" not in told


def test_json__text_that_is_not_ascii__is_utf8_or_escaped(key, once_bin):
    done = key("fingerprint", "--json", "/caf\u00e9\u20ac\U0001f600")
    assert "/caf\\xc3" in refused_json(done)["error"]
    raw = subprocess.run([once_bin, "key", "fingerprint", "--json", b"\xff\xfe"],
                         capture_output=True, timeout=60, check=False)
    assert raw.returncode == 64
    assert b"\\xff\\xfe" in json.loads(raw.stdout)["error"].encode()


def test_output__full_disk__is_internal(once_bin):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([once_bin, "key", "uuid7"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
    assert done.returncode == 71 and "cannot write" in done.stderr
