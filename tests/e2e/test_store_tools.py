# SPDX-License-Identifier: Apache-2.0
"""once check, inspect and backup on real stores, written through the real library."""
import ctypes
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "engine" / "v1"
BINARY = Path(os.environ.get("ONCE_BIN", ROOT / "build" / "once")).resolve()
LIBRARY = Path(os.environ.get("ONCE_LIB", BINARY.parents[2] / "libonce.so"))
BLOCK = 4096
EXECUTE, REPLAY, BUSY, DONE = 0, 1, 2, 6


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Name(ctypes.Structure):
    _fields_ = [("ns", Bytes), ("key", Bytes)]


class Options(ctypes.Structure):
    _fields_ = [("durability", ctypes.c_int), ("interval_ms", ctypes.c_int64),
                ("disk_size_max", ctypes.c_uint64), ("keys_max", ctypes.c_uint64),
                ("objects_size_max", ctypes.c_uint64), ("segment_size", ctypes.c_uint32),
                ("must_exist", ctypes.c_bool), ("progress", ctypes.c_void_p),
                ("progress_user", ctypes.c_void_p)]


class Do(ctypes.Structure):
    _fields_ = [("words", ctypes.POINTER(Bytes)), ("count", ctypes.c_size_t)]


class ApplyOptions(ctypes.Structure):
    _fields_ = [("fingerprint", Bytes), ("ttl_ms", ctypes.c_int64)]


class Reply(ctypes.Structure):
    """The beginning of struct once_reply, and room for the rest."""
    _fields_ = [("err", ctypes.c_int), ("word", ctypes.c_int), ("what", ctypes.c_char_p),
                ("effect", ctypes.c_uint32), ("fence", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 64)]


def as_bytes(text):
    return Bytes(text, len(text))


class Store:
    def __init__(self, folder, segment_size=1 << 17):
        self.library = ctypes.CDLL(str(LIBRARY))
        for name in ("once_begin", "once_complete", "once_close", "once_apply"):
            getattr(self.library, name).restype = ctypes.c_int
        self.library.once_apply.argtypes = [ctypes.c_void_p, Name, ctypes.POINTER(ApplyOptions),
                                            ctypes.POINTER(Do), ctypes.c_size_t,
                                            ctypes.POINTER(Reply)]
        self.library.once_begin.argtypes = [ctypes.c_void_p, Name, ctypes.c_void_p,
                                            ctypes.POINTER(Reply)]
        self.library.once_complete.argtypes = [ctypes.c_void_p, Name, ctypes.c_uint64,
                                               ctypes.c_int32, Bytes, ctypes.POINTER(Reply)]
        self.handle = ctypes.c_void_p()
        message = ctypes.create_string_buffer(1024)
        options = Options(segment_size=segment_size)
        err = self.library.once_open(os.fsencode(folder), ctypes.byref(options),
                                     ctypes.byref(self.handle), message)
        if err != 0:
            raise RuntimeError(f"{err}: {message.value.decode()}")

    def call(self, function, *args):
        reply = Reply()
        function(self.handle, *args, ctypes.byref(reply))
        answer = (reply.err, reply.word, reply.fence)
        self.library.once_reply_release(ctypes.byref(reply))
        assert answer[0] == 0, answer
        return answer[1:]

    def begin(self, key):
        return self.call(self.library.once_begin, Name(as_bytes(b"pay"), as_bytes(key)), None)

    def complete(self, key, fence, result=b"r" * 3400):
        return self.call(self.library.once_complete, Name(as_bytes(b"pay"), as_bytes(key)), fence,
                         200, as_bytes(result))

    def apply(self, key, *effects, ttl_ms=0):
        """Effects are lines of plain words."""
        dos = (Do * len(effects))()
        for do, effect in zip(dos, effects):
            words = [as_bytes(word) for word in effect.encode().split()]
            do.words, do.count = (Bytes * len(words))(*words), len(words)
        return self.call(self.library.once_apply, Name(as_bytes(b"pay"), as_bytes(key)),
                         ctypes.byref(ApplyOptions(ttl_ms=ttl_ms)), dos, len(effects))

    def close(self):
        assert self.library.once_close(self.handle) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def key_of(number):
    return b"key-%d" % number


def write(folder, count):
    """Completed operations 0 … count - 1, two batches each; results so large that none expires."""
    with Store(folder) as store:
        for number in range(count):
            word, fence = store.begin(key_of(number))
            assert word == EXECUTE
            assert store.complete(key_of(number), fence)[0] == DONE
        wait_for_sidecars(folder)


def wait_for_sidecars(folder):
    """Every segment but the newest gets one, soon after it is full."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        begun = [p for p in folder.glob("*.seg") if p.read_bytes()[:8] == b"Oncesegm"]
        if len(list(folder.glob("*.idx"))) >= len(begun) - 1:
            return
        time.sleep(0.01)
    raise AssertionError("there are no sidecars")


def once(once_bin, *args, **options):
    return subprocess.run([once_bin, *map(str, args)], text=True, capture_output=True, timeout=120,
                          **options)


def checked(once_bin, folder, *more):
    """(exit status, the JSON object)"""
    done = once(once_bin, "check", "--dir", folder, "--json", *more)
    report = json.loads(done.stdout)
    assert report["exit_status"] == done.returncode
    return done.returncode, report


def flip(path, offset, mask=4):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


def segments_of(once_bin, folder):
    """{sequence: path} of the segments in use or expired."""
    found = {}
    for path in folder.glob("*.seg"):
        report = json.loads(once(once_bin, "inspect", "--json", path).stdout)
        if report["kind"] == "segment":
            found[report["segment"]] = path
    return found


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "store"
    write(folder, 80)
    return folder


@pytest.fixture
def store(written, tmp_path):
    return shutil.copytree(written, tmp_path / "store")


def test_clean_store(once_bin, store):
    before = {p.name: p.read_bytes() for p in store.iterdir() if p.name != "lock"}
    status, report = checked(once_bin, store)
    assert status == 0 and report["findings"] == [] and report["damages"] == 0
    assert report["records"] == 160 and report["newest"] >= 3
    assert report["segments"] == report["newest"] - report["oldest"] + 1
    assert {p.name: p.read_bytes() for p in store.iterdir() if p.name != "lock"} == before
    done = once(once_bin, "check", "--dir", store)
    assert done.returncode == 0 and "clean" in done.stdout


def test_which_folder(once_bin, store, tmp_path):
    home = tmp_path / "home"
    data = home / ".local" / "share"
    data.mkdir(parents=True)
    shutil.copytree(store, data / "once")
    env = {k: v for k, v in os.environ.items() if k not in ("ONCE_DIR", "XDG_DATA_HOME")}
    env["HOME"] = str(home)
    shown = once(once_bin, "check", "--json", env=env)
    assert json.loads(shown.stdout)["store"] == str(data / "once")
    env["XDG_DATA_HOME"] = str(tmp_path / "xdg")
    assert once(once_bin, "check", env=env).returncode == 66
    env["ONCE_DIR"] = str(store)
    assert json.loads(once(once_bin, "check", "--json", env=env).stdout)["store"] == str(store)
    assert once(once_bin, "check", "--dir", tmp_path / "none", env=env).returncode == 66
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    assert once(once_bin, "check", "--dir", tmp_path / "empty").returncode == 66
    assert list((tmp_path / "empty").iterdir()) == []  # not even a lock


def test_usage(once_bin, store):
    for args in (["check", "x"], ["check", "--yes"], ["check", "--nonsense"],
                 ["check", "--repair", "--dir", str(store)], ["inspect"], ["inspect", "a", "b"],
                 ["inspect", "--offset", "x", "a"], ["backup"], ["backup", "a", "b"]):
        done = once(once_bin, *args, stdin=subprocess.DEVNULL)
        assert done.returncode == 64, args
        assert "--help" in done.stderr
        done = once(once_bin, *args, "--json", stdin=subprocess.DEVNULL)
        assert json.loads(done.stdout)["exit_status"] == 64


def test_help_names_every_exit_status(once_bin):
    for command, statuses in (("check", "0 64 66 69 70 71"), ("inspect", "0 64 66 69 70 71"),
                              ("backup", "0 64 66 69 70 71")):
        text = once(once_bin, command, "--help").stdout.split("exit status:")[1]
        assert all(status in text for status in statuses.split())


def test_check_of_a_store_in_use_names_its_owner(once_bin, store):
    with Store(store):
        done = once(once_bin, "check", "--dir", store)
        assert done.returncode == 69
        assert str(os.getpid()) in done.stderr and "once backup" in done.stderr
    assert once(once_bin, "check", "--dir", store).returncode == 0


def test_damage_refuses_to_open_until_it_is_given_up(once_bin, store):
    path = segments_of(once_bin, store)[2]
    flip(path, 5 * BLOCK + 300)
    for sidecar in store.glob("*.idx"):
        sidecar.unlink()  # else nobody reads that far
    with pytest.raises(RuntimeError, match="damaged"):
        Store(store)
    status, report = checked(once_bin, store)
    assert status == 70
    damage = [f for f in report["findings"] if f["damage"]]
    assert len(damage) == 1 and damage[0]["kind"] == "batches"
    assert damage[0]["file"] == path.name and damage[0]["offset"] == 5 * BLOCK
    assert damage[0]["remedy"] == "give_up" and damage[0]["lost"]["batches"] == 1

    # Without a terminal and without --yes nothing happens.
    image = path.read_bytes()
    done = once(once_bin, "check", "--dir", store, "--repair", stdin=subprocess.DEVNULL)
    assert done.returncode == 64 and path.read_bytes() == image

    status, report = checked(once_bin, store, "--repair", "--yes")
    assert status == 0 and report["repaired"] is True
    assert (store / (path.name + ".damaged")).read_bytes() == image
    status, report = checked(once_bin, store)
    assert status == 0 and [f["kind"] for f in report["findings"]].count("given up") == 1

    with Store(store) as opened:
        words = [opened.begin(key_of(number))[0] for number in range(80)]
    assert words.count(REPLAY) >= 79  # the damaged batch held one record
    assert checked(once_bin, store)[0] == 0


def test_missing_segment(once_bin, store):
    path = segments_of(once_bin, store)[2]
    path.unlink()
    with pytest.raises(RuntimeError, match="missing"):
        Store(store)
    status, report = checked(once_bin, store)
    damage = [f for f in report["findings"] if f["damage"]]
    assert status == 70 and damage[0]["kind"] == "missing segment" and damage[0]["segment"] == 2
    assert damage[0]["lost"]["operations"] > 10 and not damage[0]["lost"]["at_least"]
    lost = damage[0]["lost"]["operations"]
    assert checked(once_bin, store, "--repair", "--yes")[0] == 0
    with Store(store) as opened:
        words = [opened.begin(key_of(number))[0] for number in range(80)]
    assert words.count(REPLAY) == 80 - lost
    assert checked(once_bin, store)[0] == 0


def test_damaged_sidecar_header_and_store_file_lose_nothing(once_bin, store):
    segments = segments_of(once_bin, store)
    flip(segments[1], 40)
    flip(next(iter(sorted(store.glob("*.idx")))), 80)
    status, report = checked(once_bin, store)
    assert status == 70
    assert {f["kind"] for f in report["findings"]} == {"header", "sidecar"}
    assert checked(once_bin, store, "--repair", "--yes")[0] == 0
    flip(store / "store", 100)
    status, report = checked(once_bin, store)
    assert status == 70 and report["findings"][0]["kind"] == "store file"
    assert checked(once_bin, store, "--repair", "--yes")[0] == 0
    with Store(store) as opened:
        assert all(opened.begin(key_of(number))[0] == REPLAY for number in range(80))


def answer(once_bin, store, text):
    """Runs a repair on a terminal and answers; gives the status and what it said."""
    master, slave = pty.openpty()
    child = subprocess.Popen([once_bin, "check", "--dir", store, "--repair"], stdin=slave,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(slave)
    os.write(master, text.encode())
    said = child.communicate(timeout=60)[0]
    os.close(master)
    return child.returncode, said


def test_repair_asks(once_bin, store):
    path = segments_of(once_bin, store)[2]
    flip(path, 5 * BLOCK + 300)
    image = path.read_bytes()
    for text in ("n\n", "\n", "what?\n"):
        status, said = answer(once_bin, store, text)
        assert status == 70 and "[y/N]" in said and "Nothing was changed" in said
        assert path.read_bytes() == image
    status, said = answer(once_bin, store, "y\n")
    assert status == 0 and "clean now" in said and path.read_bytes() != image


def test_inspect_golden_files(once_bin):
    shown = {}
    for name in ("store", "000000.seg", "000001.seg", "000001.idx"):
        done = once(once_bin, "inspect", "--json", "--records", GOLDEN / name)
        assert done.returncode == 0, name
        shown[name] = json.loads(done.stdout)
        text = once(once_bin, "inspect", "--records", GOLDEN / name)
        assert text.returncode == 0 and text.stdout
    secret = (GOLDEN / "store").read_bytes()[64:256]
    for name in ("--json", "--values"):
        assert secret.hex() not in once(once_bin, "inspect", name, GOLDEN / "store").stdout
    assert shown["store"]["kind"] == "store" and shown["store"]["secret_size"] == 192
    batches = shown["000001.seg"]["batches"]
    assert [b["number"] for b in batches] == list(range(batches[0]["number"],
                                                        batches[0]["number"] + len(batches)))
    assert batches[0]["records"][0]["key"] == "k-1"
    assert "result" not in batches[0]["records"][0]
    assert shown["000001.idx"]["entry_count"] == len(shown["000001.idx"]["entries"])

    values = json.loads(once(once_bin, "inspect", "--json", "--records", "--values",
                             GOLDEN / "000001.seg").stdout)
    record = values["batches"][0]["records"][0]
    assert len(record["result"]) == record["result_size"] == 9
    one = json.loads(once(once_bin, "inspect", "--json", "--offset", record["offset"] + 3,
                          GOLDEN / "000001.seg").stdout)
    assert len(one["batches"]) == 1 and len(one["batches"][0]["records"]) == 1


def test_inspect_shows_broken_parts_and_goes_on(once_bin, tmp_path):
    folder = shutil.copytree(GOLDEN, tmp_path / "golden")
    flip(folder / "000001.seg", 2 * BLOCK + 120)
    done = once(once_bin, "inspect", folder / "000001.seg")
    assert done.returncode == 70 and "offset 8192      DAMAGED up to 12288" in done.stdout
    report = json.loads(once(once_bin, "inspect", "--json", folder / "000001.seg").stdout)
    assert [b.get("damaged", False) for b in report["batches"]] == [False, True, False, False]
    for name, offset in (("000001.idx", 70), ("store", 30), ("000000.seg", 20)):
        flip(folder / name, offset)
        done = once(once_bin, "inspect", "--json", folder / name)
        assert done.returncode == 70 and json.loads(done.stdout)["what"]
    assert once(once_bin, "inspect", folder / "nothing").returncode == 66
    (folder / "letter").write_text("dear all\n")
    assert once(once_bin, "inspect", folder / "letter").returncode == 64


def test_inspect_escapes_what_others_wrote(once_bin, tmp_path):
    folder = tmp_path / "store"
    with Store(folder) as store:
        fence = store.begin(b'a"key')[1]
        store.complete(b'a"key', fence, b"\x1b[31m\xff")
    path = segments_of(once_bin, folder)[1]
    done = once(once_bin, "inspect", "--records", "--values", path)
    assert "\x1b" not in done.stdout
    assert r'"a\"key"' in done.stdout and r'"\x1b[31m\xff"' in done.stdout
    report = json.loads(once(once_bin, "inspect", "--records", "--values", "--json", path).stdout)
    record = report["batches"][1]["records"][0]
    assert record["key"] == 'a"key' and record["result"] == "\x1b[31m\\xff"


def test_backup_of_a_store_at_rest(once_bin, store, tmp_path):
    before = {p.name: p.read_bytes() for p in store.iterdir()}
    done = once(once_bin, "backup", "--dir", store, "--json", tmp_path / "copy")
    assert done.returncode == 0 and json.loads(done.stdout)["bytes"] > 0
    assert {p.name: p.read_bytes() for p in store.iterdir()} == before
    assert not (tmp_path / "copy.partial").exists()
    status, report = checked(once_bin, tmp_path / "copy")
    assert status == 0 and report["records"] == 160
    with Store(tmp_path / "copy") as opened:
        assert all(opened.begin(key_of(number))[0] == REPLAY for number in range(80))
    # Never over something.
    assert once(once_bin, "backup", "--dir", store, tmp_path / "copy").returncode == 64
    assert once(once_bin, "backup", "--dir", store, store / "inside").returncode == 64
    assert once(once_bin, "backup", "--dir", tmp_path / "none", tmp_path / "x").returncode == 66
    # What an interrupted one left is in nobody's way.
    (tmp_path / "next.partial").mkdir()
    (tmp_path / "next.partial" / "000000.seg").write_bytes(b"half")
    assert once(once_bin, "backup", "--dir", store, f"{tmp_path}/next/").returncode == 0
    assert checked(once_bin, tmp_path / "next")[0] == 0


def test_backup_of_a_damaged_store_is_refused(once_bin, store, tmp_path):
    path = segments_of(once_bin, store)[2]
    flip(path, 5 * BLOCK + 300)
    done = once(once_bin, "backup", "--dir", store, tmp_path / "copy")
    assert done.returncode == 70 and "segment 2" in done.stderr and "once check" in done.stderr
    assert not (tmp_path / "copy").exists()


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_store_tools import Store, key_of
store = Store(sys.argv[2], 1 << 16)
number = 0
while True:
    word, fence = store.begin(key_of(number))
    store.complete(key_of(number), fence, b"r" * (1000 if number % 2 else 3000))
    print(number, flush=True)
    number += 1
"""


def left_no_damage(once_bin, folder):
    """A killed writer leaves none, but for half a sidecar: those are written in place."""
    damage = [f for f in checked(once_bin, folder)[1]["findings"] if f["damage"]]
    assert [f for f in damage if f["kind"] != "sidecar"] == []


def test_backup_while_another_process_writes(once_bin, tmp_path):
    """What was told before the backup began is in the copy, and the copy is a clean store."""
    folder = tmp_path / "store"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(Path(__file__).parent),
                               str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        told = -1
        for turn in range(5):
            while told < (turn + 1) * 60:  # several segments go by
                told = int(writer.stdout.readline())
            copy = tmp_path / f"copy{turn}"
            done = once(once_bin, "backup", "--dir", folder, copy)
            assert done.returncode == 0, done.stderr
            assert writer.poll() is None
            status, report = checked(once_bin, copy)
            assert status == 0 and report["damages"] == 0
            with Store(copy) as opened:
                for number in range(told + 1):
                    assert opened.begin(key_of(number))[0] == REPLAY, (turn, number, told)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    left_no_damage(once_bin, folder)


def test_restore_by_copying_back(once_bin, store, tmp_path):
    assert once(once_bin, "backup", "--dir", store, tmp_path / "copy").returncode == 0
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "copy", store)
    with Store(store) as opened:
        assert all(opened.begin(key_of(number))[0] == REPLAY for number in range(80))


# ---- Objects -----------------------------------------------------------------------------------

SEGMENT = 1 << 15
PADDING = "x" * 1500


def turn(store, number):
    """One change of objects under a key that soon expires, and one without a key."""
    store.apply(key_of(number), "ADD total 1", f"ADD c:{number % 10} 1",
                f"APPEND history e-{number} {PADDING}", ttl_ms=1)
    store.apply(b"", f"UNION seen m-{number % 100}")


def until_snapshot(store, folder, number, size=0):
    """Turns until there is another snapshot; gives the next number."""
    while not (folder / "objects").exists() or (folder / "objects").stat().st_size == size:
        turn(store, number)
        number += 1
        assert number < 5000
    return number


def shown(once_bin, folder, name):
    """The object as `once object` shows it."""
    done = once(once_bin, "object", "show", "--dir", folder, "--json", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def with_objects(tmp_path_factory):
    """(folder, how many turns): a closed store with a snapshot, whose first segments are gone."""
    folder = tmp_path_factory.mktemp("objects") / "store"
    with Store(folder, SEGMENT) as store:
        number = until_snapshot(store, folder, 0)
        number = until_snapshot(store, folder, number, (folder / "objects").stat().st_size)
        for _ in range(20):
            turn(store, number)
            number += 1
    return folder, number


@pytest.fixture
def objects(with_objects, tmp_path):
    return shutil.copytree(with_objects[0], tmp_path / "store"), with_objects[1]


def test_check_counts_objects(once_bin, objects):
    folder, number = objects
    status, report = checked(once_bin, folder)
    assert status == 0 and report["findings"] == []
    assert report["objects"] == 13 and report["oldest"] > 1
    assert report["last_change"] == number + min(number, 100)
    assert report["snapshot_bytes"] == (folder / "objects").stat().st_size
    text = once(once_bin, "check", "--dir", folder).stdout
    assert f"13 objects, changes up to {report['last_change']}" in text
    assert shown(once_bin, folder, "total")["value"] == number
    (folder / "objects.new").write_bytes(b"half")
    status, report = checked(once_bin, folder)
    assert status == 0 and [f["file"] for f in report["findings"]] == ["objects.new"]


def test_damaged_snapshot(once_bin, objects):
    folder, number = objects
    size = (folder / "objects").stat().st_size
    flip(folder / "objects", size // 2)
    with pytest.raises(RuntimeError, match="objects, the snapshot of objects, is damaged"):
        Store(folder)
    status, report = checked(once_bin, folder)
    damage, = [f for f in report["findings"] if f["damage"]]
    assert status == 70 and damage["kind"] == "snapshot" and damage["file"] == "objects"
    assert damage["remedy"] == "new_snapshot" and damage["lost"]["at_least"] is True
    image = (folder / "objects").read_bytes()
    status, said = answer(once_bin, folder, "n\n")
    assert status == 70 and "objects? [y/N]" in said and (folder / "objects").read_bytes() == image
    status, report = checked(once_bin, folder, "--repair", "--yes")
    assert status == 0 and report["repaired"] is True
    assert (folder / "objects.damaged").read_bytes() == image
    status, report = checked(once_bin, folder)
    assert status == 0 and "given up" in [f["kind"] for f in report["findings"]]
    assert shown(once_bin, folder, "total")["value"] == number  # the log has the newest value
    with Store(folder) as store:
        size = (folder / "objects").stat().st_size
        until_snapshot(store, folder, number, size)
    status, report = checked(once_bin, folder)
    assert status == 0
    assert "given up" not in [f["kind"] for f in report["findings"]]  # the next one is whole


def test_missing_snapshot(once_bin, objects):
    folder, number = objects
    (folder / "objects").unlink()
    with pytest.raises(RuntimeError, match="missing"):
        Store(folder)
    status, report = checked(once_bin, folder)
    damage, = [f for f in report["findings"] if f["damage"]]
    assert status == 70 and damage["kind"] == "snapshot" and "loses all objects" in damage["what"]
    assert checked(once_bin, folder, "--repair", "--yes")[0] == 0
    assert shown(once_bin, folder, "total")["value"] == number
    assert checked(once_bin, folder)[0] == 0


def test_lost_changes_are_named(once_bin, objects):
    folder, _ = objects
    segments = segments_of(once_bin, folder)
    newest = max(segments)
    path = segments[newest - 1]
    inside = json.loads(once(once_bin, "inspect", "--json", "--records", path).stdout)
    one = next(batch for batch in inside["batches"][1:]
               if [record["kind"] == "operation" for record in batch["records"]] == [False])
    flip(path, one["offset"] + 40)
    status, report = checked(once_bin, folder)
    damage, = [f for f in report["findings"] if f["damage"]]
    assert status == 70 and damage["kind"] == "batches" and damage["segment"] == newest - 1
    assert damage["lost"]["changes"] == 1 and len(damage["lost"]["changed"]) == 1
    assert set(damage["lost"]["changed"][0]["objects"]) & {"total", "seen"}
    text = once(once_bin, "check", "--dir", folder).stdout
    assert f"change {damage['lost']['changed'][0]['change']} of objects: " in text
    assert checked(once_bin, folder, "--repair", "--yes")[0] == 0
    with Store(folder) as store:
        store.apply(b"new", "ADD total 1")
    assert checked(once_bin, folder)[0] == 0


def test_inspect_changes_and_snapshot(once_bin, objects):
    folder, _ = objects
    segments = segments_of(once_bin, folder)
    report = json.loads(once(once_bin, "inspect", "--json", "--records",
                             segments[max(segments) - 1]).stdout)
    records = [r for batch in report["batches"] for r in batch["records"]]
    changes = [r["change"] for r in records if r["kind"] != "operation"]
    assert changes == list(range(changes[0], changes[0] + len(changes)))
    assert report["change_count"] == len(changes)
    applied = next(r for r in records if r["kind"] == "applied")
    assert [(e["object"].split(":")[0], e["edit"]) for e in applied["edits"]] == [
        ("total", "counter"), ("c", "counter"), ("history", "event")]
    assert all(b["flags"].endswith("objects") for b in report["batches"])
    text = once(once_bin, "inspect", "--records", segments[max(segments) - 1]).stdout
    assert f"change {applied['change']}: \"total\" counter, " in text

    done = once(once_bin, "inspect", "--json", "--records", folder / "objects")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["kind"] == "snapshot" and report["damages"] == 0
    assert sum(len(chunk["edits"]) for chunk in report["chunks"]) == report["edit_count"]
    assert {e["object"] for chunk in report["chunks"] for e in chunk["edits"]} >= {"total", "seen"}
    done = once(once_bin, "inspect", folder / "objects")
    assert done.returncode == 0 and f"{report['objects']} objects" in done.stdout
    flip(folder / "objects", 100)
    done = once(once_bin, "inspect", folder / "objects")
    assert done.returncode == 70 and "offset 64        DAMAGED" in done.stdout
    flip(folder / "objects", 20)
    done = once(once_bin, "inspect", "--json", folder / "objects")
    assert done.returncode == 70 and json.loads(done.stdout)["what"]


APPLIER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_store_tools import SEGMENT, Store, turn
store = Store(sys.argv[2], SEGMENT)
number = 0
while True:
    turn(store, number)
    number += 1
    print(number, flush=True)
"""


def test_backup_while_another_process_applies(once_bin, tmp_path):
    """Snapshots are made and segments go meanwhile; the copy has all that was told before."""
    folder = tmp_path / "store"
    writer = subprocess.Popen([sys.executable, "-c", APPLIER, str(Path(__file__).parent),
                               str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        told = 0
        for turns in range(5):
            while told < (turns + 1) * 100:
                told = int(writer.stdout.readline())
            copy = tmp_path / f"copy{turns}"
            done = once(once_bin, "backup", "--dir", folder, copy)
            assert done.returncode == 0, done.stderr
            assert writer.poll() is None
            status, report = checked(once_bin, copy)
            assert status == 0 and report["damages"] == 0, report
            assert shown(once_bin, copy, "total")["value"] >= told
        assert report["oldest"] > 1 and report["snapshot_bytes"] > 0
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    left_no_damage(once_bin, folder)
