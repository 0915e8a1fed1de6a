#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the dashboard that the documentation shows: fills a server with a shop's
evening, looks at it with a real Chromium, and writes docs/pictures/dashboard-*.png.

    scripts/pictures.py [--seconds 185] [--out docs/pictures]

The charts show the last three minutes, as the page itself has seen them: the shop is open so long.
"""
import argparse
import contextlib
import json
import math
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from browsing import Browser, Connection, admin, begin, card, route  # noqa: E402
from serving import Server, hashed  # noqa: E402

SIZE_MAX = 150_000
WIDE = {"width": 1200, "height": 860}
PHONE = {"width": 390, "height": 780, "touch": True}
SEAT = "seat-14C/2026-11-20"
SETTINGS = f"""
[namespace pay]
retention = 7d
lease = 2m
codes = http
[namespace mail]
retention = 3d
lease = 30s
doubt = retry
[namespace tickets]
retention = 30d
lease = 10m
[user anna]
role = admin
password = {hashed("for-the-pictures")}
"""


def doubts(call):
    """Three that someone has to decide; one of them is what the dialog is about."""
    def lost(ns, key, owner, point, data, fingerprint):
        fence = begin(call, ns, key, "FP", fingerprint, "OWNER", owner)
        call("ONCE.CHECKPOINT", ns, key, fence, point, json.dumps(data))
        call("ONCE.RENEW", ns, key, fence, 0)

    lost("pay", "order-48113", "till-3.4711", "asked the bank",
         {"amount": "149.00 EUR", "card": "**** 4242", "bank_reference": "B-90177"}, "149.00 EUR")
    lost("pay", "order-48127", "till-1.902", "asked the bank",
         {"amount": "18.50 EUR", "card": "**** 0341", "bank_reference": "B-90182"}, "18.50 EUR")
    lost("tickets", "seat-12A/2026-11-20", "worker-5.88", "printed",
         {"printer": "box office 2", "sheet": 5512}, "12A")


def seat(call):
    """Sold on the second attempt, shortly before the picture: a busy shop's log loses old steps."""
    ns, key = "tickets", SEAT
    fence = begin(call, ns, key, "FP", "14C", "OWNER", "worker-5.88")
    call("ONCE.CHECKPOINT", ns, key, fence, "reserved", json.dumps({"hall": 2, "until": "21:40"}))
    time.sleep(2)
    call("ONCE.RENEW", ns, key, fence, 0)
    time.sleep(1)
    fence = call("ONCE.BEGIN", ns, key, "FP", "14C", "OWNER", "worker-2.31", "DOUBT", "RETRY")[1]
    time.sleep(1)
    call("ONCE.CHECKPOINT", ns, key, fence, "charged", json.dumps({"charge": "ch_5Qa81"}))
    call("ONCE.COMPLETE", ns, key, fence, 201,
         json.dumps({"ticket": "T-77120", "seat": "14C", "charge": "ch_5Qa81"}))


def work(server, number, stop):
    """One till: new orders, some asked for twice, some that are refused, in waves."""
    dice = random.Random(number)
    with Connection(server.socket_path) as call:
        for i in range(10**9):
            if stop.is_set():
                return
            key = f"order-{number}{i:05}"
            fence = begin(call, "pay", key, "FP", "9.90 EUR", "OWNER", f"till-{number}")
            if dice.random() < 0.05:
                call("ONCE.BEGIN", "pay", key, "FP", "9.90 EUR", "OWNER", "another")  # BUSY
            if dice.random() < 0.03:
                call("ONCE.FAIL", "pay", key, fence, "card declined")
            else:
                call("ONCE.COMPLETE", "pay", key, fence, 201, f"ch_{number}{i}")
                for _ in range(dice.choice((0, 0, 0, 1, 1, 2))):
                    call("ONCE.BEGIN", "pay", key, "FP", "9.90 EUR")  # REPLAY
                if dice.random() < 0.01:
                    call("ONCE.BEGIN", "pay", key, "FP", "8.80 EUR")  # MISMATCH
            stop.wait(0.012 * (1.6 + math.sin(time.monotonic() / 6 + number / 3)) * dice.random())


@contextlib.contextmanager
def shop(server):
    stop = threading.Event()
    tills = [threading.Thread(target=work, args=(server, n, stop)) for n in range(1, 4)]
    for till in tills:
        till.start()
    try:
        yield
    finally:
        stop.set()
        for till in tills:
            till.join()


def sign_in(page):
    page.fill("#signin-user", "anna")
    page.fill("#signin-password", "for-the-pictures")
    page.click("#signin-submit")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")


def take(page, out, name):
    path = out / f"dashboard-{name}.png"
    page.js("document.activeElement.blur()")
    page.wait("document.getAnimations().every(a => a.playState !== 'running')")  # colours fade over
    page.call("screenshot", path=str(path))
    size = path.stat().st_size
    print(f"{path.name}: {size // 1000} KB")
    assert size < SIZE_MAX, f"{path} has {size} bytes, more than {SIZE_MAX}"


def show(page, url, there):
    page.js(f"location.hash = {json.dumps(url.split('#')[1])}")
    page.wait_shown(there)


def pictures(browser, server, out, seconds):
    now = route(server, "now"), "[data-testid=chart-verdicts] svg"
    undecided = route(server, "doubts"), card("pay", "order-48113") + " .doubt-data dl"
    page = browser.open(now[0], **WIDE)
    phone = browser.open(now[0], scheme="dark", **PHONE)
    for one in (page, phone):
        sign_in(one)
    time.sleep(seconds)
    with admin(server) as call:
        seat(call)
    page.wait("document.querySelector('#nav-doubts-count').innerText === '3'")  # the seat's is over
    take(page, out, "now-light")
    take(phone, out, "now-phone")
    show(phone, *undecided)
    take(phone, out, "doubts-phone")

    page.call("viewport", width=WIDE["width"], height=1270)
    show(page, route(server, "key", "tickets", SEAT), "#timeline li[data-event=COMPLETED]")
    take(page, out, "key-light")
    page.call("scheme", scheme="dark")
    take(page, out, "key-dark")
    page.call("scheme", scheme="light")
    page.call("viewport", **WIDE)
    show(page, *undecided)
    take(page, out, "doubts-light")
    page.click(card("pay", "order-48113") + " [data-testid=happened]")
    page.fill("#resolve-code", "201")
    page.fill("#resolve-result", '{"charge": "ch_5Qb02", "bank_reference": "B-90177"}')
    take(page, out, "resolve-light")


def main():
    parser = argparse.ArgumentParser(description="Takes the pictures of the dashboard.")
    parser.add_argument("--seconds", type=float, default=185)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="once-pictures-"))
    try:
        with Server(folder, SETTINGS) as server, Browser() as browser:
            with admin(server) as call:
                doubts(call)
            with shop(server):
                pictures(browser, server, options.out, options.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
