// The store alone: what the messages of the stream leave in it. Cases that a server shows too rarely for a test.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

/** Runs the part of the page's script that needs no document. */
function newStore() {
  const files = ['format', 'ring', 'store', 'verdict', 'order'];
  const text = files.map((name) => readFileSync(new URL(`../../page/${name}.js`, import.meta.url), 'utf8')).join('\n');
  return vm.runInNewContext(`${text}; ({ store: new Store(), orderRows, judgeAll, formatTime, formatShort, formatShare, formatDuration })`);
}

const HELLO = { type: 'hello', instance: 'a', started: 100, now: 200, reasons: ['limit reached'] };
const row = (id, success, exception = 0) => [id, success + exception, success, exception, 0, 0, 0, 1, success + exception, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6];
const second = (t, rows, more = {}) => ({ type: 'second', t, total: row(0, 0).slice(1), rows, ...more });
const resources = (...list) => ({ type: 'resources', resources: list });

/** The successes of a name in the seconds from `first` to `last`; `null` for one that is not known. */
function successes(store, name, first, last) {
  const node = store.byKey.get(name);
  return Array.from({ length: last - first + 1 }, (_, i) => (store.knows(first + i) ? node.history.count(first + i, 2) : null));
}

test('zeros, gaps and what was before the start are told apart', () => {
  const { store } = newStore();
  for (const message of [HELLO, resources([1, 'a', null, 'in']), second(198, [row(1, 5)]), second(199, []), second(201, [row(1, 7)])]) store.accept(message);
  assert.deepEqual([...successes(store, 'a', 198, 201)], [5, 0, null, 7]);
  assert.equal(store.isBeforeStart(99), true);
  assert.equal(store.isBeforeStart(100), false);
});

test('a second that leaves the history does not come back as another one', () => {
  const { store } = newStore();
  for (const message of [HELLO, resources([1, 'a', null, 'in']), second(140, [row(1, 5)]), second(200, [])]) store.accept(message);
  assert.deepEqual([...successes(store, 'a', 200, 200)], [0]);
  assert.equal(store.knows(140), false);
});

test('other ids of the same instance keep the history of their names', () => {
  const { store } = newStore();
  for (const message of [HELLO, resources([1, 'a', null, 'in'], [2, 'b', null, 'in']), second(200, [row(1, 5), row(2, 6)])]) store.accept(message);
  for (const message of [HELLO, resources([1, 'b', null, 'in'], [2, 'a', null, 'in']), second(201, [row(1, 60), row(2, 50)])]) store.accept(message);
  assert.deepEqual([...successes(store, 'a', 200, 201)], [5, 50]);
  assert.deepEqual([...successes(store, 'b', 200, 201)], [6, 60]);
});

test('a row that was removed leaves with the history, also if it is listed once more', () => {
  const { store } = newStore();
  const listed = resources([1, 'a', null, 'in'], [2, 'b', null, 'in']);
  for (const message of [HELLO, listed, second(200, [row(1, 5)], { gone: [1] }), HELLO, listed, second(259, [])]) store.accept(message);
  assert.equal(store.byKey.has('a'), true);
  store.accept(second(260, []));
  assert.deepEqual([...store.byKey.keys()], ['b']);
});

test('another instance begins anew', () => {
  const { store } = newStore();
  for (const message of [HELLO, resources([1, 'a', null, 'in']), second(200, [row(1, 5)])]) store.accept(message);
  store.accept({ ...HELLO, instance: 'b' });
  assert.equal(store.byKey.size, 0);
  assert.equal(store.newest, 0);
});

test('messages, fields and elements of a later version are ignored', () => {
  const { store } = newStore();
  for (const message of [HELLO, { type: 'later' }, resources([1, 'a', null, 'in', 'more']), second(200, [[...row(1, 5), 77]], { later: 1 })]) store.accept(message);
  assert.deepEqual([...successes(store, 'a', 200, 200)], [5]);
});

test('few requests are no trouble, whatever their share', () => {
  const { store, judgeAll } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'two of three', null, 'in'], [2, 'two of 50', null, 'in'], [3, 'ten of 50', null, 'in'], [4, 'three of four', null, 'in']));
  store.accept(second(200, [row(1, 1, 2), row(2, 48, 2), row(3, 40, 10), row(4, 1, 3)]));
  assert.deepEqual([...judgeAll(store)], [2, 1, 1]);
  const verdict = (name) => store.byKey.get(name).verdict;
  assert.equal(verdict('ten of 50').parts[0], '20 % failed: 10 of 50 in 10 s');
  assert.equal(verdict('three of four').parts[0], '3 of 4 failed in 10 s');
});

test('contexts are below their resource, and bring it to the group of their trouble', () => {
  const { store, judgeAll, orderRows } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in'], [2, 'b', null, 'in'], [3, 'b', 'web', 'in']));
  store.accept(second(200, [row(1, 900), row(2, 5), row(3, 5, 50)]));
  judgeAll(store);
  const rows = orderRows(store, { sort: 'trouble', up: false, filter: '' });
  assert.deepEqual([...rows].map((entry) => entry.title ?? [entry.node.name, entry.node.context].join('/')),
    ['1 in trouble', 'b/', 'b/web', '1 quiet', 'a/']);
  const found = orderRows(store, { sort: 'name', up: false, filter: 'WEB' });
  assert.deepEqual([...found].map((entry) => entry.node.context), [null, 'web']);
});

test('numbers are short and keep their unit', () => {
  const { formatTime, formatShort, formatShare, formatDuration } = newStore();
  assert.deepEqual([999, 1e6, 26.84e6, 999.7e6, 1.0196e9].map(formatTime), ['999 ns', '1.00 ms', '26.8 ms', '1.00 s', '1.02 s']);
  assert.deepEqual([0, 9999, 10_000, 487_300, 168e6].map(formatShort), ['0', '9,999', '10.0k', '487k', '168M']);
  assert.deepEqual([[0, 9], [1, 2000], [5, 1000], [1999, 2000], [2, 2]].map(([part, whole]) => formatShare(part, whole)),
    ['0 %', '<0.1 %', '0.5 %', '>99.9 %', '100 %']);
  assert.deepEqual([14, 61, 18_720, 200_000].map(formatDuration), ['14 s', '1 min', '5 h 12 min', '2 d 7 h']);
});
