// SPDX-License-Identifier: Apache-2.0
//
// What happens now: tiles with numbers, and charts of the last three minutes.

import { Chart } from './chart.js';
import { h } from './dom.js';
import { WORDS } from './samples.js';
import { brief, bytes, count, micros, span } from './text.js';

const rounded = (number) => (number < 10 ? Math.round(number * 10) / 10 : Math.round(number));
const rate = (number) => (number === null ? '–' : brief(rounded(number)));

function charts() {
  const verdict = (name) => ({
    name, label: name, always: name === 'EXECUTE' || name === 'REPLAY',
    value: (sample) => sample.rates?.[name] ?? null,
  });
  return [
    new Chart({ id: 'verdicts', title: 'Calls per second', note: 'by verdict', stacked: true, format: rate, min: 4,
      series: [...WORDS, 'other', 'errors'].map(verdict) }),
    new Chart({ id: 'latency', title: 'Latency', note: 'of calls inside the server, over 10 s',
      log: true, format: micros, min: 100,
      series: [
        { name: 'p50', label: 'half within', always: true, value: (sample) => sample.latency50 },
        { name: 'p99', label: '99 % within', always: true, value: (sample) => sample.latency99 }] }),
    new Chart({ id: 'write', title: 'Durable writes', note: 'a write and its fsync, over 10 s',
      log: true, format: micros, min: 100,
      series: [
        { name: 'p50', label: 'half within', always: true, value: (sample) => sample.write50 },
        { name: 'p99', label: '99 % within', always: true, value: (sample) => sample.write99 }] }),
    new Chart({ id: 'batch', title: 'Batch size', note: 'records that share one durable write',
      format: rate, min: 4,
      series: [{ name: 'batch', label: 'records a write', always: true, fill: true,
        value: (sample) => sample.batch }] }),
    new Chart({ id: 'keys', title: 'Keys', note: 'that the store remembers', format: brief, min: 10,
      series: [{ name: 'keys', label: 'keys', always: true, fill: true, value: (sample) => sample.stats.keys }] }),
    new Chart({ id: 'memory', title: 'Memory', note: 'of the process, and its index',
      format: bytes, base: 1024, min: 1 << 20,
      series: [
        { name: 'memory', label: 'process', always: true, fill: true,
          value: (sample) => sample.stats.memory_size || null },
        { name: 'index', label: 'index', always: true, value: (sample) => sample.stats.index_size }] }),
    new Chart({ id: 'disk', title: 'Disk', note: 'that the store takes, and needs',
      format: bytes, base: 1024, min: 1 << 20,
      series: [
        { name: 'disk', label: 'on disk', always: true, fill: true, value: (sample) => sample.stats.disk_size },
        { name: 'live', label: 'needed', always: true, value: (sample) => sample.stats.live_size }] }),
  ];
}

/** share: 0 to 1, as a bar; none where there is no bound. */
function tile(id, label, href) {
  const value = h('span', { class: 'tile-value' }, '–');
  const note = h('span', { class: 'tile-note muted' }, '\u00a0');
  const meter = h('span', { class: 'meter', 'aria-hidden': 'true', hidden: true },
    h('span', { class: 'meter-fill' }));
  const inner = [h('span', { class: 'tile-label' }, label), value, note, meter];
  const element = h('li', { class: 'tile', 'data-testid': `tile-${id}` }, href ? h('a', { href }, inner) : inner);
  return {
    element,
    show(text, more = '', share = null, alarm = '') {
      if (value.textContent !== text) value.textContent = text;
      if (note.textContent !== more) note.textContent = more || '\u00a0';
      meter.hidden = share === null;
      meter.firstChild.style.width = `${Math.min(100, Math.max(0.5, (share ?? 0) * 100))}%`;
      element.dataset.alarm = alarm;
    },
  };
}

const shareOf = (part, whole) => (whole > 0 ? part / whole : null);

function full(share) {
  if (share === null) return '';
  return share > 0.95 ? 'high' : share > 0.85 ? 'some' : '';
}

function showTiles(tiles, sample) {
  const { stats } = sample;
  const disk = shareOf(stats.disk_size, stats.disk_size_max);
  const keys = shareOf(stats.keys, stats.keys_max);
  const connections = stats.connections.resp + stats.connections.http;
  tiles.rate.show(rate(sample.total ?? null), `calls a second; ${count(connections)} connections`);
  tiles.doubts.show(count(stats.doubts) + (stats.doubts_more ? '+' : ''),
    stats.doubts > 0 ? 'wait for a decision' : 'nothing to decide', null, stats.doubts > 0 ? 'high' : '');
  tiles.open.show(count(stats.started),
    stats.parked > 0 ? `${count(stats.parked)} callers wait` : 'in progress now');
  tiles.keys.show(brief(stats.keys), keys === null ? 'remembered' : `of ${brief(stats.keys_max)}`,
    keys, full(keys));
  tiles.latency.show(micros(sample.latency99 ?? null), 'of calls: 99 % within');
  tiles.write.show(micros(sample.write99 ?? null),
    sample.writes ? `${rate(sample.writes)} writes a second` : 'of writes: 99 % within');
  tiles.memory.show(bytes(stats.memory_size || stats.index_size),
    stats.shared ? 'of this server' : `index ${bytes(stats.index_size)}`);
  tiles.disk.element.hidden = stats.shared;
  if (stats.shared) return;
  tiles.disk.show(bytes(stats.disk_size),
    disk === null ? `${bytes(stats.disk_free)} free` : `of ${bytes(stats.disk_size_max)}`, disk, full(disk));
}

export function nowView(route, context) {
  const tiles = {
    rate: tile('rate', 'Calls'), doubts: tile('doubts', 'Doubts', '#/doubts'),
    open: tile('open', 'In progress', '#/operations?state=started'), keys: tile('keys', 'Keys', '#/operations'),
    latency: tile('latency', 'Latency'), write: tile('write', 'Durable write'),
    memory: tile('memory', 'Memory'), disk: tile('disk', 'Disk'),
  };
  const plots = charts();
  const diskPlot = plots.at(-1);
  const uptime = h('p', { class: 'lead' }, '\u00a0');
  const draw = () => plots.forEach((plot) => plot.draw(context.samples.all, Date.now()));
  const tick = (sample) => {
    if (sample) {
      const { stats } = sample;
      showTiles(tiles, sample);
      uptime.textContent = `Running for ${span(stats.uptime_ms - (stats.uptime_ms % 1000))}`
        + `${stats.stopped ? '. The store has stopped: it takes no more writes' : ''}`
        + `${stats.shared ? ' on a shared store; calls and connections are those of this server' : ''}`
        + `${stats.unreachable ? '. The database does not answer' : ''}.`;
      uptime.dataset.alarm = stats.stopped || stats.unreachable ? 'high' : '';
      diskPlot.element.hidden = stats.shared;
    }
    draw();
  };
  return {
    title: 'Now',
    element: h('div', {}, uptime,
      h('ul', { class: 'tiles', 'aria-label': 'Numbers of now' }, Object.values(tiles).map((one) => one.element)),
      h('div', { class: 'charts' }, plots.map((plot) => plot.element))),
    shown() {
      const known = context.samples.all.findLast((sample) => sample.stats);
      tick(known ?? null);
    },
    tick,
    leave() { plots.forEach((plot) => plot.leave()); },
  };
}
