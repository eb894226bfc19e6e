// The last 60 seconds as a file: JSON, or CSV for a spreadsheet.

import { byId, element, setText } from './dom.js';
import { formatCount } from './format.js';
import { families } from './order.js';
import { COUNTS, HISTORY, UNKNOWN } from './ring.js';
import { reasonName } from './verdict.js';

const SAVED = ['passed', 'succeeded', 'failed', 'cancelled', 'refused', 'in_flight', 'max_in_flight', 'response_times',
  'sum_ns', 'min_ns', 'p50_ns', 'p90_ns', 'p99_ns', 'p999_ns', 'max_ns'];

export function startSaving(app) {
  const { store } = app;
  const menu = byId('save-menu');
  menu.addEventListener('beforetoggle', () => setText(byId('save-what'), `60 s of the total and of ${formatCount(nodesToSave(app).length)} rows`));
  menu.addEventListener('click', ({ target: { value: kind } }) => {
    if (!kind) return;
    menu.hidePopover();
    const table = tableToSave(store, nodesToSave(app));
    const parts = kind === 'csv' ? csvOf(table) : [JSON.stringify({ server: store.hello, ...table, changes: store.changes })];
    offerFile(new Blob(parts), `${fileName(store)}.${kind}`);
  });
}

/** What is shown: the resource of the details with its contexts, or the rows that match the filter. */
function nodesToSave({ store, view }) {
  if (view.resource !== null) return [...store.byKey.values()].filter((node) => node.name === view.resource);
  return families(store, view.filter, view.only).flatMap(({ parent, children }) => [parent, ...children]);
}

function fileName({ hello, newest }) {
  const time = new Date(newest * 1000).toISOString().replaceAll(/[-:]|\..*/g, '');
  return `${(hello?.name ?? '').replaceAll(/[^\w.-]+/g, '-').slice(0, 60)}-${time}Z`;
}

function offerFile(blob, name) {
  const link = element('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A row of the total for each known second, and of a resource if something happened. */
function tableToSave(store, nodes) {
  const known = Array.from({ length: HISTORY }, (_, i) => store.newest - HISTORY + 1 + i).filter((t) => store.knows(t));
  const reasons = Array.from({ length: store.reasons }, (_, reason) => reason);
  const rows = (ring, kind, ...names) => known.filter((t) => kind === 'total' || ring.has(t)).map((t) => [
    t, new Date(t * 1000).toISOString(), kind, ...names,
    ...SAVED.map((_, i) => (i < COUNTS - 1 ? knownOrNull(ring.count(t, i + 1)) : knownOrNull(ring.time(t, i - COUNTS + 1)))),
    ...reasons.map((reason) => (store.knowsReasons(t) ? ring.refusedFor(t, reason) : null)),
  ]);
  return {
    columns: ['second', 'time', 'row', 'resource', 'context', 'direction', ...SAVED, ...reasons.map((reason) => `refused: ${reasonName(store, reason)}`)],
    rows: [...rows(store.total, 'total', null, null, null),
      ...nodes.flatMap((node) => rows(node.history, node.context === null ? 'resource' : 'context', node.name, node.context, node.direction))],
  };
}

function knownOrNull(number) {
  return number === UNKNOWN || Number.isNaN(number) ? null : number;
}

/** Excel takes a file for one of UTF-8 if it begins with a byte order mark. */
function csvOf({ columns, rows }) {
  return ['\ufeff', ...[columns, ...rows].map((fields) => `${fields.map(csvField).join(',')}\r\n`)];
}

/**
 * A spreadsheet would run a text that begins like a formula: an apostrophe makes it text. In some countries a semicolon begins
 * a field, in quotes too. Where there is an apostrophe already, another one comes before it, so that all can be taken away.
 */
function csvField(field) {
  if (typeof field !== 'string') return field ?? '';
  return `"${field.replaceAll('"', '""').replace(/(^|;)(?=[\s"]*[=+\-@'＝＋－＠])/g, "$1'")}"`;
}
