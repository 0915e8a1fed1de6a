// SPDX-License-Identifier: Apache-2.0
//
// Bytes that an operation holds (a result, the data of a recovery point, a reason), made readable.
//
// What `once run` and `once call` keep is known: one line of JSON that says what follows, then the
// bytes themselves. JSON is laid out, other text is shown as it is, and bytes that are no text as
// hexadecimal numbers. Only the beginning of what is large is shown at first.

import { facts, h, mono, said, time } from './dom.js';
import { bytes as sizeText, count } from './text.js';

const SHOWN = 16_384; // characters of a block, before it is asked for all of it
const HEX_SHOWN = 512;
const FRAMES_SHOWN = 2000;
const DEPTH_MAX = 64; // of JSON that is laid out; deeper than this it is nothing that people read

/** The bytes under a name of a JSON answer, as text and as bytes: {text, bytes} or null. */
export function field(answer, name) {
  const text = answer[name];
  const base64 = answer[`${name}_base64`];
  if (typeof text === 'string') return { text, bytes: new TextEncoder().encode(text) };
  if (typeof base64 !== 'string') return null;
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  return { text: null, bytes };
}

function hex(bytes) {
  const rows = [];
  for (let at = 0; at < Math.min(bytes.length, HEX_SHOWN); at += 16) {
    const row = bytes.subarray(at, at + 16);
    const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const chars = Array.from(row, (byte) => (byte > 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    rows.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(47)}  ${chars}`);
  }
  if (bytes.length > HEX_SHOWN) rows.push(`… ${count(bytes.length - HEX_SHOWN)} more bytes`);
  return rows.join('\n');
}

/** A block of text that scrolls; its beginning, and a button for the rest. */
export function block(text, label) {
  const pre = h('pre', { class: 'block', tabindex: '0', role: 'region', 'aria-label': label });
  if (text.length <= SHOWN) {
    pre.append(said(text, { lines: true }));
    return pre;
  }
  const all = h('button', { type: 'button', class: 'quiet', onclick: () => {
    pre.replaceChildren(said(text, { lines: true }));
    all.remove();
    pre.focus();
  } }, `Show all (${sizeText(text.length)})`);
  pre.append(said(text.slice(0, SHOWN), { lines: true }));
  return h('div', {}, pre, all);
}

const decoder = new TextDecoder('utf-8', { fatal: true });
const lossy = new TextDecoder();

function bytesBlock(bytes, label) {
  try {
    return block(decoder.decode(bytes), label);
  } catch {
    return block(hex(bytes), `${label}, ${count(bytes.length)} bytes in hexadecimal`);
  }
}

/** Are brackets nested deeper than anyone nests them? Laying that out would fill the memory, or the
 * stack. Those in strings count too: it is no harm to show such a text as it is. */
function isDeep(text) {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '[' || char === '{') depth += 1;
    else if (char === ']' || char === '}') depth -= 1;
    if (depth > DEPTH_MAX) return true;
  }
  return false;
}

function parsed(text) {
  if (isDeep(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The line of JSON and what is behind it, where `once run` or `once call` wrote this; else null. */
export function framed(bytes) {
  const end = bytes.indexOf(10);
  if (end < 0 || bytes[0] !== 123) return null;
  const head = parsed(lossy.decode(bytes.subarray(0, end)));
  const ours = head && typeof head === 'object' && (head.once === 'run' || head.once === 'call');
  return ours ? { head, body: bytes.subarray(end + 1) } : null;
}

/** Frames [[1, size], [2, size], …]: what went to standard output and to standard error. */
function runOutput({ head, body }) {
  const pre = h('pre', { class: 'block', tabindex: '0', role: 'region', 'aria-label': 'Output' });
  const end = Math.min(body.length, SHOWN);
  let at = 0;
  for (const frame of Array.isArray(head.frames) ? head.frames.slice(0, FRAMES_SHOWN) : []) {
    const [stream, size] = Array.isArray(frame) ? frame : [1, 0];
    if (at >= end) break;
    if (!(size > 0)) continue;
    const next = Math.min(at + size, end);
    const text = lossy.decode(body.subarray(at, next));
    pre.append(h('span', { class: stream === 2 ? 'stderr' : 'stdout' }, said(text, { lines: true })));
    at = next;
  }
  if (at === 0) pre.append(h('span', { class: 'muted' }, 'no output'));
  return h('div', {},
    h('p', { class: 'muted' }, 'Output of the command', head.frames?.some?.((frame) => frame?.[0] === 2)
      ? ['; standard error ', h('span', { class: 'stderr' }, 'like this')] : null, '.'),
    pre,
    at < body.length && h('p', { class: 'muted' }, `The first ${sizeText(at)} of ${sizeText(body.length)}.`),
    head.lost > 0 && h('p', { class: 'muted' }, `${sizeText(head.lost)} more were printed and not kept.`));
}

function callAnswer({ head, body }) {
  const headers = (Array.isArray(head.headers) ? head.headers : [])
    .map((header) => (Array.isArray(header) ? header.join(': ') : String(header))).join('\n');
  return h('div', {},
    facts([['HTTP status', mono(head.status)], ['Body', sizeText(body.length)]]),
    headers && h('details', {}, h('summary', {}, 'Headers'), block(headers, 'Headers')),
    body.length > 0 && bytesBlock(body, 'Body of the answer'),
    head.lost > 0 && h('p', { class: 'muted' }, `${sizeText(head.lost)} more came and were not kept.`));
}

const shellSafe = /^[A-Za-z0-9_@%+=:,./-]+$/;
const quoted = (word) => (shellSafe.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`);
const commandLine = (words) => (Array.isArray(words) ? words.map(quoted).join(' ') : String(words));
const plain = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));

/** What people look for first stands first; whatever else is there follows as it is. */
const NAMES = {
  __proto__: null,
  command: 'Command', argv: 'Command', method: 'Method', url: 'URL', host: 'Host', user: 'User',
  cwd: 'Folder', pid: 'Runner', child: 'Process', started_ms: 'Started', headers: 'Headers',
  secret_headers: 'Headers with secrets', body: 'Body',
  body_size: 'Body', body_file: 'Body from', body_sha256: 'Body’s SHA-256', sha256: 'SHA-256',
  key_header: 'Header of the key',
};

function valueOf(name, value, now) {
  if ((name === 'command' || name === 'argv') && value) return mono(commandLine(value));
  if (/_ms$/.test(name) && Number.isInteger(value) && value > 1e12) return time(value, now);
  if (/_size$/.test(name) && Number.isInteger(value)) return sizeText(value);
  const lines = Array.isArray(value) && value.every((each) => typeof each === 'string');
  const text = lines ? value.join('\n') : plain(value);
  return text.length > 200 || text.includes('\n') ? block(text, NAMES[name] ?? name) : mono(text);
}

// Said for programs, or said by the place where it stands.
const HUSHED = new Set(['once', 'version', 'bare_key']);
const nothing = (value) => value === null || (Array.isArray(value) && value.length === 0);

function objectFacts(object, now) {
  const names = [...Object.keys(NAMES).filter((name) => name in object),
    ...Object.keys(object).filter((name) => !(name in NAMES))];
  return facts(names.filter((name) => !HUSHED.has(name) && !nothing(object[name]))
    .map((name) => [NAMES[name] ?? said(name), valueOf(name, object[name], now)]));
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** Bytes from field() → an element. */
export function readable({ text, bytes }, label, now) {
  if (bytes.length === 0) return h('span', { class: 'muted' }, 'empty');
  const frame = framed(bytes);
  if (frame) {
    if (frame.head.frames) return runOutput(frame);
    if (frame.head.status !== undefined) return callAnswer(frame);
    return h('div', {}, objectFacts(frame.head, now), frame.body.length > 0 && bytesBlock(frame.body, label));
  }
  if (text === null) return bytesBlock(bytes, label);
  const value = /^\s*[[{]/.test(text) && text.length < 1_000_000 ? parsed(text) : undefined;
  if (isObject(value) && Object.keys(value).length <= 40) {
    return h('div', {}, objectFacts(value, now),
      h('details', {}, h('summary', {}, 'As it is'), block(text, `${label}, as it is`)));
  }
  if (value !== undefined) return block(JSON.stringify(value, null, 2), label);
  return text.length <= 120 && !text.includes('\n') ? mono(text) : block(text, label);
}
