// SPDX-License-Identifier: Apache-2.0
//
// The page around the views: who is signed in, which view the address names, and the numbers that
// are asked for once a second.
//
// A view is {title, kind, element, shown(), tick(sample), resolved(operation), refused(),
// leave()}; all but title and element may be missing. Views ask for what they show; the numbers
// they are given.

import * as api from './api.js';
import { h, refreshTimes, said } from './dom.js';
import { Samples } from './samples.js';
import { signInView } from './signin.js';
import { clock, count, visible, zone } from './text.js';
import { doubtsView } from './view_doubts.js';
import { keyView, searchView } from './view_key.js';
import { namespacesView } from './view_namespaces.js';
import { nowView } from './view_now.js';
import { objectsView, objectView } from './view_objects.js';
import { operationsView } from './view_operations.js';

const POLL_MS = 1000;
const POLL_TIMEOUT_MS = 5000;

/** name: [view, parts that it needs, the link of the navigation that it belongs to] */
const VIEWS = {
  now: [nowView, 0, 'now'],
  doubts: [doubtsView, 0, 'doubts'],
  operations: [operationsView, 0, 'operations'],
  search: [searchView, 0, null],
  key: [keyView, 2, 'operations'],
  namespaces: [namespacesView, 0, 'namespaces'],
  objects: [objectsView, 0, 'objects'],
  object: [objectView, 1, 'objects'],
};

const byId = (id) => document.getElementById(id);

const page = {
  me: null,        // who the server says we are; null: not known yet
  view: null,
  timer: null,
  polling: false,
  lostAt: null,    // since when there is no answer
  loadedVersion: null,
  away: 0,         // the server's clock less ours
};

const samples = new Samples();

const context = {
  samples,
  get me() { return page.me; },
  codes: new Map(), // namespace → "http" or "any"
  /** As the server finds a policy: "pay~acme" is a scope of pay, "pay@ann" holds the keys of ann. */
  codesOf(ns) {
    const names = [ns, ns.replace(/(?<=.)~.*/s, ''), ns.replace(/@[^@]*$/, ''), '*'];
    return this.codes.get(names.find((name) => this.codes.has(name)));
  },
  now: () => Date.now() + page.away,
  go(hash, instead = false) {
    if (instead) {
      history.replaceState(null, '', hash);
      show();
    } else if (location.hash === hash) {
      show();
    } else {
      location.hash = hash;
    }
  },
  announce(text) {
    // The same text twice in a row would not be read out again.
    const box = byId('announce');
    box.textContent = box.textContent === text ? `${text}\u00a0` : text;
  },
  resolved(operation, done) {
    page.view?.resolved?.(operation, done);
    poll();
  },
  refused() { page.view?.refused?.(); },
};

// ---- Which view ----------------------------------------------------------------------------------

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** "#/key/pay/a%2Fb?x=1" → {name, parts, query} */
function routeOf(hash) {
  const [place, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [name, ...parts] = place.split('/').map(decoded).filter((part) => part !== '');
  const known = Object.hasOwn(VIEWS, name ?? '') && parts.length >= VIEWS[name][1];
  return { name: known ? name : 'now', parts, query: new URLSearchParams(query) };
}

function place(view, name) {
  page.view?.leave?.();
  page.view = view;
  byId('view').replaceChildren(view.element);
  byId('view').dataset.view = name;
  byId('kind').textContent = view.kind ?? '';
  byId('title').replaceChildren(said(view.title));
  document.title = `${visible(view.title)} · Once`;
  for (const link of document.querySelectorAll('#nav a')) {
    if (link.dataset.route === VIEWS[name]?.[2]) {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // the row is wider than a phone
    } else link.removeAttribute('aria-current');
  }
  view.shown?.();
}

function show() {
  if (!page.me) return;
  const route = routeOf(location.hash);
  place(VIEWS[route.name][0](route, context), route.name);
}

/** After a link was followed a screen reader goes on at the heading of what is new. */
function follow() {
  if (location.hash === '#main') return; // the skip link
  byId('resolve-dialog').close();
  show();
  byId('title').focus({ preventScroll: true });
  scrollTo(0, 0);
}

// ---- Who -----------------------------------------------------------------------------------------

function tellWho() {
  const { me } = page;
  byId('who').replaceChildren(...(me?.user ? [said(me.user), ' ', h('span', { class: 'muted' }, me.role)] : []));
  byId('signout').hidden = !(me?.users && api.signedIn());
  byId('nav').hidden = !me;
  byId('search-form').hidden = !me;
}

function askWho() {
  page.me = null;
  samples.clear();
  clearTimeout(page.timer);
  tellWho();
  contact('signedout', 'Not signed in');
  byId('resolve-dialog').close();
  place({ title: 'Sign in', element: signInView(known), shown: () => byId('signin-user').focus() }, 'signin');
}

function known(me) {
  page.me = me;
  tellWho();
  contact('waiting', 'Connecting');
  show();
  readCodes();
  poll();
}

async function readCodes() {
  try {
    const { namespaces } = await api.get('v1/namespaces');
    context.codes = new Map(namespaces.map((policy) => [policy.namespace, policy.codes]));
  } catch {
    // Only a suggestion hangs on it.
  }
}

/** The server is asked until it says who we are: it may be starting. */
async function meet() {
  try {
    known(await api.get('v1/me', {}, { timeoutMs: POLL_TIMEOUT_MS }));
  } catch (error) {
    if (error.status === 401) return; // askWho was called
    lost(error);
    page.timer = setTimeout(meet, POLL_MS);
  }
}

// ---- The numbers ---------------------------------------------------------------------------------

function contact(state, text) {
  const box = byId('contact');
  box.dataset.state = state;
  // A live region: only a change is worth a word.
  if (byId('contact-text').textContent !== text) byId('contact-text').textContent = text;
}

function lost(error) {
  const at = Date.now();
  page.lostAt ??= at;
  samples.gap(at);
  if (error.status === 429) contact('waiting', 'Too many calls: slower now');
  else if (error.status === 503) contact('waiting', error.problem.title ?? 'Not ready');
  else if (error.status === 403) contact('lost', 'Numbers are not for you');
  else contact('lost', `Lost contact since ${clock(page.lostAt)}`);
}

function tellStats(stats) {
  const doubts = byId('nav-doubts-count');
  doubts.hidden = !(stats.doubts > 0);
  doubts.textContent = `${count(stats.doubts)}${stats.doubts_more ? '+' : ''}`;
  byId('foot-server').textContent = `Once ${stats.version ?? ''} · times are local, UTC${zone()}`;
  page.loadedVersion ??= stats.version;
  if (stats.version !== page.loadedVersion && byId('notice').hidden) {
    byId('notice').replaceChildren('The server is of another version now. ',
      h('button', { type: 'button', class: 'quiet', onclick: () => location.reload() }, 'Reload the page'));
    byId('notice').hidden = false;
  }
}

async function poll() {
  let wait = POLL_MS;
  clearTimeout(page.timer);
  if (!page.me || document.hidden || page.polling) return;
  page.polling = true;
  const began = Date.now();
  const { me } = page;
  try {
    const stats = await api.get('v1/stats', {}, { timeoutMs: POLL_TIMEOUT_MS });
    const at = Date.now();
    if (page.me !== me) throw new Error('these were the numbers of someone who has signed out');
    page.away = stats.now_ms - (began + at) / 2;
    page.lostAt = null;
    const sample = samples.add(stats, at);
    if (stats.stopped) contact('lost', 'The store has stopped');
    else if (stats.unreachable) contact('waiting', 'The database does not answer');
    else if (stats.ready === false) contact('waiting', 'The store is being opened');
    else contact('live', 'Live');
    tellStats(stats);
    page.view?.tick?.(sample);
  } catch (error) {
    if (page.me === me) {
      lost(error);
      page.view?.tick?.(null);
      wait = Math.max(POLL_MS, error.retryMs ?? 0);
    } else wait = 0;
  } finally {
    page.polling = false;
    if (page.me && !document.hidden) page.timer = setTimeout(poll, Math.max(200, wait - (Date.now() - began)));
  }
  refreshTimes(byId('main'), context.now());
}

/** Nobody looks: nothing is asked for. */
function pause() {
  if (!page.me) return;
  if (document.hidden) {
    clearTimeout(page.timer);
    contact('paused', 'Paused');
  } else {
    contact('waiting', 'Connecting');
    poll();
  }
}

// ---- The page ------------------------------------------------------------------------------------

function start() {
  api.onUnknown(() => { if (byId('view').dataset.view !== 'signin') askWho(); });
  addEventListener('hashchange', follow);
  document.addEventListener('visibilitychange', pause);
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the address names the view
    byId('main').focus();
  });
  byId('signout').addEventListener('click', () => {
    api.signOut();
    askWho();
    context.announce('Signed out.');
  });
  byId('search-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const key = byId('search-key').value;
    if (key) context.go(`#/search?${new URLSearchParams({ key })}`);
  });
  tellWho();
  meet();
}

start();
