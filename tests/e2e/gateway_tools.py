# SPDX-License-Identifier: Apache-2.0
"""A real nginx with our module, on a free port, with a folder of its own for all that it writes,
and a service behind it that misbehaves as it is told (upstream_worker.py has the words of a plan).

    with stack(folder, {"/": "once on;", "/wait/": "once require; once_wait 10s;"}) as s:
        answer = s.gateway.post("/charges", "key-1", b"{}", do="close")
        assert answer.status == 502 and s.upstream.effects("key-1") == 1
"""
import collections
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from serving import HOST, ROOT, Process, Server, free_port, wait_for

STOP_S = 60


def module_path():
    path = Path(os.environ.get("ONCE_NGINX_MODULE", ROOT / "build" / "ngx_http_once_module.so"))
    assert path.exists(), f"{path} is not built; run `make gateway`"
    return path


def nginx_path():
    path = os.environ.get("ONCE_NGINX") or shutil.which("nginx") or "/usr/sbin/nginx"
    assert Path(path).exists(), "nginx is not installed; run `make gateway`"
    return path


# ---- A client ------------------------------------------------------------------------------------

class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def get(self, name):
        """A header's value, or None; of several the first."""
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def replayed(self):
        return self.get("Idempotency-Replayed") == "true"

    @property
    def problem(self):
        """What comes behind urn:once:problem: in its type, or None."""
        if self.get("Content-Type") != "application/problem+json":
            return None
        return self.json["type"].rsplit(":", 1)[1]

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:200]!r}>"


def ask(port, path="/", key=None, body=b"", method="POST", headers=None, do=None, timeout=30):
    """One request on a connection of its own. do: the plan for the service behind."""
    headers = dict(headers or {})
    if key is not None:
        headers["Idempotency-Key"] = key
    if do is not None:
        headers["X-Do"] = do
    client = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        client.request(method, path, body, headers)
        answer = client.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())
    finally:
        client.close()


# ---- The service behind --------------------------------------------------------------------------

class Upstream(Process):
    """start, stop (connections are refused), kill, pause (they are taken, and nothing is said)."""

    def __init__(self, folder):
        super().__init__(folder)
        self.port = free_port()

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    def command(self):
        worker = Path(__file__).with_name("upstream_worker.py")
        return [sys.executable, str(worker), str(self.port), str(self.folder)]

    def ready(self):
        with socket.create_connection((HOST, self.port), timeout=5):
            return True

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process is not None:
            self.resume()
        return super().stop()

    def plan(self, text, key=None):
        """What it does when neither header nor query says so: with this key, or with all."""
        new = self.folder / "new plan"
        new.write_text(text + "\n")
        new.rename(self.folder / (f"plan.{key}" if key else "plan"))

    def let_go(self, name):
        """Ends hold=NAME and hold_before=NAME."""
        (self.folder / name).touch()

    def counts(self, book="effects"):
        """How often by key: book is "effects", or "requests" that arrived."""
        path = self.folder / book
        return collections.Counter(path.read_text().splitlines() if path.exists() else [])

    def effects(self, key):
        return self.counts()[key]

    def requests(self, key):
        return self.counts("requests")[key]

    def wait_requests(self, key, count=1, seconds=30):
        wait_for(f"request {count} of {key} is at the upstream",
                 lambda: self.requests(key) >= count, seconds)

    def wait_effects(self, key, count=1, seconds=30):
        wait_for(f"effect {count} of {key}", lambda: self.effects(key) >= count, seconds)


@contextlib.contextmanager
def black_hole():
    """A port that never takes a connection: its queue is full. Gives the number."""
    with contextlib.ExitStack() as kept:
        listener = kept.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(16):
            filler = kept.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((HOST, port))
        yield port


# ---- nginx ---------------------------------------------------------------------------------------

CONFIG = """\
{main}
load_module {module};
daemon {daemon};
master_process on;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log {level};
{user}
events {{ worker_connections {connections}; }}
http {{
    client_body_temp_path {folder}/temp/body;
    proxy_temp_path {folder}/temp/proxy;
    fastcgi_temp_path {folder}/temp/fastcgi;
    uwsgi_temp_path {folder}/temp/uwsgi;
    scgi_temp_path {folder}/temp/scgi;
    log_format once escape=json '{{"request":"$request","status":$status,"verdict":"$once_verdict",'
        '"key":"$once_key","fence":"$once_fence","ms":"$once_ms","upstream":"$upstream_addr",'
        '"upstream_status":"$upstream_status","pid":$pid}}';
    access_log {folder}/access.log once;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    once_server {server};
    upstream behind {{ server {upstream}; keepalive 32; }}
{http}
    server {{
        listen {host}:{port}{listen};
{tls}
        location = /once-status {{ once_status; }}
{locations}
    }}
}}
"""
# A location with one of these needs no proxy_pass to the upstream.
CONTENT = ("proxy_pass", "return ", "once_status", "root ", "fastcgi_pass", "grpc_pass")


class Gateway(Process):
    """nginx. locations: a path and its directives; `proxy_pass http://behind;` is added where
    nothing else gives an answer. server: a Server (its socket), or what once_server takes. upstream: an
    Upstream, or host:port. http, main: further directives of these contexts; listen: behind the
    address ("ssl http2" with certificates as in serving.certificates). upgradable: in the
    background, as nginx must be for upgrade(); a killed test leaves it behind."""

    def __init__(self, folder, server, upstream, locations=None, http="", main="", workers=2,
                 listen="", certificates=None, level="info", connections=2048, environment=None,
                 upgradable=False):
        super().__init__(folder, environment)
        self.port = free_port()
        self.server, self.upstream = server, upstream
        self.locations = dict(locations or {"/": "once on;"})
        self.http, self.main, self.listen = http, main, listen
        self.workers, self.certificates = workers, certificates
        self.level, self.connections = level, connections
        self.config = self.folder / "nginx.conf"
        self.error_log, self.access_log = self.folder / "error.log", self.folder / "access.log"
        (self.folder / "temp").mkdir(exist_ok=True)
        self.upgradable = upgradable
        self.master = None

    # ---- Configuration ----

    def text(self):
        def location(path, directives):
            if not any(word in directives for word in CONTENT):
                directives += " proxy_pass http://behind;"
            return f"        location {path} {{ {directives} }}"

        server, upstream = self.server, self.upstream
        tls = ""
        if self.certificates:
            _, certificate, key = self.certificates
            tls = f"ssl_certificate {certificate}; ssl_certificate_key {key};"
        return CONFIG.format(
            main=self.main, module=module_path(), workers=self.workers, folder=self.folder,
            level=self.level, connections=self.connections,
            daemon="on" if self.upgradable else "off",
            # As root, workers would become nobody, who may not open the server's socket.
            user="user root;" if os.geteuid() == 0 else "",
            server=server if isinstance(server, str) else f"unix:{server.socket_path}",
            upstream=upstream if isinstance(upstream, str) else f"{HOST}:{upstream.port}",
            http=self.http, host=HOST, port=self.port, tls=tls,
            listen=f" {self.listen}" if self.listen else "",
            locations="\n".join(location(*item) for item in self.locations.items()))

    def check(self):
        """What `nginx -t` says: (exit status, text)."""
        self.config.write_text(self.text())
        done = subprocess.run([nginx_path(), "-t", "-p", str(self.folder), "-c", str(self.config)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=30, env=self.environment)
        return done.returncode, done.stdout

    # ---- Its life ----

    def command(self):
        return [nginx_path(), "-p", str(self.folder), "-c", str(self.config)]

    def start(self):
        self.config.write_text(self.text())
        if self.upgradable:
            self.start_daemon()
        else:
            super().start()
            self.master = self.process.pid
        return self

    def start_daemon(self):
        assert self.master is None
        with self.log.open("ab") as log:
            subprocess.run(self.command(), stdout=log, stderr=log, env=self.environment, check=True)
        self.master = wait_for("the master's pid", lambda: self.new_master(None))
        wait_for("nginx listens", self.ready)

    def ready(self):
        with socket.create_connection((HOST, self.port), timeout=5):
            return len(children(self.master or self.process.pid)) >= self.workers

    def worker_pids(self):
        return children(self.master)

    def kill_worker(self, pid=None):
        """One of them, as if it had crashed; nginx starts another. Its pid."""
        pid = pid or self.worker_pids()[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def reload(self):
        """With the configuration as the fields say it now; until new workers are there. The pids of
        the old ones, which end when their requests have."""
        old = self.worker_pids()
        self.config.write_text(self.text())
        os.kill(self.master, signal.SIGHUP)
        wait_for("new workers", lambda: len(set(self.worker_pids()) - set(old)) >= self.workers)
        return old

    def upgrade(self):
        """The binary is replaced while it runs (USR2, then QUIT to the old); needs upgradable. The
        old workers' pids, which end when their requests have."""
        old_master, old = self.master, self.worker_pids()
        os.kill(old_master, signal.SIGUSR2)
        new = wait_for("the new master", lambda: self.new_master(old_master))
        wait_for("its workers", lambda: len(children(new)) >= self.workers)
        os.kill(old_master, signal.SIGQUIT)
        self.master = new
        return old

    def new_master(self, old):
        path = self.folder / "nginx.pid"
        text = path.read_text().strip() if path.exists() else ""
        return int(text) if text and int(text) != old and alive(int(text)) else None

    def kill(self):
        """Master and workers, as a power cut would."""
        pids = [self.master, *self.worker_pids()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended(pids)

    def stop(self):
        """Politely: requests under way are finished. The exit status."""
        if self.master is None:
            return 0
        pids = [self.master, *self.worker_pids()]
        os.kill(self.master, signal.SIGQUIT)
        try:
            return self.ended(pids)
        except AssertionError:
            self.kill()
            raise

    def ended(self, pids):
        process = self.process
        wait_for("all of nginx ended", lambda: not any(map(alive, pids)), STOP_S)
        self.master = self.process = None
        return process.wait() if process else 0

    # ---- Looking ----

    def ask(self, *args, **options):
        return ask(self.port, *args, **options)

    post = ask

    def counts(self):
        """once_gateway_…_total by the name in between."""
        lines = self.ask("/once-status", method="GET").body.decode().splitlines()
        pairs = (line.split(" ") for line in lines if not line.startswith("#"))
        return {name[len("once_gateway_"):-len("_total")]: int(value) for name, value in pairs}

    def errors(self):
        return self.error_log.read_text(errors="replace") if self.error_log.exists() else ""

    def accesses(self):
        """The access log: dicts of request, status, verdict, key, fence, ms, upstream, pid."""
        return [json.loads(line) for line in self.access_log.read_text().splitlines()]

    def __exit__(self, kind, *_):
        if kind is not None:
            print("nginx's error log ends:\n" + self.errors()[-3000:])
        ended = self.master is not None and not alive(self.master)
        status = self.stop()
        assert kind is not None or not ended, f"nginx ended by itself:\n{self.errors()[-3000:]}"
        assert kind is not None or status == 0, f"exit status {status}"
        assert kind is not None or not crashes(self.errors()), crashes(self.errors())


def crashes(log):
    """Lines of an error log about workers that died of a fault of theirs, and not of a test's kill."""
    return [line for line in log.splitlines() if re.search(r"exited on signal (?!9\b)", line)]


def children(pid):
    """Of all of its threads; in the order of their start."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
    return sorted(found)


def alive(pid):
    """Whether it runs: one that ended and was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


# ---- All of it -----------------------------------------------------------------------------------

class Stack:
    """A server of Once, a service, and the gateway between."""

    def __init__(self, folder, locations=None, settings="", **options):
        folder = Path(folder)
        self.server = Server(folder / "server", settings)
        self.upstream = Upstream(folder / "upstream")
        self.gateway = Gateway(folder / "nginx", self.server, self.upstream, locations, **options)

    @property
    def parts(self):
        return self.server, self.upstream, self.gateway


@contextlib.contextmanager
def stack(folder, locations=None, **options):
    """All started; stopped at the end, and the store's folder, which is large, is removed."""
    made = Stack(folder, locations, **options)
    try:
        with contextlib.ExitStack() as running:
            for part in made.parts:
                running.enter_context(part)
            yield made
    finally:
        shutil.rmtree(made.server.dir, ignore_errors=True)
