// The stream of the server: one for a tab, none while the tab is hidden or paused. It is opened again after an error, later
// each time, and at a random moment, so that the tabs of a restarted server do not come all at once.
//
// It is read by `fetch`, because an `EventSource` sends no headers, and says nothing of an answer that is no stream.

import { basePath } from './address.js';
import { tokenHeaders } from './token.js';

const FIRST_DELAY = 0.5, LONGEST_DELAY = 15;
/** A stream without a second for this long is reopened: some proxies keep a dead connection open. */
const SILENCE = 8;
/** The page says so if a stream that is open brings no second for this long. */
export const MUTE = 4;

export class Connection {
  /** `query()` gives the parameters of the stream; `onMessage` takes each message; `onLocked` is told that the token is refused. */
  constructor(query, onMessage, onLocked) {
    this.query = query;
    this.onMessage = onMessage;
    this.onLocked = onLocked;
    /** Ends the request of the stream; `null` without one. */
    this.stream = null;
    /** Why there is no data: `missing` without a token, `refused` if the server has another one, otherwise empty. */
    this.lock = '';
    this.failures = 0;
    this.timer = 0;
    /** When the next attempt will be, and when a second arrived last, by the page's own monotonic clock. */
    this.retryAt = 0;
    this.heardAt = 0;
    /** When the rows of a second arrived last: a light stream has none. */
    this.readAt = 0;
    this.openedAt = 0;
    this.expired = false;
    /** Whether this stream has said hello, and has brought a second. */
    this.greeted = false;
    this.isFlowing = false;
    /** Why the server ended the last stream; empty if it did not say so, or the end was planned. */
    this.reason = '';
    /** What the server has answered in place of the last stream; empty if nothing. */
    this.answer = '';
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
    this.greeted = this.isFlowing = this.expired = false;
    this.stream = new AbortController();
    this.follow(this.stream.signal);
  }

  /** Takes the messages of one stream, until it ends or is given up. */
  async follow(signal) {
    const headers = { accept: 'text/event-stream', ...tokenHeaders() };
    try {
      const response = await fetch(`${basePath()}/stream?${this.query()}`, { headers, cache: 'no-store', signal });
      if (isLocked(response)) this.stop('leaparray-token' in headers ? 'refused' : 'missing');
      else if (isStream(response)) await this.takeAll(response.body, signal);
      else this.answer = answerOf(response);
    } catch {
      // There is no connection, it has broken, or this page has ended it.
      if (!signal.aborted) this.answer = '';
    }
    if (!signal.aborted) this.retry();
  }

  async takeAll(body, signal) {
    for await (const line of linesOf(body)) {
      if (signal.aborted) return;
      try {
        if (line.startsWith('data: ')) this.take(JSON.parse(line.slice('data: '.length)));
      } catch (error) {
        // An error of the page itself is none of the connection.
        reportError(error);
      }
    }
  }

  /** Gives up until there is another token. */
  stop(lock) {
    this.drop();
    this.lock = lock;
    this.onLocked();
  }

  take(message) {
    if (message.type === 'hello') {
      this.greeted = true;
      this.answer = this.lock = '';
    }
    if (message.type === 'bye') {
      // A stream that ends before its first second has failed, whatever it says.
      this.expired = message.reason === 'expired' && this.isFlowing;
      this.reason = this.expired ? '' : message.reason;
    }
    if (message.type === 'second' || message.type === 'totals') {
      this.heardAt = now();
      if (message.type === 'second') this.readAt = this.heardAt;
      this.failures = 0;
      this.isFlowing = true;
      this.reason = '';
    }
    this.onMessage(message);
  }

  /** For how long the stream is open without a second. */
  waits() {
    return this.stream !== null && this.greeted ? now() - Math.max(this.heardAt, this.openedAt) : 0;
  }

  /** Closes the stream, and opens the next one after a delay: half of it fixed, half of it random. */
  retry() {
    this.drop();
    const longest = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** this.failures);
    // A stream of limited life has ended as announced: no error. The timers of a hidden tab may wait for a minute.
    const delay = this.expired ? 0.2 * Math.random() : longest * (0.5 + 0.5 * Math.random());
    if (!this.expired) this.failures++;
    this.retryAt = now() + delay;
    if (this.expired && document.hidden) this.connect();
    else this.timer = setTimeout(() => this.connect(), delay * 1000);
  }

  /** Is called each second: gives up a stream that has become silent. */
  watch() {
    if (this.stream !== null && now() - Math.max(this.heardAt, this.openedAt) > SILENCE) this.retry();
  }

  /** Whether the first attempt after a hidden or paused time is still going on. */
  isOpening() {
    return this.stream !== null && this.failures === 0 && this.heardAt < this.openedAt && this.waits() < MUTE;
  }

  /** For how long no second has arrived. */
  silence() {
    return now() - this.heardAt;
  }

  /** The age of what is shown: of the totals in a hidden tab, otherwise of the rows; infinite before the first. */
  age() {
    const at = document.hidden ? this.heardAt : this.readAt;
    return at === 0 ? Infinity : now() - at;
  }

  drop() {
    clearTimeout(this.timer);
    this.stream?.abort();
    this.stream = null;
  }
}

function isStream(response) {
  return response.ok && (response.headers.get('content-type') ?? '').startsWith('text/event-stream');
}

/** Whether the server of the page asks for its token. A proxy that asks for a password has another challenge. */
function isLocked(response) {
  return response.status === 401 && (response.headers.get('www-authenticate') ?? '').includes('realm="leaparray"');
}

/** What an answer that is no stream means. */
function answerOf(response) {
  const { ok, status } = response;
  if (status === 503) return 'it has too many viewers, or is stopping';
  // A login may be a page of its own, to which the browser was sent.
  if (ok || status === 401 || status === 403) return 'it does not allow this browser: if the service has a login, log in and reload the page';
  return `it answers with the status ${status}`;
}

/** The lines of a body, without their ends. */
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    // Only what is new is searched for ends of lines: a message may come in many parts.
    const lines = value.split('\n');
    lines[0] = rest + lines[0];
    rest = lines.pop();
    yield* lines;
  }
}

/** Seconds of the page's own monotonic clock, for durations only. */
export function now() {
  return performance.now() / 1000;
}
