// A second in words, and the second in the address.

import { describeChange } from './changes.js';
import { QUANTILES } from './charts.js';
import { element, setText } from './dom.js';
import { formatClock, formatCount, formatTime, formatZoned } from './format.js';
import { BLOCK, CANCELLED, EXCEPTION, HISTORY, MAX_IN_FLIGHT, SUCCESS, UNKNOWN } from './ring.js';
import { RECENT } from './rule.js';
import { reasonName } from './verdict.js';

export class Moment {
  constructor(detail, parent, at) {
    this.detail = detail;
    this.root = parent.appendChild(element('p', 'moment'));
    this.set(at);
  }

  /** Takes another second; `null` for none. */
  set(at) {
    if (this.at !== at) Object.assign(this, { at, sentence: '', isShown: false });
  }

  /** The second, as long as the charts have it. */
  cursor() {
    const { newest } = this.detail.store;
    return this.at !== null && this.at <= newest && this.at > newest - HISTORY ? this.at : null;
  }

  /** Says what is known of the second. Its counts stay when they leave the 60 s. */
  update() {
    const { store, node, opened } = this.detail;
    this.root.hidden = this.at === null;
    if (this.at === null || store.newest === 0) return;
    const cursor = this.cursor();
    if (cursor !== null && node !== null) {
      this.sentence = secondSentence(store, node.history, cursor).replace(/, \d+ s before the newest/, '');
      if (!this.isShown) this.detail.setCursor(cursor, null);
      this.isShown = true;
    }
    const unknown = `${formatZoned(this.at)}: ${this.at > store.newest ? 'still to come' : 'older than the 60 s that the server keeps'}`;
    const changes = store.changes.filter(({ name, t }) => name === opened.resource && Math.abs(t - this.at) < RECENT)
      .map((change) => `${formatClock(change.t)} ${describeChange(change, store).text}`);
    setText(this.root, ['At ' + (this.sentence || unknown), ...changes].join(' · '));
  }
}

/** One second in words, all counts in full. */
export function secondSentence(store, ring, t) {
  const ago = store.newest - t;
  const head = `${formatZoned(t)}${ago > 0 ? `, ${ago} s before the newest` : ''}: `;
  if (!store.knows(t)) return `${head}${store.isBeforeStart(t) ? 'before the server began to count' : 'no data'}`;
  const counts = [[SUCCESS, 'succeeded'], [EXCEPTION, 'failed'], [CANCELLED, 'cancelled'], [BLOCK, 'refused']]
    .map(([column, word]) => `${formatCount(ring.count(t, column))} ${word}`);
  const flight = ring.count(t, MAX_IN_FLIGHT);
  const reasons = refusedSentence(store, ring, t);
  const times = QUANTILES.filter(({ column }) => ring.time(t, column) > 0)
    .map(({ column, name }) => `${name} ${formatTime(ring.time(t, column))}`);
  return head + [counts.join(', ') + reasons, ...(flight === UNKNOWN ? [] : [`up to ${formatCount(flight)} in flight`]), times.join(', ')]
    .filter((part) => part !== '').join(' · ');
}

function refusedSentence(store, ring, t) {
  const reasons = Array.from({ length: store.reasons }, (_, reason) => [ring.refusedFor(t, reason), reasonName(store, reason)])
    .filter(([count]) => count > 0);
  return reasons.length === 0 ? '' : ` (${reasons.map(([count, word]) => `${formatCount(count)} ${word}`).join(', ')})`;
}
