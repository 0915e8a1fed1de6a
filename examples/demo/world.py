# SPDX-License-Identifier: Apache-2.0
"""One run: starts the processes, lets the customers pay, starts again what was killed, wakes what
was paused, and closes the books when nothing is under way any more.

All processes are started from the main thread (leash.py) and stopped by their pid. Nothing here
waits a fixed time for something to have happened: it waits for the thing.
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from events import Events
from ledger import Ledger, receipt
from network import Network
from once_http import Once
from people import Customers, Reconciler, send

HERE = Path(__file__).resolve().parent
INSTANCES = 3
START_S = 20
SETTLE_S = 30
LEASE_MS = 1200

MODES = {"one try": "without Once, one try", "retries": "without Once, retries",
         "once": "with Once, retries"}


class Broken(Exception):
    """The demo itself cannot go on: a process does not start, something never ends."""


def wait_for(what, condition, seconds):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Broken(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def start(command, log):
    """A process that dies with this one. Ctrl-C is for the demo alone: it stops the others."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("ONCE_")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with open(log, "ab") as out:
        return subprocess.Popen([sys.executable, "-E", "-S", HERE / "leash.py", str(os.getpid()),
                                 *map(str, command)], stdin=subprocess.DEVNULL, stdout=out,
                                stderr=out, env=environment, start_new_session=True)


def stopped(process):
    try:
        return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG) is not None
    except ChildProcessError:  # it has just died
        return False


class OnceServer:
    """A real `once serve` with a folder of its own."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.port_file = folder / "once.port"
        self.log = folder / "once.log"
        self.process = None
        self.kills = 0

    def start(self):
        seen = self.log.stat().st_size if self.log.exists() else 0
        self.process = start([self.binary, "serve", "--dir", self.folder / "store",
                              "--listen", "off", "--http", "127.0.0.1:0", "--log", "json",
                              "--drain", "2s"], self.log)
        wait_for("once serve", lambda: self.ready(seen), START_S)

    def ready(self, seen):
        if self.process.poll() is not None:
            raise Broken(f"once serve ended with {self.process.returncode}:\n"
                         + self.log.read_text()[seen:][-2000:])
        for line in self.log.read_bytes()[seen:].splitlines():
            if b'"event":"ready"' in line:
                temporary = self.port_file.with_suffix(".new")
                temporary.write_text(str(json.loads(line)["http_port"]))
                temporary.rename(self.port_file)
                return True
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def url(self):
        return f"http://127.0.0.1:{self.port_file.read_text()}/"

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class Instances:
    """The processes of the service. A dead one is replaced; a paused one too, and it stays around
    until it is woken, as machines do."""

    def __init__(self, world):
        self.world = world
        self.live, self.paused = [], []
        self.kills, self.pauses, self.turn = 0, 0, 0

    def start(self):
        world, broken = self.world, self.world.options.broken
        command = [sys.executable, HERE / "service.py", "--ledger", world.ledger_path,
                   "--events", world.events_path]
        if world.once:
            command += ["--once", world.server.port_file, "--lease-ms", LEASE_MS]
        if broken == "fence":
            command += ["--unfenced"]
        self.live = self.live + [start(command, world.folder / "service.log")]

    def pick(self):
        """The port of the next instance in turn. From any thread."""
        ports = [self.world.events.ports.get(process.pid) for process in self.live]
        ports = [port for port in ports if port]
        self.turn += 1
        return ports[self.turn % len(ports)] if ports else None

    def wait(self):
        def up():
            self.world.events.read()
            if any(process.poll() is not None for process in self.live):
                raise Broken("the payment service does not start:\n"
                             + (self.world.folder / "service.log").read_text()[-2000:])
            return all(process.pid in self.world.events.ports for process in self.live)
        wait_for("the payment service", up, START_S)

    def look(self):
        """Replaces the dead and the paused, wakes those whose customer has gone."""
        for process in self.live:
            if process.poll() is not None:
                self.live = [other for other in self.live if other is not process]
                self.kills += 1
                self.start()
            elif stopped(process):
                self.live = [other for other in self.live if other is not process]
                self.paused.append(process)
                self.pauses += 1
                self.start()
        for process in list(self.paused):
            orders = tuple(self.world.events.struck[process.pid])
            if orders and all(order in self.world.customers.answers for order in orders):
                self.paused.remove(process)
                process.send_signal(signal.SIGCONT)  # it goes on where it was, and knows of nothing
                self.live = self.live + [process]

    def busy(self):
        """How many requests they are at; unknown counts as one."""
        total = 0
        for process in self.live:
            port = self.world.events.ports.get(process.pid)
            if port:
                link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                try:
                    link.request("GET", "/")
                    total += int(link.getresponse().read())
                except (OSError, http.client.HTTPException):
                    total += 1
                finally:
                    link.close()
        return total

    def stop(self):
        for process in self.live + self.paused:
            process.kill()  # stopped ones too
            process.wait()


class World:
    """`with World(…) as world: world.run(…)`; afterwards its fields are the books."""

    def __init__(self, options, plan, mode, folder):
        self.options, self.plan, self.mode, self.folder = options, plan, mode, folder
        self.folder.mkdir()
        self.ledger_path, self.events_path = folder / "ledger.db", folder / "events"
        self.server = OnceServer(options.binary, folder) if mode == "once" else None
        self.once = Once(self.server.port_file, patience_s=20) if mode == "once" else None
        self.events = self.network = self.customers = self.reconciler = None
        self.instances = Instances(self)
        self.faults = Counter()

    def __enter__(self):
        self.ledger = Ledger(self.ledger_path)
        self.events = Events(self.events_path)
        try:
            if self.server:
                self.server.start()
            for _ in range(INSTANCES):
                self.instances.start()
            self.instances.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for part in (self.customers, self.reconciler, self.network):
            if part:
                part.close()
        self.instances.stop()
        if self.server:
            self.server.stop()
        self.ledger.close()
        self.events.close()

    def run(self, progress):
        broken = self.options.broken
        self.network = Network(self.plan, self.events, self.instances.pick)
        if self.once:
            self.reconciler = Reconciler(self.once, self.ledger_path, blind=broken == "look",
                                         unfenced=broken == "fence")
        self.customers = Customers(self.plan, self.network.port, retries=self.mode != "one try",
                                   new_keys=self.once is not None and broken == "key")
        while not self.customers.done() or self.instances.paused:
            self.step(progress)
            time.sleep(0.02)
        wait_for("the last requests", lambda: self.settled(progress), SETTLE_S)
        self.close_books()

    def step(self, progress):
        self.events.read()
        self.instances.look()
        if self.server and not self.server.kills:
            if len(self.customers.answers) >= len(self.plan.charges) // 2:
                self.server.kill()
        if self.reconciler and self.reconciler.failure:
            raise Broken(f"the reconciler: {self.reconciler.failure}")
        progress(self)

    def settled(self, progress):
        """Nothing is under way in the network, in the service, or at Once."""
        self.step(progress)
        if self.network.under_way or self.instances.paused or self.instances.busy():
            return False
        return not self.once or not (self.once.list("started") or self.once.list("doubt"))

    def close_books(self):
        self.events.read()
        if self.events.errors:
            raise Broken(f"the payment service: {self.events.errors[0]}")
        self.entries = self.ledger.entries()
        self.faults.update(self.network.injected)
        self.faults["service killed"] = self.instances.kills
        self.faults["writer paused"] = self.instances.pauses
        if self.server:
            self.faults["Once itself killed"] = self.server.kills

    # What the proof asks for afterwards, when the network behaves.

    def send_again(self):
        """{order: (status, body) or None} of every charge, sent once more."""
        self.network.calm = True
        return {charge.order: send(self.network.port, charge.order, charge, patience_s=10)
                for charge in self.plan.charges}

    def send_changed(self):
        """The first order's key, for one cent more."""
        charge = self.plan.charges[0]
        return send(self.network.port, charge.order, charge._replace(amount=charge.amount + 1),
                    patience_s=10)

    def records(self):
        """[(record, the ledger's entries under its key)] of everything that Once knows."""
        by_order = defaultdict(list)
        for entry in self.ledger.entries():
            by_order[entry.order].append(entry)
        return [(self.once.get(operation["key"]), by_order[operation["key"]])
                for operation in self.once.list()]

    @staticmethod
    def agree(record, entries):
        return (record is not None and record["state"] == "completed" and record["code"] == 201
                and [record["result"]] == [receipt(entry) for entry in entries])
