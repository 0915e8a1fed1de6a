// SPDX-License-Identifier: Apache-2.0
//
// Making elements. The one way from data to the page: strings become text nodes here, never markup.

import { pieces, relative, shorten, stamp } from './text.js';

const SVG = 'http://www.w3.org/2000/svg';

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
  else if (name === 'class') element.setAttribute('class', value);
  else if (name === 'value') element.value = value;
  else element.setAttribute(name, value === true ? '' : String(value));
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** h('p', {class: 'note'}, 'text', element, …). Names that begin with "on" are listeners. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  return add(element, children);
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  return add(element, children);
}

/** Text that came from anyone, with what would hide or reorder it made visible. bdi: its direction
 * does not reach out of it. */
export function said(text, { lines = false, kind = '', limit = Infinity } = {}) {
  const whole = String(text);
  const shown = shorten(whole, limit);
  const element = h('bdi', { class: kind || null });
  for (const piece of pieces(shown, lines)) {
    element.append(piece.hidden ? h('span', { class: 'escape' }, piece.text) : piece.text);
  }
  return element;
}

/** The text under a name of an answer, or its base64 where it is none; otherwise what is said. */
export function monoOf(answer, name, otherwise) {
  const base64 = answer[`${name}_base64`];
  if (answer[name]) return mono(answer[name]);
  return base64 ? mono(`base64:${base64}`) : h('span', { class: 'muted' }, otherwise);
}

/** An input for names and keys: nothing that a phone or a browser would put right in them. */
export function nameInput(id, attributes) {
  return h('input', { id, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', ...attributes });
}

export const mono = (text, limit) => said(text, { kind: 'mono', limit });

/** A time, absolute and relative. Its relative part is kept right by refreshTimes. */
export function time(ms, now) {
  if (!ms || ms <= 0 || ms > 8.64e15) return h('span', { class: 'muted' }, '–');
  return h('time', { datetime: new Date(ms).toISOString(), title: new Date(ms).toISOString() },
    stamp(ms), ' ', h('span', { class: 'muted', 'data-relative': ms }, relative(ms, now)));
}

export function refreshTimes(root, now) {
  for (const element of root.querySelectorAll('[data-relative]')) {
    const text = relative(Number(element.dataset.relative), now);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Names and values: pairs that are null are left out. */
export function facts(pairs, attributes = {}) {
  return h('dl', { class: 'facts', ...attributes },
    pairs.filter(Boolean).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

/** A table that scrolls by itself where it is too wide. columns: [{name, number}] */
export function table(caption, columns, attributes = {}) {
  const body = h('tbody');
  const head = h('tr', {}, columns.map((column) =>
    h('th', { scope: 'col', class: column.number ? 'number' : null }, column.name)));
  const element = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', attributes, h('caption', { class: 'hidden' }, caption), h('thead', {}, head), body));
  return { element, body };
}

export const STATES = {
  __proto__: null,
  started: 'in progress',
  completed: 'completed',
  failed: 'did not happen',
  doubt: 'in doubt',
};

export function state(name) {
  return h('span', { class: 'badge', 'data-state': name }, STATES[name] ?? name);
}

export function keyLink(ns, key, limit) {
  return h('a', { href: keyRoute(ns, key), class: 'key-link' }, mono(key, limit));
}

export function keyRoute(ns, key) {
  return `#/key/${encodeURIComponent(ns)}/${encodeURIComponent(key)}`;
}

export const namespaceRoute = (ns) => `#/operations/${encodeURIComponent(ns)}`;

export function empty(title, ...more) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title),
    more.length > 0 && h('p', {}, ...more));
}

/** What went wrong, as the server says it. */
export function trouble(error, again) {
  return h('div', { class: 'trouble', role: 'alert' }, h('p', {}, said(error.message)),
    again && h('button', { type: 'button', class: 'quiet', onclick: again }, 'Try again'));
}
