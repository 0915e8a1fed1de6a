// SPDX-License-Identifier: Apache-2.0
//
// Objects: their list, and one of them with what it holds.

import * as api from './api.js';
import { empty, facts, h, mono, monoOf, nameInput, said, table, trouble } from './dom.js';
import { block, field, readable } from './readable.js';
import { count } from './text.js';

const PAGE = 100;
const WITH_ITEMS = ['log', 'outbox', 'buckets'];

const objectRoute = (name) => `#/object/${encodeURIComponent(name)}`;

function byName(context, name = '') {
  const input = nameInput('object-name', { required: true, value: name });
  return h('form', { class: 'card filters', 'aria-label': 'Open an object', onsubmit: (event) => {
    event.preventDefault();
    context.go(objectRoute(input.value));
  } }, h('div', { class: 'field grow' }, h('label', { for: 'object-name' }, 'Name of an object'), input),
  h('button', { type: 'submit', class: 'primary' }, 'Open'));
}

/** Loads page after page into a table. read(cursor) → {rows, cursor or null}. */
function paged(parts, read) {
  const { element, body, note, more, none } = parts;
  let cursor = null;
  async function load() {
    more.disabled = true;
    try {
      const page = await read(cursor);
      const first = body.children.length === 0;
      body.append(...page.rows);
      cursor = page.cursor;
      more.hidden = cursor === null;
      element.hidden = body.children.length === 0;
      const shown = `${count(body.children.length)} shown${cursor ? ', there are more' : ''}.`;
      note.replaceChildren(body.children.length === 0 ? none : shown);
      if (!first) (page.rows[0]?.querySelector('a, th'))?.focus?.();
    } catch (error) {
      note.replaceChildren(trouble(error, load));
    }
    more.disabled = false;
  }
  element.hidden = true;
  more.addEventListener('click', load);
  return load;
}

export function objectsView(route, context) {
  const { element, body } = table('Objects', [{ name: 'Name' }, { name: 'Type' }], { id: 'objects-table' });
  const note = h('p', { class: 'muted' }, 'Looking…');
  const more = h('button', { type: 'button', id: 'objects-more', class: 'quiet', hidden: true }, 'Show more');
  const none = empty('No objects', 'Effects make them: counters, registers, sets, logs and more.');
  const row = (object) => h('tr', { 'data-testid': 'object' },
    h('th', { scope: 'row' }, h('a', { href: objectRoute(object.name), class: 'key-link' }, mono(object.name, 100))),
    h('td', {}, object.type));
  const load = paged({ element, body, note, more, none }, async (cursor) => {
    const page = await api.get('v1/objects', { cursor, count: PAGE });
    return { rows: page.objects.map(row), cursor: page.cursor === '0' ? null : page.cursor };
  });
  const whole = h('div', { class: 'stack' }, byName(context), element, note, more);
  return { title: 'Objects', element: whole, shown: load };
}

const scalar = (value) => value === null || typeof value !== 'object';

/** What it holds depends on its type: plain values as facts, the rest laid out as JSON. */
function valueParts(object, now) {
  const names = Object.keys(object).filter((name) => name !== 'name' && name !== 'type');
  const pairs = [['Type', said(object.type)]];
  const blocks = [];
  for (const name of names) {
    const plain = name.replace(/_base64$/, '');
    const bytes = typeof object[name] === 'string' ? field({ [name]: object[name] }, plain) : null;
    if (bytes) pairs.push([said(plain), readable(bytes, plain, now)]);
    else if (scalar(object[name])) pairs.push([said(name), mono(String(object[name]))]);
    else blocks.push(h('div', {}, h('h3', {}, said(name)), block(JSON.stringify(object[name], null, 2), name)));
  }
  return [facts(pairs, { id: 'object-value' }), ...blocks];
}

function itemsPart(name, context) {
  const columns = [{ name: 'Number', number: true }, { name: 'Id' }, { name: 'Group' }, { name: 'Payload' }];
  const { element, body } = table('Items', columns, { id: 'items-table' });
  const note = h('p', { class: 'muted' }, 'Looking…');
  const more = h('button', { type: 'button', id: 'items-more', class: 'quiet', hidden: true }, 'Show more');
  const payload = (item) => {
    const bytes = field(item, 'payload');
    return bytes ? readable(bytes, 'Payload', context.now()) : h('span', { class: 'muted' }, '–');
  };
  const row = (item) => h('tr', { 'data-testid': 'item' },
    h('th', { scope: 'row', class: 'number', tabindex: '-1' }, String(item.number)),
    h('td', {}, monoOf(item, 'id', '–')), h('td', {}, monoOf(item, 'group', '–')), h('td', {}, payload(item)));
  const load = paged({ element, body, note, more, none: empty('No items') }, async (cursor) => {
    const page = await api.get(api.path('v1/objects', name, 'items'), { after: cursor, count: 50 });
    return { rows: page.items.map(row), cursor: page.more ? page.cursor : null };
  });
  return { section: h('section', { class: 'card' }, h('h2', {}, 'Items'), element, note, more), load };
}

export function objectView(route, context) {
  const [name] = route.parts;
  const body = h('div', { class: 'stack' }, h('p', { class: 'muted' }, 'Looking…'));

  async function load() {
    try {
      const object = await api.get(api.path('v1/objects', name), {}, { exact: true });
      body.replaceChildren(h('section', { class: 'card' },
        h('h2', {}, 'What it holds'), valueParts(object, context.now())));
      if (WITH_ITEMS.includes(object.type)) {
        const items = itemsPart(name, context);
        body.append(items.section);
        items.load();
      }
    } catch (error) {
      body.replaceChildren(error.status === 404
        ? empty(error.problem.deleted ? 'It was deleted' : 'There is no such object', said(error.message))
        : trouble(error, load), byName(context, name));
    }
  }

  return { title: name, kind: 'Object', element: body, shown: load };
}
