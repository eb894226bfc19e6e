// Connections: lost ones are shown and made anew, a server may start again, tabs do not take each other's place.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { detailHash, freePort, hasRead, holdOrder, isDrawn, isLive, launch, openPage, openTab, rowsInSight, sleep, startServer, waitFor } from './harness.mjs';

let browser;

before(async () => { browser = await launch(); });
after(() => browser?.close());

/** Pretends that a tab is hidden or shown: headless tabs are always shown. */
function setHidden(page, hidden) {
  return page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
}

/** Counts the streams that a page has opened and not ended. */
function countStreams(context) {
  return context.addInitScript(() => {
    window.streams = 0;
    const { fetch } = window;
    window.fetch = (url, options) => {
      window.streams++;
      options.signal.addEventListener('abort', () => window.streams--);
      return fetch(url, options);
    };
  });
}

/** A token of servers that start one after the other. */
const TOKEN = 'of-both-servers-0123456789';

test('a lost connection is shown, and a server that starts again is followed from its beginning', async () => {
  const port = await freePort();
  const first = await startServer('rest', { port, token: TOKEN });
  const page = await openPage(browser, first.url);
  await isLive(page);
  await waitFor(() => first.output.includes('counted'));
  await waitFor(async () => Number(await page.locator('#tile-ledger').getAttribute('data-value')) > 1000);
  await first.stop();
  await page.locator('body[data-state="lost"]').waitFor();
  assert.match(await page.locator('#banner').innerText(), /Connection lost \d+ s ago: the server is stopping\. These are the last values; trying again/);
  assert.match(await page.locator('#mark').innerText(), /last seen \d+ s ago/);
  // Stale values stay, and are grey.
  assert.ok((await rowsInSight(page)).length > 4);
  assert.match(await page.locator('main').evaluate((main) => getComputedStyle(main).filter), /grayscale\(1\)/);

  const second = await startServer('silent', { port, token: TOKEN });
  await isLive(page);
  assert.ok(await page.locator('#banner').isHidden());
  await waitFor(async () => (await rowsInSight(page)).length === 1);
  assert.deepEqual((await rowsInSight(page)).map(({ name }) => name), ['GET /silent']);
  await waitFor(async () => await page.locator('#tile-ledger').getAttribute('data-value') === '0');
  assert.deepEqual(page.complaints, []);
  await page.context().close();
  await second.stop();
});

test('open details follow a server that starts again', async () => {
  const port = await freePort();
  const first = await startServer('load', { port, resources: 5, token: TOKEN });
  const page = await openPage(browser, `${first.url}${detailHash('GET /load/0001')}`);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  await first.stop();
  await page.locator('body[data-state="lost"]').waitFor();
  const second = await startServer('load', { port, resources: 5, token: TOKEN });
  const started = performance.now();
  await isLive(page);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  const ever = Number((await page.locator('.figures tbody tr').nth(2).locator('td').first().innerText()).replaceAll(',', ''));
  // The load has at most 40 requests a second: nothing of the first server is counted.
  assert.ok(ever <= 40 * ((performance.now() - started) / 1000 + 3), `${ever}`);
  await page.context().close();
  await second.stop();
});

test('a server ends within seconds though streams are open', async (t) => {
  // Without the time limit of `Page::serve`: the service ends when its last stream does.
  const server = await startServer('nested', { resources: 40 });
  const pages = [];
  for (let i = 0; i < 3; i++) pages.push(await openPage(browser, `${server.url}leaparray`));
  for (const page of pages) await isLive(page);
  const seconds = await server.stop();
  t.diagnostic(`the server ended in ${(seconds * 1000).toFixed(0)} ms with three open streams`);
  // On a busy machine. It would otherwise last as long as a stream.
  assert.ok(seconds <= 3, `${seconds} s`);
  for (const page of pages) await page.context().close();
});

test('a page in the router of a service works with and without a slash at its end, and does not hold up the service', async () => {
  const server = await startServer('nested');
  for (const address of ['leaparray', 'leaparray/', 'leaparray#filter=nested', 'leaparray/#resource=GET+%2Fnested']) {
    const page = await openPage(browser, server.url + address);
    await isLive(page);
    assert.deepEqual((await rowsInSight(page)).map(({ name }) => name), ['GET /nested']);
    assert.deepEqual(page.complaints, []);
  }
  const seconds = await server.stop();
  // On a busy machine. It would otherwise last as long as a stream.
  assert.ok(seconds <= 3, `${seconds} s`);
});

/** Answers each stream of a page with some messages, and counts the streams. */
async function answerStreams(url, messages) {
  const context = await browser.newContext();
  const streams = { count: 0 };
  await context.route('**/stream*', (route) => {
    streams.count++;
    const body = messages.map((message) => `data: ${JSON.stringify(message)}\n\n`).join('');
    return route.fulfill({ status: 200, contentType: 'text/event-stream', body });
  });
  return { context, page: await openTab(context, url), streams };
}

const HELLO = { type: 'hello', version: 2, instance: 'a', name: 'x', host: 'h', pid: 1, started: 1, now: 100, history: 60, reasons: [] };

test('a stream that ends before its first second is opened again later each time, and the page says why', async () => {
  const server = await startServer('silent');
  await Promise.all([['expired', /ends its streams before the first second/], ['failed', /could not read its figures/]].map(async ([reason, words]) => {
    const { context, page, streams } = await answerStreams(server.url, [HELLO, { type: 'bye', reason }]);
    await page.locator('body[data-state="lost"]').waitFor();
    await waitFor(async () => words.test(await page.locator('#banner').innerText()));
    await sleep(2000);
    assert.ok(streams.count <= 7, `${streams.count} streams`);
    assert.deepEqual(page.complaints, []);
    await context.close();
  }));
  await server.stop();
});

test('a stream without a second says so', async () => {
  const server = await startServer('silent');
  const context = await browser.newContext();
  await context.addInitScript(() => {
    const parse = JSON.parse;
    JSON.parse = (text) => {
      const message = parse(text);
      return message.type === 'second' ? { type: 'unknown' } : message;
    };
  });
  const page = await openTab(context, server.url);
  await page.locator('#banner', { hasText: /The stream is open, but no second has arrived for \d+ s/ }).waitFor();
  assert.deepEqual(page.complaints, []);
  await context.close();
  await server.stop();
});

test('messages of another version stop the page, which offers to be loaded again', async () => {
  const server = await startServer('silent');
  const { context, page, streams } = await answerStreams(server.url, [{ ...HELLO, version: 3 }, { type: 'second', t: 100, total: {}, rows: [{}] }]);
  await page.locator('body[data-state="other"]').waitFor();
  assert.match(await page.locator('#banner').innerText(), /messages of version 3, and this page reads version 2/);
  await sleep(1500);
  assert.equal(streams.count, 1);
  // Nothing that the user does opens a stream whose messages the page does not understand.
  await page.evaluate(() => { location.hash = 'resource=x'; });
  await page.locator('#detail').waitFor();
  await setHidden(page, true);
  await setHidden(page, false);
  await sleep(500);
  assert.equal(streams.count, 1);
  assert.ok(await page.locator('#banner').isVisible());
  assert.deepEqual(page.complaints, []);
  await page.locator('#banner button').click();
  await waitFor(() => streams.count === 2);
  await context.close();
  await server.stop();
});

test('a registry whose window is too short for a second is explained', async () => {
  const server = await startServer('silent', { window: 1000 });
  const page = await openPage(browser, server.url);
  await page.locator('#banner').waitFor();
  assert.match(await page.locator('#banner').innerText(), /too short to contain a whole second/);
  assert.deepEqual(page.complaints, []);
  await page.close();
  await server.stop();
});

test('rows do not move under the pointer when a stream expires', async () => {
  const server = await startServer('load', { resources: 40, life: 2 });
  const page = await openPage(browser, server.url);
  await isLive(page);
  await holdOrder(page);
  await page.evaluate(() => {
    window.greeted = window.ordered = 0;
    const greet = app.greet.bind(app), order = app.table.order.bind(app.table);
    app.greet = (hello) => {
      window.greeted++;
      greet(hello);
    };
    app.table.order = () => {
      window.ordered++;
      order();
    };
  });
  await waitFor(() => page.evaluate('window.greeted >= 3'));
  await sleep(1500);
  assert.equal(await page.evaluate('window.ordered'), 0);
  await page.context().close();
  await server.stop();
});

test('of seven tabs the one that is shown has a stream and three others a light one, and each recovers', async () => {
  const server = await startServer('load', { resources: 40 });
  const context = await browser.newContext();
  await countStreams(context);
  const tabs = [];
  for (let i = 0; i < 7; i++) {
    for (const tab of tabs) await setHidden(tab, true);
    tabs.push(await openTab(context, server.url));
    await isLive(tabs.at(-1));
  }
  const streams = () => Promise.all(tabs.map((tab) => tab.evaluate('window.streams')));
  await waitFor(async () => (await streams()).join() === '1,1,1,0,0,0,1');
  for (const tab of tabs) {
    for (const other of tabs) if (other !== tab) await setHidden(other, true);
    await setHidden(tab, false);
    await isLive(tab);
    const before = await tab.locator('#about').innerText();
    await waitFor(async () => await tab.locator('#about').innerText() !== before);
    const open = await streams();
    assert.equal(open[tabs.indexOf(tab)], 1);
    assert.ok(open.reduce((sum, count) => sum + count, 0) <= 4, open.join());
    assert.deepEqual(tab.complaints, []);
  }
  await context.close();
  await server.stop();
});

test('a viewer too many waits for a place', async () => {
  const server = await startServer('load', { resources: 5, viewers: 1 });
  const first = await openPage(browser, server.url);
  await isLive(first);
  const second = await openPage(browser, server.url);
  await second.locator('#banner').waitFor();
  assert.match(await second.locator('#banner').innerText(), /No connection to the server yet: .* too many viewers/);
  await first.context().close();
  await isLive(second);
  await second.context().close();
  await server.stop();
});

test('seconds that are not known are a gap, not zeros', async () => {
  const server = await startServer('load', { resources: 5 });
  const context = await browser.newContext();
  // A stream in which some seconds are missing: those the page must not bridge.
  await context.addInitScript(() => {
    const parse = JSON.parse;
    let first = 0;
    JSON.parse = (text) => {
      const message = parse(text);
      if (message.type !== 'second') return message;
      first ||= message.t;
      return message.t > first && message.t <= first + 3 ? { type: 'unknown' } : message;
    };
  });
  const page = await openTab(context, `${server.url}${detailHash('GET /load/0000')}`);
  await isLive(page);
  // The first second, three that are missing, and some behind them.
  await hasRead(page, 5);
  await page.keyboard.press('Space');
  const sentences = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('ArrowLeft');
    sentences.push(await page.locator('#readout').innerText());
  }
  assert.equal(sentences.filter((sentence) => sentence.endsWith('no data')).length, 3);
  assert.ok(sentences.some((sentence) => sentence.endsWith('before the server began to count')));
  // The chart hatches all three columns from top to bottom: no column of pixels there is empty or filled.
  const gap = sentences.findIndex((sentence) => sentence.endsWith('no data'));
  const share = await page.locator('.chart.rates canvas').evaluate((canvas, ago) => {
    const scale = canvas.width / canvas.clientWidth;
    const step = (canvas.clientWidth - 54 - 62) / 60;
    const left = Math.round((54 + (59 - ago) * step) * scale), width = Math.floor(step * scale);
    const { data } = canvas.getContext('2d').getImageData(left, 20 * scale, width, 90 * scale);
    let painted = 0;
    for (let i = 3; i < data.length; i += 4) painted += Number(data[i] > 40);
    return painted / (data.length / 4);
  }, gap + 1);
  assert.ok(share > 0.15 && share < 0.7, `${share} of the gap is painted`);
  // So do the small charts of the tiles and the rows. Their hatching is a quarter of the pixels.
  await page.keyboard.press('Escape');
  await page.locator('#tiles').waitFor();
  await waitFor(() => page.evaluate('app.table.drawn.end > 1 && app.table.times.width > 0'));
  await isDrawn(page);
  const shares = await page.evaluate((ago) => {
    const { tiles, table } = app;
    const hatched = (surface, top, height) => {
      const step = surface.width / 60;
      const left = Math.round((59 - ago) * step), width = Math.round((60 - ago) * step) - left;
      let gaps = 0;
      for (let y = top; y < top + height; y++) {
        for (let x = left; x < left + width; x++) gaps += Number(surface.pixels[y * surface.width + x] === palette.pixel.gap);
      }
      return gaps / (width * height);
    };
    const row = table.entries.findIndex((entry) => entry.node !== undefined);
    const top = (surface) => Math.round((table.tops[row] - table.tops[table.drawn.first] + 8) * surface.scale);
    return [
      ...['ok', 'failed', 'refused', 'flight', 'times'].map((name) => hatched(tiles[name].surface, 0, tiles[name].surface.height)),
      ...[table.bars, table.times].map((surface) => hatched(surface, top(surface), 12)),
    ];
  }, gap + 1);
  assert.ok(shares.every((part) => part > 0.15 && part < 0.4), `${shares}`);
  await context.close();
  await server.stop();
});

test('rows of before a tab was hidden are told as old if the connection is lost when it returns', async () => {
  const server = await startServer('load', { resources: 5 });
  const page = await openPage(browser, server.url);
  await isLive(page);
  await setHidden(page, true);
  // From here on, no row arrives.
  const { newest, hidden } = await page.evaluate(() => ({ newest: app.store.newest, hidden: now() }));
  // The light stream brings totals, and no rows.
  await waitFor(() => page.evaluate((t) => app.store.heard > t + 5, newest));
  await server.stop();
  await setHidden(page, false);
  assert.notEqual(await page.locator('body').getAttribute('data-state'), 'live');
  await page.locator('body[data-state="lost"]').waitFor();
  // Drawn at once, not in the next second.
  const { away, mark, banner } = await page.evaluate((from) => {
    app.watch();
    const [mark, banner] = ['mark', 'banner'].map((id) => document.getElementById(id).innerText);
    return { away: Math.floor(now() - from), mark, banner };
  }, hidden);
  const [, seen] = mark.match(/last seen (\d+) s ago/);
  assert.ok(Number(seen) >= away, `${seen} s, away for ${away} s`);
  const [, lost, values] = banner.match(/Connection lost (\d+) s ago.*These are the values of (\d+) s ago/);
  assert.ok(Number(values) >= away && Number(lost) < Number(values), `${lost} ${values}, away for ${away} s`);
  const clock = await page.evaluate((t) => formatZoned(t), newest);
  assert.match(await page.title(), new RegExp(`^lost ${clock}`));
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});
