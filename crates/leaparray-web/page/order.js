// The order of the rows: sorted, filtered, contexts below their resource.

import { byText, formatCount } from './format.js';
import { BLOCK, CANCELLED, EXCEPTION, IN_FLIGHT, P50, P99, PASS, SUCCESS, UNKNOWN } from './ring.js';
import { RECENT } from './rule.js';
import { parentOf } from './verdict.js';

/** The columns by which rows can be sorted, each with the value of a row; large values come first unless turned round. */
export const SORTS = new Map([
  ['trouble', null],
  ['name', null],
  ['ok', (node, t) => node.history.count(t, SUCCESS)],
  ['failed', (node, t) => node.history.count(t, EXCEPTION)],
  ['share', (node, t) => failedShare(node, t)],
  ['refused', (node, t) => node.history.count(t, BLOCK)],
  ['flight', (node, t) => knownCount(node.history.count(t, IN_FLIGHT))],
  ['p50', (node, t) => knownTime(node.history.time(t, P50))],
  ['p99', (node, t) => knownTime(node.history.time(t, P99))],
]);

function knownCount(count) {
  return count === UNKNOWN ? -1 : count;
}

function knownTime(time) {
  return Number.isNaN(time) ? -1 : time;
}

/** Failed of all that ended in the last 10 s. */
function failedShare(node, t) {
  const failed = node.history.sum(t, RECENT, EXCEPTION);
  return failed === 0 ? 0 : failed / endedRecently(node, t);
}

export function endedRecently(node, t) {
  const sum = (column) => node.history.sum(t, RECENT, column);
  return sum(SUCCESS) + sum(EXCEPTION) + sum(CANCELLED);
}

const byName = (a, b) => a.rank - b.rank;

/** Numbers all nodes by their names, once for each set of them: to compare texts costs more than to compare numbers. */
function rank(store) {
  if (store.ranked === store.version) return;
  store.ranked = store.version;
  const byNames = (a, b) => byText(a.name, b.name) || byText(a.context ?? '', b.context ?? '') || byText(a.key, b.key);
  [...store.byKey.values()].sort(byNames).forEach((node, i) => { node.rank = i; });
}

/** Compares rows by the view's column; equal ones by name, so that their order stays. */
function comparison(store, view) {
  rank(store);
  const t = store.newest;
  const turn = view.up ? -1 : 1;
  if (view.sort === 'name') return (a, b) => turn * byName(a, b);
  const value = view.sort === 'trouble' ? troubleValue : SORTS.get(view.sort);
  const values = new Map();
  for (const node of store.byKey.values()) values.set(node, value(node, t));
  return (a, b) => turn * (values.get(b) - values.get(a)) || byName(a, b);
}

/** The level first, then the failed and refused ones of 10 s; quiet rows by their traffic. */
function troubleValue(node, t) {
  if (node.worst > 0) return node.worst * 1e12 + node.verdict.score;
  return node.history.sum(t, RECENT, PASS) + node.history.sum(t, RECENT, BLOCK);
}

/** Resources with their contexts, of those that match the filter; `only` those in trouble. */
export function families(store, filter, only) {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const matches = (node) => words.every((word) => node.search.includes(word));
  const children = new Map();
  const parents = [];
  for (const node of store.byKey.values()) {
    const parent = parentOf(node, store);
    if (parent === null) {
      parents.push(node);
    } else if (matches(node) || matches(parent)) {
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(node);
    }
  }
  return parents.filter((parent) => (parent.worst > 0 || !only) && (children.has(parent) || matches(parent)))
    .map((parent) => ({ parent, children: children.get(parent) ?? [] }));
}

/** The rows of the table, from top to bottom: `{node, child, tall}` or, for the head of a group, `{title, note}`. */
export function orderRows(store, view) {
  const compare = comparison(store, view);
  const found = families(store, view.filter, view.only).sort((a, b) => compare(a.parent, b.parent));
  if (view.sort !== 'trouble') return found.flatMap((family) => familyRows(family, compare));
  return [
    ...groupRows('trouble', found.filter((family) => family.parent.worst > 0), view, compare),
    ...groupRows('quiet', found.filter((family) => family.parent.worst === 0), view, compare),
  ];
}

const GROUPS = {
  trouble: { words: 'in trouble', note: 'the worst first; the order changes at most every 5 s, and not under a pointer that moves' },
  quiet: { words: 'quiet', note: 'by traffic' },
};

function groupRows(group, found, view, compare) {
  if (found.length === 0) return [];
  const head = { group, title: groupTitle(group, found.length, view), note: GROUPS[group].note };
  return [head, ...found.flatMap((family) => familyRows(family, compare))];
}

/** The count of a group: of the resources that match, if there is a filter. */
function groupTitle(group, count, view) {
  return `${formatCount(count)} ${GROUPS[group].words}${view.filter === '' ? '' : ' of the matches'}`;
}

function familyRows({ parent, children }, compare) {
  return [nodeRow(parent, false), ...children.sort(compare).map((node) => nodeRow(node, true))];
}

function nodeRow(node, child) {
  return { node, child, tall: node.verdict.level > 0 };
}

/**
 * Brings rows up to date without another order: the counts of the groups, the rows with a reason, and rows that are new, at
 * the end of their group. Rows that the store has forgotten go. The first `fixed` rows keep their heights, and no row comes
 * between them or goes from them.
 */
export function refreshRows(entries, store, view, fixed) {
  const rows = entries.map((entry, i) => refreshRow(entry, store, i < fixed)).filter((row) => row !== null);
  const found = families(store, view.filter, view.only);
  const listed = new Set(rows.map((row) => row.node));
  const fresh = found.flatMap(({ parent, children }) => [parent, ...children]).filter((node) => !listed.has(node));
  const fit = (index) => (index < fixed ? rows.length : index);
  for (const node of fresh) rows.splice(fit(endOfGroup(rows, node)), 0, nodeRow(node, false));
  const counts = { trouble: 0, quiet: 0 };
  for (const { parent } of found) counts[parent.worst > 0 ? 'trouble' : 'quiet']++;
  const heads = rows.filter((row) => row.node === undefined);
  // A group that was empty has no head before the next sort: its count stands with the other one.
  const others = ['trouble', 'quiet'].filter((group) => counts[group] > 0 && !heads.some((head) => head.group === group));
  const title = (group) => [group, ...others].map((one) => groupTitle(one, counts[one], view)).join(', ');
  return rows.map((row) => (row.node === undefined ? { ...row, title: title(row.group) } : row));
}

/** The row of an entry now; `null` if its resource is forgotten and it need not stay. A name that has come back has another node. */
function refreshRow(entry, store, isFixed) {
  if (entry.node === undefined) return entry;
  const node = store.find(entry.node.key);
  if (isFixed) return { ...entry, node: node ?? entry.node };
  return node === null ? null : nodeRow(node, entry.child);
}

/** Where a row that is new comes: before the head of the quiet ones, or last. */
function endOfGroup(rows, node) {
  const quiet = rows.findIndex((row) => row.group === 'quiet');
  return node.worst > 0 && quiet > 0 ? quiet : rows.length;
}
