// The stream of the server: one for a tab, none while the tab is hidden or paused. It is opened again after an error, later
// each time, and at a random moment, so that the tabs of a restarted server do not come all at once.

const FIRST_DELAY = 0.5, LONGEST_DELAY = 15;
/** A stream without a second for this long is reopened: some proxies keep a dead connection open. */
const SILENCE = 8;
/** The page says so if a stream that is open brings no second for this long. */
const MUTE = 4;

class Connection {
  /** `query()` gives the parameters of the stream; `onMessage` takes each message. */
  constructor(query, onMessage) {
    this.query = query;
    this.onMessage = onMessage;
    this.source = null;
    this.failures = 0;
    this.timer = 0;
    /** When the next attempt will be, and when the last second arrived, by the page's own monotonic clock. */
    this.retryAt = 0;
    this.heardAt = 0;
    this.openedAt = 0;
    this.expired = false;
    /** Whether this stream has said hello, and has brought a second. */
    this.greeted = false;
    this.isFlowing = false;
    /** Why the server ended the last stream; empty if it did not say so, or the end was planned. */
    this.reason = '';
  }

  /** Opens the stream, or opens it anew with other parameters. */
  open() {
    this.failures = 0;
    this.connect();
  }

  close() {
    this.drop();
  }

  connect() {
    this.drop();
    this.openedAt = now();
    this.greeted = this.isFlowing = false;
    const source = new EventSource(`${basePath()}/stream?${this.query()}`);
    this.source = source;
    source.onmessage = (event) => this.take(JSON.parse(event.data));
    // The browser's own attempts would repeat the old parameters, and none follows an answer like 503.
    source.onerror = () => this.retry();
  }

  take(message) {
    if (message.type === 'hello') this.greeted = true;
    if (message.type === 'bye') {
      // A stream that ends before its first second has failed, whatever it says.
      this.expired = message.reason === 'expired' && this.isFlowing;
      this.reason = this.expired ? '' : message.reason;
    }
    if (message.type === 'second') {
      this.heardAt = now();
      this.failures = 0;
      this.isFlowing = true;
      this.reason = '';
    }
    this.onMessage(message);
  }

  /** For how long the stream is open without a second. */
  waits() {
    return this.source !== null && this.greeted ? now() - Math.max(this.heardAt, this.openedAt) : 0;
  }

  /** Closes the stream, and opens the next one after a delay: half of it fixed, half of it random. */
  retry() {
    this.drop();
    const longest = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** this.failures);
    // A stream of limited life has ended as announced: no error.
    const delay = this.expired ? 0.2 * Math.random() : longest * (0.5 + 0.5 * Math.random());
    if (!this.expired) this.failures++;
    this.expired = false;
    this.retryAt = now() + delay;
    this.timer = setTimeout(() => this.connect(), delay * 1000);
  }

  /** Is called each second: gives up a stream that has become silent. */
  watch() {
    if (this.source !== null && now() - Math.max(this.heardAt, this.openedAt) > SILENCE) this.retry();
  }

  /** Whether the first attempt after a hidden or paused time is still going on. */
  isOpening() {
    return this.source !== null && this.failures === 0 && this.heardAt < this.openedAt && this.waits() < MUTE;
  }

  /** The seconds since the last second arrived; infinite before the first. */
  silence() {
    return this.heardAt === 0 ? Infinity : now() - this.heardAt;
  }

  drop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}

/** Seconds of the page's own monotonic clock, for durations only. */
function now() {
  return performance.now() / 1000;
}
