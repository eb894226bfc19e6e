// Makes the pictures of the README, with the simulated service:
//
//     cargo build -p leaparray-web --example demo
//     node screenshots.mjs ../../../../target/debug/examples/demo
//
// With few colours they are less than half as large: `pngquant --force --ext .png --quality 85-100 ../../docs/*.png`.

import { mkdir, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { PHONE, WIDE, detailHash, isLive, launch, openTab, sleep, startProgram, waitFor } from './harness.mjs';

const FOLDER = fileURLToPath(new URL('../../docs/', import.meta.url));
const FAILING = 'POST /pay';
/** The history is full after that long, with some seconds to spare. */
const FULL = 64_000;
/** The simulated service is in each of its states once a minute. */
const MINUTES = 130_000;

async function save(page, name) {
  const path = `${FOLDER}${name}.png`;
  await page.screenshot({ path });
  console.log(`${path}: ${Math.ceil((await stat(path)).size / 1024)} KiB`);
}

/** Waits until the failing resource's breaker is open for some seconds. */
function isOpen(page) {
  return waitFor(async () => /Breaker open, for ([5-9]|1\d) s/.test(await page.locator('body').innerText()), MINUTES);
}

/** Opens a page on which another host stands in the place of the machine that makes the pictures. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: WIDE, colorScheme: 'light', ...options });
  await context.addInitScript(() => {
    const parse = JSON.parse;
    JSON.parse = (text) => {
      const message = parse(text);
      return message.type === 'hello' ? { ...message, host: 'web-3', pid: 4127 } : message;
    };
  });
  return openTab(context, url);
}

const [program, ...args] = process.argv.slice(2);
const server = await startProgram(program, ['--port', '0', '--resources', '40', ...args]);
const browser = await launch();
await mkdir(FOLDER, { recursive: true });

const wide = await open(server.url);
const detail = await open(`${server.url}${detailHash(FAILING)}`, { colorScheme: 'dark' });
const phone = await open(server.url, { viewport: PHONE, isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 });
await isLive(wide);
await sleep(FULL);
await isOpen(wide);
await save(wide, 'page');
await save(detail, 'detail-dark');
await save(phone, 'phone');

await server.stop();
await wide.locator('body[data-state="lost"]').waitFor();
// Long enough for the page to have tried again some times.
await sleep(8000);
await save(wide, 'connection-lost');
await browser.close();
