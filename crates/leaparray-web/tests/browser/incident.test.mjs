// What an operator needs in an incident: what is new comes into sight, what is gone goes, and figures do not contradict each other.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { detailHash, isLive, launch, openPage, sleep, startServer, waitFor } from './harness.mjs';

let browser, server, page;

before(async () => {
  browser = await launch();
  server = await startServer('load', { resources: 40 });
  await sleep(3000);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

beforeEach(async () => {
  page = await openPage(browser, server.url);
  await isLive(page);
});

afterEach(async () => {
  await page.context().close();
  assert.deepEqual(page.complaints, []);
});

/** The group of a resource in the list, and the reason that its row shows. */
function listed(name) {
  return page.evaluate((text) => {
    const { entries, shown } = app.table;
    const at = entries.findIndex((entry) => entry.node?.name === text);
    const head = entries.slice(0, at + 1).findLast((entry) => entry.node === undefined);
    return { group: head?.group, reason: shown.get(entries[at]?.node.key)?.reason.textContent };
  }, name);
}

test('an open breaker comes to the top with its reason under a pointer at rest', async () => {
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  await page.mouse.move(600, 600);
  await page.evaluate(() => {
    app.store.acceptControllers(app.store.newest, [{ resource: 'GET /load/0009', kind: 'circuit', state: 'open' }]);
  });
  const { reason } = await waitFor(async () => {
    const found = await listed('GET /load/0009');
    return found.group === 'trouble' && found;
  }, 12_000);
  assert.match(reason, /^Breaker open/);
});

test('rows of removed resources go, under a pointer that rests or moves', async () => {
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  const most = await page.evaluate(async () => {
    const { store, table } = app;
    // The pointer is above all rows but the first ones, and moves all the time.
    table.pointerInside = true;
    table.pointerY = 60;
    let longest = 0;
    for (let i = 0; i < 40; i++) {
      table.pointerAt = now();
      for (let n = 0; n < 100; n++) store.list(100_000 + n, `churn ${i} ${n}`, null, 'in');
      table.update(store, app.view);
      longest = Math.max(longest, table.entries.length);
      for (const [key, node] of store.byKey) if (node.name.startsWith('churn')) store.byKey.delete(key);
    }
    table.update(store, app.view);
    return [longest, table.entries.length];
  });
  assert.ok(most[0] <= 40 + 2 + 100 && most[1] <= 40 + 2, most.join());
});

test('a name that comes back has one row', async () => {
  const rows = await page.evaluate(() => {
    const { store, table } = app;
    table.pointerInside = true;
    table.pointerAt = now();
    table.pointerY = 500;
    table.settledAt = 0;
    const before = store.named('GET /load/0000', null);
    store.byKey.delete(before.key);
    store.list(before.id, before.name, null, before.direction);
    table.update(store, app.view);
    return table.entries.filter((entry) => entry.node?.key === before.key).map((entry) => entry.node === before);
  });
  assert.deepEqual(rows, [false]);
});

test('charts go with their rows', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('no such name');
  await page.locator('#empty').waitFor();
  assert.ok(await page.locator('#bars').isHidden());
  assert.ok(await page.locator('#times').isHidden());
  await page.keyboard.press('Escape');
  await page.locator('#bars').waitFor();
  // The details of a resource that is forgotten while they are open.
  await page.goto(`${server.url}${detailHash('GET /load/0001')}`);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  assert.ok(await page.locator('.panes').isVisible());
  await page.keyboard.press('Space');
  await page.evaluate(() => {
    app.store.byKey.delete(app.detail.node.key);
    app.store.byId.clear();
    app.render();
  });
  assert.match(await page.locator('.badge').innerText(), /not listed/);
  assert.ok(await page.locator('.panes').isHidden());
});

test('the reasons of a second add up to its refusals, in each second of the history', async () => {
  await waitFor(() => page.evaluate('app.store.secondsWithReasons(60) >= 12'));
  const wrong = await page.evaluate(() => {
    const { store } = app;
    const { history } = store.named('GET /load/0004', null);
    const seconds = [];
    for (let t = store.newest - 59; t <= store.newest; t++) {
      if (!store.knowsReasons(t)) continue;
      let sum = 0;
      for (let reason = 0; reason < REASONS; reason++) sum += history.refusedFor(t, reason);
      seconds.push([history.count(t, BLOCK), sum]);
    }
    return seconds.filter(([refused, sum], i) => i > 0 && refused !== sum);
  });
  assert.deepEqual(wrong, []);
});
