# SPDX-License-Identifier: Apache-2.0
"""The dashboard at work, in a real Chromium: numbers that move, doubts that are found, decided and
gone, the past of a key, and every other view. What it must not do is in test_dashboard_safety.py,
whom it must not shut out in test_dashboard_reach.py.
"""
import contextlib
import json
import re
import threading

import pytest
import requests

from browsing import (admin, begin, browser, card, done, doubt, key, route,  # noqa: F401 (fixtures)
                      server)
from serving import wait_for


def operation(server, ns, key):
    return requests.get(f"{server.url}/v1/ops/{ns}/{key}", timeout=30).json()


@contextlib.contextmanager
def load(server):
    """Operations without end: each is new, is done, and is asked for once more."""
    stop = threading.Event()

    def work():
        with server.connect() as call:
            number = 0
            while not stop.is_set():
                number += 1
                name = f"load-{number}"
                fence = begin(call, "mail", name)
                call("ONCE.COMPLETE", "mail", name, fence, 200, "sent")
                assert call("ONCE.BEGIN", "mail", name)[0] == "REPLAY"

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


# ---- Now ----------------------------------------------------------------------------------------

def tile(name):
    return f"document.querySelector('[data-testid=tile-{name}] .tile-value').innerText"


def number(expression):
    """The number that a tile begins with: 1,234 or 1.2 k."""
    return ("((t) => { const m = /([0-9.,\\u202f\\u00a0 ]+)\\s*([kM]?)/.exec(t); return m ?"
            " parseFloat(m[1].replace(/[^0-9.]/g, '')) * ({k: 1e3, M: 1e6}[m[2]] ?? 1) : NaN; })"
            f"({expression})")


def chart(name):
    return f"document.querySelector('[data-testid=chart-{name}] svg').outerHTML"


def test_numbers_and_charts_move_while_there_is_load(browser, server):
    page = browser.open(route(server, "now"))
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.wait(f"{number(tile('keys'))} >= 0")
    page.wait(f"{number(tile('rate'))} < 1")  # nobody calls
    keys = page.js(number(tile("keys")))
    before = {name: page.js(chart(name)) for name in ("verdicts", "latency", "keys")}
    with load(server):
        page.wait(f"{number(tile('rate'))} > 1")  # a slow disk makes a few a second
        page.wait(f"{number(tile('keys'))} > {keys} + 10")
        middle = page.js(number(tile("keys")))
        page.wait(f"{number(tile('keys'))} > {middle}")  # and they go on moving
        for name, drawn in before.items():
            page.wait(f"{chart(name)} !== {json.dumps(drawn)}")
        said = page.js("document.querySelector('[data-testid=chart-verdicts]').textContent")
        assert "EXECUTE" in said.upper() and "REPLAY" in said.upper()
        assert page.js("document.querySelector('[data-testid=chart-verdicts] svg')"
                       ".getAttribute('aria-label').length") > 10
    page.wait(f"{number(tile('rate'))} < 1")  # the load has ended
    page.check_quiet()
    page.close()


def test_a_page_that_nobody_looks_at_does_not_ask(browser, server):
    """A forgotten tab costs the server nothing."""
    page = browser.open(route(server, "now"))
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.js("Object.defineProperty(document, 'visibilityState', {get: () => 'hidden', "
            "configurable: true}); Object.defineProperty(document, 'hidden', {get: () => true, "
            "configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
    page.wait("document.querySelector('#contact').dataset.state === 'paused'")
    page.js("delete document.visibilityState; delete document.hidden; "
            "document.dispatchEvent(new Event('visibilitychange'))")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.check_quiet()
    page.close()


# ---- Doubts -------------------------------------------------------------------------------------

def resolves(page):
    return [json.loads(r["body"]) for r in page.requests("/resolve") if r["method"] == "POST"]


def test_a_doubt_is_found_decided_and_gone(browser, server, key):
    with admin(server) as call:
        fence = doubt(call, "pay", key, "worker-7", "charged", '{"charge": "ch_77"}')
    page = browser.open(route(server, "now"))
    other = browser.open(route(server, "doubts"))
    page.wait(f"{number(tile('doubts'))} >= 1")
    page.click("#nav [data-route=doubts]")
    page.wait_shown(card("pay", key))
    other.wait_shown(card("pay", key))
    page.wait_text(card("pay", key), "ch_77")  # the data of the point comes a moment later
    said = page.text(card("pay", key))
    for part in (key, "pay", "worker-7", "charged", "ch_77", str(fence)):
        assert part in said, f"{part!r} is needed to decide, and is not shown:\n{said}"
    assert not re.search(r"since\s+\S+ \S+ in ", said), f"it began in the future:\n{said}"
    assert "Kept until" not in said, f"a doubt never expires:\n{said}"
    assert page.text("#nav-doubts-count").strip() not in ("", "0")

    page.click(card("pay", key) + " [data-testid=happened]")
    page.wait_shown("#resolve-dialog")
    assert key in page.text("#resolve-dialog")
    page.fill("#resolve-code", "201")
    page.fill("#resolve-result", "ch_77")
    assert resolves(page) == [], "nothing is sent before it is confirmed"
    page.click("#resolve-confirm")
    page.wait_gone("#resolve-dialog")
    page.wait_gone(card("pay", key))
    other.wait_gone(card("pay", key))  # someone else's page sees it go by itself

    assert [(r["fence"], r.get("done"), r.get("outcome"), r["code"], r["result"])
            for r in resolves(page)] in ([(fence, True, None, 201, "ch_77")],
                                         [(fence, None, "DONE", 201, "ch_77")])
    now = operation(server, "pay", key)
    assert (now["state"], now["code"], now["result"]) == ("completed", 201, "ch_77")
    page.wait("document.querySelector('#announce').textContent.length > 0")  # is said aloud too
    wait_for("the audit line", lambda: [line for line in server.log.read_text().splitlines()
                                        if "resolve" in line.lower() and key in line])
    for one in (page, other):
        one.check_quiet()
        one.close()


def test_a_doubt_that_did_not_happen_is_free_again(browser, server, key):
    with admin(server) as call:
        fence = doubt(call, "pay", key)
        page = browser.open(route(server, "doubts"))
        page.click(card("pay", key) + " [data-testid=not-happened]")
        page.wait_shown("#resolve-dialog")
        page.click("#resolve-confirm")
        page.wait_gone(card("pay", key))
        sent = resolves(page)
        assert len(sent) == 1 and sent[0]["fence"] == fence
        assert sent[0].get("done") is False or sent[0].get("outcome") == "NOTDONE"
        assert operation(server, "pay", key)["state"] == "failed"
        assert begin(call, "pay", key, "FP", "100 EUR") > fence  # the next one may do it
    page.check_quiet()
    page.close()


def test_a_doubt_is_decided_where_its_past_is_told(browser, server, key):
    with admin(server) as call:
        fence = doubt(call, "pay", key, point="charged")
    page = browser.open(route(server, "key", "pay", key))
    page.click("#view [data-testid=happened]")
    page.fill("#resolve-result", "ch_88")
    page.click("#resolve-confirm")
    page.wait_gone("#resolve-dialog")
    page.wait_text("#op-result", "ch_88")
    page.wait("document.querySelector('#timeline > li[data-event=RESOLVED_DONE]') !== null")
    assert not page.shown("#view [data-testid=happened]")
    assert [r["fence"] for r in resolves(page)] == [fence]
    page.check_quiet()
    page.close()


@pytest.mark.parametrize("ns, code", [("web", "200"), ("web~acme", "200"), ("pay~acme", "0")])
def test_a_scope_suggests_the_code_of_its_namespace(browser, server, key, ns, code):
    """web~acme is a scope of web, whose codes are HTTP statuses: 0 would be none."""
    with admin(server) as call:
        doubt(call, ns, key)
    page = browser.open(route(server, "doubts"))
    page.click(card(ns, key) + " [data-testid=happened]")
    page.wait_shown("#resolve-dialog")
    assert page.js("document.querySelector('#resolve-code').value") == code
    page.close()


def test_a_clock_that_is_slow_does_not_change_why_there_is_a_doubt(browser, server, key):
    """Its lease ran out: nobody gave it up, also where the browser's clock is an hour behind."""
    with admin(server) as call:
        begin(call, "pay", key, "LEASE", 1)
        slow = "const now = Date.now; Date.now = () => now.call(Date) - 3600000;"
        page = browser.open(route(server, "doubts"), script=slow)
        page.wait_shown(card("pay", key) + " time")
        page.wait_no_text(card("pay", key), "given up")
    page.close()


def test_changing_ones_mind_sends_nothing(browser, server, key):
    with admin(server) as call:
        doubt(call, "pay", key)
    page = browser.open(route(server, "doubts"))
    for leave in (lambda: page.click("#resolve-cancel"), lambda: page.press("Escape")):
        page.click(card("pay", key) + " [data-testid=happened]")
        page.wait_shown("#resolve-dialog")
        leave()
        page.wait_gone("#resolve-dialog")
    assert resolves(page) == [] and page.shown(card("pay", key))
    assert operation(server, "pay", key)["state"] == "doubt"
    page.close()


def test_a_doubt_that_someone_else_took_over_is_not_decided(browser, server, key):
    """The person decided about another attempt than the one that is there now."""
    with admin(server) as call:
        fence = doubt(call, "pay", key, point="charged")
        page = browser.open(route(server, "doubts"))
        page.click(card("pay", key) + " [data-testid=not-happened]")
        page.wait_shown("#resolve-dialog")
        assert call("ONCE.RESOLVE", "pay", key, "NOTDONE", "FENCE", fence) == "OK"
        newer = doubt(call, "pay", key)
        page.click("#resolve-confirm")
        page.wait_text("#resolve-error", "nothing was changed")
        assert operation(server, "pay", key)["state"] == "doubt"
        assert operation(server, "pay", key)["fence"] == newer
    # The new one is there to be decided, by its own fence.
    page.press("Escape")
    page.wait_shown(f'{card("pay", key)}[data-fence="{newer}"]')
    page.check_quiet(expected=["409"])
    page.close()


def test_a_doubt_that_ended_otherwise_tells_so(browser, server, key):
    with admin(server) as call:
        fence = doubt(call, "pay", key)
        page = browser.open(route(server, "doubts"))
        page.click(card("pay", key) + " [data-testid=happened]")
        page.fill("#resolve-code", "201")
        page.fill("#resolve-result", "ch_mine")
        call("ONCE.RESOLVE", "pay", key, "DONE", 201, "ch_theirs", "FENCE", fence)
        page.click("#resolve-confirm")
        page.wait_text("#resolve-error", "nothing was changed")
    assert operation(server, "pay", key)["result"] == "ch_theirs"
    page.wait_gone(card("pay", key))
    page.close()


# ---- One key, its past --------------------------------------------------------------------------

def steps(page):
    return page.js("[...document.querySelectorAll('#timeline > li[data-testid=step]')]"
                   ".map(e => [e.dataset.event, e.textContent])")


def test_the_past_of_a_key_is_told(browser, server, key):
    """Begun, a point, vanished, taken over, another point, done."""
    with admin(server) as call:
        first = doubt(call, "pay", key, "worker-1", "reserved", '{"seat": "12A"}')
        answer = call("ONCE.BEGIN", "pay", key, "FP", "100 EUR", "OWNER", "worker-2",
                      "DOUBT", "RETRY")
        assert answer[0] == "EXECUTE" and answer[2] == 2
        second = answer[1]
        call("ONCE.CHECKPOINT", "pay", key, second, "charged", "ch_9")
        call("ONCE.COMPLETE", "pay", key, second, 201, '{"charge": "ch_9"}')
    page = browser.open(route(server, "now"))
    page.fill("#search-key", key)
    page.press("Enter")
    page.wait("location.hash.startsWith('#/key/pay/')")  # the only one that is found is shown
    page.wait("document.querySelectorAll('#timeline > li[data-testid=step]').length >= 6")
    told = steps(page)
    everything = "\n".join(text for _, text in told)
    for part in ("worker-1", "worker-2", "reserved", "12A", "charged", "ch_9", str(first),
                 str(second)):
        assert part in everything, f"{part!r} is not in the timeline:\n{everything}"
    events = [event for event, _ in told]
    assert "BEGAN" in events and "COMPLETED" in events and "DOUBT" in events, events
    assert "ch_9" in page.text("#op-result")
    assert "completed" in page.text("#op-facts").lower()
    page.check_quiet()
    page.close()


def test_a_long_past_is_read_when_it_grows(browser, server, key):
    """A thousand steps are megabytes: not every two seconds, as long as nothing happens."""
    with admin(server) as call:
        doubt(call, "pay", key)
        page = browser.open(route(server, "key", "pay", key))
        looks = "performance.getEntriesByType('resource').map(e => e.name)" \
                ".filter(n => n.includes('/history?count=%s'))"
        page.wait(f"{looks % '1'}.filter(n => n.endsWith('=1')).length >= 3")
        assert page.js(f"{looks % '1000'}.length") == 1
        call("ONCE.RESOLVE", "pay", key, "NOTDONE")
    page.wait_text("#timeline", "Resolved by a person")
    assert page.js(f"{looks % '1000'}.length") == 2
    page.close()


def test_a_key_that_is_unknown_says_so(browser, server):
    page = browser.open(route(server, "search", key="no-such-key"))
    page.wait_text("#view", "nothing has this key")
    page.call("goto", url=route(server, "key", "pay", "no-such-key"))
    page.wait("document.querySelector('#view').dataset.view === 'key'")
    page.wait_text("#view", "there is no such operation")
    page.check_quiet(expected=["404"])
    page.close()


# ---- Lists --------------------------------------------------------------------------------------

def test_operations_are_listed_by_state_and_in_pages(browser, server):
    with admin(server) as call:
        for i in range(250):
            done(call, "pages", f"op-{i:03}")
        begin(call, "pages", "running-1", "OWNER", "w")
    page = browser.open(route(server, "operations", "pages"))
    rows = "document.querySelectorAll('#ops-table tr[data-testid=op]').length"
    page.wait(f"{rows} > 0")
    shown = page.js(rows)
    assert shown < 251
    while page.shown("#ops-more"):
        page.click("#ops-more")
        page.wait(f"{rows} > {shown} || !document.querySelector('#ops-more')?.checkVisibility()")
        shown = page.js(rows)
    assert shown == 251
    page.call("goto", url=route(server, "operations", "pages", state="started"))
    page.wait(f"{rows} === 1")
    assert "running-1" in page.text("#ops-table")
    page.js("document.querySelector('#ops-table tr[data-testid=op] a').click()")
    page.wait("document.querySelector('#view').dataset.view === 'key'")
    page.wait_text("#op-facts", "in progress")
    page.check_quiet()
    page.close()


def test_namespaces_and_their_policy(browser, server):
    page = browser.open(route(server, "now"))
    page.click("#nav [data-route=namespaces]")
    page.wait_shown("#namespaces-table")
    page.wait_text("#namespaces-table", "pay")
    said = page.text("#namespaces-table")
    assert "mail" in said and "2 min" in said.replace("2m", "2 min")
    page.check_quiet()
    page.close()


def test_objects_and_their_values(browser, server):
    with admin(server) as call:
        call("ONCE.APPLY", "shop", "fill", "DO", 3, "ADD", "acct:42", 1000,
             "DO", 4, "APPEND", "sales", "e1", "one book",
             "DO", 4, "UNION", "visitors", "alice", "bob")
    page = browser.open(route(server, "now"))
    page.click("#nav [data-route=objects]")
    page.wait_text("#objects-table", "acct:42")
    said = page.text("#objects-table")
    assert "sales" in said and "visitors" in said and "counter" in said
    page.call("goto", url=route(server, "object", "acct:42"))
    page.wait_text("#object-value", "1")
    assert "1000" in page.text("#object-value").replace(",", "").replace("\u202f", "")
    page.call("goto", url=route(server, "object", "sales"))
    page.wait_text("#view", "one book")
    page.check_quiet()
    page.close()
