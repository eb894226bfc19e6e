// What has changed: a list, and a notification for a hidden tab.

const NOTIFY_KEY = 'leaparray-notify';

/** A change as `{level, name, context, text}`; `null` for a kind that is not known. */
function describeChange(change, store) {
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

class ChangeList {
  constructor(app) {
    this.app = app;
    this.root = byId('changes');
    this.list = this.root.lastElementChild;
    this.button = byId('changes-open');
    /** The newest change that was seen, and that is in the list. */
    this.seen = null;
    this.drawn = null;
    this.button.addEventListener('click', () => this.toggle());
    byId('changes-close').addEventListener('click', () => this.close());
    this.list.addEventListener('click', () => matchMedia('(max-width: 760px)').matches && this.close());
    byId('notify').addEventListener('click', () => this.toggleNotify());
    this.showNotify();
  }

  toggle() {
    if (this.close()) return;
    this.root.hidden = false;
    this.button.setAttribute('aria-expanded', true);
    this.update();
    this.root.focus({ preventScroll: true });
  }

  /** Returns whether it was open. */
  close() {
    if (this.root.hidden) return false;
    this.root.hidden = true;
    this.button.setAttribute('aria-expanded', false);
    this.button.focus({ preventScroll: true });
    return true;
  }

  update() {
    const { changes } = this.app.store;
    const newest = changes.at(-1) ?? null;
    if (!this.root.hidden) this.seen = newest;
    const unseen = changes.length - 1 - changes.lastIndexOf(this.seen);
    setText(this.button.lastChild, unseen > 0 ? formatShort(unseen) : '');
    if (this.root.hidden || this.drawn === newest) return;
    const from = changes.lastIndexOf(this.drawn) + 1;
    if (from === 0) this.list.replaceChildren();
    this.list.prepend(...changes.slice(from).reverse().map((change) => this.makeItem(change)).filter(Boolean));
    while (this.list.children.length > MAX_CHANGES) this.list.lastChild.remove();
    byId('changes-none').hidden = newest !== null;
    this.drawn = newest;
  }

  makeItem(change) {
    const told = describeChange(change, this.app.store);
    if (told === null) return null;
    const item = element('li');
    const sign = item.appendChild(element('span', `level-${told.level}`, LEVEL_SIGNS[told.level]));
    sign.setAttribute('aria-hidden', true);
    item.append(element('time', '', formatClock(change.t)));
    const text = item.appendChild(element('p'));
    if (told.name !== undefined) {
      const link = text.appendChild(element('a', 'name'));
      link.append(element('bdi', '', told.name));
      if (told.context) link.append(' ↳ ', element('bdi', '', told.context));
      link.href = viewHash({ ...this.app.view, resource: told.name, context: told.context ?? null, at: change.t });
    }
    text.append(element('bdi', '', ` ${told.text}`));
    return item;
  }

  /** Takes new changes: a hidden tab tells what is worst. */
  accept(changes) {
    if (!document.hidden || !this.mayNotify()) return;
    const told = changes.map((change) => ({ change, ...describeChange(change, this.app.store) }));
    const worst = told.filter(({ level }) => level === FAILING);
    if (worst.length === 0) return;
    const lines = worst.slice(0, 4).map(({ change, name, text }) => `${formatClock(change.t)} ${name ?? ''} ${text}`);
    const { hello, instance } = this.app.store;
    // The next one replaces it, also that of another tab.
    const note = new Notification(hello.name, { body: lines.join('\n'), tag: instance });
    note.onclick = () => {
      focus();
      note.close();
      const { name = null, context = null, change } = worst[0];
      this.app.go({ resource: name, context, fleet: false, at: change.t }, true);
    };
  }

  mayNotify() {
    return readStored(NOTIFY_KEY) === 'yes' && window.Notification?.permission === 'granted';
  }

  async toggleNotify() {
    const wants = !this.mayNotify();
    keepStored(NOTIFY_KEY, wants ? 'yes' : 'no');
    if (wants && isSecureContext) await Notification.requestPermission();
    this.showNotify();
  }

  showNotify() {
    byId('notify').setAttribute('aria-pressed', this.mayNotify());
    const refused = isSecureContext ? 'This browser does not allow notifications.' : 'Notifications need HTTPS.';
    const wants = readStored(NOTIFY_KEY) === 'yes';
    setText(byId('notify-why'), this.mayNotify() ? 'Tells what begins to fail while hidden.' : wants ? refused : '');
  }
}
