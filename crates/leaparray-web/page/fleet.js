// The fleet: all processes of a service together. It is shown only if the server sends one.

import { QUANTILES } from './charts.js';
import { countCell, timeCell } from './detail.js';
import { byId, element, fillTable, headCell, scrolledBox, setClass, setText, setTexts } from './dom.js';
import { byText, formatClock, formatCount, formatDuration, formatZoned, MISSING } from './format.js';
import { reasonName } from './verdict.js';

/** The most rows of a table of the fleet. The page says how many more there are, and the filter finds them. */
const FLEET_ROWS = 100;
/** The most processes that are named in the line of those that are lost or missing. */
const FLEET_NAMED = 8;

/** What the elements of the arrays are: see `FleetResourceRow`, `FleetProcessRow`, `FleetProcess`, `Counts` of the format. */
const FR_NAME = 0, FR_CONTEXT = 1, FR_DIRECTION = 2, FR_PROCESSES = 3, FR_COUNTS = 4, FR_REFUSALS = 5, FR_LEFT_OUT = 6;
const FP_ID = 0, FP_PRESENT = 1, FP_MISSING = 2, FP_WAITING = 3, FP_COUNTS = 4;
const P_ID = 0, P_NAME = 1, P_STATE = 2, P_LEDGER = 3;
const C_PASS = 0, C_SUCCESS = 1, C_EXCEPTION = 2, C_CANCELLED = 3, C_BLOCK = 4, C_IN_FLIGHT = 5, C_RT_COUNT = 7, C_RT_SUM = 8, C_MIN = 9, C_P50 = 10, C_P99 = 12, C_MAX = 14;

const FLEET_COUNTS = ['Passed', 'Succeeded', 'Failed', 'Cancelled', 'Refused', 'In flight', 'mean', 'min', 'p50', 'p99', 'max'];
const FLEET_REASONS = 'Refused by reason';
const FLEET_LEDGER = ['delivered', 'missed', 'late', 'waiting', 'unfinished'];
/** The events of a total, in the order of `FleetTotals`. */
const FLEET_EVENTS = ['passed', 'succeeded', 'failed', 'cancelled', 'refused', 'passed on a reserved permit'];

/** The windows of a fleet by the name in the address. */
const FLEET_WINDOWS = { second: { field: 'last_second', words: 'Last second' }, minute: { field: 'last_minute', words: 'Last minute' } };

/** "97 of 100 processes". */
function presenceWords(window) {
  return `${formatCount(window.present)} of ${formatCount(window.expected)} ${window.expected === 1 ? 'process' : 'processes'}`;
}

/** Whether nothing in a window is waited for: what the server says of it, and only up to the newest final second. */
function isFinal(fleet, window) {
  return ['final', 'closed'].includes(window.standing) && fleet.newest_final !== null && window.end <= fleet.newest_final + 1;
}

function standingWords(fleet, window) {
  if (isFinal(fleet, window)) return window.standing;
  return window.standing === 'waiting' ? 'waiting, not final' : 'not final';
}

/** What stands beside all figures of a window: which seconds, how complete, of how many processes. */
function watermark(fleet, window) {
  const last = window.end - 1;
  const seconds = window.start === last ? formatZoned(last) : `${formatClock(window.start)} to ${formatZoned(last)}`;
  return `${presenceWords(window)} · ${standingWords(fleet, window)} · ${seconds}`;
}

/** Up to when the figures are final, and how far that is behind the server's clock. */
function finalWords(fleet, now) {
  if (fleet.newest_final === null) return 'no second is final yet';
  return `final up to ${formatZoned(fleet.newest_final)}, ${formatDuration(now - fleet.newest_final - 1)} ago`;
}

function requestsOf(counts) {
  return counts[C_PASS] + counts[C_BLOCK];
}

/** The cells of counts, in the order of `FLEET_COUNTS`. `lacks` says in words what they lack: see `lackWords`. */
function countCells(counts, lacks = '') {
  if (counts === null) return FLEET_COUNTS.map(() => [MISSING, 'zero']);
  const ended = counts[C_RT_COUNT];
  return [
    ...[C_PASS, C_SUCCESS, C_EXCEPTION, C_CANCELLED, C_BLOCK, C_IN_FLIGHT].map((column) => leastCell(countCell(counts[column] ?? NaN), lacks)),
    ...[
      timeCell(ended > 0 ? counts[C_RT_SUM] / ended : null, ended, 1),
      timeCell(counts[C_MIN], ended, 1),
      timeCell(counts[C_P50], ended, 1),
      timeCell(counts[C_P99], ended, QUANTILES[2].enough),
      timeCell(counts[C_MAX], ended, 1),
    ].map((cell) => partCell(cell, lacks)),
  ];
}

/** Why the figures of a resource are not those of all processes and seconds; an empty text if they are. */
function lackWords(row, window) {
  const times = (count) => (count === 1 ? 'once' : `${formatCount(count)} times`);
  const own = row[FR_LEFT_OUT];
  if (own > 0) return `${times(own)}, a process had no room for the row of this resource in a second`;
  const unnamed = window.left_out_unnamed ?? 0;
  return unnamed > 0 ? `${times(unnamed)}, a process had no room for the name of a resource in a second, which may be this one` : '';
}

/** A cell of a count that is a lower bound if it lacks something: with a mark, and why. */
function leastCell([text, className], lacks) {
  if (lacks === '' || text === MISSING) return [text, className];
  return [`≥ ${text}`, '', `at least: ${lacks}`];
}

/** A cell of a response time that lacks those of some processes and seconds: with a mark, and why. */
function partCell([text, className, title], lacks) {
  if (lacks === '' || text === MISSING) return [text, className, title];
  const why = `the response times of the other processes and seconds: ${lacks}`;
  return [`≈ ${text}`, className, title ? `${title}; ${why}` : why];
}

/** The refused requests by reason, in words, the most frequent one first. */
function refusalWords(store, refusals) {
  const known = refusals.map((count, reason) => [count, reasonName(store, reason)]).filter(([count]) => count > 0);
  return known.sort((a, b) => b[0] - a[0]).map(([count, word]) => `${formatCount(count)} ${word}`).join(', ');
}

/** What is in the total, and in no row of a resource. */
function notInRowsWords(window) {
  const rows = window?.left_out_rows ?? 0;
  if (rows === 0) return '';
  const times = rows === 1 ? 'Once' : `${formatCount(rows)} times`;
  const unnamed = window.left_out_unnamed ?? 0;
  return [
    `${times}, a process had no room for the row of a resource in a second: ${formatCount(requestsOf(window.left_out))} requests are in the total and in no row here.`,
    unnamed > 0 && `${unnamed === 1 ? 'Once' : `${formatCount(unnamed)} times`}, not even the name of the resource is known: any row may lack requests.`,
  ].filter(Boolean).join(' ');
}

function sumOf(numbers) {
  return numbers.reduce((whole, number) => whole + number, 0);
}

/** The cells of a ledger: the events of each part, and whether they are all that was recorded. */
function ledgerCells(ledger) {
  const named = (totals) => totals.map((count, i) => `${formatCount(count)} ${FLEET_EVENTS[i]}`).join(', ');
  const cell = (totals) => [...countCell(sumOf(totals)), named(totals)];
  const parts = ledger.slice(0, FLEET_LEDGER.length);
  const lifetime = ledger[FLEET_LEDGER.length];
  const isWhole = lifetime.every((count, i) => count === sumOf(parts.map((totals) => totals[i])));
  const whole = isWhole ? [`${formatCount(sumOf(lifetime))} ✓`, '', named(lifetime)]
    : [`${formatCount(sumOf(lifetime))} ≠`, 'wrong', `${named(lifetime)}; the parts are not the same`];
  return [...parts.map(cell), whole];
}

/** A process with its row of a window, which may be `null`. */
class FleetMember {
  constructor(process, row) {
    this.id = process[P_ID];
    this.name = process[P_NAME];
    this.state = process[P_STATE];
    this.ledger = process[P_LEDGER];
    this.row = row;
    this.requests = row === null ? 0 : requestsOf(row[FP_COUNTS]);
    this.missing = row === null ? 0 : row[FP_MISSING];
    this.search = `${this.name}\n${this.id}`.toLowerCase();
  }

  /** The lost ones first, then those with missing seconds. */
  get rank() {
    return this.state === 'lost' ? 2 : Number(this.missing > 0);
  }

  /** Which class its row has. */
  get kind() {
    return ['', 'missing', 'lost'][this.rank] || (this.state === 'left' ? 'left' : '');
  }

  /** A sign, and words: `live` also with seconds that are missing. */
  get words() {
    const missing = this.missing > 0 ? `${formatCount(this.missing)} s missing` : '';
    if (this.state === 'lost') return ['■ lost', missing].filter(Boolean).join(', ');
    return missing === '' ? this.state : `▲ ${this.state}, ${missing}`;
  }

  cells() {
    const { row } = this;
    const seconds = row === null ? [[MISSING, 'zero'], [MISSING, 'zero'], [MISSING, 'zero']]
      : [FP_PRESENT, FP_MISSING, FP_WAITING].map((column) => countCell(row[column]));
    const ledger = this.ledger === null ? [...FLEET_LEDGER, ''].map(() => [MISSING, 'zero']) : ledgerCells(this.ledger);
    return [[this.name || this.id, '', `${this.name}, id ${this.id}`], [this.words, 'words state'], ...seconds,
      ...countCells(row === null ? null : row[FP_COUNTS]), ...ledger, [this.id, 'words']];
  }
}

/** All processes: those that the fleet lists, and those that only have a row. */
function fleetMembers(fleet, window) {
  const rows = new Map((window?.processes ?? []).map((row) => [row[FP_ID], row]));
  const members = fleet.processes.map((process) => new FleetMember(process, rows.get(process[P_ID]) ?? null));
  const listed = new Set(fleet.processes.map((process) => process[P_ID]));
  for (const [id, row] of rows) if (!listed.has(id)) members.push(new FleetMember([id, id, 'not known', null], row));
  return members.sort((a, b) => b.rank - a.rank || b.requests - a.requests || byText(a.name, b.name) || byText(a.id, b.id));
}

/** Whether a text has all words of the filter. */
function filterOf(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== '');
  return (text) => words.every((word) => text.includes(word));
}

/** A table of the fleet: a caption with the watermark, a head, rows, and a line that says what is left out. */
class FleetTable {
  constructor(parent, title, columns) {
    this.title = title;
    parent.append(element('h3', '', title));
    const region = parent.appendChild(scrolledBox('fleet-table', `${title} of the fleet`));
    const table = region.appendChild(element('table'));
    this.caption = table.createCaption().appendChild(element('span'));
    const head = table.createTHead().insertRow();
    for (const column of columns) head.append(headCell(column));
    this.body = table.createTBody();
    this.leftOut = parent.appendChild(element('p', 'left-out'));
  }

  /** Shows rows of `{cells, kind}`, and in words what is not among them. */
  show(caption, rows, leftOut) {
    setText(this.caption, caption);
    fillTable(this.body, rows.map((row) => row.cells));
    rows.forEach((row, i) => setClass(this.body.rows[i], row.kind));
    this.leftOut.hidden = leftOut === '';
    setText(this.leftOut, leftOut);
  }
}

export class FleetView {
  constructor(store, choose) {
    this.store = store;
    this.root = byId('fleet');
    this.line = byId('fleet-open');
    this.choose = choose;
    this.isBuilt = false;
  }

  /** Makes the elements once, and only if the view is opened. */
  build() {
    if (this.isBuilt) return;
    this.isBuilt = true;
    this.title = this.root.appendChild(element('h2'));
    this.final = this.root.appendChild(element('p', 'watermark'));
    this.unreadable = this.root.appendChild(element('p', 'unreadable level-1'));
    this.troubled = this.root.appendChild(element('p', 'troubled level-2'));
    this.body = this.root.appendChild(element('div'));
    this.totals = new FleetTable(this.body, 'Total', ['Seconds', ...FLEET_COUNTS, FLEET_REASONS]);
    const bar = this.body.appendChild(element('div', 'fleet-bar'));
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', 'Seconds of the tables');
    this.buttons = Object.entries(FLEET_WINDOWS).map(([name, { words }]) => {
      const button = bar.appendChild(element('button', '', words));
      button.type = 'button';
      button.addEventListener('click', () => this.choose(name));
      return [name, button];
    });
    this.resources = new FleetTable(this.body, 'Resources', ['Resource', 'Processes', ...FLEET_COUNTS, FLEET_REASONS]);
    this.processes = new FleetTable(this.body, 'Processes', ['Process', 'State', 's present', 's missing', 's waiting', ...FLEET_COUNTS,
      ...FLEET_LEDGER.map((part) => `ever: ${part}`), 'ever: all', 'Id']);
  }

  update(view) {
    this.showLine();
    this.root.hidden = !view.fleet;
    if (!view.fleet) return;
    this.build();
    const fleet = this.store.fleet?.fleet ?? null;
    this.body.hidden = fleet === null;
    if (fleet === null) return this.showNothing();
    setText(this.title, `Fleet ${fleet.name}`);
    setText(this.final, `${finalWords(fleet, this.store.fleet.now)} · server: ${fleet.server || 'state not known'}`);
    setClass(this.final, `watermark${fleet.newest_final === null ? ' pending' : ''}`);
    this.showUnreadable(fleet.unreadable);
    this.showTotals(fleet);
    for (const [name, button] of this.buttons) button.setAttribute('aria-pressed', name === view.window);
    const { field, words } = FLEET_WINDOWS[view.window];
    const window = fleet[field];
    const caption = window === null ? `${words}: not known yet` : `${words}: ${watermark(fleet, window)}`;
    const matches = filterOf(view.filter);
    const members = fleetMembers(fleet, window);
    this.showTroubled(members);
    this.showResources(caption, window, matches, view.filter);
    return this.showProcesses(caption, members, matches, view.filter);
  }

  showNothing() {
    setText(this.title, 'Fleet');
    const { fleet, newest } = this.store;
    const why = newest === 0 ? 'Waiting for the first second…' : 'The server sends no fleet.';
    setText(this.final, fleet === null ? why : 'The server has no figures of the fleet now.');
    setClass(this.final, 'watermark');
    this.troubled.hidden = true;
    this.unreadable.hidden = true;
  }

  /** Says how many records and seconds of processes could not be read, if there are any. */
  showUnreadable(count) {
    this.unreadable.hidden = !(count > 0);
    if (this.unreadable.hidden) return;
    const what = count === 1 ? '1 record or second of a process' : `${formatCount(count)} records and seconds of processes`;
    setText(this.unreadable, `▲ ${what} could not be read: another version of the format, or damaged. The figures may lack what was in them.`);
  }

  /** The line beside the tiles: the last second, and how complete it is. */
  showLine() {
    const fleet = this.store.fleet?.fleet ?? null;
    this.line.hidden = fleet === null;
    if (fleet === null) return;
    const [title, presence, final, counts, troubled] = this.line.children;
    setText(title, `Fleet ${fleet.name}`);
    const window = fleet.last_second;
    setText(presence, window === null ? 'no second yet' : presenceWords(window));
    setText(final, window === null || isFinal(fleet, window) ? finalWords(fleet, this.store.fleet.now) : `${formatZoned(window.end - 1)}, ${standingWords(fleet, window)}`);
    setText(counts, window === null ? '' : `last second: ${formatCount(window.total[C_SUCCESS])} succeeded, ${formatCount(window.total[C_EXCEPTION])} failed, ${formatCount(window.total[C_BLOCK])} refused`);
    const lost = fleet.processes.filter((process) => process[P_STATE] === 'lost').length;
    setText(troubled, lost === 0 ? '' : `■ ${formatCount(lost)} lost`);
  }

  showTotals(fleet) {
    const rows = Object.values(FLEET_WINDOWS).map(({ field, words }) => {
      const window = fleet[field];
      if (window === null) return { cells: [[`${words}: not known yet`, 'mark'], ...countCells(null), [MISSING, 'zero']], kind: '' };
      // The head of the row stays in sight: no figure is without it.
      const mark = [`${words}: ${watermark(fleet, window)}`, `mark${isFinal(fleet, window) ? '' : ' pending'}`];
      return { cells: [mark, ...countCells(window.total), [refusalWords(this.store, window.refusals), 'words']], kind: '' };
    });
    this.totals.show('Counts of all resources in all processes that are present', rows, '');
  }

  /** Names the processes that are lost, or have missing seconds in the window of the tables. */
  showTroubled(members) {
    const troubled = members.filter((member) => member.rank > 0);
    this.troubled.hidden = troubled.length === 0;
    if (troubled.length === 0) return;
    const named = troubled.slice(0, FLEET_NAMED).map((member) => `${member.name || member.id} ${member.words}`);
    const more = troubled.length - named.length;
    setTexts(this.troubled, [...named, ...(more > 0 ? [`and ${formatCount(more)} more`] : [])].flatMap((text, i) => (i > 0 ? [' · ', text] : [text])));
  }

  showResources(caption, window, matches, filter) {
    const all = window?.resources ?? [];
    const found = all.filter((row) => matches(`${row[FR_NAME]}\n${row[FR_CONTEXT] ?? ''}`.toLowerCase()));
    found.sort((a, b) => requestsOf(b[FR_COUNTS]) - requestsOf(a[FR_COUNTS]) || byText(a[FR_NAME], b[FR_NAME]));
    const rows = found.slice(0, FLEET_ROWS).map((row) => {
      const context = row[FR_CONTEXT] === null ? '' : ` ↳ ${row[FR_CONTEXT]}`;
      const name = `${row[FR_NAME]}${context}`;
      const processes = row[FR_PROCESSES] === 0 ? [MISSING, 'zero'] : countCell(row[FR_PROCESSES]);
      return { cells: [[name, '', `${name}${row[FR_DIRECTION] === 'out' ? ', outgoing' : ''}`], processes,
        ...countCells(row[FR_COUNTS], lackWords(row, window)), [refusalWords(this.store, row[FR_REFUSALS]), 'words']], kind: '' };
    });
    const words = [leftOutWords('resource', all.length, found.length, filter), notInRowsWords(window)];
    this.resources.show(caption, rows, words.filter(Boolean).join(' '));
  }

  showProcesses(caption, members, matches, filter) {
    const found = members.filter((member) => matches(member.search));
    const rows = found.slice(0, FLEET_ROWS).map((member) => ({ cells: member.cells(), kind: member.kind }));
    const hidden = found.slice(FLEET_ROWS).filter((member) => member.rank > 0).length;
    const words = leftOutWords('process', members.length, found.length, filter);
    this.processes.show(caption, rows, hidden > 0 ? `${words} ${formatCount(hidden)} of them are lost or have missing seconds.` : words);
  }
}

/** What a table does not show: the rows that do not match, and those that are too many. */
function leftOutWords(noun, all, found, filter) {
  const many = (count) => `${formatCount(count)} ${count === 1 ? noun : noun === 'process' ? 'processes' : `${noun}s`}`;
  const words = [];
  if (filter !== '') words.push(`${formatCount(found)} of ${many(all)} match “${filter}”.`);
  const first = noun === 'process' ? 'lost and missing ones first, then by requests' : 'those with the most requests';
  if (found > FLEET_ROWS) words.push(`Shown are ${formatCount(FLEET_ROWS)}, ${first}; ${formatCount(found - FLEET_ROWS)} more are not shown: filter by name.`);
  if (all === 0) words.push(`No ${noun} yet.`);
  return words.join(' ');
}
