// SPDX-License-Identifier: Apache-2.0
//
// Values made readable: numbers, sizes, times, and text that came from anyone.
//
// The same in every locale: a number in a screenshot or a ticket must mean the same to everyone.

// Characters that hide or reorder what stands around them: controls, marks of direction, characters
// that nothing is drawn for, spaces that are none. A name that looks like another one is how a person
// is made to decide wrongly.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029\u2800]|(?! )\p{Zs}/u;

/** Pieces of a text: [{text, hidden}]. lines: newlines and tabs stay what they are. */
export function pieces(text, lines = false) {
  const found = [];
  let plain = '';
  for (const char of String(text)) {
    if (!HIDDEN.test(char) || (lines && (char === '\n' || char === '\t'))) {
      plain += char;
      continue;
    }
    if (plain) found.push({ text: plain, hidden: false });
    plain = '';
    const code = char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
    found.push({ text: `\\u{${code}}`, hidden: true });
  }
  if (plain) found.push({ text: plain, hidden: false });
  return found;
}

/** The same as one string, where there is no element to put it into (an attribute, the title). */
export function visible(text) {
  return pieces(text).map((piece) => piece.text).join('');
}

export function shorten(text, size) {
  const chars = [...String(text)];
  return chars.length <= size ? String(text) : `${chars.slice(0, size - 1).join('')}…`;
}

/** 1234567 → "1,234,567" */
export function count(number) {
  if (number === null || number === undefined) return '–';
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** For tiles and axes: at most four figures. */
export function brief(number) {
  if (number === null || number === undefined) return '–';
  const units = [[1e9, ' G'], [1e6, ' M'], [1e4, ' k', 1e3]];
  for (const [from, unit, by = from] of units) {
    if (Math.abs(number) >= from) return `${trim(number / by)}${unit}`;
  }
  return Number.isInteger(number) ? count(number) : trim(number);
}

function trim(number) {
  const size = Math.abs(number);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = number.toFixed(digits);
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** 1536 → "1.5 KiB" */
export function bytes(size) {
  if (size === null || size === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(size) : trim(size)} ${units[unit]}`;
}

/** Microseconds → "850 µs", "4.2 ms", "1.3 s" */
export function micros(us) {
  if (us === null || us === undefined) return '–';
  if (us < 1000) return `${trim(us)} µs`;
  if (us < 1e6) return `${trim(us / 1000)} ms`;
  return `${trim(us / 1e6)} s`;
}

/** Milliseconds → "250 ms", "42 s", "3 min 5 s", "2 h 10 min", "4 d 3 h" */
export function span(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 10 && ms % 1000 !== 0) return `${trim(ms / 1000)} s`;
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const from = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[from];
  const [smaller, smallerUnit] = parts[from + 1] ?? [1, ''];
  const rest = Math.floor((seconds % size) / smaller);
  const first = `${count(Math.floor(seconds / size))} ${unit}`;
  return rest > 0 && size > 1 ? `${first} ${rest} ${smallerUnit}` : first;
}

/** "3 min ago", "in 20 s" */
export function relative(ms, now) {
  const away = now - ms;
  if (Math.abs(away) < 1000) return 'now';
  return away > 0 ? `${span(away - (away % 1000))} ago` : `in ${span(-away + (away % 1000))}`;
}

const two = (number) => String(number).padStart(2, '0');

/** Local, ISO: "2026-11-15 20:16:54". */
export function stamp(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** "+01:00": where the local times of this page are local. */
export function zone() {
  const away = -new Date().getTimezoneOffset();
  const size = Math.abs(away);
  return `${away < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
