// SPDX-License-Identifier: Apache-2.0
//
// The last minutes of /v1/stats, as samples that charts and tiles read.
//
// The server counts from its start; what people want to see is per second, so each sample holds the
// difference to the one before. After a pause, a lost server or a restart there is no difference to
// trust: the sample is then a gap, and charts show a hole instead of a guess.

const KEPT_MS = 180_000;
const WINDOW_MS = 10_000; // percentiles and rates of namespaces: over so long
const GAP_MS = 5_000;     // samples further apart than this are not joined

/** Verdicts that the chart shows by name, in its order; all others are "other". */
export const WORDS = ['EXECUTE', 'APPLIED', 'REPLAY', 'OK', 'BUSY', 'DOUBT', 'MISMATCH'];

function words(verdicts = {}) {
  const sums = {};
  for (const byWord of Object.values(verdicts)) {
    for (const [word, n] of Object.entries(byWord)) sums[word] = (sums[word] ?? 0) + n;
  }
  return sums;
}

const sum = (numbers) => Object.values(numbers ?? {}).reduce((a, b) => a + b, 0);

const callsOf = (entry) => sum(words(entry.verdicts)) + (entry.errors ?? 0);

/** The value under which the share q of the counts lies. Bucket i ends at 2^i. */
export function quantile(buckets, q) {
  const total = sum(buckets);
  const wanted = total * q;
  let below = 0;
  if (total === 0) return null;
  for (let i = 0; i < buckets.length; i += 1) {
    if (buckets[i] > 0 && below + buckets[i] >= wanted) {
      const from = i === 0 ? 0 : 2 ** (i - 1);
      return from + ((2 ** i - from) * (wanted - below)) / buckets[i];
    }
    below += buckets[i];
  }
  return 2 ** (buckets.length - 1);
}

const less = (now, before) => now.map((value, i) => Math.max(0, value - (before?.[i] ?? 0)));

function rates(now, before, seconds) {
  const nowWords = words(now.verdicts);
  const beforeWords = words(before.verdicts);
  const found = { other: 0 };
  for (const word of WORDS) found[word] = 0;
  for (const [word, n] of Object.entries(nowWords)) {
    const rate = Math.max(0, n - (beforeWords[word] ?? 0)) / seconds;
    found[WORDS.includes(word) ? word : 'other'] += rate;
  }
  found.errors = Math.max(0, sum(now.errors) - sum(before.errors)) / seconds;
  return found;
}

export class Samples {
  #list = [];

  get all() { return this.#list; }

  get last() { return this.#list.at(-1) ?? null; }

  /** The newest that is no gap. */
  get stats() { return this.#list.findLast((sample) => sample.stats)?.stats ?? null; }

  clear() { this.#list = []; }

  add(stats, at) {
    const before = this.last;
    const sample = { at, stats, rates: null, total: null };
    // The server gives one document to everyone who asks at the same time: nothing new is no sample.
    if (before?.stats && before.stats.uptime_ms === stats.uptime_ms) return before;
    const joined = before?.stats && at - before.at <= GAP_MS
      && before.stats.started_ms === stats.started_ms && stats.uptime_ms > before.stats.uptime_ms;
    if (joined) this.#difference(sample, before);
    this.#list.push(sample);
    this.#forget(at);
    return sample;
  }

  gap(at) {
    if (this.last?.stats) this.#list.push({ at, stats: null, rates: null, total: null });
    this.#forget(at);
  }

  #forget(at) {
    while (this.#list.length > 0 && this.#list[0].at < at - KEPT_MS) this.#list.shift();
    // Namespaces may be hundreds, and only those of the window are looked at again.
    for (const sample of this.#list) {
      if (sample.at >= at - WINDOW_MS) break;
      if (sample.stats && sample !== this.#list.at(-1)) sample.stats.namespaces = undefined;
    }
  }

  #difference(sample, before) {
    const { stats } = sample;
    // The server's own time: how long the answers were on their way does not count.
    const seconds = (stats.uptime_ms - before.stats.uptime_ms) / 1000;
    const from = this.#windowStart(sample);
    sample.rates = rates(stats, before.stats, seconds);
    sample.total = sum(sample.rates);
    const latency = less(stats.latency_us.buckets, from.latency_us.buckets);
    const write = less(stats.write_us.buckets, from.write_us.buckets);
    sample.latency50 = quantile(latency, 0.5);
    sample.latency99 = quantile(latency, 0.99);
    sample.write50 = quantile(write, 0.5);
    sample.write99 = quantile(write, 0.99);
    const batches = stats.batches - before.stats.batches;
    sample.writes = Math.max(0, batches) / seconds;
    sample.batch = batches > 0 ? (stats.records - before.stats.records) / batches : null;
  }

  /** The stats that the window of a new sample begins with: no gap and no restart in between. */
  #windowStart(sample) {
    let from = this.last.stats;
    for (let i = this.#list.length - 1; i >= 0; i -= 1) {
      const older = this.#list[i];
      if (!older.stats || older.stats.started_ms !== sample.stats.started_ms) break;
      if (sample.at - older.at > WINDOW_MS) break;
      from = older.stats;
    }
    return from;
  }

  /** Calls per second of each namespace, over the window: Map(name → rate). */
  namespaceRates() {
    const now = this.last;
    const found = new Map();
    if (!now?.stats || !now.rates) return found;
    const from = this.#windowStart(now);
    const seconds = (now.stats.uptime_ms - from.uptime_ms) / 1000;
    const before = new Map((from.namespaces ?? []).map((entry) => [entry.namespace, callsOf(entry)]));
    for (const entry of now.stats.namespaces ?? []) {
      const n = callsOf(entry) - (before.get(entry.namespace) ?? 0);
      found.set(entry.namespace, seconds > 0 ? Math.max(0, n) / seconds : 0);
    }
    return found;
  }
}

/** Verdicts of a namespace since the start, by word. */
export const namespaceWords = (entry) => words(entry.verdicts);
