// The fleet: what is shown is what the server sends, with the number of processes that are in it beside it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PHONE, digits, fetchData, isLive, launch, openPage, startServer, waitFor } from './harness.mjs';

let browser, server, page, fleet;

before(async () => {
  browser = await launch();
  server = await startServer('fleet');
  ({ fleet } = await (await fetchData(`${server.url}snapshot`)).json());
  page = await openFleet(server);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Opens the fleet by its line beside the tiles. */
async function openFleet(of, options = {}) {
  const opened = await openPage(browser, of.url, options);
  await isLive(opened);
  await opened.locator('#fleet-open').click();
  await opened.locator('#fleet caption').first().waitFor();
  return opened;
}

/** The texts of the cells of the n-th table of the fleet, without its head. */
function table(n, of = page) {
  return of.locator('#fleet table').nth(n).evaluate((one) => [...one.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
}

const caption = (n, of = page) => of.locator('#fleet caption').nth(n).innerText();
const COUNTS = 11;

/** What the page has to show of counts as the server sends them, for the columns that are numbers of requests. */
function requests(counts, mark = '') {
  const [pass, success, exception, cancelled, block, inFlight] = counts;
  return [pass, success, exception, cancelled, block, inFlight].map((count) => (count === null ? '–' : mark + digits(count)));
}

/** The titles of a column of the resources, in the order in which they are sent. */
async function titles(column) {
  const shown = await page.locator('#fleet table').nth(1).evaluate((one, at) => [...one.tBodies[0].rows].map((row) => row.cells[at].title), column);
  return shown.toReversed();
}

test('the totals are those that the server sends, with the processes that are in them beside', async () => {
  const [second, minute] = await table(0);
  for (const [row, window, name, standing] of [[second, fleet.last_second, 'Last second', 'final'], [minute, fleet.last_minute, 'Last minute', 'closed']]) {
    assert.ok(row[0].startsWith(`${name}: 97 of 100 processes · ${standing} · `), row[0]);
    assert.deepEqual(row.slice(1, 7), requests(window.total));
    assert.deepEqual(row.slice(7, -1), ['4.00 ms', '1.10 ms', '3.30 ms', '55.0 ms', '90.0 ms']);
    const seconds = window.end - window.start;
    assert.equal(row.at(-1), `${digits(1_000_000 * seconds)} queue full, ${digits(30 * seconds)} limit reached`);
  }
  assert.equal(await page.locator('#fleet h2').innerText(), 'Fleet <b>orders</b>');
  const clock = await page.evaluate((newest) => formatZoned(newest), fleet.newest_final);
  const final = await page.locator('#fleet .watermark').innerText();
  assert.ok(final.startsWith(`final up to ${clock}, `) && final.endsWith(' · server: connected'), final);
});

test('the rows of the resources are those that are sent, by requests, and names are text', async () => {
  const expected = fleet.last_second.resources.toReversed().map(([name, context, , processes, counts, refusals, leftOut]) => {
    const [least, part] = leftOut > 0 ? ['≥ ', '≈ '] : ['', ''];
    const p99 = counts[12] === null ? '–' : `${part}55.0 ms`;
    const reasons = refusals.length === 0 ? '' : `${digits(refusals[3])} backend failing, 1 limit reached`;
    return [context === null ? name : `${name} ↳ ${context}`, digits(processes), ...requests(counts, least),
      ...['4.00 ms', '1.10 ms', '3.30 ms'].map((time) => part + time), p99, `${part}90.0 ms`, reasons];
  });
  assert.equal(expected.filter((row) => row[2].startsWith('≥ ')).length, 20);
  assert.deepEqual(await table(1), expected);
  assert.equal(expected.filter((row) => row[8].startsWith('≈ ')).length, 20);
  const noRoom = (times) => `${times}, a process had no room for the row of this resource in a second`;
  const all = ['', '', '', noRoom('once'), '', '', '', '', noRoom('6 times')];
  assert.deepEqual((await titles(2)).slice(0, 9), all.map((why) => why && `at least: ${why}`));
  const ofOthers = (why) => why && `the response times of the other processes and seconds: ${why}`;
  for (const time of [8, 9, 10, 12]) assert.deepEqual((await titles(time)).slice(0, 9), all.map(ofOthers), `column ${time}`);
  assert.equal(await page.locator('#fleet img, #fleet script, #fleet b, #fleet i').count(), 0);
  assert.match(await caption(1), /^Last second: 97 of 100 processes · final · /);
  assert.match(await page.locator('#fleet .left-out').nth(1).innerText(), /4 times, a process had no room for the row of a resource in a second: 2,112 requests are in the total and in no row here\.$/);
});

test('the rows of the processes have their counts, seconds and ledgers, the lost and missing ones first', async () => {
  const rows = await table(2);
  assert.equal(rows.length, 100);
  assert.deepEqual(rows.slice(0, 3).map((row) => row.slice(0, 2)),
    [['web-0017', '■ lost, 1 s missing'], ['web-0041', '▲ live, 1 s missing'], ['web-0063', '▲ live, 1 s missing']]);
  assert.match(await caption(2), /^Last second: 97 of 100 processes · final · /);
  const counts = new Map(fleet.last_second.processes.map((row) => [row[0], row]));
  for (const row of rows) {
    const [id, name, , ledger] = fleet.processes.find((process) => process[0] === row.at(-1));
    const [, present, missing, waiting, of] = counts.get(id);
    assert.equal(row[0], name);
    assert.deepEqual(row.slice(2, 5), [present, missing, waiting].map(digits));
    assert.deepEqual(row.slice(5, 11), requests(of), name);
    const sums = ledger.map((totals) => digits(totals.reduce((sum, count) => sum + count, 0)));
    assert.deepEqual(row.slice(5 + COUNTS, -1), [...sums.slice(0, 5), `${sums[5]} ✓`], name);
  }
});

test('a process that is lost is named, also beside the tiles', async () => {
  assert.equal(await page.locator('#fleet .troubled').innerText(), 
    'web-0017 ■ lost, 1 s missing · web-0041 ▲ live, 1 s missing · web-0063 ▲ live, 1 s missing');
  await page.keyboard.press('Escape');
  await page.locator('#tiles').waitFor();
  const line = await page.locator('#fleet-open').innerText();
  for (const part of ['Fleet <b>orders</b>', '97 of 100 processes', 'final up to', `${digits(fleet.last_second.total[1])} succeeded`, '■ 1 lost']) {
    assert.ok(line.includes(part), `${part} in ${line}`);
  }
  assert.equal(await page.evaluate(() => document.activeElement.id), 'list');
});

test('what could not be read is counted, if there is any', async () => {
  await page.locator('#fleet-open').click();
  const unreadable = page.locator('#fleet .unreadable');
  assert.equal(await unreadable.innerText(),
    '▲ 2 records and seconds of processes could not be read: another version of the format, or damaged. The figures may lack what was in them.');
  await page.keyboard.press('Escape');
  await page.locator('#tiles').waitFor();
});

test('the minute is shown by a button, a key opens the fleet, and each view has an address', async () => {
  await page.keyboard.press('f');
  await page.locator('#fleet').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'fleet');
  assert.equal(await page.evaluate(() => location.hash), '#view=fleet');
  await page.getByRole('button', { name: 'Last minute' }).click();
  assert.match(await caption(1), /^Last minute: 97 of 100 processes · closed · /);
  // The resource of a row is not known 177 times: any row may lack figures, and the total has all.
  assert.deepEqual((await table(1))[0].slice(2, 8), requests(fleet.last_minute.resources.at(-1)[4], '≥ '));
  const rows = await table(1);
  assert.ok(rows.every((row) => row.slice(8, 13).every((cell) => cell === '–' || cell.startsWith('≈ '))), rows[0]);
  const unnamed = '177 times, a process had no room for the name of a resource in a second, which may be this one';
  assert.deepEqual([(await titles(2))[0], (await titles(8))[0]], [`at least: ${unnamed}`, `the response times of the other processes and seconds: ${unnamed}`]);
  assert.match((await titles(2))[3], /no room for the row of this resource/);
  assert.match(await page.locator('#fleet .left-out').nth(1).innerText(), /177 times, not even the name of the resource is known: any row may lack requests\.$/);
  assert.deepEqual((await table(0))[1].slice(7, 12), ['4.00 ms', '1.10 ms', '3.30 ms', '55.0 ms', '90.0 ms']);
  assert.equal(await page.getByRole('button', { name: 'Last minute' }).getAttribute('aria-pressed'), 'true');
  assert.equal(await page.evaluate(() => location.hash), '#view=fleet&window=minute');
  await page.reload();
  await waitFor(async () => /^Last minute/.test(await caption(1).catch(() => '')));
  await page.getByRole('button', { name: 'Last second' }).click();
  await page.locator('#back').click();
  await page.locator('#tiles').waitFor();
  // The table of the list is drawn, though the page was opened without it.
  await isLive(page);
  // The button has gone back to the list, as the browser does.
  await page.goForward();
  await page.locator('#fleet').waitFor();
});

test('the filter finds processes and resources, and the page says how many match', async () => {
  await page.locator('#filter').fill('web-0042');
  await waitFor(async () => (await table(2)).length === 1);
  assert.equal((await table(2))[0][0], 'web-0042');
  assert.equal(await page.locator('#fleet .left-out').nth(2).innerText(), '1 of 100 processes match “web-0042”.');
  assert.match(await page.locator('#fleet .left-out').nth(1).innerText(), /^0 of 100 resources match/);
  // The total is still the sum of the fleet.
  assert.match((await table(0))[0][0], /^Last second: 97 of 100 processes · /);
  await page.locator('#filter').press('Escape');
  await waitFor(async () => (await table(2)).length === 100);
});

test('a second that is not final is never shown as final, whatever its standing', async () => {
  await page.keyboard.press('Escape');
  await page.evaluate(() => {
    document.activeElement.blur();
    if (!app.paused) app.togglePause();
    app.openFleet();
    /** Shows a message of the server with a change. */
    window.show = (change) => {
      const message = structuredClone(app.store.fleet);
      change(message.fleet);
      app.accept(message);
      app.render();
    };
    window.show((shown) => { shown.last_second.standing = 'waiting'; });
  });
  const standing = async () => (await table(0))[0][0].split(' · ')[1];
  assert.equal(await standing(), 'waiting, not final');
  assert.match(await caption(1), /· waiting, not final ·/);
  await page.evaluate(() => window.show((shown) => { shown.unreadable = 0; }));
  assert.ok(await page.locator('#fleet .unreadable').isHidden());
  assert.match(await page.locator('#fleet-open').evaluate((line) => line.textContent), /waiting, not final/);
  // Later than the newest final second.
  await page.evaluate(() => window.show((shown) => { shown.last_second.standing = 'final'; shown.newest_final--; }));
  assert.equal(await standing(), 'not final');
  await page.evaluate(() => window.show((shown) => { shown.newest_final = null; }));
  assert.equal(await standing(), 'not final');
  assert.match((await table(0))[1][0], / · not final · /);
  assert.match(await page.locator('#fleet .watermark').innerText(), /^no second is final yet/);
  await page.evaluate(() => window.show((shown) => { shown.last_second.standing = 'unheard of'; }));
  assert.equal(await standing(), 'not final');
});

test('counts that do not add up, rows without a process, and windows that are not known are told', async () => {
  await page.evaluate(() => window.show((shown) => {
    shown.processes.find((process) => process[1] === 'web-0041')[3][5][0]++;
    shown.last_second.processes.push(['ffff', 1, 0, 0, new Array(15).fill(0)]);
    shown.last_minute = null;
  }));
  const rows = await table(2);
  assert.match(rows.find((row) => row[0] === 'web-0041').at(-2), / ≠$/);
  assert.match(rows.find((row) => row[0] === 'web-0042').at(-2), / ✓$/);
  assert.deepEqual((await table(0))[1].slice(0, 2), ['Last minute: not known yet', '–']);
  assert.match(await page.locator('#fleet .left-out').nth(2).innerText(), /^Shown are 100, .*; 1 more are not shown/);
  await page.evaluate(() => {
    app.accept({ type: 'fleet', now: 7, fleet: null });
    app.render();
  });
  assert.equal(await page.locator('#fleet .watermark').innerText(), 'The server has no figures of the fleet now.');
  assert.equal(await page.locator('#fleet table').first().isVisible(), false);
  assert.deepEqual(page.complaints, []);
});

test('of a thousand processes a hundred have rows, and the page says what it leaves out', async () => {
  const many = await startServer('fleet', { processes: 1000 });
  const opened = await openFleet(many);
  assert.deepEqual(await opened.locator('#fleet tbody tr').count(), 2 + 100 + 100);
  assert.match((await table(0, opened))[0][0], /^Last second: 997 of 1,000 processes · final · /);
  assert.deepEqual((await table(2, opened)).slice(0, 5).map((row) => row[0]), ['web-0017', 'web-0041', 'web-0063', 'web-0999', 'web-0998']);
  assert.equal(await opened.locator('#fleet .left-out').nth(2).innerText(),
    'Shown are 100, lost and missing ones first, then by requests; 900 more are not shown: filter by name.');
  assert.match(await opened.locator('#fleet .left-out').nth(1).innerText(),
    /^Shown are 100, those with the most requests; 900 more are not shown: filter by name\./);
  assert.deepEqual(opened.complaints, []);
  await opened.context().close();
  await many.stop();
});

for (const viewport of [{ width: 1280, height: 800 }, { width: 1000, height: 700 }, PHONE, { width: 320, height: 640 }]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`the fleet fits into ${viewport.width} pixels, ${colorScheme}`, async () => {
      const opened = await openPage(browser, server.url, { viewport, colorScheme });
      await isLive(opened);
      await opened.locator('#fleet-open').waitFor();
      const wide = () => opened.evaluate(() => document.documentElement.scrollWidth);
      assert.equal(await wide(), viewport.width);
      assert.ok(await opened.locator('#fleet-open .fleet-presence').evaluate((part) => part.getBoundingClientRect().right <= innerWidth));
      await opened.locator('#fleet-open').click();
      await opened.locator('#fleet caption').first().waitFor();
      assert.equal(await wide(), viewport.width);
      const cut = await opened.evaluate(() => [...document.querySelectorAll('.bar button, #fleet h2, #fleet p, #fleet td')]
        .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent));
      assert.deepEqual(cut, []);
      // The tables are scrolled within the page, also with the keyboard.
      const region = opened.getByRole('region', { name: 'Processes of the fleet' });
      await region.focus();
      await opened.keyboard.press('ArrowRight');
      await waitFor(() => region.evaluate((one) => one.scrollLeft > 0 || one.scrollWidth === one.clientWidth));
      // The watermark stays in sight with the figures at the far end.
      await region.evaluate((one) => { one.scrollLeft = 1e6; });
      assert.ok(await region.locator('caption span').evaluate((one) => one.getBoundingClientRect().left >= 0));
      assert.deepEqual(opened.complaints, []);
      await opened.context().close();
    });
  }
}

test('a page without a fleet shows nothing of one', async () => {
  const without = await startServer('silent');
  const opened = await openPage(browser, without.url);
  await isLive(opened);
  assert.ok(await opened.locator('#fleet-open').isHidden() && await opened.locator('#fleet').isHidden());
  await opened.keyboard.press('f');
  assert.equal(await opened.evaluate(() => document.body.dataset.view), 'list');
  await opened.goto('about:blank');
  await opened.goto(`${without.url}#view=fleet`);
  await waitFor(async () => await opened.locator('#fleet .watermark').innerText() === 'The server sends no fleet.');
  await opened.keyboard.press('Escape');
  await isLive(opened);
  assert.deepEqual(opened.complaints, []);
  await opened.context().close();
  await without.stop();
});
