// Many small charts at once: written as pixels into one image, which is faster than thousands of drawing calls.

import { pixelScale } from './dom.js';
import { palette } from './palette.js';
import { BLOCK, CANCELLED, EXCEPTION, HISTORY, P50, P90, P99, RT_COUNT, RT_MAX, RT_MIN, RT_SUM, SUCCESS, UNKNOWN } from './ring.js';

/** An image of whole pixels on a canvas. */
export class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.scale = 0;
    this.width = 0;
    this.height = 0;
  }

  /** Sets the size in pixels of the style sheet; the width becomes a multiple of `columns` pixels of the screen. */
  resize(width, height, columns) {
    const scale = pixelScale();
    const across = Math.max(1, Math.floor(width * scale / columns)) * columns;
    const down = Math.max(1, Math.round(height * scale));
    if (across === this.width && down === this.height && scale === this.scale) return;
    Object.assign(this, { scale, width: across, height: down });
    this.canvas.width = across;
    this.canvas.height = down;
    this.canvas.style.width = `${across / scale}px`;
    this.canvas.style.height = `${down / scale}px`;
    this.image = this.context.createImageData(across, down);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  clear() {
    this.pixels.fill(0);
  }

  show() {
    this.context.putImageData(this.image, 0, 0);
  }

  /** Fills a rectangle of pixels. */
  fill(left, top, width, height, pixel) {
    const bottom = Math.min(this.height, top + height);
    for (let y = Math.max(0, top); y < bottom; y++) {
      const start = y * this.width + left;
      this.pixels.fill(pixel, start, start + width);
    }
  }

  /** Draws diagonal lines; `ground` is the pixel between them, 0 for none. */
  hatch(left, top, width, height, pixel, ground) {
    const period = 4 * this.scale;
    const bottom = Math.min(this.height, top + height);
    for (let y = Math.max(0, top); y < bottom; y++) {
      for (let x = left; x < left + width; x++) {
        const line = (x + y) % period < this.scale;
        if (line || ground !== 0) this.pixels[y * this.width + x] = line ? pixel : ground;
      }
    }
  }
}

/** How a history's seconds are placed on a surface: the oldest at the left. */
function eachSecond(surface, store, top, height, draw) {
  const step = surface.width / HISTORY;
  // Bars have a gap between them where all of them can have the same one.
  const gap = Number.isInteger(step) && step > 2 ? Math.max(1, Math.floor(step / 4)) : 0;
  for (let i = 0; i < HISTORY; i++) {
    const t = store.newest - HISTORY + 1 + i;
    const left = Math.round(i * step), width = Math.round((i + 1) * step) - left;
    if (store.knows(t)) draw(t, left, width - gap, width);
    else if (!store.isBeforeStart(t)) surface.hatch(left, top, width, height, palette.pixel.gap, 0);
  }
}

/** The largest counts of a second upwards and downwards. */
export function barRange(history, store) {
  let up = 0, down = 0;
  for (let t = store.newest - HISTORY + 1; t <= store.newest; t++) {
    if (!store.knows(t) || !history.has(t)) continue;
    up = Math.max(up, history.count(t, SUCCESS));
    down = Math.max(down, history.count(t, EXCEPTION) + history.count(t, CANCELLED) + history.count(t, BLOCK));
  }
  return { up, down };
}

/** Draws the bars of a row on a scale of its own: succeeded up, failed, cancelled and refused down. */
export function drawBars(surface, history, store, top, height, muted) {
  const line = surface.scale;
  const { up, down } = barRange(history, store);
  const room = height - line;
  const most = Math.max(1, up + down);
  // What is not zero has at least two pixels.
  const below = down === 0 ? 0 : Math.max(2 * line, Math.round(room * down / most));
  const above = room - below;
  const axis = top + above;
  const length = (count, largest, space) => (count === 0 ? 0 : Math.max(line, Math.round(space * count / largest)));
  const ok = palette.pixel[muted ? 'ok-muted' : 'ok'];
  eachSecond(surface, store, top, height, (t, left, bar, step) => {
    surface.fill(left, axis, step, line, palette.pixel.gap);
    if (!history.has(t)) return;
    const success = length(history.count(t, SUCCESS), up, above);
    surface.fill(left, axis - success, bar, success, ok);
    let y = axis + line;
    const failed = length(history.count(t, EXCEPTION), down, below);
    surface.fill(left, y, bar, failed, palette.pixel.failed);
    y += failed;
    const cancelled = length(history.count(t, CANCELLED), down, below);
    surface.fill(left, y, bar, cancelled, palette.pixel.cancelled);
    y += cancelled;
    const refused = length(history.count(t, BLOCK), down, below);
    surface.hatch(left, y, bar, Math.min(refused, top + height - y), palette.pixel['refused-dark'], palette.pixel.refused);
  });
}

/** Draws the counts of one column as bars; a count that is not known is hatched. */
export function drawColumn(surface, history, store, top, height, column, pixel) {
  const line = surface.scale;
  let most = 1;
  for (let t = store.newest - HISTORY + 1; t <= store.newest; t++) {
    const count = store.knows(t) ? history.count(t, column) : 0;
    if (count !== UNKNOWN) most = Math.max(most, count);
  }
  eachSecond(surface, store, top, height, (t, left, bar, step) => {
    const count = history.count(t, column);
    if (count === UNKNOWN) return surface.hatch(left, top, step, height, palette.pixel.gap, 0);
    surface.fill(left, top + height - line, step, line, palette.pixel.gap);
    const length = count === 0 ? 0 : Math.max(line, Math.round((height - line) * count / most));
    return surface.fill(left, top + height - line - length, bar, length, pixel);
  });
}

/** The logarithms of the shortest and the longest response time that a strip shows. */
export function timeRange(history, store) {
  let low = Infinity, high = -Infinity;
  for (let t = store.newest - HISTORY + 1; t <= store.newest; t++) {
    if (!store.knows(t) || !history.has(t)) continue;
    const { bottom, top } = timeEnds(history, t);
    if (bottom > 0 && bottom < low) low = bottom;
    if (top > high) high = top;
  }
  // At least a factor of 16, so that even times are an even band.
  const middle = (Math.log2(low) + Math.log2(high)) / 2;
  const half = Math.max(2, (Math.log2(high) - Math.log2(low)) / 2);
  return { low: middle - half, high: middle + half };
}

/** The ends of the light band of a second: up to p99, or to the maximum if there is no histogram. */
function timeEnds(history, t) {
  const p99 = history.time(t, P99);
  return { bottom: history.time(t, RT_MIN), top: Number.isNaN(p99) ? history.time(t, RT_MAX) : p99 };
}

/** Draws response times: a light band from the minimum to p99, a darker one from p50 to p90, a dark mark at p50. */
export function drawTimes(surface, history, store, top, height) {
  const { low, high } = timeRange(history, store);
  const mark = Math.max(1, Math.round(1.5 * surface.scale));
  const place = (nanos) => Math.round(top + (height - mark) * (1 - (Math.log2(Math.max(nanos, 1)) - low) / (high - low)));
  const band = (left, width, from, to, name) => {
    if (Number.isNaN(from) || Number.isNaN(to)) return;
    const y = Math.max(top, place(to));
    surface.fill(left, y, width, Math.max(mark, place(from) - y + mark), palette.pixel[name]);
  };
  eachSecond(surface, store, top, height, (t, left, bar, step) => {
    const { bottom, top: end } = timeEnds(history, t);
    const p50 = history.time(t, P50);
    const typical = Number.isNaN(p50) ? history.time(t, RT_SUM) / history.count(t, RT_COUNT) : p50;
    band(left, step, bottom, end, 'band-1');
    band(left, step, p50, history.time(t, P90), 'band-2');
    band(left, step, typical, typical, 'band-3');
  });
}
