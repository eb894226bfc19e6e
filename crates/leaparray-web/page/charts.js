// The large charts of the details, all on one time axis.

import { element, pixelScale, sizes } from './dom.js';
import { formatClock, formatShare, formatShort, formatTime } from './format.js';
import { HEAT_STEPS, heatColour, palette } from './palette.js';
import { BLOCK, CANCELLED, COUNTS, EXCEPTION, HISTORY, MAX_IN_FLIGHT, P50, P90, P99, P999, RT_COUNT, SUCCESS, UNKNOWN } from './ring.js';
import { RULE } from './rule.js';
import { isUnlimited } from './store.js';
import { barRange, timeRange } from './strips.js';

export const AXIS_LEFT = 54, AXIS_RIGHT = 62;
export const QUANTILES = [
  { column: P50, name: 'p50', enough: 10, line: 'line-1' },
  { column: P90, name: 'p90', enough: 20, line: 'line-2' },
  { column: P99, name: 'p99', enough: RULE.p99, line: 'line-3' },
  { column: P999, name: 'p99.9', enough: RULE.p999, line: 'line-4' },
];
const HEAT_ROW = 5;

/** Clears a canvas and returns how to draw on it, in pixels of the style sheet. */
function beginChart(canvas, store) {
  const { width, height } = sizes.get(canvas);
  const scale = pixelScale();
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = palette.font;
  context.textBaseline = 'middle';
  const step = (width - AXIS_LEFT - AXIS_RIGHT) / HISTORY;
  const first = store.newest - HISTORY + 1;
  return { context, width, height, step, first, right: width - AXIS_RIGHT, x: (t) => AXIS_LEFT + (t - first) * step };
}

/** A pattern of diagonal lines. */
function hatchPattern(context, lines, ground) {
  const tile = element('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  if (ground) {
    pen.fillStyle = ground;
    pen.fillRect(0, 0, 6, 6);
  }
  pen.strokeStyle = lines;
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, 'repeat');
}

/** Hatches the seconds of which nothing is known. */
function drawGaps(chart, store, top, height, isKnown = () => true) {
  const { context } = chart;
  context.fillStyle = hatchPattern(context, palette.css.gap, null);
  for (let t = chart.first; t <= store.newest; t++) {
    if (store.isBeforeStart(t) || (store.knows(t) && isKnown(t))) continue;
    context.fillRect(chart.x(t), top, chart.step + 0.5, height);
  }
}

/** A horizontal line of the scale with its label at the left. */
function drawTick(chart, y, label, strong) {
  const { context } = chart;
  context.fillStyle = palette.css[strong ? 'axis' : 'faint-line'];
  context.fillRect(AXIS_LEFT, Math.round(y), chart.right - AXIS_LEFT, 1);
  context.fillStyle = palette.css.soft;
  context.textAlign = 'right';
  context.fillText(label, AXIS_LEFT - 6, y + 1);
}

function drawCursor(chart, cursor, top, height) {
  if (cursor === null) return;
  chart.context.fillStyle = palette.css.cursor;
  chart.context.globalAlpha = 0.14;
  chart.context.fillRect(chart.x(cursor), top, chart.step, height);
  chart.context.globalAlpha = 1;
}

/** The next step of a scale with at most `parts` steps: 1, 2 or 5 times a power of ten, at least 1. */
function niceStep(range, parts) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, range / parts)));
  const step = [1, 2, 5, 10].find((factor) => factor * power * parts >= range) * power;
  return Math.max(1, step);
}

function barWidth(chart) {
  return Math.max(1, chart.step - (chart.step > 3 ? 1 : 0));
}

export function drawRates(canvas, store, history, cursor) {
  const chart = beginChart(canvas, store);
  const { context } = chart;
  const { up, down } = barRange(history, store);
  const top = 8, bottom = chart.height - 8;
  const step = niceStep(up + down, 5);
  const above = Math.max(step, Math.ceil(up / step) * step), below = down === 0 ? 0 : Math.ceil(down / step) * step;
  const unit = (bottom - top) / (above + below);
  const zero = top + above * unit;
  for (let count = -below; count <= above; count += step) drawTick(chart, zero - count * unit, formatShort(Math.abs(count)), false);
  drawGaps(chart, store, top, bottom - top);
  const refusedFill = hatchPattern(context, palette.css['refused-dark'], palette.css.refused);
  const width = barWidth(chart);
  for (let t = chart.first; t <= store.newest; t++) {
    if (!store.knows(t) || !history.has(t)) continue;
    drawBar(chart, t, zero, -history.count(t, SUCCESS) * unit, width, palette.css.ok);
    let y = zero + 1;
    for (const [column, fill] of [[EXCEPTION, palette.css.failed], [CANCELLED, palette.css.cancelled], [BLOCK, refusedFill]]) {
      y = drawBar(chart, t, y, history.count(t, column) * unit, width, fill);
    }
  }
  drawTick(chart, zero, '0', true);
  drawSideLabels(chart, [
    { y: zero - 10, text: 'ok', color: 'ok' },
    ...(down > 0 ? [{ y: zero + 12, text: downLabel(history, store), color: 'soft' }] : []),
  ]);
  drawCursor(chart, cursor, top, bottom - top);
}

/** What the bars below the line are in the newest seconds, in the words of the legend. */
function downLabel(history, store) {
  const sums = [EXCEPTION, CANCELLED, BLOCK].map((column) => history.sum(store.newest, HISTORY, column));
  return ['failed', 'cancelled', 'refused'][sums.indexOf(Math.max(...sums))];
}

/** Draws a bar of at least one pixel if it is not zero, and returns where it ends. */
function drawBar(chart, t, y, length, width, fill) {
  if (length === 0) return y;
  const long = Math.sign(length) * Math.max(1, Math.abs(length));
  chart.context.fillStyle = fill;
  chart.context.fillRect(chart.x(t), y, width, long);
  return y + long;
}

/** Labels at the right, moved apart where they would cover each other. */
function drawSideLabels(chart, labels) {
  const { context } = chart;
  context.textAlign = 'left';
  labels.sort((a, b) => a.y - b.y);
  const distance = 13;
  let free = 6;
  labels.forEach((label, i) => {
    // Room for the labels below stays free.
    const y = Math.max(free, Math.min(label.y, chart.height - 6 - (labels.length - 1 - i) * distance));
    free = y + distance;
    context.fillStyle = palette.css[label.color];
    if (label.line) context.fillRect(chart.right + 4, y - 1, 8, 2);
    context.fillStyle = palette.css[label.line ? 'text' : label.color];
    context.fillText(label.text, chart.right + (label.line ? 16 : 6), y + 1);
  });
}

/** The state of a breaker or limiter: the share that it holds back, or what is taken of its limit. */
export function drawController(canvas, store, controller, cursor) {
  const chart = beginChart(canvas, store);
  const isLimit = controller.kind === 'limit';
  const known = (t) => controller.at[t % HISTORY] === t && Number.isFinite(controller.values[t % HISTORY]);
  const top = 6, bottom = chart.height - 8;
  const counts = isLimit ? controller.limits : controller.kind === 'keyed' ? controller.values : [];
  const most = Math.max(1, ...counts.filter(Number.isFinite));
  const unit = (bottom - top) / most;
  drawTick(chart, top, controllerTop(controller, most), false);
  drawGaps(chart, store, top, bottom - top, known);
  const width = barWidth(chart);
  for (let t = chart.first; t <= store.newest; t++) {
    if (!known(t) || !store.knows(t)) continue;
    drawBar(chart, t, bottom, -controller.values[t % HISTORY] * unit, width, palette.css.flight);
    if (isLimit) drawBar(chart, t, bottom - controller.limits[t % HISTORY] * unit, 1.5, chart.step, palette.css.refused);
  }
  drawTick(chart, bottom, controller.kind === 'circuit' ? 'closed' : '0', true);
  drawSideLabels(chart, [{ y: (top + bottom) / 2, text: controllerNow(controller), color: 'soft' }]);
  drawCursor(chart, cursor, top, bottom - top);
}

function controllerTop(controller, most) {
  if (controller.kind === 'circuit') return 'open';
  return controller.kind === 'limit' || controller.kind === 'keyed' ? formatShort(most) : '100 %';
}

/** The newest state in a word. */
function controllerNow(controller) {
  const now = controller.now;
  if (controller.kind === 'circuit') return now.state;
  if (controller.kind === 'drop') return formatShare(now.probability, 1);
  if (controller.kind === 'keyed') return `${formatShort(now.keys)} keys`;
  if (controller.kind !== 'limit') return 'not known';
  if (isUnlimited(now)) return 'unlimited';
  return `${formatShort(now.limit - now.remaining)} of ${formatShort(now.limit)}`;
}

export function drawFlight(canvas, store, history, cursor) {
  const chart = beginChart(canvas, store);
  const known = (t) => history.count(t, MAX_IN_FLIGHT) !== UNKNOWN;
  let most = 1;
  for (let t = chart.first; t <= store.newest; t++) {
    if (store.knows(t) && known(t)) most = Math.max(most, history.count(t, MAX_IN_FLIGHT));
  }
  const top = 6, bottom = chart.height - 8;
  drawTick(chart, top, formatShort(most), false);
  drawGaps(chart, store, top, bottom - top, known);
  const width = barWidth(chart);
  for (let t = chart.first; t <= store.newest; t++) {
    if (!store.knows(t) || !known(t)) continue;
    drawBar(chart, t, bottom, -history.count(t, MAX_IN_FLIGHT) / most * (bottom - top), width, palette.css.flight);
  }
  drawTick(chart, bottom, '0', true);
  drawCursor(chart, cursor, top, bottom - top);
}

/** The range of the percentiles, the heat map and the histogram: whole rows of logarithmic buckets. */
export function heatRows(detail, store, height) {
  const perDoubling = 2 ** detail.scale;
  let low = Infinity, high = -Infinity;
  for (let t = store.newest - HISTORY + 1; t <= store.newest; t++) {
    for (const [index] of detail.second(t)) {
      low = Math.min(low, index);
      high = Math.max(high, index);
    }
  }
  if (low > high) return null;
  const merged = Math.max(1, Math.ceil((high - low + 1) / (height / HEAT_ROW)));
  const lowest = Math.floor(low / merged), highest = Math.floor(high / merged);
  return { merged, lowest, count: highest - lowest + 1, perDoubling, low: lowest * merged / perDoubling,
    high: (highest + 1) * merged / perDoubling };
}

/** The logarithmic range of the percentiles if there is no histogram. */
export function plainRange(history, store) {
  const { low, high } = timeRange(history, store);
  const seconds = Math.log2(1e9);
  return Number.isFinite(low) ? { low: low - seconds, high: high - seconds } : null;
}

/** Marks of a logarithmic scale: powers of ten, with 2 and 5 between them if there are few. */
function timeTicks(range) {
  const ticks = (factors) => {
    const found = [];
    for (let power = -9; power <= 5; power++) {
      for (const factor of factors) {
        const place = Math.log2(factor * 10 ** power);
        if (place >= range.low && place <= range.high) found.push({ place, label: tickLabel(factor * 10 ** power) });
      }
    }
    return found;
  };
  const decades = ticks([1]);
  return decades.length > 1 ? decades : ticks([1, 2, 5]);
}

function tickLabel(seconds) {
  for (const [size, unit] of [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]) {
    if (seconds >= size * 0.999) return `${Math.round(seconds / size)} ${unit}`;
  }
  return '';
}

export function drawQuantiles(canvas, store, history, range, cursor) {
  const chart = beginChart(canvas, store);
  const top = 8, bottom = chart.height - 8;
  if (range === null) return;
  const y = (nanos) => bottom - (Math.log2(nanos / 1e9) - range.low) / (range.high - range.low) * (bottom - top);
  for (const tick of timeTicks(range)) drawTick(chart, bottom - (tick.place - range.low) / (range.high - range.low) * (bottom - top), tick.label, false);
  drawGaps(chart, store, top, bottom - top);
  const labels = [];
  for (const quantile of QUANTILES) {
    const last = drawQuantile(chart, store, history, quantile, y);
    // Of labels at one height, that of the higher percentile comes first.
    if (last !== null) labels.unshift({ y: last, text: quantile.name, color: quantile.line, line: true });
  }
  drawSideLabels(chart, labels);
  drawCursor(chart, cursor, top, bottom - top);
}

/** Draws one percentile: broken where a second has no value, faint where it has too few requests. */
function drawQuantile(chart, store, history, quantile, y) {
  const { context, step } = chart;
  let before = null, last = null;
  context.strokeStyle = palette.css[quantile.line];
  for (let t = chart.first; t <= store.newest; t++) {
    const nanos = store.knows(t) ? history.time(t, quantile.column) : NaN;
    if (!(nanos > 0)) {
      before = null;
      continue;
    }
    const enough = history.count(t, RT_COUNT) >= quantile.enough;
    const here = { x: chart.x(t) + step / 2, y: y(nanos), enough };
    const faint = !(enough && (before === null || before.enough));
    context.globalAlpha = faint ? 0.55 : 1;
    context.lineWidth = faint ? 1 : 1.6;
    context.setLineDash(faint ? [2, 2] : []);
    context.beginPath();
    // A value without neighbours is a short dash.
    context.moveTo(before?.x ?? here.x - step / 4, before?.y ?? here.y);
    context.lineTo(before === null ? here.x + step / 4 : here.x, here.y);
    context.stroke();
    before = here;
    last = here.y;
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
  return last;
}

/** The counts of a second in the rows of the heat map. */
export function mergeCells(cells, rows) {
  const merged = new Float64Array(rows.count);
  for (const [index, count] of cells) merged[Math.floor(index / rows.merged) - rows.lowest] += count;
  return merged;
}

export function drawHeat(canvas, store, detail, history, rows, cursor) {
  const chart = beginChart(canvas, store);
  const { context } = chart;
  const top = HEAT_TOP, bottom = chart.height - HEAT_BOTTOM;
  // Also the seconds of which the details bring no response times though there were some.
  drawGaps(chart, store, top, bottom - top, (t) => detail.knows(t, history));
  drawTimeAxis(chart, bottom, document.body.dataset.state === 'live' ? 'now' : formatClock(store.newest + 1));
  if (rows === null) return;
  const place = (log) => bottom - (log - rows.low) / (rows.high - rows.low) * (bottom - top);
  for (const tick of timeTicks(rows)) drawTick(chart, place(tick.place), tick.label, false);
  const columns = [];
  let most = 1;
  for (let t = chart.first; t <= store.newest; t++) {
    columns.push(store.knows(t) ? mergeCells(detail.second(t), rows) : null);
    most = Math.max(most, ...(columns.at(-1) ?? [0]));
  }
  const rowHeight = (bottom - top) / rows.count;
  const gap = rowHeight >= 4 && chart.step >= 5 ? 0.5 : 0;
  columns.forEach((counts, i) => counts?.forEach((count, row) => {
    if (count === 0) return;
    context.fillStyle = heatColour(count, most);
    context.fillRect(AXIS_LEFT + i * chart.step, bottom - (row + 1) * rowHeight, chart.step - gap, rowHeight - gap);
  }));
  drawHeatLegend(chart, most, top, bottom);
  drawCursor(chart, cursor, top, bottom - top);
}

export const HEAT_TOP = 6, HEAT_BOTTOM = 20;

/** The time axis; `end` is the time at its right end. */
function drawTimeAxis(chart, bottom, end) {
  const { context } = chart;
  context.fillStyle = palette.css.soft;
  context.textAlign = 'center';
  const every = chart.step * 10 < 55 ? 20 : 10;
  for (let ago = 60; ago >= 0; ago -= every) {
    context.fillText(ago === 0 ? end : `−${ago} s`, AXIS_LEFT + (HISTORY - ago) * chart.step, bottom + 12);
  }
}

function drawHeatLegend(chart, most, top, bottom) {
  const { context } = chart;
  const left = chart.right + 10, height = Math.min(96, bottom - top - 28);
  const start = (top + bottom - height) / 2;
  for (let y = 0; y < height; y++) {
    context.fillStyle = palette.heat[Math.round((1 - y / height) * (HEAT_STEPS - 1))];
    context.fillRect(left, start + y, 9, 1);
  }
  context.fillStyle = palette.css.soft;
  context.textAlign = 'left';
  context.fillText(formatShort(most), left, start - 8);
  context.fillText('1', left, start + height + 9);
}

/** The histogram of the last minute on the rows of the heat map, with the percentiles of the long window. */
export function drawHistogram(canvas, store, detail, rows) {
  const chart = beginChart(canvas, store);
  const { context, width } = chart;
  if (rows === null) return;
  const top = HEAT_TOP, bottom = chart.height - HEAT_BOTTOM;
  const sums = new Float64Array(rows.count);
  for (let t = chart.first; t <= store.newest; t++) {
    if (store.knows(t)) mergeCells(detail.second(t), rows).forEach((count, row) => { sums[row] += count; });
  }
  const most = Math.max(1, ...sums);
  const room = width - 92, rowHeight = (bottom - top) / rows.count;
  sums.forEach((count, row) => {
    if (count === 0) return;
    context.fillStyle = palette.css.ok;
    context.fillRect(0, bottom - (row + 1) * rowHeight, Math.max(1, room * count / most), Math.max(1, rowHeight - 1));
  });
  context.fillStyle = palette.css.axis;
  context.fillRect(0, top, 1, bottom - top);
  const { minute, window } = detail.message;
  // The percentiles are those of the long window.
  if (window.long[0] === HISTORY) drawMinuteQuantiles(chart, rows, minute, top, bottom, room);
}

function drawMinuteQuantiles(chart, rows, minute, top, bottom, room) {
  const { context, width } = chart;
  let before = -Infinity;
  for (const { name, column } of QUANTILES.toReversed()) {
    const nanos = minute[RT_FROM + column];
    if (!(nanos > 0)) continue;
    const place = (Math.log2(nanos / 1e9) - rows.low) / (rows.high - rows.low);
    const y = bottom - Math.min(1, Math.max(0, place)) * (bottom - top);
    // Labels keep their distance, downwards from p99.9.
    before = Math.max(6, y, before + 13);
    context.fillStyle = palette.css.soft;
    context.fillRect(0, Math.round(y), room, 1);
    context.textAlign = 'right';
    context.fillStyle = palette.css.text;
    context.fillText(`${name}  ${formatTime(nanos)}`, width, before);
  }
}

/** Where the response times begin in a row of a window, which has neither id nor second. */
export const RT_FROM = COUNTS - 1;
