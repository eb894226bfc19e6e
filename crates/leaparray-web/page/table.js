// The table. Only the rows in sight are elements; the bars and strips of all of them are on two canvases, which scroll with
// the rows.

import { viewHash } from './address.js';
import { QUANTILES } from './charts.js';
import { now } from './connection.js';
import { byId, element, opensTab, setClass, setText, setTexts, setTitle, sizes, watchSize } from './dom.js';
import { formatCount, formatShareOrCounts, formatShort, formatTime, MISSING } from './format.js';
import { endedRecently, orderRows, refreshRows } from './order.js';
import { BLOCK, EXCEPTION, HISTORY, IN_FLIGHT, P99, RT_COUNT, SUCCESS, UNKNOWN } from './ring.js';
import { RECENT } from './rule.js';
import { drawBars, drawTimes, Surface } from './strips.js';
import { LEVEL_SIGNS, LEVEL_WORDS } from './verdict.js';

const RESORT_EVERY = 5;
/** For how long the order follows each update of a server that was not known before: its history arrives. */
const SETTLING = 1.5;
/** A pointer holds the rows under it for this many seconds after it has moved. */
const HOLD = 5;
/** Rows beyond the visible part, in pixels: some with each update, more while the table is scrolled. */
const BEYOND = 90, BEYOND_SCROLLED = 320;
const ROW_HEIGHTS = {
  wide: { group: 26, tall: 58, short: 28 },
  beside: { group: 26, tall: 46, short: 28 },
  phone: { group: 30, tall: 70, short: 46 },
};

/** The elements of one row. They belong to its resource as long as it is in sight, also when the rows are sorted. */
class Row {
  constructor(number) {
    this.root = element('div', 'row');
    this.root.setAttribute('role', 'row');
    this.root.id = `row-${number}`;
    this.columns = 0;
    this.sign = this.cell('c-sign');
    const what = this.cell('c-what');
    this.name = what.appendChild(element('a', 'name'));
    this.name.tabIndex = -1;
    this.reason = what.appendChild(element('span', 'reason'));
    this.brief = what.appendChild(element('span', 'brief'));
    this.bars = this.cell('c-bars');
    for (const name of ['ok', 'failed', 'share', 'refused', 'flight', 'p50', 'p99']) this[name] = this.cell(`c-${name} number`);
    this.times = this.cell('c-times');
    this.title = this.cell('group-title');
    this.title.setAttribute('aria-colindex', 1);
    this.title.setAttribute('aria-colspan', this.columns - 1);
    this.bold = this.title.appendChild(element('b'));
    this.note = this.title.appendChild(element('span', 'hint'));
    this.entry = null;
  }

  cell(className) {
    const cell = this.root.appendChild(element('span', className));
    cell.setAttribute('role', 'gridcell');
    cell.setAttribute('aria-colindex', ++this.columns);
    cell.baseClass = className;
    return cell;
  }

  place(index, top, height) {
    if (this.index !== index) this.root.setAttribute('aria-rowindex', index + 2);
    if (this.top !== top) this.root.style.top = `${top}px`;
    if (this.height !== height) this.root.style.height = `${height}px`;
    Object.assign(this, { index, top, height });
  }

  /** Shows an entry of the order; `view` is the address of the page, in which the row's link keeps filter and sort. */
  show(entry, store, selected, view) {
    this.setKind(entry.node === undefined);
    if (entry.node === undefined) this.showGroup(entry);
    else this.showNode(entry, store, selected, view);
    this.entry = entry;
  }

  /** Hides the cells of the other kind of row. */
  setKind(isGroup) {
    if (this.isGroup === isGroup) return;
    this.isGroup = isGroup;
    for (const cell of this.root.children) cell.hidden = (cell === this.title) !== isGroup;
  }

  showGroup(entry) {
    setClass(this.root, 'row group');
    setText(this.bold, entry.title);
    setText(this.note, ` ${entry.note}`);
  }

  showNode(entry, store, selected, view) {
    const { node, child } = entry;
    const { level } = node.verdict;
    setClass(this.root, `row trouble-${level}${child ? ' child' : ''}${node.gone ? ' gone' : ''}${selected ? ' selected' : ''}`);
    if (this.selected !== selected) this.root.setAttribute('aria-selected', selected);
    this.selected = selected;
    if (setText(this.sign, LEVEL_SIGNS[level])) this.sign.setAttribute('aria-label', LEVEL_WORDS[level]);
    this.showName(node, child, view);
    const reason = entry.tall ? node.verdict.parts.join(' · ') : '';
    setText(this.reason, reason);
    setTitle(this.reason, reason);
    this.showNumbers(node, store);
  }

  showName(node, child, view) {
    setTexts(this.name, child ? inTwo(`↳ ${node.context}`) : node.context === null ? inTwo(node.name) : [node.name, ` ↳ ${node.context}`]);
    const direction = node.direction === 'out' ? ', outgoing' : '';
    setTitle(this.name, (node.context === null ? node.name : `${node.name}, context ${node.context}`) + direction);
    if (this.linked === node && this.linkedView === view) return;
    this.name.href = viewHash({ ...view, resource: node.name, context: node.context, at: null });
    this.linked = node;
    this.linkedView = view;
  }

  showNumbers(node, store) {
    const t = store.newest;
    const { history } = node;
    const flight = history.count(t, IN_FLIGHT);
    this.showCount(this.ok, history.count(t, SUCCESS));
    this.showCount(this.failed, history.count(t, EXCEPTION));
    this.showCount(this.refused, history.count(t, BLOCK));
    this.showCount(this.flight, flight);
    const failed = history.sum(t, RECENT, EXCEPTION);
    setText(this.share, failed === 0 ? '' : formatShareOrCounts(failed, endedRecently(node, t)));
    this.showTime(this.p50, history, t, QUANTILES[0]);
    this.showTime(this.p99, history, t, QUANTILES[2]);
    const busy = flight === UNKNOWN ? '' : ` · ${formatCount(flight)} in flight`;
    setText(this.brief, `p99 ${formatTime(history.time(t, P99))}${busy}`);
  }

  showCount(cell, count) {
    // The columns have room for six digits.
    const isLong = count >= 1e6;
    setText(cell, count === UNKNOWN ? MISSING : isLong ? formatShort(count) : formatCount(count));
    setTitle(cell, isLong ? formatCount(count) : '');
    setClass(cell, `${cell.baseClass} ${count === 0 || count === UNKNOWN ? 'zero' : 'some'}`);
  }

  showTime(cell, history, t, quantile) {
    const time = history.time(t, quantile.column);
    setText(cell, formatTime(time));
    setClass(cell, `${cell.baseClass} ${history.count(t, RT_COUNT) < quantile.enough ? 'few' : 'some'}`);
  }
}

/** The last characters of a name, which stay in sight if it is cut. */
const TAIL = 12;

/** A long name in two parts, of which the first one is cut. */
function inTwo(name) {
  if (name.length <= 2 * TAIL) return [name];
  const characters = [...name];
  return [characters.slice(0, -TAIL).join(''), characters.slice(-TAIL).join('')];
}

function entryKey(entry) {
  // Keys of resources do not begin with a line's end.
  return entry.node?.key ?? `\n${entry.group}`;
}

export class Table {
  /** `open(node)` opens the details. */
  constructor(open) {
    this.grid = byId('list');
    this.scroller = byId('scroll');
    this.space = byId('space');
    this.empty = byId('empty');
    this.why = this.empty.firstElementChild;
    this.bars = new Surface(byId('bars'));
    this.times = new Surface(byId('times'));
    /** The rows that are hidden. */
    this.hiddenRows = [];
    this.rowCount = 0;
    /** The rows in sight by the keys of their entries. */
    this.shown = new Map();
    this.entries = [];
    this.tops = [0];
    this.selected = null;
    /** Whether the selected row is kept in sight: beside its details, until the user scrolls. */
    this.following = false;
    this.orderedAt = 0;
    this.settledAt = Infinity;
    this.version = -1;
    this.pointerInside = false;
    /** Where the pointer was last, below the upper edge of the rows, and when it or the rows under it were moved. */
    this.pointerY = 0;
    this.pointerAt = -Infinity;
    /** The resource on which the button of the pointer went down: only that one is opened. */
    this.pressed = null;
    this.drawn = { first: 0, end: 0 };
    /** Kept, because to ask the element in the middle of an update would cost a layout. */
    this.scrollTop = 0;
    watchSize(this.scroller);
    this.scroller.addEventListener('scroll', () => this.onScroll(), { passive: true });
    this.listenToPointer(open);
  }

  listenToPointer(open) {
    this.scroller.addEventListener('pointerenter', (event) => {
      this.pointerInside = event.pointerType === 'mouse';
      this.pointerAt = now();
    });
    this.scroller.addEventListener('pointermove', (event) => {
      this.pointerY = event.clientY - this.gridTop();
      // A browser also tells that what is under the pointer has moved.
      if (event.movementX !== 0 || event.movementY !== 0) this.pointerAt = now();
    }, { passive: true });
    this.scroller.addEventListener('pointerleave', () => { this.pointerInside = false; });
    this.scroller.addEventListener('pointerdown', (event) => { this.pressed = this.nodeOf(event.target); });
    this.scroller.addEventListener('click', (event) => {
      const node = this.nodeOf(event.target);
      const isOther = event.detail > 0 && this.pressed !== node;
      if (isOther) event.preventDefault();
      if (!node || isOther || opensTab(event)) return;
      event.preventDefault();
      this.selected = node.key;
      open(node);
    });
  }

  /** Where the rows begin in the window. */
  gridTop() {
    return this.scroller.getBoundingClientRect().top;
  }

  /** The resource in whose row an element is. */
  nodeOf(target) {
    return [...this.shown.values()].find((row) => row.root.contains(target))?.entry.node ?? null;
  }

  layout(view) {
    if (matchMedia('(max-width: 760px)').matches) return 'phone';
    return view.resource === null ? 'wide' : 'beside';
  }

  /** Lets the order follow the next updates at once, for example while the history arrives. */
  settle() {
    this.settledAt = now() + SETTLING;
    this.orderedAt = 0;
  }

  /** Sorts and filters with the next update if the view asks for another order; otherwise rows stay where they are. */
  follow(view) {
    if (this.view?.sort !== view.sort || this.view.up !== view.up || this.view.filter !== view.filter || this.view.only !== view.only) this.orderedAt = 0;
    this.view = view;
  }

  /** Updates after new data. */
  update(store, view) {
    this.store = store;
    this.view = view;
    if (this.mayOrder()) this.order();
    else this.refresh();
    this.render(BEYOND);
  }

  mayOrder() {
    if (this.orderedAt === 0 || now() < this.settledAt) return true;
    return now() - this.orderedAt >= RESORT_EVERY && !this.isHeld();
  }

  /** Whether rows stay where they are, because the user is about to click on one of them. A pointer at rest holds nothing. */
  isHeld() {
    return this.pointerInside && now() - this.pointerAt < HOLD;
  }

  /** Sorts and filters, because it is time or because the user asked for it. */
  order() {
    this.orderedAt = now();
    this.entries = orderRows(this.store, this.view);
    this.place();
  }

  /** Follows the newest second without another order. Rows down to that under a pointer that holds them stay where they are. */
  refresh() {
    const fixed = this.isHeld() ? this.at(this.scrollTop + this.pointerY) + 1 : 0;
    this.entries = refreshRows(this.entries, this.store, this.view, fixed);
    this.place();
  }

  /** Computes where each row begins. */
  place() {
    const heights = ROW_HEIGHTS[this.layout(this.view)];
    const tops = new Float64Array(this.entries.length + 1);
    this.entries.forEach((entry, i) => {
      const height = entry.node === undefined ? heights.group : entry.tall ? heights.tall : heights.short;
      tops[i + 1] = tops[i] + height;
    });
    this.tops = tops;
    if (this.height !== tops.at(-1)) this.space.style.height = `${tops.at(-1)}px`;
    this.height = tops.at(-1);
    if (this.count !== this.entries.length) this.grid.setAttribute('aria-rowcount', this.entries.length + 1);
    this.count = this.entries.length;
    this.showWhetherEmpty();
    // The browser does the same at the next layout: its scroll event is then not taken for one of the user.
    this.scrollTop = Math.min(this.scrollTop, Math.max(0, this.height - sizes.get(this.scroller).height));
    this.followSelected();
  }

  /** Keeps the selected row in sight. Once the order has settled, nothing moves under the pointer. */
  followSelected() {
    if (this.following && !(this.isHeld() && now() >= this.settledAt)) this.revealSelected();
  }

  showWhetherEmpty() {
    this.empty.hidden = this.entries.length > 0;
    if (!this.store.hello) setText(this.why, 'Waiting for the first second…');
    else if (this.view.filter !== '') setText(this.why, `No resource has “${this.view.filter}” in its name.`);
    else setText(this.why, this.view.only ? 'No resource is in trouble.' : 'No resource has been used yet.');
  }

  /** The entry at a height. */
  at(top) {
    let low = 0, high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= top) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  onScroll() {
    const top = this.scroller.scrollTop;
    if (Math.abs(top - this.scrollTop) > 1) {
      this.following = false;
      this.pointerAt = now();
    }
    this.scrollTop = top;
    const { height } = sizes.get(this.scroller);
    const end = this.tops.at(-1);
    // What is drawn reaches beyond the visible part: most scrolling needs no work.
    const needed = { top: Math.max(0, top - 30), bottom: Math.min(end, top + height + 30) };
    if (this.tops[this.drawn.first] <= needed.top && this.tops[this.drawn.end] >= needed.bottom) return;
    if (this.store) this.render(BEYOND_SCROLLED);
  }

  /** Shows the rows in sight and those that are at most `beyond` pixels away. */
  render(beyond) {
    const { height } = sizes.get(this.scroller);
    const top = this.scrollTop;
    const first = this.at(top - beyond);
    const end = Math.min(this.entries.length, this.at(top + height + beyond) + 1);
    const rows = this.assignRows(first, end);
    rows.forEach((row, j) => {
      const i = first + j, entry = this.entries[i];
      row.place(i, this.tops[i], this.tops[i + 1] - this.tops[i]);
      row.show(entry, this.store, entry.node !== undefined && entry.node.key === this.selected, this.view);
    });
    this.drawn = { first, end };
    this.describeSelection();
    this.draw();
  }

  /** Returns a row for each entry from `first` to `end`: the one that it has, or one that no entry in sight has. */
  assignRows(first, end) {
    const before = this.shown;
    this.shown = new Map();
    for (let i = first; i < end; i++) {
      const key = entryKey(this.entries[i]);
      this.shown.set(key, before.get(key) ?? null);
      before.delete(key);
    }
    // Those that have been hidden longest are used first.
    this.hiddenRows.push(...before.values());
    for (const row of before.values()) row.root.hidden = true;
    for (const [key, row] of this.shown) if (row === null) this.shown.set(key, this.freeRow());
    return [...this.shown.values()];
  }

  freeRow() {
    const row = this.hiddenRows.shift() ?? this.addRow();
    row.root.hidden = false;
    return row;
  }

  addRow() {
    const row = new Row(this.rowCount++);
    this.space.append(row.root);
    return row;
  }

  /** Tells assistive technology which row is selected, if it is in sight. */
  describeSelection() {
    const row = this.shown.get(this.selected);
    if (row) this.grid.setAttribute('aria-activedescendant', row.root.id);
    else this.grid.removeAttribute('aria-activedescendant');
  }

  /** Draws bars and strips of the rows that are shown. */
  draw() {
    const { first, end } = this.drawn;
    const place = this.columns();
    // Without rows, the charts of those before would stay.
    for (const { canvas } of [this.bars, this.times]) canvas.hidden = place === null;
    if (place === null) return;
    const { height } = sizes.get(this.scroller);
    const start = this.tops[first];
    const room = height + 2 * BEYOND_SCROLLED + 2 * ROW_HEIGHTS.phone.tall;
    this.prepare(this.bars, place.bars, start, room);
    if (place.times.width > 0) this.prepare(this.times, place.times, start, room);
    for (let i = first; i < end; i++) {
      if (this.entries[i].node !== undefined) this.drawRow(i, start, place.times.width > 0);
    }
    this.bars.show();
    if (place.times.width > 0) this.times.show();
  }

  drawRow(index, start, withTimes) {
    const { node } = this.entries[index];
    const { scale } = this.bars;
    const height = this.tops[index + 1] - this.tops[index];
    const margin = height > 40 ? 6 : 3;
    const top = Math.round((this.tops[index] - start + margin) * scale);
    const inner = Math.round((height - 2 * margin - 1) * scale);
    drawBars(this.bars, node.history, this.store, top, inner, node.verdict.level === 0);
    if (withTimes) drawTimes(this.times, node.history, this.store, top + scale, inner - 2 * scale);
  }

  prepare(surface, column, start, height) {
    surface.resize(column.width, height, HISTORY);
    surface.canvas.style.transform = `translate(${column.left}px, ${start}px)`;
    surface.clear();
  }

  /** Where the two columns of charts are, measured once for a layout. */
  columns() {
    const row = [...this.shown.values()].find((candidate) => candidate.entry.node !== undefined);
    if (row === undefined) return null;
    const { width } = sizes.get(this.scroller);
    const key = `${this.layout(this.view)} ${width}`;
    if (this.columnsKey !== key) {
      this.columnsKey = key;
      const measure = (cell) => ({ left: cell.offsetLeft, width: cell.offsetWidth });
      this.measured = { bars: measure(row.bars), times: measure(row.times) };
    }
    return this.measured;
  }

  /** Selects the next row in a direction that is a resource, and scrolls it into sight. */
  move(direction) {
    const from = this.entries.findIndex((entry) => entry.node?.key === this.selected);
    let to = from < 0 && direction < 0 ? this.entries.length : from;
    do to += direction; while (this.entries[to] && this.entries[to].node === undefined);
    if (this.entries[to]) this.selectAt(to);
  }

  /** Selects the first or the last resource. */
  moveToEnd(last) {
    const to = last ? this.entries.length - 1 : this.entries.findIndex((entry) => entry.node !== undefined);
    if (this.entries[to]) this.selectAt(to);
  }

  selectAt(index) {
    this.selected = this.entries[index].node.key;
    this.reveal(index);
    this.render(BEYOND_SCROLLED);
  }

  /** Scrolls a row into sight, if it is not. */
  reveal(index) {
    // The head of the first group comes into sight with the first row.
    const top = index === 1 ? 0 : this.tops[index], bottom = this.tops[index + 1];
    const { height } = sizes.get(this.scroller);
    // On a phone the list is hidden beside the details, and keeps its place.
    if (height === 0 || (this.view.resource !== null && this.layout(this.view) === 'phone')) return;
    if (top < this.scrollTop) this.scrollTo(top);
    else if (bottom > this.scrollTop + height) this.scrollTo(bottom - height);
  }

  /** Scrolls the selected row into sight, if it is listed. */
  revealSelected() {
    const index = this.entries.findIndex((entry) => entry.node?.key === this.selected);
    if (index >= 0) this.reveal(index);
  }

  /** Shows the first rows, as after another filter. */
  showTop() {
    this.following = false;
    this.scrollTo(0);
  }

  scrollTo(top) {
    this.scroller.scrollTop = top;
    this.scrollTop = this.scroller.scrollTop;
  }

  selectedNode() {
    return this.entries.find((entry) => entry.node?.key === this.selected)?.node ?? null;
  }
}
