// SPDX-License-Identifier: Apache-2.0
//
// The doubts: operations that someone began and nobody knows the end of, each with what is needed
// to find out and to decide.
//
// The list is read again every few seconds. A card that is there stays there, with its focus and
// what is open in it; only what changed is made anew.

import * as api from './api.js';
import { empty, facts, h, keyRoute, mono, monoOf, state, time, trouble } from './dom.js';
import { operationsPage } from './listing.js';
import { field, readable } from './readable.js';
import { resolveButtons } from './resolve.js';
import { count } from './text.js';

const PAGE = 50;
const AGAIN_MS = 3000;
const ASKS = 4; // details that are asked for at the same time

const idOf = (operation) => JSON.stringify([operation.namespace, operation.key, operation.fence]);

/** A lease that ran out was over at its end. One that was given up before was not: the timeline
 * knows, whatever the clock of this browser says. */
const ranOut = (operation, now) => operation.lease_end_ms <= now;

function card(operation, context) {
  const now = context.now();
  const data = h('div', { class: 'doubt-data' });
  const since = h('span', {}, ranOut(operation, now) ? time(operation.lease_end_ms, now) : 'given up by its owner');
  const element = h('article', { class: 'card doubt', 'data-testid': 'doubt', 'data-ns': operation.namespace,
    'data-key': operation.key, 'data-fence': operation.fence },
    h('header', { class: 'card-head' },
      h('h2', {}, h('a', { href: keyRoute(operation.namespace, operation.key) }, mono(operation.key))),
      state('doubt')),
    h('div', { class: 'doubt-body' }, facts([
      ['Namespace', mono(operation.namespace)],
      ['In doubt since', since],
      ['Begun', time(operation.created_ms, now)],
      ['Attempts', count(operation.attempt)],
      ['Fence', String(operation.fence)],
      ['Owner', monoOf(operation, 'owner', 'not named')],
      ['Last point', monoOf(operation, 'point', 'none was reached')],
    ]), data), resolveButtons(operation, context));
  return { element, data, since, operation };
}

async function fillSince({ operation, since }, context) {
  const url = `${api.path('v1/ops', operation.namespace, operation.key)}/history`;
  const [last] = (await api.get(url, { count: 1 })).events;
  if (last?.event === 'DOUBT') since.replaceChildren(time(last.at_ms, context.now()));
  else if (last && last.state !== 'doubt') since.replaceChildren(time(operation.lease_end_ms, context.now()));
}

async function fillData({ operation, data }, context) {
  if (!operation.point && !operation.point_base64) return;
  const whole = await api.get(api.path('v1/ops', operation.namespace, operation.key));
  const bytes = field(whole, 'data');
  if (whole.fence !== operation.fence || !bytes || bytes.bytes.length === 0) return;
  data.replaceChildren(h('h3', {}, 'What it left behind at this point'),
    readable(bytes, 'Data of the point', context.now()));
}

/** Runs the jobs, some at a time; one that fails leaves its card as it is. */
async function some(jobs) {
  const waiting = [...jobs];
  const worker = async () => {
    while (waiting.length > 0) await waiting.shift()().catch(() => {});
  };
  await Promise.all(Array.from({ length: ASKS }, worker));
}

const nothing = () => empty('No doubts',
  'Every operation that was begun has ended, or its owner still works on it.');

export function doubtsView(route, context) {
  const cards = new Map();
  const list = h('div', { id: 'doubts-list', class: 'cards' });
  const head = h('p', { class: 'lead' }, 'Looking…');
  const more = h('button', { type: 'button', id: 'doubts-more', class: 'quiet', hidden: true,
    onclick: () => { pages += 1; refresh(); } }, 'Show more');
  const problem = h('div');
  let pages = 1;
  let timer = null;
  let gone = false;
  let running = false;

  async function read() {
    const found = [];
    let cursor = null;
    for (let page = 0; page < pages && (page === 0 || cursor); page += 1) {
      const one = await operationsPage({ ns: '', state: 'doubt', count: PAGE }, cursor);
      found.push(...one.operations);
      cursor = one.cursor;
    }
    return { found, more: cursor !== null };
  }

  function show({ found, more: further }) {
    const fresh = new Map(found.sort((a, b) => a.fence - b.fence).map((each) => [idOf(each), each]));
    const added = [];
    for (const [id, one] of cards) {
      if (fresh.has(id)) continue;
      one.element.remove();
      cards.delete(id);
    }
    for (const [id, operation] of fresh) {
      if (cards.has(id)) continue;
      const one = card(operation, context);
      cards.set(id, one);
      added.push(one);
      list.append(one.element);
    }
    more.hidden = !further;
    const many = `${count(cards.size)}${further ? '+' : ''} ${cards.size === 1 ? 'operation was' : 'operations were'}`;
    head.textContent = cards.size === 0 ? '' : `${many} begun, and nobody said how they ended. `
      + 'Find out what happened, then say it; until then retries are told DOUBT.';
    if (cards.size > 0) list.querySelector('.empty')?.remove();
    else list.replaceChildren(nothing());
    return added;
  }

  async function refresh() {
    clearTimeout(timer);
    if (running || gone) return;
    running = true;
    try {
      const added = show(await read());
      problem.replaceChildren();
      await some(added.flatMap((one) => [() => fillSince(one, context), () => fillData(one, context)]));
    } catch (error) {
      if (!gone) {
        problem.replaceChildren(trouble(error, refresh));
        if (cards.size === 0) head.textContent = '';
      }
    }
    running = false;
    if (!gone) timer = setTimeout(() => (document.hidden ? refreshLater() : refresh()), AGAIN_MS);
  }

  function refreshLater() {
    document.addEventListener('visibilitychange', refresh, { once: true });
  }

  return {
    title: 'Doubts',
    element: h('div', {}, head, problem, list, more),
    shown: refresh,
    refused: refresh,
    resolved(operation) {
      const id = idOf(operation);
      cards.get(id)?.element.remove();
      cards.delete(id);
      document.getElementById('title').focus();
      refresh();
    },
    leave() {
      gone = true;
      clearTimeout(timer);
    },
  };
}
