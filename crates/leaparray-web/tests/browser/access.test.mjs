// The token: it comes with the address, is kept by the browser, and is asked for if it is missing or refused.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createServer, request } from 'node:http';
import { once } from 'node:events';
import { detailHash, freePort, isLive, launch, openAddress, startServer, waitFor } from './harness.mjs';

let browser, context;

before(async () => { browser = await launch(); });
after(() => browser?.close());

/** Opens an address as it is, in a context of its own. */
async function open(url, options = {}) {
  context = await browser.newContext(options);
  return openAddress(context, url);
}

const isLocked = (page) => page.locator('body[data-state="locked"]').waitFor();
const why = (page) => page.locator('#locked-why').innerText();

/** Types a token into the form. */
async function enter(page, token) {
  await page.locator('#token').fill(token);
  await page.locator('#token').press('Enter');
}

test('the printed address opens the page, and the token leaves the address', async () => {
  const server = await startServer('silent');
  const page = await open(server.opens);
  const asked = [];
  page.on('request', (request) => asked.push(request));
  await isLive(page);
  assert.equal(page.url(), server.url);
  await page.reload();
  await isLive(page);
  // In no address, and in no header but its own.
  const streams = asked.filter((request) => request.url().includes('/stream'));
  assert.ok(streams.length > 0);
  for (const request of asked) {
    const { 'leaparray-token': token, ...headers } = await request.allHeaders();
    assert.equal(token, streams.includes(request) ? server.token : undefined);
    assert.ok(!JSON.stringify([request.url(), headers]).includes(server.token));
  }
  assert.deepEqual(await context.cookies(), []);
  // Another tab of the browser needs no token.
  const other = await openAddress(context, `${server.url}${detailHash('GET /silent')}`);
  await isLive(other);
  assert.equal(other.url(), `${server.url}${detailHash('GET /silent')}`);
  for (const tab of [page, other]) assert.deepEqual(tab.complaints, []);
  await context.close();
  await server.stop();
});

test('the view of an address with a token is shown', async () => {
  const server = await startServer('silent');
  const page = await open(`${server.opens}&resource=GET+%2Fsilent&sort=name`);
  await page.locator('.verdict h2', { hasText: 'GET /silent' }).waitFor();
  assert.equal(page.url(), `${server.url}#resource=GET+%2Fsilent&sort=name`);
  await context.close();
  await server.stop();
});

test('without a token, the page says so, and takes the one that is entered', async () => {
  const server = await startServer('silent');
  const page = await open(server.url);
  await isLocked(page);
  assert.match(await why(page), /needs a token\. Open the address that the service has printed/);
  assert.equal(await page.locator('#mark').innerText(), 'needs a token');
  for (const other of ['of-another-service-0123', 'ключ от всего …']) {
    const [answer] = await Promise.all([page.waitForResponse(/stream/), enter(page, other)]);
    assert.equal(answer.status(), 401);
    await waitFor(async () => /does not accept the token/.test(await why(page)));
  }
  // What is typed is no key of the page.
  await page.locator('#token').pressSequentially('tf? /');
  assert.ok(await page.locator('#help').isHidden());
  await enter(page, ` ${server.token}`);
  await isLive(page);
  assert.ok(await page.locator('#locked').isHidden());
  assert.deepEqual(page.complaints, []);
  await context.close();
  await server.stop();
});

test('after a restart with another token, the page says so, and the new address opens all tabs', async () => {
  const port = await freePort();
  const first = await startServer('silent', { port });
  const page = await open(first.opens);
  await isLive(page);
  await first.stop();
  await page.locator('body[data-state="lost"]').waitFor();
  const second = await startServer('silent', { port });
  await isLocked(page);
  assert.match(await why(page), /If it has started again, it has a new one/);
  // The last values are there, and are grey.
  assert.equal(await page.locator('.row:not(.group):not([hidden]) .name').count(), 1);
  assert.match(await page.locator('main').evaluate((main) => getComputedStyle(main).filter), /grayscale\(1\)/);
  const other = await openAddress(context, second.opens);
  await isLive(other);
  await isLive(page);
  // In the same tab, only the part behind `#` changes.
  await second.stop();
  const third = await startServer('silent', { port });
  await isLocked(page);
  await page.goto(third.opens);
  await isLive(page);
  assert.equal(page.url(), third.url);
  for (const tab of [page, other]) assert.deepEqual(tab.complaints, []);
  await context.close();
  await third.stop();
});

test('two services of one host have tokens of their own', async () => {
  const servers = [await startServer('silent'), await startServer('silent')];
  const page = await open(servers[0].opens);
  await isLive(page);
  const other = await openAddress(context, servers[1].opens);
  await isLive(other);
  for (const tab of [page, other]) {
    await tab.reload();
    await isLive(tab);
  }
  await context.close();
  for (const server of servers) await server.stop();
});

test('a browser that keeps nothing opens the page', async () => {
  const server = await startServer('silent');
  context = await browser.newContext();
  await context.addInitScript(() => {
    Object.defineProperty(window, 'localStorage', { get: () => { throw new DOMException('no', 'SecurityError'); } });
  });
  const page = await openAddress(context, server.opens);
  await isLive(page);
  assert.deepEqual(page.complaints, []);
  await context.close();
  await server.stop();
});

test('an open page needs no token', async () => {
  const server = await startServer('silent', { access: 'anyone' });
  const page = await open(server.url);
  await isLive(page);
  await context.close();
  await server.stop();
});

/** A proxy that asks browsers for a password, and passes everything else on. */
async function passwordProxy(upstream) {
  const proxy = createServer((incoming, answer) => {
    if (incoming.headers.authorization !== `Basic ${btoa('ada:lovelace')}`) {
      answer.writeHead(401, { 'www-authenticate': 'Basic realm="staging"' }).end();
      return;
    }
    const passed = request(new URL(incoming.url, upstream), { headers: incoming.headers }, (given) => {
      answer.writeHead(given.statusCode, given.headers);
      given.pipe(answer);
    });
    answer.on('close', () => passed.destroy());
    passed.on('error', () => answer.destroy());
    passed.end();
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return proxy;
}

test('the token leaves the password of a proxy as it is', async () => {
  const server = await startServer('silent');
  const proxy = await passwordProxy(server.url);
  const url = `http://127.0.0.1:${proxy.address().port}/#token=${server.token}`;
  const page = await open(url, { httpCredentials: { username: 'ada', password: 'lovelace' } });
  await isLive(page);
  assert.deepEqual(page.complaints, []);
  await context.close();
  proxy.close();
  await server.stop();
});

test('an answer that is no stream is explained', async () => {
  const server = await startServer('silent');
  const answers = [
    [{ status: 403, body: 'no' }, /does not allow this browser: if the service has a login, log in and reload/],
    [{ status: 401, headers: { 'www-authenticate': 'Cookie' }, body: 'no' }, /does not allow this browser/],
    [{ status: 200, contentType: 'text/html', body: 'log in' }, /does not allow this browser/],
    [{ status: 502, body: 'no' }, /it answers with the status 502/],
  ];
  for (const [answer, words] of answers) {
    context = await browser.newContext();
    await context.route('**/stream*', (route) => route.fulfill(answer));
    const page = await openAddress(context, server.opens);
    await page.locator('body[data-state="lost"]').waitFor();
    await waitFor(async () => words.test(await page.locator('#banner').innerText()));
    assert.deepEqual(page.complaints, []);
    await context.close();
  }
  await server.stop();
});
