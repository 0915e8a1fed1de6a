# SPDX-License-Identifier: Apache-2.0
"""The schema in a database: as a script and as an extension, twice, at once, upgraded from 1.0 with
its data, without rights, dumped and restored. The extension is read by a server whose share folder
is the test's own."""
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pg_tools
import psycopg
import pytest
from pg_tools import PgSession, Postgres, run
from serving import ROOT

HOST = ROOT / "hosts" / "postgres"
BUILD = HOST / "build.py"
NEWEST = "1.1"


def built(folder, out):
    out.mkdir(exist_ok=True)
    subprocess.run([sys.executable, BUILD, folder, out], check=True, timeout=60)
    return out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What `make postgres` leaves in build/postgres."""
    return built(HOST, tmp_path_factory.mktemp("postgres") / "built")


@pytest.fixture(scope="module")
def first_version(tmp_path_factory):
    """The script as it was when there was version 1.0 only."""
    folder = tmp_path_factory.mktemp("first")
    shutil.copytree(HOST / "1.0", folder / "1.0")
    return built(folder, folder / "built")


def psql(url, script, fails=False):
    done = subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", script],
                          text=True, timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def everything(session):
    """Which objects the schema has, and in which transaction each was last changed."""
    return session.rows("SELECT 'proc', oid, xmin::text FROM pg_proc"
                        " WHERE pronamespace = 'once'::regnamespace UNION ALL"
                        " SELECT 'class', oid, xmin::text FROM pg_class"
                        " WHERE relnamespace = 'once'::regnamespace ORDER BY 1, 2")


# ---- data that must survive ----------------------------------------------------------------------

def fill(session, newest=True):
    """One of each: completed, failed, running, in doubt; and what 1.1 keeps besides."""
    done = session.value("SELECT (once.begin('pay', 'done', once.fingerprint('{\"n\": 1}'))).fence")
    session.rows("SELECT once.complete('pay', 'done', %s, 7, 'paid')", done)
    failed = session.value("SELECT (once.begin('pay', 'failed')).fence")
    session.rows("SELECT once.checkpoint('pay', 'failed', %s, 'step', 'data')", failed)
    session.rows("SELECT once.fail('pay', 'failed', %s, 'no')", failed)
    session.rows("SELECT once.begin('pay', 'runs', owner => 'me', lease_ms => 604800000)")
    fence = session.value("SELECT (once.begin('pay', 'doubt')).fence")
    assert session.value("SELECT once.renew('pay', 'doubt', %s, 0)", fence) == "OK"
    if newest:
        session.rows("SELECT once.seen('g', 't', 'm')")
        session.rows("SELECT once.machine('order', '{new>paid}')")
        session.rows("SELECT once.move('order', '7', 'new', 'paid')")
        session.rows("SELECT once.guard('r', once.grant('r'))")
        session.rows("SELECT once.emit('mails', '{\"to\": 1}', 'g')")
        session.rows("INSERT INTO once.scope VALUES ('nobody', 'shop')")
    session.rows("SELECT once.tick()")
    return session.value("SELECT last_value FROM once.fence_seq")


def rows_of(session, name):
    return session.rows(f"SELECT * FROM once.{name} ORDER BY 1, 2")


def all_rows(session, tables=("operation",)):
    return {name: rows_of(session, name) for name in tables}


TABLES = ("operation", "message", "machine", "entity", "resource", "outbox", "scope")


def still_there(session, last_fence, now_ms):
    """The answers are the first ones, fences are larger than all before, time has not gone back."""
    assert session.value("SELECT once.now_ms()") >= now_ms
    assert session.one("SELECT (v).verdict, (v).code, (v).result FROM (SELECT once.begin('pay', 'done',"
                       " once.fingerprint('{\"n\": 1}')) AS v) x") == ("REPLAY", 7, b"paid")
    assert session.value("SELECT (once.begin('pay', 'done')).verdict") == "MISMATCH"
    assert session.value("SELECT (once.begin('pay', 'doubt')).verdict") == "DOUBT"
    assert session.value("SELECT (once.begin('pay', 'runs')).verdict") == "BUSY"
    again = session.one("SELECT (v).verdict, (v).attempt, (v).point, (v).data, (v).fence FROM (SELECT"
                        " once.begin('pay', 'failed') AS v) x")
    assert again[:4] == ("EXECUTE", 2, "step", b"data") and again[4] > last_fence
    assert session.value("SELECT (once.begin('pay', 'new')).fence") > again[4]


def still_there_newest(session):
    assert session.value("SELECT once.seen('g', 't', 'm')") is True
    assert session.value("SELECT once.state('order', '7')") == "paid"
    token = session.value("SELECT seen FROM once.resource")
    assert session.value("SELECT once.grant('r')") > token
    assert session.value("SELECT payload FROM once.take('mails')") == {"to": 1}
    assert session.value("SELECT once.emit('mails', '1')") > token


# ---- the script ----------------------------------------------------------------------------------

def test_script_twice(pg, files):
    url = pg.database()
    psql(url, files / "once.sql")
    with PgSession(url) as session:
        assert session.value("SELECT once.version()") == NEWEST
        before = everything(session)
        assert len(before) > 50
        fill(session)
        kept = all_rows(session, TABLES)
        assert psql(url, files / "once.sql") == ""
        assert everything(session) == before
        assert all_rows(session, TABLES) == kept


def test_upgrade_keeps_data(pg, files, first_version):
    url = pg.database()
    psql(url, first_version / "once.sql")
    with PgSession(url) as session:
        assert session.value("SELECT once.version()") == "1.0"
        last = fill(session, newest=False)
        kept, now_ms = all_rows(session), session.value("SELECT once.now_ms()")
        psql(url, files / "once.sql")
        assert session.value("SELECT once.version()") == NEWEST
        assert all_rows(session) == kept
        still_there(session, last, now_ms)
        assert session.value("SELECT count(*) FROM once.doubts") == 1


def test_upgraded_is_the_same_as_new(pg, files, first_version, tmp_path):
    """Everything that pg_dump tells of the two schemas, rights included."""
    fresh, old = pg.database(), pg.database()
    psql(fresh, files / "once.sql")
    psql(old, first_version / "once.sql")
    psql(old, files / "once.sql")

    def schema(url):
        text = run(pg_tools.program("pg_dump"), "-s", "-n", "once", "-d", url)
        return [line for line in text.splitlines() if not line.startswith("\\")]

    assert schema(fresh) == schema(old)


def test_installed_by_many_at_once(pg, files):
    url = pg.database()
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(psql(url, files / "once.sql")))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == [""] * 4
    with PgSession(url) as session:
        assert session.value("SELECT once.version()") == NEWEST


def test_a_newer_schema_is_left_alone(pg, files):
    url = pg.installed()
    with PgSession(url) as session:
        session.rows("CREATE OR REPLACE FUNCTION once.version() RETURNS text LANGUAGE sql"
                     " IMMUTABLE AS 'SELECT ''9.9'''")
        before = everything(session)
        assert "version 9.9, which this script (1.1) does not know" in psql(
            url, files / "once.sql", fails=True)
        assert everything(session) == before


def test_without_rights_nothing_is_made(pg, files):
    url = pg.database()
    name = url.rsplit("/", 1)[1]
    pg.sql("DROP ROLE IF EXISTS once_test_stranger")
    pg.sql("CREATE ROLE once_test_stranger LOGIN")
    said = psql(pg.url(name, "once_test_stranger"), files / "once.sql", fails=True)
    assert f"once 1.0: permission denied for database {name}" in said
    assert len(said) < 1000, "an error shows itself, not the whole script"
    with PgSession(url) as session:
        assert not session.value("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'once')")


def test_c_file_is_the_script(files, tmp_path):
    (tmp_path / "main.c").write_text(
        '#include "once_schema.h"\n#include <stdio.h>\nint main(void)\n{\n'
        "    for (size_t i = 0; i < once__schema_version_count; i++)\n"
        '        fprintf(stderr, "%s\\n", once__schema_versions[i]);\n'
        "    return fputs(once__schema_script, stdout) < 0;\n}\n")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", f"-I{files}",
                    "-o", tmp_path / "main", tmp_path / "main.c", files / "once_schema.c"], check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, check=True, timeout=60)
    assert done.stdout == (files / "once.sql").read_bytes()
    assert done.stderr.split() == [b"1.0", b"1.1"]


@pytest.mark.parametrize("text, complaint", [
    ("SELECT 1;\n", "does not open with"),
    ("-- SPDX-License-Identifier: Apache-2.0\n\\echo hello\n", "a command of psql"),
    ("-- SPDX-License-Identifier: Apache-2.0\nSELECT $once_step$1$once_step$;\n", "the quote around"),
])
def test_bad_fragments_are_refused(tmp_path, text, complaint):
    (tmp_path / "1.0").mkdir()
    (tmp_path / "1.0" / "10_bad.sql").write_text(text)
    done = subprocess.run([sys.executable, BUILD, tmp_path, tmp_path], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode != 0 and complaint in done.stderr


def test_installed_files(installed):
    share = installed.prefix / "share" / "once" / "postgres"
    names = {"once.sql", "once.control", "once--1.0.sql", "once--1.0--1.1.sql"}
    assert {path.name for path in share.iterdir()} == names
    assert re.search(r"^default_version = '1.1'$", (share / "once.control").read_text(), re.MULTILINE)


# ---- a server of our own: the extension, an owner without rights --------------------------------

def own_share(folder, files):
    """PostgreSQL finds its share folder from where its program lies: a copy of the program, links to
    the rest, and a folder of extensions that has ours too. The program's path."""
    real = {name: Path(run("pg_config", f"--{name}").strip()) for name in ("bindir", "sharedir",
                                                                         "pkglibdir")}
    here = {name: folder / path.relative_to("/") for name, path in real.items()}
    for name in here:
        here[name].mkdir(parents=True)
    shutil.copy2(real["bindir"] / "postgres", here["bindir"])
    for name in ("sharedir", "pkglibdir"):
        for path in real[name].iterdir():
            if path.name != "extension":
                (here[name] / path.name).symlink_to(path)
    extensions = here["sharedir"] / "extension"
    extensions.mkdir()
    for path in (real["sharedir"] / "extension").glob("plpgsql*"):
        (extensions / path.name).symlink_to(path)
    for path in [files / "once.control", *files.glob("once--*.sql")]:
        shutil.copy(path, extensions)
    folder.chmod(0o755)
    return here["bindir"] / "postgres"


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    """A server that knows the extension, and whose roles nobody has made yet."""
    postgres = Postgres(tmp_path_factory.mktemp("log"))
    server_program = own_share(postgres.folder / "root", files)
    (postgres.folder / "root").chmod(0o755)
    find = pg_tools.program
    pg_tools.program = lambda name: str(server_program) if name == "postgres" else find(name)
    try:
        postgres.start()
    finally:
        pg_tools.program = find
    yield postgres
    postgres.destroy()


def test_owner_who_may_not_make_roles(server, files):
    """As on a managed PostgreSQL: no superuser, no right to make roles. Runs first."""
    server.sql("CREATE ROLE landlord LOGIN")
    server.sql("CREATE ROLE guest LOGIN")
    server.sql("CREATE DATABASE managed OWNER landlord")
    url = server.url("managed", "landlord")
    said = psql(url, files / "once.sql")
    assert said.count("NOTICE") == 3 and "the role once_app is not there" in said
    assert psql(url, files / "once.sql") == ""
    with PgSession(url) as session:
        last, now_ms = fill(session), session.value("SELECT once.now_ms()")
        still_there(session, last, now_ms)
        with PgSession(server.url("managed", "guest")) as guest:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                guest.rows("SELECT once.begin('n', 'k')")
            session.rows("GRANT USAGE ON SCHEMA once TO guest")
            session.rows("GRANT EXECUTE ON FUNCTION once.begin TO guest")
            assert guest.value("SELECT (once.begin('n', 'k')).verdict") == "EXECUTE"


def test_extension(server):
    url = server.database()
    with PgSession(url) as session:
        session.rows("CREATE EXTENSION once")
        assert session.value("SELECT once.version()") == NEWEST
        assert session.value("SELECT extversion FROM pg_extension WHERE extname = 'once'") == NEWEST
        fill(session)
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            session.rows("DROP SCHEMA once")
        session.rows("DROP EXTENSION once")
        assert not session.value("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'once')")


def test_extension_is_upgraded_with_its_data(server, files):
    url = server.database()
    with PgSession(url) as session:
        session.rows("CREATE EXTENSION once VERSION '1.0'")
        assert session.value("SELECT once.version()") == "1.0"
        last = fill(session, newest=False)
        kept, now_ms = all_rows(session), session.value("SELECT once.now_ms()")
        said = psql(url, files / "once.sql", fails=True)
        assert "once is an extension here, version 1.0" in said and "ALTER EXTENSION once UPDATE" in said
        session.rows("ALTER EXTENSION once UPDATE")
        assert session.value("SELECT once.version()") == NEWEST
        assert all_rows(session) == kept
        still_there(session, last, now_ms)
        assert psql(url, files / "once.sql") == ""


def dumped_and_restored(url, target, dump, form):
    """In both forms that docs/postgres.md tells. psql, since version 14, takes the name in CREATE
    FUNCTION once.begin for the BEGIN of a body, unless it stands in quotes."""
    if form == "custom":
        run(pg_tools.program("pg_dump"), "-Fc", "-d", url, "-f", dump)
        run(pg_tools.program("pg_restore"), "--exit-on-error", "-d", target, dump)
    else:
        run(pg_tools.program("pg_dump"), "--quote-all-identifiers", "-d", url, "-f", dump)
        psql(target, dump)


@pytest.mark.parametrize("how, form", [("script", "custom"), ("script", "plain"),
                                       ("extension", "plain"), ("upgraded extension", "custom")])
def test_dump_and_restore_keep_data_and_fences(server, files, tmp_path, how, form):
    url, target = server.database(), server.database()
    with PgSession(url) as session:
        if how == "script":
            psql(url, files / "once.sql")
        elif how == "extension":
            session.rows("CREATE EXTENSION once")
        else:
            session.rows("CREATE EXTENSION once VERSION '1.0'")
            session.rows("ALTER EXTENSION once UPDATE")
        last = fill(session)
        session.rows("SELECT once.set_clock(NULL, once.now_ms() + 5000)")
        kept, now_ms = all_rows(session, TABLES), session.value("SELECT once.now_ms()")
    dumped_and_restored(url, target, tmp_path / "dump", form)
    with PgSession(target) as session:
        assert session.value("SELECT once.version()") == NEWEST
        assert all_rows(session, TABLES) == kept
        still_there(session, last, now_ms)
        still_there_newest(session)
