// Which resources are in trouble, and why, in words with the numbers behind them.

const RECENT = 10;
const FAILING = 2, STRAINED = 1;
const LEVEL_SIGNS = ['·', '▲', '■'];
const LEVEL_WORDS = ['quiet', 'strained', 'failing'];
/** Requests in 10 s from which p99 says something. */
const ENOUGH_FOR_P99 = 100;
/** Fewer failed or refused requests in 10 s are no trouble, whatever their share. */
const SOME = 3;
const QUIET = { level: 0, score: 0, parts: [] };

/** Judges a resource: its level, a score for the order, and the reasons, the most important one first. */
function judge(node, store) {
  const findings = [];
  if (node.context === null) {
    for (const controller of store.controllers.get(node.name) ?? []) findings.push(judgeController(controller, store));
  }
  const breaker = findings.find((finding) => finding !== null);
  const t = store.newest;
  const failed = node.history.sum(t, RECENT, EXCEPTION);
  const refused = node.history.sum(t, RECENT, BLOCK);
  findings.push(judgeFailures(node, t, failed), judgeRefusals(node, store, refused - refusedByBreaker(node, store, refused, breaker)));
  if (node.latency !== null) findings.push(node.latency);
  const troubles = findings.filter((finding) => finding !== null);
  if (troubles.length === 0) return QUIET;
  troubles.sort((a, b) => b.level - a.level);
  const parts = troubles.map((finding) => finding.text);
  const flight = node.history.count(t, IN_FLIGHT);
  if (flight > 1 && flight !== UNKNOWN) parts.push(`${formatCount(flight)} in flight`);
  return { level: troubles[0].level, score: failed + refused, parts: parts.slice(0, 3) };
}

/** The refusals of 10 s that are said with the breaker: those of its reason, and if it lets little through, those of no known reason. */
function refusedByBreaker(node, store, refused, breaker) {
  if (breaker === undefined || refused === 0) return 0;
  const sums = reasonSums(node, store.newest, RECENT);
  const known = sums.reduce((whole, count) => whole + count, 0);
  const failing = sums[(store.hello.reasons ?? []).indexOf('backend failing')] ?? 0;
  return failing + (breaker.level === FAILING ? Math.max(0, refused - known) : 0);
}

function judgeController(controller, store) {
  const now = controller.now;
  if (now.kind === 'drop') return judgeDrops(controller, store);
  if (now.kind !== 'circuit') return null;
  const probe = Number.isFinite(now.probe_in) ? `, next probe ${formatProbe(now.probe_in)}` : '';
  if (isOpen(now)) return { level: FAILING, text: `Breaker open, ${heldFor(controller, store)}${probe}` };
  if (isHalfOpen(now)) return { level: STRAINED, text: 'Breaker half-open: a probe decides' };
  return null;
}

function judgeDrops(controller, store) {
  if (controller.state !== 'drops') return null;
  const share = controller.now.probability;
  return { level: share >= 0.5 ? FAILING : STRAINED, text: `Breaker drops ${formatShare(share, 1)}, ${heldFor(controller, store)}` };
}

/** When a breaker sends a probe: with the next request, once its time has come. */
function formatProbe(seconds) {
  return seconds < 0.05 ? 'now' : `in ${seconds.toFixed(1)} s`;
}

/** For how long a limiter or breaker is in its state. */
function heldFor(controller, store) {
  const seconds = formatDuration(store.newest - controller.since + 1);
  return controller.sawChange ? `for ${seconds}` : `for ${seconds} at least`;
}

/** The level of a share by its two thresholds. A level that is held is left only below the half of its threshold. */
function levelOf(share, thresholds, held) {
  for (const level of [FAILING, STRAINED]) {
    if (share >= thresholds[level] * (held >= level ? 0.5 : 1)) return level;
  }
  return 0;
}

function judgeFailures(node, t, failed) {
  const held = node.held.failures;
  const factor = held > 0 ? 0.5 : 1;
  const ended = failed + node.history.sum(t, RECENT, SUCCESS) + node.history.sum(t, RECENT, CANCELLED);
  let level = 0;
  if (failed >= SOME * factor && ended >= FEW * factor) level = levelOf(failed / ended, [0, 0.02, 0.1], held);
  else if (failed >= SOME * factor) level = failed / ended >= 0.5 * factor ? STRAINED : 0;
  node.held.failures = level;
  if (level === 0) return null;
  const counts = `${formatCount(failed)} of ${formatCount(ended)}`;
  const text = ended < FEW ? `${counts} failed in ${RECENT} s` : `${formatShare(failed, ended)} failed: ${counts} in ${RECENT} s`;
  return { level, text };
}

function judgeRefusals(node, store, refused) {
  const held = node.held.refusals;
  const factor = held > 0 ? 0.5 : 1;
  const calls = refused + node.history.sum(store.newest, RECENT, PASS);
  const enough = calls >= FEW * factor && refused >= SOME * factor;
  const level = node.held.refusals = enough ? levelOf(refused / calls, [0, 0.01, 0.9], held) : 0;
  if (level === 0) return null;
  const counts = `${formatCount(refused)} of ${formatCount(calls)}`;
  const head = calls < FEW ? 'Refused' : `${formatShare(refused, calls)} refused`;
  return { level, text: `${head}${mainReason(node, store)}: ${counts} in ${RECENT} s` };
}

/** The most frequent reason of the last 10 s, if reasons are known. */
function mainReason(node, store) {
  const sums = reasonSums(node, store.newest, RECENT);
  const most = Math.max(...sums);
  return most > 0 ? `, ${reasonName(store, sums.indexOf(most))}` : '';
}

function reasonSums(node, t, seconds) {
  return Array.from({ length: REASONS }, (_, reason) => node.history.sumRefused(t, seconds, reason));
}

function reasonName(store, reason) {
  return store.hello?.reasons?.[reason] ?? `reason ${reason + 1}`;
}

/** Compares p99 of the last 10 s with that of the 45 s before. Costs more than the rest, so it is done in turns. */
function judgeLatency(node, t) {
  if (node.history.sum(t, RECENT, RT_COUNT) < ENOUGH_FOR_P99) {
    node.held.latency = 0;
    return null;
  }
  const recent = median(timesOf(node.history, P99, t - RECENT + 1, t));
  const before = median(timesOf(node.history, P99, t - HISTORY + 1, t - RECENT - 5));
  const factor = node.held.latency > 0 ? 0.5 : 1;
  // 10 ms more are no trouble, whatever the ratio.
  const isLonger = recent >= 3 * factor * before && recent - before >= 1e7 * factor;
  node.held.latency = isLonger ? STRAINED : 0;
  if (!isLonger) return null;
  return { level: STRAINED, text: `p99 ${formatTime(recent)}, was ${formatTime(before)}` };
}

function timesOf(history, column, first, last) {
  const times = [];
  for (let t = first; t <= last; t++) {
    if (history.count(t, RT_COUNT) >= FEW / 2) times.push(history.time(t, column));
  }
  return times.filter(Number.isFinite);
}

/** NaN for fewer than five numbers. */
function median(numbers) {
  if (numbers.length < 5) return NaN;
  return numbers.sort((a, b) => a - b)[numbers.length >> 1];
}

/** A resource is compared with the time before in every fifth second, not all of them in the same one. */
const LATENCY_EVERY = 5;

/** Judges all resources and contexts. Returns how many resources there are of each level, their contexts counted with them. */
function judgeAll(store) {
  for (const node of store.byKey.values()) {
    judgeInTurn(node, store);
    node.worst = node.verdict.level;
  }
  const parents = [];
  for (const node of store.byKey.values()) {
    const parent = parentOf(node, store);
    if (parent === null) parents.push(node);
    else parent.worst = Math.max(parent.worst, node.worst);
  }
  const levels = [0, 0, 0];
  for (const parent of parents) levels[parent.worst]++;
  return levels;
}

function judgeInTurn(node, store) {
  const t = store.newest;
  const idle = node.history.lastRow <= t - RECENT;
  if (node.comparedAt === 0) node.comparedAt = t - Math.abs(node.id) % LATENCY_EVERY;
  if (idle) {
    node.latency = null;
    node.held = { failures: 0, refusals: 0, latency: 0 };
  } else if (t - node.comparedAt >= LATENCY_EVERY) {
    node.latency = judgeLatency(node, t);
    node.comparedAt = t;
  }
  node.verdict = idle && !store.controllers.has(node.name) ? QUIET : judge(node, store);
}

/** The resource of a context, null for a resource. */
function parentOf(node, store) {
  return node.context === null ? null : store.find(nodeKey(node.name, null, node.direction)) ?? store.named(node.name, null);
}
