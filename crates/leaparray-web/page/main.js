// Puts the parts together: view, connection, store, and what is drawn of them.

import { readView, viewHash } from './address.js';
import { Background, showIcon } from './background.js';
import { ChangeList } from './changes.js';
import { Connection, MUTE, now } from './connection.js';
import { DetailView } from './detail.js';
import { byId, element, isolated, opensTab, setText, setTitle } from './dom.js';
import { FleetView } from './fleet.js';
import { RuleView } from './rules.js';
import { formatCount, formatDuration, formatZoned } from './format.js';
import { startKeyboard } from './keyboard.js';
import { SORTS } from './order.js';
import { requestRender, startRendering } from './render.js';
import { startSaving } from './save.js';
import { Store } from './store.js';
import { Table } from './table.js';
import { startTheme } from './theme.js';
import { Tiles } from './tiles.js';
import { keepToken, takeToken, TOKEN_KEY } from './token.js';
import { FAILING, judgeAll, STRAINED } from './verdict.js';

/** Values are shown as live for this many seconds after the last message: a new stream follows an expired one. */
const GRACE = 2.5;

/** The version of the messages that this page reads. */
const VERSION = 2;

/** What the server said when it ended a stream that was not to end. */
const BYES = { closing: 'the server is stopping', slow: 'this connection is too slow', expired: 'the server ends its streams before the first second', failed: 'the server could not read its figures' };

/** What is told to those who do not see the mark. */
const ANNOUNCEMENTS = {
  connecting: 'Connecting', live: 'The page is live', paused: 'Paused', lost: 'Connection lost: these are the last values',
  other: 'The server has another version: reload the page', locked: 'The page needs a token',
};

/** Why the page needs a token. */
const LOCKS = {
  missing: '◆ This page needs a token. Open the address that the service has printed at its start, which ends with #token=…, or enter the token:',
  refused: '◆ The service does not accept the token of this page. If it has started again, it has a new one: open the address that it has printed, or enter the token:',
};

class App {
  constructor() {
    this.store = new Store();
    this.tiles = new Tiles();
    this.table = new Table((node) => this.open(node));
    this.detail = new DetailView(this.store, (second) => this.pin(second));
    this.changes = new ChangeList(this);
    this.background = new Background(() => this.connection.open());
    this.fleet = new FleetView(this.store, (window) => this.go({ window }, false));
    this.rules = new RuleView(this.store);
    this.connection = new Connection(() => this.query(), (message) => this.accept(message), () => this.showState());
    takeToken();
    this.view = readView();
    this.paused = false;
    /** How many resources there are of each level in the newest second with rows. */
    this.levels = [0, 0, 0];
    /** Whether the browser is on its way back to the list. */
    this.isReturning = false;
    /** Whether the server speaks another version of the messages. */
    this.isOther = false;
  }

  start() {
    startTheme();
    showIcon(null);
    startKeyboard(this);
    startSaving(this);
    setText(byId('zone'), Intl.DateTimeFormat().resolvedOptions().timeZone);
    this.listen();
    this.applyView();
    this.followVisibility();
    setInterval(() => this.watch(), 1000);
  }

  listen() {
    addEventListener('hashchange', () => this.readAddress());
    // Another tab has got a token.
    addEventListener('storage', (event) => {
      if (event.key === TOKEN_KEY && event.newValue !== null) this.unlock();
    });
    byId('locked').addEventListener('submit', (event) => {
      event.preventDefault();
      keepToken(byId('token').value.trim());
      byId('token').value = '';
      this.unlock();
    });
    document.addEventListener('visibilitychange', () => this.followVisibility());
    byId('pause').addEventListener('click', () => this.togglePause());
    byId('only').addEventListener('click', () => this.toggleOnly());
    byId('help-open').addEventListener('click', () => byId('help').showModal());
    byId('filter').addEventListener('input', (event) => this.setFilter(event.target.value));
    byId('back').addEventListener('click', (event) => {
      event.preventDefault();
      this.back();
    });
    byId('fleet-open').addEventListener('click', (event) => {
      if (opensTab(event)) return;
      event.preventDefault();
      this.openFleet();
    });
    byId('head').addEventListener('click', (event) => {
      const column = event.target.dataset.sort;
      if (event.target.matches('button') && column) this.sortBy(column);
    });
  }

  // Connection.

  /** The parameters of the stream: the seconds that are known already are left out. */
  query() {
    const query = new URLSearchParams();
    if (document.hidden) query.set('only', 'totals');
    else if (this.view.resource !== null) query.set('resource', this.view.resource);
    if (this.view.resource !== null && this.view.context !== null) query.set('context', this.view.context);
    const newest = document.hidden ? this.store.heard : this.store.newest;
    if (newest > 0) query.set('since', `${this.store.instance}.${newest}`);
    return query;
  }

  accept(message) {
    if (message.type === 'hello' && !this.understands(message)) return;
    if (message.type === 'hello') this.greet(message);
    const fresh = this.store.accept(message);
    if (message.type === 'second') this.isNew = true;
    if (message.type === 'changes') this.changes.accept(fresh);
    if (message.type === 'totals') this.showTotals();
    requestRender(false);
  }

  /** A server with other messages has another page, too. */
  understands(hello) {
    if (hello.version === VERSION) return true;
    this.isOther = true;
    this.connection.close();
    const reload = element('button', '', 'Reload');
    reload.type = 'button';
    reload.addEventListener('click', () => location.reload());
    byId('banner').replaceChildren(`◆ The server sends messages of version ${hello.version}, and this page reads version ${VERSION}. `, reload);
    byId('banner').hidden = false;
    this.showState();
    return false;
  }

  /** Another instance counts from zero: nothing of the one before stays on the page. */
  greet(hello) {
    if (hello.instance !== this.store.instance) {
      this.detail.cursor = null;
      this.table.settle();
    }
    this.changes.since ??= hello.now;
    setText(byId('service'), hello.name);
    setTitle(byId('service'), hello.name);
  }

  /** A paused page has no stream, and a hidden one a light stream at most. */
  followVisibility() {
    if (!document.hidden) this.changes.forget();
    this.background.follow(document.hidden && !this.paused && !this.isOther);
    if (this.mayConnect()) this.connection.open();
    else this.connection.close();
    this.showState();
  }

  /** Tries another token. */
  unlock() {
    this.connection.lock = '';
    this.followVisibility();
  }

  mayConnect() {
    return (!document.hidden || this.background.release !== null) && !this.paused && !this.isOther;
  }

  togglePause() {
    this.paused = !this.paused;
    setText(byId('pause'), this.paused ? 'Resume' : 'Pause');
    this.followVisibility();
  }

  watch() {
    this.connection.watch();
    this.showState();
  }

  /** One of `connecting`, `live`, `paused`, `lost`, `locked`, `other`. */
  state() {
    if (this.isOther) return 'other';
    if (this.connection.lock !== '') return 'locked';
    if (this.paused) return 'paused';
    const age = this.connection.age();
    if (age < GRACE) return 'live';
    if (this.connection.isOpening() || (age === Infinity && this.connection.failures < 2 && this.connection.waits() < MUTE)) return 'connecting';
    return 'lost';
  }

  /** Says whether the values are live, and if not, how old they are. */
  showState() {
    const state = this.state();
    const { body } = document;
    if (body.dataset.state !== state) {
      body.dataset.state = state;
      setText(byId('announcement'), ANNOUNCEMENTS[state]);
      requestRender(false);
    }
    const age = this.connection.age();
    const never = age === Infinity;
    const ago = `${formatDuration(Math.floor(age))} ago`;
    const words = { connecting: `connecting · read ${ago}`, live: 'live · every 1 s', paused: `paused · read ${ago}`, lost: `last seen ${ago}`, locked: 'needs a token', other: 'another version' };
    if (never) words.lost = words.paused = 'no data yet';
    if (never) words.connecting = 'connecting';
    setText(byId('mark-text'), words[state]);
    setTitle(byId('mark'), words[state]);
    showIcon(state === 'live' && this.mayConnect() ? this.told().levels : null);
    this.showTitle(state);
    this.showBanner(state, ago, never);
  }

  showBanner(state, ago, never) {
    const banner = byId('banner');
    byId('locked').hidden = state !== 'locked';
    if (state === 'locked') {
      banner.hidden = true;
      setText(byId('locked-why'), LOCKS[this.connection.lock]);
      return;
    }
    if (state === 'other') return;
    if (this.store.hello?.has_seconds === false && this.store.newest === 0) {
      banner.hidden = false;
      setText(banner, '◆ The long window of the server’s registry is too short to contain a whole second when it is read, so there is nothing to show. A window of two seconds is long enough.');
      return;
    }
    banner.hidden = state !== 'lost';
    if (state !== 'lost') return;
    const { connection } = this;
    const waits = connection.waits();
    const wait = Math.ceil(connection.retryAt - now());
    const next = connection.stream !== null || wait <= 0 ? 'trying again now' : `trying again in ${wait} s`;
    const values = never ? '' : ` The values are those of ${ago}.`;
    const lost = `${formatDuration(Math.floor(connection.silence()))} ago`;
    if (waits >= MUTE) setText(banner, `◆ The stream is open, but no second has arrived for ${Math.floor(waits)} s.${values}`);
    else if (never) setText(banner, `◆ No connection to the server ${connection.heardAt > 0 ? 'now' : 'yet'}: ${connection.answer || BYES[connection.reason] || 'it may be stopped'}; ${next}.`);
    else setText(banner, `◆ Connection lost ${lost}${this.whyLost()}. These are the ${lost === ago ? 'last values' : `values of ${ago}`}; ${next}.`);
  }

  whyLost() {
    const { answer, reason } = this.connection;
    if (answer !== '') return `, and the server is there: ${answer}`;
    return reason === '' ? '' : `: ${BYES[reason] ?? `the server says “${reason}”`}`;
  }

  // View.

  readAddress() {
    const before = this.view;
    const isUnlocked = takeToken();
    this.view = readView();
    this.applyView();
    if (isUnlocked) this.unlock();
    else if (before.resource !== this.view.resource || before.context !== this.view.context) this.reconnect();
  }

  /** Another resource's details need another stream. Until it brings them, and on a paused page, they are those that were read before. */
  reconnect() {
    this.store.recallDetail(this.view.resource, this.view.context);
    if (this.mayConnect()) this.connection.open();
    requestRender(false);
  }

  /** Shows what the view says: list or details, sort, filter. */
  applyView() {
    const { view, table } = this;
    const isOpen = view.resource !== null;
    document.body.dataset.view = isOpen ? 'detail' : view.fleet ? 'fleet' : 'list';
    if (!view.fleet) this.closeFleet();
    if (!isOpen) this.closeDetail();
    else if (!this.detail.shows(view)) this.detail.open(view);
    else this.detail.moment.set(view.at);
    this.wantsSelection = isOpen;
    this.selectOpened();
    this.showFilter();
    this.showSort();
    byId('back').href = viewHash({ ...view, resource: null, context: null, fleet: false });
    byId('fleet-open').href = viewHash({ ...view, fleet: true });
    this.fleet.update(view);
    table.follow(view);
    // The row may not be known yet, or get another place with the next order.
    table.following = isOpen;
    requestRender(true);
    if (isOpen) table.revealSelected();
  }

  /** Selects the row of the details; once its resource is known, if the page was opened with it. */
  selectOpened() {
    if (!this.wantsSelection) return;
    const node = this.store.named(this.view.resource, this.view.context);
    if (node !== null) this.table.selected = node.key;
    this.wantsSelection = node === null;
  }

  /** The focus goes to the list, and is not lost with the details. */
  closeDetail() {
    const hadFocus = byId('detail').contains(document.activeElement);
    this.detail.close();
    if (hadFocus) byId('list').focus({ preventScroll: true });
  }

  /** As with the details, the focus goes to the list. */
  closeFleet() {
    const hadFocus = byId('fleet').contains(document.activeElement);
    byId('fleet').hidden = true;
    if (hadFocus) byId('list').focus({ preventScroll: true });
  }

  showFilter() {
    const input = byId('filter');
    if (input.value !== this.view.filter) input.value = this.view.filter;
    input.classList.toggle('active', this.view.filter !== '');
    byId('only').setAttribute('aria-pressed', this.view.only);
  }

  showSort() {
    for (const button of byId('head').querySelectorAll('button')) {
      const active = button.dataset.sort === this.view.sort;
      const rising = (this.view.sort === 'name') !== this.view.up;
      if (active) button.dataset.dir = rising ? 'up' : 'down';
      else delete button.dataset.dir;
    }
    for (const header of byId('head').children) {
      const active = header.querySelector('button[data-dir]');
      if (active) header.setAttribute('aria-sort', active.dataset.dir === 'up' ? 'ascending' : 'descending');
      else header.removeAttribute('aria-sort');
    }
  }

  /** Goes to a view: as a step that the back button undoes, or in place of the present one. */
  go(change, asStep) {
    const view = { ...this.view, ...('resource' in change ? { at: null } : {}), ...change };
    const hash = viewHash(view);
    // How many steps of the browser's history are above the list.
    const above = isList(view) ? 0 : (history.state?.above ?? (isList(this.view) ? 0 : NaN)) + 1;
    if (asStep) history.pushState({ above }, '', hash);
    else history.replaceState(history.state, '', hash);
    this.readAddress();
  }

  open(node) {
    if (this.view.resource === node.name && this.view.context === node.context) return;
    this.go({ resource: node.name, context: node.context, fleet: false }, true);
    byId('detail').focus({ preventScroll: true });
  }

  /** Opens the fleet, if the server has sent one. */
  openFleet() {
    if (this.view.fleet || !this.store.fleet?.fleet) return;
    this.go({ resource: null, context: null, fleet: true }, true);
    byId('fleet').focus({ preventScroll: true });
  }

  openSelected() {
    const node = this.table.selectedNode();
    if (node !== null) this.open(node);
  }

  back() {
    if (this.view.resource !== null || this.view.fleet) {
      this.backToList();
      byId('list').focus();
    } else if (this.view.filter !== '') {
      this.setFilter('');
    }
  }

  /** Goes back to the list as the browser does, so that its own way back leads on from there; filter and order stay. */
  backToList() {
    const { filter, only, sort, up } = this.view;
    const above = history.state?.above;
    if (!(above > 0)) return this.go({ resource: null, context: null, fleet: false }, false);
    if (this.isReturning) return undefined;
    this.isReturning = true;
    addEventListener('popstate', () => {
      this.isReturning = false;
      this.readAddress();
      this.go({ filter, only, sort, up }, false);
    }, { once: true });
    return history.go(-above);
  }

  setFilter(filter) {
    this.go({ filter }, false);
    this.table.showTop();
  }

  toggleOnly() {
    this.go({ only: !this.view.only }, false);
    this.table.showTop();
  }

  /** Puts a second of the details into the address. */
  pin(second) {
    if (second !== null && this.view.resource !== null) this.go({ at: second }, false);
  }

  focusFilter() {
    byId('filter').focus();
    byId('filter').select();
  }

  /** Sorts by a column; a second time, the other way round. */
  sortBy(column) {
    const again = column === this.view.sort && column !== 'trouble';
    this.go({ sort: column, up: again ? !this.view.up : false }, true);
  }

  sortByNext() {
    const columns = [...SORTS.keys()];
    this.sortBy(columns[(columns.indexOf(this.view.sort) + 1) % columns.length]);
  }

  // Drawing.

  /** Brings the page up to date with the store; `everything` also after no new data. */
  render() {
    const { store, view } = this;
    if (this.isNew) this.levels = judgeAll(store);
    this.selectOpened();
    this.isNew = false;
    if (store.version !== this.table.version && this.table.entries.length === 0) this.table.orderedAt = 0;
    this.table.version = store.version;
    if (store.newest > 0) {
      if (view.resource === null && !view.fleet) this.tiles.update(store, this.levels);
      // Hidden, it has no size to draw on.
      if (!view.fleet) this.table.update(store, view);
      this.detail.update();
    }
    this.fleet.update(view);
    this.rules.update();
    this.changes.update();
    this.showAbout();
  }

  /** A hidden tab has no frames: its title and icon follow each message. */
  showTotals() {
    this.showAbout();
    this.showState();
  }

  /** What the title tells, and the second of which it is: a hidden tab has the totals, a shown one what its rows have. */
  told() {
    const { heard, levels, newest } = this.store;
    return document.hidden ? { second: heard, levels } : { second: newest, levels: this.levels };
  }

  showAbout() {
    const { hello, newest } = this.store;
    if (hello === null) return;
    const up = formatDuration((newest || hello.now) - hello.started);
    const resources = this.told().levels.reduce((sum, count) => sum + count, 0);
    setText(byId('about'), [hello.host, `pid ${hello.pid}`, `up ${up}`, `${formatCount(resources)} ${resources === 1 ? 'resource' : 'resources'}`]
      .filter(Boolean).join(' · '));
    this.showTitle(this.state());
  }

  /** The title: how many resources are in trouble, and if that is not read now, why, and of which time it is. */
  showTitle(state) {
    const { hello } = this.store;
    if (hello === null) return;
    const { second, levels } = this.told();
    const isStale = state !== 'live' || !this.mayConnect();
    const why = document.hidden && state !== 'paused' && state !== 'locked' ? 'hidden' : state;
    const inTrouble = levels[FAILING] + levels[STRAINED];
    const title = [isStale && why, isStale && second > 0 && formatZoned(second), inTrouble > 0 && `(${inTrouble})`, isolated(hello.name)].filter(Boolean).join(' ');
    if (document.title !== title) document.title = title;
  }
}

/** Whether a view is neither that of a resource nor that of the fleet. */
function isList(view) {
  return view.resource === null && !view.fleet;
}

const app = new App();
startRendering(app);
app.start();
