// Narrow and wide, light and dark: nothing is cut off, and colours have enough contrast.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PHONE, detailHash, isDrawn, isLive, launch, openPage, startServer } from './harness.mjs';

let browser, server;

before(async () => {
  browser = await launch();
  server = await startServer('load', { resources: 60 });
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const SIZES = [{ width: 1600, height: 1000 }, { width: 1280, height: 800 }, { width: 1000, height: 700 }, PHONE, { width: 320, height: 640 }];

for (const viewport of SIZES) {
  for (const colorScheme of ['light', 'dark']) {
    test(`${viewport.width} pixels wide, ${colorScheme}`, async () => {
      for (const hash of ['', detailHash('GET /load/0004')]) {
        const page = await openPage(browser, server.url + hash, { viewport, colorScheme });
        await page.locator('body[data-state="live"]').waitFor();
        await isDrawn(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.equal(wide, viewport.width, `the page is ${wide} pixels wide`);
        assert.deepEqual(await cutOff(page), [], 'cut off');
        assert.ok(await contrast(page) >= 4.5);
        assert.deepEqual(page.complaints, []);
        await page.context().close();
      }
    });
  }
}

/** The buttons and numbers that do not fit into their place. */
function cutOff(page) {
  return page.evaluate(() => [...document.querySelectorAll('.bar button, .tile .value, .row .number, .figures td')]
    .filter((element) => element.checkVisibility() && element.scrollWidth > element.clientWidth + 1)
    .map((element) => `${element.className} ${element.textContent}`));
}

/** The smallest contrast of the texts that matter to their ground. */
function contrast(page) {
  return page.evaluate(() => {
    const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
    const luminance = (colour) => {
      const [red, green, blue] = numbers(colour).map((part) => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = (element) => {
      const colour = getComputedStyle(element).backgroundColor;
      return numbers(colour)[3] === 0 ? ground(element.parentElement) : colour;
    };
    const ratios = [...document.querySelectorAll('.bar h1, #about, .tile h2, .tile b, .tile .note, .row .name, .row .reason, .badge, .sentence, .figures th, .chart small')]
      .filter((element) => element.checkVisibility() && element.textContent !== '')
      .map((element) => {
        const [a, b] = [luminance(getComputedStyle(element).color), luminance(ground(element))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      });
    return Math.min(...ratios);
  });
}

test('the theme is chosen by the system or by the user, and is kept', async () => {
  const page = await openPage(browser, server.url, { colorScheme: 'dark' });
  await isLive(page);
  const ground = () => page.evaluate(() => getComputedStyle(document.querySelector('.bar')).backgroundColor);
  assert.equal(await ground(), 'rgb(22, 27, 34)');
  await page.keyboard.press('t');
  assert.equal(await ground(), 'rgb(255, 255, 255)');
  await page.reload();
  await isLive(page);
  assert.equal(await ground(), 'rgb(255, 255, 255)');
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).click();
  await page.emulateMedia({ colorScheme: 'light' });
  assert.equal(await ground(), 'rgb(255, 255, 255)');
  await page.context().close();
});

test('on a phone the details cover the list', async () => {
  const page = await openPage(browser, server.url, { viewport: PHONE, isMobile: true, hasTouch: true });
  await isLive(page);
  await page.locator('.row:not([hidden]) .name', { hasText: '0004' }).tap();
  await page.locator('.figures tbody tr').nth(2).waitFor();
  assert.ok(await page.locator('#list').isHidden());
  await page.locator('#back').tap();
  await page.locator('#list').waitFor();
  await page.context().close();
});
