# SPDX-License-Identifier: Apache-2.0
"""Types what docs/postgres.md says, with a real psql against a real server; and holds the page to the
functions that are there."""
import os
import re
import shutil
import subprocess
import sys

from pg_tools import PgSession, program
from serving import ROOT
from test_docs import commands, matches, strip_blank_end
from test_served_docs import PIECE

PAGE = ROOT / "docs" / "postgres.md"
# Called by other functions, by servers or by tests; nobody types them.
INNER = re.compile(r"check_|decide|refuse|raise_|reject_|take_|apply_|merge_counts|begin_at_once"
                   r"|act$|demand$|birth_ms|fingerprint_of|text_of|word_name|state_name|state_at"
                   r"|machine_states|caller|scope|may$|mine$|hash64|taken$|time_of|clock_ms|set_clock"
                   r"|tick$|timely$|decided|begin_known|begin_anew|complete_known")
SERVER = ("calls", "hold", "keep", "moment", "settled", "sweep_lanes", "object_", "list", "numbers")


def test_examples(pg, tmp_path):
    (tmp_path / "build" / "postgres").mkdir(parents=True)
    subprocess.run([sys.executable, ROOT / "hosts" / "postgres" / "build.py",
                    ROOT / "hosts" / "postgres", tmp_path / "build" / "postgres"], check=True)
    pg.sql("DROP DATABASE IF EXISTS shop")
    pg.sql("DROP ROLE IF EXISTS tenant_a")
    env = dict(os.environ, PGHOST="127.0.0.1", PGPORT=str(pg.port), PGUSER="postgres",
               HOME=str(tmp_path), LC_ALL="C.UTF-8",
               PATH=os.path.dirname(program("psql")) + ":" + os.environ["PATH"])
    for name, language, block in PIECE.findall(PAGE.read_text()):
        if name:
            (tmp_path / name).write_text(block)
        if language != "console":
            continue
        for command, expected in commands(block):
            if command.startswith("make"):
                continue
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, text=True, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            got = strip_blank_end(done.stdout.splitlines())
            assert matches(strip_blank_end(expected), got), f"$ {command}\n{done.stdout}"
    pg.sql("DROP DATABASE shop")
    pg.sql("DROP ROLE tenant_a")
    shutil.rmtree(tmp_path / "build")


def test_every_function_is_described(pg):
    page = PAGE.read_text()
    with PgSession(pg.installed()) as session:
        names = {name for (name,) in session.rows(
            "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'once'::regnamespace")}
        views = {name for (name,) in session.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'once'::regnamespace")}
    public = {name for name in names if not INNER.match(name) and not name.startswith(SERVER)}
    assert len(public) > 30
    missing = {name for name in public | views
               if not re.search(rf"(`|`once\.|once\.|, ){name}(\(|`|,)", page)}
    assert not missing
