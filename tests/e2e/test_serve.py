# SPDX-License-Identifier: Apache-2.0
"""once serve as a process: its configuration, its log, its signals, its end."""
import base64
import contextlib
import json
import os
import pty
import re
import resource
import signal
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import requests

from serving import (HOST, ROOT, USERS, Connection, Error, Server, certificates, free_port, hashed,
                     once_binary, pack, run, users, wait_for)

USAGE, NOT_FOUND, UNAVAILABLE, DAMAGED, CONFIG = 64, 66, 69, 70, 78


def clean_environment(**more):
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCE_")} | more


def once(*words, text="", environment=None, status=0):
    """(stdout, stderr) of a command that ends by itself."""
    done = subprocess.run([str(once_binary()), *map(str, words)], input=text, text=True,
                          capture_output=True, timeout=60,
                          env=environment or clean_environment())
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


def log_lines(server, event):
    return [line for line in server.log.read_text().splitlines() if f" {event} " in f"{line} "]


def wait_for_line(server, event, count=1):
    return wait_for(f"'{event}' in the log",
                    lambda: len(log_lines(server, event)) >= count and log_lines(server, event))


def get(url, **headers):
    """(status, body)"""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# ---- Configuration -------------------------------------------------------------------------------

def test_check_config_shows_what_it_comes_to_without_secrets(tmp_path):
    conf = tmp_path / "once.conf"
    conf.write_text("drain = 5s\n[namespace pay]\nretention = 7d\n" + users())
    conf.chmod(0o600)
    out, err = once("serve", "--config", conf, "--dir", tmp_path / "d", "--log-level", "warn",
                    "--check-config", environment=clean_environment(ONCE_IDLE="90s"))
    lines = out.splitlines()
    assert lines[0] == "ok"
    for line in ("drain = 5s", "idle = 90s", "log_level = warn", "retention = 7d",
                 "password = (set)", "[user alice]"):
        assert line in lines
    assert "scrypt" not in out and err == ""
    assert not (tmp_path / "d").exists()


def test_what_is_shown_is_a_configuration(tmp_path):
    out, _ = once("serve", "--dir", tmp_path / "d", "--check-config")
    conf = tmp_path / "shown.conf"
    conf.write_text(out.removeprefix("ok\n"))
    again, _ = once("serve", "--config", conf, "--check-config")
    assert again == out


def test_a_file_of_hashes_that_everyone_can_read_is_warned_about(tmp_path):
    conf = tmp_path / "once.conf"
    conf.write_text(users())
    conf.chmod(0o644)
    _, err = once("serve", "--config", conf, "--dir", tmp_path / "d", "--check-config")
    assert "everyone can read it" in err and "chmod o-rwx" in err


@pytest.mark.parametrize("settings, message", [
    ("listn = 127.0.0.1:1\n", "{file}:1: there is no setting 'listn' here; did you mean 'listen'?"),
    ("\nlisten = 0.0.0.0:7411\n", "{file}:2: listen = 0.0.0.0:7411: a server that others can reach "
     "needs users: add a [user NAME] section, or listen on 127.0.0.1"),
    ("[user eve]\nnamespaces = *\n", "{file}:1: user 'eve' has neither a password nor a token; once "
     "serve --hash-password and --make-token make the line"),
    ("disk_max = 100m\n", "{file}:1: disk_max = 100m: a store needs at least 128m; 0 is as much as "
     "there is"),
    ("tls_cert = c.pem\n", "{file}:1: tls_cert and tls_key belong together; tls_key is missing"),
])
def test_a_wrong_file_is_refused_with_its_line(tmp_path, settings, message):
    conf = tmp_path / "once.conf"
    conf.write_text(settings)
    for more in ((), ("--check-config",)):
        _, err = once("serve", "--config", conf, "--dir", tmp_path / "d", *more, status=CONFIG)
        assert err == f"once serve: {message.format(file=conf)}\n"
    assert not (tmp_path / "d").exists()


def test_the_configuration_for_machines_and_a_variable_that_is_no_setting(tmp_path):
    words = ["serve", "--dir", tmp_path / "d", "--check-config"]
    text, err = once(*words, environment=clean_environment(ONCE_LISTN="x", ONCE_USER="ada"))
    assert "ONCE_LISTN is no setting" in err and "ONCE_USER" not in err
    shown, err = once(*words, "--json", environment=clean_environment(ONCE_LISTN="x"))
    shown = json.loads(shown)
    assert shown["ok"] is True and "ok\n" + shown["configuration"] == text and not err
    assert len(shown["warnings"]) == 1 and "ONCE_LISTN" in shown["warnings"][0]
    wrong, err = once(*words, "--json", "--drain", "soon", status=CONFIG)
    assert json.loads(wrong)["exit_status"] == CONFIG and json.loads(wrong)["error"] in err


@pytest.mark.parametrize("words, variables, status, message", [
    (["--lisen", "x"], {}, USAGE, "there is no option '--lisen'"),
    (["extra"], {}, USAGE, "'extra' is no option"),
    (["--drain"], {}, USAGE, "--drain needs a value"),
    (["--drain", "soon"], {}, CONFIG, "--drain: drain = soon: write digits and a unit"),
    (["--drain", "1s", "--drain", "2s"], {}, CONFIG, "--drain: it is said twice"),
    ([], {"ONCE_DRAIN": "soon"}, CONFIG, "ONCE_DRAIN: drain = soon: write digits and a unit"),
    (["--config", "/nowhere/once.conf"], {}, CONFIG,
     "'/nowhere/once.conf' cannot be read: No such file"),
    ([], {"ONCE_CONFIG": "/nowhere/once.conf"}, CONFIG, "cannot be read"),
    (["--log-file", "/nowhere/log"], {}, CONFIG, "log_file '/nowhere/log' cannot be opened: No such"),
    (["--listen", "tls://127.0.0.1:0", "--tls-cert", "/nowhere/c", "--tls-key", "/nowhere/k"], {},
     CONFIG, "/nowhere/"),
    (["--check-config", "--make-token"], {}, USAGE, "one thing at a time"),
])
def test_wrong_flags_and_variables_are_refused(tmp_path, words, variables, status, message):
    _, err = once("serve", "--dir", tmp_path / "d", "--listen", f"{HOST}:0", *words, status=status,
                  environment=clean_environment(**variables)) if "--listen" not in words else \
        once("serve", "--dir", tmp_path / "d", *words, status=status)
    assert message in err, err


def test_every_setting_is_a_flag_a_variable_and_on_its_page():
    page, _ = once("serve", "--help-settings")
    text, _ = once("serve", "--help")
    settings = re.findall(r"^\| `(\w+)` \|", page.split("## A namespace")[0], re.MULTILINE)
    assert len(settings) > 15
    for name in settings:
        assert f"  --{name.replace('_', '-')} " in text
        if name == "accept_loss":  # it stands alone
            _, err = once("serve", "--accept-loss=yes", status=USAGE)
            assert err.startswith("once serve: --accept-loss takes no value")
        else:
            _, err = once("serve", f"--{name.replace('_', '-')}=", status=CONFIG)
            assert err == f"once serve: --{name.replace('_', '-')}: the value is empty\n"
        if name not in ("dir", "socket", "tls_cert", "tls_key", "log_file"):
            _, err = once("serve", "--check-config", status=CONFIG,
                          environment=clean_environment(**{f"ONCE_{name.upper()}": "?"}))
            assert err.startswith(f"once serve: ONCE_{name.upper()}: ")


@pytest.mark.parametrize("flag, page", [("--help-settings", "settings.md"),
                                        ("--help-commands", "commands.md")])
def test_the_reference_pages_are_what_the_tables_say(flag, page):
    out, _ = once("serve", flag)
    assert (ROOT / "docs" / "reference" / page).read_text() == out, \
        f"run: once serve {flag} >docs/reference/{page}"


# ---- Passwords and tokens ------------------------------------------------------------------------

def test_hashes_that_were_made_let_their_owners_in(tmp_path):
    line, _ = once("serve", "--hash-password", text="correct horse\n")
    assert re.fullmatch(r"password = scrypt\$15\$8\$1\$[\w+/=]{24}\$[\w+/=]{44}\n", line)
    token, token_line = once("serve", "--make-token")[0].splitlines()
    assert re.fullmatch(r"token = sha256\$[0-9a-f]{64}", token_line)
    settings = f"[user alice]\n{line}namespaces = pay\n[user bot]\n{token_line}\nrole = admin\n"
    with Server(tmp_path, settings) as server:
        with server.connect() as c:
            with pytest.raises(Error, match="NOAUTH"):
                c("ONCE.BEGIN", "pay", "k")
            with pytest.raises(Error, match="WRONGPASS"):
                c("AUTH", "alice", "wrong horse")
            assert c("AUTH", "alice", "correct horse") == "OK"
            assert c("ONCE.BEGIN", "pay", "k")[0] == "EXECUTE"
            with pytest.raises(Error, match="NOPERM"):
                c("ONCE.BEGIN", "other", "k")
            assert c("AUTH", "bot", token) == "OK"
            assert c("ONCE.BEGIN", "other", "k")[0] == "EXECUTE"
        assert get(f"{server.url}/v1/ops/pay/k")[0] == 401
        assert get(f"{server.url}/v1/ops/pay/k", Authorization=f"Bearer {token}")[0] == 200
        assert get(f"{server.url}/v1/ops/pay/k", Authorization="Bearer wrong")[0] == 401
        server.stop()
    log = server.log.read_text()
    for secret in ("correct horse", "wrong horse", token, "scrypt$", "sha256$"):
        assert secret not in log


@pytest.mark.parametrize("text", ["short\n", "", "x" * 257 + "\n"])
def test_a_password_of_a_wrong_size_is_refused(text):
    out, err = once("serve", "--hash-password", text=text, status=USAGE)
    assert out == "" and "a password has 8 to 256 bytes" in err


def test_a_password_is_asked_for_without_showing_it():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(once_binary(), ["once", "serve", "--hash-password"])
    seen = b""

    def read_until(end):
        nonlocal seen
        while end not in seen:
            seen += os.read(terminal, 1024)

    read_until(b"password: ")
    os.write(terminal, b"correct horse\n")
    read_until(b"again: ")
    os.write(terminal, b"correct horse\n")
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 1024):
            seen += chunk
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"correct horse" not in seen and b"password = scrypt$" in seen


# ---- Start and end -------------------------------------------------------------------------------

def test_it_starts_says_so_and_ends_in_peace(tmp_path):
    with Server(tmp_path) as server:
        ready = wait_for_line(server, "ready")[0]
        assert f"resp_port={server.port} http_port={server.http}" in ready
        assert (server.dir / "once.sock").stat().st_mode & 0o777 == 0o600
        assert server.dir.stat().st_mode & 0o077 == 0
        with server.connect() as c:
            assert c("ONCE.BEGIN", "demo", "k1")[0] == "EXECUTE"
        assert get(f"{server.url}/readyz")[0] == 200
        assert server.stop() == 0
    assert "draining" in server.log.read_text()
    assert 'stopped error="OK"' in server.log.read_text().splitlines()[-1]
    once("check", "--dir", server.dir)
    with Server(tmp_path) as server, server.connect() as c:
        assert c("ONCE.BEGIN", "demo", "k1")[0] == "BUSY"


def test_standard_files_that_are_closed_are_nobody_elses(tmp_path):
    class Bare(Server):
        def command(self):
            return ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *super().command()]

    with Bare(tmp_path) as server:
        for number in range(3):
            assert os.readlink(f"/proc/{server.process.pid}/fd/{number}") == "/dev/null"
        with server.connect() as c, contextlib.suppress(Error):
            c("ONCE.FORGET", "demo", "k1")  # writes an audit line
    once("check", "--dir", server.dir)


def test_any_free_port_can_be_asked_for(tmp_path):
    server = Server(tmp_path, options=[])
    server.command = lambda: [str(once_binary()), "serve", "--dir", str(server.dir), "--listen",
                              f"{HOST}:0", "--http", "off"]
    with server:
        port = int(re.search(r"resp_port=(\d+)", wait_for_line(server, "ready")[0])[1])
        with Connection(port) as c:
            assert c("PING") == "PONG"


def test_a_port_in_use_is_told_before_anything_is_made(tmp_path):
    with socket.socket() as s:
        s.bind((HOST, 0))
        s.listen()
        port = s.getsockname()[1]
        for taken, other in (("--listen", "--http"), ("--http", "--listen")):
            _, err = once("serve", "--dir", tmp_path / "d", taken, f"{HOST}:{port}", other, "off",
                          "--log-level", "error", status=UNAVAILABLE)
            assert f"{HOST}:{port}" in err and "address already in use" in err.lower()
    assert not (tmp_path / "d").exists()


def test_a_second_server_names_the_owner_and_disturbs_nobody(tmp_path):
    with Server(tmp_path) as server:
        _, err = once("serve", "--dir", server.dir, "--listen", f"{HOST}:{free_port()}", "--http",
                      "off", status=UNAVAILABLE)
        assert f"in use by pid {server.process.pid}" in err.splitlines()[-1]
        assert server.ready()  # its socket is still its own
        _, err = once("serve", "--dir", server.dir, "--listen", f"{HOST}:{server.port}", "--http",
                      "off", status=UNAVAILABLE)
        assert "address already in use" in err.lower()
        assert f"is served already, by pid {server.process.pid}" in err.splitlines()[-1]
        assert server.ready()


def test_a_damaged_store_is_not_served(tmp_path):
    with Server(tmp_path) as server, server.connect() as c:
        for i in range(100):
            c("ONCE.BEGIN", "demo", f"k{i}")
    segment = server.dir / "000000.seg"
    data = bytearray(segment.read_bytes())
    data[100] ^= 0xFF  # its head
    segment.write_bytes(data)
    done = subprocess.run(server.command(), text=True, capture_output=True, timeout=60,
                          env=clean_environment())
    assert done.returncode == DAMAGED, done.stderr
    assert "000000.seg" in done.stderr.splitlines()[-1] and "once check" in done.stderr


def test_what_was_begun_is_answered_before_the_end(tmp_path):
    """A waiting call is told BUSY, a connection that says nothing does not hold the end up."""
    with Server(tmp_path) as server:
        with server.connect() as owner, server.connect() as waiter, server.connect():
            assert owner("ONCE.BEGIN", "demo", "k")[0] == "EXECUTE"
            waiter.send("ONCE.BEGIN", "demo", "k", "WAIT", "60000")
            wait_for("the call waits", lambda: b"once_parked 1" in
                     get(f"{server.url}/metrics")[1].replace(b"_calls", b""))
            server.process.send_signal(signal.SIGTERM)
            assert waiter.read()[0] == "BUSY"
            assert server.process.wait(20) == 0
        server.process = None


@pytest.mark.parametrize("protocol", ["resp", "http"])
def test_nobody_who_guesses_holds_the_end_up(tmp_path, protocol):
    """Each from an address of its own, so that every guess would be compared: a minute's work."""
    held = []
    with Server(tmp_path, "drain = 1h\n" + users()) as server:
        for i in range(900):
            s = socket.create_connection((HOST, server.http if protocol == "http" else server.port),
                                         source_address=(f"127.0.{1 + i // 250}.{1 + i % 250}", 0))
            guess = base64.b64encode(b"root:guess%d" % i)
            s.sendall(pack("AUTH", "root", f"guess{i}") if protocol == "resp" else
                      b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + guess
                      + b"\r\n\r\n")
            held.append(s)
        server.process.send_signal(signal.SIGTERM)
        wait_for_line(server, "draining")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        server.process = None
    for s in held:
        s.close()


def test_a_second_signal_does_not_wait(tmp_path):
    with Server(tmp_path, "drain = 1h\n") as server:
        with server.connect() as c:
            c.socket.sendall(b"*1\r\n$4\r\nPI")  # half a command
            big = b"x" * (1 << 20)
            reader = server.connect()
            reader("SET", "big", big)
            reader.socket.sendall(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n" * 64)  # and never reads it
            server.process.send_signal(signal.SIGTERM)
            wait_for_line(server, "draining")
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(20) == 0
            reader.close()
        server.process = None


def test_who_connects_while_it_drains_is_told_so(tmp_path):
    with Server(tmp_path, "drain = 1h\n") as server:
        with server.connect() as reader:
            reader("SET", "big", b"x" * (1 << 20))
            reader.socket.sendall(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n" * 64)  # and never reads it
            server.process.send_signal(signal.SIGTERM)
            wait_for_line(server, "draining")
            ready = requests.get(f"{server.url}/readyz", timeout=30)
            assert ready.status_code == 503 and "draining" in ready.text
            refused = requests.post(f"{server.url}/v1/ops/demo/late/begin", json={}, timeout=30)
            assert refused.status_code == 503 and refused.headers["Connection"] == "close"
            assert refused.json()["type"].endswith("draining") and refused.headers["Retry-After"]
            with pytest.raises(ConnectionRefusedError):
                server.connect()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 0
        server.process = None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, server.http))


def test_a_failed_write_ends_the_server_with_an_error(tmp_path):
    """INV-8: nothing more is acknowledged; a supervisor starts it again and recovery decides."""
    server = Server(tmp_path).start()
    try:
        with server.connect() as c:
            assert c("ONCE.BEGIN", "demo", "before")[0] == "EXECUTE"
            # Room for the log, and none behind the first block of a segment.
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
            with pytest.raises((Error, ConnectionError)):
                c("ONCE.BEGIN", "demo", "after")
        assert server.process.wait(30) == UNAVAILABLE
    finally:
        if server.process.poll() is None:
            server.kill()
    server.process = None
    log = server.log.read_text()
    assert ' error failed error="ERR_STOPPED"' in log and "a write to the store's disk failed" in log
    with server, server.connect() as c:
        assert c("ONCE.BEGIN", "demo", "before")[0] == "BUSY"


# ---- Signals and reload --------------------------------------------------------------------------

def reload(server, refused=False):
    event = "reload_refused" if refused else "audit"
    before = len(log_lines(server, event))
    server.process.send_signal(signal.SIGHUP)
    return wait_for_line(server, event, before + 1)[-1]


def test_a_reload_changes_users_and_namespaces(tmp_path):
    one = f"[user alice]\npassword = {hashed('first password')}\nnamespaces = *\n"
    with Server(tmp_path, one) as server:
        with server.connect() as alice, server.connect() as other:
            assert alice("AUTH", "alice", "first password") == "OK"
            assert alice("ONCE.NAMESPACE", "pay")[5] == 86400000
            server.config.write_text("[namespace pay]\nretention = 1h\n" + one
                                     + f"[user bob]\npassword = {hashed('second password')}\n"
                                     "namespaces = *\n")
            line = reload(server)
            assert 'what="reload"' in line and "users=2 namespaces=1" in line
            assert other("AUTH", "bob", "second password") == "OK"
            assert alice("ONCE.NAMESPACE", "pay")[5] == 3600000  # still known
            server.config.write_text(one.replace("alice", "carol"))
            reload(server)
            with pytest.raises((ConnectionError, Error)):
                alice("ONCE.BEGIN", "pay", "k")


def test_a_wrong_file_changes_nothing_and_says_why(tmp_path):
    with Server(tmp_path, "[namespace pay]\nretention = 1h\n") as server, server.connect() as c:
        server.config.write_text("[namespace pay]\nretension = 1h\n")
        line = reload(server, refused=True)
        assert "once.conf:2: there is no setting 'retension' here; did you mean 'retention'?" in line
        assert c("ONCE.NAMESPACE", "pay")[5] == 3600000
        server.config.write_text("drain = 1s\nsocket = off\nkeys_max = 5\n")
        reload(server)
        assert 'settings="socket keys_max"' in wait_for_line(server, "reload_needs_restart")[0]
        assert server.ready()


def test_the_log_file_is_opened_again(tmp_path):
    log = tmp_path / "once.log"
    with Server(tmp_path, f"log_file = {log}\n") as server:
        wait_for("the log", lambda: log.exists() and " ready " in log.read_text())
        assert log.stat().st_mode & 0o777 == 0o600
        log.rename(tmp_path / "old.log")
        server.process.send_signal(signal.SIGHUP)
        wait_for("a new log", lambda: log.exists() and "reload" in log.read_text())
        assert "reload" not in (tmp_path / "old.log").read_text()
    assert server.log.read_text() == ""


def test_tls_for_both_protocols_and_new_certificates_after_a_reload(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    authority, certificate, key = certificates(first)
    live_certificate, live_key = tmp_path / "live.pem", tmp_path / "live.key"
    live_certificate.write_bytes(certificate.read_bytes())
    live_key.write_bytes(key.read_bytes())
    server = Server(tmp_path, f"tls_cert = {live_certificate}\ntls_key = {live_key}\n")
    plain = server.command
    server.command = lambda: [word.replace(f"{HOST}:", f"tls://{HOST}:") for word in plain()]

    def fetch(authority, port):
        context = ssl.create_default_context(cafile=str(authority))
        with context.wrap_socket(socket.create_connection((HOST, port), timeout=30),
                                 server_hostname="localhost") as s:
            return s.getpeercert()["serialNumber"]

    with server:
        old = {fetch(authority, port) for port in (server.port, server.http)}
        assert len(old) == 1
        live_key.write_text("nonsense")
        assert "live" in reload(server, refused=True)
        assert {fetch(authority, port) for port in (server.port, server.http)} == old
        other, certificate, key = certificates(second)
        live_certificate.write_bytes(certificate.read_bytes())
        live_key.write_bytes(key.read_bytes())
        reload(server)
        new = {fetch(other, port) for port in (server.port, server.http)}
        assert len(new) == 1 and new != old
        with pytest.raises(ssl.SSLError):
            fetch(authority, server.port)


# ---- Logs and others -----------------------------------------------------------------------------

def test_a_json_log_is_json(tmp_path):
    with Server(tmp_path, "log = json\nlog_level = debug\n") as server, server.connect() as c:
        c("ONCE.BEGIN", "demo", "k1")
        c.socket.sendall(b"junk\x01\xff\r\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for("the reload", lambda: '"what":"reload"' in server.log.read_text())
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert {"listening", "ready", "audit", "draining", "stopped"} <= {line["event"] for line in lines}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
               for line in lines)


def test_resolve_and_forget_leave_an_audit_line(tmp_path):
    with Server(tmp_path, users() + "[namespace pay]\n") as server, server.connect() as c:
        c("AUTH", "root", USERS["root"])
        fence = c("ONCE.BEGIN", "pay", "k1", "LEASE", "1")[1]
        wait_for("the doubt", lambda: c("ONCE.BEGIN", "pay", "k1")[0] == "DOUBT")
        c("ONCE.RESOLVE", "pay", "k1", "NOTDONE", "FENCE", fence)
        with pytest.raises(Error, match="^MISMATCH"):
            c("ONCE.RESOLVE", "pay", "k1", "DONE", "0", "x", "FENCE", fence)
        c("ONCE.FORGET", "pay", "k1")
        # What someone wants is written before it is done, and what came of it afterwards.
        lines = wait_for_line(server, "audit", 6)
        assert all('who="root"' in line and 'key="k1"' in line for line in lines)
        assert all((" outcome=" in line) == (i % 2 == 1) for i, line in enumerate(lines))
        for line, what, outcome in ((lines[1], "resolve_not_done", "OK"),
                                    (lines[3], "resolve_done", "MISMATCH"),
                                    (lines[5], "forget", "OK")):
            assert f'what="{what}"' in line and f'outcome="{outcome}"' in line


def test_a_service_manager_is_told(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(30)

        def until(word):
            seen = []
            while not any(word in message for message in seen):
                seen.append(s.recv(4096).decode())
            return seen

        with Server(tmp_path, environment={"NOTIFY_SOCKET": path}) as server:
            assert "READY=1" in until("READY=1")[-1]
            server.process.send_signal(signal.SIGHUP)
            assert "MONOTONIC_USEC=" in until("RELOADING=1")[-1]
            until("READY=1")
            server.stop()
            until("STOPPING=1")


def test_a_terminal_is_greeted(tmp_path):
    main, other = pty.openpty()
    port = free_port()
    process = subprocess.Popen([str(once_binary()), "serve", "--dir", str(tmp_path / "d"), "--listen",
                                f"{HOST}:{port}", "--http", "off", "--log-file",
                                str(tmp_path / "log")], stderr=other, env=clean_environment())
    os.close(other)
    try:
        seen = b""
        while seen.count(b"\n") < 3:
            seen += os.read(main, 1024)
        assert f"RESP on {HOST}:{port}" in seen.decode()
        assert f"try: {once_binary()} run --dir {tmp_path / 'd'} hello -- date" in seen.decode()
        assert f"try: redis-cli -p {port} ONCE.BEGIN demo k1" in seen.decode()
    finally:
        process.terminate()
        assert process.wait(30) == 0
        os.close(main)


def test_the_unit_of_systemd_is_right():
    unit = (ROOT / "examples" / "systemd" / "once.service").read_text()
    for line in ("Type=notify", "Restart=on-failure", "ProtectSystem=strict", "NoNewPrivileges=yes"):
        assert line in unit.splitlines()
    assert "once serve --config /etc/once/once.conf" in unit
    if Path("/usr/bin/systemd-analyze").exists():
        done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                               str(ROOT / "examples" / "systemd" / "once.service")],
                              text=True, capture_output=True)
        assert "Unknown" not in done.stderr, done.stderr


# ---- once namespace ------------------------------------------------------------------------------

def test_namespaces_are_shown_from_the_configuration_and_from_the_server(tmp_path):
    settings = "namespaces = declared\n[namespace ready]\n[namespace pay]\nretention = 7d\ndoubt_fixed = yes\n"
    server = Server(tmp_path, settings)
    words = ["namespace", "--config", server.config, "--dir", server.dir]
    before, _ = once(*words, "--json")
    assert json.loads(before)["source"] == "configuration"
    with server:
        during, _ = once("namespace", "--dir", server.dir, "--json")
        assert json.loads(during)["source"] == "server"
        assert json.loads(during)["namespaces"] == json.loads(before)["namespaces"]
        with urllib.request.urlopen(f"http://{HOST}:{server.http}/v1/namespaces") as answer:
            assert json.load(answer)["namespaces"] == json.loads(before)["namespaces"]
        text, _ = once("namespace", "--dir", server.dir, "pay")
        assert "  retention  7d, at most 87660h\n" in text and "reject, always" in text
        once("namespace", "--dir", server.dir, "other", status=NOT_FOUND)
    once(*words, "other", status=NOT_FOUND)
    once(*words, "a b", status=USAGE)
    assert once(*words, "pay")[0] == text
