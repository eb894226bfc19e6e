// What the server has told: resources, their last 60 seconds, limiters and breakers.

/** The id of a row that the server has not listed. */
const UNLISTED = -1;

class Store {
  constructor() {
    this.reset(null);
  }

  /** Forgets everything: another instance of the server counts from zero. */
  reset(instance) {
    this.instance = instance;
    this.hello = null;
    /** The newest second that is known; 0 before the first. */
    this.newest = 0;
    /** The seconds that are known. */
    this.seconds = new Float64Array(HISTORY);
    /** The seconds of which the refusals by reason are known. */
    this.reasonsKnown = new Float64Array(HISTORY);
    /** The rows of the table by name, and by the ids of the server. */
    this.byKey = new Map();
    this.byId = new Map();
    this.total = new Ring();
    this.controllers = new Map();
    this.ledger = null;
    this.detail = null;
    /** Changes with the set of the nodes. */
    this.version = 0;
  }

  accept(message) {
    switch (message.type) {
      case 'hello': return this.acceptHello(message);
      case 'resources': return this.acceptResources(message.resources);
      case 'second': return this.acceptSecond(message);
      case 'detail': return this.acceptDetail(message);
      default: return undefined;
    }
  }

  acceptHello(hello) {
    if (hello.instance !== this.instance) this.reset(hello.instance);
    this.hello = hello;
  }

  /** Takes the ids from the server anew: after a while without viewers they are others. */
  acceptResources(resources) {
    this.byId.clear();
    const listed = new Set();
    // A name that was removed and is used again has several ids, of which the last one counts.
    for (const [id, name, context] of resources.toSorted((a, b) => a[0] - b[0])) listed.add(this.list(id, name, context));
    for (const node of this.byKey.values()) {
      if (node.id !== UNLISTED && node.gone === 0 && !listed.has(node)) node.gone = this.newest;
    }
  }

  list(id, name, context) {
    const node = this.node(name, context);
    this.byId.set(id, node);
    // Those that are listed because they were removed a moment ago keep their id.
    if (node.id !== id) node.gone = 0;
    node.id = id;
    return node;
  }

  /** Finds or makes the row of a name. */
  node(name, context) {
    const key = nodeKey(name, context);
    let node = this.byKey.get(key);
    if (!node) {
      node = new Resource(name, context);
      this.byKey.set(key, node);
      this.version++;
    }
    return node;
  }

  acceptSecond(message) {
    const t = message.t;
    for (const [id, name, context] of message.new ?? []) this.list(id, name, context);
    for (const id of message.gone ?? []) {
      const node = this.byId.get(id);
      if (node?.id === id) node.gone = t;
    }
    this.seconds[t % HISTORY] = t;
    this.newest = Math.max(this.newest, t);
    if (message.total) this.total.store(t, message.total, 0);
    for (const row of message.rows ?? []) this.byId.get(row[0])?.history.store(t, row, 1);
    if (message.refused) this.acceptRefused(t, message.refused);
    if (message.controllers) this.acceptControllers(t, message.controllers);
    if (message.ledger) this.ledger = message.ledger;
    this.forget();
  }

  acceptRefused(t, rows) {
    this.reasonsKnown[t % HISTORY] = t;
    const sums = new Array(REASONS).fill(0);
    for (const row of rows) {
      this.byId.get(row[0])?.history.storeRefused(t, row, 1);
      for (let i = 0; i < REASONS; i++) sums[i] += row[i + 1];
    }
    this.total.storeRefused(t, sums, 0);
  }

  acceptControllers(t, controllers) {
    const seen = new Set();
    for (const message of controllers) {
      const list = this.controllers.get(message.resource) ?? [];
      this.controllers.set(message.resource, list);
      let controller = list.find((other) => other.kind === message.kind && !seen.has(other));
      if (!controller) list.push(controller = new Controller(message.kind));
      seen.add(controller);
      controller.store(t, message);
      // A limiter whose resource has had no request yet has a row nevertheless.
      this.node(message.resource, null);
    }
  }

  acceptDetail(message) {
    if (message.id === null || this.detail?.id !== message.id) this.detail = new Detail(message.id);
    this.detail.store(message);
  }

  /** Drops rows that were removed and whose last second has left the history. */
  forget() {
    for (const [key, node] of this.byKey) {
      if (node.gone === 0 || this.newest - node.gone < HISTORY) continue;
      this.byKey.delete(key);
      for (const [id, of] of this.byId) if (of === node) this.byId.delete(id);
      this.version++;
    }
  }

  knows(t) {
    return this.seconds[t % HISTORY] === t;
  }

  knowsReasons(t) {
    return this.reasonsKnown[t % HISTORY] === t;
  }

  /** Whether a second was over before the server began to count. */
  isBeforeStart(t) {
    return this.hello !== null && t + 1 <= this.hello.started;
  }

  /** The number of the last `seconds` seconds of which the refusals by reason are known. */
  secondsWithReasons(seconds) {
    let known = 0;
    for (let t = this.newest - seconds + 1; t <= this.newest; t++) known += Number(this.knowsReasons(t));
    return known;
  }
}

function nodeKey(name, context) {
  // Names contain no control characters.
  return context === null ? name : `${name}\n${context}`;
}

/** A resource, or one of its contexts. */
class Resource {
  constructor(name, context) {
    this.id = UNLISTED;
    this.name = name;
    this.context = context;
    this.key = nodeKey(name, context);
    this.search = this.key.toLowerCase();
    this.history = new Ring();
    /** The second in which it was removed; 0 while it is listed. */
    this.gone = 0;
    this.verdict = QUIET;
    /** The worst level of the resource and its contexts. */
    this.worst = 0;
    this.latency = null;
  }
}

/** A limiter or breaker, with its state of the last 60 seconds. */
class Controller {
  constructor(kind) {
    this.kind = kind;
    this.now = null;
    /** The second from which it is in this state, and whether the page saw the change. */
    this.since = 0;
    this.sawChange = false;
    this.at = new Float64Array(HISTORY);
    this.values = new Float64Array(HISTORY);
    this.limits = new Float64Array(HISTORY);
  }

  store(t, message) {
    const state = controllerState(message);
    if (this.now === null || state !== controllerState(this.now)) {
      this.sawChange = this.now !== null;
      this.since = t;
    }
    this.now = message;
    const slot = t % HISTORY;
    this.at[slot] = t;
    this.values[slot] = controllerValue(message);
    this.limits[slot] = message.limit ?? NaN;
  }
}

/** In words, the state whose duration is told. */
function controllerState(message) {
  if (message.kind === 'circuit') return message.state;
  if (message.kind === 'drop') return message.probability >= 0.01 ? 'drops' : 'passes';
  return 'limits';
}

/** What its chart shows: the share of requests that are not let through, or the limit. */
function controllerValue(message) {
  if (message.kind === 'drop') return message.probability;
  if (message.kind === 'circuit') return isOpen(message) ? 1 : isHalfOpen(message) ? 0.5 : 0;
  return message.limit - message.remaining;
}

function isOpen(message) {
  return message.state === 'open';
}

function isHalfOpen(message) {
  return /^half/.test(message.state);
}

/** The details of the resource that is open: histograms of 60 s, windows, refusals, ledger. */
class Detail {
  constructor(id) {
    this.id = id;
    this.message = null;
    this.scale = 0;
    this.at = new Float64Array(HISTORY);
    this.cells = new Array(HISTORY).fill(null);
  }

  store(message) {
    if (message.id !== null && message.scale !== this.scale) {
      this.scale = message.scale;
      this.at.fill(0);
    }
    this.message = message;
    for (const [t, cells] of message.seconds ?? []) {
      this.at[t % HISTORY] = t;
      this.cells[t % HISTORY] = cells;
    }
  }

  /** The histogram of a second as pairs of index and count. */
  second(t) {
    return this.at[t % HISTORY] === t ? this.cells[t % HISTORY] : [];
  }
}
