// What the server has told: resources, their last 60 seconds, limiters and breakers.

import { HISTORY, Ring, RT_COUNT } from './ring.js';

/** The id of a row that the server has not listed. */
export const UNLISTED = -1;
/** The verdict on a resource without trouble. */
export const QUIET = { level: 0, score: 0, parts: [] };
/** The most changes that the page keeps. */
export const MAX_CHANGES = 1000;
/** The details of so many resources are kept, for a page that is paused or has no connection. */
const KEPT_DETAILS = 8;

export class Store {
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
    /** The nodes in trouble in the newest second, and how many resources there are of each level. */
    this.verdicts = [];
    this.levels = [0, 0, 0];
    /** What has changed, the oldest first, and the newest second of which that is known. */
    this.changes = [];
    this.heard = 0;
    this.detail = null;
    /** The newest message with the fleet; `null` if the server has sent none. */
    this.fleet = null;
    /** The newest message with the rules; `null` if the server has sent none. */
    this.rules = null;
    /** The details that were read last, by the keys of their nodes. */
    this.details = new Map();
    /** Changes with the set of the nodes. */
    this.version = 0;
    /** The version whose nodes are numbered by their names. */
    this.ranked = -1;
  }

  accept(message) {
    switch (message.type) {
      case 'hello': return this.acceptHello(message);
      case 'resources': return this.acceptResources(message.resources);
      case 'second': return this.acceptSecond(message);
      case 'changes': return this.acceptChanges(message.changes);
      case 'totals': return this.acceptTotals(message);
      case 'fleet': return this.acceptFleet(message);
      case 'rules': return this.acceptRules(message);
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
    for (const [id, name, context, direction, gone] of resources.toSorted((a, b) => a[0] - b[0])) {
      const node = this.list(id, name, context, direction);
      // A server that does not send it lists those that were removed a moment ago with the id that they had.
      if (gone !== undefined) node.gone = gone ?? 0;
      listed.add(node);
    }
    for (const node of this.byKey.values()) {
      if (node.id !== UNLISTED && node.gone === 0 && !listed.has(node)) node.gone = this.newest;
    }
  }

  list(id, name, context, direction) {
    const node = this.find(nodeKey(name, context, direction)) ?? this.add(name, context, direction);
    this.byId.set(id, node);
    if (node.id !== id) node.gone = 0;
    node.id = id;
    return node;
  }

  add(name, context, direction) {
    const node = new Resource(name, context, direction);
    // A limiter without requests had a row before its resource was listed.
    const unlisted = this.byKey.get(nodeKey(name, context, null));
    if (unlisted && direction !== null) this.byKey.delete(unlisted.key);
    this.byKey.set(node.key, node);
    this.version++;
    return node;
  }

  find(key) {
    return this.byKey.get(key) ?? null;
  }

  /** The resource with a name: if there is one of each direction, the one that is listed, or was listed last. */
  named(name, context) {
    const found = DIRECTIONS.map((direction) => this.find(nodeKey(name, context, direction))).filter((node) => node !== null);
    return found.sort((a, b) => Number(a.gone > 0) - Number(b.gone > 0) || b.id - a.id)[0] ?? null;
  }

  acceptSecond(message) {
    const t = message.t;
    // One that was removed and is used again within a minute keeps its id.
    for (const [id, name, context, direction] of message.new ?? []) this.list(id, name, context, direction).gone = 0;
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
    if (message.verdicts) this.verdicts = message.verdicts;
    if (message.levels) this.acceptTotals(message);
    this.forget();
  }

  acceptRefused(t, rows) {
    this.reasonsKnown[t % HISTORY] = t;
    const sums = new Array(this.reasons).fill(0);
    for (const [id, ...counts] of rows) {
      this.byId.get(id)?.history.storeRefused(t, counts);
      for (const reason of sums.keys()) sums[reason] += counts[reason];
    }
    this.total.storeRefused(t, sums);
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
      if (this.named(message.resource, null) === null) this.add(message.resource, null, null);
    }
  }

  acceptTotals({ t, levels }) {
    this.levels = levels;
    this.heard = Math.max(this.heard, t);
  }

  /** Takes the changes that are new, and returns them: after a time in the background, the server sends them again with the seconds. */
  acceptChanges(changes) {
    const reportedAt = ({ t, reported }) => reported ?? t;
    const known = this.changes.length > 0 ? reportedAt(this.changes.at(-1)) : 0;
    const fresh = changes.filter((change) => reportedAt(change) > known);
    this.changes.push(...fresh);
    if (this.changes.length > MAX_CHANGES) this.changes.splice(0, this.changes.length - MAX_CHANGES);
    return fresh;
  }

  acceptFleet(message) {
    this.fleet = message;
  }

  acceptRules(message) {
    this.rules = message;
  }

  acceptDetail(message) {
    if (message.id === null || this.detail?.id !== message.id) this.detail = new Detail(message.id);
    this.detail.store(message);
    const key = this.byId.get(message.id)?.key;
    this.details.delete(key);
    if (key !== undefined) this.details.set(key, this.detail);
    if (this.details.size > KEPT_DETAILS) this.details.delete(this.details.keys().next().value);
  }

  /** Takes the details of a resource that were read before, if there are some. */
  recallDetail(resource, context) {
    const node = this.named(resource, context);
    this.detail = this.details.get(node?.key) ?? null;
    if (this.detail !== null) this.detail.id = node.id;
  }

  /** Drops rows that were removed and whose last second has left the history. */
  forget() {
    const forgotten = new Set();
    for (const [key, node] of this.byKey) {
      if (node.gone === 0 || this.newest - node.gone < HISTORY) continue;
      this.byKey.delete(key);
      forgotten.add(node);
    }
    if (forgotten.size === 0) return;
    for (const [id, node] of this.byId) if (forgotten.has(node)) this.byId.delete(id);
    this.version++;
  }

  knows(t) {
    return this.seconds[t % HISTORY] === t;
  }

  /** How many reasons of refusals the server counts. */
  get reasons() {
    return this.hello?.reasons?.length ?? 0;
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

/** The directions of requests; `null` for a resource that the server has not listed. */
const DIRECTIONS = ['in', 'out', null];

export function nodeKey(name, context, direction) {
  // Names contain no control characters.
  return [name, context ?? '', direction ?? ''].join('\n');
}

/** A resource, or one of its contexts. */
class Resource {
  constructor(name, context, direction) {
    this.id = UNLISTED;
    this.name = name;
    this.context = context;
    this.direction = direction;
    this.key = nodeKey(name, context, direction);
    this.search = `${name}\n${context ?? ''}`.toLowerCase();
    this.history = new Ring();
    /** The second in which it was removed; 0 while it is listed. */
    this.gone = 0;
    this.verdict = QUIET;
    /** The worst level of the resource and its contexts. */
    this.worst = 0;
  }
}

/** A limiter or breaker, with its state of the last 60 seconds. */
class Controller {
  constructor(kind) {
    this.kind = kind;
    this.now = null;
    this.state = null;
    /** The second from which it is in this state, and whether the page saw the change. */
    this.since = 0;
    this.sawChange = false;
    this.at = new Float64Array(HISTORY);
    this.values = new Float64Array(HISTORY);
    this.limits = new Float64Array(HISTORY);
  }

  store(t, message) {
    const state = controllerState(message);
    if (this.now === null || state !== this.state) {
      // After a gap, the change may have been in it.
      this.sawChange = this.now !== null && this.at[(t - 1) % HISTORY] === t - 1;
      this.since = t;
    }
    this.state = state;
    this.now = message;
    const slot = t % HISTORY;
    this.at[slot] = t;
    this.values[slot] = controllerValue(message);
    this.limits[slot] = isUnlimited(message) ? NaN : message.limit ?? NaN;
  }
}

/** In words, the state whose duration is told. Whether a breaker drops, the server says. */
function controllerState(message) {
  if (message.kind === 'circuit') return message.state;
  if (message.kind === 'drop') return message.level ? 'drops' : 'passes';
  return message.kind === 'limit' || message.kind === 'keyed' ? 'limits' : 'not known';
}

/** Whether a limit is so large that it is none. */
export function isUnlimited(message) {
  return message.limit >= 2 ** 53;
}

/** What its chart shows: the share of requests that are not let through, what is taken of the limit, or the keys. */
function controllerValue(message) {
  if (message.kind === 'drop') return message.probability;
  if (message.kind === 'circuit') return isOpen(message) ? 1 : isHalfOpen(message) ? 0.5 : 0;
  if (message.kind === 'keyed') return message.keys;
  // NaN if the server could not read the state.
  return message.limit - message.remaining;
}

function isOpen(message) {
  return message.state === 'open';
}

export function isHalfOpen(message) {
  return /^half/.test(message.state);
}

/** The details of the resource that is open: histograms of 60 s, windows, refusals, ledger. */
class Detail {
  constructor(id) {
    this.id = id;
    this.message = null;
    /** The number of successive messages whose ledger has a difference that the requests of these seconds do not explain. */
    this.unexplained = 0;
    /** The last message that is in this number. */
    this.judged = null;
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

  /** Whether the histogram of a second is here, or was empty by the row of that second. */
  knows(t, history) {
    return this.at[t % HISTORY] === t || history.count(t, RT_COUNT) === 0;
  }

  /** Notes whether the newest message has a difference that is not explained; returns whether the one before has one, too. */
  isUnexplained(hasDifference) {
    if (this.judged !== this.message) this.unexplained = hasDifference ? this.unexplained + 1 : 0;
    this.judged = this.message;
    return hasDifference && this.unexplained > 1;
  }
}
