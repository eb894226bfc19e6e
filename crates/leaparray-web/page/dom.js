// Small helpers around the document.

function byId(id) {
  return document.getElementById(id);
}

/** Makes an element. Text from the server is only ever set as text. */
function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className !== '') made.className = className;
  if (text !== '') made.textContent = text;
  return made;
}

/** Sets a text that may be unchanged, without asking the document for it. */
function setText(target, text) {
  if (target.shownText === text) return;
  target.shownText = text;
  // To change a text node costs less than to replace it.
  if (target.firstChild) target.firstChild.data = text;
  else target.textContent = text;
}

function setClass(target, className) {
  if (target.shownClass === className) return;
  target.shownClass = className;
  target.className = className;
}

function setTitle(target, title) {
  if (target.shownTitle === title) return;
  target.shownTitle = title;
  target.title = title;
}

/** Fills the body of a table with rows of `[text, className, title]`, and keeps its elements, so that a selection stays. */
function fillTable(body, rows) {
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

/** The size of an element in pixels of the style sheet, known without a new layout. */
const sizes = new WeakMap();
const sizeObserver = new ResizeObserver((changes) => {
  for (const change of changes) {
    sizes.set(change.target, { width: change.contentRect.width, height: change.contentRect.height });
  }
  requestRender(true);
});

function watchSize(target) {
  sizes.set(target, { width: target.clientWidth, height: target.clientHeight });
  sizeObserver.observe(target);
}

/** Pixels of the screen for a pixel of the style sheet. */
function pixelScale() {
  return Math.min(3, Math.ceil(window.devicePixelRatio));
}
