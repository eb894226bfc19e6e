// Names are text, whatever is in them, and nothing violates the security policy.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isLive, launch, openPage, rowsInSight, startServer, waitFor } from './harness.mjs';

const MARKUP = [
  '<img src=x onerror="document.title=\'broken\'">',
  '"><script>document.title=\'broken\'</script>',
  "</style><b>bold</b> & &amp; '{{name}}'",
  'javascript:alert(1)#resource=other&context=%00',
];

let browser, server, page;

before(async () => {
  browser = await launch();
  server = await startServer('rest', { name: '<b>service</b>' });
  page = await openPage(browser, server.url);
  await isLive(page);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

test('names in the table are text', async () => {
  await waitFor(async () => (await rowsInSight(page)).length >= MARKUP.length + 4);
  const names = (await rowsInSight(page)).map(({ name }) => name);
  for (const name of MARKUP) assert.ok(names.includes(name), name);
  assert.ok(names.includes('↳ <i>batch</i>'));
  assert.equal(await page.locator('#service').innerText(), '<b>service</b>');
  assert.equal(await page.locator('#scroll img, #scroll script, #scroll b:not(.hint, .group-title b), #scroll i').count(), 0);
});

test('the details of each name open, also by their link in a new tab', async () => {
  for (const name of MARKUP) {
    await page.goto(server.url);
    await isLive(page);
    const link = page.locator('.row:not([hidden]) .name', { hasText: name }).first();
    const href = await link.getAttribute('href');
    const tab = await openPage(browser, new URL(href, server.url).href);
    await tab.locator('.figures tbody tr').nth(2).waitFor();
    assert.equal(await tab.locator('.verdict h2').innerText(), name);
    assert.deepEqual(tab.complaints, []);
    await tab.context().close();
  }
});

test('the details of a context say which', async () => {
  await page.goto(server.url);
  await isLive(page);
  await page.locator('.row:not([hidden]) .name', { hasText: '<i>batch</i>' }).click();
  await page.locator('.figures tbody tr').nth(2).waitFor();
  assert.match(await page.locator('.verdict h2').innerText(), /GET \/orders\s+↳ <i>batch<\/i>/);
});

test('nothing was run and nothing violates the policy', async () => {
  assert.notEqual(await page.title(), 'broken');
  assert.deepEqual(page.complaints, []);
  const violation = await page.evaluate(() => new Promise((resolve) => {
    document.addEventListener('securitypolicyviolation', (event) => resolve(event.violatedDirective));
    const script = document.createElement('script');
    script.textContent = 'document.title = "broken"';
    document.body.append(script);
    setTimeout(() => resolve('none'), 1000);
  }));
  // The policy is in force: what the test adds is stopped.
  assert.match(violation, /^script-src/);
  assert.notEqual(await page.title(), 'broken');
});
