// With 1,000 resources an update costs at most 16 ms of the main thread, scrolling is smooth, and memory stays flat.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isLive, launch, openPage, rowsInSight, sleep, startServer } from './harness.mjs';

const RESOURCES = 1000;
const UPDATE = 16, FRAME = 50, UPDATES = 32;

let browser, server, page;

before(async () => {
  browser = await launch();
  server = await startServer('load', { resources: RESOURCES });
  page = await openPage(browser, server.url);
  await isLive(page);
  // The order settles, and what is used often is compiled.
  await sleep(8000);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** The tasks of the page's main thread while something is done, and the times at which its frames began. */
async function traceOf(action) {
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline', 'devtools.timeline', 'devtools.timeline.frame', 'disabled-by-default-devtools.timeline.frame'] });
  await action();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const main = new Set(traceEvents.filter((event) => event.name === 'thread_name' && event.args.name === 'CrRendererMain')
    .map((event) => `${event.pid}.${event.tid}`));
  const events = traceEvents.filter((event) => main.has(`${event.pid}.${event.tid}`)).sort((a, b) => a.ts - b.ts);
  return {
    tasks: events.filter((event) => event.ph === 'X' && event.name === 'RunTask'),
    frames: events.filter((event) => event.name === 'BeginMainThreadFrame').map((event) => event.ts),
  };
}

const median = (numbers) => quantile(numbers, 0.5);
const quantile = (numbers, share) => numbers.toSorted((a, b) => a - b)[Math.ceil(share * numbers.length) - 1];
const sum = (numbers) => numbers.reduce((whole, number) => whole + number, 0);
/** The milliseconds for which the processor worked at a task: while other programs have it, a task takes longer. */
const cost = (task) => (task.tdur ?? 0) / 1000;
/** Whether the tasks had the processor nearly all the time. */
const isQuiet = (tasks) => {
  const all = tasks.filter((task) => cost(task) >= 1);
  return sum(all.map((task) => task.dur / 1000)) < 1.3 * sum(all.map(cost));
};
const shown = (numbers) => numbers.map((number) => number.toFixed(1)).join(', ');

test('an update costs at most 16 ms of the main thread', async (t) => {
  const { tasks } = await traceOf(() => sleep(1000 * (UPDATES + 1.5)));
  // All work of each second: message, frame, style, layout, paint. Tasks below 0.1 ms are those of the browser and the tracing.
  // The updates come once a second: the seconds begin in the middle between two of them.
  const longest = tasks.reduce((most, task) => (cost(task) > cost(most) ? task : most));
  const begin = (longest.ts - tasks[0].ts) % 1e6 - 5e5;
  const seconds = new Map();
  for (const task of tasks.filter((one) => cost(one) >= 0.1)) {
    const second = Math.floor((task.ts - tasks[0].ts - begin) / 1e6);
    seconds.set(second, (seconds.get(second) ?? 0) + cost(task));
  }
  // The first and the last second may be parts.
  const costs = [...seconds.entries()].sort(([a], [b]) => a - b).slice(1, -1).map(([, all]) => all).filter((all) => all > 1);
  const quiet = isQuiet(tasks);
  t.diagnostic(`an update with ${RESOURCES} resources, of ${costs.length}: median ${median(costs).toFixed(1)} ms, p95 ${quantile(costs, 0.95).toFixed(1)} ms, ` +
    `worst ${Math.max(...costs).toFixed(1)} ms of processor time; the machine is ${quiet ? 'quiet' : 'busy, so p95 may be twice the limit'}`);
  assert.ok(costs.length >= UPDATES - 2, `${costs.length} updates`);
  // On a busy machine the caches are cold and two programs share a core: then p95 may be twice the limit.
  assert.ok(median(costs) <= UPDATE, shown(costs));
  assert.ok(quantile(costs, 0.95) <= (quiet ? UPDATE : 2 * UPDATE), shown(costs));
});

test('scrolling drops no frame for longer than 50 ms', async (t) => {
  await page.mouse.move(600, 500);
  const { tasks, frames } = await traceOf(async () => {
    // Long enough for three updates to fall into it.
    for (let i = 0; i < 180; i++) {
      await page.mouse.wheel(0, i < 90 ? 240 : -200);
      await sleep(16);
    }
  });
  // The time from frame to frame, by the clock, and how much of it the page's main thread has worked. A frame may also be late
  // because there is no processor for the browser, which the page cannot change. So a late frame counts if the page has worked for
  // half of its time, and otherwise one of a hundred may be late, or any number on a machine that is busy.
  const gaps = frames.slice(1).map((end, i) => {
    const inside = tasks.filter((task) => task.ts >= frames[i] - 200 && task.ts < end - 200);
    return { wall: (end - frames[i]) / 1000, work: sum(inside.map(cost)) };
  });
  const worst = (of) => shown(gaps.map(of).toSorted((a, b) => b - a).slice(0, 3));
  const rows = await rowsInSight(page);
  t.diagnostic(`scrolling, ${frames.length} frames: the longest ${worst(({ wall }) => wall)} ms, with work of at most ${worst(({ work }) => work)} ms between two frames`);
  assert.ok(frames.length > 60, `${frames.length} frames`);
  assert.ok(rows.length > 10, `${rows.length} rows`);
  assert.ok(await page.locator('#scroll').evaluate((scroller) => scroller.scrollTop) > 2000);
  const late = gaps.filter(({ wall }) => wall > FRAME);
  assert.deepEqual(late.filter(({ work, wall }) => work > wall / 2), []);
  assert.ok(!isQuiet(tasks) || late.length <= gaps.length / 100, JSON.stringify(late));
});

/** In MB, the heap of the script and the memory of its arrays, and the number of elements and listeners, after all garbage is collected. */
async function usage(session) {
  for (let i = 0; i < 3; i++) {
    await session.send('HeapProfiler.collectGarbage');
    // The memory of arrays is freed on another thread.
    await sleep(200);
  }
  const { usedSize, backingStorageSize = 0 } = await session.send('Runtime.getHeapUsage');
  const { nodes, jsEventListeners } = await session.send('Memory.getDOMCounters');
  return { heap: usedSize / 1e6, arrays: backingStorageSize / 1e6, nodes, listeners: jsEventListeners };
}

/**
 * Some seconds as the server would send them, in which resources come and go, drawn every ten seconds. Each eighth of them opens
 * or closes details, as often as the page would get those of another resource.
 */
function live(seconds) {
  return page.evaluate(async (count) => {
    const { store } = app;
    const row = [100, 90, 10, 0, 5, 3, 9, 95, 1e9, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6];
    const details = (node, t) => ({
      type: 'detail', t, id: node.id, scale: 2, seconds: [[t, [[-30, 5], [-20, 90]]]], refusals: [1, 2, 3, 4, 5, 6],
      minute: row, lifetime: [1, 2, 3, 4, 5], window: { long: [60, 60], histogram_error: 0.1 },
      ledger: { in_window: 1, expired: 2, late: 3, delisted: 0, recorded: 6 },
    });
    for (let i = 0; i < count; i++) {
      const t = store.newest + 1, id = 1e6 + t;
      const rows = [...store.byId].filter(([, node]) => node.gone === 0).map(([known]) => [known, ...row]);
      const refused = rows.slice(0, 20).map(([known]) => [known, 1, 1, 1, 1, 1, 0]);
      const controllers = [{ resource: 'GET /load/0000', kind: 'drop', probability: Math.random() }];
      store.accept({ type: 'second', t, new: [[id, `passing ${t}`, null, 'in']], gone: [id - 1], total: row, rows, controllers, refused });
      const node = store.find(app.detail.opened?.resource + '\n\nin');
      if (node) store.accept(details(node, t));
      if (i % 10 !== 0) continue;
      // Details of resources that exist, and of those that are forgotten soon.
      if (i % 80 === 0) app.go({ resource: i % 160 === 0 ? `passing ${t}` : null, context: null }, false);
      app.isNew = true;
      app.render();
      await new Promise((resolve) => { setTimeout(resolve); });
    }
    app.go({ resource: null, context: null }, false);
  }, seconds);
}

test('only the rows in sight are elements, and an hour leaves the memory as it is', async (t) => {
  assert.ok(await page.locator('.row').count() < 80);
  const session = await page.context().newCDPSession(page);
  // No stream: an hour passes in some seconds.
  await page.keyboard.press('Space');
  // The rings are full, and as many resources as come are forgotten.
  await live(300);
  const before = await usage(session);
  await live(3600);
  const later = await usage(session);
  const told = ({ heap, arrays, nodes, listeners }) => `heap ${heap.toFixed(1)} MB, arrays ${arrays.toFixed(1)} MB, ${nodes} nodes, ${listeners} listeners`;
  t.diagnostic(`${told(before)}; an hour later ${told(later)}`);
  // The heap varies by 1 MB and the arrays, of which some are images, by 10 MB: in five hours they did not grow beyond that. In an
  // hour 3,600 resources come and go: if they were kept, they would have 5 MB of the heap and 22 MB of arrays.
  assert.ok(later.heap < before.heap + 2.5, told(later));
  assert.ok(later.arrays < before.arrays + 15, told(later));
  assert.ok(later.nodes < before.nodes + 300, told(later));
  assert.ok(later.listeners < before.listeners + 50, told(later));
  assert.ok(await page.evaluate('app.store.byKey.size') <= RESOURCES + 62);
  assert.ok(await page.evaluate('app.store.byId.size') <= RESOURCES + 62);
  assert.deepEqual(page.complaints, []);
});
