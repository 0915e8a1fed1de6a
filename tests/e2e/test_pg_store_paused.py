# SPDX-License-Identifier: Apache-2.0
"""A backend that stands still: what was sent to it is given up when its time is over, and told as
what it is: nobody knows. Nobody else waits for it any longer, and when it goes on nothing happens
twice.
"""
import os
import signal
import time

from pg_cut import Driver
from serving import wait_for

LANES = ("SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND"
         " l.locktype = 'advisory' WHERE a.datname = %s AND a.application_name = 'once'"
         " AND a.query NOT LIKE '%%once.tick%%'")  # which has such a lock for a moment


def test_backend_that_stands_still(pg):
    url = pg.installed()
    name = url.rsplit("/", 1)[1]
    with Driver(url, 1) as driver, pg.session(name) as session:
        wait_for("a session", lambda: driver.stats()["links_up"] == 1)
        (stopped,), = wait_for("its session only", lambda: len(
            lanes := session.rows(LANES, name)) == 1 and lanes)
        os.kill(stopped, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            driver.send("begin sent one")
            time.sleep(2)
            driver.send("begin waits two")
            word, *_, took_ms = driver.answer("sent")
            assert word == "ERR_IO" and 9500 < took_ms < 20000, (word, took_ms)
            # The lost session does not end; its lane goes on without it.
            word, *_, took_ms = driver.answer("waits")
            assert time.monotonic() - begun < 40
            assert word in ("EXECUTE", "ERR_IO"), word
            wait_for("a session", lambda: driver.stats()["links_up"] == 1)
            assert driver.ask("begin", "free", "three")[0] == "EXECUTE"
            assert driver.stats()["unsettled"] >= 1
            # Asked again, it is decided once.
            word, fence, *_ = driver.ask("begin", "again", "one")
            assert word == "EXECUTE", word
        finally:
            os.kill(stopped, signal.SIGCONT)
        wait_for("it ends", lambda: stopped not in {pid for pid, in session.rows(LANES, name)})
        assert driver.ask("complete", "done", "one", fence, "first")[0] == "OK"
        kept = session.one("SELECT state, attempt, fence FROM once.get('drive', 'one')")
        assert kept == ("completed", 1, int(fence))
