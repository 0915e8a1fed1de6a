# SPDX-License-Identifier: Apache-2.0
"""Two `once serve --store postgres://…` behind haproxy, under load, while servers are killed, wires
are cut at the worst moment, and PostgreSQL is restarted, killed and failed over to its synchronous
replica. The clients keep their own record (failover_worker.py); at the end nothing that was
acknowledged is lost, nothing ran twice, fences never went back, and no key is stuck (failover.py).

The kinds of SHORT happen once each, in an order that ONCE_SEED gives; ONCE_FAILOVER_ROUNDS=n adds
n of all kinds at random (`make soak`).
"""
import contextlib
import json
import os
import random
import signal
import time

import psycopg
import pytest

from failover import Records, contradictions, drained, lost
from failover_cluster import DB, Clients, Cluster, StoreServer, cancel
from pg_wire import LATE_S, Wire
from serving import wait_for

ROUNDS = int(os.environ.get("ONCE_FAILOVER_ROUNDS", "0"))
SHORT = ("failover stalled", "commits cancelled", "postmaster killed", "restart immediate",
         "kill one", "kill both", "session stopped", "hole", "cut sent", "cut answered", "cut half",
         "cut late")
MORE = ("failover plain", "replica lost", "restart fast", "sessions terminated", "session killed",
        "stop one", "pause one", "cut now", "hole long", "session frozen", "replica slow")
STALLS = 8
LONG_S = (10.5, 14)  # the server gives calls up after ten seconds: nobody knows what became of them


class Incidents:
    """What happens to a cluster. Each leaves it whole again, and the clients at work."""

    def __init__(self, cluster, clients, seed):
        self.cluster, self.clients, self.rng = cluster, clients, random.Random(seed)
        self.took = {}

    def names(self, rounds):
        names = self.rng.sample(SHORT, len(SHORT))
        return names + [self.rng.choice(SHORT + MORE) for _ in range(rounds)]

    def happen(self, name):
        """At a random moment of work; the next one comes when everyone is at work again."""
        self.clients.go_on()
        self.cluster.alive()
        time.sleep(self.rng.uniform(0, 0.2))
        start = time.monotonic()
        what, _, how = name.partition(" ")
        getattr(self, what)(how)
        self.clients.go_on(3000)
        self.took[name] = max(self.took.get(name, 0), time.monotonic() - start)

    def cut(self, how):
        wire = self.cluster.primary.wire
        before = wire.cuts
        wire.cut(how)
        wait_for("something was cut", lambda: wire.cuts > before)

    def hole(self, how):
        self.cluster.primary.wire.hole()
        time.sleep(self.rng.uniform(*(LONG_S if how == "long" else (0.5, 2))))
        self.cluster.primary.wire.heal()

    def kill(self, which):
        victims = [0, 1] if which == "both" else [self.rng.randrange(2)]
        for i in victims:
            self.cluster.servers[i].kill()
        for i in victims:
            self.cluster.servers[i].start()

    def stop(self, _):
        server = self.cluster.servers[self.rng.randrange(2)]
        assert server.stop() == 0
        server.start()

    def pause(self, _):
        """A server that sleeps for longer than leases last, and goes on as if nothing had been."""
        server = self.cluster.servers[self.rng.randrange(2)]
        server.process.send_signal(signal.SIGSTOP)
        self.clients.go_on(3000)
        server.process.send_signal(signal.SIGCONT)

    def restart(self, mode):
        self.cluster.primary.pg.restart(mode)

    def postmaster(self, _):
        self.cluster.primary.pg.kill9()
        self.cluster.primary.pg.start()

    def sessions(self, _):
        self.cluster.primary.pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                    " WHERE application_name = 'once'")

    def session(self, how):
        """Killed: PostgreSQL ends all others too, and recovers. Stopped or frozen: it cannot be
        ended, keeps its locks, and goes on with what it was sent when everyone has given it up."""
        primary = self.cluster.primary
        pid = self.rng.choice(primary.sessions())
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        if how != "killed":
            try:
                primary.wire.cut("now")
                time.sleep(self.rng.uniform(*(LONG_S if how == "frozen" else (0.5, 3))))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def replica(self, how):
        if how == "slow":
            self.cluster.primary.stream.hole()
            time.sleep(self.rng.uniform(*LONG_S))
            self.cluster.primary.stream.heal()
            return
        self.cluster.lose_replica()
        self.clients.go_on(3000)
        self.cluster.rebuild()

    def commits(self, _):
        self.stall()
        self.cluster.primary.stream.heal()

    def stall(self):
        """The replica hears nothing. What commits now waits for it; an administrator ends that,
        again and again, and the database says OK, with a warning, to what exists on one machine
        only. Who asks again there must not believe what it reads."""
        primary = self.cluster.primary
        primary.stream.hole()
        for _ in range(STALLS):
            cancel(primary, wait_for("commits wait for the replica", primary.waiting))
            time.sleep(self.rng.uniform(0, 0.1))

    def failover(self, how):
        """Stalled: with commits that the replica never saw. Often a server dies as well."""
        cluster = self.cluster
        if how == "stalled":
            self.stall()
        victim = cluster.servers[self.rng.randrange(2)] if self.rng.random() < 0.5 else None
        if victim is not None:
            victim.kill()
        cluster.promote(dead_first=self.rng.random() < 0.5)
        if victim is not None:
            victim.start()
        self.clients.go_on(3000)
        cluster.rebuild()


def check(cluster, clients):
    """(records, violations), when everyone has ended."""
    records = Records(clients.folder)
    found = list(drained(records, cluster.balancer.port))
    found += contradictions(records)
    for server in cluster.servers:
        found += lost(records, server.port)
    with cluster.primary.pg.session(DB) as session:
        left = session.rows("SELECT key, state FROM once.operation"
                            " WHERE ns = 'failover' AND state NOT IN (2, 3)")
    found += [f"{key} is left in state {state}" for key, state in left]
    return records, found


def test_failovers_lose_nothing_and_run_nothing_twice(tmp_path, capsys):
    seed = int(os.environ.get("ONCE_SEED", "1"))
    with Cluster(tmp_path) as cluster:
        clients = Clients(cluster.balancer.port, tmp_path / "clients")
        incidents = Incidents(cluster, clients, seed)
        try:
            names = incidents.names(ROUNDS)
            for name in names:
                incidents.happen(name)
            clients.go_on()
            clients.finish()
            records, found = check(cluster, clients)
            cluster.alive()
        except AssertionError as error:
            error.args = (f"{error} (ONCE_SEED={seed}, after {incidents.took})",)
            raise
        finally:
            clients.end()
    assert not found, f"{len(found)} violations (ONCE_SEED={seed}):\n" + "\n".join(found[:20])
    assert len(records.done) > 5 * len(names) and records.applied and records.values
    slowest = max(incidents.took, key=incidents.took.get)
    with capsys.disabled():
        print(f"\n  {len(names)} incidents: {len(records.done)} operations, {len(records.applied)} "
              f"applies, {len(records.values)} values; slowest: {slowest} "
              f"{incidents.took[slowest]:.1f} s; "
              + ", ".join(f"{n} {what}" for what, n in sorted(records.counts.items())))


def test_what_an_asynchronous_replica_loses_is_refused_and_seen(tmp_path):
    """The experiment that must fail: the server was told to accept loss, the replica is behind and
    becomes the primary. If the records did not show that, they would prove nothing above."""
    with Cluster(tmp_path, synchronous=False, options=["--accept-loss"]) as cluster:
        with pytest.raises(AssertionError, match="synchronous_standby_names.*--accept-loss"):
            StoreServer(tmp_path / "careful", cluster.store).start()
        clients = Clients(cluster.balancer.port, tmp_path / "clients", count=1, objects=False)
        try:
            clients.go_on()
            cluster.primary.stream.hole()
            clients.go_on()
            cluster.primary.pg.kill9()
            clients.end()  # they would see it themselves, and say so
            cluster.promote()
            for server in cluster.servers:
                wait_for("ready again", server.ready)
            found = list(lost(Records(clients.folder), cluster.servers[0].port))
        finally:
            clients.end()
    assert any("was acknowledged with" in sentence and "EXECUTE" in sentence for sentence in found)


@pytest.mark.parametrize("how, committed", [
    ("now", False), ("sent", True), ("answered", True), ("half", True), ("late", True)])
def test_the_wire_is_cut_where_it_says(pg, how, committed):
    """The caller never learns of the commit, and it has happened, or will."""
    url = pg.database()
    name = url.rsplit("/", 1)[1]
    wire = Wire(pg.port)
    try:
        pg.sql("CREATE TABLE t (x int)", db=name)
        with psycopg.connect(url.replace(f":{pg.port}/", f":{wire.port}/"), autocommit=True) as c:
            c.execute("SELECT 1")
            wire.cut(how)
            asked = time.monotonic()
            with pytest.raises(psycopg.OperationalError):
                c.execute("INSERT INTO t VALUES (1)")
            if committed:
                wait_for("it commits", lambda: pg.sql("SELECT x FROM t", db=name))
            assert how != "late" or time.monotonic() - asked >= LATE_S
            assert committed or not pg.sql("SELECT x FROM t", db=name)
    finally:
        wire.close()


GOOD = [
    ["claim", "k5", 5, 1, "", "a", 1.0, 1.1, 700, "REJECT"], ["point", "k5", 5, 1.2, 1.3],
    ["done", "k5", "k5.5", 1.4, 1.5], ["replay", "k5", "k5.5", 1.6, 1.7],
    ["claim", "k6", 6, 1, "", "b", 2.0, 2.1, 700, "REJECT"], ["point", "k6", 6, 2.2, 2.3],
    ["doubt", "k6", 6, 3.0, 3.1], ["settled", "k6", 6, "NOTDONE", True, 3.1, 3.2],
    ["claim", "k6", 8, 2, "p6", "c", 3.3, 3.4, 700, "REJECT"], ["done", "k6", "k6.8", 3.5, 3.6],
    ["claim", "k0", 9, 1, "", "d", 4.0, 4.1, 700, "RETRY"], ["renewed", "k0", 9, 700, 4.5, 4.6],
    ["claim", "k0", 10, 2, "", "e", 5.0, 5.3, 700, "RETRY"], ["stale", "k0", 9, "complete", 5.4],
    ["done", "k0", "k0.10", 5.5, 5.6], ["value", "k8", "x"], ["applied", "k9", "sum0", 1]]
EFFECTS = [("k5", 5, "a"), ("k6", 8, "c"), ("k0", 9, "d"), ("k0", 10, "e")]


def claim(key, fence, asked=6.0, told=6.1, point="", who="f", policy="REJECT"):
    return ["claim", key, fence, 2, point, who, asked, told, 700, policy]


@pytest.mark.parametrize("line, effect, wanted", [
    (None, None, None),
    (claim("k7", 11), ("k7", 11, "f"), None),
    (["broken", "k7", "NOTFOUND"], None, "k7: NOTFOUND"),
    (claim("k5", 11), ("k5", 11, "f"), "k5 was executed 2 times, under the fences [5, 11]"),
    (claim("k5", 11), None, "k5 ended with k5.5 and was given out again under 11"),
    (claim("k0", 11, policy="RETRY"), None, "k0 ended with k0.10 and was given out again under 11"),
    (None, ("k7", 11, "f"), "k7 was executed under 11 by f, who was never told EXECUTE"),
    (["replay", "k5", "k5.4", 6, 6], None, "k5 had the answers ['k5.4', 'k5.5']"),
    (["done", "k7", "k7.11", 6, 6], None, "k7 was acknowledged with k7.11; executed: []"),
    (["value", "k8", "y"], None, "SET NX of k8 was won by ['x', 'y']"),
    (["applied", "k9", "sum0", 2], None, "apply k9 had the answers [('sum0', 1), ('sum0', 2)]"),
    (["applied", "k19", "sum0", 1], None, "2 applies made sum0 1"),
    (claim("k7", 7), None, "k7 was given fence 7 after 10"),
    (claim("k7", 10, asked=5.0), None, "k7 (f) and k0 (e) were both given fence 10"),
    (claim("k5", 4, asked=0.5, told=0.6), None, "k5 was given out under 5; 4 had not ended"),
    (claim("k0", 7, asked=3.5, told=4.0, policy="RETRY"), None,
     "k0 was given out under 9 in the lease of 7"),
    (["renewed", "k0", 9, 700, 4.7, 4.8], None, "k0 was given out under 10 in the lease of 9"),
    (["renewed", "k6", 6, 700, 2.5, 2.6], None, "k6 was called a doubt in the lease of 6"),
    (["point", "k0", 9, 4.7, 4.8], None, "k0 had the point p9; the attempt 10 was told ''"),
    (["stale", "k5", 5, "complete", 6.0], None,
     "complete of k5 under 5 was STALE, and nobody had taken over"),
])
def test_the_records_show_it(tmp_path, line, effect, wanted):
    """Each kind of harm, written into records that are good without it."""
    effects = tmp_path / "effects"
    effects.mkdir()
    for key, fence, who in [*EFFECTS, *([effect] if effect else [])]:
        if key == "k0":
            with (effects / key).open("a") as file:
                file.write(f"{fence} {who}\n")
        else:
            (effects / f"{key}.{fence}").symlink_to(f"done {who}")
    told = "".join(json.dumps(said) + "\n" for said in [*GOOD, *([line] if line else [])])
    (tmp_path / "told.w0").write_text(told)
    found = list(contradictions(Records(tmp_path)))
    assert wanted in found if wanted else not found, found
