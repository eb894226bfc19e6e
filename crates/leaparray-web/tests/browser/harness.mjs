// Servers and browsers for the tests.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { chromium } from 'playwright-core';

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };
/** How long a condition may take to come true. Only a defect reaches it. */
const PATIENCE = 60_000;

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

/** Finds Debian's Chromium, or another one on `PATH`. */
function executable() {
  const folders = ['/usr/bin', ...(process.env.PATH ?? '').split(':')];
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  return folders.flatMap((folder) => names.map((name) => `${folder}/${name}`)).find((path) => existsSync(path));
}

export function launch() {
  return chromium.launch({ executablePath: executable(), args: FLAGS });
}

/** Starts a server of `server.rs`, and waits for its address. */
export async function startServer(scenario, settings = {}) {
  const env = { ...process.env, LEAPARRAY_WEB_SCENARIO: scenario };
  for (const [name, value] of Object.entries(settings)) env[`LEAPARRAY_WEB_${name.toUpperCase()}`] = String(value);
  return startProgram(process.env.LEAPARRAY_WEB_SERVER, ['--ignored', '--exact', 'serve', '--nocapture'], env);
}

/** The tokens of the started servers by their addresses. */
const tokens = new Map();

/** The address that opens a page: with the token of its server. */
export function withToken(address) {
  const url = new URL(address);
  const token = tokens.get(url.origin);
  if (token !== undefined) url.hash = `token=${token}&${url.hash.slice(1)}`;
  return url.href;
}

/** Asks a server for data, with its token. */
export function fetchData(address) {
  return fetch(address, { headers: { authorization: `Bearer ${tokens.get(new URL(address).origin)}` } });
}

/** Starts a program that prints its address, with its token. */
export async function startProgram(program, args, env = process.env) {
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
  // After a failed test nothing waits for the program: it ends with its standard input.
  for (const handle of [child, child.stdin, child.stdout]) handle.unref();
  const server = { child, output: '', ended: once(child, 'exit') };
  child.stdout.on('data', (data) => { server.output += data; });
  [server.opens, server.url, server.token] = await waitFor(() => server.output.match(/(http:\/\/127\.0\.0\.1:\d+\/)#token=(\S+)\n/));
  server.opens = server.opens.trim();
  tokens.set(new URL(server.url).origin, server.token);
  /** Asks it to end, as a service manager does, and returns the seconds that it took. */
  server.stop = async () => {
    const before = performance.now();
    child.kill('SIGTERM');
    const killed = setTimeout(() => child.kill('SIGKILL'), PATIENCE);
    await server.ended;
    clearTimeout(killed);
    return (performance.now() - before) / 1000;
  };
  return server;
}

/** Waits until something is true, and returns it. */
export async function waitFor(condition, patience = PATIENCE) {
  const end = performance.now() + patience;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > end) throw new Error(`not true within ${patience} ms: ${condition}`);
    await sleep(50);
  }
}

export function sleep(milliseconds) {
  return new Promise((resolve) => { setTimeout(resolve, milliseconds); });
}

/** A port that is free a moment later. */
export async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

/** Opens a page, and collects what it complains about: errors, and violations of the security policy. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: 'light', ...options });
  return openTab(context, url);
}

export function openTab(context, url) {
  return openAddress(context, withToken(url));
}

/** Opens an address as it is. */
export async function openAddress(context, url) {
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(String(error.stack)));
  // A connection that the browser could not make is no defect of the page.
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource|net::ERR_/.test(message.text())) page.complaints.push(message.text());
  });
  await page.goto(url);
  return page;
}

/** Waits until the page has rows and is live. */
export async function isLive(page) {
  await page.locator('body[data-state="live"]').waitFor();
  // The first row of the document may be one that is not in use.
  await page.locator('.row:not(.group):not([hidden]) .name').first().waitFor();
}

/** Waits until the page has drawn what it knows. */
export function isDrawn(page) {
  return page.evaluate(() => new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); }));
}

/** Waits until a page has got some further seconds. */
export async function hasRead(page, seconds) {
  const newest = await page.evaluate('app.store.newest');
  await waitFor(() => page.evaluate((t) => app.store.newest >= t, newest + seconds));
  await isDrawn(page);
}

/** Makes it time for another order of the rows, as after some seconds. */
export function orderIsDue(page) {
  return page.evaluate('app.table.orderedAt -= 2 * RESORT_EVERY');
}

/** Waits until the order of the rows changes no more at each update, and holds it as with a pointer that moves in the list. */
export async function holdOrder(page) {
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  await page.evaluate('app.table.isHeld = () => app.table.pointerInside');
  await page.locator('#scroll').hover();
}

/** Pretends that the connection was lost long ago, and cannot be made again. */
export function loseConnection(page) {
  return page.evaluate(() => {
    const { connection } = app;
    connection.close();
    connection.connect = () => {};
    connection.heardAt -= 100;
    connection.readAt -= 100;
    app.watch();
  });
}

/** Opens the details of a resource by a click on its row. */
export async function clickRow(page, name) {
  await holdOrder(page);
  await page.locator('.row:not([hidden]) .name', { hasText: name }).first().click();
  await page.locator('.verdict h2', { hasText: name }).waitFor();
}

/** The texts of the rows in sight, from top to bottom, without the heads of groups. */
export function rowsInSight(page) {
  return page.evaluate(() => [...document.querySelectorAll('.row:not(.group)')]
    .filter((row) => !row.hidden)
    .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
    .map((row) => ({
      name: row.querySelector('.name').textContent,
      level: Number(row.className.match(/trouble-(\d)/)[1]),
      ok: Number(row.querySelector('.c-ok').textContent.replaceAll(',', '')),
    })));
}

/** The address of the details of a resource. */
export function detailHash(resource, context = null) {
  const query = new URLSearchParams({ resource });
  if (context !== null) query.set('context', context);
  return `#${query}`;
}

/** A count as the page writes it. */
export function digits(count) {
  return new Intl.NumberFormat('en-US').format(count);
}

/** Opens the page of a server with many resources, and waits until their order settles and what is used often is compiled. */
export async function openLoad(browser, resources) {
  const server = await startServer('load', { resources });
  const page = await openPage(browser, server.url);
  await isLive(page);
  await waitFor(() => page.evaluate('now() > app.table.settledAt'));
  await hasRead(page, 3);
  return { server, page };
}
