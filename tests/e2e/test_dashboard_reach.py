# SPDX-License-Identifier: Apache-2.0
"""Whom the dashboard must not shut out, in a real Chromium: axe-core finds no serious fault in any
view, in light, dark and on a phone; a doubt is decided with the keyboard alone; enlarged text and
small screens do not scroll sideways; who does not want motion gets none.
"""
import json

import pytest
import requests

from browsing import (admin, begin, browser, card, done, doubt, route,  # noqa: F401 (fixtures)
                      secured, server, sign_in)

LOOKS = {
    "light": {"scheme": "light"},
    "dark": {"scheme": "dark"},
    "phone": {"scheme": "light", "width": 360, "height": 740, "touch": True},
    "dark phone": {"scheme": "dark", "width": 360, "height": 740, "touch": True},
}


@pytest.fixture(scope="module")
def full(server):
    """A server with something of everything."""
    with admin(server) as call:
        doubt(call, "pay", "order-1", "worker-7", "charged", '{"charge": "ch_1"}')
        doubt(call, "mail", "welcome-" + "x" * 200)
        done(call, "pay", "order-2", result='{"charge": "ch_2"}')
        fence = begin(call, "pay", "order-3")
        call("ONCE.FAIL", "pay", "order-3", fence, "card declined")
        begin(call, "pay", "order-4", "OWNER", "worker-1")
        call("ONCE.APPLY", "shop", "fill", "DO", 3, "ADD", "acct:42", 1000,
             "DO", 4, "APPEND", "sales", "e1", "one book")
    return server


VIEWS = {
    ("now",): "[data-testid=tile-keys]", ("doubts",): card("pay", "order-1"),
    ("operations",): "#ops-table tr[data-testid=op]", ("key", "pay", "order-1"): "#timeline li",
    ("key", "pay", "order-2"): "#op-result", ("key", "pay", "order-3"): "#op-reason",
    ("key", "pay", "none"): "#view .empty", ("search",): "#search-namespace",
    ("namespaces",): "#namespaces-table", ("objects",): "#objects-table",
    ("object", "acct:42"): "#object-value", ("object", "sales"): "#items-table",
}
COLOURS = ["color-contrast", "link-in-text-block"]  # all that dark can break and light does not


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_serious(browser, full, look):
    page = browser.open(route(full, "now"), **LOOKS[look])
    rules = COLOURS if "dark" in look else None
    for parts, there in VIEWS.items():
        page.call("goto", url=route(full, *parts))
        page.wait_shown(there)
        page.check_axe(f"{'/'.join(parts)}, {look}", rules)
        page.check_width(f"{'/'.join(parts)}, {look}")
    page.call("goto", url=route(full, "doubts"))
    for button in ("happened", "not-happened"):
        page.click(card("pay", "order-1") + f" [data-testid={button}]")
        page.wait_shown("#resolve-dialog")
        page.check_axe(f"the dialog of {button}, {look}", rules)
        page.check_width(f"the dialog of {button}, {look}")
        page.click("#resolve-cancel")
        page.wait_gone("#resolve-dialog")
    page.close()


@pytest.mark.parametrize("look", ["light", "dark phone"])
def test_axe_finds_nothing_serious_where_one_signs_in(browser, secured, look):
    page = browser.open(route(secured, "now"), **LOOKS[look])
    page.wait_shown("#signin-form")
    page.check_axe(f"signed out, {look}")
    page.check_width(f"signed out, {look}")
    sign_in(page, "root", "wrong")
    page.wait("document.querySelector('#signin-error').innerText.length > 5")
    page.check_axe(f"wrong password, {look}")
    with admin(secured) as call:
        if call("ONCE.GET", "pay", "order-1") is None:
            doubt(call, "pay", "order-1")
    sign_in(page, "bob")
    page.wait_gone("#signin-form")
    page.click("#nav [data-route=doubts]")
    page.wait_shown(card("pay", "order-1"))
    page.check_axe(f"signed in without the right to decide, {look}")
    page.check_width(f"signed in, {look}")
    page.close()


def test_axe_sees_a_fault(browser, full):
    """Else all of the above could not fail."""
    page = browser.open(route(full, "now"))
    page.wait_shown("[data-testid=tile-keys]")
    page.js("document.querySelector('#main').append(document.createElement('button'))")
    with pytest.raises(AssertionError, match="button-name"):
        page.check_axe("a button without a name")
    page.close()


def test_a_server_that_is_gone_looks_right_too(browser, full):
    page = browser.open(route(full, "doubts"), scheme="dark")
    page.wait_shown(card("pay", "order-1"))
    full.kill()
    try:
        page.wait("document.querySelector('#contact').dataset.state === 'lost'")
        page.check_axe("without a server")
    finally:
        full.start()
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.close()


# ---- The keyboard -------------------------------------------------------------------------------

def focused(page):
    return page.js("document.activeElement.cloneNode().outerHTML")


def tab_to(page, wanted, most=80):
    """Tab until the focus is there. Every stop on the way is visible and shows the focus."""
    for _ in range(most):
        page.press("Tab")
        if page.js("document.activeElement === document.body"):
            continue  # the browser's own frame
        assert page.js("document.activeElement.checkVisibility({visibilityProperty: true})"), (
            f"{focused(page)} is not seen")
        assert page.js("""(() => {
            const s = getComputedStyle(document.activeElement);
            return (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0)
                || s.boxShadow !== 'none';
            })()"""), f"no focus is seen on {focused(page)}"
        if page.js(wanted):
            return
    raise AssertionError(f"{wanted} is not reached with Tab; the last was {focused(page)}")


def test_a_doubt_is_decided_with_the_keyboard_alone(browser, server):
    with admin(server) as call:
        doubt(call, "keys", "by-keyboard")
    page = browser.open(route(server, "now"))
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    tab_to(page, "document.activeElement.dataset.route === 'doubts'")
    page.press("Enter")
    page.wait_shown(card("keys", "by-keyboard"))
    mine = ("document.activeElement.dataset.testid === 'happened' && "
            "document.activeElement.closest('article').dataset.key === 'by-keyboard'")
    tab_to(page, mine)
    page.press("Enter")
    page.wait_shown("#resolve-dialog")
    page.wait("document.querySelector('#resolve-dialog').contains(document.activeElement)")
    page.press("Escape")
    page.wait_gone("#resolve-dialog")
    page.wait(mine)  # the focus is back where it was
    page.press("Enter")
    page.wait_shown("#resolve-dialog")
    for _ in range(12):  # the focus stays inside
        page.press("Tab")
        assert page.js("document.activeElement === document.body || "
                       "document.querySelector('#resolve-dialog').contains(document.activeElement)")
    tab_to(page, "document.activeElement.id === 'resolve-result'", 12)
    page.keys("by hand")
    tab_to(page, "document.activeElement.id === 'resolve-confirm'", 12)
    page.press("Enter")
    page.wait_gone(card("keys", "by-keyboard"))
    now = requests.get(f"{server.url}/v1/ops/keys/by-keyboard", timeout=30).json()
    assert (now["state"], now["result"]) == ("completed", "by hand")
    # The one that had the focus is gone; it did not fall to nowhere.
    page.wait("document.activeElement !== document.body")
    page.check_quiet()
    page.close()


def test_a_dialog_that_is_opened_again_at_once_is_whole(browser, full):
    """The browser tells that it was closed only later, when it is open again."""
    page = browser.open(route(full, "doubts"))
    button = card("pay", "order-1") + " [data-testid=happened]"
    page.click(button)
    page.wait_shown("#resolve-confirm")
    page.js(f"""(async () => {{
        const dialog = document.querySelector('#resolve-dialog');
        const told = new Promise((go) => dialog.addEventListener('close', go));
        dialog.close();
        document.querySelector({json.dumps(button)}).click();
        await told;
    }})()""")
    assert page.shown("#resolve-confirm")
    assert page.js("document.querySelector('#resolve-dialog').contains(document.activeElement)")
    page.close()


def test_new_numbers_do_not_take_the_focus(browser, full):
    """A page that draws itself anew must not throw a person out of what they are doing."""
    page = browser.open(route(full, "doubts"))
    button = card("pay", "order-1") + " [data-testid=happened]"
    page.wait_shown(button)
    page.call("focus", selector=button)
    with admin(full) as call:
        doubt(call, "pay", "order-newer")
        page.wait_shown(card("pay", "order-newer"))
        call("ONCE.RESOLVE", "pay", "order-newer", "NOTDONE")
    assert page.js(f"document.activeElement === document.querySelector({json.dumps(button)})")
    page.fill("#search-key", "half a wo")
    before = len(page.requests("/v1/stats"))
    while len(page.requests("/v1/stats")) < before + 2:
        assert page.js("document.activeElement.id") == "search-key"
    assert page.js("document.querySelector('#search-key').value") == "half a wo"
    page.close()


def test_there_is_a_way_past_the_navigation(browser, full):
    page = browser.open(route(full, "now"))
    page.wait_shown("[data-testid=tile-keys]")
    page.press("Tab")
    assert page.js("document.activeElement.tagName") == "A", focused(page)
    page.press("Enter")
    page.wait("document.querySelector('#main').contains(document.activeElement)")
    page.close()


def test_each_view_has_a_title_of_its_own(browser, full):
    page = browser.open(route(full, "now"))
    titles = set()
    for view in ("now", "doubts", "operations", "namespaces", "objects"):
        page.click(f"#nav [data-route={view}]")
        page.wait(f"document.querySelector('#view').dataset.view === '{view}'")
        page.wait(f"document.querySelector('#nav [data-route={view}]').ariaCurrent === 'page'")
        assert page.js("document.querySelectorAll('[aria-current=page]').length") == 1
        assert page.js("document.querySelectorAll('h1').length") == 1
        titles.add(page.js("document.title"))
    assert len(titles) == 5, titles
    page.js("history.back()")
    page.wait("document.querySelector('#view').dataset.view === 'namespaces'")
    page.close()


# ---- Sizes and motion ---------------------------------------------------------------------------

def test_nothing_sticks_out(browser, full):
    """640 px is what a window of 1280 px has left at 200 %, 320 px what it has at 400 %."""
    page = browser.open(route(full, "now"))
    for parts, there in VIEWS.items():
        page.call("goto", url=route(full, *parts))
        page.wait_shown(there)
        for width, height in ((640, 512), (360, 740), (320, 256)):
            page.call("viewport", width=width, height=height)
            page.check_width(f"{'/'.join(parts)} at {width} px")
    page.close()


def test_large_text_fits(browser, full):
    """Someone set the text of the browser to twice its size."""
    page = browser.open(route(full, "now"), width=1000)
    page.wait_shown("[data-testid=tile-keys]")
    before = page.js("parseFloat(getComputedStyle(document.querySelector('#title')).fontSize)")
    page.js("document.documentElement.style.fontSize = '200%'")
    after = page.js("parseFloat(getComputedStyle(document.querySelector('#title')).fontSize)")
    assert after >= 1.8 * before, "sizes are in pixels"
    for parts in (("now",), ("doubts",), ("key", "pay", "order-1")):
        page.js(f"location.hash = {json.dumps(route(full, *parts).split('#')[1])}")
        page.wait_shown(VIEWS[parts])
        page.check_width(f"{'/'.join(parts)} with text of 200 %")
    page.close()


def test_buttons_are_large_enough_for_a_thumb(browser, full):
    page = browser.open(route(full, "doubts"), **LOOKS["phone"])
    page.wait_shown(card("pay", "order-1"))
    small = page.js("""[...document.querySelectorAll('button, #nav a, select, input')]
        .filter(e => e.checkVisibility({visibilityProperty: true}))
        .map(e => [e.cloneNode().outerHTML, e.getBoundingClientRect()])
        .filter(([, r]) => r.height < 32 || r.width < 32)
        .map(([name, r]) => [name, r.width, r.height])""")
    assert small == []
    page.close()


# What moves for longer than one sees, of whatever element.
MOVING = """(() => {
    const long = (times) => times.split(',').some(
        (t) => parseFloat(t) * (t.trim().endsWith('ms') ? 1 : 1000) > 20);
    const moves = (style) => long(style.transitionDuration)
        || (style.animationName !== 'none' && long(style.animationDuration));
    const parts = [null, '::before', '::after'];
    return [...document.querySelectorAll('*')]
        .filter((e) => parts.some((part) => moves(getComputedStyle(e, part))))
        .map((e) => e.cloneNode().outerHTML);
})()"""


def test_who_wants_no_motion_gets_none(browser, full):
    page = browser.open(route(full, "now"), motion="reduce")
    page.wait_shown("[data-testid=tile-keys]")
    for parts in (("now",), ("doubts",)):
        page.call("goto", url=route(full, *parts))
        page.wait_shown(VIEWS[parts])
        assert page.js(MOVING) == []
    page.close()


def test_light_and_dark_differ(browser, full):
    page = browser.open(route(full, "now"))
    page.wait_shown("[data-testid=tile-keys]")
    light = page.js("getComputedStyle(document.body).backgroundColor")
    page.call("scheme", scheme="dark")
    assert page.js("getComputedStyle(document.body).backgroundColor") != light
    page.close()
