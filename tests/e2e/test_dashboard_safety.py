# SPDX-License-Identifier: Apache-2.0
"""What the dashboard must never do, in a real Chromium: take data for markup, ask anyone outside,
let someone without the right decide, lose contact in silence, make the browser ask for a password.
"""
import hashlib
import json
import secrets
import signal

import pytest
import requests

from browsing import (admin, begin, browser, card, done, doubt, key, route,  # noqa: F401 (fixtures)
                      secured, server, sign_in)
from serving import USERS, wait_for

# Each sets window.__ran when it is taken for markup or script anywhere.
HOSTILE = [
    '<img src=x onerror="window.__ran=1">',
    '</script><script>window.__ran=2</script>',
    '"\'><svg onload=window.__ran=3>',
    "javascript:window.__ran=4",
    "${window.__ran=5}{{window.__ran=6}}",
    "</textarea></title></style><iframe srcdoc='<script>parent.__ran=7</script>'>",
    "../../v1/me?x=1#/now&amp;%3Cb%3E%00",
]
LONG = "a" * 255
BIDI = "safe\u202egnp.exe\u2066\u200f"


def nothing_ran(page, origin=None, expected=()):
    assert page.js("window.__ran") is None, "data was run"
    strange = page.js("document.querySelectorAll('#main img, #main iframe, #main script, "
                      "#main object, #main embed, #main [onload], #main [onerror]').length")
    assert strange == 0, "data became elements"
    assert page.js("[...document.querySelectorAll('a[href]')].every(a => "
                   "['http:', 'https:'].includes(a.protocol))"), "a link leads to script"
    page.check_quiet(origin, expected)


def texts(page, selector):
    found = f"document.querySelectorAll({json.dumps(selector)})"
    return page.js(f"[...{found}].map(e => e.textContent)")


# ---- Data is data -------------------------------------------------------------------------------

def test_hostile_keys_and_results_are_shown_as_text(browser, server):
    with admin(server) as call:
        for text in HOSTILE:
            doubt(call, "pay", text, text[:64], text[:64], text)
            done(call, "mail", text, result=text * 20, owner=text[:64])
        doubt(call, "pay", LONG)
        done(call, "mail", LONG, result="x" * 200_000)
        done(call, "mail", "bidi", result=BIDI, owner=BIDI)
        done(call, "mail", "bytes", result=b"\x00\xff\xfe<b>bold</b>\x1b[31m")
        fence = begin(call, "mail", "refused")
        call("ONCE.FAIL", "mail", "refused", fence, HOSTILE[0])
    page = browser.open(route(server, "doubts"))
    for text in [*HOSTILE, LONG]:
        page.wait("[...document.querySelectorAll('article[data-testid=doubt]')]"
                  f".some(e => e.dataset.key === {json.dumps(text)})")
        assert any(text in t for t in texts(page, "article[data-testid=doubt]")), text
    page.check_width("doubts with long keys")
    nothing_ran(page)

    page.call("goto", url=route(server, "operations", "mail"))
    page.wait("document.querySelectorAll('#ops-table tr[data-testid=op]').length"
              f" >= {len(HOSTILE) + 3}")
    rows = texts(page, "#ops-table tr[data-testid=op]")
    for text in [*HOSTILE, LONG[:75]]:  # a long one is cut
        assert any(text in row for row in rows), text
    page.check_width("operations with long keys")
    nothing_ran(page)

    for text in HOSTILE:
        page.call("goto", url=route(server, "key", "mail", text))
        page.wait("(document.querySelector('#op-result')?.textContent ?? '')"
                  f".includes({json.dumps(text)})")
        assert text in page.js("document.querySelector('#view').textContent")
        nothing_ran(page)
        page.call("goto", url=route(server, "search", key=text))
        page.wait(f"document.querySelector('#view').textContent.includes({json.dumps(text)})")
        nothing_ran(page)
    page.call("goto", url=route(server, "key", "mail", "refused"))
    page.wait(f"document.querySelector('#view').textContent.includes({json.dumps(HOSTILE[0])})")
    nothing_ran(page)
    for name in (LONG, "bidi", "bytes"):
        page.call("goto", url=route(server, "key", "mail", name))
        page.wait("document.querySelector('#op-result')?.textContent.length > 3")
        page.check_width(f"the result of {name[:10]}")
        nothing_ran(page)
    page.close()


def test_a_hostile_key_can_be_decided(browser, server):
    """The buttons work on exactly that key, whatever is in it."""
    text = HOSTILE[0] + "/?#%2F&"
    with admin(server) as call:
        fence = doubt(call, "pay", text)
        page = browser.open(route(server, "doubts"))
        page.click(card("pay", text) + " [data-testid=happened]")
        page.wait_shown("#resolve-dialog")
        assert text in page.js("document.querySelector('#resolve-dialog').textContent")
        page.fill("#resolve-result", HOSTILE[1])
        page.click("#resolve-confirm")
        page.wait_gone(card("pay", text))
        assert call("ONCE.BEGIN", "pay", text, "FP", "100 EUR")[2] == HOSTILE[1].encode()
    assert [json.loads(r["body"])["fence"] for r in page.requests("/resolve")
            if r["method"] == "POST"] == [fence]
    nothing_ran(page)
    page.close()


def test_what_is_nested_or_long_beyond_reason_does_not_hide_the_operation(browser, server):
    """Laying it out would fill the stack of the script, or its memory: then nobody could decide."""
    deep = "[" * 20_000 + "]" * 20_000
    head = json.dumps({"once": "run", "version": 1, "status": 0, "frames": [[1, 400_000]]})
    many = json.dumps({"once": "run", "version": 1, "frames": [[1, 0], [1, -1]] * 50_000})
    with admin(server) as call:
        done(call, "mail", "deep", result=deep)
        done(call, "mail", "long", result=head + "\n" + "\0" * 400_000)
        done(call, "mail", "many", result=many + "\n" + "x")
        doubt(call, "pay", "deep", "worker", "halfway", deep)
    page = browser.open(route(server, "key", "mail", "deep"))
    page.wait("(document.querySelector('#op-result')?.textContent ?? '').includes('[[[[')")
    page.call("goto", url=route(server, "key", "pay", "deep"))
    page.wait_shown("#view [data-testid=happened]")
    page.call("goto", url=route(server, "key", "mail", "long"))
    page.wait_text("#op-result", "the first 16 KiB of")
    assert page.js("document.querySelectorAll('#op-result *').length") < 40_000
    page.call("goto", url=route(server, "key", "mail", "many"))
    page.wait_text("#op-result", "no output")
    nothing_ran(page)
    page.close()


def test_what_cannot_be_seen_is_shown(browser, server):
    """A filler, a tag, a space that is none: what holds them must not look like what does not."""
    with admin(server) as call:
        done(call, "mail", "unseen", result="a\u3164b\U000e0041c\u00a0d e", owner="x\u115f")
    page = browser.open(route(server, "key", "mail", "unseen"))
    page.wait_text("#op-result", r"a\u{3164}b\u{E0041}c\u{00A0}d e")
    page.wait_text("#op-facts", r"x\u{115F}")
    nothing_ran(page)
    page.close()


def test_direction_marks_cannot_turn_what_is_read(browser, server):
    """What stands behind U+202E would be read backwards: it is shown as a code, or shut in."""
    with admin(server) as call:
        done(call, "mail", "turned", result=BIDI, owner=BIDI)
    page = browser.open(route(server, "key", "mail", "turned"))
    page.wait("document.querySelector('#op-result')?.textContent.length > 3")
    loose = page.js(r"""(() => {
        const view = document.querySelector('#view');
        const walk = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
        const bad = [];
        for (let n; (n = walk.nextNode());) {
            if (!/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/.test(n.data)) continue;
            let shut = false;
            for (let e = n.parentElement; e && e.id !== 'view'; e = e.parentElement)
                shut ||= /isolate|plaintext/.test(getComputedStyle(e).unicodeBidi);
            if (!shut) bad.push(n.data);
        }
        return bad;
    })()""")
    assert loose == []
    nothing_ran(page)
    page.close()


def test_names_that_javascript_knows_are_names_too(browser, server):
    data = {"constructor": "built", "__proto__": "hidden", "toString": "told",
            "command": ["a", "b c"]}
    with admin(server) as call:
        doubt(call, "pay", "constructor", "__proto__", "toString", json.dumps(data))
        done(call, "mail", "__proto__", result=json.dumps(data))
    page = browser.open(route(server, "doubts"))
    page.wait_text(card("pay", "constructor"), "what it left behind")
    said = page.text(card("pay", "constructor"))
    for part in ("built", "hidden", "told", "constructor", "toString", "__proto__"):
        assert part in said, f"{part!r} is not shown:\n{said}"
    page.call("goto", url=route(server, "key", "mail", "__proto__"))
    page.wait_text("#op-result", "built")
    assert "hidden" in page.text("#op-result") and "function" not in page.text("#op-result")
    nothing_ran(page)
    page.close()


@pytest.mark.parametrize("hash", [
    "#/key/%3Cimg%20src=x%20onerror=window.__ran=1%3E/%3Cscript%3E", "#/%E0%A4%A", "#/key/pay/%ff",
    "#javascript:window.__ran=1", "#/object/__proto__", "#/operations/constructor?state=__proto__",
    "#/search?key=%22%3E%3Cimg%20src=x%20onerror=window.__ran=1%3E", "#/key", "#/nowhere",
    "#/operations/" + "a" * 3000])
def test_addresses_that_someone_sends_do_nothing(browser, server, hash):
    page = browser.open(f"{server.url}/{hash}")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.wait("document.querySelector('#view').innerText.length > 0")
    nothing_ran(page, expected=["Failed to load resource"])
    page.click("#nav [data-route=now]")  # and it is not stuck
    page.wait("document.querySelector('#view').dataset.view === 'now'")
    page.close()


# ---- Headers ------------------------------------------------------------------------------------

def policy(answer):
    return {part.split()[0]: part.split()[1:]
            for part in answer.headers["Content-Security-Policy"].split(";") if part.strip()}


TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def test_the_page_carries_its_policy(browser, server):
    files = {"/"}
    page = browser.open(route(server, "now"))
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    files |= {r["url"][len(server.url):].split("?")[0] for r in page.requests("/web/")}
    assert len(files) >= 3, files  # itself, a script, a style
    page.close()
    for path in files:
        answer = requests.get(server.url + path, timeout=30)
        assert answer.status_code == 200, path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert "Set-Cookie" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers
        wanted = TYPES.get(path.rpartition(".")[2], "text/html")
        assert answer.headers["Content-Type"].split(";")[0] == wanted, path
    front = requests.get(server.url + "/", timeout=30)
    rules = policy(front)
    assert rules["default-src"] == ["'none'"] and rules["script-src"] == ["'self'"]
    assert rules["style-src"] == ["'self'"] and rules["connect-src"] == ["'self'"]
    assert rules["frame-ancestors"] == ["'none'"] and rules["base-uri"] == ["'none'"]
    assert "unsafe" not in front.headers["Content-Security-Policy"]
    assert front.headers["Referrer-Policy"] == "no-referrer"


def test_the_page_works_from_itself_alone(browser, server):
    """No request leaves, and nothing is kept in the browser."""
    page = browser.open(route(server, "now"))
    for view in ("doubts", "operations", "namespaces", "objects", "now"):
        page.click(f"#nav [data-route={view}]")
        page.wait(f"document.querySelector('#view').dataset.view === '{view}'")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    assert page.js("localStorage.length + sessionStorage.length + document.cookie.length") == 0
    nothing_ran(page)
    page.close()


def test_nobody_may_frame_it(browser, server):
    """A page around it could have a person click on what is not seen."""
    other = browser.open("data:text/html,<title>t</title>"
                         f"<iframe src='{server.url}/' width=600 height=400></iframe>")
    wait_for("the refusal to be framed", lambda: other.call("frames")[1:] == [
        "chrome-error://chromewebdata/"])
    other.close()


# ---- Who may ------------------------------------------------------------------------------------

def test_signing_in_and_out(browser, secured):
    page = browser.open(route(secured, "now"), prompts=True)
    page.wait_shown("#signin-form")
    assert page.js("document.querySelector('#signin-password').type") == "password"
    sign_in(page, "root", "wrong")
    page.wait("document.querySelector('#signin-error').innerText.length > 5")
    assert page.shown("#signin-form")
    sign_in(page, "root")
    page.wait_gone("#signin-form")
    page.wait_text("#who", "root")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    stored = page.js("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, "
                     "location.href, history.state])")
    assert USERS["root"] not in stored
    assert USERS["root"] not in page.js("document.documentElement.outerHTML")
    page.click("#signout")
    page.wait_shown("#signin-form")
    assert page.js("document.querySelector('#signin-password').value") == ""
    assert not page.shown("[data-testid=tile-keys]"), "what was shown is gone too"
    assert page.js("import('/web/api.js').then(m => m.signedIn())") is False, "not forgotten"
    page.js("location.reload()")
    page.wait_shown("#signin-form")
    seen = page.seen()
    assert seen["prompts"] == [], "the browser itself asked for a password"
    refused = [r for r in seen["responses"] if r["status"] == 401]
    assert refused and all("basic" not in r["headers"].get("www-authenticate", "").lower()
                           for r in refused)
    page.check_quiet(expected=["401"])
    page.close()
    # Others than the page are told how to say who they are.
    plain = requests.get(secured.url + "/v1/me", timeout=30)
    assert plain.status_code == 401 and "Basic" in plain.headers["WWW-Authenticate"]


def test_numbers_that_come_after_signing_out_are_not_shown(browser, secured):
    """They were asked for by someone who is not there any more."""
    page = browser.open(route(secured, "now"), script="""
        const ask = fetch;
        window.fetch = async (url, options) => {
            const answer = await ask(url, options), told = document.documentElement.dataset;
            if (String(url).includes('v1/stats') && told.hold) told.held = 'yes';
            while (String(url).includes('v1/stats') && told.hold)
                await new Promise((go) => setTimeout(go, 10));
            return answer;
        };""")
    sign_in(page, "root")
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.js("document.documentElement.dataset.hold = 'yes'")
    page.wait("document.documentElement.dataset.held === 'yes'")
    page.click("#signout")
    page.wait_shown("#signin-form")
    page.js("new Promise((go) => { delete document.documentElement.dataset.hold;"
            " setTimeout(go, 200); })")
    assert page.js("document.querySelector('#contact').dataset.state") == "signedout"
    page.close()


@pytest.mark.parametrize("name", ["bob", "alice"])
def test_who_is_no_administrator_cannot_decide(browser, secured, key, name):
    with admin(secured) as call:
        fence = doubt(call, "pay", key)
    page = browser.open(route(secured, "doubts"))
    sign_in(page, name)
    page.wait_shown(card("pay", key))
    for button in ("happened", "not-happened"):
        selector = f"{card('pay', key)} [data-testid={button}]"
        assert page.js(f"document.querySelector({json.dumps(selector)}).disabled")
        page.js(f"document.querySelector({json.dumps(selector)}).click()")
        assert not page.shown("#resolve-dialog")
    assert "admin" in page.text(f"{card('pay', key)} .why").lower()
    # The button is not what protects it: the server refuses the same call of the page's own script.
    token = page.requests("/v1/me")[-1]["headers"]["authorization"]
    call = {"method": "POST", "body": json.dumps({"done": False, "fence": fence}),
            "headers": {"Content-Type": "application/json", "Authorization": token,
                        "Once-Page": "1"}}
    status = page.js(f"fetch('/v1/ops/pay/{key}/resolve', {json.dumps(call)}).then(r => r.status)")
    assert status == 403
    with admin(secured) as call:
        assert call("ONCE.BEGIN", "pay", key, "FP", "100 EUR")[0] == "DOUBT"
    page.check_quiet(expected=["401", "403"])
    page.close()


def test_a_user_who_is_removed_is_out_at_once(browser, secured):
    """And a token is as good as a password."""
    token = secrets.token_urlsafe(32)
    settings = secured.config.read_text()
    line = "token = sha256$" + hashlib.sha256(token.encode()).hexdigest()
    secured.config.write_text(f"{settings}[user guest]\nrole = admin\n{line}\n")
    secured.process.send_signal(signal.SIGHUP)
    page = browser.open(route(secured, "namespaces"))
    wait_for("the new user", lambda: requests.get(
        secured.url + "/v1/me", headers={"Authorization": f"Bearer {token}"}, timeout=30).ok)
    page.fill("#signin-token", token)
    page.click("#signin-submit")
    page.wait_text("#who", "guest")
    page.wait_shown("#namespaces-table")
    secured.config.write_text(settings)
    secured.process.send_signal(signal.SIGHUP)
    page.wait_shown("#signin-form")
    assert not page.shown("#namespaces-table"), "what they saw is still there"
    assert token not in page.js("document.documentElement.outerHTML")
    page.check_quiet(expected=["401"])
    page.close()


def test_what_a_user_may_not_see_is_not_there(browser, secured):
    with admin(secured) as call:
        doubt(call, "secret", "hidden-doubt")
        done(call, "secret", "hidden-done")
        doubt(call, "pay", "open-doubt")
    page = browser.open(route(secured, "doubts"))
    sign_in(page, "alice")
    page.wait_shown(card("pay", "open-doubt"))
    for view in ("doubts", "operations", "namespaces", "objects", "now"):
        page.click(f"#nav [data-route={view}]")
        page.wait(f"document.querySelector('#view').dataset.view === '{view}'")
        page.wait("document.querySelector('#contact').dataset.state === 'live'")
        assert "hidden-" not in page.js("document.body.textContent"), view
        assert "secret" not in page.js("document.body.textContent"), view
    page.call("goto", url=route(secured, "key", "secret", "hidden-done"))
    page.wait("document.querySelector('#view').dataset.view === 'key'")
    page.wait_text("#main", "may not")
    page.close()


# ---- The server goes and comes ------------------------------------------------------------------

def test_a_server_that_is_gone_is_told_and_comes_back(browser, server, key):
    with admin(server) as call:
        doubt(call, "pay", key)
    page = browser.open(route(server, "doubts"))
    page.wait_shown(card("pay", key))
    page.click(card("pay", key) + " [data-testid=happened]")
    page.wait_shown("#resolve-dialog")
    server.kill()
    page.wait("document.querySelector('#contact').dataset.state === 'lost'")
    assert len(page.text("#contact")) > 3
    page.click("#resolve-confirm")  # nobody hears it
    page.wait("document.querySelector('#resolve-error')?.innerText.length > 5")
    server.start()
    page.wait("document.querySelector('#contact').dataset.state === 'live'")
    page.click("#resolve-confirm")  # the same again
    page.wait_gone("#resolve-dialog")
    page.wait_gone(card("pay", key))
    assert requests.get(f"{server.url}/v1/ops/pay/{key}", timeout=30).json()["state"] == "completed"
    page.check_quiet(expected=["Failed to load resource"])
    page.close()
