// What the page shows is what the server has counted, to the unit, once it is at rest.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { detailHash, digits, fetchData, isLive, launch, openPage, startServer, waitFor } from './harness.mjs';

let browser, server, page, counted;

before(async () => {
  browser = await launch();
  server = await startServer('rest');
  // The page looks on while requests are recorded.
  page = await openPage(browser, server.url);
  await isLive(page);
  const [, line] = await waitFor(() => server.output.match(/counted (\[.*\])\n/));
  counted = JSON.parse(line);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const numberOf = (text) => Number(text.replaceAll(/[^\d]/g, ''));
const all = (node) => node.pass + node.success + node.exception + node.cancelled + node.block;
const texts = (locator) => locator.allInnerTexts();

/** Opens the details of a resource and waits for those of the server. */
async function openDetail(node) {
  await page.goto(`${server.url}${detailHash(node.name, node.context)}`);
  await page.locator('.figures tbody tr').nth(2).waitFor();
}

test('the details show all counts of each resource and context', async () => {
  for (const node of counted) {
    await openDetail(node);
    const minute = await texts(page.locator('.figures tbody tr').nth(1).locator('td'));
    const ever = await texts(page.locator('.figures tbody tr').nth(2).locator('td'));
    const expected = [node.success, node.exception, node.cancelled, node.block].map(digits);
    assert.deepEqual(minute.slice(0, 4), expected, `the last minute of ${node.name} ${node.context}`);
    assert.deepEqual(ever.slice(0, 4), expected, `the counts since the start of ${node.name} ${node.context}`);
  }
});

test('the ledger says where every count is', async () => {
  for (const node of counted) {
    await openDetail(node);
    const ledger = await texts(page.locator('.facts section:nth-child(3) tbody td'));
    const [inWindow, expired, late, sum, recorded] = ledger.map(numberOf);
    assert.equal(recorded, all(node), node.name);
    assert.equal(inWindow + expired + late, recorded);
    assert.equal(sum, recorded);
    assert.match(ledger[4], /✓/);
  }
});

test('refusals are shown by reason', async () => {
  const node = counted.find(({ name }) => name === 'POST /pay');
  await openDetail(node);
  const rows = await page.locator('.facts section:nth-child(1) tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const ever = Object.fromEntries(rows.map((cells) => [cells[0], numberOf(cells[3])]));
  assert.ok(node['backend failing'] > 0 && node['limit reached'] > 0);
  assert.equal(ever['backend failing'], node['backend failing']);
  assert.equal(ever['limit reached'], node['limit reached']);
  assert.equal(node.block, node['backend failing'] + node['limit reached']);
});

test('refusals are shown by limiter, the most first, and responses by class', async () => {
  const facts = (title) => page.locator('.facts section', { has: page.locator('h3', { hasText: title }) });
  const rows = async (title) => facts(title).locator('tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const pay = counted.find(({ name }) => name === 'POST /pay');
  await openDetail(pay);
  const limiters = pay['refused by'].toSorted((a, b) => b[1] - a[1]);
  assert.deepEqual(limiters.map(([name]) => name), ['clients', counted[0].name]);
  assert.deepEqual(await rows('limiter, since'), limiters.map(([name, count]) => [name, digits(count)]));
  assert.equal(limiters[0][1] + limiters[1][1], pay['limit reached']);
  assert.ok(pay.responses[1] > 0);
  assert.deepEqual(await rows('by status'), pay.responses.map((count, i) => [`${i + 1}xx`, digits(count)]));
  // A resource without responses does not show that part.
  await openDetail(counted.find(({ name }) => name === 'GET /orders'));
  assert.ok(await facts('limiter, since').isVisible());
  assert.ok(await facts('by status').isHidden());
});

test('the seconds of the charts sum up to the counts', async () => {
  const node = counted.find(({ name, context }) => name === 'GET /orders' && context === null);
  await openDetail(node);
  const sums = { succeeded: 0, failed: 0, cancelled: 0, refused: 0 };
  await page.locator('#detail').focus();
  // Paused, so that no second leaves the page in the middle of the walk.
  await page.keyboard.press('Space');
  const seen = new Set();
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('ArrowLeft');
    const sentence = await page.locator('#readout').innerText();
    if (seen.has(sentence)) continue;
    seen.add(sentence);
    for (const event of Object.keys(sums)) sums[event] += numberOf(sentence.match(new RegExp(`([\\d,]+) ${event}`))?.[1] ?? '0');
  }
  await page.keyboard.press('Space');
  assert.deepEqual(sums, { succeeded: node.success, failed: node.exception, cancelled: node.cancelled, refused: node.block });
});

test('the tiles show the totals of all resources', async () => {
  await page.goto(server.url);
  await isLive(page);
  const recorded = counted.reduce((sum, node) => sum + all(node), 0);
  await waitFor(async () => await page.locator('#tile-ledger').getAttribute('data-value') === String(recorded));
  assert.match(await page.locator('#tile-ledger .note').innerText(), /^in window \+ expired \+ late/);
  assert.equal(await page.locator('#tile-ledger').getAttribute('title'), digits(recorded));
  assert.equal(await page.locator('#tile-flight').getAttribute('data-value'), '0');
});

test('the page counts as the snapshot does', async () => {
  const answer = await fetchData(`${server.url}snapshot`);
  const { snapshot } = await answer.json();
  const text = JSON.stringify(snapshot);
  for (const { name } of counted) assert.ok(text.includes(JSON.stringify(name).slice(1, -1)), name);
  assert.deepEqual(page.complaints, []);
});
