// What operators need in an incident: the changes, trouble only, hidden tabs, saved files, links to a second.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, test } from 'node:test';
import { detailHash, fetchData, isLive, launch, openPage, openTab, PHONE, rowsInSight, sleep, startServer, waitFor } from './harness.mjs';

let browser, server;
let pages = [];

before(async () => {
  browser = await launch();
  server = await startServer('incident', { resources: 8 });
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

afterEach(async () => {
  const complaints = pages.flatMap((page) => page.complaints);
  for (const page of pages) await page.context().close();
  pages = [];
  assert.deepEqual(complaints, []);
});

async function open(url = server.url, options = {}) {
  const page = await openPage(browser, url, options);
  pages.push(page);
  await isLive(page);
  return page;
}

/** Begins or ends the incident. */
async function turn(to) {
  const answer = await (await fetch(new URL('turn', server.url))).text();
  assert.equal(answer, String(to));
}

const items = (page) => page.locator('#changes li').allInnerTexts().then((all) => all.map((text) => text.replaceAll(/\s+/g, ' ')));

/** Pretends that a tab is hidden or shown: headless tabs are always shown. */
function setHidden(page, hidden) {
  return page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
}

test('an incident is one line, which a later viewer sees too', async () => {
  const page = await open();
  await sleep(2500);
  await page.keyboard.press('c');
  assert.equal(await page.locator('#changes-open').getAttribute('aria-expanded'), 'true');
  await turn(true);
  const failing = /^■ \d\d:\d\d:\d\d POST \/pay failing, breaker open( · [\d.]+ % failed: \d+ of \d+ in 10 s)?$/;
  await waitFor(async () => (await items(page)).some((text) => failing.test(text)));
  const later = await open();
  // A further change may come between two questions.
  await waitFor(async () => await later.locator('#changes-open b').innerText() === String((await items(page)).length));
  await later.keyboard.press('c');
  await waitFor(async () => (await items(later)).join('\n') === (await items(page)).join('\n'));
  await turn(false);
  await waitFor(async () => (await items(page)).some((text) => /^· \S+ POST \/pay breaker closed: set by the program$/.test(text)));
  // The alert resolves when it has been quiet for a while, and has the time at which that began.
  await waitFor(async () => (await items(page)).some((text) => /^· \S+ POST \/pay resolved$/.test(text)), 40_000);
  const [shown, began, reported] = await page.evaluate(() => {
    const { t, reported } = app.store.changes.findLast(({ name, level }) => name === 'POST /pay' && level === 'quiet');
    const item = [...document.querySelectorAll('#changes li')].find((one) => one.textContent.endsWith('resolved'));
    return [item.querySelector('time').textContent, formatClock(t), reported - t];
  });
  assert.equal(shown, began);
  assert.equal(reported, 10);
  // Failures that come a second after the breaker has opened are a line of their own.
  const lines = (await items(page)).filter((text) => text.includes('POST /pay'));
  assert.ok(lines.length >= 3 && lines.length <= 4, lines.join('\n'));
  assert.ok(await page.locator('#changes').isVisible());
  await page.keyboard.press('Escape');
  assert.ok(await page.locator('#changes').isHidden());
});

/** Answers the stream of a page by messages that are made for it. */
async function openMade(...messages) {
  const context = await browser.newContext();
  const hello = { type: 'hello', version: 2, instance: 'made', name: 'orders-api', host: 'a', pid: 1, started: 0, now: 2000, history: 60, has_seconds: true, reasons: [] };
  const body = [{ ...hello, ...messages[0] }, ...messages.slice(1)].map((message) => `data: ${JSON.stringify(message)}\n\n`).join('');
  await context.route('**/stream?*', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
  const page = await openTab(context, server.url);
  pages.push(page);
  return page;
}

const ZERO = [0, 0, 0, 0, 0, 0, 0, 0, 0, null, null, null, null, null, null];

test('the list says which seconds were not read, and why, and which changes are missing', async () => {
  const causes = ['no-viewer', 'stalled', 'failed', 'bored'].map((cause, i) => ({ t: 1900 + i, kind: 'unread', from: 1800, cause }));
  const dropped = [{ t: 1910, kind: 'dropped', count: 1234 }, { t: 1911, kind: 'dropped', count: null }];
  const page = await openMade({}, { type: 'resources', resources: [] }, { type: 'changes', changes: [...causes, ...dropped] });
  await page.keyboard.press('c');
  await waitFor(async () => (await items(page)).length === 6);
  const texts = (await items(page)).map((text) => text.replace(/\d\d:\d\d:\d\d/g, 'T'));
  assert.deepEqual(texts, [
    '· T some changes up to here are no longer kept',
    '· T 1,234 changes up to here are no longer kept',
    '· T not read since T: the cause is not known',
    '· T not read since T: the server could not read its figures',
    '· T not read since T: the process stood still',
    '· T not read since T: there was no viewer',
  ]);
});

test('changes are ordered by their report, and one that is sent again is one line', async () => {
  const resolved = { t: 1890, reported: 1900, kind: 'trouble', name: 'a', was: 'failing', level: 'quiet', findings: [] };
  const later = { t: 1895, reported: 1905, kind: 'trouble', name: 'b', was: 'failing', level: 'quiet', findings: [] };
  const fires = { t: 1898, kind: 'trouble', name: 'c', was: 'quiet', level: 'failing', findings: [] };
  const changes = (...all) => ({ type: 'changes', changes: all });
  const page = await openMade({}, { type: 'resources', resources: [] }, changes(fires), changes(resolved), changes(resolved, later));
  await page.keyboard.press('c');
  await waitFor(async () => (await items(page)).length > 0);
  assert.deepEqual((await items(page)).map((text) => text.split(' ').slice(2).join(' ')), ['b resolved', 'a resolved', 'c failing']);
});

test('a page does not take the resources of an older server, which judges none, for quiet', async () => {
  const second = { type: 'second', t: 1999, new: [], gone: [], total: ZERO, rows: [] };
  const page = await openMade({ version: 1 }, { type: 'resources', resources: [[1, 'GET /a', null, 'in', null]] }, second);
  await page.locator('body[data-state="other"]').waitFor();
  assert.match(await page.locator('#banner').innerText(), /^◆ The server sends messages of version 1, and this page reads version 2\./);
});

test('a change leads to its resource at its time, also after the counts are gone', async () => {
  const page = await open();
  await page.keyboard.press('c');
  await page.locator('#changes .name', { hasText: 'GET /load/0000' }).first().click();
  await page.locator('.verdict h2', { hasText: 'GET /load/0000' }).waitFor();
  const at = Number(new URLSearchParams(new URL(page.url()).hash.slice(1)).get('at'));
  assert.ok(Math.abs(Date.now() / 1000 - at) < 120, `${at}`);
  const sentence = /^At \d\d:\d\d:\d\d( \S+)?: (\d+ succeeded, \d+ failed.*|older than the 60 s.*) · \d\d:\d\d:\d\d( \S+)? failing/;
  assert.match(await page.locator('.moment').innerText(), sentence);
  // Another resource is not opened at that second.
  await page.keyboard.press('Escape');
  await page.locator('.row:not([hidden]) .name', { hasText: 'GET /load/0004' }).first().click();
  await page.locator('.verdict h2', { hasText: 'GET /load/0004' }).waitFor();
  assert.doesNotMatch(page.url(), /at=/);
  assert.ok(await page.locator('.moment').isHidden());
  const old = await open(`${server.url}${detailHash('GET /load/0000')}&at=${at - 500}`);
  assert.match(await old.locator('.moment').innerText(), /^At \d\d:\d\d:\d\d( \S+)?: older than the 60 s that the server keeps/);
});

test('a link of a change keeps the filter of now, and Esc takes it back as the browser does', async () => {
  const page = await open();
  const view = () => page.evaluate(() => ({ resource: app.view.resource, filter: app.view.filter, href: document.querySelector('#changes a').href }));
  await page.keyboard.press('c');
  const link = page.locator('#changes .name', { hasText: 'GET /load/0000' }).first();
  await link.waitFor();
  await page.locator('#filter').fill('load');
  await waitFor(async () => new URLSearchParams(new URL((await view()).href).hash.slice(1)).get('filter') === 'load');
  await link.click();
  await page.locator('.verdict h2', { hasText: 'GET /load/0000' }).waitFor();
  assert.equal((await view()).filter, 'load');
  assert.ok(await page.locator('#changes').isVisible());
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await waitFor(async () => (await view()).resource === null);
  assert.equal((await view()).filter, 'load');
  await page.goForward();
  await waitFor(async () => (await view()).resource === 'GET /load/0000');
});

test('the list of changes is used with the keyboard', async () => {
  const page = await open(server.url, { timezoneId: 'Asia/Tokyo' });
  const focused = () => page.evaluate(() => document.activeElement.closest('li, [id]').id || document.activeElement.textContent);
  await page.locator('#list').focus();
  await page.keyboard.press('c');
  await page.locator('#changes li a').nth(1).waitFor();
  assert.equal(await focused(), 'changes');
  assert.equal(await page.locator('#changes-zone').innerText(), 'GMT+9');
  assert.match(await page.locator('#changes time').first().getAttribute('title'), /^\d\d:\d\d:\d\d GMT\+9$/);
  const selected = () => page.evaluate('app.table.selected');
  const before = await selected();
  const isLink = (at) => page.evaluate((index) => document.querySelectorAll('#changes li a')[index] === document.activeElement, at);
  await page.keyboard.press('ArrowDown');
  assert.ok(await isLink(0));
  await page.keyboard.press('j');
  assert.ok(await isLink(1));
  await page.keyboard.press('k');
  assert.ok(await isLink(0));
  assert.equal(await selected(), before, 'no row was selected');
  // A link leads to the details, and the key leads back to the link.
  const name = await page.locator('#changes li a').first().innerText();
  await page.keyboard.press('Enter');
  await page.locator('.verdict h2', { hasText: name }).waitFor();
  assert.equal(await focused(), 'detail');
  await page.keyboard.press('c');
  assert.ok(await isLink(0));
  await page.keyboard.press('Escape');
  assert.ok(await page.locator('#changes').isHidden());
  assert.equal(await focused(), 'detail');
  await page.keyboard.press('Escape');
  await page.locator('#list').focus();
  await page.keyboard.press('c');
  await page.keyboard.press('c');
  assert.equal(await focused(), 'list');
  // What is closed from elsewhere leaves the focus there.
  await page.keyboard.press('c');
  await page.locator('#pause').focus();
  await page.locator('#changes-close').evaluate((button) => button.click());
  assert.equal(await focused(), 'pause');
  // The number beside the button is told, too.
  assert.equal(await page.locator('#changes-open').getAttribute('aria-label'), 'Changes');
});

test('what begins to fail is announced', async () => {
  const page = await open();
  await page.evaluate((message) => {
    message.changes[0].t = app.store.newest + 5;
    app.accept(message);
  }, trouble(0, 'POST /pay'));
  assert.match(await page.locator('#announcement').innerText(), /^\d\d:\d\d:\d\d \S+ POST \/pay failing$/);
});

test('a click on a chart links to its second, and the charts show it', async () => {
  const page = await open(`${server.url}${detailHash('GET /load/0000')}`);
  const canvas = page.locator('.chart.rates canvas');
  await canvas.waitFor();
  await waitFor(() => page.evaluate('app.store.newest > 0 && app.detail.node !== null'));
  const box = await canvas.boundingBox();
  await canvas.click({ position: { x: box.width - 70, y: 40 } });
  await waitFor(() => page.url().includes('at='));
  const at = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('at');
  await page.mouse.move(5, 5);
  const linked = await open(page.url());
  await waitFor(() => linked.evaluate((second) => app.detail.cursor === Number(second), at));
  const told = async (tab) => (await tab.locator('.moment').innerText()).match(/^At .*?(\d+ succeeded, \d+ failed)/)?.[1];
  assert.equal(await told(linked), await told(page));
  assert.notEqual(await told(page), undefined);
});

test('trouble only leaves the others out, and says if there is none', async () => {
  const page = await open();
  await waitFor(async () => (await rowsInSight(page)).length > 5);
  await page.keyboard.press('o');
  await waitFor(async () => (await rowsInSight(page)).every(({ level }) => level > 0));
  assert.match(page.url(), /#only=trouble$/);
  assert.equal(await page.locator('#only').getAttribute('aria-pressed'), 'true');
  const tab = await open(page.url());
  await waitFor(async () => (await rowsInSight(tab)).every(({ level }) => level > 0));
  await tab.locator('#filter').fill('load/0001');
  await tab.locator('#empty').waitFor();
  await page.keyboard.press('o');
  await waitFor(async () => (await rowsInSight(page)).length > 5);
});

/** A context whose pages note their notifications. */
async function notified() {
  const context = await browser.newContext({ timezoneId: 'Asia/Tokyo' });
  await context.addInitScript(() => {
    window.notes = [];
    window.Notification = class {
      static permission = 'granted';
      static requestPermission() { return Promise.resolve('granted'); }
      constructor(title, options) { window.notes.push(Object.assign(this, { title, ...options })); }
      close() { this.isClosed = true; }
    };
  });
  return context;
}

/** A message with a change, as the server sends it. */
function trouble(t, name, more = {}) {
  return { type: 'changes', changes: [{ t, kind: 'trouble', name, was: 'quiet', level: 'failing', findings: [], ...more }] };
}

test('a hidden tab follows totals and changes by little, and tells what begins to fail', async () => {
  const context = await notified();
  await context.addInitScript(() => {
    window.addresses = [];
    const { fetch } = window;
    window.fetch = (url, options) => {
      window.addresses.push(String(url));
      return fetch(url, options);
    };
  });
  const page = await openTab(context, server.url);
  pages.push(page);
  await isLive(page);
  await page.keyboard.press('c');
  await page.locator('#notify').click();
  await waitFor(async () => await page.locator('#notify').getAttribute('aria-pressed') === 'true');
  const icon = () => page.evaluate(() => decodeURIComponent(document.querySelector('link[rel=icon]').href));
  await waitFor(async () => /c2410c/.test(await icon()));
  await setHidden(page, true);
  await waitFor(() => page.evaluate(() => /only=totals/.test(window.addresses.at(-1))));
  const rows = await page.evaluate('app.store.newest');
  await turn(true);
  await waitFor(() => page.evaluate(() => window.notes.length > 1));
  const [first, note] = await page.evaluate(() => window.notes);
  assert.equal(first.body, 'Tells what begins to fail while hidden.');
  assert.equal(note.title, 'orders-api');
  assert.match(note.body, /^\d\d:\d\d:\d\d GMT\+9 POST \/pay failing, breaker open/);
  await waitFor(async () => /^\(3\) orders-api$/.test(await page.title()));
  assert.equal(await page.evaluate('app.store.newest'), rows, 'no second was sent');
  assert.ok(await page.evaluate('app.store.heard') > rows);
  await turn(false);
  await setHidden(page, false);
  // Each change once, although the server sends them again with the seconds.
  await waitFor(() => page.evaluate('app.store.newest >= app.store.heard'));
  const changes = await page.evaluate(() => app.store.changes.map((change) => JSON.stringify(change)));
  assert.equal(new Set(changes).size, changes.length);
  assert.equal(await page.evaluate(() => window.notes.length), 2, 'a visible tab tells nothing');
});

test('each failure is a notification of its own, which also tells those that were not seen', async () => {
  const page = await openTab(await notified(), server.url);
  pages.push(page);
  await isLive(page);
  await page.evaluate(() => localStorage.setItem('leaparray-notify', 'yes'));
  await setHidden(page, true);
  await waitFor(() => page.evaluate('app.background.release !== null && app.connection.isFlowing'));
  const told = await page.evaluate(([one, two]) => {
    const t = app.store.heard + 10;
    for (const [late, message] of [[0, one], [1, two]]) {
      message.changes[0].t += t + late;
      app.accept(message);
    }
    // The server sends again what it has sent.
    app.accept(two);
    return window.notes.map(({ body, tag, isClosed }) => ({ lines: body.split('\n').map((line) => line.replace(/^\S+ \S+ /, '')), tag, isClosed }));
  }, [trouble(0, 'GET /\u05d0\u202e', { context: 'web' }), trouble(0, 'GET /two')]);
  assert.equal(told.length, 2);
  assert.deepEqual(told[1].lines, ['GET /two failing', '\u2068GET /\u05d0\\u{202e}\u2069 ↳ web failing']);
  assert.notEqual(told[0].tag, told[1].tag, 'another tag is not shown in silence');
  assert.deepEqual(told.map(({ isClosed }) => isClosed), [true, undefined]);
  await setHidden(page, false);
  assert.equal(await page.evaluate(() => window.notes.every(({ isClosed }) => isClosed)), true);
});

test('a tab that connects in the background tells nothing of what failed before', async () => {
  const context = await notified();
  await context.addInitScript(() => localStorage.setItem('leaparray-notify', 'yes'));
  await context.addInitScript(() => Object.defineProperty(document, 'hidden', { configurable: true, get: () => true }));
  const page = await openTab(context, server.url);
  pages.push(page);
  await waitFor(() => page.evaluate('app.store.changes.some(({ level }) => level === "failing") && app.store.heard > 0'));
  assert.deepEqual(await page.evaluate(() => window.notes), []);
  // After a long time without a connection, minutes-old failures are no news, and what began at an unknown time is none either.
  const lines = await page.evaluate(([old, unknown, recent]) => {
    const { hello } = app.store;
    app.accept({ ...hello, now: hello.now + 500 });
    for (const [late, message] of [[300, old], [495, unknown], [498, recent]]) {
      message.changes[0].t = hello.now + late;
      app.accept(message);
    }
    return window.notes.map(({ body }) => body.replace(/^\S+ \S+ /, ''));
  }, [trouble(0, 'old'), trouble(0, 'unknown', { or_before: true }), trouble(0, 'recent')]);
  assert.deepEqual(lines, ['recent failing']);
});

test('a browser without notifications of pages says so', async () => {
  for (const hasConstructor of [true, false]) {
    const context = await browser.newContext();
    // Chrome of Android has the constructor for workers only, Safari of iOS has none in a tab.
    await context.addInitScript((has) => {
      window.Notification = has ? class {
        static permission = 'granted';
        static requestPermission() { return Promise.resolve('granted'); }
        constructor() { throw new TypeError('Illegal constructor'); }
      } : undefined;
    }, hasConstructor);
    const page = await openTab(context, server.url);
    pages.push(page);
    await isLive(page);
    await page.keyboard.press('c');
    await page.locator('#notify').click();
    await waitFor(async () => await page.locator('#notify-why').innerText() === 'This browser has no notifications of pages.');
    assert.equal(await page.locator('#notify').getAttribute('aria-pressed'), 'false');
  }
});

test('no more than three hidden tabs of a server have a stream', async () => {
  const context = await browser.newContext();
  const tabs = await Promise.all(Array.from({ length: 5 }, () => openTab(context, server.url)));
  pages.push(...tabs);
  await Promise.all(tabs.map((tab) => isLive(tab)));
  for (const tab of tabs) await setHidden(tab, true);
  const streams = async () => (await Promise.all(tabs.map((tab) => tab.evaluate('app.connection.stream !== null')))).filter(Boolean).length;
  await waitFor(async () => await streams() === 3);
  await sleep(1500);
  assert.equal(await streams(), 3);
  // The others say that they are old.
  const icons = () => Promise.all(tabs.map((tab) => tab.evaluate(() => document.querySelector('link[rel=icon]').href)));
  await waitFor(async () => (await icons()).filter((href) => href.includes('848d97')).length === 2);
  const titles = () => Promise.all(tabs.map((tab) => tab.title()));
  await waitFor(async () => (await titles()).filter((title) => /^hidden \d\d:\d\d:\d\d \S+ \(/.test(title)).length === 2);
  // A tab that waits gets the place of one that is shown.
  const holders = () => Promise.all(tabs.map((tab) => tab.evaluate('Number(app.background.release !== null)')));
  const before = await holders();
  assert.equal(before.reduce((sum, held) => sum + held), 3);
  const leaving = tabs[before.indexOf(1)];
  await setHidden(leaving, false);
  await waitFor(async () => (await holders()).reduce((sum, held) => sum + held) === 3);
  await setHidden(leaving, true);
  await waitFor(async () => await streams() === 3);
  assert.equal(await leaving.evaluate('app.background.release'), null);
});

test('a hidden tab follows although its timers wait', async () => {
  const short = await startServer('load', { resources: 5, life: 2 });
  const page = await open(short.url);
  await setHidden(page, true);
  await waitFor(() => page.evaluate('app.background.release !== null && app.connection.isFlowing'));
  // A browser lets the timers of a hidden tab wait for a minute: here, for ever.
  const heard = await page.evaluate(() => {
    window.setTimeout = () => 0;
    return app.store.heard;
  });
  await waitFor(() => page.evaluate((before) => app.store.heard > before + 3, heard));
  await page.close();
  await short.stop();
});

/** The bytes of a second of a stream, in the mean of three seconds. */
async function bytesOf(query) {
  const response = await fetchData(new URL(`stream${query}`, server.url));
  const reader = response.body.getReader();
  let bytes = 0, seconds = 0;
  const decoder = new TextDecoder();
  while (seconds < 4) {
    const { value } = await reader.read();
    for (const line of decoder.decode(value, { stream: true }).split('\n')) {
      // Of the first one, it is not known what was before. A change is in the second in which an
      // alert of an earlier test ends.
      if (seconds > 0 && !/"type":"changes"/.test(line)) bytes += line.length + 1;
      if (/"type":"(totals|second)"/.test(line)) seconds++;
    }
    if (seconds === 1) bytes = 0;
  }
  await reader.cancel();
  return bytes / 3;
}

test('a second of a hidden tab has less than a hundred bytes', async () => {
  const since = Math.floor(Date.now() / 1000);
  const { instance } = await (await fetchData(new URL('snapshot', server.url))).json();
  const full = await bytesOf(`?since=${instance}.${since}`);
  const light = await bytesOf(`?only=totals&since=${instance}.${since}`);
  console.log(`bytes of a second: ${full.toFixed(0)} in a shown tab, ${light.toFixed(0)} in a hidden one`);
  assert.ok(light < 100 && light > 10, `${light}`);
  assert.ok(full > 5 * light, `${full} ${light}`);
});

async function save(page, kind) {
  await page.locator('#save').click();
  const download = page.waitForEvent('download');
  await page.locator('#save-menu').getByRole('button', { name: kind, exact: true }).click();
  const file = await download;
  const path = await file.path();
  return { name: file.suggestedFilename(), path, text: await readFile(path, 'utf8') };
}

/** The fields of CSV, read by RFC 4180. */
function parseCsv(text) {
  const lines = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    lines.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === '\r\n') lines.push([]);
  }
  return lines.slice(0, -1);
}

/** The same, by the module of Python; `null` without Python. */
function readByPython(path) {
  const program = 'import csv, json, sys; print(json.dumps(list(csv.reader(open(sys.argv[1], encoding="utf-8-sig", newline="")))))';
  const { error, stdout, stderr } = spawnSync('python3', ['-c', program, path], { encoding: 'utf8', maxBuffer: 1e8 });
  if (error) return null;
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

/** Whether a spreadsheet could run a field, or a part of it if semicolons separate the fields: then quotes inside do nothing. */
const isFormula = (field) => field.split(';').some((part) => /^[\s"]*[=+\-@]/.test(part)) && Number.isNaN(Number(field));

test('the last minute is saved as JSON and as CSV, with the same numbers and no formulas', async (t) => {
  const page = await open();
  await waitFor(async () => (await rowsInSight(page)).length > 8);
  await waitFor(() => page.evaluate('app.store.newest - app.store.hello.started > 7'));
  await page.keyboard.press(' ');
  const json = await save(page, 'JSON');
  const csv = await save(page, 'CSV');
  assert.match(json.name, /^orders-api-\d{8}T\d{6}Z\.json$/);
  assert.match(csv.name, /^orders-api-\d{8}T\d{6}Z\.csv$/);
  const saved = JSON.parse(json.text);
  assert.ok(csv.text.startsWith('\ufeff'), 'Excel knows the encoding');
  const [head, ...lines] = parseCsv(csv.text.slice(1));
  assert.deepEqual(head, saved.columns);
  const byPython = readByPython(csv.path);
  if (byPython === null) t.diagnostic('without python3');
  else assert.deepEqual(byPython, [head, ...lines]);
  assert.equal(lines.length, saved.rows.length);
  lines.forEach((fields, i) => {
    const row = saved.rows[i].map((field) => (field === null ? '' : String(field)));
    assert.deepEqual(fields.map((field) => field.replaceAll(/(^|;)'/g, '$1')), row);
    for (const field of fields) assert.ok(!isFormula(field), field);
  });
  // Each name as it is in JSON.
  const names = new Set(saved.rows.map((row) => row[3]));
  const formulas = ['=HYPERLINK("http://evil","a")', '@SUM(1)', "-1+cmd|' /C calc'!A0", 'GET /a; =1+1;"+1;\'b', "'quoted'", '\ufeff= x'];
  for (const name of [...formulas, 'a,"b",c', 'Zürich 東京', 'POST /pay']) assert.ok(names.has(name), name);
  // The rows of each second add up to its total.
  const column = saved.columns.indexOf('succeeded');
  const totals = saved.rows.filter((row) => row[2] === 'total');
  assert.ok(totals.length > 5);
  for (const total of totals) {
    const rows = saved.rows.filter((row) => row[0] === total[0] && row[2] === 'resource');
    assert.equal(rows.reduce((sum, row) => sum + row[column], 0), total[column]);
  }
  assert.equal(saved.server.name, 'orders-api');
  assert.ok(saved.changes.length > 0);
  await page.locator('#filter').fill('pay');
  await waitFor(async () => (await rowsInSight(page)).length === 1);
  const filtered = JSON.parse((await save(page, 'JSON')).text);
  assert.deepEqual(new Set(filtered.rows.map((row) => row[3])), new Set([null, 'POST /pay']));
});

test('help explains the words, and names the zone', async () => {
  const page = await open(server.url, { timezoneId: 'Asia/Tokyo' });
  await page.keyboard.press('?');
  const help = await page.locator('#help').innerText();
  for (const words of ['Ledger', 'limit reached', 'wait too long', 'queue full', 'more than limit', 'backend failing', '≤', 'Asia/Tokyo']) {
    assert.ok(help.includes(words), words);
  }
  // The numbers are those by which the server judges, and by which the page writes shares and times.
  const rule = await page.evaluate('RULE');
  assert.ok(help.includes(`at least ${rule.failures_failing} % failed`) && rule.failures_failing === 10, help);
  assert.ok(help.includes(`of ${rule.few} requests or more in ${rule.recent} s`), help);
  assert.ok(help.includes(`under ${rule.p99} for p99, under ${rule.p999} for p99.9`), help);
  assert.doesNotMatch(help, /[{}]/);
  const few = await page.evaluate('[FEW - 1, FEW].map((whole) => formatShareOrCounts(1, whole))');
  assert.deepEqual(few, ['1 of 19', '5.0 %']);
  assert.deepEqual(await page.evaluate('QUANTILES.slice(2).map(({ enough }) => enough)'), [rule.p99, rule.p999]);
});

test('on a phone, the tools have a line, and a link closes the list over it', async () => {
  const page = await open(server.url, { viewport: PHONE, isMobile: true, hasTouch: true });
  for (const id of ['only', 'changes-open', 'save']) {
    const box = await page.locator(`#${id}`).boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width, id);
  }
  await page.locator('#changes-open').tap();
  await page.locator('#changes .name').first().tap();
  await page.locator('.verdict h2').waitFor();
  assert.ok(await page.locator('#changes').isHidden());
});
