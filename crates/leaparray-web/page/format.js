// Numbers in words: counts, response times, shares, durations.

import { FEW } from './rule.js';

const grouped = new Intl.NumberFormat('en-US');
export const MISSING = '–';

/** All digits of a count: "7,887,656". */
export function formatCount(count) {
  return count < 1000 ? String(count) : grouped.format(count);
}

/** A number with three significant digits, without an exponent: "1.02", "26.8", "170". */
function formatThree(number) {
  if (number >= 99.95) return formatCount(Math.round(number));
  return number.toFixed(number >= 9.995 ? 1 : 2);
}

/** A count in little space: "9,999", "487k", "168M". */
export function formatShort(count) {
  if (count < 10000) return formatCount(count);
  for (const [size, letter] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (count >= size * 0.9995) return formatThree(count / size) + letter;
  }
  return formatCount(count);
}

/** A time of nanoseconds in a fitting unit: "26.8 ms". */
export function formatTime(nanos) {
  if (!Number.isFinite(nanos)) return MISSING;
  for (const [size, unit] of [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']]) {
    if (nanos >= size * 0.9995) return `${formatThree(nanos / size)} ${unit}`;
  }
  return `${Math.round(nanos)} ns`;
}

/** A share with its precision: "0.5 %", "<0.1 %". */
export function formatShare(part, whole) {
  if (part === 0) return '0 %';
  const percent = 100 * part / whole;
  if (percent < 0.1) return '<0.1 %';
  if (part < whole && percent > 99.9) return '>99.9 %';
  return `${percent < 9.95 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** A share if there are enough requests for one, otherwise both counts. */
export function formatShareOrCounts(part, whole) {
  if (whole === 0) return '';
  return whole < FEW ? `${part} of ${whole}` : formatShare(part, whole);
}

/** A duration in its two largest units: "5 h 12 min". */
export function formatDuration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The time of day of a second of the server's clock, in the time zone of the viewer. */
export function formatClock(second) {
  return new Date(second * 1000).toLocaleTimeString('en-GB');
}

/** The time of day with the name of its zone: "14:05:31 CET". */
export function formatZoned(second) {
  return new Date(second * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' });
}

/** The zone of the viewer at a second: it changes with the season. */
export function zoneOf(second) {
  return formatZoned(second).replace(/^\S+ /, '');
}

const collator = new Intl.Collator('en', { numeric: true });

/** Compares names as a reader does, by the numbers in them: 9 is before 10. */
export function byText(a, b) {
  return collator.compare(a, b) || Number(a > b) - Number(a < b);
}
