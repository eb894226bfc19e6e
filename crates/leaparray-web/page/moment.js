// The second in the address.

class Moment {
  constructor(detail, parent, at) {
    this.detail = detail;
    this.root = parent.appendChild(element('p', 'moment'));
    this.set(at);
  }

  /** Takes another second; `null` for none. */
  set(at) {
    if (this.at !== at) Object.assign(this, { at, sentence: '', isShown: false });
  }

  /** The second, as long as the charts have it. */
  cursor() {
    const { newest } = this.detail.store;
    return this.at !== null && this.at <= newest && this.at > newest - HISTORY ? this.at : null;
  }

  /** Says what is known of the second. Its counts stay when they leave the 60 s. */
  update() {
    const { store, node, opened } = this.detail;
    this.root.hidden = this.at === null;
    if (this.at === null || store.newest === 0) return;
    const cursor = this.cursor();
    if (cursor !== null && node !== null) {
      this.sentence = secondSentence(store, node.history, cursor).replace(/, \d+ s before the newest/, '');
      if (!this.isShown) this.detail.setCursor(cursor, null);
      this.isShown = true;
    }
    const unknown = `${formatZoned(this.at)}: ${this.at > store.newest ? 'still to come' : 'older than the 60 s that the server keeps'}`;
    const changes = store.changes.filter(({ name, t }) => name === opened.resource && Math.abs(t - this.at) < RECENT)
      .map((change) => `${formatClock(change.t)} ${describeChange(change, store).text}`);
    setText(this.root, ['At ' + (this.sentence || unknown), ...changes].join(' · '));
  }
}
