// What an operator needs in an incident: what is new comes into sight, what is gone goes, and figures do not contradict each other.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { detailHash, hasRead, isLive, launch, loseConnection, openPage, sleep, startServer, waitFor } from './harness.mjs';

let browser, server, page;

before(async () => {
  browser = await launch();
  server = await startServer('load', { resources: 40 });
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
    const { store } = app;
    const accept = store.acceptSecond.bind(store);
    // The server judges: each second says that a breaker of the resource is open.
    const verdict = [store.named('GET /load/0009', null).id, [['circuit', 'failing', 0, 0, null]]];
    const controllers = [{ resource: 'GET /load/0009', kind: 'circuit', state: 'open', level: 'failing' }];
    store.acceptSecond = (message) => accept({ ...message, controllers, verdicts: [...message.verdicts ?? [], verdict] });
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

test('details that are opened while the page is paused have what was read before', async () => {
  const open = (name) => page.evaluate((resource) => app.go({ resource }, true), name);
  await open('GET /load/0002');
  await page.locator('.figures tbody tr').nth(2).waitFor();
  await page.keyboard.press('Escape');
  await open('GET /load/0003');
  await page.locator('.figures tbody tr').nth(2).waitFor();
  await hasRead(page, 3);
  await page.keyboard.press('Space');
  await open('GET /load/0002');
  await page.locator('.figures tbody tr').nth(2).waitFor();
  assert.ok(await page.locator('.chart.heat canvas').isVisible());
  const titles = await page.locator('.figures tbody th').allInnerTexts();
  // These figures are older than the page.
  assert.match(titles[1], /^minute to \d\d:\d\d:\d\d$/);
  await page.keyboard.press('Space');
  await waitFor(async () => (await page.locator('.figures tbody th').nth(1).innerText()) === 'last minute');
});

test('only a live chart ends now', async () => {
  await page.evaluate(() => {
    window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function fillTextNoted(text, ...place) {
      window.drawn.push(text);
      draw.call(this, text, ...place);
    };
  });
  await page.evaluate("app.go({ resource: 'GET /load/0002' }, true)");
  await waitFor(() => page.evaluate("window.drawn.includes('now')"));
  await loseConnection(page);
  await page.locator('body[data-state="lost"]').waitFor();
  await sleep(100);
  await page.evaluate('window.drawn = []; app.detail.draw()');
  const drawn = await page.evaluate('window.drawn');
  assert.ok(!drawn.includes('now') && drawn.some((text) => /^\d\d:\d\d:\d\d$/.test(text)), drawn.join());
});

test('Esc leaves no step behind: the way back leads to what was before the list', async () => {
  const resource = () => page.evaluate(() => app.view.resource);
  await page.evaluate("app.sortBy('name')");
  await page.evaluate("app.go({ resource: 'GET /load/0001' }, true)");
  await page.evaluate("app.go({ resource: 'GET /load/0002' }, true)");
  await page.evaluate("app.setFilter('load')");
  // Twice before the browser has gone back: once is enough.
  await page.evaluate('app.back(); app.back()');
  await waitFor(async () => await resource() === null);
  // What was changed beside the details stays.
  await waitFor(async () => await page.evaluate(() => location.hash) === '#filter=load&sort=name');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'list');
  await page.goForward();
  await waitFor(async () => await resource() === 'GET /load/0001');
  await page.goBack();
  await page.goBack();
  await waitFor(async () => await page.evaluate(() => location.hash) === '');
  // A page that was opened with a resource has no list to go back to.
  await page.goto('about:blank');
  await page.goto(`${server.url}${detailHash('GET /load/0003')}`);
  await isLive(page);
  const before = await page.evaluate(() => history.length);
  await page.keyboard.press('Escape');
  await page.locator('#detail').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => history.length), before);
});

test('names are sorted by the numbers in them, and a long one is cut in the middle', async () => {
  const long = `GET /a/rather/long/path/${'x'.repeat(200)}/the/end`;
  await page.evaluate((name) => {
    for (const [i, one] of ['web-10', 'web-9', 'web-100', name].entries()) app.store.list(90_000 + i, one, null, 'in');
    app.go({ sort: 'name', filter: 'web-' }, false);
    app.table.order();
    app.table.render(90);
  }, long);
  const names = () => page.evaluate(() => app.table.entries.map((entry) => entry.node.name));
  assert.deepEqual(await names(), ['web-9', 'web-10', 'web-100']);
  await page.evaluate("app.setFilter('rather')");
  const name = page.locator('.row:not([hidden]) .name', { hasText: 'rather' });
  await name.waitFor();
  const parts = await name.evaluate((one) => [...one.children].map((part) => [part.textContent, part.scrollWidth > part.clientWidth && part.clientWidth > 0, part.getBoundingClientRect().right]));
  assert.deepEqual(parts.map(([text]) => text).join(''), long);
  assert.ok(parts[0][1], 'the first part is cut');
  const { right } = await name.evaluate((one) => one.getBoundingClientRect().toJSON());
  assert.ok(parts[1][2] <= right + 1 && parts[1][0].endsWith('/the/end'), 'its end is in sight');
});

test('a time of day has its zone, and a number that is shortened says so', async () => {
  await page.evaluate("app.go({ resource: 'GET /load/0002' }, true)");
  await page.locator('.figures tbody tr').nth(2).waitFor();
  await page.keyboard.press('ArrowLeft');
  const zone = await page.evaluate(() => new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' }).formatToParts().find(({ type }) => type === 'timeZoneName').value);
  assert.ok((await page.locator('#readout').innerText()).includes(` ${zone}`));
  // In the morning, too.
  assert.match(await page.evaluate('formatZoned(3 * 3600)'), /^\d\d:\d\d:\d\d \S+$/);
  const cell = await page.evaluate(() => {
    const row = [...app.table.shown.values()].find(({ entry }) => entry.node);
    row.showCount(row.ok, 1_234_567);
    return [row.ok.textContent, row.ok.title];
  });
  assert.deepEqual(cell, ['1.23M', '1,234,567']);
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
      for (let reason = 0; reason < store.reasons; reason++) sum += history.refusedFor(t, reason);
      seconds.push([history.count(t, BLOCK), sum]);
    }
    return seconds.filter(([refused, sum], i) => i > 0 && refused !== sum);
  });
  assert.deepEqual(wrong, []);
});
