# SPDX-License-Identifier: Apache-2.0
"""Two `once serve` behind a load balancer on one PostgreSQL with a synchronous replica, all of them
real processes that can be killed, and what an operator does to them (test_pg_failover.py).

    clients ─▶ haproxy ─┬─▶ once serve ─┬─▶ Wire ─▶ PostgreSQL
                        └─▶ once serve ─┘   Wire ─▶ PostgreSQL, which follows the other over a Wire
"""
import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from pg_wire import Wire
from pg_tools import Postgres
from serving import HOST, Connection, Process, free_port, once_binary, wait_for

HERE = Path(__file__).resolve().parent
DB = "once"
BACK_S = 120


class StoreServer(Process):
    """`once serve --store`. There is no folder to ask in: it says itself when it is ready."""

    def __init__(self, folder, store, options=()):
        super().__init__(folder)
        self.port, self.http = free_port(), free_port()
        self.store, self.options = store, list(options)
        self.config = self.folder / "once.conf"
        self.config.write_text("")

    def command(self):
        return [str(once_binary()), "serve", "--config", str(self.config), "--store", self.store,
                "--listen", f"{HOST}:{self.port}", "--http", f"{HOST}:{self.http}", *self.options]

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.http}/readyz", timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def connect(self, **options):
        return Connection(self.port, **options)


class Balancer(Process):
    """haproxy in TCP mode: it sends nobody to a server whose /readyz does not say 200."""

    def __init__(self, folder, servers):
        super().__init__(folder)
        self.port = free_port()
        lines = "".join(f"  server s{i} {HOST}:{s.port} check port {s.http}\n"
                        for i, s in enumerate(servers))
        self.config = self.folder / "haproxy.cfg"
        self.config.write_text(
            "global\n  maxconn 1000\n  nbthread 1\n"
            "defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1m\n  timeout server 1m\n"
            "  retries 2\n  option redispatch\n"
            f"frontend once\n  bind {HOST}:{self.port}\n  default_backend servers\n"
            "backend servers\n  balance roundrobin\n  option httpchk GET /readyz\n"
            "  http-check expect status 200\n"
            "  default-server inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions\n" + lines)

    def command(self):
        return ["haproxy", "-db", "-f", str(self.config)]

    def ready(self):
        with Connection(self.port, timeout=5) as c:
            return c("PING") == "PONG"

    def stop(self):
        if self.process is not None:
            self.kill()
        return 0


class Clients:
    """The worker processes."""

    def __init__(self, port, folder, count=3, objects=True):
        self.folder = Path(folder)
        (self.folder / "effects").mkdir(parents=True)
        self.errors = (self.folder / "errors").open("w")
        self.workers = [subprocess.Popen(
            [sys.executable, HERE / "failover_worker.py", str(port), self.folder, f"w{i}",
             *(["objects"] if objects else [])], stderr=self.errors) for i in range(count)]

    def told(self):
        return sum(path.stat().st_size for path in self.folder.glob("told.*"))

    def alive(self):
        said = (self.folder / "errors").read_text()
        assert said == "", said[-3000:]

    def go_on(self, size=8000):
        """Until they have been told so much more, in bytes."""
        before = self.told()

        def more():
            self.alive()
            return self.told() > before + size

        wait_for("clients go on", more, BACK_S)

    def finish(self):
        (self.folder / "stop").touch()
        for worker in self.workers:
            worker.wait(BACK_S)
        self.alive()

    def end(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        self.errors.close()


class Node:
    """A PostgreSQL and the wires to it: `wire` is for the servers, `stream` for its replica."""

    def __init__(self, tmp, name, replica_of=None):
        self.name = name
        self.pg = Postgres(tmp, replica_of=replica_of.pg if replica_of else None, name=name,
                           settings={"hot_standby": "on", "wal_retrieve_retry_interval": "100ms",
                                     "synchronous_standby_names": ""})
        if replica_of is not None:
            with (self.pg.data / "postgresql.auto.conf").open("a") as file:  # the last one counts
                file.write(f"primary_conninfo = 'host={HOST} port={replica_of.stream.port} "
                           f"user=postgres application_name={name}'\n")
        self.pg.start()
        self.wire, self.stream = Wire(self.pg.port), Wire(self.pg.port)

    def streams(self, name, state):
        wait_for(f"{name} streams", lambda: self.pg.sql(
            "SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
            " AND sync_state = %s", name, state))

    def waiting(self):
        """Backends whose commit waits for the replica."""
        return [pid for pid, in self.pg.sql("SELECT pid FROM pg_stat_activity"
                                            " WHERE wait_event = 'SyncRep'")]

    def sessions(self):
        """Backends that serve `once serve`."""
        return [pid for pid, in self.pg.sql("SELECT pid FROM pg_stat_activity"
                                            " WHERE application_name = 'once'")]

    def close(self):
        self.wire.close()
        self.stream.close()
        self.pg.destroy()


class Cluster:
    def __init__(self, tmp, synchronous=True, options=()):
        self.tmp, self.made, self.address = Path(tmp), 1, None
        self.synchronous = synchronous
        self.stack = contextlib.ExitStack()
        try:
            self.start(options)
        except BaseException:
            self.stack.close()
            raise

    def start(self, options):
        self.primary = self.node("n0")
        self.primary.pg.sql(f"CREATE DATABASE {DB}")
        self.replica = self.node("n1", self.primary)
        self.follow()
        self.servers = []
        self.store = (f"postgres://postgres@{HOST}:{self.primary.wire.port},"
                      f"{HOST}:{self.replica.wire.port}/{DB}?connect_timeout=2")
        for i in range(2):
            server = StoreServer(self.tmp / f"server{i}", self.store, options)
            self.servers.append(server)
            self.stack.callback(self.stop_server, server)
        with ThreadPoolExecutor() as pool:  # at once: both find no schema, one installs it
            list(pool.map(lambda server: server.start(), self.servers))
        self.balancer = Balancer(self.tmp / "haproxy", self.servers)
        self.stack.callback(self.balancer.stop)
        self.balancer.start()

    def node(self, name, replica_of=None):
        node = Node(self.tmp, name, replica_of)
        self.stack.callback(node.close)
        return node

    @staticmethod
    def stop_server(server):
        if server.process is not None and server.process.poll() is None:
            status = server.stop()
            assert status == 0, f"exit status {status}:\n" + server.log.read_text()[-3000:]

    def alive(self):
        """A server that ends by itself would be taken for one that was killed."""
        for server in self.servers:
            assert server.process.poll() is None, (
                f"it ended by itself with {server.process.returncode}:\n"
                + server.log.read_text(errors="replace")[-3000:])

    def follow(self):
        if self.synchronous:
            self.primary.pg.configure(synchronous_standby_names=self.replica.name)
        self.primary.streams(self.replica.name, "sync" if self.synchronous else "async")

    def promote(self, dead_first=True):
        """As an operator or Patroni does it: the old primary is fenced off first, by its death or
        by the network. Nobody follows the new one yet, so its commits wait for nobody."""
        old, new = self.primary, self.replica
        old.wire.refuse()
        old.stream.refuse()
        if dead_first and old.pg.process is not None:
            old.pg.kill9()
        new.pg.promote()
        new.pg.configure(synchronous_standby_names="")
        if old.pg.process is not None:
            old.pg.kill9()
        self.primary, self.replica, self.address = new, None, old.wire.port

    def lose_replica(self):
        """Its machine is gone. Commits wait until somebody says that there is none."""
        gone = self.replica
        gone.wire.refuse()
        gone.pg.kill9()
        wait_for("commits wait for the replica", self.primary.waiting)
        self.primary.pg.configure(synchronous_standby_names="")
        self.replica, self.address = None, gone.wire.port

    def rebuild(self):
        """A new replica, made from the primary, at the address of the machine that was lost.
        Commits wait for it from its first moment on: it is never an asynchronous one."""
        self.made += 1
        self.primary.pg.configure(synchronous_standby_names=f"n{self.made}")
        node = self.node(f"n{self.made}", self.primary)
        node.wire.close()
        node.wire.port = self.address
        node.wire.accept_again()
        self.replica = node
        self.primary.streams(node.name, "sync")

    def close(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for server in getattr(self, "servers", []):
                print(f"{server.folder.name} says:\n"
                      + server.log.read_text(errors="replace")[-2000:])
        self.close()


def cancel(node, pids):
    """What an impatient administrator does: each of these commits ends with a warning, not
    replicated."""
    with contextlib.suppress(psycopg.Error), node.pg.session() as session:
        for pid in pids:
            session.rows("SELECT pg_cancel_backend(%s)", pid)
