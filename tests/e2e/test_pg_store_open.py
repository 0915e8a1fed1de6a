# SPDX-License-Identifier: Apache-2.0
"""Opening the store of `once serve --store postgres://...` on a real server: what may lose data is
refused, the schema is installed or upgraded, rights are asked for, and no secret is told.
"""
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pg_cut import Driver
from pg_pooler import Pooler
from pg_tools import Postgres, program, psql
from serving import HOST, wait_for


@pytest.fixture(scope="module", name="own")
def fixture_own(tmp_path_factory):
    """A server whose settings are changed."""
    with Postgres(tmp_path_factory.mktemp("own")) as server:
        yield server


def name_of(url):
    return url.rsplit("/", 1)[1]


@pytest.mark.parametrize("setting, value", [("synchronous_commit", "off"),
                                            ("synchronous_commit", "local"),
                                            ("full_page_writes", "off"), ("fsync", "off")])
def test_setting_that_loses_is_refused(own, setting, value):
    url = own.database()
    try:
        own.configure(**{setting: value})
        with Driver(url, opens=False) as driver:
            assert driver.first.startswith(f"ERR_UNSUPPORTED {url.split('@')[0]}@"), driver.first
            assert setting in driver.first and "--accept-loss" in driver.first
        with Driver(url, "--accept-loss") as driver:
            assert driver.ask("begin", "b", "k")[0] == "EXECUTE"
            assert any(setting in line for line in driver.said)
    finally:
        own.configure(**{setting: "on"})


def test_setting_that_begins_to_lose_stops_deciding(own):
    url = own.database()
    with Driver(url) as driver:
        assert driver.ask("begin", "a", "before")[0] == "EXECUTE"
        own.configure(synchronous_commit="off")
        try:
            wait_for("it is noticed", lambda: driver.stats()["unreachable"])
            driver.send("begin b during")
            time.sleep(0.3)
            assert not driver.has("b")
        finally:
            own.configure(synchronous_commit="on")
        assert driver.answer("b")[0] == "EXECUTE"


def test_asynchronous_standby_is_refused(own, tmp_path):
    url = own.database()
    standby = subprocess.Popen(
        [program("pg_receivewal"), "-D", tmp_path, "-d",
         f"host={HOST} port={own.port} user=postgres application_name=standby"],
        stderr=subprocess.PIPE, text=True)
    try:
        wait_for("it streams", lambda: own.sql("SELECT 1 FROM pg_stat_replication"
                                               " WHERE state = 'streaming'"))
        with Driver(url, opens=False) as driver:
            assert "ERR_UNSUPPORTED" in driver.first, driver.first
            assert "synchronous_standby_names" in driver.first
    finally:
        standby.terminate()
        standby.communicate()


def test_rights(pg):
    """A role that may only log in is refused and told what it needs; with once_server it serves."""
    url = pg.installed()
    role = "serves_" + name_of(url)
    as_role = url.replace("postgres@", f"{role}@")
    pg.sql(f'CREATE ROLE "{role}" LOGIN')
    try:
        with Driver(as_role, opens=False) as driver:
            assert driver.first.startswith("ERR_PERMISSION ") and "once_server" in driver.first
        pg.sql(f'GRANT once_server TO "{role}"')
        with Driver(as_role) as driver:
            driver.load(4, 5, 0)
            assert driver.loaded()["once"] == 5
            assert driver.list(2)[0] == "OK"
        empty = pg.database()
        with Driver(empty.replace("postgres@", f"{role}@"), opens=False) as driver:
            assert driver.first.startswith("ERR_PERMISSION ") and "once.sql" in driver.first
    finally:
        pg.sql(f'DROP ROLE "{role}"')


def test_schema_of_another_version(pg):
    url = pg.installed()
    psql(url, "CREATE OR REPLACE FUNCTION once.version() RETURNS text LANGUAGE sql IMMUTABLE AS"
              " $$ SELECT '99.0' $$")
    with Driver(url, opens=False) as driver:
        assert driver.first.startswith("ERR_VERSION ") and "99.0" in driver.first


def test_older_schema_is_upgraded(pg):
    url = pg.installed("1.0")
    with pg.session(name_of(url)) as session:
        (_, fence, *_), = session.rows("SELECT * FROM once.begin('drive', 'old')")
        with Driver(url) as driver:
            assert session.value("SELECT once.version()") == "1.1"
            assert driver.ask("complete", "c", "old", fence, "kept")[0] == "OK"
            assert driver.ask("begin", "b", "old")[0] == "REPLAY"


def test_many_open_an_empty_database_at_once(pg):
    url = pg.database()
    drivers = []
    threads = [threading.Thread(target=lambda: drivers.append(Driver(url))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drivers) == 3
    words = [driver.ask("begin", "b", "k")[0] for driver in drivers]
    assert sorted(words) == ["BUSY", "BUSY", "EXECUTE"]
    for driver in drivers:
        assert driver.close()[0] == "OK"


@pytest.mark.parametrize("url, error", [
    ("postgres://u:topsecret@127.0.0.1:1/db", "ERR_IO"),
    ("postgres://u:topsecret@127.0.0.1:port/db", "ERR_INVALID"),
    ("postgres://u:top/secret@127.0.0.1:1/db", "ERR_INVALID"),
    ("postgres://127.0.0.1:1/db?password=topsecret", "ERR_IO"),
    ("postgres://127.0.0.1:1/db?no_such=topsecret", "ERR_INVALID"),
    ("mysql://u:topsecret@h/db", "ERR_INVALID")])
def test_nobody_there_and_no_secret_told(url, error):
    with Driver(url, opens=False) as driver:
        assert driver.first.startswith(error + " "), driver.first
        assert "secret" not in driver.first + "".join(driver.said)


def test_pooler_that_shares_sessions_is_refused(pg):
    """Locks of a session, and what it was set to, are what makes asking again safe."""
    url = pg.installed()
    with Pooler(pg.port, whole_sessions=False) as pooler:
        through = url.replace(f":{pg.port}/", f":{pooler.port}/")
        with Driver(through, opens=False) as driver:
            assert driver.first.startswith("ERR_UNSUPPORTED") and "pooler" in driver.first
    with Pooler(pg.port, whole_sessions=True) as pooler:
        through = url.replace(f":{pg.port}/", f":{pooler.port}/")
        with Driver(through) as driver:
            assert driver.ask("begin", "b", "key")[0] == "EXECUTE"


def test_installation_by_another_server_is_waited_for(pg):
    """However long it takes: longer than a statement may."""
    url = pg.database()
    with pg.session(name_of(url)) as session:
        session.rows("SELECT pg_advisory_lock(x'4f4e4345'::integer, 1)")
        with ThreadPoolExecutor(1) as others:
            opened = others.submit(Driver, url)
            with pytest.raises(TimeoutError):
                opened.result(timeout=11)
            session.rows("SELECT pg_advisory_unlock_all()")
            with opened.result(timeout=60) as driver:
                assert driver.ask("begin", "b", "key")[0] == "EXECUTE"
