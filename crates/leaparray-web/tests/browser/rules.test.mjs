// The rules: a line above the list, which opens to a table.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isLive, launch, openPage, startServer } from './harness.mjs';

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

test('the line says that the source is wrong, and opens to the rules, whose names are text', async () => {
  const server = await startServer('rules');
  try {
    const page = await openPage(browser, server.url);
    await isLive(page);
    const rules = page.locator('#rules');
    await rules.waitFor();
    assert.match(await rules.locator('summary').innerText(), /9 rules.*▲ limits\.toml is wrong: the last rules are in force/);
    await rules.locator('summary').focus();
    await page.keyboard.press('Enter');
    await rules.locator('tbody tr').nth(1).waitFor();
    assert.equal(await rules.locator('.why').innerText(), 'limits.toml:4: rule "orders": unknown key');
    const cells = await rules.locator('tbody tr').evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(cells, [
      ['<img src=x onerror="document.title=\'broken\'">', 'GET /orders', 'limit = "1000 per second"', 'enforce', '12 of 1000 left', '25 %'],
      ['all', '*', 'in_flight = 64', '', '', '–'],
    ]);
    assert.match(await rules.locator('.left-out').innerText(), /7 more are not shown/);
  } finally {
    await server.stop();
  }
});

test('a page without rules has no line of them', async () => {
  const server = await startServer('rest');
  try {
    const page = await openPage(browser, server.url);
    await isLive(page);
    assert.equal(await page.locator('#rules').isVisible(), false);
  } finally {
    await server.stop();
  }
});
