// SPDX-License-Identifier: Apache-2.0
//
// Operations by namespace and state, page by page. A page is small, so that the first rows are
// there at once, however many keys there are.

import { empty, h, keyLink, mono, nameInput, state, STATES, table, time, trouble } from './dom.js';
import { namespaceNames, operationsPage } from './listing.js';
import { count } from './text.js';

const PAGE = 50;
const PATIENCE_MS = 60_000; // a rare state among many keys takes its time

function row(operation, now) {
  const open = operation.state === 'started' || operation.state === 'doubt';
  return h('tr', { 'data-testid': 'op', 'data-key': operation.key },
    h('th', { scope: 'row' }, keyLink(operation.namespace, operation.key, 80)),
    h('td', {}, mono(operation.namespace)),
    h('td', {}, state(operation.state)),
    h('td', { class: 'number' }, count(operation.attempt)),
    h('td', { class: 'number' }, operation.code ?? ''),
    h('td', { class: 'owner' }, operation.owner ? mono(operation.owner, 28) : h('span', { class: 'muted' }, '–')),
    h('td', {}, time(operation.created_ms, now)),
    h('td', {}, open ? time(operation.lease_end_ms, now) : h('span', { class: 'muted' }, '–')));
}

function filters(ns, wanted, context) {
  const names = h('datalist', { id: 'ops-names' });
  const nsInput = nameInput('ops-namespace', { list: 'ops-names', maxlength: '64', placeholder: 'all', value: ns });
  const stateInput = h('select', { id: 'ops-state' }, h('option', { value: '' }, 'all'),
    Object.entries(STATES).map(([name, label]) => h('option', { value: name, selected: name === wanted }, label)));
  const go = (event) => {
    event?.preventDefault();
    const place = nsInput.value ? `/${encodeURIComponent(nsInput.value)}` : '';
    context.go(`#/operations${place}${stateInput.value ? `?state=${stateInput.value}` : ''}`);
  };
  stateInput.addEventListener('change', go);
  namespaceNames(context)
    .then((known) => names.replaceChildren(...known.map((name) => h('option', { value: name })))).catch(() => {});
  return h('form', { class: 'card filters', onsubmit: go, 'aria-label': 'Which operations' },
    h('div', { class: 'field grow' }, h('label', { for: 'ops-namespace' }, 'Namespace'), nsInput, names),
    h('div', { class: 'field' }, h('label', { for: 'ops-state' }, 'State'), stateInput),
    h('button', { type: 'submit', class: 'primary' }, 'Show'));
}

export function operationsView(route, context) {
  const ns = route.parts[0] ?? '';
  const wanted = Object.keys(STATES).includes(route.query.get('state')) ? route.query.get('state') : '';
  const { element, body } = table('Operations', [{ name: 'Key' }, { name: 'Namespace' }, { name: 'State' },
    { name: 'Attempts', number: true }, { name: 'Code', number: true }, { name: 'Owner' }, { name: 'Begun' },
    { name: 'Lease until' }], { id: 'ops-table' });
  const note = h('p', { class: 'muted', id: 'ops-note' }, 'Looking…');
  const more = h('button', { type: 'button', id: 'ops-more', class: 'quiet', hidden: true,
    onclick: () => load() }, 'Show more');
  const stop = new AbortController();
  let cursor = null;

  function show(page) {
    const first = body.children.length === 0;
    const rows = page.operations.map((operation) => row(operation, context.now()));
    body.append(...rows);
    cursor = page.cursor;
    more.hidden = cursor === null;
    element.hidden = body.children.length === 0;
    note.replaceChildren(body.children.length === 0
      ? empty('None', wanted ? 'There is no operation in this state here.' : 'There is no operation here.')
      : `${count(body.children.length)} shown${cursor ? ', there are more' : ''}.`);
    // Who asked for more by keyboard goes on at the first of the new rows.
    if (!first) rows[0]?.querySelector('a').focus();
  }

  async function load() {
    more.disabled = true;
    try {
      const options = { signal: stop.signal, timeoutMs: PATIENCE_MS };
      show(await operationsPage({ ns, state: wanted, count: PAGE }, cursor, options));
    } catch (error) {
      if (!stop.signal.aborted) note.replaceChildren(trouble(error, load));
    }
    more.disabled = false;
  }

  element.hidden = true;
  return {
    title: 'Operations',
    element: h('div', { class: 'stack' }, filters(ns, wanted, context), element, note, more),
    shown: load,
    leave() { stop.abort(); },
  };
}
