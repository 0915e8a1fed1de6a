# SPDX-License-Identifier: Apache-2.0
"""What a database must be like for `once serve --store`: settings that lose data are refused, a
password is given in each of its ways, a standby is not written to.
"""
import os
import subprocess

import pytest
from failover_cluster import StoreServer
from pg_tools import Postgres
from serving import once_binary, wait_for
from test_pg_served import refused


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with Postgres(tmp_path_factory.mktemp("own")) as server:
        yield server


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_database_that_a_power_cut_damages_is_refused(own, tmp_path, setting):
    own.configure(**{setting: "off"})
    try:
        status, message = refused(own.url())
        assert status == 78 and setting in message and "--accept-loss" in message
        with StoreServer(tmp_path / "server", own.url(), ["--accept-loss"]) as server:
            with server.connect() as c:
                assert c("ONCE.BEGIN", "pay", setting)[0] == "EXECUTE"
    finally:
        own.configure(**{setting: "on"})


def test_settings_that_turn_bad_while_it_runs_stop_the_answers(own, tmp_path):
    with StoreServer(tmp_path / "server", own.url()) as server, server.connect() as c:
        fence = c("ONCE.BEGIN", "pay", "turn")[1]
        own.configure(fsync="off")
        wait_for("it notices", lambda: not server.ready())
        own.configure(fsync="on")
        wait_for("it goes on", server.ready)
        assert c("ONCE.COMPLETE", "pay", "turn", fence, 0, "") == "OK"


def test_a_standby_that_nobody_waits_for_is_refused_and_so_is_a_standby(own, tmp_path):
    replica = Postgres(tmp_path, replica_of=own).start()
    try:
        own.in_sync(replica)
        status, message = refused(own.url())
        assert status == 78 and "synchronous_standby_names" in message
        status, message = refused(replica.url(target_session_attrs="any"))
        assert status == 69 and "standby" in message, "it may become the primary: it was waited for"
        own.configure(synchronous_standby_names=replica.name)
        own.in_sync(replica)
        with StoreServer(tmp_path / "server", own.url()) as server, server.connect() as c:
            assert c("ONCE.BEGIN", "pay", "standby")[0] == "EXECUTE"
            assert replica.sql("SELECT count(*) FROM once.operation WHERE key = 'standby'")
    finally:
        own.configure(synchronous_standby_names="")
        replica.destroy()


def test_a_password_comes_from_the_url_or_a_file_and_is_never_shown(own, tmp_path):
    hba = own.data / "pg_hba.conf"
    own.sql("SET password_encryption = 'scram-sha-256'; CREATE ROLE locked LOGIN PASSWORD 's3cret'")
    own.sql("CREATE DATABASE locked OWNER locked")
    hba.write_text("host all locked all scram-sha-256\n" + hba.read_text())
    own.configure()
    store = own.url("locked", "locked")
    for password, said in (("", "password"), (":wr0ng", "password authentication failed")):
        status, message = refused(store.replace("locked@", f"locked{password}@"))
        assert status == 69 and said in message and "wr0ng" not in message
    passes = tmp_path / "pgpass"
    passes.write_text(f"127.0.0.1:{own.port}:*:locked:s3cret\n")
    passes.chmod(0o600)
    ways = [(store.replace("locked@", "locked:s3cret@"), {}),
            (store, {"PGPASSFILE": str(passes)}), (f"{store}?passfile={passes}", {})]
    for i, (url, environment) in enumerate(ways):
        server = StoreServer(tmp_path / f"server{i}", url)
        server.environment.update(environment)
        with server, server.connect() as c:
            assert c("ONCE.BEGIN", "pay", f"k{i}")[0] == "EXECUTE"
        assert "s3cret" not in server.log.read_text()


def test_a_folder_and_a_shared_store_together_are_a_usage_error(tmp_path):
    done = subprocess.run([once_binary(), "serve", "--dir", tmp_path, "--store", "postgres://h/d"],
                          text=True, capture_output=True, timeout=30)
    assert done.returncode == 64 and "one of them" in done.stderr
    done = subprocess.run([once_binary(), "serve", "--check-config"], text=True, timeout=30,
                          capture_output=True,
                          env=dict(os.environ, ONCE_DIR="/d", ONCE_STORE="postgres://u:s3cret@h/d"))
    assert done.returncode == 78 and "not both" in done.stderr and "s3cret" not in done.stderr


@pytest.mark.parametrize("words", (["run", "k", "--", "true"], ["apply", "bank", "k", "ADD a 1"],
                                   ["get", "bank", "k"], ["serve", "--check-config"]), ids=lambda w: w[0])
def test_a_url_is_no_folder(words, tmp_path):
    """A folder of that name would be another store, empty: what was done would be done again."""
    url = "postgres://u:s3cret@h/d"
    asked = [([words[0], "--dir", url, *words[1:]], {}), (words, {"ONCE_DIR": url})]
    if words[0] != "serve":
        asked.append((words, {"ONCE_STORE": url}))
    for command, env in asked:
        done = subprocess.run([once_binary(), *command], text=True, timeout=30, capture_output=True,
                              cwd=tmp_path, env=dict(os.environ, **env))
        assert done.returncode in (64, 78) and "shared store" in done.stderr, done.stderr
        assert "s3cret" not in done.stderr and not any(tmp_path.iterdir())
