// The tiles: totals of all resources.

import { byId, setText, setTitle, sizes, watchSize } from './dom.js';
import { formatCount, formatDuration, formatShareOrCounts, formatShort, formatTime, MISSING } from './format.js';
import { palette } from './palette.js';
import { BLOCK, CANCELLED, EXCEPTION, HISTORY, IN_FLIGHT, P50, P99, P999, SUCCESS, UNKNOWN } from './ring.js';
import { FEW } from './rule.js';
import { drawColumn, drawTimes, Surface } from './strips.js';
import { FAILING, LEVEL_SIGNS, LEVEL_WORDS, reasonName, STRAINED } from './verdict.js';

class Tile {
  constructor(name) {
    this.root = byId(`tile-${name}`);
    this.value = this.root.querySelector('b');
    this.unit = this.root.querySelector('.unit');
    this.note = this.root.querySelector('.note');
    this.surface = new Surface(this.root.querySelector('canvas'));
    watchSize(this.root);
  }

  /** Shows a count, in full in the title and in `data-value`. */
  show(count, note) {
    setText(this.value, Number.isFinite(count) ? formatShort(count) : MISSING);
    setTitle(this.root, Number.isFinite(count) ? formatCount(count) : '');
    this.root.dataset.value = count;
    setText(this.note, note);
  }

  /** Draws the small chart at the bottom of the tile. */
  draw(height, drawOn) {
    const { width } = sizes.get(this.root);
    this.surface.resize(width, height, 1);
    this.surface.clear();
    drawOn(this.surface);
    this.surface.show();
  }
}

const CHART_HEIGHT = 18;

export class Tiles {
  constructor() {
    for (const name of ['trouble', 'ok', 'failed', 'refused', 'flight', 'times', 'ledger']) this[name] = new Tile(name);
  }

  update(store, levels) {
    this.showTrouble(levels);
    this.showCounts(store);
    this.showFlight(store);
    this.showTimes(store);
    this.showLedger(store.ledger);
  }

  showTrouble(levels) {
    const inTrouble = levels[FAILING] + levels[STRAINED];
    const all = inTrouble + levels[0];
    const words = [FAILING, STRAINED].filter((level) => levels[level] > 0)
      .map((level) => `${LEVEL_SIGNS[level]} ${formatCount(levels[level])} ${LEVEL_WORDS[level]}`);
    this.trouble.show(inTrouble, words.join('  ') || 'all quiet');
    setText(this.trouble.unit, `of ${formatCount(all)}`);
    this.trouble.root.dataset.level = levels[FAILING] > 0 ? FAILING : Number(inTrouble > 0);
    this.trouble.draw(CHART_HEIGHT, (surface) => drawSquares(surface, levels));
  }

  showCounts(store) {
    const { total, newest } = store;
    const sum = (column) => total.sum(newest, HISTORY, column);
    const ended = sum(SUCCESS) + sum(EXCEPTION) + sum(CANCELLED);
    this.ok.show(total.count(newest, SUCCESS), `${formatShort(sum(SUCCESS))} in the last minute`);
    this.failed.show(total.count(newest, EXCEPTION), ended === 0 ? 'nothing ended in 60 s'
      : `${formatShareOrCounts(sum(EXCEPTION), ended)}${ended < FEW ? '' : ` of ${formatShort(ended)}`}, 60 s`);
    this.refused.show(total.count(newest, BLOCK), refusedNote(store, sum(BLOCK)));
    for (const [tile, column, colour] of [[this.ok, SUCCESS, 'ok'], [this.failed, EXCEPTION, 'failed'], [this.refused, BLOCK, 'refused']]) {
      tile.draw(CHART_HEIGHT, (surface) => drawColumn(surface, total, store, 0, surface.height, column, palette.pixel[colour]));
    }
  }

  showFlight(store) {
    const { total, newest } = store;
    const flight = total.count(newest, IN_FLIGHT);
    let most = 0;
    for (let t = newest - HISTORY + 1; t <= newest; t++) {
      const count = store.knows(t) ? total.count(t, IN_FLIGHT) : 0;
      if (count !== UNKNOWN) most = Math.max(most, count);
    }
    this.flight.show(flight === UNKNOWN ? NaN : flight, `60 s: up to ${formatShort(most)}`);
    this.flight.draw(CHART_HEIGHT, (surface) => drawColumn(surface, total, store, 0, surface.height, IN_FLIGHT, palette.pixel.flight));
  }

  showTimes(store) {
    const { total, newest } = store;
    setText(this.times.value, formatTime(total.time(newest, P50)));
    setText(this.times.note, `p99 ${formatTime(total.time(newest, P99))} · p99.9 ${formatTime(total.time(newest, P999))}`);
    this.times.draw(CHART_HEIGHT, (surface) => drawTimes(surface, total, store, 0, surface.height));
  }

  showLedger(ledger) {
    if (ledger === null) return this.ledger.show(NaN, 'where every count is');
    const parts = ledgerParts(ledger);
    const sum = parts.reduce((whole, [, count]) => whole + count, 0);
    // The parts are read in turn: the sum of many resources is as old as the oldest of them.
    this.ledger.show(ledger.recorded, ledger.age > 0 ? `up to ${formatDuration(ledger.age)} old` : parts.map(([word]) => word).join(' + '));
    return this.ledger.draw(8, (surface) => drawParts(surface, parts, sum));
  }
}

/** Where counts can be, those that are always told first. */
export function ledgerParts(ledger) {
  const parts = [['in window', ledger.in_window], ['expired', ledger.expired], ['late', ledger.late]];
  if (ledger.delisted > 0) parts.push(['removed', ledger.delisted]);
  return parts;
}

function refusedNote(store, refused) {
  if (refused === 0) return 'none in 60 s';
  const sums = Array.from({ length: store.reasons }, (_, reason) => store.total.sumRefused(store.newest, HISTORY, reason));
  const known = sums.reduce((whole, count) => whole + count, 0);
  if (known === 0) return `${formatShort(refused)} in the last minute`;
  const most = Math.max(...sums);
  return `${formatShareOrCounts(most, known)}: ${reasonName(store, sums.indexOf(most))}`;
}

/** A square for each resource, those in trouble first; a bar of shares if they are too many. */
function drawSquares(surface, levels) {
  const colours = [palette.pixel.failed, palette.pixel.refused, palette.pixel.gap];
  const counts = [levels[FAILING], levels[STRAINED], levels[0]];
  const all = counts[0] + counts[1] + counts[2];
  const side = squareSide(surface, all);
  if (side < 3 * surface.scale) return drawShares(surface, counts, colours);
  const perLine = Math.floor(surface.width / side);
  for (let i = 0; i < all; i++) {
    const colour = colours[i < counts[0] ? 0 : i < counts[0] + counts[1] ? 1 : 2];
    surface.fill(i % perLine * side, Math.floor(i / perLine) * side, side - surface.scale, side - surface.scale, colour);
  }
  return undefined;
}

/** The largest square with which all find room. */
function squareSide(surface, all) {
  let side = 9 * surface.scale;
  while (side > 0 && Math.floor(surface.width / side) * Math.floor((surface.height + surface.scale) / side) < all) side--;
  return side;
}

/** A bar of shares; what is not zero has at least two pixels. */
function drawShares(surface, counts, colours) {
  const all = Math.max(1, counts.reduce((whole, count) => whole + count, 0));
  let left = 0;
  counts.forEach((count, i) => {
    if (count === 0) return;
    const width = Math.min(surface.width - left, Math.max(2 * surface.scale, Math.round(surface.width * count / all)));
    surface.fill(left, 0, width, surface.height, colours[i]);
    left += width;
  });
}

function drawParts(surface, parts, sum) {
  if (sum === 0) return surface.fill(0, 0, surface.width, surface.height, palette.pixel.gap);
  const colours = { 'in window': 'ok', expired: 'gap', late: 'failed', removed: 'cancelled' };
  return drawShares(surface, parts.map(([, count]) => count), parts.map(([word]) => palette.pixel[colours[word]]));
}
