# SPDX-License-Identifier: Apache-2.0
"""A real headless Chromium for the tests of the dashboard: Debian's, driven by browser/driver.js
with the pinned puppeteer-core, which the first run fetches as client_tools.py does for clients.

    with Browser() as browser:
        page = browser.open(server.url + "/")
        page.wait_text("#view", "doubts")
"""
import contextlib
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from client_tools import CACHE, cache, fetch, need
from serving import USERS, Connection, Server, users

HERE = Path(__file__).resolve().parent / "browser"
WAIT_MS = 40_000


def modules():
    """The folder node_modules with puppeteer-core and axe-core."""
    need("node", "nodejs")
    need("npm", "npm")
    pins = [HERE / "package.json", HERE / "package-lock.json"]
    with cache("browser", *pins) as (folder, there):
        if not there:
            for pin in pins:
                shutil.copy(pin, folder)
            fetch("puppeteer-core and axe-core",
                  ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts",
                   "--cache", CACHE / "npm-cache"], cwd=folder)
    return folder / "node_modules"


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("no Chromium is installed; `make setup` installs Debian's chromium", pytrace=False)


class BrowserError(AssertionError):
    """What the driver said: a condition that did not come, an element that is not there."""


class Browser:
    """One Chromium; every page has a profile of its own, like a person of its own."""

    def __init__(self):
        self.numbers = itertools.count(1)
        self.process = subprocess.Popen(
            ["node", str(HERE / "driver.js")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, encoding="utf-8", env=dict(os.environ, NODE_PATH=str(modules())))
        try:
            self.version = self.call("launch", path=chromium())
        except BaseException:
            self.close()
            raise

    def call(self, call, **arguments):
        number = next(self.numbers)
        self.process.stdin.write(json.dumps(dict(arguments, call=call, id=number)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise BrowserError(f"the driver ended with {self.process.wait(10)} during {call}")
        answer = json.loads(line)
        assert answer["id"] == number
        if "error" in answer:
            raise BrowserError(f"{call} {arguments.get('selector', '')}: {answer['error']}")
        return answer["value"]

    def open(self, url, **options):
        """options: width, height, scheme, motion, scale, touch, prompts, script (see driver.js)."""
        name = f"page{next(self.numbers)}"
        self.call("open", name=name, url=url, **options)
        return Page(self, name, url)

    def close(self):
        """Politely, and for certain."""
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    def __init__(self, browser, name, url):
        self.browser, self.name, self.url = browser, name, url

    def call(self, call, **arguments):
        return self.browser.call(call, name=self.name, **arguments)

    def js(self, expression):
        return self.call("evaluate", expression=expression)

    def wait(self, expression, ms=WAIT_MS):
        """Until it is true; its value."""
        return self.call("wait", expression=expression, ms=ms)

    def text(self, selector):
        """What a person reads there; None when it is not there."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def wait_text(self, selector, part, ms=WAIT_MS):
        return self.wait(f"(document.querySelector({json.dumps(selector)})?.innerText ?? '')"
                         f".toLowerCase().includes({json.dumps(part.lower())})", ms)

    def wait_no_text(self, selector, part, ms=WAIT_MS):
        return self.wait(f"!(document.querySelector({json.dumps(selector)})?.innerText ?? '')"
                         f".toLowerCase().includes({json.dumps(part.lower())})", ms)

    def shown(self, selector):
        """Is it there and visible?"""
        return self.js(visible(selector))

    def wait_shown(self, selector, ms=WAIT_MS):
        return self.wait(visible(selector), ms)

    def wait_gone(self, selector, ms=WAIT_MS):
        return self.wait(f"!({visible(selector)})", ms)

    def click(self, selector):
        """With the mouse, where a person would: an element under another one is not reached."""
        self.wait_shown(selector)
        self.call("click", selector=selector)

    def type(self, selector, text):
        self.call("type", selector=selector, text=text)

    def fill(self, selector, text):
        self.wait_shown(selector)
        self.js(f"document.querySelector({json.dumps(selector)}).value = ''")
        self.call("type", selector=selector, text=text)

    def press(self, key, *held):
        self.call("press", key=key, held=held)

    def keys(self, text):
        self.call("keys", text=text)

    def seen(self):
        return self.call("seen")

    def requests(self, part=""):
        return [r for r in self.seen()["requests"] if part in r["url"]]

    def check_quiet(self, origin=None, expected=()):
        """Nothing went outside, no policy was violated, no script failed, nothing asked. expected:
        parts of messages that belong to the test (Chromium tells of every answer that is an error).
        """
        seen = self.seen()
        origin = origin or self.url.split("/")[0] + "//" + self.url.split("/")[2]
        outside = [r["url"] for r in seen["requests"]
                   if not r["url"].startswith((origin + "/", "data:", "blob:"))]
        assert outside == [], f"requests to elsewhere: {outside}"
        assert seen["violations"] == [], f"content security policy: {seen['violations']}"
        assert seen["errors"] == [], f"script errors: {seen['errors']}"
        assert seen["dialogs"] == [], f"dialogs of the browser: {seen['dialogs']}"
        loud = [m for m in seen["console"] if m["type"] in ("error", "warn", "warning", "assert")
                and not any(e in m["text"] for e in expected)]
        assert loud == [], f"console: {loud}"

    def check_axe(self, what, rules=None):
        """No fault of impact serious or critical, of these rules or of all."""
        self.wait("document.getAnimations().every(a => a.playState !== 'running' ||"
                  " a.effect.getTiming().iterations === Infinity)")
        bad = [v for v in self.call("axe", rules=rules) if v["impact"] in ("serious", "critical")]
        assert bad == [], f"axe-core, {what}:\n" + json.dumps(bad, indent=1, ensure_ascii=False)

    def check_width(self, what):
        """Nothing sticks out: the page does not scroll sideways, however long ago things were."""
        sizes = self.js("(() => { for (const e of document.querySelectorAll('[data-relative]'))"
                        " e.textContent = '23 h 59 min ago';"
                        " return [document.documentElement.scrollWidth, innerWidth]; })()")
        assert sizes[0] <= sizes[1], f"{what}: {sizes[0]} px wide in a window of {sizes[1]} px"

    def close(self):
        self.call("close")


def visible(selector):
    return (f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " return !!e && e.checkVisibility({visibilityProperty: true}) "
            "&& e.getBoundingClientRect().width > 0; })()")


# ---- What the tests of the dashboard have in common ---------------------------------------------

NAMESPACES = "[namespace pay]\nlease = 2m\n[namespace mail]\nlease = 1m\n" \
             "[namespace web]\ncodes = http\n"


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Without users: everyone of this machine is an administrator."""
    with serve(tmp_path_factory.mktemp("open"), NAMESPACES) as running:
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("secured"), users() + NAMESPACES) as running:
        yield running


@contextlib.contextmanager
def serve(folder, settings):
    """A server whose store is removed at the end: stores are large."""
    with Server(folder, settings) as running:
        yield running
    shutil.rmtree(running.dir, ignore_errors=True)


@pytest.fixture
def key():
    return f"order-{next(KEYS)}"


KEYS = itertools.count(1001)


def admin(server):
    """A connection of an administrator, whatever the users are."""
    return Connection(server.socket_path)


def begin(call, ns, key, *options):
    answer = call("ONCE.BEGIN", ns, key, *options)
    assert answer[0] == "EXECUTE", answer
    return answer[1]


def doubt(call, ns, key, owner="worker-7", point=None, data=""):
    """Someone began it, got to a point, and vanished. Its fence."""
    fence = begin(call, ns, key, "FP", "100 EUR", "OWNER", owner)
    if point is not None:
        assert call("ONCE.CHECKPOINT", ns, key, fence, point, data) == "OK"
    assert call("ONCE.RENEW", ns, key, fence, 0) == "OK"
    return fence


def done(call, ns, key, code=201, result="ch_1", owner="worker-1"):
    fence = begin(call, ns, key, "OWNER", owner)
    assert call("ONCE.COMPLETE", ns, key, fence, code, result) == "OK"
    return fence


def route(server, *parts, **query):
    """The address of a view, such as #/key/pay/order-1."""
    address = "/".join(quote(p, safe="") for p in parts)
    asked = "?" + urlencode(query) if query else ""
    return f"{server.url}/#/{address}{asked}"


def card(ns, key):
    """The selector of a doubt."""
    return f"article[data-testid=doubt][data-ns={json.dumps(ns)}][data-key={json.dumps(key)}]"


def sign_in(page, name, password=None):
    page.fill("#signin-user", name)
    page.fill("#signin-password", USERS[name] if password is None else password)
    page.click("#signin-submit")
