# SPDX-License-Identifier: Apache-2.0
"""`once gateway`: a real nginx in front of a real service, started and stopped as people do."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway_tools import Upstream, alive, ask, children, crashes, module_path, nginx_path
from serving import (HOST, ROOT, USERS, Server, certificates, free_port, once_binary, users,
                     wait_for)
from test_docs import blocks, commands, matches, strip_blank_end

EXAMPLES = sorted((ROOT / "examples" / "nginx").glob("*.conf"))
OUTPUT_S = 60


class Run:
    """A running `once gateway`."""

    def __init__(self, folder, upstream, *options, environment=None, listen=None):
        self.folder = folder
        self.port = free_port()
        self.temp = folder / "tmp"
        self.temp.mkdir(exist_ok=True)
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        words = [str(once_binary()), "gateway", "--listen", listen or f"{HOST}:{self.port}",
                 "--upstream", upstream, *map(str, options)]
        if not {"--dir", "--server"} & set(words):
            words += ["--dir", str(folder / "store")]
        env = {k: v for k, v in os.environ.items() if not k.startswith("ONCE_")}
        env.update(TMPDIR=str(self.temp), ONCE_NGINX=str(nginx_path()),
                   ONCE_NGINX_MODULE=str(module_path()), **(environment or {}))
        with self.stdout.open("wb") as out, self.stderr.open("wb") as err:
            self.process = subprocess.Popen(words, stdout=out, stderr=err, env=env, cwd=folder,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        self.pids = []

    def listening(self):
        """Until it says so; then the pids of all of its processes are known."""
        wait_for("it listens", self.says_listening, OUTPUT_S)
        self.pids = family(self.process.pid)
        return self

    def says_listening(self):
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}: {self.stderr.read_text()}")
        return self.stdout.read_text().endswith("\n")

    def child(self, word):
        """The pid of the child whose command line has this word."""
        for pid in children(self.process.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if word in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "):
                    return pid
        return None

    def post(self, *args, **options):
        return ask(self.port, *args, **options)

    def tell(self, number):
        self.process.send_signal(number)

    def press_ctrl_c(self):
        """A terminal tells the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self):
        """Its exit status; nothing is left of it."""
        status = self.process.wait(OUTPUT_S)
        wait_for("all of its processes ended", lambda: not any(map(alive, self.pids)))
        assert not list(self.temp.iterdir()), "the temporary folder is still there"
        assert not crashes(self.stderr.read_text())
        return status

    def stop(self, number=signal.SIGTERM):
        self.tell(number)
        return self.ended()

    def __enter__(self):
        try:
            return self.listening()
        except BaseException:
            self.__exit__(None)
            raise

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.tell(signal.SIGTERM)
            self.tell(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in filter(alive, self.pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder / "store", ignore_errors=True)


def family(pid):
    """Children and their children."""
    found = []
    for child in children(pid):
        found += [child, *family(child)]
    return found


def gateway(*words, environment=None, cwd=None):
    """One that ends by itself."""
    return subprocess.run([str(once_binary()), "gateway", *map(str, words)], text=True, cwd=cwd,
                          capture_output=True, timeout=OUTPUT_S,
                          env={**os.environ, "ONCE_NGINX": str(nginx_path()),
                               "ONCE_NGINX_MODULE": str(module_path()), **(environment or {})})


@pytest.fixture
def upstream(tmp_path):
    with Upstream(tmp_path / "upstream") as made:
        yield made


# ---- It works ------------------------------------------------------------------------------------

def test_a_duplicate_has_no_effect_and_nothing_is_left(tmp_path, upstream):
    metrics = free_port()
    with Run(tmp_path, upstream.url, "--metrics", f"{HOST}:{metrics}", "--access-log", "access.log",
             "--workers", 2) as run:
        said = f"listening on http://{HOST}:{run.port}, for {upstream.url}\n"
        assert run.stdout.read_text() == said
        first, again = (run.post("/charges", '"k1"', b"amount=100") for _ in range(2))
        assert (first.status, again.status) == (201, 201) and first.body == again.body
        assert not first.replayed and again.replayed
        assert run.post("/charges", '"k1"', b"amount=900").problem == "mismatch"
        assert upstream.effects("k1") == 1
        log = tmp_path / "access.log"  # written behind the answer
        wait_for("three lines", lambda: len(log.read_text().splitlines()) == 3)
        logged = [json.loads(line) for line in log.read_text().splitlines()]
        assert [line["verdict"] for line in logged] == ["EXECUTE", "REPLAY", "MISMATCH"]
        counted = ask(metrics, "/metrics", method="GET").body.decode()
        assert "once_gateway_replay_total 1\n" in counted
        assert ask(metrics, "/", method="GET").status == 404
        [folder] = run.temp.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert run.stop() == 0


def test_options_reach_nginx(tmp_path, upstream):
    with Run(tmp_path, upstream.url + "/base", "--require", "--namespace", "shop", "--scope",
             "$http_authorization", "--methods", "POST,PUT", "--ttl", "1h", "--lease", "5s",
             "--wait", "20s", "--on-5xx", "store", "--doubt", "retry", "--profile", "stripe",
             "--fingerprint", "json,content-type", "--max-body", "2k", "--max-answer", "1k",
             "--fail", "open", "--timeout", "4s", "--json") as run:
        told = json.loads(run.stdout.read_text())
        assert told["listening"] == f"{HOST}:{run.port}" and told["upstream"].endswith("/base")
        assert run.post("/x").status == 400, "--require"
        stored = run.post("/x", "k1", b'{"a":1,"b":2}', do="status=500")
        again = run.post("/x", "k1", b'{"b":2, "a":1}')
        assert (stored.status, again.status) == (500, 500), "--on-5xx store, --fingerprint json"
        assert stored.json["target"] == "/base/x"
        assert again.get("Idempotent-Replayed") == "true", "--profile stripe"
        other = run.post("/x", "k1", b"{}", headers={"Authorization": "other"})
        assert other.status == 201, "--scope"
        assert run.post("/x", "k2", b"{}", method="PUT").status == 201
        assert run.post("/x", "k2", b"{}", method="PUT").get("Idempotent-Replayed") == "true"
        assert run.post("/x", "k3", b"x" * 3000).status == 413, "--max-body"
        assert run.post("/x", "k4", b"{}", do="never").status in (502, 504), "--timeout"
        assert run.post("/x", "k4", b"{}").status == 201, "--doubt retry"
        assert run.post("/x", "k5", b"{}", do="big=2000").status == 201
        assert len(run.post("/x", "k5", b"{}").body) < 2000, "--max-answer"
        held = [None, None]

        def send(i):
            held[i] = run.post("/x", "k6", b"{}", do="hold=go")
        threads = [threading.Thread(target=send, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        upstream.wait_effects("k6")
        upstream.let_go("go")
        for thread in threads:
            thread.join()
        assert held[0].body == held[1].body and upstream.effects("k6") == 1, "--wait"
        words = [str(once_binary()), "ls", "--dir", str(tmp_path / "store"), "--json"]
        listed = subprocess.run(words, text=True, capture_output=True, check=True).stdout
        assert '"shop~' in listed
        assert run.stop() == 0


def test_a_folder_that_is_served_is_used_and_left_alone(tmp_path, upstream):
    with Server(tmp_path / "server") as server:
        with Run(tmp_path, upstream.url, "--dir", server.dir) as run:
            assert run.child(" serve ") is None
            assert run.post("/x", "k1").status == 201
            assert run.stop() == 0
        with Run(tmp_path, upstream.url, "--server", server.socket_path) as run:
            assert run.post("/x", "k1").replayed
            assert run.stop() == 0
        assert server.ready()
    shutil.rmtree(server.dir)


def test_a_server_elsewhere_is_asked_as_a_user(tmp_path, upstream):
    with Server(tmp_path / "server", users()) as server:
        secret = {"ONCE_USER": "alice", "ONCE_PASSWORD": USERS["alice"]}
        with Run(tmp_path, upstream.url, "--server", f"{HOST}:{server.port}", "--namespace", "pay",
                 environment=secret) as run:
            assert run.post("/x", "k1").status == 201 and run.post("/x", "k1").replayed
            [folder] = run.temp.iterdir()
            assert (folder / "password").stat().st_mode & 0o777 == 0o600
            assert USERS["alice"] not in (folder / "nginx.conf").read_text()
            assert run.stop() == 0
        with Run(tmp_path, upstream.url, "--server", f"{HOST}:{server.port}", "--namespace", "pay",
                 environment={"ONCE_USER": "alice", "ONCE_PASSWORD": "not the one"}) as run:
            assert run.post("/x", "k1").status == 503
            run.tell(signal.SIGTERM)
            assert run.stop(signal.SIGINT) == 0
    shutil.rmtree(server.dir)


TLS_SERVICE = """
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(201); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def test_a_service_with_tls_must_have_a_good_certificate(tmp_path):
    authority, certificate, key = certificates(tmp_path)
    port = free_port()
    service = subprocess.Popen([sys.executable, "-c", TLS_SERVICE, str(port), certificate, key],
                               stderr=subprocess.DEVNULL)
    try:
        with Run(tmp_path, f"https://localhost:{port}", "--upstream-ca", authority) as run:
            wait_for("the service answers",
                     lambda: run.post("/x", os.urandom(8).hex()).status == 201)
            assert run.stop() == 0
        with Run(tmp_path, f"https://localhost:{port}") as run:
            refused = run.post("/x", "untrusted")
            assert refused.status == 502 and refused.problem == "unreached"
            assert run.stop() == 0
    finally:
        service.kill()
        service.wait()


UNIX_SERVICE = """
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(201); self.send_header("Content-Length", "0"); self.end_headers()
    def address_string(self): return "unix"
    def log_message(self, *_): pass
socketserver.UnixStreamServer(sys.argv[1], Handler).serve_forever()
"""


def test_a_service_on_a_unix_socket(tmp_path):
    path = tmp_path / "service.sock"
    service = subprocess.Popen([sys.executable, "-c", UNIX_SERVICE, path])
    try:
        wait_for("the service listens", path.exists)
        with Run(tmp_path, f"unix:{path}") as run:
            assert run.post("/x", "k1").status == 201 and run.post("/x", "k1").replayed
            assert run.stop() == 0
    finally:
        service.kill()
        service.wait()


# ---- Signals and deaths --------------------------------------------------------------------------

def held_request(run, upstream, key, name):
    """A request that is at the service; its answer will be in the list."""
    answers = []

    def send():
        with contextlib.suppress(OSError):
            answers.append(run.post("/x", key, do=f"hold={name}"))
    thread = threading.Thread(target=send)
    thread.start()
    upstream.wait_effects(key)
    return thread, answers


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, "Ctrl-C"])
def test_what_was_begun_is_finished(tmp_path, upstream, how):
    with Run(tmp_path, upstream.url) as run:
        thread, answers = held_request(run, upstream, "k1", "go")
        if how == "Ctrl-C":
            run.press_ctrl_c()
        else:
            run.tell(how)
        wait_for("it takes nobody new", lambda: refuses(run.port))
        assert run.process.poll() is None
        upstream.let_go("go")
        thread.join()
        assert run.ended() == 0
        assert answers[0].status == 201
        with Run(tmp_path, upstream.url) as later:
            assert later.post("/x", "k1").replayed, "recorded before the server ended"


def refuses(port):
    try:
        ask(port, "/", method="GET", timeout=5)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def test_a_second_signal_cuts_and_leaves_a_doubt(tmp_path, upstream):
    with Run(tmp_path, upstream.url, "--lease", "1s") as run:
        thread, answers = held_request(run, upstream, "k1", "never-comes")
        run.tell(signal.SIGTERM)
        wait_for("it takes nobody new", lambda: refuses(run.port))
        run.tell(signal.SIGTERM)
        assert run.ended() == 0
        thread.join()
        assert not answers
        with Run(tmp_path, upstream.url) as later:
            wait_for("the lease is over", lambda: later.post("/x", "k1").problem == "doubt")
        assert upstream.effects("k1") == 1


def test_a_reload_loses_nothing(tmp_path, upstream):
    with Run(tmp_path, upstream.url, "--workers", 1) as run:
        master = run.child("nginx: master")
        thread, answers = held_request(run, upstream, "k1", "go")
        [old] = children(master)
        run.tell(signal.SIGHUP)
        wait_for("a new worker", lambda: set(children(master)) - {old})
        assert run.post("/x", "k2").status == 201
        upstream.let_go("go")
        thread.join()
        assert answers[0].status == 201 and run.post("/x", "k1").replayed
        wait_for("the old worker ends", lambda: not alive(old))
        run.pids = family(run.process.pid)
        assert run.stop() == 0


def test_a_server_that_is_killed_is_started_again(tmp_path, upstream):
    with Run(tmp_path, upstream.url) as run:
        assert run.post("/x", "k1").status == 201
        old = run.child(" serve ")
        os.kill(old, signal.SIGKILL)
        wait_for("another server", lambda: run.child(" serve ") not in (None, old))
        wait_for("it answers", lambda: run.post("/x", "k1").replayed)
        run.pids = family(run.process.pid)
        assert run.stop() == 0
        assert "the server ended with status 137; it is started again" in run.stderr.read_text()


def test_nginx_that_ends_by_itself_is_told(tmp_path, upstream):
    with Run(tmp_path, upstream.url) as run:
        os.kill(run.child("nginx: master"), signal.SIGTERM)
        assert run.ended() == 69
        assert "nginx ended with status 0" in run.stderr.read_text()


def test_killed_it_leaves_no_process(tmp_path, upstream):
    with Run(tmp_path, upstream.url) as run:
        assert len(run.pids) >= 3
        run.tell(signal.SIGKILL)
        run.process.wait()
        wait_for("nginx and the server end", lambda: not any(map(alive, run.pids)))


# ---- What is refused -----------------------------------------------------------------------------

GOOD = {"--listen": "127.0.0.1:1", "--upstream": "http://127.0.0.1:2", "--dir": "store"}
BAD = [
    ("--listen", "8080"), ("--listen", "127.0.0.1"), ("--listen", "127.0.0.1:0"),
    ("--listen", "127.0.0.1:65536"), ("--listen", "127.0.0.1:80 ssl"), ("--listen", ":80"),
    ("--listen", "[::1:80"), ("--listen", "127.0.0.1:80; }"), ("--listen", "unix:/x"),
    ("--upstream", "127.0.0.1:2"), ("--upstream", "ftp://a"), ("--upstream", "http://"),
    ("--upstream", "http://user:secret@a"), ("--upstream", "http://a:b"),
    ("--upstream", "http://a:70000"), ("--upstream", "http://a/$host"),
    ("--upstream", "http://a/x?y"), ("--upstream", 'http://a/";return 200;#'),
    ("--upstream", "http://a/{"), ("--upstream", "http://a;b"), ("--upstream", "http://a\n"),
    ("--upstream", "unix:/a\nb"), ("--upstream", "unix:/" + "a" * 120),
    ("--dir", 'a";}'), ("--dir", "a$b"), ("--dir", "a\nb"), ("--dir", "a" * 120),
    ("--server", "tls://a:1"), ("--server", "a"), ("--server", 'x/y";'),
    ("--namespace", ""), ("--namespace", "a b"), ("--namespace", 'a"b'), ("--namespace", "$host"),
    ("--namespace", "a" * 65), ("--scope", ""), ("--scope", "$"), ("--scope", "a;b"),
    ("--scope", '"'), ("--scope", "${a}"), ("--scope", "a\n"), ("--methods", "POST,HEAD"),
    ("--methods", "POST;"), ("--methods", ""), ("--methods", "post"), ("--ttl", "0s"),
    ("--ttl", "1"), ("--lease", "999ms"), ("--lease", "8d"), ("--wait", "2h"),
    ("--on-5xx", "keep"), ("--on-5xx", "release|store"), ("--doubt", ""), ("--profile", "paypal"),
    ("--fingerprint", "xml"), ("--fingerprint", "json,"), ("--fingerprint", "json,a b"),
    ("--fingerprint", "raw,a;b"), ("--max-body", "1t"), ("--max-body", "-1"), ("--max-body", "0"),
    ("--max-answer", "1g"), ("--fail", "half"), ("--workers", "0"), ("--workers", "auto"),
    ("--access-log", "a$b"), ("--access-log", 'a" b'), ("--metrics", "1"), ("--timeout", "2d"),
]


@pytest.mark.parametrize("name, value", BAD, ids=lambda v: repr(v)[:30])
def test_bad_values_are_named(tmp_path, name, value):
    words = dict(GOOD, **{name: value})
    if name == "--server":
        del words["--dir"]
    done = gateway(*[w for pair in words.items() for w in pair], cwd=tmp_path)
    assert done.returncode == 64, done
    assert done.stdout == "" and done.stderr.startswith("once gateway: "), done
    assert "\n" not in done.stderr.strip().replace("\nTry 'once gateway --help'.", ""), done.stderr


@pytest.mark.parametrize("missing", ["--listen", "--upstream"])
def test_what_is_missing_is_named(tmp_path, missing):
    words = [w for pair in GOOD.items() if pair[0] != missing for w in pair]
    done = gateway(*words, cwd=tmp_path)
    assert done.returncode == 64 and f"{missing} is missing" in done.stderr
    done = gateway(*words, "--json", cwd=tmp_path)
    assert done.returncode == 64 and json.loads(done.stdout)["exit_status"] == 64


def test_other_refusals(tmp_path):
    good = [w for pair in GOOD.items() for w in pair]
    for words, said in ((["--server", "a:1"], "two places"), (["--upstream-ca", "x"], "https"),
                        (["extra"], "'extra' is no option"),
                        (["--namespace", "a" * 50, "--scope", "x"], "39 bytes")):
        done = gateway(*good, *words, cwd=tmp_path)
        assert done.returncode == 64 and said in done.stderr, done


def test_a_folder_that_would_end_a_value(tmp_path):
    """What is relative becomes absolute, and the folder that we are in may have any name."""
    here = tmp_path / 'a";b'
    here.mkdir()
    done = gateway("--listen", "127.0.0.1:1", "--upstream", "https://x", "--upstream-ca", "ca.pem",
                   "--server", "127.0.0.1:2", "--print-config", cwd=here)
    assert done.returncode == 64 and "--upstream-ca" in done.stderr, done


def test_without_nginx_or_its_module(tmp_path):
    good = [w for pair in GOOD.items() for w in pair]
    done = gateway(*good, environment={"ONCE_NGINX": "/nowhere"}, cwd=tmp_path)
    assert done.returncode == 69 and "apt install nginx" in done.stderr
    done = gateway(*good, environment={"ONCE_NGINX_MODULE": "/nowhere"}, cwd=tmp_path)
    assert done.returncode == 69 and "make gateway" in done.stderr
    done = gateway(*good, environment={"ONCE_NGINX": "/bin/false", "TMPDIR": str(tmp_path)},
                   cwd=tmp_path)
    assert done.returncode == 78
    done = gateway(*good, environment={"TMPDIR": "/nowhere"}, cwd=tmp_path)
    assert done.returncode == 71 and "temporary folder" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_configuration_that_nginx_refuses(tmp_path):
    done = gateway(*[w for pair in GOOD.items() for w in pair], "--scope", "$no_such_variable",
                   environment={"TMPDIR": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 78 and "no_such_variable" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken(tmp_path, upstream):
    run = Run(tmp_path, upstream.url, listen=f"{HOST}:{upstream.port}")
    try:
        assert run.ended() == 69
        assert "Address already in use" in run.stderr.read_text()
    finally:
        run.__exit__()


def test_a_folder_that_is_damaged(tmp_path, upstream):
    (tmp_path / "file").write_text("no folder")
    run = Run(tmp_path, upstream.url, "--dir", tmp_path / "file")
    try:
        assert run.ended() == 69
        assert "once serve: " in run.stderr.read_text()
    finally:
        run.__exit__()


def test_other_machines_are_warned_about(tmp_path, upstream):
    port = free_port()
    with Run(tmp_path, upstream.url, listen=f"0.0.0.0:{port}") as run:
        assert f"warning: 0.0.0.0:{port} is open to other machines" in run.stderr.read_text()
        assert run.stop() == 0
    for name in ("127.evil.example:1", "localhost.example:1"):
        done = gateway("--listen", name, "--upstream", "http://a", "--dir", tmp_path / "s")
        assert "is open to other machines" in done.stderr and done.returncode == 78


# ---- Configurations ------------------------------------------------------------------------------

def made_local(text, folder, tls):
    """A configuration for this machine: our module, files in a folder, ports that all may use."""
    text = re.sub(r'load_module "?[^";]*"?;', f"load_module {module_path()};", text)
    text = re.sub(r"^user .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("/var/log/nginx/", f"{folder}/").replace("/run/nginx.pid", f"{folder}/pid")
    text = text.replace("/etc/nginx/once.password", str(folder / "password"))
    text = text.replace("/etc/nginx/tls/server.pem", str(tls[1]))
    text = text.replace("/etc/nginx/tls/server.key", str(tls[2]))
    text = re.sub(r"listen (80|443)\b", lambda m: f"listen {20000 + int(m[1])}", text)
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in
                     ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return text.replace("http {", f"http {{ {places}", 1)


def nginx_test(text, folder):
    path = folder / "nginx.conf"
    path.write_text(text)
    return subprocess.run([nginx_path(), "-t", "-q", "-p", folder, "-c", path, "-e", "stderr"],
                          text=True, capture_output=True, timeout=30)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
def test_nginx_takes_the_examples(example, tmp_path):
    (tmp_path / "password").write_text("correct-horse\n")
    done = nginx_test(made_local(example.read_text(), tmp_path, certificates(tmp_path)), tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


def test_the_module_is_installed_and_found(installed):
    module = installed.prefix / "lib" / "nginx" / "modules" / "ngx_http_once_module.so"
    assert module.exists()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ONCE_")}
    done = subprocess.run([installed.prefix / "bin" / "once", "gateway", "--listen", "127.0.0.1:1",
                           "--upstream", "http://a", "--dir", "store", "--print-config"], env=plain,
                          text=True, capture_output=True)
    assert f'load_module "{module}";\n' in done.stdout, done


def test_the_module_shows_only_what_nginx_asks_for():
    """nginx loads modules into one space of names."""
    done = subprocess.run(["nm", "-D", "--defined-only", module_path()], text=True,
                          capture_output=True, check=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names == {"ngx_modules", "ngx_module_names", "ngx_module_order"}


def test_nginx_takes_what_is_printed(tmp_path):
    done = gateway("--listen", "[::1]:8080", "--upstream", "https://charges.example:8443/v1",
                   "--upstream-ca", "ca.pem", "--server", "127.0.0.1:7411", "--print-config",
                   "--scope", "$http_authorization", "--methods", "POST,PUT", "--wait", "5s",
                   "--fingerprint", "json,content-type", "--metrics", "127.0.0.1:9113",
                   cwd=tmp_path,
                   environment={"ONCE_USER": "gateway", "ONCE_PASSWORD": "not in the output"})
    assert done.returncode == 0 and "not in the output" not in done.stdout
    assert "once_methods POST PUT;" in done.stdout
    (tmp_path / "password").write_text("correct-horse\n")
    tls = certificates(tmp_path)
    checked = nginx_test(made_local(done.stdout, tmp_path, tls).replace("charges.example:8443",
                                                                        "127.0.0.1:8443"), tmp_path)
    assert checked.returncode == 0, checked.stderr


# ---- The page ------------------------------------------------------------------------------------

class Page:
    """docs/gateway.md as a reader types it: what ends with & stays and is stopped at the end."""

    def __init__(self, folder, once):
        self.folder = folder
        self.background = []
        shims = folder / ".bin"
        shims.mkdir()
        (shims / "once").symlink_to(once)
        (shims / "python3").symlink_to(sys.executable)
        (folder / "examples").symlink_to(ROOT / "examples")
        self.ports = {"8080": str(free_port()), "3000": str(free_port())}
        self.env = dict(os.environ, HOME=str(folder), TMPDIR=str(folder), LC_ALL="C.UTF-8",
                        PATH=f"{shims}:{os.environ['PATH']}", ONCE_NGINX=str(nginx_path()),
                        ONCE_NGINX_MODULE=str(module_path()))
        for name in ("ONCE_DIR", "XDG_DATA_HOME"):
            self.env.pop(name, None)

    def local(self, text):
        return re.sub(r"\b(8080|3000)\b", lambda m: self.ports[m[1]], text)

    def run(self, command, expected):
        if not command.endswith("&"):
            done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            return strip_blank_end(done.stdout.splitlines())
        path = self.folder / f"output{len(self.background)}"
        with path.open("wb") as out:
            self.background.append(subprocess.Popen(
                ["bash", "-c", f"exec {command[:-1]}"], cwd=self.folder, env=self.env,
                stdout=out, stderr=subprocess.DEVNULL))

        def printed():
            return strip_blank_end(path.read_text().splitlines())

        with contextlib.suppress(AssertionError):  # what is there instead is told by the test
            wait_for(f"{command} prints", lambda: matches(expected, printed()))
        return printed()

    def stop(self):
        for process in reversed(self.background):
            process.terminate()
            process.wait(OUTPUT_S)
        shutil.rmtree(self.folder / "shop", ignore_errors=True)


def test_the_page_is_right(tmp_path, once_bin):
    page = Page(tmp_path, once_bin)
    asked = 0
    try:
        for block in blocks(ROOT / "docs" / "gateway.md", "console"):
            for command, expected in commands(block):
                if command.startswith(("make", "sudo", "git")):
                    continue
                want = strip_blank_end([page.local(line) for line in expected])
                got = page.run(page.local(command), want)
                if "charges.py" in command:
                    wait_for("the service answers",
                             lambda: ask(int(page.ports["3000"]), "/", method="GET").status == 200)
                assert matches(want, got), f"$ {command}\nexpected:\n{want}\ngot:\n{got}"
                asked += 1
    finally:
        page.stop()
    assert asked > 5
