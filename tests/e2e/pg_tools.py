# SPDX-License-Identifier: Apache-2.0
"""Real PostgreSQL servers for the tests: made with initdb, on a free port of this machine, durable
as in production (fsync on), gone at the end. Conftest gives a shared one as `pg`, which is started
when the first test asks for it; `pg.database()` is a fresh database there, `pg.installed()` one with
the schema of Once. What needs to be killed, promoted or restarted is a `Postgres` of its own.

A server's data is not in the test's folder: the tests may run as root, PostgreSQL may not, and it
could not reach a folder of root's.
"""
import atexit
import ctypes
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from serving import HOST, ROOT, free_port, once_binary, wait_for

SQL = ROOT / "hosts" / "postgres"
SUPER = "postgres"
STOP_MODES = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
SETTINGS = {
    "listen_addresses": HOST,
    "shared_buffers": "32MB",
    "max_connections": 120,
    "fsync": "on",
    "wal_level": "replica",
    "max_wal_senders": 6,
    "min_wal_size": "32MB",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] ",
}
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def program(name):
    """Of the PostgreSQL in ONCE_PG_BIN, which may lack the programs of clients, or of the one whose
    pg_config is found first: initdb is in no PATH on Debian."""
    other = Path(os.environ.get("ONCE_PG_BIN", "/nowhere")) / name
    if other.exists():
        return str(other)
    bindir = subprocess.run(["pg_config", "--bindir"], text=True, check=True, timeout=30,
                            stdout=subprocess.PIPE).stdout.strip()
    path = Path(bindir) / name
    assert path.exists(), f"{path} is missing; run `make setup`"
    return str(path)


def test_program(name):
    """A program of tests/conformance, beside the `once` that is tested; ONCE_TEST_PROGRAMS: the
    folder of another build."""
    folder = os.environ.get("ONCE_TEST_PROGRAMS")
    path = Path(folder or once_binary().resolve().parents[2] / "tests" / "conformance") / name
    assert path.exists(), f"{path} is not built; run `make`"
    return str(path)


test_program.__test__ = False  # pytest: it only sounds like a test


def as_user():
    """Keywords of subprocess: who runs a server that refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    found = pwd.getpwnam("postgres")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def die_with_us():
    """A run of the tests that is itself killed leaves no server behind. The signal is about the
    thread that starts it, so it is only asked for where that thread lives as long as we do."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120, cwd="/", **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


def fragments(version):
    """The files of one version in the order in which they are run."""
    found = sorted((SQL / version).glob("*.sql"))
    assert found, f"there is nothing in {SQL / version}"
    return found


def script(version="1.1"):
    """What `psql -f` would be given to install this version: all versions up to it."""
    versions = [v for v in ("1.0", "1.1") if v <= version]
    return "\n".join(path.read_text() for v in versions for path in fragments(v))


def psql(url, text, **options):
    """Runs a script as a person would: in one transaction, up to the first error."""
    return run("psql", "--no-psqlrc", "--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1",
               "-d", url, "-f", "-", input=text, **options)


def break_function(url, name, pattern, replacement):
    """What a mistake would do: replaces the first match of a pattern in a function of Once. A test
    that still passes then cannot fail."""
    with PgSession(url) as session:
        texts = session.rows("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace ="
                             " 'once'::regnamespace AND proname = %s", name)
        broken = [re.subn(pattern, lambda _: replacement, text, count=1) for text, in texts]
        assert any(count for _, count in broken), f"{pattern} is not in once.{name}"
        for text, count in broken:
            if count:
                session.rows(text)


class PgSession:
    """A connection for tests: `one`, `rows` and `value` in transactions of their own, unless
    `transaction()` is open."""

    def __init__(self, url, autocommit=True, **options):
        self.connection = psycopg.connect(url, autocommit=autocommit, **options)

    @property
    def pid(self):
        return self.connection.info.backend_pid

    def rows(self, text, *arguments):
        cursor = self.connection.execute(text, arguments or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, text, *arguments):
        found = self.rows(text, *arguments)
        assert len(found) == 1, f"{len(found)} rows: {text}"
        return found[0]

    def value(self, text, *arguments):
        return self.one(text, *arguments)[0]

    def dicts(self, text, *arguments):
        with self.connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(text, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def transaction(self):
        return self.connection.transaction()

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Postgres:
    """One server. `tmp`: a folder of the test, for the log (None: beside the data). `replica_of`: a
    running `Postgres`, of which it becomes a streaming replica named `name`; `with` starts it."""

    def __init__(self, tmp=None, replica_of=None, settings=None, name="once_replica"):
        self.folder = Path(tempfile.mkdtemp(prefix="once_pg_", dir="/tmp"))
        self.data = self.folder / "data"
        user = as_user()
        if user:
            os.chown(self.folder, user["user"], user["group"])
        self.log = Path(tmp or self.folder) / f"postgres_{self.folder.name}.log"
        self.port = free_port()
        self.settings = dict(SETTINGS, **(settings or {}))
        self.process = None
        self.counter = itertools.count(1)
        self.templates = {}
        self.name = name
        atexit.register(self.destroy)
        if replica_of is None:
            run(program("initdb"), "-D", self.data, "-U", SUPER, "-A", "trust", "-N", "-E", "UTF8",
                "--locale=C.UTF-8", **user)
            with (self.data / "postgresql.conf").open("a") as file:
                file.write("include 'once.conf'\n")
        else:
            self.settings = dict(replica_of.settings, **(settings or {}))
            run(program("pg_basebackup"), "-D", self.data, "-R", "-X", "stream", "-c", "fast", "-N",
                "-d", replica_of.url("postgres", application_name=name), **user)

    def url(self, db="postgres", user=SUPER, **options):
        """Over TCP. Further options of libpq by their names."""
        return (f"postgresql://{user}@{HOST}:{self.port}/{db}"
                + ("?" + urlencode(options) if options else ""))

    def socket_url(self, db="postgres", user=SUPER):
        return f"postgresql://{user}@/{db}?" + urlencode({"host": self.folder, "port": self.port})

    def start(self, ready=True):
        assert self.process is None
        self.write_settings()
        main = threading.current_thread() is threading.main_thread()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [program("postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd="/", start_new_session=True,
                preexec_fn=die_with_us if main else None, **as_user())
        if ready:
            wait_for("PostgreSQL answers", self.answers)
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended with {self.process.returncode}:\n"
                                 + self.tail())
        try:
            with psycopg.connect(self.url(), connect_timeout=5):
                return True
        except psycopg.OperationalError as error:
            raise ConnectionError(str(error)) from error

    def tail(self, size=4000):
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    @property
    def pid(self):
        return self.process.pid

    def stop(self, mode="fast"):
        """smart, fast or immediate (the next start recovers, as after a crash of all processes)."""
        if self.process is None:
            return
        self.process.send_signal(STOP_MODES[mode])
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise
        self.process = None

    def kill9(self):
        """The whole server: the postmaster first, then what it leaves behind."""
        children = [int(pid) for pid in subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.pid)], text=True, check=False, timeout=30,
            stdout=subprocess.PIPE).stdout.split()]
        for pid in [self.pid, *children]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        wait_for("its processes are gone", lambda: not any(alive(pid) for pid in children))
        self.process = None

    def restart(self, mode="fast"):
        self.stop(mode)
        return self.start()

    def promote(self):
        """A replica becomes the primary. Waits until it takes writes."""
        self.sql("SELECT pg_promote(true, 60)")
        wait_for("it takes writes", lambda: not self.sql("SELECT pg_is_in_recovery()")[0][0])

    def session(self, db="postgres", user=SUPER, **options):
        return PgSession(self.url(db, user), **options)

    def sql(self, text, *arguments, db="postgres"):
        """The rows of one statement, outside of any transaction."""
        with self.session(db) as session:
            return session.rows(text, *arguments)

    def write_settings(self):
        options = dict(self.settings, port=self.port, unix_socket_directories=self.folder)
        path = self.data / "once.conf"
        path.write_text("".join(f"{name} = '{value}'\n" for name, value in options.items()))
        path.chmod(0o644)

    def configure(self, **settings):
        """Changes settings that need no restart, and waits until they count."""
        self.settings.update(settings)
        self.write_settings()
        loaded = "SELECT pg_conf_load_time()"
        before = self.sql(loaded)
        self.process.send_signal(signal.SIGHUP)
        wait_for("settings are read", lambda: self.sql(loaded) != before)

    def database(self, template="template0"):
        """The URL of a fresh database."""
        name = f"test_{os.getpid()}_{next(self.counter)}"
        self.sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def installed(self, version="1.1"):
        """The URL of a fresh database with the schema of Once."""
        if version not in self.templates:
            url = self.database()
            psql(url, script(version))
            self.templates[version] = url.rsplit("/", 1)[1]
        return self.database(self.templates[version])

    def in_sync(self, *replicas):
        """Until every one of these replicas streams, and counts for commits if it should."""
        names = {replica.name for replica in replicas}
        want = {"sync", "quorum"} if self.settings.get("synchronous_standby_names") else {"async"}
        wait_for("replicas stream", lambda: names <= {
            name for name, state in self.sql("SELECT application_name, sync_state FROM"
                                             " pg_stat_replication WHERE state = 'streaming'")
            if state in want})

    def destroy(self):
        """Stops it whatever happened, and removes what it kept."""
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop("immediate")
        finally:
            self.process = None
            shutil.rmtree(self.folder, ignore_errors=True)
            atexit.unregister(self.destroy)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is not None:
            print("PostgreSQL's log ends:\n" + self.tail(2000))
        self.destroy()


def alive(pid):
    """A process that was killed and not yet waited for counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def replicated(tmp=None, settings=None):
    """(primary, replica), both running: each commit waits for the replica."""
    primary = Postgres(tmp, settings=dict(settings or {}, synchronous_standby_names=""))
    primary.start()
    replica = Postgres(tmp, replica_of=primary).start()
    primary.configure(synchronous_standby_names=replica.name)
    primary.in_sync(replica)
    return primary, replica
