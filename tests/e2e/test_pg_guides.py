# SPDX-License-Identifier: Apache-2.0
"""Runs the pages of the documentation that need PostgreSQL, from zero, as a reader would.

A page with a command `psql …` is such a page. It has a database of its own, in PGHOST, PGPORT, PGUSER,
PGDATABASE and DATABASE_URL, and build/postgres/once.sql, which `make postgres` would have left there.
`redis-server` is started on a free port. The rest is as in test_served_docs.py.
"""
import itertools
import re
import shlex
import subprocess
import sys
import threading
import urllib.request

import psycopg
import pytest

from pg_tools import SUPER
from serving import HOST, ROOT, RealRedis
from test_docs import PAGES, commands, matches, needs_postgres, strip_blank_end
from test_served_docs import PIECE, Page, PageServer

GUIDES = ROOT / "docs" / "guides"
# test_pg_docs.py types the reference.
PG_PAGES = [page for page in PAGES if needs_postgres(page) and page != ROOT / "docs" / "postgres.md"]
WAIT_S = 60


class SharedServer(PageServer):
    """`once serve --store …` has no folder, and no socket to ask."""

    def ready(self):
        if "--dir" in self.words:
            return super().ready()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False


class PgPage(Page):
    def __init__(self, folder, once_bin, pg):
        super().__init__(folder, once_bin)
        self.server = SharedServer(folder)
        self.redis = RealRedis(folder / ".redis")
        url = pg.database()
        self.url = url
        self.env.update(PGHOST=HOST, PGPORT=str(pg.port), PGUSER=SUPER, PGDATABASE=url.rpartition("/")[2],
                        DATABASE_URL=url, PSQLRC="/dev/null")
        built = folder / "build" / "postgres"
        built.mkdir(parents=True)
        subprocess.run([sys.executable, ROOT / "hosts" / "postgres" / "build.py",
                        ROOT / "hosts" / "postgres", built], check=True, timeout=60)
        for name in ("hosts", "examples"):
            (folder / name).symlink_to(ROOT / name)

    def local(self, text):
        return re.sub(r"\b6379\b", str(self.redis.port), super().local(text))

    def run(self, command):
        if command.startswith("redis-server"):
            self.redis.start()
            return []
        if command.startswith("once serve"):
            command = command.replace('"$DATABASE_URL"', shlex.quote(self.url))
        return super().run(command)

    def stop(self):
        self.server.stop()
        self.redis.stop()


def files_of(path):
    return {name: text for name, _, text in PIECE.findall(path.read_text()) if name}


@pytest.mark.parametrize("path", PG_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_page(path, once_bin, pg, tmp_path):
    page = PgPage(tmp_path, once_bin, pg)
    try:
        for name, language, text in PIECE.findall(path.read_text()):
            if name:
                (tmp_path / name).write_text(page.local(text))
            if language != "console":
                continue
            for command, expected in commands(text):
                if command.startswith("make "):
                    continue
                got, want = page.run(command), strip_blank_end(expected)
                want = [page.local(line) for line in want]
                assert matches(want, got), (
                    f"{path.name}: $ {command}\nexpected:\n" + "\n".join(want) + "\ngot:\n"
                    + "\n".join(got))
    finally:
        page.stop()


def test_the_guides_are_run():
    pages = {page.name for page in PG_PAGES if page.parent == GUIDES}
    assert {"payment-python.md", "payment-node.md", "consumer.md", "migrate-table.md",
            "outbox.md"} <= pages


# ---- "Ten lines more than without" ---------------------------------------------------------------


def code(text):
    return [line for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("page, plain, once", [
    ("payment-python.md", "pay_plain.py", "pay.py"), ("payment-node.md", "pay_plain.mjs", "pay.mjs")])
def test_ten_lines_more(page, plain, once):
    files = files_of(GUIDES / page)
    more = len(code(files[once])) - len(code(files[plain]))
    assert 0 < more <= 10, f"{page}: {more} lines more"


# ---- What goes wrong around the transaction of the page for Node ---------------------------------

CAUGHT = """
import { end, transaction } from "./transaction.mjs";
const told = await transaction(async (client) => {
  await client.query("SELECT once.begin('pay', 'order-1')");
  await client.query("SELECT no_such_function()").catch(() => {});
  return "told that it was paid";
}).catch((error) => error.message);
console.log(told);
await end();
"""
LOST = """
import { end, transaction } from "./transaction.mjs";
const cut = "SELECT pg_terminate_backend(pg_backend_pid())";
await transaction((client) => client.query(cut)).catch(() => console.log("in use"));
const id = await transaction(async (client) => (await client.query("SELECT pg_backend_pid() AS id")).rows[0].id);
await Promise.all([transaction((client) => client.query("SELECT pg_sleep(0.01)")),
                   transaction((client) => client.query("SELECT pg_terminate_backend($1)", [id]))]).catch(() => {});
await new Promise((done) => setTimeout(done, 200));
console.log("alive");
await end();
"""


@pytest.fixture
def node(once_bin, pg, tmp_path):
    page = PgPage(tmp_path, once_bin, pg)
    page.run("psql -q -f build/postgres/once.sql")
    page.run("npm install pg")
    (tmp_path / "transaction.mjs").write_text(files_of(GUIDES / "payment-node.md")["transaction.mjs"])

    def run(program):
        (tmp_path / "program.mjs").write_text(program)
        return "\n".join(page.run("node program.mjs"))
    yield run
    page.stop()


def test_node_an_error_that_was_caught_is_no_commit(node):
    said = node(CAUGHT)
    assert "rolled back" in said and "told that" not in said, said


def test_node_goes_on_when_connections_are_lost(node):
    said = node(LOST)
    assert "in use" in said and "alive" in said, said


# ---- The payment of the guide, while connections are cut ----------------------------------------

KEYS, COPIES, WORKERS, PRICE, FUNDS = 25, 4, 8, 7, 1000


class Cutter:
    """Ends backends of the database one after the other, whatever they are at."""

    def __init__(self, url):
        self.url, self.cuts, self.over = url, 0, threading.Event()
        self.thread = threading.Thread(target=self.cut)

    def cut(self):
        with psycopg.connect(self.url, autocommit=True, application_name="cutter") as c:
            while not self.over.wait(0.01):
                self.cuts += c.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name <> 'cutter' AND "
                    "state <> 'idle' ORDER BY random() LIMIT 1) one").fetchone()[0]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(WAIT_S)


def test_payment_with_cut_connections(pg, tmp_path):
    """Each key is sent several times at once by programs that go on until they have an answer."""
    files = files_of(GUIDES / "payment-python.md")
    url = pg.installed()
    names = {}
    exec(files["pay.py"].replace('if __name__ == "__main__":', "if False:"), names)
    with psycopg.connect(url) as c:
        c.execute(files["shop.sql"])
    left = list(range(KEYS)) * COPIES
    answers, lock = {key: set() for key in range(KEYS)}, threading.Lock()

    def work():
        while True:
            with lock:
                if not left:
                    return
                key = left.pop()
            for _ in itertools.count():
                try:
                    with psycopg.connect(url) as connection:
                        verdict, answer = names["pay"](connection, f"order-{key}", 42, PRICE)
                    break
                except psycopg.OperationalError:
                    continue  # nobody knows whether it was done: ask again with the same key
            assert verdict in ("EXECUTE", "REPLAY")
            with lock:
                answers[key].add(str(answer))

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    with Cutter(url) as cutter:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(WAIT_S)
    assert cutter.cuts > 0 and not left
    with psycopg.connect(url) as c:
        orders = {str(id) for id, in c.execute("SELECT id FROM orders")}
        balance = c.execute("SELECT balance FROM accounts WHERE id = 42").fetchone()[0]
    assert all(len(found) == 1 for found in answers.values()), answers
    assert orders == set().union(*answers.values()) and len(orders) == KEYS
    assert balance == FUNDS - KEYS * PRICE
