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
  const byBreaker = findings.some((finding) => finding !== null);
  const t = store.newest;
  const failed = node.history.sum(t, RECENT, EXCEPTION);
  const refused = node.history.sum(t, RECENT, BLOCK);
  if (failed > 0) findings.push(judgeFailures(node, t, failed));
  // That a breaker refuses is said with the breaker.
  if (refused > 0 && !byBreaker) findings.push(judgeRefusals(node, store, refused));
  if (node.latency !== null) findings.push(node.latency);
  const troubles = findings.filter((finding) => finding !== null);
  if (troubles.length === 0) return QUIET;
  troubles.sort((a, b) => b.level - a.level);
  const parts = troubles.map((finding) => finding.text);
  const flight = node.history.count(t, IN_FLIGHT);
  if (flight > 1 && flight !== UNKNOWN) parts.push(`${formatCount(flight)} in flight`);
  return { level: troubles[0].level, score: failed + refused, parts: parts.slice(0, 3) };
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
  const share = controller.now.probability;
  if (share < 0.01) return null;
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

function judgeFailures(node, t, failed) {
  const ended = failed + node.history.sum(t, RECENT, SUCCESS) + node.history.sum(t, RECENT, CANCELLED);
  const share = failed / ended;
  if (ended < FEW) {
    const text = `${failed} of ${ended} failed in ${RECENT} s`;
    return failed >= SOME && share >= 0.5 ? { level: STRAINED, text } : null;
  }
  if (failed < SOME || share < 0.02) return null;
  const text = `${formatShare(failed, ended)} failed: ${formatCount(failed)} of ${formatCount(ended)} in ${RECENT} s`;
  return { level: share >= 0.1 ? FAILING : STRAINED, text };
}

function judgeRefusals(node, store, refused) {
  const t = store.newest;
  const calls = refused + node.history.sum(t, RECENT, PASS);
  const share = refused / calls;
  if (calls < FEW || refused < SOME || share < 0.01) return null;
  const reason = mainReason(node, store);
  const text = `${formatShare(refused, calls)} refused${reason}: ${formatCount(refused)} of ${formatCount(calls)} in ${RECENT} s`;
  return { level: share >= 0.9 ? FAILING : STRAINED, text };
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

/** Compares p99 of the last 10 s with that of the minute before. Costs more than the rest, so it is done in turns. */
function judgeLatency(node, t) {
  if (node.history.sum(t, RECENT, RT_COUNT) < ENOUGH_FOR_P99) return null;
  const recent = median(timesOf(node.history, P99, t - RECENT + 1, t));
  const before = median(timesOf(node.history, P99, t - HISTORY + 1, t - RECENT - 5));
  // 10 ms more are no trouble, whatever the ratio.
  if (!(recent >= 3 * before && recent - before >= 1e7)) return null;
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

/** In how many turns all resources are compared with the minute before. */
const LATENCY_TURNS = 5;

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
  if (idle) node.latency = null;
  else if (Math.abs(node.id) % LATENCY_TURNS === t % LATENCY_TURNS) node.latency = judgeLatency(node, t);
  node.verdict = idle && !store.controllers.has(node.name) ? QUIET : judge(node, store);
}

/** The resource of a context, null for a resource. */
function parentOf(node, store) {
  return node.context === null ? null : store.byKey.get(node.name) ?? null;
}
