// The last 60 seconds of one resource, in two typed arrays.

export const HISTORY = 60;
/** Stands for a count that is not known. */
export const UNKNOWN = -1;

// Columns of the counts: as in the messages, from 1; column 0 is the second itself.
export const PASS = 1, SUCCESS = 2, EXCEPTION = 3, CANCELLED = 4, BLOCK = 5, IN_FLIGHT = 6, MAX_IN_FLIGHT = 7, RT_COUNT = 8;
export const COUNTS = 9;
// Columns of the times, in nanoseconds.
export const RT_SUM = 0, RT_MIN = 1, P50 = 2, P90 = 3, P99 = 4, P999 = 5, RT_MAX = 6;
export const TIMES = 7;

/**
 * A ring of rows. The row of a second lies at its remainder by 60, and is valid if its first column is that second, so that
 * a second without a row costs nothing: it reads as zeros.
 */
export class Ring {
  constructor() {
    // As precise as the numbers of the messages: a count of many requests at once can exceed 32 bits.
    this.counts = new Float64Array(HISTORY * COUNTS);
    this.times = new Float32Array(HISTORY * TIMES);
    /** Refusals by reason: created with the first one. */
    this.refused = null;
    this.lastRow = 0;
  }

  /** Stores a row of a message, whose counts begin at `from`. */
  store(t, row, from) {
    const counts = (t % HISTORY) * COUNTS;
    this.counts[counts] = t;
    for (let i = 1; i < COUNTS; i++) {
      const count = row[from + i - 1];
      this.counts[counts + i] = count === null ? UNKNOWN : count;
    }
    const times = (t % HISTORY) * TIMES;
    for (let i = 0; i < TIMES; i++) {
      const time = row[from + COUNTS - 1 + i];
      this.times[times + i] = time === null ? NaN : time;
    }
    this.lastRow = t;
  }

  /** Stores the counts of a message, one for each reason. */
  storeRefused(t, counts) {
    this.refused ??= { at: new Float64Array(HISTORY), reasons: counts.length, counts: new Float64Array(HISTORY * counts.length) };
    this.refused.at[t % HISTORY] = t;
    this.refused.counts.set(counts, (t % HISTORY) * this.refused.reasons);
  }

  has(t) {
    return this.counts[(t % HISTORY) * COUNTS] === t;
  }

  count(t, column) {
    const at = (t % HISTORY) * COUNTS;
    return this.counts[at] === t ? this.counts[at + column] : 0;
  }

  /** A time in nanoseconds, NaN if there is none. */
  time(t, column) {
    return this.has(t) ? this.times[(t % HISTORY) * TIMES + column] : NaN;
  }

  refusedFor(t, reason) {
    if (this.refused === null || this.refused.at[t % HISTORY] !== t) return 0;
    return this.refused.counts[(t % HISTORY) * this.refused.reasons + reason];
  }

  /** The sum of a count over the seconds up to `t`. */
  sum(t, seconds, column) {
    if (this.lastRow <= t - seconds) return 0;
    let sum = 0;
    for (let s = t - seconds + 1; s <= t; s++) sum += this.count(s, column);
    return sum;
  }

  sumRefused(t, seconds, reason) {
    if (this.refused === null) return 0;
    let sum = 0;
    for (let s = t - seconds + 1; s <= t; s++) sum += this.refusedFor(s, reason);
    return sum;
  }
}
