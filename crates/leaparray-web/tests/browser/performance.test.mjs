// With 1,000 resources an update is little work, scrolling creates few elements, and memory stays flat. `times.mjs` measures times.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, openLoad, rowsInSight, sleep } from './harness.mjs';

const RESOURCES = 1000;
const UPDATES = 8;

let browser, server, page;

before(async () => {
  browser = await launch();
  ({ server, page } = await openLoad(browser, RESOURCES));
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Counts what the page does in some updates: changes of the document, and elements that get another style or are laid out. */
async function workOf(updates) {
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline', 'devtools.timeline'] });
  const changes = await page.evaluate(async (count) => {
    const { store } = app, perUpdate = new Map();
    const observer = new MutationObserver((records) => {
      perUpdate.set(store.newest, (perUpdate.get(store.newest) ?? 0) + records.length);
    });
    observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
    const end = store.newest + count;
    while (store.newest < end) await new Promise((resolve) => { setTimeout(resolve, 50); });
    observer.disconnect();
    return [...perUpdate.values()];
  }, updates);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const named = (name) => traceEvents.filter((event) => event.name === name);
  return {
    changes,
    frames: named('FireAnimationFrame').length,
    styled: named('UpdateLayoutTree').map(({ args }) => args.elementCount),
    laidOut: named('Layout').map(({ args }) => args.beginData.dirtyObjects),
  };
}

test('an update changes a few elements in one frame, however many resources there are', async (t) => {
  const { changes, frames, styled, laidOut } = await workOf(UPDATES);
  t.diagnostic(`${UPDATES} updates with ${RESOURCES} resources: ${frames} frames; most changes ${Math.max(...changes)}, ` +
    `elements styled ${Math.max(...styled)}, laid out ${Math.max(...laidOut)}`);
  assert.ok(changes.length >= UPDATES - 1, `${changes.length} updates with changes`);
  assert.ok(styled.length > 0 && laidOut.length > 0);
  // One frame for an update, and one in which the order may settle.
  assert.ok(frames <= UPDATES + 2, `${frames} frames`);
  // Seen: at most 90 changes, 65 elements styled and 135 laid out, with 100 resources, with 1,000 and with 4,000.
  assert.ok(Math.max(...changes) <= 200, changes.join(', '));
  assert.ok(Math.max(...styled) <= 200, styled.join(', '));
  assert.ok(Math.max(...laidOut) <= 280, laidOut.join(', '));
});

test('scrolling shows rows at once and creates few elements', async () => {
  await page.mouse.move(600, 500);
  for (let i = 0; i < 60; i++) {
    await page.mouse.wheel(0, i < 30 ? 480 : -200);
    await sleep(16);
    assert.ok(await page.locator('.row').count() < 80);
  }
  const top = await page.locator('#scroll').evaluate((scroller) => scroller.scrollTop);
  assert.ok(top > 2000, `${top} px`);
  const rows = await rowsInSight(page);
  assert.ok(rows.length > 10, `${rows.length} rows`);
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
