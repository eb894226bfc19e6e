// Keys. They do nothing while a text is typed, or together with Ctrl, Alt or Meta.

import { byId } from './dom.js';
import { nextTheme } from './theme.js';

/** The keys that move from row to row, and in the list of changes from line to line. */
const MOVE_KEYS = ['j', 'k', 'ArrowDown', 'ArrowUp'];

/** The keys that act again while they are held. */
const REPEATED_KEYS = [...MOVE_KEYS, 'ArrowLeft', 'ArrowRight'];

/** The keys of the rows of the list, which have no meaning beside the fleet. */
const ROW_KEYS = [...REPEATED_KEYS, 'g', 'G', 's', 'o', 'Enter'];

function keyActions(app) {
  const move = (step) => (app.changes.hasFocus() ? app.changes : app.table).move(step);
  const down = () => move(1);
  const up = () => move(-1);
  return {
    '/': () => app.focusFilter(),
    j: down,
    k: up,
    ArrowDown: down,
    ArrowUp: up,
    g: () => app.table.moveToEnd(false),
    G: () => app.table.moveToEnd(true),
    ArrowLeft: () => app.detail.step(-1),
    ArrowRight: () => app.detail.step(1),
    Enter: () => app.openSelected(),
    Escape: () => app.changes.close() || app.back(),
    ' ': () => app.togglePause(),
    s: () => app.sortByNext(),
    o: () => app.toggleOnly(),
    c: () => app.changes.toggle(),
    p: () => app.pin(app.detail.cursor),
    f: () => app.openFleet(),
    t: nextTheme,
    '?': () => byId('help').showModal(),
  };
}

export function startKeyboard(app) {
  const actions = keyActions(app);
  document.addEventListener('keydown', (event) => {
    // A key of an input method, as Enter that takes a proposal, is none of the page.
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.keyCode === 229 || byId('help').open) return;
    if (event.target === byId('token') || byId('save-menu').matches(':popover-open')) return;
    if (event.target === byId('filter')) return leaveFilter(app, event);
    const action = actions[event.key];
    // Each pause and each resource has a stream of its own.
    if (action && event.repeat && !REPEATED_KEYS.includes(event.key)) return event.preventDefault();
    if (!action || isOwnKey(event) || !isUsable(app, event.key)) return;
    event.preventDefault();
    return action();
  });
}

/** Enter and Space on a button, a link or a summary do what they always do. */
function isOwnKey(event) {
  return (event.key === 'Enter' || event.key === ' ') && event.target.closest('button, a, summary') !== null;
}

/** Arrows scroll the page where they have no meaning of their own. */
function isUsable(app, key) {
  if (app.changes.hasFocus() && ROW_KEYS.includes(key)) return MOVE_KEYS.includes(key);
  if (app.view.fleet && ROW_KEYS.includes(key)) return false;
  const inDetail = app.view.resource !== null;
  if (key === 'ArrowLeft' || key === 'ArrowRight') return inDetail && app.store.newest > 0;
  if (key === 'ArrowDown' || key === 'ArrowUp') return !byId('detail').contains(document.activeElement);
  return true;
}

/** From the filter, Enter and the arrow lead to the rows, and Esc empties it first. */
function leaveFilter(app, event) {
  const rows = byId(app.view.fleet ? 'fleet' : 'list');
  if (event.key === 'Escape') {
    event.preventDefault();
    if (event.target.value === '') rows.focus();
    else app.setFilter('');
  } else if (event.key === 'Enter' || event.key === 'ArrowDown') {
    event.preventDefault();
    rows.focus();
    if (!app.view.fleet) app.table.moveToEnd(false);
  }
}
