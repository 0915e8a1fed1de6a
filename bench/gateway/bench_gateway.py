# SPDX-License-Identifier: Apache-2.0
"""The gateway beside a plain proxy, and beside an application that keeps idempotency itself, in one run.

    plain      wrk ─▶ nginx ─▶ service                 no module is loaded
    once       wrk ─▶ nginx with the module ─▶ service
                        └─▶ once serve, durability always: begin, then complete
    express_*  wrk ─▶ application ─▶ Redis             always, everysec, off: its appendfsync

wrk sends POSTs of 1 KB over connections that stay, each with a new key; `replay` is keys that have their answers. The
service is an nginx that answers 201 with a small JSON; the application (express/app.mjs) answers the same by itself,
one hop less. Every nginx has one worker, the application is one process. In each round one after the other is
measured, in an order that changes from round to round. What the counters of gateway and Redis say must be what wrk has
sent.

Prints "gateway.WHO.CELL requests=…" (requests a second, the median of the rounds), then ratios of the same round with
the floor that they must reach, and latencies. Exits 1 when a bound is missed, 2 when it could not measure;
--report-only makes it short and judges nothing.
"""
import argparse
import fcntl
import hashlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))
from servers import CannotMeasure, Once, Redis, RedisAlways, RedisOff, Server, free_port, program  # noqa: E402

CONNECTIONS = 128       # with fewer, a request's two waits for the disk leave the cores idle
REPLAYED_KEYS = 4000    # far more than connections: none is asked for while it runs
FETCH_S = 300
ANSWER = r'{"id":"ch_1","object":"charge","status":"succeeded"}\n'
PROXY = """
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    upstream behind {{
        server 127.0.0.1:{port};
        keepalive 256;
        keepalive_requests 1000000000;
        keepalive_timeout 600s;
    }}
    {more}"""


@dataclass(frozen=True)
class Size:
    trial_rounds: int
    rounds: int
    seconds: int      # of each in a round; wrk takes whole ones


QUICK = Size(trial_rounds=0, rounds=1, seconds=1)
FULL = Size(trial_rounds=1, rounds=5, seconds=3)

# (who, cell), with what it is compared to, and how many times that it must reach.
CELLS = (("plain", "fresh"), ("once", "fresh"), ("once", "replay"), ("express_always", "fresh"),
         ("express_everysec", "fresh"), ("express_off", "fresh"))
BOUNDS = ((("once", "fresh"), ("plain", "fresh"), 0.5), (("once", "replay"), ("plain", "fresh"), 1.0),
          (("once", "fresh"), ("express_always", "fresh"), 3.0),
          (("once", "fresh"), ("express_everysec", "fresh"), None), (("once", "fresh"), ("express_off", "fresh"), None))


def row(label, **numbers):
    """A line that run.py reads."""
    print(label, *(f"{key}={value:.10g}" for key, value in numbers.items()))


class RedisEverysec(Redis):
    name = "redis_everysec"
    settings = ("--appendonly", "yes", "--appendfsync", "everysec")


# ---- What is asked -------------------------------------------------------------------------------------------

class Http(Server):
    """Something that answers POST / on a port."""

    def __init__(self, parent):
        super().__init__(parent)
        self.port = free_port()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def ready(self):
        try:
            self.get("/")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def done(self):
        """Requests that were carried out, and answers that were given again; None where nobody counts."""
        return None


class Nginx(Http):
    stop_signal = signal.SIGQUIT

    def __init__(self, parent, location, http="", main=""):
        super().__init__(parent)
        self.config = self.folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # so that the worker may open the server's socket
        self.config.write_text((HERE / "nginx.conf").read_text().format(
            folder=self.folder, port=self.port, location=location, http=http, main=main, user=user))

    def command(self):
        return program("nginx"), "-p", self.folder, "-c", self.config


class Service(Nginx):
    name = "service"

    def __init__(self, parent):
        super().__init__(parent, f"location / {{ default_type application/json; return 201 '{ANSWER}'; }}")


class Plain(Nginx):
    name = "plain"

    def __init__(self, parent, service):
        super().__init__(parent, "location / { proxy_pass http://behind; }", PROXY.format(port=service.port, more=""))


class Gateway(Nginx):
    name = "once"

    def __init__(self, parent, service, server, module):
        if not module.exists():
            raise CannotMeasure(f"{module} is not there; run `make gateway`")
        super().__init__(parent, "location / { once on; proxy_pass http://behind; } "
                                 "location = /once-status { once_status; }",
                         PROXY.format(port=service.port, more=f"once_server unix:{server.socket};"),
                         f"load_module {module};")

    def done(self):
        text = self.get("/once-status")
        return tuple(int(re.search(rf"^once_gateway_{word}_total (\d+)$", text, re.MULTILINE).group(1))
                     for word in ("stored", "replay"))


class Express(Http):
    """The application with a Redis of its own."""

    def __init__(self, parent, redis, modules):
        self.name = redis.name.replace("redis", "express")
        super().__init__(parent)
        self.redis = redis
        # Node looks for packages beside the script.
        shutil.copy(HERE / "express" / "app.mjs", self.folder)
        (self.folder / "node_modules").symlink_to(modules)

    def command(self):
        return ("env", "NODE_ENV=production", program("node"), self.folder / "app.mjs", self.port, self.redis.port)

    def done(self):
        return self.redis.keys(), 0


def express_modules(build):
    """The pinned packages, fetched once; None: never fetched, and ONCE_OFFLINE=1."""
    pins = [HERE / "express" / name for name in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(pin.read_bytes() for pin in pins)).hexdigest()
    cache = build.parent / "clients"
    folder = cache / "express"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "express.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pinned = folder / "pinned"
        if pinned.exists() and pinned.read_text() == digest:
            return folder / "node_modules"
        if os.environ.get("ONCE_OFFLINE") == "1":
            return None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for pin in pins:
            shutil.copy(pin, folder)
        try:
            done = subprocess.run([program("npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--cache",
                                   str(cache / "npm-cache")], cwd=folder, capture_output=True, text=True,
                                  timeout=FETCH_S)
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"npm: nothing came within {FETCH_S} s") from None
        if done.returncode != 0:
            raise CannotMeasure("npm could not fetch Express; ONCE_OFFLINE=1 leaves it out\n"
                                f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        pinned.write_text(digest)
    return folder / "node_modules"


# ---- Measuring -----------------------------------------------------------------------------------------------

class Benchmark:
    def __init__(self, options, folder, sockets):
        self.size = QUICK if options.report_only else FULL
        self.rounds = self.size.rounds if options.report_only else options.rounds
        self.rates, self.latencies = {}, {}
        self.missed = False
        self.runs = 0
        service = Service(folder)
        once = Once(folder, options.build / "src" / "cli" / "once", Path(sockets) / "once.sock")
        module = options.build.parent / "ngx_http_once_module.so"
        self.asked = {"plain": Plain(folder / "nginx", service),
                      "once": Gateway(folder / "nginx", service, once, module)}
        self.servers = [service, once, *self.asked.values()]  # those behind start first
        modules = express_modules(options.build)
        if modules is None:
            print("bench: Express was never fetched, and ONCE_OFFLINE=1: it is left out", file=sys.stderr)
        for kind in (RedisAlways, RedisEverysec, RedisOff) if modules else ():
            redis = kind(folder)
            application = Express(folder, redis, modules)
            self.asked[application.name] = application
            self.servers += [redis, application]
        self.cells = [cell for cell in CELLS if cell[0] in self.asked]

    def start(self):
        for server in self.servers:
            server.start()

    def stop(self):
        for server in reversed(self.servers):
            server.stop()

    def wrk(self, who, prefix, keys):
        """Requests a second; what was asked must have been done."""
        server = self.asked[who]
        before = server.done()
        done = subprocess.run([program("wrk"), "-t1", f"-c{CONNECTIONS}", f"-d{self.size.seconds}s", "-s",
                               str(HERE / "post.lua"), f"http://127.0.0.1:{server.port}/", "--", prefix, str(keys)],
                              capture_output=True, text=True)
        found = re.search(r"^requests=.*$", done.stdout, re.MULTILINE)
        if done.returncode != 0 or not found:
            raise CannotMeasure(f"wrk failed with {done.returncode}\n{done.stdout}{done.stderr}")
        got = {key: float(value) for key, value in (pair.split("=") for pair in found.group(0).split())}
        if got["requests"] == 0 or got["failed"] or got["refused"]:
            raise CannotMeasure(f"{who}: not all requests went well: {found.group(0)}")
        return got, [after - b for b, after in zip(before, server.done())] if before else None

    def measure(self, who, cell):
        self.runs += 1
        prefix, keys = ("again", REPLAYED_KEYS) if cell == "replay" else (f"{self.runs:08x}-0000-4000-8000", 0)
        got, counted = self.wrk(who, prefix, keys)
        # Some are under way when wrk ends, here and in the run before.
        wanted, other = (counted[::-1] if cell == "replay" else counted) if counted else (got["requests"], 0)
        if not (0 <= wanted - got["requests"] <= 2 * CONNECTIONS and other <= CONNECTIONS):
            raise CannotMeasure(f"{who}, {cell}: wrk has {got['requests']:.0f} answers, and counted were {counted}")
        return got

    def prime(self):
        """Gives the keys that are asked for again their answers."""
        self.wrk("once", "again", REPLAYED_KEYS)

    def run(self):
        self.start()
        self.prime()
        for turn in range(self.size.trial_rounds + self.rounds):
            for i in range(len(self.cells)):
                cell = self.cells[(i + turn) % len(self.cells)]
                got = self.measure(*cell)
                if turn >= self.size.trial_rounds:
                    self.rates.setdefault(cell, []).append(got["requests"] / got["seconds"])
                    self.latencies.setdefault(cell, []).append((got["p50_us"], got["p99_us"]))
        self.report()

    def report(self):
        for who, cell in self.cells:
            row(f"gateway.{who}.{cell}", requests=round(statistics.median(self.rates[who, cell])))
        for ours, theirs, floor in BOUNDS:
            if theirs not in self.rates:
                continue
            ratios = [a / b for a, b in zip(self.rates[ours], self.rates[theirs])]
            ratio = round(statistics.median(ratios), 3)
            row(f"gateway.once_{ours[1]}_over_{theirs[0]}", ratio=ratio, low=round(min(ratios), 3),
                high=round(max(ratios), 3), **({"floor": floor} if floor else {}))
            self.missed |= floor is not None and ratio < floor
        for who, cell in self.cells:
            p50, p99 = (statistics.median(column) for column in zip(*self.latencies[who, cell]))
            row(f"gateway.latency.{who}.{cell}", p50_us=p50, p99_us=p99)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--folder", type=Path, required=True, help="on the disk that is measured")
    parser.add_argument("--build", type=Path, required=True)
    options = parser.parse_args()
    options.build = options.build.resolve()
    # The path of a Unix socket has at most 107 bytes, so it does not go below the folder.
    with (tempfile.TemporaryDirectory(prefix="once-gateway-", dir=options.folder) as folder,
          tempfile.TemporaryDirectory(prefix="once-bench-", dir="/tmp") as sockets):
        (Path(folder) / "nginx").mkdir()  # the server and the gateway have the same name
        try:
            benchmark = Benchmark(options, Path(folder), sockets)
            try:
                benchmark.run()
            finally:
                benchmark.stop()
        except CannotMeasure as why:
            print(f"bench: {why}", file=sys.stderr)
            return 2
    return 1 if benchmark.missed and not options.report_only else 0


if __name__ == "__main__":
    sys.exit(main())
