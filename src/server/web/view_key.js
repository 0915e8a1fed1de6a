// SPDX-License-Identifier: Apache-2.0
//
// One operation: what it is now, and its timeline, the newest step last. And the search for a key,
// which finds it in whatever namespace it is.

import * as api from './api.js';
import {
  empty, facts, h, keyLink, keyRoute, mono, monoOf, nameInput, namespaceRoute, said, state, STATES, table, time,
  trouble,
} from './dom.js';
import { namespaceNames } from './listing.js';
import { field, readable } from './readable.js';
import { resolveButtons } from './resolve.js';
import { bytes as sizeText, count, span, stamp, visible } from './text.js';

const AGAIN_MS = 2000;
const ENDED_AGAIN_MS = 10_000; // what has ended may still be forgotten
const STEPS = 1000;
const SEARCH_AGAIN_MS = 500;

// ---- The timeline --------------------------------------------------------------------------------

const EVENTS = {
  __proto__: null,
  BEGAN: (step) => `Attempt ${step.attempt} began`,
  TAKEN_OVER: (step) => `Attempt ${step.attempt} began, over the doubt of the one before`,
  RENEWED: (step) => (step.times > 1 ? `Lease renewed ${count(step.times)} times` : 'Lease renewed'),
  CHECKPOINT: () => 'Reached a point: ',
  DOUBT: () => 'In doubt: the lease was over, or its owner gave it up',
  COMPLETED: () => 'Completed',
  FAILED: () => 'Failed: it did not happen',
  RESOLVED_DONE: () => 'Resolved by a person: it happened',
  RESOLVED_NOT_DONE: () => 'Resolved by a person: it did not happen',
  FORGOTTEN: () => 'Forgotten',
  APPLIED: () => 'Applied: begun, done and completed in one',
  RETAINED: () => 'To be kept for another time',
  KEPT: () => 'Older steps are not in the log any more; from here on it was like this',
  LEASE_ENDED: () => 'The lease ended without a word: in doubt',
};
const ENDS = ['COMPLETED', 'RESOLVED_DONE', 'APPLIED'];

/** Renewals of one attempt in a row become one step that says how many there were. */
export function folded(steps) {
  const found = [];
  for (const step of steps) {
    const before = found.at(-1);
    if (step.event === 'RENEWED' && before?.event === 'RENEWED' && before.fence === step.fence) {
      found[found.length - 1] = { ...step, times: before.times + 1, first_ms: before.first_ms };
    } else {
      found.push({ ...step, times: 1, first_ms: step.at_ms });
    }
  }
  return found;
}

/** Bytes of a step, closed at first. Of many the timeline has the beginning; wholeSize is how many. */
function folding(title, bytes, wholeSize, now) {
  if (!bytes || bytes.bytes.length === 0) return null;
  return h('details', {}, h('summary', {}, title), readable(bytes, title, now),
    wholeSize && h('p', { class: 'muted' }, `The beginning of ${sizeText(wholeSize)}.`));
}

function stepDetails(step, now) {
  const kept = step.event === 'KEPT';
  const ended = ENDS.includes(step.event) || (kept && step.state === 'completed');
  const result = ended ? field(step, 'result') : null;
  const reason = step.event === 'FAILED' ? field(step, 'reason') ?? field(step, 'result') : null;
  const data = step.event === 'CHECKPOINT' || kept ? field(step, 'data') : null;
  const began = step.event === 'BEGAN' || step.event === 'TAKEN_OVER' || kept;
  const pairs = [
    kept && ['State', STATES[step.state] ?? step.state],
    began && ['Fence', String(step.fence)],
    began && (step.owner || step.owner_base64) && ['Owner', monoOf(step, 'owner')],
    (began || step.event === 'RENEWED') && step.lease_end_ms > 0 && ['Lease until', stamp(step.lease_end_ms)],
    ended && step.code !== undefined && ['Code', String(step.code)],
  ].filter(Boolean);
  return [
    pairs.length > 0 && facts(pairs, { class: 'facts inline' }),
    folding('Data', data, step.data_size, now),
    reason && reason.bytes.length > 0 && readable(reason, 'Reason', now),
    folding('Result', result, step.result_size, now),
  ];
}

function stepItem(step, now) {
  const point = step.event === 'CHECKPOINT' ? monoOf(step, 'point') : null;
  const what = EVENTS[step.event]?.(step) ?? said(step.event);
  const over = step.times > 1 ? `, over ${span(step.at_ms - step.first_ms)}` : '';
  return h('li', { class: 'step', 'data-testid': 'step', 'data-event': step.event },
    h('p', { class: 'step-head' }, h('span', { class: 'step-what' }, what, over, point), ' ',
      h('span', { class: 'step-when' }, time(step.at_ms, now))),
    stepDetails(step, now));
}

/** events: as the server gives them, the newest first. */
function timeline({ events, more }, operation, now) {
  const steps = folded([...events].reverse());
  const last = steps.at(-1);
  if (operation.state === 'doubt' && last && last.event !== 'DOUBT' && last.state !== 'doubt') {
    steps.push({ event: 'LEASE_ENDED', at_ms: operation.lease_end_ms, times: 1 });
  }
  return [
    more && h('p', { class: 'muted' }, `Only the last ${count(events.length)} steps are shown.`),
    h('ol', { id: 'timeline', class: 'timeline' }, steps.map((step) => stepItem(step, now))),
  ];
}

/** A store that servers share keeps what is, not what was. */
function noHistory(error) {
  return error.status === 501
    ? h('p', { class: 'muted' }, 'A shared store keeps no history of an operation.') : trouble(error);
}

// ---- The operation -------------------------------------------------------------------------------

/** Since when there is a doubt: its lease ran out, or was given up before, which is a step. */
function doubtSince(operation, history) {
  const last = history.events[0];
  return last?.event === 'DOUBT' ? last.at_ms : operation.lease_end_ms;
}

function nowFacts(operation, history, now) {
  const open = operation.state === 'started' || operation.state === 'doubt'; // never expires
  return facts([
    ['Namespace', h('a', { href: namespaceRoute(operation.namespace) }, mono(operation.namespace))],
    ['State', state(operation.state)],
    operation.code !== undefined && ['Code', String(operation.code)],
    ['Attempts', count(operation.attempt)],
    ['Fence', String(operation.fence)],
    operation.owner && ['Owner', mono(operation.owner)],
    operation.point && ['Last point', mono(operation.point)],
    ['Begun', time(operation.created_ms, now)],
    operation.state === 'started' && ['Lease until', time(operation.lease_end_ms, now)],
    operation.state === 'doubt' && ['In doubt since', time(doubtSince(operation, history), now)],
    !open && ['Kept until', time(operation.expires_ms, now)],
    operation.fingerprint && ['Fingerprint', mono(operation.fingerprint)],
  ], { id: 'op-facts' });
}

function bytesPart(operation, name, title, now) {
  const bytes = field(operation, name);
  if (!bytes || bytes.bytes.length === 0) return null;
  return h('section', { class: 'card', id: `op-${name}` }, h('h2', {}, title), readable(bytes, title, now));
}

export function keyView(route, context) {
  const [ns, key] = route.parts;
  const body = h('div', { class: 'stack' }, h('p', { class: 'muted' }, 'Looking…'));
  const url = () => api.path('v1/ops', ns, key);
  let shownText = '';
  let known = null; // the history that was read last
  let timer = null;
  let gone = false;

  const past = (steps) => api.get(`${url()}/history`, { count: steps })
    .catch((error) => ({ events: [], more: false, error }));
  const newest = (history) => JSON.stringify(history.events[0] ?? null);

  /** All steps of a long life are megabytes: they are asked for when there is a new one. */
  async function read() {
    const [operation, last] = await Promise.all([api.get(url()), past(1)]);
    if (!known || known.error || last.error || newest(last) !== newest(known)) {
      known = last.error ? last : await past(STEPS);
    }
    return { operation, history: known };
  }

  function render({ operation, history }) {
    const now = operation.now_ms;
    body.replaceChildren(...[
      operation.state === 'doubt' && h('section', { class: 'card doubt' },
        h('h2', {}, 'In doubt'),
        h('p', {}, 'Someone began it and vanished, or does not know how it ended. '
          + 'Find out what happened, then say it.'),
        resolveButtons(operation, context)),
      h('section', { class: 'card' }, h('h2', {}, 'What it is now'), nowFacts(operation, history, now)),
      bytesPart(operation, 'result', 'Result', now),
      bytesPart(operation, 'reason', 'Why it did not happen', now),
      operation.state !== 'completed' && bytesPart(operation, 'data', 'Data of the last point', now),
      h('section', { class: 'card' }, h('h2', {}, 'Timeline'),
        history.error ? noHistory(history.error) : timeline(history, operation, now)),
    ].filter(Boolean));
  }

  /** Not under the hands of someone who reads or opens something in there. */
  const inUse = () => body.contains(document.activeElement) || !document.getSelection().isCollapsed;

  async function refresh(force = false) {
    let again = AGAIN_MS;
    clearTimeout(timer);
    if (gone) return;
    try {
      const found = await read();
      if (found.operation.state !== 'started' && found.operation.state !== 'doubt') again = ENDED_AGAIN_MS;
      const text = JSON.stringify([{ ...found.operation, now_ms: 0 }, found.history.events]);
      if (gone) return;
      if (text !== shownText && (force || shownText === '' || !inUse())) {
        render(found);
        shownText = text;
      }
    } catch (error) {
      if (gone) return;
      shownText = '';
      body.replaceChildren(error.status === 404
        ? empty('There is no such operation', 'Nobody began it in this namespace, or it was forgotten since. ',
          h('a', { href: `#/search?key=${encodeURIComponent(key)}` }, 'Search for the key in every namespace'), '.')
        : trouble(error, () => refresh(true)));
    }
    timer = setTimeout(() => (document.hidden ? refreshLater() : refresh()), again);
  }

  function refreshLater() {
    document.addEventListener('visibilitychange', () => refresh(), { once: true });
  }

  return {
    title: key,
    kind: `Operation in ${visible(ns)}`,
    element: body,
    shown: () => refresh(true),
    resolved: () => refresh(true),
    refused: () => refresh(true),
    leave() {
      gone = true;
      clearTimeout(timer);
    },
  };
}

// ---- Searching -----------------------------------------------------------------------------------

/** complete: false while the server still learns which namespaces its store has. */
async function find(key, ns) {
  if (!ns) return api.get('v1/search', { key });
  try {
    return { operations: [await api.get(api.path('v1/ops', ns, key))], complete: true };
  } catch (error) {
    if (error.status === 404) return { operations: [], complete: true };
    throw error;
  }
}

function foundTable(operations, now) {
  const columns = [{ name: 'Namespace' }, { name: 'Key' }, { name: 'State' }, { name: 'Attempts', number: true },
    { name: 'Begun' }];
  const { element, body } = table('Operations of this key', columns, { id: 'found-table' });
  body.append(...operations.map((one) => h('tr', { 'data-testid': 'found' }, h('td', {}, mono(one.namespace)),
    h('th', { scope: 'row' }, keyLink(one.namespace, one.key)), h('td', {}, state(one.state)),
    h('td', { class: 'number' }, count(one.attempt)), h('td', {}, time(one.created_ms, now)))));
  return element;
}

const NOT_HERE = 'Not in this namespace: leave it empty to search them all.';
const NOWHERE = 'A key is searched for as a whole, not by its beginning; one that was forgotten is not found.';

export function searchView(route, context) {
  const key = route.query.get('key') ?? '';
  const ns = route.query.get('namespace') ?? '';
  const keyInput = nameInput('search-view-key', { required: true, maxlength: '512', value: key });
  const nsInput = nameInput('search-namespace', { list: 'search-names', maxlength: '64', value: ns });
  const names = h('datalist', { id: 'search-names' });
  const found = h('div', { id: 'found', class: 'stack' });
  let timer = null;
  let gone = false;

  const go = (event) => {
    event.preventDefault();
    const query = new URLSearchParams({ key: keyInput.value, ...(nsInput.value && { namespace: nsInput.value }) });
    context.go(`#/search?${query}`);
  };

  function offerNames() {
    namespaceNames(context)
      .then((known) => names.replaceChildren(...known.map((name) => h('option', { value: name })))).catch(() => {});
  }

  async function show() {
    if (!key) return;
    found.replaceChildren(h('p', { class: 'muted' }, 'Searching…'));
    try {
      const { operations, complete } = await find(key, ns);
      if (gone) return;
      if (complete === false) {
        found.replaceChildren(operations.length > 0 ? foundTable(operations, context.now()) : '',
          h('p', { class: 'muted' }, 'Still looking: the server is going through its store.'));
        timer = setTimeout(show, SEARCH_AGAIN_MS);
        return;
      }
      if (operations.length === 1) context.go(keyRoute(operations[0].namespace, operations[0].key), true);
      else if (operations.length > 0) found.replaceChildren(foundTable(operations, context.now()));
      else found.replaceChildren(empty('Nothing has this key', ns ? NOT_HERE : NOWHERE));
      context.announce(operations.length === 0 ? 'Nothing found.' : `${operations.length} found.`);
    } catch (error) {
      found.replaceChildren(trouble(error, show));
    }
  }

  return {
    title: 'Search',
    element: h('div', { class: 'stack' },
      h('form', { class: 'card filters', onsubmit: go, 'aria-label': 'Search for a key' },
        h('div', { class: 'field grow' }, h('label', { for: 'search-view-key' }, 'Key'), keyInput),
        h('div', { class: 'field' },
          h('label', { for: 'search-namespace' }, 'Namespace, if it is known'), nsInput, names),
        h('button', { type: 'submit', class: 'primary' }, 'Search')),
      found),
    shown() {
      offerNames();
      show();
    },
    leave() {
      gone = true;
      clearTimeout(timer);
    },
  };
}
