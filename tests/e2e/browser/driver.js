// SPDX-License-Identifier: Apache-2.0
// Drives one headless Chromium for tests/e2e/browsing.py: a line of JSON in is a call, a line out
// is its answer, {"id", "value"} or {"id", "error"}. It ends, with the browser, with its input.
//
// What a page does and a person would not see is remembered for the tests: requests, answers,
// console messages, script errors, violations of the content security policy, dialogs, and prompts
// for a password that the browser itself would show. It decides nothing about them.
'use strict';

const fs = require('fs');
const readline = require('readline');
const puppeteer = require('puppeteer-core');

const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const POLL_MS = 15;
const START_MS = 120000; // of a browser or of a page, on a machine that has other work

let browser = null;
const pages = new Map(); // name: {page, seen}

// Names other than the server's address resolve to nothing: what a page would fetch from elsewhere
// fails here too, and not only where there is no network.
async function launch({ path, offline = true }) {
    const args = ['--no-first-run', '--disable-extensions', '--force-color-profile=srgb',
        '--font-render-hinting=none', '--disable-dev-shm-usage'];
    if (process.getuid() === 0)
        args.push('--no-sandbox'); // Chromium refuses a sandbox to root
    if (offline)
        args.push('--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1');
    browser = await puppeteer.launch({
        executablePath: path, headless: true, pipe: true, timeout: START_MS, args,
    });
    return browser.version();
}

function listen(page, seen) {
    page.on('request', (r) => seen.requests.push({
        url: r.url(), method: r.method(), type: r.resourceType(), headers: r.headers(),
        body: r.postData() || null,
    }));
    page.on('response', (r) => seen.responses.push({
        url: r.url(), method: r.request().method(), status: r.status(), headers: r.headers(),
    }));
    page.on('console', (m) => seen.console.push({ type: m.type(), text: m.text() }));
    page.on('pageerror', (e) => seen.errors.push(String((e && e.stack) || e)));
    page.on('error', (e) => seen.errors.push(`the page crashed: ${e}`));
    page.on('dialog', (d) => {
        seen.dialogs.push({ type: d.type(), text: d.message() });
        d.dismiss().catch(() => {});
    });
}

// Asks the network layer to tell of every answer that would make the browser ask for a password.
async function watchPrompts(page, seen) {
    const cdp = await page.createCDPSession();
    cdp.on('Fetch.requestPaused', (e) =>
        cdp.send('Fetch.continueRequest', { requestId: e.requestId }).catch(() => {}));
    cdp.on('Fetch.authRequired', (e) => {
        seen.prompts.push(e.request.url);
        cdp.send('Fetch.continueWithAuth', {
            requestId: e.requestId, authChallengeResponse: { response: 'CancelAuth' },
        }).catch(() => {});
    });
    await cdp.send('Fetch.enable', { handleAuthRequests: true, patterns: [{ urlPattern: '*' }] });
}

async function open({ name, url, width = 1280, height = 900, scheme = 'light', scale = 1,
    touch = false, motion = 'no-preference', prompts = false, script = '' }) {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    const seen = { requests: [], responses: [], console: [], errors: [], dialogs: [], prompts: [] };
    listen(page, seen);
    await page.setViewport({
        width, height, deviceScaleFactor: scale, hasTouch: touch, isMobile: touch,
    });
    await page.emulateMediaFeatures([
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: motion },
    ]);
    await page.evaluateOnNewDocument(`window.__violations = [];
        document.addEventListener('securitypolicyviolation', (e) => window.__violations.push(
            e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile + ':' + e.lineNumber));`);
    if (script)
        await page.evaluateOnNewDocument(script);
    if (prompts)
        await watchPrompts(page, seen);
    page.setDefaultNavigationTimeout(START_MS);
    pages.set(name, { page, seen, context });
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    return null;
}

// An expression or a function's body, run past the content security policy: by the debugger, as a
// person in the developer tools would, so that the tests need no hole in it.
function evaluate(page, expression) {
    return page.evaluate(expression);
}

async function wait(page, expression, ms) {
    const end = Date.now() + ms;
    let last = '';
    for (;;) {
        try {
            const value = await evaluate(page, expression);
            if (value)
                return value;
            last = JSON.stringify(value);
        } catch (error) {
            last = String(error); // the page is just being loaded
        }
        if (Date.now() > end)
            throw new Error(`not within ${ms} ms: ${expression} (${last})`);
        await new Promise((go) => setTimeout(go, POLL_MS));
    }
}

// In a world of its own beside the page's scripts: the page's policy for scripts does not hold
// there, and nothing of axe-core is seen by the page.
async function axe(page, rules) {
    const cdp = await page.createCDPSession();
    try {
        const { executionContextId: contextId } = await cdp.send('Page.createIsolatedWorld',
            { frameId: page.mainFrame()._id, worldName: 'axe' });
        const run = async (expression) => {
            const { result, exceptionDetails } = await cdp.send('Runtime.evaluate',
                { contextId, expression, awaitPromise: true, returnByValue: true });
            if (exceptionDetails)
                throw new Error(`axe-core: ${JSON.stringify(exceptionDetails).slice(0, 2000)}`);
            return result.value;
        };
        if (await run('typeof axe === "undefined"')) // the world lives as long as the document
            await run(`${AXE}; null`);
        const options = { resultTypes: ['violations'] };
        if (rules)
            options.runOnly = { type: 'rule', values: rules };
        const found = await run(`axe.run(document, ${JSON.stringify(options)})
            .then((r) => ({ violations: r.violations, passes: r.passes.length }))`);
        if (found.passes === 0)
            throw new Error('axe-core looked at nothing');
        return found.violations.map((v) => ({
            id: v.id, impact: v.impact, help: v.help,
            nodes: v.nodes.slice(0, 5).map((n) => `${n.target.join(' ')}: ${n.failureSummary}`),
        }));
    } finally {
        await cdp.detach();
    }
}

const calls = {
    launch: (_, call) => launch(call),
    open: (_, call) => open(call),
    close: async ({ context }, { name }) => {
        pages.delete(name);
        await context.close();
        return null;
    },
    goto: ({ page }, { url }) => page.goto(url, { waitUntil: 'domcontentloaded' }).then(() => null),
    evaluate: ({ page }, { expression }) => evaluate(page, expression),
    wait: ({ page }, { expression, ms }) => wait(page, expression, ms),
    click: ({ page }, { selector }) => page.click(selector).then(() => null),
    type: ({ page }, { selector, text }) => page.type(selector, text).then(() => null),
    focus: ({ page }, { selector }) => page.focus(selector).then(() => null),
    press: ({ page }, { key, held = [] }) => (async () => {
        for (const k of held)
            await page.keyboard.down(k);
        await page.keyboard.press(key);
        for (const k of held)
            await page.keyboard.up(k);
        return null;
    })(),
    keys: ({ page }, { text }) => page.keyboard.type(text).then(() => null),
    viewport: ({ page }, { width, height, scale = 1 }) =>
        page.setViewport({ width, height, deviceScaleFactor: scale }).then(() => null),
    scheme: ({ page }, { scheme, motion = 'no-preference' }) => page.emulateMediaFeatures([
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: motion },
    ]).then(() => null),
    front: ({ page }) => page.bringToFront().then(() => null),
    seen: async ({ page, seen }) => (
        { ...seen, violations: await evaluate(page, 'window.__violations') }),
    frames: ({ page }) => page.frames().map((frame) => frame.url()),
    axe: ({ page }, { rules = null }) => axe(page, rules),
    screenshot: ({ page }, { path, full = false }) =>
        page.screenshot({ path, fullPage: full, optimizeForSpeed: false }).then(() => null),
};

async function answer(line) {
    const call = JSON.parse(line);
    try {
        const open = pages.get(call.name) || {};
        const value = await calls[call.call](open, call);
        return { id: call.id, value: value === undefined ? null : value };
    } catch (error) {
        return { id: call.id, error: String((error && error.message) || error) };
    }
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin }))
        process.stdout.write(`${JSON.stringify(await answer(line))}\n`);
    if (browser)
        await browser.close();
}

main().catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
});
