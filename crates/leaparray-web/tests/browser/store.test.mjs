// The store alone: what the messages of the stream leave in it. Cases that a server shows too rarely for a test.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

/** Runs the modules of the page that need no document, as one script: see `document.rs`. */
function newStore() {
  const files = ['rule', 'format', 'ring', 'store', 'verdict', 'order', 'changes', 'save'];
  const text = files.map((name) => readFileSync(new URL(`../../page/${name}.js`, import.meta.url), 'utf8')).join('\n')
    .replaceAll(/^import .*$|^export /gm, '').replace('/*RULE*/', '{"recent":10,"few":20}');
  return vm.runInNewContext(`${text}; ({ store: new Store(), orderRows, refreshRows, judgeAll, describeChange, csvField, Detail, formatTime, formatShort, formatShare, formatDuration })`);
}

const HELLO = { type: 'hello', instance: 'a', started: 100, now: 200, reasons: ['limit reached'] };
const row = (id, success, exception = 0, block = 0) => [id, success + exception, success, exception, 0, block, 0, 1, success + exception, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6];
const second = (t, rows, more = {}) => ({ type: 'second', t, total: row(0, 0).slice(1), rows, ...more });
const failing = [['failures', 'failing', 100, 100, null]];
const resources = (...list) => ({ type: 'resources', resources: list });

/** The successes of a name in the seconds from `first` to `last`; `null` for one that is not known. */
function successes(store, name, first, last) {
  const node = store.named(name, null);
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
  assert.notEqual(store.named('a', null), null);
  store.accept(second(260, []));
  assert.deepEqual(Array.from(store.byKey.values(), (node) => node.name), ['b']);
});

test('a resource that is removed and used again within the minute is listed', () => {
  const { store } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in']));
  store.accept(second(200, [row(1, 5)], { gone: [1] }));
  assert.equal(store.named('a', null).gone, 200);
  store.accept(second(201, [row(1, 7)], { new: [[1, 'a', null, 'in']] }));
  assert.equal(store.named('a', null).gone, 0);
  for (let t = 202; t < 270; t++) store.accept(second(t, [row(1, 1)]));
  assert.deepEqual([...successes(store, 'a', 268, 269)], [1, 1]);
  // Removed and used again in one second: it is listed no longer.
  store.accept(second(270, [], { new: [[1, 'a', null, 'in']], gone: [1] }));
  assert.equal(store.named('a', null).gone, 270);
});

test('the list says since when a resource is gone', () => {
  const { store } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in', 190], [2, 'b', null, 'in', null]));
  assert.deepEqual(['a', 'b'].map((name) => store.named(name, null).gone), [190, 0]);
  store.accept(second(250, []));
  assert.equal(store.named('a', null), null);
  // Used again while no stream was open.
  store.accept(second(251, [], { gone: [2] }));
  store.accept(resources([2, 'b', null, 'in', null]));
  assert.equal(store.named('b', null).gone, 0);
});

test('a list that says since when is right after the seconds of the history, too', () => {
  const { store } = newStore();
  store.accept(HELLO);
  // As for a viewer that joins: first the list of now, then the seconds before, with what was new and gone in each.
  store.accept(resources([1, 'a', null, 'in', 190], [2, 'b', null, 'in', null], [3, 'c', null, 'in', 150]));
  store.accept(second(149, [row(3, 7)]));
  store.accept(second(150, [], { gone: [3] }));
  store.accept(second(160, [row(1, 5)], { new: [[1, 'a', null, 'in'], [2, 'b', null, 'in']] }));
  store.accept(second(170, [], { gone: [2] }));
  store.accept(second(180, [row(2, 6)], { new: [[2, 'b', null, 'in']] }));
  store.accept(second(190, [], { gone: [1] }));
  assert.deepEqual(['a', 'b', 'c'].map((name) => store.named(name, null).gone), [190, 0, 150]);
  assert.deepEqual([...successes(store, 'c', 149, 149)], [7]);
  store.accept(second(209, []));
  assert.notEqual(store.named('c', null), null);
  store.accept(second(210, []));
  assert.equal(store.named('c', null), null);
  // A list at any later time changes nothing for the others.
  store.accept(resources([1, 'a', null, 'in', 190], [2, 'b', null, 'in', null]));
  assert.deepEqual(['a', 'b'].map((name) => store.named(name, null).gone), [190, 0]);
  assert.deepEqual([...successes(store, 'b', 180, 180)], [6]);
});

test('after the first list, the seconds alone bring names and take them away', () => {
  const { store } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'stays', null, 'in', null]));
  let removed = null;
  // Each second a name comes, and that of ten seconds before goes; every 150 s the same name, then with another id.
  for (let t = 200; t < 700; t++) {
    const id = t, name = `n${t % 150}`;
    const gone = t >= 210 ? [id - 10] : [];
    store.accept(second(t, [row(1, 1), row(id, 3)], { new: [[id, name, null, 'in']], gone }));
    const node = store.named(name, null);
    assert.deepEqual([node.id, node.gone, node.history.count(t, 2)], [id, 0, 3]);
    if (t === 600) removed = name;
  }
  assert.deepEqual([...successes(store, 'stays', 640, 699)], Array(60).fill(1));
  assert.equal(store.named(removed, null), null);
  // 10 that are listed, 60 that are gone and still in the history, and one that stays.
  assert.equal(store.byKey.size, 71);
  assert.equal(store.byId.size, 71);
});

test('a difference of the ledger is wrong only if the next message has one, too', () => {
  const { Detail } = newStore();
  const detail = new Detail(1);
  const differs = (...all) => all.map((has) => {
    detail.store({ id: 1, scale: 2, seconds: [] });
    // Drawn twice with one message.
    detail.isUnexplained(has);
    return detail.isUnexplained(has);
  });
  assert.deepEqual(differs(false, true, false, true, true, true, false), [false, false, false, false, true, true, false]);
});

test('both directions of a name have a row', () => {
  const { store, judgeAll, orderRows } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in'], [2, 'a', null, 'out']));
  store.accept(second(200, [row(1, 5), row(2, 7)], { gone: [2], controllers: [{ resource: 'b', kind: 'limit', limit: 1, remaining: 1 }] }));
  assert.deepEqual(Array.from(store.byKey.values(), (node) => [node.name, node.history.count(200, 2)]).map(String), ['a,5', 'a,7', 'b,0']);
  assert.equal(store.named('a', null).direction, 'in');
  // The row of a limiter becomes that of its resource.
  store.accept(second(201, [row(3, 9)], { new: [[3, 'b', null, 'out']] }));
  assert.deepEqual([...successes(store, 'b', 201, 201)], [9]);
  judgeAll(store);
  assert.equal(orderRows(store, { sort: 'name', up: false, filter: '' }).length, 3);
});

test('counts beyond 32 bits are exact', () => {
  const { store } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in']));
  store.accept(second(200, [row(1, 5_000_000_000)]));
  assert.deepEqual([...successes(store, 'a', 200, 200)], [5_000_000_000]);
});

test('what the server has found is told in words with its numbers', () => {
  const { store, judgeAll } = newStore();
  store.accept({ ...HELLO, reasons: ['limit reached', 'wait too long', 'more than limit', 'backend failing'] });
  store.accept(resources([1, 'a', null, 'in'], [2, 'b', null, 'in'], [3, 'c', null, 'in']));
  const verdicts = [
    [1, [['refusals', 'failing', 990, 1000, 0], ['drop', 'strained', 0, 0, null]]],
    [2, [['failures', 'strained', 3, 4, null], ['times', 'strained', 1e9, 1e6, null], ['later', 'strained', 1, 2, null]]],
  ];
  const controllers = [{ resource: 'a', kind: 'drop', probability: 0.011, level: 'strained' }];
  store.accept(second(200, [row(1, 10, 0, 990), row(2, 1, 3)], { verdicts, controllers, levels: [1, 1, 1] }));
  assert.deepEqual([...judgeAll(store)], [1, 1, 1]);
  const verdict = (name) => JSON.parse(JSON.stringify(store.named(name, null).verdict));
  assert.deepEqual(verdict('a'), { level: 2, score: 990, parts: ['99 % refused, limit reached: 990 of 1,000 in 10 s', 'Breaker drops 1.1 %, for 1 s at least'] });
  assert.deepEqual(verdict('b').parts, ['3 of 4 failed in 10 s', 'p99 1.00 s, was 1.00 ms', 'Breaker strained']);
  assert.deepEqual(verdict('c'), { level: 0, score: 0, parts: [] });
  // The next second has other verdicts.
  store.accept(second(201, [], { verdicts: [], levels: [3, 0, 0] }));
  judgeAll(store);
  assert.deepEqual([verdict('a').level, verdict('b').level], [0, 0]);
});

test('the duration of a state is “at least” if its begin was not seen', () => {
  const { store, judgeAll } = newStore();
  store.accept(HELLO);
  const open = (t, state) => store.accept(second(t, [], { controllers: [{ resource: 'a', kind: 'circuit', state, level: state === 'open' ? 'failing' : undefined }] }));
  const text = () => {
    judgeAll(store);
    return store.named('a', null).verdict.parts[0];
  };
  open(200, 'closed');
  open(201, 'open');
  assert.equal(text(), 'Breaker open, for 1 s');
  open(202, 'closed');
  open(210, 'open');
  assert.equal(text(), 'Breaker open, for 1 s at least');
});

test('seconds that the details do not have are told apart from empty ones', () => {
  const { store, Detail } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in']));
  for (const message of [second(199, [row(1, 5)]), second(200, [row(1, 5)]), second(201, [])]) store.accept(message);
  const detail = new Detail(1);
  detail.store({ id: 1, scale: 2, seconds: [[199, [[3, 5]]]] });
  const { history } = store.named('a', null);
  assert.deepEqual([199, 200, 201].map((t) => detail.knows(t, history)), [true, false, true]);
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
  for (const message of [HELLO, { type: 'later' }, resources([1, 'a', null, 'in', null, 'more']), second(200, [[...row(1, 5), 77]], { later: 1 })]) store.accept(message);
  assert.deepEqual([...successes(store, 'a', 200, 200)], [5]);
});

test('contexts are below their resource, and bring it to the group of their trouble', () => {
  const { store, judgeAll, orderRows } = newStore();
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in'], [2, 'b', null, 'in'], [3, 'b', 'web', 'in']));
  store.accept(second(200, [row(1, 900), row(2, 5), row(3, 5, 50)], { verdicts: [[3, failing]] }));
  judgeAll(store);
  const rows = orderRows(store, { sort: 'trouble', up: false, filter: '' });
  assert.deepEqual([...rows].map((entry) => entry.title ?? [entry.node.name, entry.node.context].join('/')),
    ['1 in trouble', 'b/', 'b/web', '1 quiet', 'a/']);
  const found = orderRows(store, { sort: 'name', up: false, filter: 'WEB' });
  assert.deepEqual([...found].map((entry) => entry.node.context), [null, 'web']);
});

test('between two sorts, titles, reasons and new rows follow the newest second', () => {
  const { store, judgeAll, orderRows, refreshRows } = newStore();
  const view = { sort: 'trouble', up: false, filter: '' };
  store.accept(HELLO);
  store.accept(resources([1, 'a', null, 'in'], [2, 'b', null, 'in']));
  store.accept(second(200, [row(1, 0, 100), row(2, 100)], { verdicts: [[1, failing]] }));
  judgeAll(store);
  const entries = orderRows(store, view);
  const told = (rows) => Array.from(rows, (entry) => entry.title ?? `${entry.node.name}${entry.tall ? '!' : ''}`);
  assert.deepEqual(told(entries), ['1 in trouble', 'a!', '1 quiet', 'b']);
  store.accept(second(201, [row(2, 0, 100), row(3, 0, 100), row(4, 1)], { new: [[3, 'c', null, 'in'], [4, 'd', null, 'in']], verdicts: [[1, failing], [2, failing], [3, failing]] }));
  judgeAll(store);
  assert.deepEqual(told(refreshRows(entries, store, view, 0)), ['3 in trouble', 'a!', 'c!', '1 quiet', 'b!', 'd']);
  // Rows above the pointer keep their place: what would move them comes below.
  assert.deepEqual(told(refreshRows(entries, store, view, 4)), ['3 in trouble', 'a!', '1 quiet', 'b', 'c!', 'd']);
  assert.deepEqual(told(refreshRows(orderRows(store, { ...view, filter: 'd' }), store, { ...view, filter: 'd' }, 0)), ['1 quiet of the matches', 'd']);
});

test('a change is kept once, and an unknown kind has no line', () => {
  const { store, describeChange } = newStore();
  store.accept(HELLO);
  const gone = (t, count) => ({ t, kind: 'gone', name: 'a', count });
  store.accept({ type: 'changes', changes: [gone(200, 1), gone(201, 3)] });
  store.accept({ type: 'changes', changes: [gone(200, 1), gone(201, 3), gone(202, 1)] });
  assert.deepEqual(Array.from(store.changes, ({ t }) => t), [200, 201, 202]);
  assert.deepEqual(Array.from(store.changes, (change) => describeChange(change, store).text), [' removed', ' and 2 more removed', ' removed']);
  assert.equal(describeChange({ t: 1, kind: 'later' }, store), null);
  assert.equal(describeChange({ t: 1, kind: 'more', levels: [0, 992, 2] }, store).text, 'more: 2 failing, 992 strained');
  const trouble = { t: 1, kind: 'trouble', name: 'a', was: 'quiet', level: 'failing', findings: [['circuit', 'failing', 0, 0, null], ['failures', 'strained', 3, 4, null]] };
  assert.equal(describeChange({ ...trouble, breaker: 'open' }, store).text, 'failing, breaker open · 3 of 4 failed in 10 s');
  assert.equal(describeChange({ ...trouble, or_before: true }, store).text, 'failing, breaker not closed, or before · 3 of 4 failed in 10 s');
  store.accept({ ...HELLO, instance: 'b' });
  assert.equal(store.changes.length, 0);
});

test('a field of CSV is text, whatever it begins with', () => {
  const { csvField } = newStore();
  const fields = ['=1+1', ' +1', '-1', '@a', '\t=1', '＝1', "'a'", 'a;=1; b', 'a=1', 'say "a", b\nc', 7, null];
  assert.deepEqual(fields.map(csvField), ['"\'=1+1"', '"\' +1"', '"\'-1"', '"\'@a"', '"\'\t=1"', '"\'＝1"', '"\'\'a\'"', '"a;\'=1; b"', '"a=1"', '"say ""a"", b\nc"', 7, '']);
});

test('numbers are short and keep their unit', () => {
  const { formatTime, formatShort, formatShare, formatDuration } = newStore();
  assert.deepEqual([999, 1e6, 26.84e6, 999.7e6, 1.0196e9].map(formatTime), ['999 ns', '1.00 ms', '26.8 ms', '1.00 s', '1.02 s']);
  assert.deepEqual([0, 9999, 10_000, 487_300, 168e6].map(formatShort), ['0', '9,999', '10.0k', '487k', '168M']);
  assert.deepEqual([[0, 9], [1, 2000], [5, 1000], [1999, 2000], [2, 2]].map(([part, whole]) => formatShare(part, whole)),
    ['0 %', '<0.1 %', '0.5 %', '>99.9 %', '100 %']);
  assert.deepEqual([14, 61, 18_720, 200_000].map(formatDuration), ['14 s', '1 min', '5 h 12 min', '2 d 7 h']);
});
