// SPDX-License-Identifier: Apache-2.0
//
// Calls of the server that this page came from, as whoever is signed in.
//
// The credentials live in this module's memory and nowhere else: closing or reloading the page is
// signing out, and no storage of the browser ever holds a password.

let authorization = null;

const listeners = new Set();

/** Called with every 401: whoever was signed in is not any more. */
export function onUnknown(listener) {
  listeners.add(listener);
}

/** An answer that is no success. status 0: there was none, and nobody knows what happened. */
export class Trouble extends Error {
  constructor(status, problem, retryMs = 0) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.problem = problem;
    this.kind = String(problem.type ?? '').replace('urn:once:problem:', '');
    this.retryMs = retryMs;
  }
}

export function signIn({ user, password, token }) {
  const text = token ? null : new TextEncoder().encode(`${user}:${password}`);
  authorization = token
    ? `Bearer ${token}`
    : `Basic ${btoa(Array.from(text, (byte) => String.fromCharCode(byte)).join(''))}`;
}

export function signOut() {
  authorization = null;
}

export const signedIn = () => authorization !== null;

/** "v1/ops", "pay", "a/b" → "v1/ops/pay/a%2Fb". Relative, so that the server may stand behind a path.
 * A part that is "." or ".." would be taken for a step between folders, even percent-encoded. */
export function path(start, ...parts) {
  const dots = parts.find((part) => part === '.' || part === '..');
  if (dots) throw new Trouble(400, { detail: `A browser cannot ask for the name "${dots}": use once get.` });
  return [start, ...parts.map(encodeURIComponent)].join('/');
}

function withQuery(url, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => (value ?? '') !== '');
  return given.length > 0 ? `${url}?${new URLSearchParams(given).toString().replaceAll('+', '%20')}` : url;
}

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

/** Integers that a number here would round become strings: a counter may be any of 64 bits. */
function exactly(text) {
  const tokens = /("[^"\\]*(?:\\.[^"\\]*)*")|(?<![\d.])(-?\d{16,})(?![\d.eE])/g;
  return JSON.parse(text.replace(tokens, (whole, string, digits) => (digits ? `"${digits}"` : whole)));
}

async function call(method, url, { body, signal, timeoutMs = 15000, exact = false } = {}) {
  // Once-Page: the server does not make the browser ask for a password, the page has a form.
  const headers = { Accept: 'application/json', 'Once-Page': '1' };
  const late = AbortSignal.timeout(timeoutMs);
  const asked = authorization;
  let response;
  if (asked) headers.Authorization = asked;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any?.([signal, late]) ?? signal : late,
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
    if (response.ok) return exact ? exactly(await response.text()) : await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble(0, { detail: 'The server did not answer.' });
  }
  const problem = await problemOf(response);
  // An answer to who was signed in before says nothing about who is now.
  if (response.status === 401 && asked === authorization) for (const listener of listeners) listener();
  throw new Trouble(response.status, problem, Number(response.headers.get('Retry-After')) * 1000 || 0);
}

export const get = (url, query, options) => call('GET', withQuery(url, query), options);
export const post = (url, body, options) => call('POST', url, { ...options, body });
