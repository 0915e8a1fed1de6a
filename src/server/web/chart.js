// SPDX-License-Identifier: Apache-2.0
//
// A chart over the last minutes: areas on top of each other, or lines; drawn anew once a second.
//
// Everything that it shows by place and colour is there as text too: the legend has the numbers of
// now (or of the moment under the pointer), the label says the whole in a sentence, and "Numbers"
// opens a table.

import { h, svg } from './dom.js';
import { clock } from './text.js';

const SHOWN_MS = 180_000;
const HEIGHT = 168;
const MARGIN = { left: 58, right: 10, top: 10, bottom: 22 };
const GAP_MS = 5_000;
const TABLE_STEP_MS = 10_000;

/** The top of an axis, a round number that is not below the value, and the lines under it, at round
 * numbers too: {top, steps}. */
function nice(value, base) {
  if (!(value > 0)) return { top: 1, steps: 4 };
  const power = base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
  const rounds = base === 1024 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 4, 5, 8, 10];
  const round = rounds.find((each) => each * power >= value * 0.999);
  return { top: round * power, steps: round % 5 === 0 ? 5 : 4 };
}

export class Chart {
  #options; #svg; #legend; #table; #cursor = null; #drawn = null; #width = 0; #values = new Map();

  #tableAt = 0; // when it was filled

  /** series: [{name, label, value(sample) → number or null, always}]; format(number) → text;
   * stacked, log, base (10 or 1024), min: the least top of the axis. */
  constructor(options) {
    this.#options = { base: 10, min: 1, ...options };
    this.#svg = svg('svg', { class: 'plot', role: 'img', height: HEIGHT, focusable: 'false' });
    this.#legend = h('ul', { class: 'legend' });
    this.#table = h('details', { class: 'numbers', ontoggle: () => this.#fillTable() },
      h('summary', {}, 'Numbers', h('span', { class: 'hidden' }, ` of ${options.title}`)));
    this.element = h('figure', { class: 'chart', 'data-testid': `chart-${options.id}` },
      h('figcaption', {}, h('h2', {}, options.title), h('p', { class: 'muted' }, options.note)),
      this.#svg, this.#legend, this.#table);
    this.#svg.addEventListener('pointermove', (event) => this.#point(event.offsetX));
    this.#svg.addEventListener('pointerleave', () => this.#point(null));
    this.#makeLegend();
    this.sizes = new ResizeObserver(() => this.#drawn && this.draw(...this.#drawn));
    this.sizes.observe(this.element);
  }

  leave() { this.sizes.disconnect(); }

  #makeLegend() {
    for (const one of this.#options.series) {
      const value = h('span', { class: 'legend-value' }, '–');
      const item = h('li', { 'data-series': one.name },
        h('span', { class: 'swatch', 'aria-hidden': 'true' }), `${one.label} `, value);
      this.#values.set(one.name, { item, value });
      this.#legend.append(item);
    }
  }

  #point(x) {
    this.#cursor = x;
    if (this.#drawn) this.draw(...this.#drawn);
  }

  /** samples: oldest first; now: the right edge. */
  draw(samples, now) {
    const { series } = this.#options;
    this.#drawn = [samples, now];
    this.#width = Math.max(200, Math.round(this.#svg.getBoundingClientRect().width) || 320);
    const shown = samples.filter((sample) => sample.at >= now - SHOWN_MS);
    const rows = shown.map((sample) => ({
      at: sample.at,
      values: series.map((one) => (sample.stats ? one.value(sample) ?? null : null)),
    }));
    const axis = this.#axis(rows);
    const parts = [this.#grid(axis, now)];
    parts.push(this.#options.stacked ? this.#areas(rows, axis, now) : this.#lines(rows, axis, now));
    const row = this.#rowAt(rows, now);
    if (row && this.#cursor !== null) {
      const x = this.#x(row.at, now);
      parts.push(svg('line', { class: 'cursor', x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    }
    this.#svg.setAttribute('viewBox', `0 0 ${this.#width} ${HEIGHT}`);
    this.#svg.replaceChildren(...parts.flat());
    this.#tell(rows, row);
    // Not each second: someone may be reading it.
    if (this.#table.open && now - this.#tableAt >= TABLE_STEP_MS) this.#fillTable();
  }

  #x(at, now) {
    const inner = this.#width - MARGIN.left - MARGIN.right;
    return Math.round((MARGIN.left + inner * (1 - (now - at) / SHOWN_MS)) * 10) / 10;
  }

  #axis(rows) {
    const { stacked, log, base, min } = this.#options;
    const values = rows.flatMap((row) => (stacked
      ? [row.values.reduce((a, b) => a + (b ?? 0), 0)]
      : row.values.filter((value) => value !== null)));
    const highest = Math.max(min, ...values);
    const inner = HEIGHT - MARGIN.top - MARGIN.bottom;
    if (log) {
      const low = Math.floor(Math.log10(Math.max(1, Math.min(highest, ...values))));
      const high = Math.max(low + 1, Math.ceil(Math.log10(highest)));
      const y = (value) => MARGIN.top + inner * (1 - (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low));
      return { ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)), y };
    }
    const { top, steps } = nice(highest, base);
    const y = (value) => MARGIN.top + inner * (1 - Math.min(value, top) / top);
    return { ticks: Array.from({ length: steps + 1 }, (_, i) => (top * i) / steps), y };
  }

  #grid(axis, now) {
    const parts = [];
    for (const tick of axis.ticks) {
      const y = axis.y(tick);
      parts.push(svg('line', { class: 'grid', x1: MARGIN.left, x2: this.#width - MARGIN.right, y1: y, y2: y }));
      parts.push(svg('text', { class: 'tick', x: MARGIN.left - 8, y: y + 4, 'text-anchor': 'end' },
        this.#options.format(tick)));
    }
    const marks = [[SHOWN_MS, '3 min ago', 'start'], [0, 'now', 'end']];
    if (this.#width >= 360) marks.push([SHOWN_MS * 2 / 3, '2 min', 'middle'], [SHOWN_MS / 3, '1 min', 'middle']);
    for (const [back, text, anchor] of marks) {
      const x = this.#x(now - back, now);
      parts.push(svg('text', { class: 'tick', x, y: HEIGHT - 5, 'text-anchor': anchor }, text));
    }
    return parts;
  }

  /** Runs of rows that belong together: nothing is drawn across a hole. */
  #runs(rows, known) {
    const runs = [];
    let run = [];
    for (const row of rows) {
      const joined = run.length === 0 || row.at - run.at(-1).at <= GAP_MS;
      if (known(row) && joined) {
        run.push(row);
        continue;
      }
      if (run.length > 0) runs.push(run);
      run = known(row) ? [row] : [];
    }
    if (run.length > 0) runs.push(run);
    return runs;
  }

  #areas(rows, axis, now) {
    const parts = [];
    for (const run of this.#runs(rows, (row) => row.values.some((value) => value !== null))) {
      let below = run.map(() => 0);
      this.#options.series.forEach((one, index) => {
        const above = run.map((row, i) => below[i] + (row.values[index] ?? 0));
        if (above.some((value, i) => value > below[i])) {
          const top = run.map((row, i) => `${this.#x(row.at, now)},${axis.y(above[i]).toFixed(1)}`);
          const bottom = run.map((row, i) => `${this.#x(row.at, now)},${axis.y(below[i]).toFixed(1)}`);
          const d = `M${top.join('L')}L${bottom.reverse().join('L')}Z`;
          parts.push(svg('path', { class: 'band', 'data-series': one.name, d }));
        }
        below = above;
      });
    }
    return parts;
  }

  #lines(rows, axis, now) {
    const parts = [];
    this.#options.series.forEach((one, index) => {
      for (const run of this.#runs(rows, (row) => row.values[index] !== null)) {
        const points = run.map((row) => `${this.#x(row.at, now)},${axis.y(row.values[index]).toFixed(1)}`);
        if (points.length === 1) {
          const [cx, cy] = points[0].split(',');
          parts.push(svg('circle', { class: 'point', 'data-series': one.name, cx, cy, r: 2 }));
          continue;
        }
        if (one.fill) {
          const floor = axis.y(axis.ticks[0]).toFixed(1);
          const [from, to] = [run[0], run.at(-1)].map((row) => `${this.#x(row.at, now)},${floor}`);
          const d = `M${from}L${points.join('L')}L${to}Z`;
          parts.push(svg('path', { class: 'area', 'data-series': one.name, d }));
        }
        parts.push(svg('path', { class: 'line', 'data-series': one.name, d: `M${points.join('L')}` }));
      }
    });
    return parts;
  }

  #rowAt(rows, now) {
    if (this.#cursor === null) return rows.at(-1) ?? null;
    let found = null;
    for (const row of rows) {
      const away = Math.abs(this.#x(row.at, now) - this.#cursor);
      if (!found || away < found.away) found = { row, away };
    }
    return found?.row ?? null;
  }

  #tell(rows, row) {
    const { series, format, title } = this.#options;
    const newest = rows.at(-1);
    const said = [];
    series.forEach((one, index) => {
      const known = rows.map((each) => each.values[index]).filter((value) => value !== null);
      const highest = known.length > 0 ? Math.max(...known) : null;
      const used = one.always || (highest ?? 0) > 0;
      const { item, value } = this.#values.get(one.name);
      const text = format(row?.values[index] ?? null);
      item.hidden = !used;
      if (value.textContent !== text) value.textContent = text;
      if (used && highest !== null) {
        said.push(`${one.label} ${format(newest.values[index])}, at most ${format(highest)}`);
      }
    });
    this.#svg.setAttribute('aria-label', `${title}, the last three minutes. ${said.join('; ') || 'Nothing yet'}.`);
  }

  #fillTable() {
    const { series, format, title } = this.#options;
    if (!this.#table.open || !this.#drawn) {
      this.#table.querySelector('table')?.remove();
      return;
    }
    const picked = [];
    this.#tableAt = this.#drawn[1];
    for (const sample of [...this.#drawn[0]].reverse()) {
      if (picked.length === 0 || picked.at(-1).at - sample.at >= TABLE_STEP_MS) picked.push(sample);
      if (picked.length === 12) break;
    }
    const valueOf = (one, sample) => format(sample.stats ? one.value(sample) ?? null : null);
    const used = series.filter((one) => !this.#values.get(one.name).item.hidden);
    this.#table.querySelector('table')?.remove();
    this.#table.append(h('table', { class: 'small' }, h('caption', { class: 'hidden' }, title),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Time'),
        used.map((one) => h('th', { scope: 'col', class: 'number' }, one.label)))),
      h('tbody', {}, picked.map((sample) => h('tr', {}, h('th', { scope: 'row' }, clock(sample.at)),
        used.map((one) => h('td', { class: 'number' }, valueOf(one, sample))))))));
  }
}
