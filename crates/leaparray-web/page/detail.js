// The details of one resource.

import { AXIS_LEFT, AXIS_RIGHT, drawController, drawFlight, drawHeat, drawHistogram, drawQuantiles, drawRates, HEAT_BOTTOM, HEAT_TOP, heatRows, mergeCells, plainRange, QUANTILES, RT_FROM } from './charts.js';
import { byId, element, escaped, fillTable, headCell, scrolledBox, setClass, setText, setTitle, sizes, watchSize } from './dom.js';
import { formatClock, formatCount, formatDuration, formatShare, formatTime, MISSING } from './format.js';
import { Moment, secondSentence } from './moment.js';
import { endedRecently } from './order.js';
import { BLOCK, CANCELLED, EXCEPTION, HISTORY, IN_FLIGHT, MAX_IN_FLIGHT, PASS, RT_COUNT, RT_MAX, RT_SUM, SUCCESS, TIMES, UNKNOWN } from './ring.js';
import { RECENT } from './rule.js';
import { isUnlimited } from './store.js';
import { ledgerParts } from './tiles.js';
import { formatProbe, heldFor, LEVEL_SIGNS, reasonName, reasonSums } from './verdict.js';

const FIGURES = ['Succeeded', 'Failed', 'Cancelled', 'Refused', 'In flight', 'mean', 'max', 'p50', 'p90', 'p99', 'p99.9'];
/** What the columns of `FIGURES` are in a row of a window: pass comes first. */
const W_SUCCESS = 1, W_EXCEPTION = 2, W_CANCELLED = 3, W_BLOCK = 4, W_IN_FLIGHT = 5, W_MAX_IN_FLIGHT = 6, W_RT_COUNT = 7;

export class DetailView {
  /** `onPin(second)` puts a second into the address. */
  constructor(store, onPin) {
    this.store = store;
    this.onPin = onPin;
    this.root = byId('detail');
    /** The name and context that are shown, `null` for none. */
    this.opened = null;
    /** The second that is read with the pointer or the arrow keys. */
    this.cursor = null;
    this.pointerY = null;
  }

  /** Builds the elements for another resource. */
  open(view) {
    this.opened = { resource: view.resource, context: view.context };
    this.cursor = null;
    this.charts = {};
    this.controllers = [];
    this.root.replaceChildren(this.makeVerdict(view), this.makeFigures(), this.makePanes());
    this.root.hidden = false;
    this.root.scrollTop = 0;
    this.root.setAttribute('aria-label', escaped(`Details of ${view.resource}`));
    this.update();
  }

  shows(view) {
    return this.opened?.resource === view.resource && this.opened.context === view.context;
  }

  close() {
    this.opened = null;
    this.root.hidden = true;
    this.root.replaceChildren();
    byId('readout').hidden = true;
  }

  makeVerdict(view) {
    const head = element('header', 'verdict');
    const title = head.appendChild(element('h2', '', view.resource));
    if (view.context !== null) title.append(element('bdi', 'context', ` ↳ ${view.context}`));
    this.badge = head.appendChild(element('span', 'badge'));
    this.sentence = head.appendChild(element('p', 'sentence'));
    this.moment = new Moment(this, head, view.at);
    return head;
  }

  makeFigures() {
    const table = element('table', 'figures');
    const head = table.createTHead().insertRow();
    for (const name of ['', ...FIGURES]) {
      if (name === '') head.insertCell();
      else head.append(headCell(name));
    }
    this.figures = table.createTBody();
    const box = scrolledBox('figures-box', 'Figures');
    box.append(table);
    return box;
  }

  makePanes() {
    const panes = element('div', 'panes');
    const upper = panes.appendChild(element('div'));
    this.addChart(upper, 'rates', 'Requests per second', 'succeeded up; failed, cancelled, refused down; one scale');
    this.controlList = upper.appendChild(element('div'));
    this.addChart(upper, 'quantiles', 'Response time percentiles', 'log scale; faint where too few requests finished');
    panes.append(this.makeFacts());
    // The map and the histogram are in one row, so that their rows of response times are too.
    this.addChart(panes, 'heat', 'Response times', 'one column a second; empty is none');
    this.addChart(panes, 'histogram', 'Last 60 s', 'the rows of the map, summed');
    this.addChart(panes, 'flight', 'In flight', 'the most at a time, in each second');
    return panes;
  }

  addChart(parent, name, title, note) {
    const chart = parent.appendChild(element('section', `chart ${name.replace(/\d+/, '')}`));
    const head = chart.appendChild(element('h3', '', title));
    setTitle(head, `${title}: ${note}`);
    head.append(element('small', '', note));
    const canvas = chart.appendChild(element('canvas'));
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${title}: ${note}`);
    const none = chart.appendChild(element('p', 'none'));
    none.hidden = true;
    watchSize(canvas);
    if (name !== 'histogram') {
      canvas.addEventListener('pointermove', (event) => this.point(canvas, name, event));
      canvas.addEventListener('pointerleave', () => this.setCursor(this.moment.cursor(), null));
      canvas.addEventListener('click', () => this.onPin(this.cursor));
    }
    this.charts[name] = { chart, canvas, none };
  }

  makeFacts() {
    const facts = element('aside', 'facts');
    this.reasons = addFacts(facts, 'Refused', 'by reason', ['reason', 'last s', '60 s', 'ever']);
    this.control = addFacts(facts, 'Limits and breakers', '', []);
    this.ledger = addFacts(facts, 'Where every count is', 'since the start', []);
    this.responses = addFacts(facts, 'Responses', 'by status, since the start', []);
    this.limiters = addFacts(facts, 'Refused by', 'limiter, since the start', []);
    return facts;
  }

  update() {
    const { store } = this;
    if (this.opened === null) return;
    this.node = this.findNode(store);
    this.detail = this.matchingDetail(store);
    this.showVerdict();
    this.showFigures();
    this.showReasons();
    this.showResponses();
    this.showLimiters();
    this.showControllers();
    this.showLedger();
    this.moment.update();
    this.draw();
  }

  /** The resource: that of the server's details, if there is one of each direction. */
  findNode(store) {
    const { resource, context } = this.opened;
    const detailed = store.byId.get(store.detail?.id);
    return detailed?.name === resource && detailed.context === context ? detailed : store.named(resource, context);
  }

  /** The server's details, if they are those of this resource: those of the one before may still be here. */
  matchingDetail(store) {
    const { detail } = store;
    if (detail === null || detail.id === null || this.node === null) return null;
    return detail.id === this.node.id ? detail : null;
  }

  showVerdict() {
    const { node, store } = this;
    if (node === null) {
      setText(this.badge, '· not listed');
      setClass(this.badge, 'badge level-0');
      return setText(this.sentence, store.hello ? 'The server lists no such resource now: not used yet, or removed.' : '');
    }
    const { level, parts } = node.verdict;
    setClass(this.badge, `badge level-${level}`);
    setText(this.badge, `${LEVEL_SIGNS[level]} ${parts[0] ?? 'quiet'}`);
    return setText(this.sentence, parts.length > 0 ? parts.slice(1).join(' · ') : quietSentence(node, store));
  }

  showFigures() {
    const rows = this.node === null ? [] : [ringFigures(this.node.history, this.store.newest)];
    const message = this.detail?.message;
    if (message) {
      const [interval] = message.window.long;
      const words = interval === HISTORY ? 'minute' : formatDuration(interval);
      // A page that is paused has those of the time at which it has read them.
      const isOld = this.store.newest - message.t > 2;
      rows.push(windowFigures(isOld ? `${words} to ${formatClock(message.t)}` : `last ${words}`, message.minute, true), lifetimeFigures(message.lifetime));
    }
    fillTable(this.figures, rows);
  }

  showReasons() {
    const { node, store } = this;
    const { parentElement } = this.reasons;
    parentElement.parentElement.hidden = node === null;
    if (node === null) return;
    const known = store.secondsWithReasons(HISTORY);
    setText(parentElement.tHead.rows[0].cells[2], known < HISTORY ? `known ${known} s` : '60 s');
    const ever = this.detail?.message.refusals;
    const minute = reasonSums(store, node, store.newest, HISTORY);
    const last = (reason) => (store.knowsReasons(store.newest) ? node.history.refusedFor(store.newest, reason) : NaN);
    const all = minute.map((count, reason) => ({ reason, count, ever: ever?.[reason] ?? NaN }));
    const rows = all.filter(({ count, ever: total }) => count > 0 || total > 0)
      .sort((a, b) => b.count - a.count || b.ever - a.ever)
      .map(({ reason, count, ever: total }) => [[reasonName(store, reason)], countCell(last(reason)), countCell(known > 0 ? count : NaN), countCell(total)]);
    const others = rows.length === 0 ? 'any reason' : `${store.reasons - rows.length} other reasons`;
    const zeroIf = (isKnown) => countCell(isKnown ? 0 : NaN);
    if (rows.length < store.reasons) rows.push([[others, 'zero'], zeroIf(store.knowsReasons(store.newest)), zeroIf(known > 0), zeroIf(ever !== undefined)]);
    fillTable(this.reasons, rows);
  }

  /** The responses by the class of their status, if the resource has some: a service that is not of HTTP has none. */
  showResponses() {
    const counts = this.detail?.message.responses ?? [];
    this.responses.parentElement.parentElement.hidden = !counts.some((count) => count > 0);
    fillTable(this.responses, counts.map((count, i) => [[`${i + 1}xx`], countCell(count)]));
  }

  /** The refused requests by the name of the limiter, the most first, if limiters with names have refused. */
  showLimiters() {
    const counts = this.detail?.message.refused_by ?? [];
    this.limiters.parentElement.parentElement.hidden = counts.length === 0;
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    fillTable(this.limiters, sorted.map(([name, count]) => [[name], countCell(count)]));
  }

  showControllers() {
    const { store } = this;
    const list = this.node?.context === null ? store.controllers.get(this.node.name) ?? [] : [];
    this.control.parentElement.parentElement.hidden = list.length === 0;
    fillTable(this.control, list.flatMap((controller) => controllerFacts(controller, store)));
    list.forEach((controller, i) => {
      if (this.controllers[i] !== undefined) return;
      this.addChart(this.controlList, `control${i}`, CONTROLLER_TITLES[controller.kind] ?? controller.kind, CONTROLLER_NOTES[controller.kind] ?? '');
      this.controllers[i] = `control${i}`;
    });
    this.controlled = list;
  }

  showLedger() {
    const ledger = this.detail?.message.ledger;
    this.ledger.parentElement.parentElement.hidden = !ledger;
    if (!ledger) return;
    const parts = ledgerParts(ledger);
    const sum = parts.reduce((whole, [, count]) => whole + count, 0);
    const [interval] = this.detail.message.window.long;
    fillTable(this.ledger, [
      ...parts.map(([word, count]) => [[word === 'in window' ? `in the window (${formatDuration(interval)})` : word], countCell(count)]),
      [['sum'], [formatCount(sum)]],
      [['recorded'], this.recordedCell(sum, ledger.recorded)],
    ]);
    const { rows } = this.ledger;
    [...rows].forEach((row, i) => setClass(row, ['recorded', 'sum'][rows.length - 1 - i] ?? ''));
  }

  /**
   * The count of the lifetime. It is read apart from the ledger: while requests are recorded, those between are not in both.
   * They may be in the second that is not over yet, so a difference is wrong only if the next message has one, too.
   */
  recordedCell(sum, recorded) {
    const { history } = this.node;
    const moving = [PASS, SUCCESS, EXCEPTION, CANCELLED, BLOCK].reduce((whole, column) => whole + history.sum(this.store.newest, 2, column), 0);
    const difference = Math.abs(recorded - sum);
    const isWrong = this.detail.isUnexplained(difference > moving);
    if (difference === 0) return [`${formatCount(recorded)} ✓`];
    if (isWrong) return [`${formatCount(recorded)} ≠`, 'wrong', `It differs from the sum by ${formatCount(difference)}, and no requests explain that`];
    return [`${formatCount(recorded)} ±`, '', `It differs from the sum by ${formatCount(difference)}: requests were recorded between the two readings`];
  }

  /** Draws all charts; alone, after the pointer has moved. */
  draw() {
    const { store, node, cursor } = this;
    this.root.lastChild.hidden = node === null;
    if (node === null) byId('readout').hidden = true;
    if (node === null || store.newest === 0) return;
    const { canvas } = this.charts.heat;
    const rows = this.detail === null ? null : heatRows(this.detail, store, sizes.get(canvas).height - HEAT_TOP - HEAT_BOTTOM);
    this.rowsOfHeat = rows;
    drawRates(this.charts.rates.canvas, store, node.history, cursor);
    this.controlled.forEach((controller, i) => drawController(this.charts[`control${i}`].canvas, store, controller, cursor));
    drawQuantiles(this.charts.quantiles.canvas, store, node.history, rows ?? plainRange(node.history, store), cursor);
    drawFlight(this.charts.flight.canvas, store, node.history, cursor);
    this.drawHeatMap(rows);
    this.showReadout();
  }

  drawHeatMap(rows) {
    const { none, canvas } = this.charts.heat;
    const missing = this.whyNoHistogram();
    canvas.hidden = this.charts.histogram.chart.hidden = missing !== '';
    none.hidden = missing === '';
    setText(none, missing);
    if (missing !== '' || this.detail === null) return;
    drawHeat(canvas, this.store, this.detail, this.node.history, rows, this.cursor);
    drawHistogram(this.charts.histogram.canvas, this.store, this.detail, rows);
  }

  whyNoHistogram() {
    if (this.detail === null) return document.body.dataset.state === 'paused' ? 'Paused: the map comes when the page resumes.' : '';
    return this.detail.message.window.histogram_error === null ? 'This resource keeps no histogram of its response times.' : '';
  }

  /** Reads the second under the pointer. */
  point(canvas, name, event) {
    const { width } = sizes.get(canvas);
    const column = Math.floor((event.offsetX - AXIS_LEFT) / ((width - AXIS_LEFT - AXIS_RIGHT) / HISTORY));
    if (column < 0 || column >= HISTORY) return this.setCursor(null, null);
    return this.setCursor(this.store.newest - HISTORY + 1 + column, name === 'heat' ? event.offsetY : null);
  }

  /** Moves the second that is read. */
  step(direction) {
    const { newest } = this.store;
    const next = this.cursor === null ? newest : this.cursor + direction;
    this.setCursor(Math.min(newest, Math.max(newest - HISTORY + 1, next)), null);
    setText(byId('announcement'), byId('readout').textContent);
  }

  setCursor(cursor, pointerY) {
    if (this.cursor === cursor && this.pointerY === pointerY) return;
    this.cursor = cursor;
    this.pointerY = pointerY;
    this.draw();
  }

  showReadout() {
    const { cursor, store, node } = this;
    const readout = byId('readout');
    if (cursor !== null && cursor <= store.newest - HISTORY) this.cursor = null;
    readout.hidden = this.cursor === null;
    if (this.cursor === null) return;
    const cell = this.pointerY === null ? '' : this.heatCell(cursor);
    setText(readout, secondSentence(store, node.history, cursor) + cell);
  }

  /** The count of the cell of the heat map under the pointer, with its bounds. */
  heatCell(cursor) {
    const rows = this.rowsOfHeat;
    if (rows === null || !this.store.knows(cursor) || !this.detail.knows(cursor, this.node.history)) return '';
    const { height } = sizes.get(this.charts.heat.canvas);
    const row = Math.floor((height - HEAT_BOTTOM - this.pointerY) / ((height - HEAT_TOP - HEAT_BOTTOM) / rows.count));
    if (row < 0 || row >= rows.count) return '';
    const bound = (i) => formatTime(2 ** ((rows.lowest + i) * rows.merged / rows.perDoubling) * 1e9);
    const count = mergeCells(this.detail.second(cursor), rows)[row];
    return ` · here ${formatCount(count)} from ${bound(row)} to ${bound(row + 1)}`;
  }
}

const CONTROLLER_TITLES = { drop: 'Breaker', circuit: 'Circuit breaker', limit: 'Limit', keyed: 'Limit of each key', unknown: 'Limiter or breaker' };
const CONTROLLER_NOTES = {
  drop: 'share of requests that it drops before they are sent',
  circuit: 'open: nothing is sent; half: probes only',
  limit: 'taken of the limit, which is the line',
  keyed: 'keys that it knows',
  unknown: 'its state cannot be read: it panics',
};

/** Adds a table with a title to the facts, and returns its body. */
function addFacts(parent, title, note, columns) {
  const section = parent.appendChild(element('section'));
  const head = section.appendChild(element('h3', '', title));
  head.append(element('small', '', note));
  const table = section.appendChild(element('table'));
  if (columns.length > 0) {
    const row = table.createTHead().insertRow();
    for (const column of columns) row.append(element('th', '', column));
  }
  return table.createTBody();
}

export function countCell(count) {
  if (!Number.isFinite(count)) return [MISSING, 'zero'];
  return [formatCount(count), count === 0 ? 'zero' : ''];
}

export function timeCell(nanos, requests, enough) {
  if (!(nanos >= 0) || nanos === null) return [MISSING, 'zero'];
  const few = requests < enough;
  return [formatTime(nanos), few ? 'few' : '', few ? `of ${formatCount(requests)} requests only` : ''];
}

/** The figures of a window; `asMost` tells the most in flight rather than those in flight now. */
function windowFigures(title, row, asMost) {
  const requests = row[W_RT_COUNT];
  const time = (column) => row[RT_FROM + column];
  const flight = row[asMost ? W_MAX_IN_FLIGHT : W_IN_FLIGHT];
  const [flightText, flightClass] = countCell(flight ?? NaN);
  return [
    [title, '', asMost ? 'The window of the server up to now. The charts, and the refusals by reason, are of the last 60 whole seconds of the clock.'
      : 'The newest whole second of the clock, as in the table and the charts.'],
    ...[W_SUCCESS, W_EXCEPTION, W_CANCELLED, W_BLOCK].map((column) => countCell(row[column])),
    [asMost && flight !== null ? `≤ ${flightText}` : flightText, flightClass],
    timeCell(requests > 0 ? time(RT_SUM) / requests : null, requests, 1),
    timeCell(time(RT_MAX), requests, 1),
    ...QUANTILES.map((quantile) => timeCell(time(quantile.column), requests, quantile.enough)),
  ];
}

function lifetimeFigures(lifetime) {
  const counts = lifetime.slice(1).map(countCell);
  return [['since the start'], ...counts, ...FIGURES.slice(counts.length).map(() => [''])];
}

/** The last second, with the numbers of the table of all resources. A window of the server could begin and end in a second. */
function ringFigures(ring, t) {
  const row = [PASS, SUCCESS, EXCEPTION, CANCELLED, BLOCK, IN_FLIGHT, MAX_IN_FLIGHT, RT_COUNT].map((column) => ring.count(t, column));
  const known = row.map((count) => (count === UNKNOWN ? null : count));
  for (let column = 0; column < TIMES; column++) known.push(ring.time(t, column));
  return windowFigures('last second', known, false);
}

function quietSentence(node, store) {
  const t = store.newest;
  const ended = endedRecently(node, t);
  if (ended === 0) return `Nothing ended in the last ${RECENT} s.`;
  const failed = node.history.sum(t, RECENT, EXCEPTION), refused = node.history.sum(t, RECENT, BLOCK);
  return `${formatCount(ended)} ended in the last ${RECENT} s, ${formatCount(failed)} of them failed; ${formatCount(refused)} were refused.`;
}

/** Limits and states in words. */
function controllerFacts(controller, store) {
  const now = controller.now;
  const held = ['for', heldFor(controller, store).replace(/^for /, '')];
  const facts = { drop: () => [['drops', formatShare(now.probability, 1)], held], limit: () => limitFacts(now), circuit: () => circuitFacts(now, held), keyed: () => keyedFacts(now) };
  const known = facts[controller.kind]?.();
  const rows = now.shadow ? [...known ?? [], ...shadowFacts(now.shadow)] : known ?? [['state', 'not known']];
  return rows.map(([word, value]) => [[word], [value]]);
}

const SHADOW_MODES = {
  off: 'off: it is not asked', shadow: 'in the shadow: it refuses nothing', enforce: 'enforced',
};

/** How far a limiter is enforced, and what it would refuse. No count of refused requests has these. */
function shadowFacts({ mode, enforced_share: share, would_refuse: refuse, would_delay: delay }) {
  const words = SHADOW_MODES[mode] ?? `enforced for ${formatShare(share, 1)} of the ${mode}`;
  const facts = [['mode', words], ['let through, would be refused', formatCount(refuse)]];
  return delay > 0 ? [...facts, ['let through, would wait', formatCount(delay)]] : facts;
}

function limitFacts(now) {
  if (isUnlimited(now)) return [['limit', 'unlimited']];
  return [['limit', formatCount(now.limit)], ['remaining', formatCount(now.remaining)]];
}

/** The keys with the most refused requests while they were stored, the most refused first. */
function keyedFacts(now) {
  const top = now.top_refused.map(({ key, refusals }) => [`refused: ${key}`, formatCount(refusals)]);
  return [['keys', formatCount(now.keys)], ...top];
}

function circuitFacts(now, held) {
  const facts = [['state', now.state], held];
  if (Number.isFinite(now.probe_in)) facts.push(['next probe', formatProbe(now.probe_in)]);
  if (now.cause) facts.push(['cause', now.cause]);
  return facts;
}
