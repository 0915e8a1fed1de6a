# SPDX-License-Identifier: Apache-2.0
"""A million keys in the store: the page and `once ls` stay quick. First rows come within 200 ms: of
`once ls` from its start, with a server and on the folder alone, opening included; of HTTP; and of
the page in a real Chromium, from the click and from nothing.

Each is tried a few times and the best counts, because other work of the machine only makes it
slower; where none of them was quick enough, a few times more. On a machine with more work than
processors, or one that others have a share of, everyone gets a part of a processor, and the bar
grows by as much.
"""
import os
import shutil
import statistics
import subprocess
import threading
import time

import pytest
import requests

from browsing import admin, browser, route  # noqa: F401 (fixture)
from serving import Server, once_binary

KEYS = 1_000_000
DOUBTS = 2_000  # of them
BAR_MS = 200
TRIES, TRIES_MAX = 5, 15
PIECE = 5_000


def commands():
    """BEGIN and COMPLETE of every key, in pieces; the last DOUBTS are given up with an unknown
    outcome. A new store counts its fences from 1, and decides a connection's commands in order."""
    for first in range(0, KEYS, PIECE):
        piece = []
        for i in range(first, first + PIECE):
            key, fence = b"order-%07d" % i, b"%d" % (i + 1)
            piece.append(b"*5\r\n$10\r\nONCE.BEGIN\r\n$3\r\npay\r\n$13\r\n%b\r\n"
                         b"$5\r\nOWNER\r\n$8\r\nworker-1\r\n" % key)
            if i < KEYS - DOUBTS:
                piece.append(b"*6\r\n$13\r\nONCE.COMPLETE\r\n$3\r\npay\r\n$13\r\n%b\r\n"
                             b"$%d\r\n%b\r\n$3\r\n201\r\n$4\r\npaid\r\n" % (key, len(fence), fence))
            else:
                piece.append(b"*5\r\n$10\r\nONCE.RENEW\r\n$3\r\npay\r\n$13\r\n%b\r\n$%d\r\n%b\r\n"
                             b"$1\r\n0\r\n" % (key, len(fence), fence))
        yield b"".join(piece)


def read_answers(connection, ret_counts):
    """Counts EXECUTE and OK until all are there; ends early at an error."""
    counts, rest = {b"+EXECUTE\r\n": 0, b"+OK\r\n": 0}, b""
    while any(n < KEYS for n in counts.values()) and (more := connection.socket.recv(1 << 20)):
        lines, end, rest = (rest + more).rpartition(b"\r\n")
        for word in counts:
            counts[word] += (lines + end).count(word)
        if b"\r\n-" in lines:
            break
    ret_counts.update(counts)


def fill(server):
    counts = {}
    with server.connect() as connection:
        reader = threading.Thread(target=read_answers, args=(connection, counts))
        reader.start()
        for piece in commands():
            connection.socket.sendall(piece)
            if not reader.is_alive():
                break
        reader.join(180)
    assert set(counts.values()) == {KEYS}, counts


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("million"), options=["--durability", "interval"])
    with server:
        fill(server)
    yield server  # it is stopped, and sealed
    shutil.rmtree(server.dir, ignore_errors=True)


@pytest.fixture
def server(filled):
    with filled:
        yield filled


def crowded():
    """How much longer anything takes here and now than it would alone."""
    wall, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.03:
        pass
    waited = (time.perf_counter() - wall) / (time.process_time() - own)
    return max(1, waited, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def bar_ms():
    return BAR_MS * crowded()


def best_ms(what, once, tries_max=TRIES_MAX):
    """Of several tries. once() gives milliseconds, or None: then the call itself is timed."""
    taken, bars, bar = [], [], 0
    while len(taken) < TRIES or (min(taken) >= bar and len(taken) < tries_max):
        bars.append(bar_ms())
        bar = statistics.mean(bars)
        began = time.perf_counter()
        told = once()
        taken.append(told if told is not None else (time.perf_counter() - began) * 1e3)
    print(f"{what}: best {min(taken):.1f} ms of {[round(t, 1) for t in taken]}, bar {bar:.0f} ms")
    assert min(taken) < bar, f"{what}: {taken}"


def first_rows(*words, rows=10):
    """`once ls`: from its start until so many rows are there, in ms; then nobody reads on."""
    began = time.perf_counter()
    process = subprocess.Popen([str(once_binary()), "ls", *map(str, words)], stdout=subprocess.PIPE)
    lines = [process.stdout.readline() for _ in range(rows + 1)]  # and a heading
    taken = (time.perf_counter() - began) * 1e3
    process.stdout.close()
    process.wait(60)
    assert all(b"order-" in line for line in lines[1:]), lines
    return taken


def all_ways(folder, how):
    best_ms(f"once ls, {how}", lambda: first_rows("--dir", folder))
    best_ms(f"once ls pay, {how}", lambda: first_rows("pay", "--dir", folder))
    best_ms(f"once ls --jsonl, {how}", lambda: first_rows("--jsonl", "--dir", folder))
    best_ms(f"once ls --state doubt, {how}",
            lambda: first_rows("--state", "doubt", "--dir", folder))
    best_ms(f"once ls --state completed, {how}",
            lambda: first_rows("pay", "--state", "completed", "--dir", folder))


def test_ls_of_the_folder(filled):
    all_ways(filled.dir, "no server")


def test_ls_through_the_server(server):
    all_ways(server.dir, "through the server")


def test_http(server):
    def get(path):
        answer = requests.get(server.url + path, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert get("/v1/stats")["keys"] >= KEYS
    best_ms("GET /v1/stats", lambda: get("/v1/stats") and None)
    assert get("/v1/stats")["doubts"] == DOUBTS
    for path in ("/v1/ops/pay?count=100", "/v1/ops?count=100", "/v1/ops?state=doubt&count=100",
                 "/v1/ops/pay?state=completed&count=100", "/v1/ops/pay?state=doubt&count=100"):
        assert len(get(path)["operations"]) == 100, path
        best_ms(f"GET {path}", lambda: get(path) and None)
    assert len(get("/v1/search?key=order-0500000")["operations"]) == 1
    # Not the best of many: a server that has just started looks for namespaces in the first ones.
    best_ms("GET /v1/search", lambda: get("/v1/search?key=order-0500000") and None, TRIES)
    assert get("/v1/ops/pay?state=failed&count=100")["operations"] == []

    # Pages far inside are as quick as the first.
    cursor = "0"
    for _ in range(50):
        cursor = get(f"/v1/ops/pay?count=1000&cursor={cursor}")["cursor"]
        assert cursor != "0"
    best_ms("the page after 50,000 keys",
            lambda: get(f"/v1/ops/pay?count=100&cursor={cursor}") and None)


# In the page: a click as a person's, and the time until the first rows can be seen.
CLICK = """(async () => {
    const began = performance.now();
    document.querySelector('#nav [data-route=%s]').click();
    for (;;) {
        const row = document.querySelector('%s');
        if (row && row.checkVisibility() && row.getBoundingClientRect().height > 0)
            return performance.now() - began;
        if (performance.now() - began > 20000)
            throw new Error('no rows');
        await new Promise((go) => setTimeout(go, 0));
    }
})()"""


def test_the_page(browser, server):
    page = browser.open(route(server, "now"))
    for view, row in (("operations", "#ops-table tr[data-testid=op]"),
                      ("doubts", "article[data-testid=doubt]")):
        def click():
            page.js("document.querySelector('#nav [data-route=namespaces]').click()")
            page.wait(f"document.querySelector('{row}') === null")
            return page.js(CLICK % (view, row))

        best_ms(f"the page's {view} after the click", click)
    # A person who looks for one of the million.
    page.fill("#search-key", "order-0777777")
    page.press("Enter")
    page.wait_text("#view", "order-0777777")
    page.check_quiet()
    page.close()


# From nothing: the page, its files, who is there, the list.
FIRST_ROW = """new MutationObserver((_, watch) => {
    if (!document.querySelector('#ops-table tr[data-testid=op]')) return;
    watch.disconnect();
    window.__first_row_ms = performance.now();
}).observe(document, { childList: true, subtree: true });"""


def test_loading_the_page(browser, server):
    def load():
        page = browser.open(route(server, "operations", "pay"), script=FIRST_ROW)
        taken = page.wait("window.__first_row_ms")
        page.close()
        return taken

    # Most of it is the browser's own: a new tab, twenty files, the first layout.
    best_ms("the page from nothing to the first rows", load)


def test_opening_again_is_quick(filled):
    """A server that starts with a million keys answers soon; a person waits for it."""
    taken, bar_s = [], 5 * crowded()
    while not taken or (min(taken) >= bar_s and len(taken) < 3):
        began = time.perf_counter()
        with filled:
            with admin(filled) as call:
                assert len(call("ONCE.LIST", "pay", "COUNT", 10)[1]) == 10
            taken.append(time.perf_counter() - began)
    print(f"serving after {taken} s, bar {bar_s:.1f} s")
    assert min(taken) < bar_s, taken
