// What has changed: a list, and a notification for a hidden tab.

import { viewHash } from './address.js';
import { byId, element, escaped, isolated, opensTab, setText, setTitle } from './dom.js';
import { formatClock, formatCount, formatShort, formatZoned, zoneOf } from './format.js';
import { keepStored, readStored } from './storage.js';
import { MAX_CHANGES } from './store.js';
import { FAILING, findingText, LEVEL_SIGNS, LEVEL_WORDS, levelOf } from './verdict.js';

const NOTIFY_KEY = 'leaparray-notify';
/** A change that comes later than this many seconds, as after a lost connection, is no news. */
const NEWS = 60;
/** A notification has as many lines. */
const NOTE_LINES = 4;

/** A change as `{level, name, context, text}`; `null` for a kind that is not known. */
export function describeChange(change, store) {
  const { kind, name, count, state, cause, levels } = change;
  const level = kind === 'more' ? levels.findLastIndex((n) => n > 0) : levelOf(change.level);
  const others = count > 1 ? ` and ${formatCount(count - 1)} more` : '';
  switch (kind) {
    case 'trouble': return { level, name, context: change.context, text: troubleText(change, store) };
    case 'breaker': return { level, name, text: `breaker ${state}${cause ? `: ${cause}` : ''}` };
    case 'more': return { level, text: `more: ${LEVEL_WORDS.map((word, i) => levels[i] && `${formatCount(levels[i])} ${word}`).filter(Boolean).reverse().join(', ')}` };
    case 'listed': return { level, name, text: `${others} new` };
    case 'gone': return { level, name, text: `${others} removed` };
    case 'process': return { level: /^l(ive|eft)/.test(state) ? 0 : FAILING, text: `process ${name}${others} ${state}` };
    case 'unread': return { level, text: `not read since ${formatClock(change.from)}: ${UNREAD[change.cause] ?? 'the cause is not known'}` };
    case 'dropped': return { level, text: `${count ? formatCount(count) : 'some'} changes up to here are no longer kept` };
    default: return null;
  }
}

const UNREAD = { 'no-viewer': 'there was no viewer', stalled: 'the process stood still', failed: 'the server could not read its figures' };

function troubleText({ level, was, findings, breaker, or_before: before }, store) {
  const words = level === 'quiet' ? 'resolved' : level === was ? `still ${level}` : level;
  // How a breaker is doing by now is not what it did then.
  const parts = findings.filter(([kind]) => kind !== 'circuit' && kind !== 'drop').map((finding) => findingText(finding, '', store));
  const state = breaker ?? (parts.length < findings.length ? 'not closed' : '');
  return [`${words}${state && `, breaker ${state}`}${before ? ', or before' : ''}`, ...parts].join(' · ');
}

export class ChangeList {
  constructor(app) {
    this.app = app;
    this.root = byId('changes');
    this.list = this.root.lastElementChild;
    this.button = byId('changes-open');
    /** The newest change that was seen, and that is in the list. */
    this.seen = null;
    this.drawn = null;
    /** The view to which the links lead back. */
    this.linkedView = null;
    /** What had the focus before the list was opened, and the link that was followed last. */
    this.opener = this.button;
    this.followed = null;
    /** When the page connected first, by the server's clock: what was before is no news. */
    this.since = null;
    /** What began to fail while the page is hidden, the newest first, and the notification of it. */
    this.told = [];
    this.note = null;
    /** Whether the browser has shown that a page cannot make notifications. */
    this.cannot = false;
    this.button.addEventListener('click', () => this.close() || this.open());
    byId('changes-close').addEventListener('click', () => this.close());
    this.list.addEventListener('click', (event) => this.follow(event));
    byId('notify').addEventListener('click', () => this.toggleNotify());
    this.showNotify();
  }

  hasFocus() {
    return this.root.contains(document.activeElement);
  }

  /** By a key: opens the list, brings the focus back to it, or closes it. */
  toggle() {
    if (this.root.hidden) this.open();
    else if (this.hasFocus()) this.close();
    else this.focus();
  }

  open() {
    this.root.hidden = false;
    this.button.setAttribute('aria-expanded', true);
    this.update();
    this.focus();
  }

  focus() {
    this.opener = document.activeElement;
    (this.followed?.isConnected ? this.followed : this.root).focus();
  }

  /** Closes the list, and gives the focus back if it had it. Returns whether it was open. */
  close() {
    if (this.root.hidden) return false;
    const hadFocus = this.hasFocus();
    this.root.hidden = true;
    this.followed = null;
    this.button.setAttribute('aria-expanded', false);
    if (!hadFocus) return true;
    this.opener.focus({ preventScroll: true });
    // It may be gone or hidden by now.
    if (this.opener === document.body || document.activeElement !== this.opener) this.button.focus({ preventScroll: true });
    return true;
  }

  /** Moves the focus from link to link. */
  move(step) {
    const links = [...this.list.querySelectorAll('a')];
    const next = links.indexOf(document.activeElement) + step;
    links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
  }

  /** Follows a link as a step of the page, which Esc takes back as the browser does. */
  follow(event) {
    const link = event.target.closest('a');
    if (link === null || opensTab(event)) return;
    event.preventDefault();
    if (matchMedia('(max-width: 760px)').matches) this.close();
    this.followed = link;
    if (link.hash !== location.hash) this.app.go(link.view, true);
    byId('detail').focus({ preventScroll: true });
  }

  update() {
    const { store: { changes }, view } = this.app;
    const newest = changes.at(-1) ?? null;
    if (!this.root.hidden) this.seen = newest;
    const unseen = changes.length - 1 - changes.lastIndexOf(this.seen);
    if (setText(this.button.lastChild, unseen > 0 ? formatShort(unseen) : '')) this.button.setAttribute('aria-label', unseen > 0 ? `Changes ${formatShort(unseen)} new` : 'Changes');
    if (this.root.hidden) return;
    if (this.drawn !== newest) this.draw(changes, newest);
    if (this.linkedView !== view) for (const link of this.list.querySelectorAll('a')) link.href = viewHash({ ...view, ...link.view });
    this.linkedView = view;
  }

  draw(changes, newest) {
    const from = changes.lastIndexOf(this.drawn) + 1;
    if (from === 0) this.list.replaceChildren();
    this.list.prepend(...changes.slice(from).reverse().map((change) => this.makeItem(change)).filter(Boolean));
    while (this.list.children.length > MAX_CHANGES) this.list.lastChild.remove();
    byId('changes-none').hidden = newest !== null;
    setText(byId('changes-zone'), newest === null ? '' : zoneOf(newest.t));
    this.drawn = newest;
    this.linkedView = null;
  }

  makeItem(change) {
    const told = describeChange(change, this.app.store);
    if (told === null) return null;
    const item = element('li');
    const sign = item.appendChild(element('span', `level-${told.level}`, LEVEL_SIGNS[told.level]));
    // Other changes do not name their level.
    if (change.kind === 'trouble') sign.setAttribute('aria-hidden', true);
    else sign.setAttribute('aria-label', LEVEL_WORDS[told.level]);
    sign.setAttribute('role', 'img');
    setTitle(item.appendChild(element('time', '', formatClock(change.t))), formatZoned(change.t));
    const text = item.appendChild(element('p'));
    if (told.name !== undefined) {
      const link = text.appendChild(element('a', 'name'));
      link.append(element('bdi', '', told.name));
      if (told.context) link.append(' ↳ ', element('bdi', '', told.context));
      link.view = viewOf(told, change);
    }
    text.append(element('bdi', '', ` ${told.text}`));
    return item;
  }

  /** Takes changes that were not known: of what begins to fail, a shown page announces it, and a hidden one notifies. */
  accept(changes) {
    const { store } = this.app;
    const first = Math.max(this.since, store.hello.now - NEWS);
    const news = changes.filter((change) => change.t >= first && !change.or_before)
      .map((change) => ({ change, ...describeChange(change, store) })).filter(({ level }) => level === FAILING).reverse();
    if (news.length === 0) return;
    if (!document.hidden) setText(byId('announcement'), linesOfNews(news));
    else if (this.mayNotify()) this.tell(news);
  }

  /** Shows one notification with all that the user has not seen. */
  tell(news) {
    this.told = [...news, ...this.told];
    const { hello, instance } = this.app.store;
    // Hidden tabs of one server show one for each second: with the same tag, the later one replaces the other in silence.
    this.notify(hello.name, linesOfNews(this.told), `${instance} ${news[0].change.t}`);
    if (this.note === null) return;
    this.note.onclick = () => {
      focus();
      this.app.go(viewOf(news[0], news[0].change), true);
    };
  }

  /** A shown page needs no notification. */
  forget() {
    this.told = [];
    this.note?.close();
    this.note = null;
  }

  notify(title, body, tag) {
    this.note?.close();
    this.note = null;
    try {
      this.note = new Notification(isolated(title), { body, tag });
    } catch {
      // Browsers of Android have the constructor for workers only.
      this.cannot = true;
      keepStored(NOTIFY_KEY, 'no');
      this.showNotify();
    }
  }

  mayNotify() {
    return readStored(NOTIFY_KEY) === 'yes' && window.Notification?.permission === 'granted';
  }

  async toggleNotify() {
    const wants = !this.mayNotify();
    keepStored(NOTIFY_KEY, wants ? 'yes' : 'no');
    if (wants && isSecureContext) await window.Notification?.requestPermission();
    // Only a notification shows whether there are any.
    if (this.mayNotify()) this.notify(this.app.store.hello?.name ?? document.title, NOTIFIES, 'on');
    this.showNotify();
  }

  showNotify() {
    byId('notify').setAttribute('aria-pressed', this.mayNotify());
    const wants = this.cannot || readStored(NOTIFY_KEY) === 'yes';
    const refused = !isSecureContext ? 'Notifications need HTTPS.'
      : this.cannot || !window.Notification ? 'This browser has no notifications of pages.' : 'This browser does not allow notifications.';
    setText(byId('notify-why'), this.mayNotify() ? NOTIFIES : wants ? refused : '');
  }
}

const NOTIFIES = 'Tells what begins to fail while hidden.';

/** The part of a view that a change is about. */
function viewOf({ name = null, context = null }, { t }) {
  return { resource: name, context, fleet: false, at: t };
}

/** What begins to fail, in lines. */
function linesOfNews(news) {
  const lines = news.slice(0, NOTE_LINES).map(({ change, name, context, text }) => [formatZoned(change.t), [name, context].filter(Boolean).map(isolated).join(' ↳ '), escaped(text)].filter(Boolean).join(' '));
  if (news.length > NOTE_LINES) lines.push(`and ${formatCount(news.length - NOTE_LINES)} more`);
  return lines.join('\n');
}
