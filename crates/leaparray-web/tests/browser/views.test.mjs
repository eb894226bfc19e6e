// Views: sort, filter, details, their permalinks, the back button, keys, pause.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { clickRow, detailHash, hasRead, holdOrder, isDrawn, isLive, launch, openPage, orderIsDue, rowsInSight, sleep, startServer, waitFor } from './harness.mjs';

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

const names = async () => (await rowsInSight(page)).map(({ name }) => name);
const hash = () => page.evaluate(() => location.hash);
const heading = () => page.locator('.verdict h2').innerText();

test('trouble comes first, in a group of its own', async () => {
  // Of the load's resources, one fails and one has refusals all the time.
  await waitFor(async () => (await names()).slice(0, 2).join() === 'GET /load/0000,GET /load/0004');
  // In the first seconds of a server a resource has too few requests for its level.
  await waitFor(async () => (await rowsInSight(page)).slice(0, 3).map(({ level }) => level).join() === '2,1,0');
  // The elements are in the order in which they were made.
  await waitFor(async () => (await page.locator('.row.group:not([hidden]) b').allInnerTexts()).toSorted().join() === '2 in trouble,38 quiet');
  const reasons = async () => (await page.locator('.row:not(.group):not([hidden]) .reason').allInnerTexts()).join('\n');
  assert.match(await reasons(), /^[\d.]+ % failed: \d+ of \d+ in 10 s$/m);
  // The reasons of refusals are known since the server was asked first, the refusals for longer.
  await waitFor(async () => /refused, limit reached: [\d,]+ of [\d,]+ in 10 s/.test(await reasons()));
});

test('each column sorts, and a second click turns the order round', async () => {
  await holdOrder(page);
  // The page draws the new order in its next frame.
  const isInOrder = (order) => waitFor(async () => {
    const shown = await names();
    return shown.join() === order(shown).join();
  });
  await page.getByRole('button', { name: 'Resource', exact: true }).click();
  await isInOrder((shown) => shown.toSorted());
  await page.getByRole('button', { name: 'Resource', exact: true }).click();
  await isInOrder((shown) => shown.toSorted().reverse());
  assert.equal((await names())[0], 'GET /load/0039');
  // Paused, so that the numbers by which it sorts are those that are shown. A key would press the button that has the focus.
  await page.getByRole('button', { name: 'Pause' }).click();
  assert.equal(await page.locator('body').getAttribute('data-state'), 'paused');
  for (const [column, cell] of [['Ok /s', 'ok'], ['Refused /s', 'refused'], ['In flight', 'flight']]) {
    await page.getByRole('button', { name: column, exact: true }).click();
    await waitFor(async () => {
      const shown = await page.evaluate((name) => [...document.querySelectorAll('.row:not(.group):not([hidden])')]
        .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
        .map((row) => Number(row.querySelector(`.c-${name}`).textContent)), cell);
      return shown.join() === shown.toSorted((a, b) => b - a).join();
    });
    const header = page.getByRole('columnheader', { name: column });
    assert.equal(await header.getAttribute('aria-sort'), 'descending');
  }
});

test('rows do not move under a pointer that moves, and follow under one at rest', async () => {
  await waitFor(async () => (await names())[1] === 'GET /load/0004');
  await page.getByRole('button', { name: 'Ok /s', exact: true }).click();
  // At first, while the history arrives, the order follows each second.
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  await page.locator('#scroll').hover();
  await isDrawn(page);
  const order = await names();
  await orderIsDue(page);
  const newest = await page.evaluate('app.store.newest');
  for (let i = 0; await page.evaluate('app.store.newest') < newest + 3; i++) {
    await page.mouse.move(600 + i % 2, 400);
    await sleep(100);
  }
  assert.deepEqual(await names(), order);
  // It rests: after some seconds the rows follow again.
  await waitFor(async () => (await names()).join() !== order.join());
  await holdOrder(page);
  await isDrawn(page);
  const held = await names();
  await orderIsDue(page);
  await hasRead(page, 2);
  assert.deepEqual(await names(), held);
  // Elsewhere, the pointer holds nothing.
  await page.mouse.move(500, 10);
  await waitFor(async () => (await names()).join() !== held.join());
});

test('details open without moving the rows', async () => {
  await page.getByRole('button', { name: 'Ok /s', exact: true }).click();
  await holdOrder(page);
  await isDrawn(page);
  const order = (await names()).slice(0, 10);
  await clickRow(page, order[3]);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  await page.mouse.move(100, 200);
  await orderIsDue(page);
  await hasRead(page, 2);
  assert.deepEqual((await names()).slice(0, 10), order);
  assert.equal(await heading(), order[3]);
});

test('the filter keeps the rows with all of its words', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('LOAD /001');
  await waitFor(async () => (await names()).length === 10);
  assert.ok((await names()).every((name) => name.startsWith('GET /load/001')));
  assert.equal(await hash(), '#filter=LOAD+%2F001');
  await page.keyboard.type('x');
  await page.locator('#empty').waitFor();
  assert.match(await page.locator('#empty').innerText(), /No resource has “LOAD \/001x” in its name/);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#filter').inputValue(), '');
  await waitFor(async () => (await names()).length > 10);
});

test('each view has a permalink, which survives a reload and a new tab', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('/001');
  await page.getByRole('button', { name: 'Resource', exact: true }).click();
  await clickRow(page, 'GET /load/0012');
  const url = page.url();
  assert.equal(new URL(url).hash, '#resource=GET+%2Fload%2F0012&filter=%2F001&sort=name');
  await page.reload();
  await isLive(page);
  assert.equal(await heading(), 'GET /load/0012');
  assert.equal(await page.locator('#filter').inputValue(), '/001');
  const tab = await openPage(browser, url);
  await isLive(tab);
  assert.equal(await tab.locator('.verdict h2').innerText(), 'GET /load/0012');
  assert.deepEqual(await tab.locator('.row:not(.group):not([hidden]) .name').allInnerTexts().then((all) => all.toSorted()),
    Array.from({ length: 10 }, (_, i) => `GET /load/001${i}`));
  await tab.context().close();
});

/** Where the list is scrolled to, and whether the row of a resource is wholly in sight. */
function listed(name) {
  return page.evaluate((text) => {
    const scroller = document.getElementById('scroll');
    const list = scroller.getBoundingClientRect();
    const row = [...document.querySelectorAll('.row.selected:not([hidden])')].find((one) => one.querySelector('.name').textContent === text);
    const box = row?.getBoundingClientRect();
    return { top: scroller.scrollTop, inSight: box !== undefined && box.top >= list.top && box.bottom <= list.bottom };
  }, name);
}

test('a permalink brings its row into sight, also after another order, and leaves the list where the user scrolls it', async () => {
  await page.setViewportSize({ width: 1280, height: 500 });
  // A blank page between: only the address behind # would change.
  await page.goto('about:blank');
  await page.goto(`${server.url}${detailHash('GET /load/0030')}&sort=name`);
  await isLive(page);
  await waitFor(async () => (await listed('GET /load/0030')).inSight);
  assert.ok((await listed('GET /load/0030')).top > 300);
  // The other way round its row is the tenth, above what is in sight.
  await page.keyboard.press('Escape');
  await page.locator('#detail').waitFor({ state: 'hidden' });
  await page.goto(`${server.url}${detailHash('GET /load/0002')}&sort=-name`);
  await waitFor(async () => (await listed('GET /load/0002')).inSight);
  await page.evaluate(() => app.sortBy('name'));
  await waitFor(async () => (await listed('GET /load/0002')).inSight && (await listed('GET /load/0002')).top < 100);
  // The order has settled, and the user reads other rows: the next orders leave them where they are.
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  await page.mouse.move(100, 300);
  await page.mouse.wheel(0, 500);
  await waitFor(async () => (await listed('GET /load/0002')).top > 400);
  await page.mouse.move(700, 10);
  for (let i = 0; i < 2; i++) {
    await orderIsDue(page);
    await waitFor(() => page.evaluate('now() - app.table.orderedAt < RESORT_EVERY'));
  }
  await isDrawn(page);
  assert.ok((await listed('GET /load/0002')).top > 400);
  // Another one that is chosen is followed again.
  await page.goto(`${server.url}${detailHash('GET /load/0001')}&sort=name`);
  await waitFor(async () => (await listed('GET /load/0001')).inSight);
});

test('a row that is chosen with a key comes into sight, and stays there beside its details', async () => {
  await page.setViewportSize({ width: 1280, height: 500 });
  await page.getByRole('button', { name: 'Resource', exact: true }).click();
  // Beside the details the rows are where the button was.
  await page.mouse.move(700, 10);
  await page.locator('#list').focus();
  await page.keyboard.press('g');
  for (let i = 0; i < 30; i++) await page.keyboard.press('j');
  assert.ok((await listed('GET /load/0030')).inSight);
  await page.keyboard.press('Enter');
  await page.locator('.figures tbody tr').nth(2).waitFor();
  assert.ok((await listed('GET /load/0030')).inSight);
  // Rows above become tall: the selected one would be pushed out of sight.
  await page.evaluate(() => {
    const judge = judgeAll;
    judgeAll = (store) => {
      const levels = judge(store);
      for (const node of store.byKey.values()) if (node.name < 'GET /load/0030') node.verdict = { level: 1, score: 1, parts: ['strained'] };
      return levels;
    };
  });
  await waitFor(() => page.evaluate('app.table.entries.filter((entry) => entry.tall).length >= 30'));
  await isDrawn(page);
  assert.ok((await listed('GET /load/0030')).inSight);
});

test('the elements of a row stay those of its resource while it is in sight', async () => {
  await holdOrder(page);
  const moved = await page.evaluate(() => {
    const rows = [...document.querySelectorAll('.row:not(.group):not([hidden])')];
    const before = rows.map((row) => [row, row.querySelector('.name').textContent, row.style.top]);
    // As after some seconds: all rows have another order.
    app.table.view = { ...app.table.view, sort: 'name', up: true };
    app.table.order();
    app.table.render(90);
    const shown = before.filter(([row]) => !row.hidden);
    return {
      kept: shown.filter(([row, name]) => row.querySelector('.name').textContent === name).length,
      moved: shown.filter(([row, name, top]) => row.querySelector('.name').textContent === name && row.style.top !== top).length,
    };
  });
  assert.ok(moved.kept > 5 && moved.moved > 5, JSON.stringify(moved));
});

test('a click opens the resource on which the button went down, or none', async () => {
  await holdOrder(page);
  const name = (await names())[3];
  const box = await page.locator('.row:not([hidden]) .name', { hasText: name }).boundingBox();
  await page.mouse.move(box.x + 5, box.y + 5);
  await page.mouse.down();
  await page.evaluate(() => {
    app.table.entries.reverse();
    app.table.place();
    app.table.render(90);
  });
  await page.mouse.up();
  await isDrawn(page);
  assert.equal(await hash(), '');
});

test('the back button leads through the views', async () => {
  await holdOrder(page);
  // Which rows are in sight depends on the load.
  const [first, second] = (await names()).slice(3, 5);
  await clickRow(page, first);
  await clickRow(page, second);
  await page.goBack();
  await waitFor(async () => await heading() === first);
  await page.goBack();
  await page.locator('#detail').waitFor({ state: 'hidden' });
  assert.equal(await hash(), '');
  await page.goForward();
  await waitFor(async () => await heading() === first);
  // Figures of the resource, by the server.
  await page.locator('.figures tbody tr').nth(2).waitFor();
});

test('the focus goes back to the list with the browser’s back, and no tab stop is without a name', async () => {
  await holdOrder(page);
  await page.locator('#list').focus();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.locator('.figures').waitFor();
  assert.notEqual(await page.locator('#detail').evaluate((detail) => getComputedStyle(detail).outlineStyle), 'none');
  await page.goBack();
  await page.locator('#detail').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'list');
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press('Tab');
    assert.notEqual(await page.evaluate(() => document.activeElement.id), 'scroll');
  }
});

test('the details show the last second of the table', async () => {
  await clickRow(page, (await names())[3]);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  for (let i = 0; i < 3; i++) {
    const [shown, counted] = await page.evaluate(() => {
      // A second may have arrived that is drawn with the next frame only.
      app.render();
      return [document.querySelector('.figures tbody td').textContent, app.detail.node.history.count(app.store.newest, SUCCESS)];
    });
    assert.equal(shown, String(counted));
    await sleep(1000);
  }
  assert.deepEqual(await page.locator('.figures tbody th').allInnerTexts(), ['last second', 'last minute', 'since the start']);
  await page.evaluate(() => {
    app.store.detail.message.window.long = [10, 10];
    app.detail.update();
  });
  assert.equal((await page.locator('.figures tbody th').allInnerTexts())[1], 'last 10 s');
});

test('the ledger says how old it is', async () => {
  await page.keyboard.press('Space');
  // The page is drawn once more, as a paused one.
  await waitFor(() => page.evaluate('frame === 0'));
  await page.evaluate(() => app.tiles.showLedger({ in_window: 1, expired: 2, late: 3, delisted: 4, recorded: 10, age: 4 }));
  assert.equal(await page.locator('#tile-ledger .note').innerText(), 'up to 4 s old');
});

test('what is recorded between the two readings of a ledger is told apart from what is lost', async () => {
  await page.goto(`${server.url}${detailHash('GET /load/0001')}`);
  await isLive(page);
  await page.locator('.facts .recorded').waitFor();
  await page.keyboard.press('Space');
  /** Shows the ledger of another message, and returns what stands beside the count of the lifetime. */
  const cell = (more) => page.evaluate((difference) => {
    const { detail } = app.store;
    const { ledger } = detail.message;
    const parts = ledger.in_window + ledger.expired + ledger.late;
    detail.message = { ...detail.message, ledger: { ...ledger, delisted: 0, recorded: parts + difference } };
    app.detail.update();
    const { textContent, title, className } = document.querySelector('.facts .recorded td');
    return [textContent.at(-1), title === '', className];
  }, more);
  assert.deepEqual(await cell(0), ['✓', true, '']);
  // The load is under 100 requests in two seconds.
  for (const few of [3, -3, 3]) assert.deepEqual(await cell(few), ['±', false, '']);
  assert.deepEqual(await cell(1000), ['±', false, '']);
  assert.deepEqual(await cell(0), ['✓', true, '']);
  for (const lost of [1000, -1000]) {
    assert.deepEqual(await cell(lost), ['±', false, '']);
    assert.deepEqual(await cell(lost), ['≠', false, 'wrong']);
    assert.deepEqual(await cell(0), ['✓', true, '']);
  }
});

test('a limit that is none is called unlimited', async () => {
  await page.goto(`${server.url}${detailHash('GET /load/0001')}`);
  await isLive(page);
  await page.keyboard.press('Space');
  await page.evaluate(() => {
    window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function fillTextNoted(text, ...place) {
      window.drawn.push(text);
      draw.call(this, text, ...place);
    };
    // As the server writes the largest number of 64 bits.
    const message = JSON.parse('{"resource":"GET /load/0001","kind":"limit","limit":18446744073709551615,"remaining":18446744073709551611}');
    app.store.acceptControllers(app.store.newest, [message]);
    app.render();
    app.detail.draw();
  });
  const facts = page.locator('.facts section:nth-child(2) tbody tr');
  assert.deepEqual(await facts.allInnerTexts(), ['limit\tunlimited']);
  const drawn = await page.evaluate('window.drawn');
  assert.ok(drawn.includes('unlimited'));
  assert.deepEqual(drawn.filter((text) => /\d{4}|NaN|Infinity|[MT]$/.test(text)), []);
});

test('new resources come into the table while the pointer rests in it', async () => {
  await holdOrder(page);
  await page.evaluate(() => {
    const t = app.store.newest;
    app.store.accept({ type: 'second', t, new: [[9999, 'brand new', null, 'in']], rows: [[9999, 100, 0, 100, 0, 0, 0, 1, 100, 1, 1, 1, 1, 1, 1, 1]] });
  });
  await waitFor(() => page.evaluate(() => app.table.entries.some((entry) => entry.node?.name === 'brand new')));
  await waitFor(async () => (await page.locator('.row.group:not([hidden]) b', { hasText: 'in trouble' }).innerText()) === `${await page.locator('#tile-trouble').getAttribute('data-value')} in trouble`);
});

test('the keyboard leads to everything', async () => {
  // Sorted between a key and a look at the rows, these would be others.
  await holdOrder(page);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  const first = await page.locator('.row.selected .name').innerText();
  assert.equal(first, (await names())[0]);
  // Assistive technology is told the same row.
  const active = await page.locator('#list').getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`#${active} .name`).innerText(), first);
  await page.keyboard.press('Enter');
  assert.equal(await heading(), first);
  await page.keyboard.press('ArrowLeft');
  assert.match(await page.locator('#readout').innerText(), /succeeded, .* failed/);
  await page.keyboard.press('Escape');
  await page.locator('#detail').waitFor({ state: 'hidden' });
  await holdOrder(page);
  await page.keyboard.press('G');
  assert.equal(await page.locator('.row.selected .name').innerText(), (await names()).at(-1));
  // At the upper edge. Beside the details the rows above are lower: the selected one stays in sight.
  for (let i = 0; i < 33; i++) await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.locator('.figures').waitFor();
  await isDrawn(page);
  assert.ok(await page.locator('.row.selected').evaluate((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    const list = document.getElementById('scroll').getBoundingClientRect();
    return top >= list.top && bottom <= list.bottom;
  }));
  await page.keyboard.press('Escape');
  await page.keyboard.press('s');
  assert.equal(await hash(), '#sort=name');
  await page.keyboard.press('?');
  assert.ok(await page.locator('#help').isVisible());
  await page.keyboard.press('Escape');
  assert.ok(!await page.locator('#help').isVisible());
  await page.keyboard.press('Tab');
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
});

test('pause stops the page, and resuming brings the seconds between', async () => {
  await page.goto(`${server.url}${detailHash('GET /load/0004')}`);
  await isLive(page);
  await page.keyboard.press('Space');
  assert.equal(await page.locator('body').getAttribute('data-state'), 'paused');
  await isDrawn(page);
  const frozen = await page.locator('.figures').innerText();
  await sleep(3000);
  assert.equal(await page.locator('.figures').innerText(), frozen);
  assert.match(await page.locator('#mark').innerText(), /paused · read \d+ s ago/);
  await page.keyboard.press('Space');
  await isLive(page);
  await waitFor(async () => await page.locator('.figures').innerText() !== frozen);
  await page.keyboard.press('Space');
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press('ArrowLeft');
    assert.match(await page.locator('#readout').innerText(), /[1-9]\d* succeeded/);
  }
});
