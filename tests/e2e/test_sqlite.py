# SPDX-License-Identifier: Apache-2.0
"""The functions in SQLite, as programs meet them: the shell, Python, Node, C; in transactions of theirs,
beside other processes, killed, and with arguments that mean harm."""
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from client_tools import PINNED, node_modules
from serving import run

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = Path(os.environ.get("ONCE_SQLITE", ROOT / "build" / "once_sqlite.so")).resolve()
GOLDEN = ROOT / "tests" / "golden" / "sqlite"
WORKER = Path(__file__).resolve().parent / "sqlite_worker.py"
ROUNDS = int(os.environ.get("ONCE_SQLITE_ROUNDS", "1"))  # make soak has more


def connect(path, timeout=30.0, **options):
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None, **options)
    db.enable_load_extension(True)
    db.load_extension(str(EXTENSION))
    db.enable_load_extension(False)
    return db


@pytest.fixture
def db(tmp_path):
    db = connect(tmp_path / "shop.db")
    yield db
    db.close()


def value(db, sql, *arguments):
    return db.execute(sql, arguments).fetchone()[0]


def begin(db, key="k", **options):
    names = ["fingerprint", "owner", "ttl_ms", "lease_ms", "on_doubt"]
    assert set(options) <= set(names)
    return json.loads(value(db, "SELECT once_begin('charges', ?, ?, ?, ?, ?, ?)", key,
                            *(options.get(name) for name in names)))


def complete(db, key, fence, result="ok", code=0):
    return value(db, "SELECT once_complete('charges', ?, ?, ?, ?)", key, fence, code, result)


def advance(db, ms):
    """Time stands still from the first use on, and is moved."""
    db.execute("UPDATE once_meta SET ahead_ms = -200000000000000, last_ms = last_ms + ?", (ms,))


# ---- Programs -------------------------------------------------------------------------------------


def shell(path, *lines, fails=False):
    done = subprocess.run(["sqlite3", "-bail", path, f".load {EXTENSION.with_suffix('')}", *lines], text=True,
                          capture_output=True, timeout=60)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return (done.stderr if fails else done.stdout).splitlines()


def test_shell(tmp_path):
    path = tmp_path / "shop.db"
    assert shell(path, "SELECT once_begin('charges', 'k')") == [
        '{"verdict":"EXECUTE","fence":1,"attempt":1,"point":null,"data":null}']
    assert shell(path, "SELECT once_complete('charges', 'k', 1, 201, 'ch_1')") == ["OK"]
    assert shell(path, "SELECT once_begin('charges', 'k')") == ['{"verdict":"REPLAY","code":201,"result":"ch_1"}']
    assert "STALE" in shell(path, "SELECT once_complete('charges', 'k', 9)", fails=True)[0]
    assert shell(path, "SELECT once_version()", f".load {EXTENSION.with_suffix('')}", "SELECT once_version()") == ["2", "2"]
    assert shell(path, "SELECT count(*) > 20 FROM once_functions WHERE about <> ''") == ["1"]


def test_node(tmp_path):
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "node_modules").symlink_to(node_modules())
    (folder / "sqlite.mjs").write_bytes((PINNED / "sqlite.mjs").read_bytes())
    assert "node: all held" in run(["node", "sqlite.mjs", EXTENSION, tmp_path / "shop.db"], cwd=folder)


PROGRAM = r"""
#include <once/sqlite.h>
#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;

    if (argc != 3 || sqlite3_auto_extension((void (*)(void))once_sqlite_init) != SQLITE_OK ||
        sqlite3_open(argv[1], &db) != SQLITE_OK || once_sqlite_init(db, NULL, NULL) != SQLITE_OK)
        return 1;
    if (sqlite3_prepare_v2(db, argv[2], -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        return 2;
    printf("%s\n", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return sqlite3_close(db) == SQLITE_OK ? 0 : 3;
}
"""


@pytest.mark.parametrize("how", ["shared", "static"])
def test_linked_into_c(installed, tmp_path, how):
    source, program = tmp_path / "charge.c", tmp_path / "charge"
    source.write_text(PROGRAM)
    env = dict(os.environ, PKG_CONFIG_PATH=str(installed.pkgconfig))
    words = ["--cflags", "--libs", *(["--static"] if how == "static" else [])]
    flags = subprocess.run(["pkg-config", *words, "once-sqlite"], env=env, text=True, capture_output=True,
                           check=True).stdout.split()
    if how == "static":
        flags = [{"-lonce-sqlite": "-l:libonce-sqlite.a", "-lonce": "-l:libonce.a"}.get(f, f) for f in flags]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags,
                    f"-Wl,-rpath,{installed.lib}"], check=True)
    linked = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    assert ("libonce" in linked) == (how == "shared")
    begun = [program, tmp_path / "shop.db", "SELECT once_begin('charges', 'k')"]
    assert '"verdict":"EXECUTE","fence":1' in run(begun)
    assert '"verdict":"BUSY"' in run(begun)


def test_module_shows_no_names(installed):
    module = installed.lib / "once_sqlite.so"
    done = subprocess.run(["nm", "-D", "--defined-only", module], text=True, capture_output=True, check=True)
    assert {line.split()[-1] for line in done.stdout.splitlines()} == {"sqlite3_extension_init"}


# ---- The caller's transaction ---------------------------------------------------------------------


def test_key_and_effect_are_one(db):
    db.execute("CREATE TABLE account(balance INTEGER)")
    db.execute("INSERT INTO account VALUES (0)")
    db.execute("BEGIN")
    first = begin(db)
    db.execute("UPDATE account SET balance = balance + 1")
    complete(db, "k", first["fence"])
    db.execute("ROLLBACK")
    assert value(db, "SELECT once_get('charges', 'k')") is None
    assert value(db, "SELECT balance FROM account") == 0
    db.execute("BEGIN")
    second = begin(db)
    assert second["verdict"] == "EXECUTE"
    db.execute("UPDATE account SET balance = balance + 1")
    complete(db, "k", second["fence"])
    db.execute("COMMIT")
    assert begin(db) == {"verdict": "REPLAY", "code": 0, "result": "ok"}
    assert value(db, "SELECT balance FROM account") == 1


def test_tables_made_in_a_transaction_go_with_it(db):
    """The first use makes the tables; a rollback takes them back; statements are kept all the time."""
    for _ in range(3):
        db.execute("BEGIN")
        assert begin(db)["fence"] == 1
        db.execute("ROLLBACK")
        assert value(db, "SELECT count(*) FROM sqlite_schema") == 0
        assert value(db, "SELECT once_get('charges', 'k')") is None
    assert begin(db)["fence"] == 1
    for _ in range(3):
        db.execute("DROP TABLE once_meta")
        db.execute("DROP TABLE once_operation")
        for name, in db.execute("SELECT type || ' ' || name FROM sqlite_schema WHERE type <> 'index' "
                                "AND name NOT LIKE 'sqlite%'").fetchall():
            db.execute(f"DROP {name}")
        assert begin(db)["fence"] == 1


def test_inside_of_a_statement_that_writes(db):
    """The call belongs to that statement: what ends it ends both."""
    db.execute("CREATE TABLE said(verdict TEXT UNIQUE)")
    db.execute("SELECT once_install()").fetchone()
    db.execute("INSERT INTO said SELECT once_begin('charges', 'a')")
    assert json.loads(value(db, "SELECT verdict FROM said"))["fence"] == 1
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO said SELECT value FROM (SELECT 'x' || substr(once_begin('charges', 'b'), 1, 0) AS value "
                   "UNION ALL SELECT 'x')")
    assert value(db, "SELECT once_get('charges', 'b')") is None
    assert not db.in_transaction


def test_a_refusal_leaves_the_transaction_to_the_caller(db):
    first = begin(db)
    db.execute("BEGIN")
    db.execute("CREATE TABLE t(x)")
    with pytest.raises(sqlite3.IntegrityError, match="^STALE once_complete: ") as refused:
        complete(db, "k", first["fence"] + 1)
    assert refused.value.sqlite_errorname == "SQLITE_CONSTRAINT_FUNCTION"
    assert db.in_transaction
    db.execute("ROLLBACK")
    with pytest.raises(sqlite3.IntegrityError, match="^NOTFOUND "):
        complete(db, "unknown", 1)
    assert not db.in_transaction


def test_another_writer_is_busy(db, tmp_path):
    other = connect(tmp_path / "shop.db", timeout=0)
    db.execute("SELECT once_install()").fetchone()
    db.execute("BEGIN IMMEDIATE")
    for prepare in ("", "BEGIN"):
        if prepare:
            other.execute(prepare)
        with pytest.raises(sqlite3.OperationalError, match="database is locked") as busy:
            begin(other)
        assert busy.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
    other.execute("ROLLBACK")
    assert value(other, "SELECT once_get('charges', 'k')") is None
    db.execute("ROLLBACK")
    assert begin(other)["verdict"] == "EXECUTE"
    other.close()


def test_a_view_that_is_old_is_busy_at_once(db, tmp_path):
    """WAL: who has read before another wrote cannot write any more; SQLite says so, and so do we."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("SELECT once_install()").fetchone()
    other = connect(tmp_path / "shop.db")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM once_operation").fetchone()
    begin(db)
    with pytest.raises(sqlite3.OperationalError) as busy:
        begin(other)
    assert busy.value.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"
    other.close()


def test_read_only(db, tmp_path):
    first = begin(db)
    complete(db, "k", first["fence"], "answer")
    reader = connect(f"file:{tmp_path}/shop.db?mode=ro", uri=True)
    assert json.loads(value(reader, "SELECT once_get('charges', 'k')"))["state"] == "completed"
    assert value(reader, "SELECT once_result('charges', 'k')") == "answer"
    assert begin(reader)["verdict"] == "REPLAY"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        begin(reader, "new")
    reader.close()
    with connect(":memory:") as empty:
        empty.execute("ATTACH ? AS other", (f"{tmp_path}/shop.db",))
        assert value(empty, "SELECT once_get('charges', 'k')") is None
        assert begin(empty)["verdict"] == "EXECUTE", "the other database is not ours"
    attached = connect(tmp_path / "second.db", uri=True)
    attached.execute(f"ATTACH 'file:{tmp_path}/shop.db?mode=ro' AS other")
    assert begin(attached)["verdict"] == "EXECUTE"
    attached.close()


def test_a_temporary_table_is_not_ours(db):
    begin(db)
    db.execute("CREATE TEMP TABLE once_operation AS SELECT * FROM main.once_operation WHERE 0")
    db.execute("CREATE TEMP TABLE once_meta AS SELECT 1 AS id, 2 AS version, 1 AS next_fence, 0 AS last_ms, 0 AS ahead_ms")
    assert begin(db)["verdict"] == "BUSY"
    assert begin(db, "other")["fence"] == 2


def test_names_of_others(tmp_path):
    """Temporary tables and views, and attached databases, with every name of ours: none stands in for ours."""
    names = ["once_meta", "once_operation", "once_message", "once_resource", "once_machine", "once_entity", "once_outbox",
             "once_doubts", "once_stats", "once_waiting"]
    connect(tmp_path / "other.db").execute("SELECT once_install()").fetchone()
    db = connect(tmp_path / "shop.db")
    db.execute("ATTACH ? AS other", (str(tmp_path / "other.db"),))
    for number, name in enumerate(names):
        db.execute(f"CREATE TEMP {'VIEW' if number % 2 else 'TABLE'} {name} AS SELECT 1 AS id, 'x' AS state")
    assert begin(db, lease_ms=1000)["fence"] == 1
    assert value(db, "SELECT once_seen('g', 't', '1')") == 0
    assert value(db, "SELECT once_grant('r')") == 2
    value(db, "SELECT once_machine('m', 'a>b')")
    assert value(db, "SELECT once_move('m', 'e', 'a', 'b')") == 1
    value(db, "SELECT once_emit('mail', 'p')")
    db.execute("UPDATE main.once_meta SET ahead_ms = 60000")
    assert value(db, "SELECT key FROM main.once_doubts") == "k"
    assert [value(db, f"SELECT count(*) FROM other.{name}") for name in names] == [1] + [0] * 9
    assert [value(db, f"SELECT count(*) FROM temp.{name}") for name in names] == [1] * 10
    db.close()


def test_names_that_are_taken(db):
    """Someone else's table has our name: told, and nothing of ours is left in the transaction that goes on."""
    db.execute("CREATE TABLE once_outbox(mine)")
    for transaction in (False, True):
        if transaction:
            db.execute("BEGIN")
            db.execute("INSERT INTO once_outbox VALUES (1)")
        for sql in ("SELECT once_begin('charges', 'k')", "SELECT once_install()"):
            with pytest.raises(sqlite3.OperationalError, match="table main.once_outbox already exists|table once_outbox already exists"):
                db.execute(sql).fetchone()
            assert db.in_transaction == transaction
        if transaction:
            db.execute("COMMIT")
        assert [name for name, in db.execute("SELECT name FROM sqlite_schema")] == ["once_outbox"]
    assert value(db, "SELECT mine FROM once_outbox") == 1
    db.execute("DROP TABLE once_outbox")
    assert begin(db)["fence"] == 1


@pytest.mark.parametrize("hostile", [
    "CREATE TRIGGER r BEFORE INSERT ON once_operation BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER r BEFORE UPDATE ON once_meta BEGIN SELECT RAISE(IGNORE); END",
    "CREATE TRIGGER r BEFORE INSERT ON once_operation BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    "ALTER TABLE once_operation RENAME TO t; CREATE VIEW once_operation AS SELECT * FROM t; "
    "CREATE TRIGGER r INSTEAD OF INSERT ON once_operation BEGIN SELECT 1; END"])
def test_no_verdict_without_its_row(db, hostile):
    """A schema that swallows what is written: never EXECUTE without a record that says so."""
    db.execute("SELECT once_install()").fetchone()
    db.executescript(hostile)
    with pytest.raises(sqlite3.DatabaseError, match="once_begin: (a row was not written.*ERR_DAMAGED|no$)"):
        begin(db)
    assert not db.in_transaction
    assert value(db, "SELECT count(*) FROM once_operation") == 0


def test_a_function_that_ends_the_transaction(db):
    """once_apply: a function that commits or rolls back by itself breaks its own promise only; nothing hangs."""
    db.execute("CREATE TABLE charge(x)")
    db.execute("SELECT once_install()").fetchone()

    def rogue(request):
        db.execute("INSERT INTO charge VALUES (1)")
        db.execute(json.loads(request))
        return "done"
    db.create_function("rogue", 1, rogue)
    for before in ("SELECT 1", "BEGIN"):
        for number, word in enumerate(("ROLLBACK", "COMMIT")):
            db.execute(before)
            with pytest.raises(sqlite3.DatabaseError):
                value(db, "SELECT once_apply('charges', ?, ?, 'rogue')", f"{before} {number}".replace(" ", "-"), json.dumps(word))
            if db.in_transaction:
                db.execute("ROLLBACK")
            begin(db, "still here")
    executed = [json.loads(value(db, "SELECT once_get('charges', ?)", key) or "{}").get("state") for key in ("SELECT-1-0", "BEGIN-0")]
    assert executed == [None, None], "what was rolled back was never done"


def test_savepoints_of_the_caller(db):
    db.execute("SAVEPOINT outer")
    assert begin(db, "a")["fence"] == 1
    db.execute("SAVEPOINT inner")
    assert begin(db, "b")["fence"] == 2
    db.execute("ROLLBACK TO inner")
    assert begin(db, "b")["fence"] == 2, "what was taken back was never given"
    db.execute("ROLLBACK TO inner")
    db.execute("RELEASE outer")
    assert begin(db, "a")["verdict"] == "BUSY" and begin(db, "c")["fence"] == 2


def test_shared_cache(tmp_path):
    """Two connections with one cache: SQLite says locked at once, and nobody decides beside the other."""
    name = f"file:{tmp_path}/shop.db?cache=shared"
    first, second = connect(name, uri=True), connect(name, uri=True, timeout=0)
    first.execute("SELECT once_install()").fetchone()
    second.execute("PRAGMA read_uncommitted = 1")
    first.execute("BEGIN IMMEDIATE")
    assert begin(first)["verdict"] == "EXECUTE"
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        begin(second)
    first.execute("COMMIT")
    assert begin(second)["verdict"] == "BUSY"
    first.close()
    second.close()


@pytest.mark.parametrize("way", ["BEGIN", "BEGIN IMMEDIATE", None])
def test_first_use_by_many_at_once(tmp_path, way):
    """Nobody has made the tables: one does, the others find them."""
    said, start = [], threading.Barrier(6)
    connect(tmp_path / "shop.db").execute("PRAGMA journal_mode = WAL")

    def ask(number):
        db = connect(tmp_path / "shop.db", check_same_thread=False)
        start.wait()
        if way:
            db.execute(way)
        said.append(begin(db, f"k{number % 2}")["verdict"])
        if way:
            db.execute("COMMIT")
        db.close()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == ["BUSY"] * 4 + ["EXECUTE"] * 2


def test_connections_close(tmp_path):
    """Kept statements neither keep a connection open nor its files, also when it is closed while in use."""
    for number in range(3):
        db = connect(tmp_path / f"{number}.db")
        begin(db)
        rows = db.execute("SELECT once_begin('charges', 'k' || value) FROM json_each('[1,2,3]')")
        rows.fetchone()
        if number == 1:
            del rows
        db.close()
        if number == 2:
            del rows
    opened = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if os.path.islink(f"/proc/self/fd/{fd}")}
    del db
    assert not [name for name in opened if str(tmp_path) in name]


def test_utf16_database(tmp_path):
    db = connect(tmp_path / "wide.db")
    db.execute("PRAGMA encoding = 'UTF-16'")
    db.execute("CREATE TABLE t(x)")
    first = begin(db, "k", fingerprint="Zürich", owner="Ünal")
    assert begin(db, "k", fingerprint="Zürich", owner="Ünal") == first
    assert complete(db, "k", first["fence"], "größer 🎉") == "OK"
    assert complete(db, "k", first["fence"], "größer 🎉") == "OK"
    assert begin(db, "k", fingerprint="Zürich")["result"] == "größer 🎉"
    assert begin(db, "k", fingerprint="Zurich")["verdict"] == "MISMATCH"
    db.close()


# ---- Time, fences, versions -----------------------------------------------------------------------


def test_fences_only_grow(db, tmp_path):
    begin(db, "first")
    last = 0
    for number in range(20):
        db.execute("BEGIN")
        fence = begin(db, f"k{number}")["fence"]
        assert fence > last
        if number % 3 == 0:
            db.execute("ROLLBACK")  # nobody was given this one
        else:
            db.execute("COMMIT")
            last = fence
        if number % 5 == 0:
            db.close()
            db = connect(tmp_path / "shop.db")
    assert value(db, "SELECT once_grant('printer')") > last
    db.close()


def test_time_never_runs_back(db):
    begin(db)
    now = value(db, "SELECT once_now_ms()")
    db.execute("UPDATE once_meta SET ahead_ms = 1000000")
    assert begin(db, "later")["fence"] == 2
    db.execute("UPDATE once_meta SET ahead_ms = -1000000")
    assert value(db, "SELECT once_now_ms()") >= now + 1000000


def test_too_old_stays_too_old(db):
    """Told that a key is too old, nobody gets to execute it after the clock was set back."""
    begin(db, "first")
    advance(db, 0)
    key = "%08x-%04x-7000-8000-000000000000" % divmod(value(db, "SELECT once_now_ms()"), 1 << 16)
    db.execute("UPDATE once_meta SET ahead_ms = ahead_ms + ?", (200000000000000 + 10 * 86400000,))
    assert begin(db, key)["verdict"] == "TOO_OLD"
    db.execute("UPDATE once_meta SET ahead_ms = 0")
    assert begin(db, key)["verdict"] == "TOO_OLD"


def test_doubt_and_its_end(db):
    first = begin(db, "k", owner="w1", lease_ms=1000)
    value(db, "SELECT once_checkpoint('charges', 'k', ?, 'charged', 'ch_1')", first["fence"])
    advance(db, 60000)
    doubt = begin(db, "k", owner="w2")
    assert doubt == {"verdict": "DOUBT", "fence": 1, "attempt": 1, "point": "charged", "data": "ch_1"}
    assert db.execute("SELECT ns, key, owner, point FROM once_doubts").fetchall() == [("charges", "k", "w1", "charged")]
    assert db.execute("SELECT ns, started, completed, failed, doubt, expired FROM once_stats").fetchall() == [
        ("charges", 0, 0, 0, 1, 0)]
    assert value(db, "SELECT once_forget('charges', 'k')") == "DOUBT"
    assert value(db, "SELECT once_resolve('charges', 'k', 1, 201, 'ch_1')") == "OK"
    assert begin(db) == {"verdict": "REPLAY", "code": 201, "result": "ch_1"}
    assert value(db, "SELECT once_sweep()") == 0
    advance(db, 2 * 86400000)
    assert value(db, "SELECT once_sweep()") == 1
    assert value(db, "SELECT count(*) FROM once_operation") == 0
    begin(db, "running", lease_ms=1000)
    advance(db, 20 * 365 * 86400000)
    assert value(db, "SELECT once_sweep()") == 0, "what runs or is in doubt is never swept (INV-4)"


def test_older_tables(tmp_path):
    path = tmp_path / "old.db"
    made = sqlite3.connect(path)
    made.executescript((GOLDEN / "v1.sql").read_text())
    made.close()
    db = connect(path)
    for sql in ("SELECT once_begin('charges', 'new')", "SELECT once_get('charges', 'order-1')", "SELECT once_seen('g', 't', '1')"):
        with pytest.raises(sqlite3.OperationalError, match=r"older version; SELECT once_install\(\) upgrades"):
            db.execute(sql).fetchone()
    assert value(db, "SELECT once_install()") == 2
    assert value(db, "SELECT once_install()") == 2
    assert begin(db, "order-1", fingerprint="100 EUR") == {"verdict": "REPLAY", "code": 201, "result": "ch_1"}
    assert begin(db, "order-2")["verdict"] == "DOUBT"
    assert begin(db, "order-3")["fence"] == 7
    fresh = connect(tmp_path / "fresh.db")
    fresh.execute("SELECT once_install()").fetchone()

    def shape(db):
        """What the columns of everything are, and what the indexes are of."""
        return [(name, kind, db.execute(f"SELECT name, type FROM pragma_table_info('{name}')").fetchall())
                for name, kind in db.execute("SELECT name, type FROM sqlite_schema ORDER BY name")]
    assert shape(db) == shape(fresh)
    db.close()
    fresh.close()


def test_newer_tables(db):
    begin(db)
    db.execute("UPDATE once_meta SET version = 3")
    for sql in ("SELECT once_begin('charges', 'k')", "SELECT once_install()", "SELECT once_get('charges', 'k')"):
        with pytest.raises(sqlite3.OperationalError, match=r"newer version.*\(ERR_VERSION\)"):
            db.execute(sql).fetchone()


@pytest.mark.parametrize("damage", [
    "UPDATE once_operation SET state = 9", "UPDATE once_operation SET fence = 99", "UPDATE once_operation SET fence = -1",
    "UPDATE once_operation SET attempt = 0", "UPDATE once_operation SET code = 1 << 40",
    "UPDATE once_operation SET fingerprint = x'00'", "UPDATE once_operation SET expires_ms = -1",
    "UPDATE once_operation SET owner = zeroblob(1000)", "UPDATE once_operation SET result = zeroblob(20000000)",
    "UPDATE once_operation SET state = 'started'", "UPDATE once_meta SET next_fence = 1", "DELETE FROM once_meta"])
def test_damage_is_told(db, damage):
    begin(db)
    db.execute(damage)
    for sql in ("SELECT once_begin('charges', 'k')", "SELECT once_get('charges', 'k')"):
        with pytest.raises(sqlite3.DatabaseError, match="ERR_DAMAGED"):
            db.execute(sql).fetchone()


@pytest.mark.parametrize("meta", ["next_fence = 9007199254740992", "next_fence = 0", "next_fence = -5",
                                  "last_ms = 9223372036854775807", "ahead_ms = 9223372036854775807"])
def test_no_fence_or_time_is_left(db, meta):
    begin(db)
    db.execute("DELETE FROM once_operation")
    db.execute(f"UPDATE once_meta SET {meta}")
    try:
        assert begin(db)["fence"] >= 1, "an offset that is none is no time; the last one counts"
    except sqlite3.DatabaseError as refused:
        assert re.search("ERR_FULL|ERR_CLOCK", str(refused))


# ---- Who may not call, and with what ----------------------------------------------------------------


def test_triggers_and_views_may_not_begin(db):
    begin(db)
    db.execute("CREATE TABLE t(x)")
    for sql in ("CREATE VIEW v AS SELECT once_begin('charges', 'k') AS said", "CREATE TRIGGER r AFTER INSERT ON t BEGIN "
                "SELECT once_forget('charges', 'k'); END"):
        db.execute(sql)
    for sql in ("SELECT said FROM v", "INSERT INTO t VALUES (1)"):
        with pytest.raises(sqlite3.OperationalError, match="unsafe use of once_"):
            db.execute(sql).fetchone()


def test_a_trigger_on_our_table_does_not_come_back(db):
    """A function of the program, called by a trigger inside of a call, calls Once: refused, nothing breaks."""
    begin(db)
    said = []

    def ask():
        try:
            said.append(begin(db, "inner"))
        except sqlite3.Error as error:
            said.append(str(error))
    db.create_function("ask_once", 0, ask)
    db.execute("CREATE TRIGGER r AFTER INSERT ON once_operation BEGIN SELECT ask_once(); END")
    assert begin(db, "outer")["verdict"] == "EXECUTE"
    assert len(said) == 1 and "another function of Once is at work" in said[0]


FUNCTIONS = {
    "once_begin": ["charges", "k", "fp", "owner", 1000, 1000, "REJECT"],
    "once_complete": ["charges", "k", 1, 0, "r"],
    "once_fail": ["charges", "k", 1, "why"],
    "once_checkpoint": ["charges", "k", 1, "p", "d", "a"],
    "once_renew": ["charges", "k", 1, 1000],
    "once_resolve": ["charges", "k", 1, 0, "r", 1],
    "once_forget": ["charges", "k", 1],
    "once_get": ["charges", "k"],
    "once_result": ["charges", "k"],
    "once_apply": ["charges", "k", "{}", "upper", 1000],
    "once_fingerprint": ["{}"],
    "once_seen": ["g", "t", "1", 1000],
    "once_grant": ["r"],
    "once_guard": ["r", 1],
    "once_machine": ["m", "a>b"],
    "once_machine_change": ["m", "a>b"],
    "once_state": ["m", "e"],
    "once_move": ["m", "e", "a", "b"],
    "once_emit": ["t", "p", "g"],
    "once_take": ["t", 1, 1000],
    "once_ack": [1, 1],
    "once_release": [1, 1, 0],
    "once_sweep": [10],
    "once_merge_max": [1, 2],
    "once_merge_min": [1, 2],
    "once_merge_or": [1, 0],
    "once_merge_union": ['["a"]', '["b"]'],
    "once_merge_vv": ['{"a":1}', '{"b":1}'],
    "once_merge_gcounter": ['{"a":1}', '{"b":1}'],
    "once_merge_lww": ['{"time":1,"node":"a","value":1}', '{"time":2,"node":"a","value":1}'],
    "once_gcounter_add": ['{"a":1}', "a", 1],
    "once_gcounter_value": ['{"a":1}'],
    "once_vv_tick": ['{"a":1}', "a"],
    "once_vv_order": ['{"a":1}', '{"b":1}'],
    "once_lww": [1, "a", "1"],
}
HARM = [None, "", 0, 1, -1, 1.5, 1e300, float("nan"), float("inf"), 2**63 - 1, -2**63, b"", b"\0", b"\xff\xfe\x80", "a\0b", "\x7f", "ü",
        "k' OR 1=1; DROP TABLE once_meta; --", "x" * 256, "x" * 70000, b"x" * (1 << 21), '{"a":1' * 1000, "[" * 200, '{"a":-1}',
        '{"a":9007199254740993}', '{"":1}', '["a",1]', '{"time":1,"node":"","value":1}', '"\\ud800"', "a>a b", ">", "%s%n%x"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_harm_in_every_argument(tmp_path, name):
    """Every argument of every function: an answer or a clear error; the tables stay, the connection too."""
    db = connect(tmp_path / "shop.db")
    begin(db, "k")
    for position in range(len(FUNCTIONS[name])):
        for harm in HARM:
            arguments = list(FUNCTIONS[name])
            arguments[position] = harm
            for count in range(1, len(arguments) + 1):
                if count <= position:
                    continue
                marks = ", ".join("?" * count)
                try:
                    db.execute(f"SELECT {name}({marks})", arguments[:count]).fetchone()
                except sqlite3.OperationalError as error:
                    assert re.search(rf"{name}|wrong number of arguments", str(error)), (harm, str(error))
                except (sqlite3.IntegrityError, sqlite3.DataError) as error:
                    assert name in str(error), (harm, str(error))
                assert not db.in_transaction
    assert value(db, "SELECT count(*) FROM once_meta") == 1
    assert value(db, "PRAGMA integrity_check") == "ok"
    begin(db, "after")
    db.close()


def test_bytes_come_back_as_they_were(db):
    for number, result in enumerate(["", "text", "a\0b", b"", b"bytes", b"\0\xff", None, "ü", b"\xc3\xbc"]):
        key = f"k{number}"
        fence = begin(db, key)["fence"]
        complete(db, key, fence, result)
        complete(db, key, fence, result)  # asked again: the same
        kept = value(db, "SELECT once_result('charges', ?)", key)
        assert kept == (b"a\0b" if result == "a\0b" else result)
        replay = begin(db, key)
        assert replay["verdict"] == "REPLAY"
        if result == b"\0\xff":
            assert replay["result_base64"] == "AP8=" and "result" not in replay


def test_messages_name_what_is_wrong(db):
    for sql, text in [
            ("SELECT once_begin('sh op', 'k')", "a namespace holds printable ASCII without spaces (ERR_INVALID)"),
            ("SELECT once_begin('charges', '')", "(ERR_KEY_EMPTY)"),
            ("SELECT once_begin('charges', 42)", "the key must be text"),
            ("SELECT once_begin('charges', 'k', NULL, NULL, 0)", "the retention (TTL) is not between 1 ms and 10 years"),
            ("SELECT once_begin('charges', 'k', NULL, NULL, 1, 'soon')", "lease_ms must be a whole number"),
            ("SELECT once_begin('charges', 'k', NULL, NULL, 1, 1, 'MAYBE')", "on_doubt is not 'REJECT' or 'RETRY'"),
            ("SELECT once_complete('charges', 'k', NULL)", "the fence must be the number that EXECUTE gave"),
            ("SELECT once_complete('charges', 'k', 1, 0, 42)", "the result must be text or a blob"),
            ("SELECT once_resolve('charges', 'k', NULL)", "say whether it was done"),
            ("SELECT once_machine('m', 'a>b b-c')", "at byte 4: not a move: from>to"),
            ("SELECT once_merge_union('[1]', NULL)", "the state is not an array of strings")]:
        with pytest.raises(sqlite3.OperationalError) as refused:
            db.execute(sql).fetchone()
        assert text in str(refused.value)


# ---- The other functions ----------------------------------------------------------------------------


def test_apply(db):
    db.execute("CREATE TABLE charge(amount INTEGER)")
    calls = []

    def charge(request):
        amount = json.loads(request)["amount"]
        db.execute("INSERT INTO charge VALUES (?)", (amount,))
        calls.append(begin(db, "inside"))  # it may use Once itself
        if amount < 0:
            raise ValueError("negative")
        return json.dumps({"charged": amount})
    db.create_function("charge", 1, charge)

    def apply(key, request):
        return value(db, "SELECT once_apply('charges', ?, ?, 'charge')", key, request)
    assert apply("a", '{"amount": 5, "to": "x"}') == '{"charged": 5}'
    assert apply("a", '{"to":"x","amount":5}') == '{"charged": 5}'
    assert len(calls) == 1
    with pytest.raises(sqlite3.IntegrityError, match="^MISMATCH"):
        apply("a", '{"amount": 6}')
    for transaction in (False, True):
        if transaction:
            db.execute("BEGIN")
            db.execute("INSERT INTO charge VALUES (100)")
        with pytest.raises(sqlite3.OperationalError, match="user-defined function raised exception"):
            apply("b", '{"amount": -1}')
        assert db.in_transaction == transaction
        if transaction:
            db.execute("COMMIT")
        assert value(db, "SELECT once_get('charges', 'b')") is None
    assert [row[0] for row in db.execute("SELECT amount FROM charge")] == [5, 100]
    with pytest.raises(sqlite3.OperationalError, match="no such function"):
        value(db, "SELECT once_apply('charges', 'c', '{}', 'nothing')")
    assert value(db, "SELECT once_get('charges', 'c')") is None


def test_seen_grant_guard(db):
    assert [value(db, "SELECT once_seen('billing', 'orders', '7')") for _ in range(3)] == [0, 1, 1]
    assert value(db, "SELECT once_seen('mail', 'orders', '7')") == 0

    def guard(token, resource="printer"):
        return value(db, "SELECT once_guard(?, ?)", resource, token)
    first = value(db, "SELECT once_grant('printer')")
    assert guard(first) == 1
    with pytest.raises(sqlite3.IntegrityError, match=f"^STALE once_guard: token {first} was seen, and {first} is not above"):
        guard(first)
    old, new = (value(db, "SELECT once_grant('printer')") for _ in range(2))
    assert first < old < new
    with pytest.raises(sqlite3.IntegrityError, match=f"^STALE once_guard: token {new} was granted, and {old} is older"):
        guard(old)
    assert guard(new) == 1
    for token in (old, new):
        with pytest.raises(sqlite3.IntegrityError, match="^STALE"):
            guard(token)
    assert not db.in_transaction
    assert guard(1000000) == 1 and value(db, "SELECT once_grant('printer')") > 1000000
    assert [guard(token, "never granted") for token in (5, 6)] == [1, 1]
    guard(2**53 - 1)
    with pytest.raises(sqlite3.OperationalError, match="used up .ERR_OVERFLOW"):
        value(db, "SELECT once_grant('printer')")
    advance(db, 8 * 86400000)
    assert value(db, "SELECT once_sweep()") == 2
    assert value(db, "SELECT once_seen('mail', 'orders', '7')") == 0


def test_machine(db):
    declare = "SELECT once_machine('order', 'cart>paid paid>shipped paid>refunded')"
    assert [value(db, declare), value(db, declare)] == [1, 0]
    with pytest.raises(sqlite3.IntegrityError, match="^REJECTED.*REDECLARED"):
        value(db, "SELECT once_machine('order', 'a>b')")

    def move(from_state, to_state, entity="o1"):
        return value(db, "SELECT once_move('order', ?, ?, ?)", entity, from_state, to_state)
    assert value(db, "SELECT once_state('order', 'o1')") == "cart"
    assert [move("cart", "paid"), move("cart", "paid")] == [1, 0]
    for from_state, to_state, why in (("cart", "shipped", "NO_MOVE"), ("cart", "lost", "NO_STATE"), ("shipped", "cart", "NO_MOVE")):
        with pytest.raises(sqlite3.IntegrityError, match=f"^REJECTED once_move: {why}"):
            move(from_state, to_state)
    assert move("paid", "refunded") == 1
    with pytest.raises(sqlite3.IntegrityError, match="^REJECTED.*ELSEWHERE"):
        move("paid", "shipped")
    with pytest.raises(sqlite3.IntegrityError, match="^REJECTED.*NO_STATE: o1 is in refunded"):
        value(db, "SELECT once_machine_change('order', 'cart>paid')")
    assert value(db, "SELECT once_machine_change('order', 'cart>paid paid>refunded refunded>closed')") == 1
    assert move("refunded", "closed") == 1
    for sql in ("SELECT once_move('none', 'e', 'a', 'b')", "SELECT once_state('none', 'e')",
                "SELECT once_machine_change('none', 'a>b')"):
        with pytest.raises(sqlite3.IntegrityError, match="^NOTFOUND"):
            value(db, sql)


def test_outbox(db):
    db.execute("CREATE TABLE mine(id INTEGER PRIMARY KEY)")
    inserted = db.execute("INSERT INTO mine VALUES (4711)").lastrowid
    value(db, "SELECT once_emit('mail', '{\"to\":1}')")
    assert inserted == value(db, "SELECT last_insert_rowid()"), "the caller's row is still the last one"
    value(db, "SELECT once_emit('mail', 'first', 'g')")
    value(db, "SELECT once_emit('mail', x'ff', 'g')")

    def take(topic="mail"):
        return json.loads(value(db, "SELECT once_take(?, 10, 1000)", topic))
    taken = take()
    assert [message["payload"] for message in taken] == ['{"to":1}', "first"]
    assert take() == [] and take("other") == []
    free, grouped = taken
    assert value(db, "SELECT once_ack(?, ?)", grouped["id"], grouped["token"]) == 1
    assert value(db, "SELECT once_ack(?, ?)", grouped["id"], grouped["token"]) == 0
    second, = take()
    assert second["payload_base64"] == "/w=="
    assert value(db, "SELECT once_release(?, ?)", free["id"], free["token"]) == 1
    with pytest.raises(sqlite3.IntegrityError, match="^STALE"):
        value(db, "SELECT once_ack(?, ?)", free["id"], free["token"])
    assert [message["attempt"] for message in take()] == [2]
    advance(db, 5000)
    again = take()
    assert [message["attempt"] for message in again] == [3, 2], "leases are over: the next worker has them"
    for message in again:
        value(db, "SELECT once_ack(?, ?)", message["id"], message["token"])
    assert db.execute("SELECT count(*) FROM once_waiting").fetchone() == (0,)
    advance(db, 2 * 86400000)
    assert value(db, "SELECT once_sweep()") == 3
    with pytest.raises(sqlite3.IntegrityError, match="^NOTFOUND"):
        value(db, "SELECT once_ack(1, 1)")


def test_merges_keep_their_laws(db):
    """Any order, any number of times: functions and aggregates give the same."""
    chance = random.Random(8)
    kinds = {
        "max": lambda: chance.randrange(-5, 5), "min": lambda: chance.randrange(-5, 5), "or": lambda: chance.randrange(2),
        "union": lambda: json.dumps([chance.choice("abcü\n\"\\") for _ in range(chance.randrange(3))]),
        "vv": lambda: json.dumps({chance.choice("abc"): chance.randrange(4) for _ in range(chance.randrange(3))}),
        "gcounter": lambda: json.dumps({chance.choice("abc"): chance.randrange(4) for _ in range(chance.randrange(3))}),
        "lww": lambda: json.dumps({"time": chance.randrange(3), "node": chance.choice("ab"), "value": [chance.randrange(2)]})}
    for kind, make in kinds.items():
        def merge(a, b):
            return value(db, f"SELECT once_merge_{kind}(?, ?)", a, b)
        for _ in range(60):
            a, b, c = make(), make(), make()
            assert merge(a, b) == merge(b, a)
            assert merge(merge(a, b), c) == merge(a, merge(b, c))
            assert merge(merge(a, b), b) == merge(a, b) == merge(merge(a, b), None)
            rows = [a, b, c, a, None]
            chance.shuffle(rows)
            joined = db.execute(f"WITH r(x) AS (VALUES {','.join(['(?)'] * 5)}) SELECT once_merge_{kind}(x) FROM r", rows)
            assert joined.fetchone()[0] == merge(merge(a, b), c), kind
    assert value(db, "SELECT once_merge_vv(x) FROM (SELECT 1 AS x WHERE 0)") is None
    assert value(db, "SELECT once_merge_union(json_array('m' || value)) FROM json_each('[3,1,2,1]')") == '["m1","m2","m3"]'
    state = None
    for _ in range(3):
        state = value(db, "SELECT once_gcounter_add(?, 'n', 2)", state)
    assert value(db, "SELECT once_gcounter_value(?)", state) == 6
    assert value(db, "SELECT once_vv_order('{\"a\":1}', once_vv_tick('{\"a\":1}', 'b'))") == "before"


# ---- Many at once, and killed -------------------------------------------------------------------------


def prepared(path, journal):
    db = connect(path)
    assert value(db, f"PRAGMA journal_mode = {journal}") == journal
    db.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
    db.executemany("INSERT INTO account VALUES (?, 0)", [(i,) for i in range(10)])
    db.execute("SELECT once_install()").fetchone()
    return db


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_one_of_many_executes(tmp_path, journal):
    path = tmp_path / "shop.db"
    prepared(path, journal).close()
    said, start = [], threading.Barrier(8)

    def ask():
        db = connect(path, check_same_thread=False)
        start.wait()
        for number in range(5):
            db.execute("BEGIN IMMEDIATE" if number % 2 else "BEGIN")
            verdict = begin(db, f"k{number}")
            if verdict["verdict"] == "EXECUTE":
                db.execute("UPDATE account SET balance = balance + 1 WHERE id = ?", (number,))
                complete(db, f"k{number}", verdict["fence"], f"done {number}")
            db.execute("COMMIT")
            said.append((number, verdict["verdict"]))
        db.close()
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == sorted((n, v) for n in range(5) for v in ["EXECUTE"] + ["REPLAY"] * 7)
    db = connect(path)
    assert [b for b, in db.execute("SELECT balance FROM account ORDER BY id")] == [1] * 5 + [0] * 5
    db.close()


def start_worker(path, seed, keys, what):
    return subprocess.Popen([sys.executable, WORKER, EXTENSION, path, str(seed), str(keys), what],
                            stdout=subprocess.PIPE, text=True)


def kill(worker):
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    rest = worker.stdout.read()
    worker.stdout.close()
    return rest


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_balances_are_exact_whoever_is_killed(tmp_path, journal):
    """Several processes charge the same keys again and again, and are killed at random moments."""
    path, keys, chance = tmp_path / "shop.db", 60, random.Random(11)
    db = prepared(path, journal)
    for turn in range(8 * ROUNDS):
        workers = [start_worker(path, f"{turn}.{i}", keys, "balance") for i in range(3)]
        for worker in workers:
            for _ in range(chance.randrange(1, 12)):
                assert worker.stdout.readline() == "done\n"
            time.sleep(chance.random() / 200)  # not to be in step: the moment of death is random
            kill(worker)
        assert value(db, "PRAGMA integrity_check") == "ok"
        assert value(db, "SELECT count(*) FROM once_doubts") == 0, "a killed transaction leaves nothing"
        done = dict(db.execute("SELECT account, count(*) FROM (SELECT CAST(substr(key, 3) AS INTEGER) % 10 AS account "
                               "FROM once_operation WHERE state = 2) GROUP BY account"))
        assert dict(db.execute("SELECT id, balance FROM account WHERE balance > 0")) == done
    results = [row[0] for row in db.execute("SELECT result FROM once_operation")]
    assert len(results) == len(set(results)), "two keys have the answer of one effect"
    for number in range(keys):
        db.execute("BEGIN")
        verdict = begin(db, f"k-{number}", fingerprint=f"charge k-{number}")
        assert verdict["verdict"] in ("REPLAY", "EXECUTE")
        db.execute("ROLLBACK")
    db.close()


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_what_was_committed_survives_kills(tmp_path, journal):
    path, chance = tmp_path / "shop.db", random.Random(12)
    db = prepared(path, journal)
    fences = []
    for turn in range(6 * ROUNDS):
        worker = start_worker(path, turn, 0, "promise")
        lines = [worker.stdout.readline() for _ in range(chance.randrange(1, 20))]
        lines += kill(worker).splitlines(keepends=True)
        promised = [line.split() for line in lines if line.endswith("\n")]
        for key, fence, result in promised:
            assert begin(db, key, fingerprint=f"charge {key}") == {"verdict": "REPLAY", "code": 201, "result": result}
            fences.append(int(fence))
    assert fences == sorted(set(fences)), "a fence was given twice, or went back"
    assert begin(db, "next")["fence"] > fences[-1]
    db.close()


# ---- The page -----------------------------------------------------------------------------------------


def example(language):
    page = (ROOT / "docs" / "sqlite.md").read_text()
    block, = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return block.replace("build/once_sqlite", str(EXTENSION.with_suffix("")))


def test_examples_of_the_page(tmp_path):
    db = connect(tmp_path / "shop.db")
    db.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER)")
    db.execute("INSERT INTO account VALUES (42, 1000)")
    db.close()
    (tmp_path / "charge.py").write_text(example("python"))
    assert run([sys.executable, "charge.py"], cwd=tmp_path) == "EXECUTE\ncharged 100\n"
    (tmp_path / "node_modules").symlink_to(node_modules())
    (tmp_path / "charge.mjs").write_text(example("js").replace("node:sqlite", "@photostructure/sqlite"))
    assert run(["node", "charge.mjs"], cwd=tmp_path) == "EXECUTE\n"
    assert run(["node", "charge.mjs"], cwd=tmp_path) == "REPLAY\n"
    assert shell(tmp_path / "shop.db", "SELECT balance FROM account") == ["800"]


def test_every_function_is_on_the_page_and_in_the_tests(db):
    page = (ROOT / "docs" / "sqlite.md").read_text()
    names = {name for name, in db.execute("SELECT name FROM once_functions")}
    for name in names:
        assert f"`{name}(" in page or f", `{name}(" in page, name
    untested = names - set(FUNCTIONS)
    assert untested == {"once_install", "once_version", "once_now_ms"}, "no argument, no harm"
