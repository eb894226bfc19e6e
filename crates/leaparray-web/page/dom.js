// Small helpers around the document.

import { requestRender } from './render.js';

export function byId(id) {
  return document.getElementById(id);
}

/** Characters that are not seen, or reorder the text beside them; not the joiners, which spell words. */
const UNSEEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A text with escapes in place of characters that are not seen. */
export function escaped(text) {
  return String(text).replace(UNSEEN, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** A text in which a name of the other direction reorders nothing beside it, where no element isolates it. */
export function isolated(text) {
  const shown = escaped(text);
  return /[^ -~]/.test(shown) ? `\u2068${shown}\u2069` : shown;
}

/** Whether a click on a link opens another tab. */
export function opensTab(event) {
  return event.ctrlKey || event.metaKey || event.shiftKey;
}

/** Makes an element. Text from the server is only ever set as text. */
export function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className !== '') made.className = className;
  if (text !== '') made.textContent = escaped(text);
  return made;
}

/** A box that is scrolled sideways, with the keyboard too. */
export function scrolledBox(className, label) {
  const box = element('div', className);
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', label);
  return box;
}

/** Sets a text that may be unchanged, without asking the document for it. Returns whether it has changed. */
export function setText(target, text) {
  if (target.shownText === text) return false;
  target.shownText = text;
  // To change a text node costs less than to replace it.
  if (target.firstChild) target.firstChild.data = escaped(text);
  else target.textContent = escaped(text);
  return true;
}

export function setClass(target, className) {
  if (target.shownClass === className) return;
  target.shownClass = className;
  target.className = className;
}

export function setTitle(target, title) {
  if (target.shownTitle === title) return;
  target.shownTitle = title;
  target.title = escaped(title);
}

/** Sets texts one after the other, each in an order of its own: a right-to-left text does not reorder the others. */
export function setTexts(target, texts) {
  const key = texts.join('\n');
  if (target.shownText === key) return;
  target.shownText = key;
  target.replaceChildren(...texts.map((text) => element('bdi', '', text)));
}

/** Fills the body of a table with rows of `[text, className, title]`, and keeps its elements, so that a selection stays. */
export function fillTable(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => fillRow(body.rows[i] ?? body.insertRow(), cells));
}

function fillRow(row, cells) {
  while (row.cells.length > cells.length) row.deleteCell(-1);
  cells.forEach(([text, className = '', title = ''], i) => {
    const cell = row.cells[i] ?? row.appendChild(tableCell(i));
    setText(cell, text);
    setClass(cell, className);
    setTitle(cell, title);
  });
}

function tableCell(column) {
  const cell = element(column === 0 ? 'th' : 'td');
  if (column === 0) cell.scope = 'row';
  return cell;
}

export function headCell(name) {
  const cell = element('th', '', name);
  cell.scope = 'col';
  return cell;
}

/** The size of an element in pixels of the style sheet, known without a new layout. */
export const sizes = new WeakMap();
const sizeObserver = new ResizeObserver((changes) => {
  for (const change of changes) {
    sizes.set(change.target, { width: change.contentRect.width, height: change.contentRect.height });
  }
  requestRender(true);
});

export function watchSize(target) {
  sizes.set(target, { width: target.clientWidth, height: target.clientHeight });
  sizeObserver.observe(target);
}

/** Pixels of the screen for a pixel of the style sheet. */
export function pixelScale() {
  return Math.min(3, Math.ceil(window.devicePixelRatio));
}
