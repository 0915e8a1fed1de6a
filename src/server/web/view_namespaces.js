// SPDX-License-Identifier: Apache-2.0
//
// Namespaces: what happens in each, and the policy that the configuration gives it.

import * as api from './api.js';
import { empty, h, mono, namespaceRoute, table, trouble } from './dom.js';
import { namespaceWords } from './samples.js';
import { brief, bytes, count, span } from './text.js';

const COLUMNS = [
  { name: 'Namespace' }, { name: 'Calls a second', number: true }, { name: 'Executed', number: true },
  { name: 'Replayed', number: true }, { name: 'Met a doubt', number: true },
  { name: 'Answers are kept', number: true }, { name: 'Lease', number: true }, { name: 'A doubt' },
  { name: 'Codes' }, { name: 'Result at most', number: true }, { name: 'Keys' },
];

// How the numbers name all namespaces past the bound of what is counted one by one.
const REST = 'every other';
const isName = (name) => name !== '' && name !== REST;

const FIVE = {
  __proto__: null, default: '', release: ', 5xx frees the key', store: ', 5xx is kept', doubt: ', 5xx is a doubt',
};

function policyCells(policy) {
  if (!policy) return [h('td', { colspan: '6', class: 'muted' }, 'not declared')];
  return [
    h('td', { class: 'number' }, span(policy.retention_ms)),
    h('td', { class: 'number' }, span(policy.lease_ms)),
    h('td', {}, policy.on_doubt === 'retry' ? 'is tried again' : 'waits for a person',
      policy.doubt_fixed ? ', always' : ''),
    h('td', {}, policy.codes === 'http' ? 'HTTP' : 'any', FIVE[policy.on_5xx] ?? ''),
    h('td', { class: 'number' }, bytes(policy.result_size_max)),
    h('td', {}, policy.by_user ? 'of each user' : 'shared'),
  ];
}

function row(name, policy) {
  const cells = {};
  for (const id of ['rate', 'executed', 'replayed', 'doubts']) cells[id] = h('td', { class: 'number' }, '–');
  const label = name === '*' ? h('span', { class: 'muted' }, 'every other')
    : h('a', { href: namespaceRoute(name) }, mono(name));
  const element = h('tr', { 'data-testid': 'namespace', 'data-ns': name }, h('th', { scope: 'row' }, label),
    Object.values(cells), policyCells(policy));
  return { cells, element };
}

export function namespacesView(route, context) {
  const { element, body } = table('Namespaces and their policies', COLUMNS, { id: 'namespaces-table' });
  const note = h('p', { class: 'lead' }, 'Looking…');
  const problem = h('div');
  const rows = new Map();
  let policies = null;

  function make() {
    const used = (context.samples.stats?.namespaces ?? []).map((entry) => entry.namespace).filter(isName);
    const names = new Set([...policies.keys(), ...used]);
    const sorted = [...names].sort((a, b) => (a === '*') - (b === '*') || (a < b ? -1 : 1));
    if (sorted.every((name) => rows.has(name))) return;
    for (const name of sorted.filter((each) => !rows.has(each))) {
      rows.set(name, row(name, policies.get(name) ?? policies.get('*')));
    }
    body.replaceChildren(...sorted.map((name) => rows.get(name).element));
  }

  function tick() {
    if (!policies || !context.samples.stats) return;
    make();
    const rates = context.samples.namespaceRates();
    for (const entry of context.samples.stats.namespaces ?? []) {
      const one = rows.get(entry.namespace === REST ? '*' : entry.namespace);
      if (!one) continue;
      const words = namespaceWords(entry);
      one.cells.rate.textContent = brief(Math.round((rates.get(entry.namespace) ?? 0) * 10) / 10);
      one.cells.executed.textContent = count((words.EXECUTE ?? 0) + (words.APPLIED ?? 0));
      one.cells.replayed.textContent = count(words.REPLAY ?? 0);
      one.cells.doubts.textContent = count(words.DOUBT ?? 0);
    }
  }

  async function load() {
    try {
      const known = await api.get('v1/namespaces');
      policies = new Map(known.namespaces.map((policy) => [policy.namespace, policy]));
      note.textContent = known.declared_only
        ? 'Only declared namespaces exist here. Numbers count from the start of the server.'
        : 'A namespace that is not declared has the policy of “every other”. '
          + 'Numbers count from the start of the server.';
      problem.replaceChildren();
      make();
      tick();
      if (rows.size === 0) {
        problem.replaceChildren(empty('No namespaces', 'None is declared that you may see, and none was used yet.'));
      }
    } catch (error) {
      note.textContent = '';
      problem.replaceChildren(trouble(error, load));
    }
  }

  return { title: 'Namespaces', element: h('div', { class: 'stack' }, note, problem, element), shown: load, tick };
}
