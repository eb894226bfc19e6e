// Which resources are in trouble, and why, in words. The server decides it.

import { formatCount, formatDuration, formatShare, formatTime } from './format.js';
import { BLOCK, EXCEPTION, IN_FLIGHT, UNKNOWN } from './ring.js';
import { FEW, RECENT } from './rule.js';
import { isHalfOpen, nodeKey, QUIET, UNLISTED } from './store.js';

export const FAILING = 2, STRAINED = 1;
export const LEVEL_SIGNS = ['·', '▲', '■'];
export const LEVEL_WORDS = ['quiet', 'strained', 'failing'];

/** Takes the verdicts of the newest second. Returns how many resources there are of each level. */
export function judgeAll(store) {
  const findings = new Map(store.verdicts.map(([id, found]) => [store.byId.get(id), found]));
  for (const node of store.byKey.values()) {
    const found = findings.get(node) ?? (node.id === UNLISTED ? breakerFindings(node, store) : []);
    node.verdict = found.length === 0 ? QUIET : verdictOf(node, found, store);
    node.worst = node.verdict.level;
  }
  for (const node of store.byKey.values()) {
    const parent = parentOf(node, store);
    if (parent !== null) parent.worst = Math.max(parent.worst, node.worst);
  }
  return store.levels;
}

/** The level of a resource, a score for the order, and the reasons. */
function verdictOf(node, findings, store) {
  const t = store.newest;
  const parts = findings.map((finding) => findingText(finding, node.name, store));
  const flight = node.history.count(t, IN_FLIGHT);
  if (flight > 1 && flight !== UNKNOWN) parts.push(`${formatCount(flight)} in flight`);
  const score = node.history.sum(t, RECENT, EXCEPTION) + node.history.sum(t, RECENT, BLOCK);
  return { level: levelOf(findings[0][1]), score, parts: parts.slice(0, 3) };
}

export function levelOf(word) {
  return Math.max(0, LEVEL_WORDS.indexOf(word));
}

/** The findings about a breaker that has no resource. */
function breakerFindings(node, store) {
  const controllers = store.controllers.get(node.name) ?? [];
  return controllers.filter(({ now }) => now.level).map(({ now }) => [now.kind, now.level, 0]);
}

/** A finding of the server in words: `[kind, level, part, whole, reason]`. */
export function findingText([kind, level, part, whole, reason], name, store) {
  const counts = `${formatCount(part)} of ${formatCount(whole)}`;
  if (kind === 'failures') return whole < FEW ? `${counts} failed in ${RECENT} s` : `${formatShare(part, whole)} failed: ${counts} in ${RECENT} s`;
  if (kind === 'refusals') {
    const head = whole < FEW ? 'Refused' : `${formatShare(part, whole)} refused`;
    return `${head}${reason === null ? '' : `, ${reasonName(store, reason)}`}: ${counts} in ${RECENT} s`;
  }
  if (kind === 'times') return `p99 ${formatTime(part)}, was ${formatTime(whole)}`;
  const controller = (store.controllers.get(name) ?? []).filter((one) => one.kind === kind)[part];
  return controller === undefined ? `Breaker ${LEVEL_WORDS[levelOf(level)]}` : breakerText(controller, store);
}

function breakerText(controller, store) {
  const { now } = controller;
  if (now.kind === 'drop') return `Breaker drops ${formatShare(now.probability, 1)}, ${heldFor(controller, store)}`;
  if (isHalfOpen(now)) return 'Breaker half-open: a probe decides';
  const probe = Number.isFinite(now.probe_in) ? `, next probe ${formatProbe(now.probe_in)}` : '';
  return `Breaker open, ${heldFor(controller, store)}${probe}`;
}

/** When a breaker sends a probe: with the next request, once its time has come. */
export function formatProbe(seconds) {
  return seconds < 0.05 ? 'now' : `in ${seconds.toFixed(1)} s`;
}

/** For how long a limiter or breaker is in its state. */
export function heldFor(controller, store) {
  const seconds = formatDuration(store.newest - controller.since + 1);
  return controller.sawChange ? `for ${seconds}` : `for ${seconds} at least`;
}

export function reasonSums(store, node, t, seconds) {
  return Array.from({ length: store.reasons }, (_, reason) => node.history.sumRefused(t, seconds, reason));
}

export function reasonName(store, reason) {
  return store.hello?.reasons?.[reason] ?? `reason ${reason + 1}`;
}

/** The resource of a context, null for a resource. */
export function parentOf(node, store) {
  return node.context === null ? null : store.find(nodeKey(node.name, null, node.direction)) ?? store.named(node.name, null);
}
