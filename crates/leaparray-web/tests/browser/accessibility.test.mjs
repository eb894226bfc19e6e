// With a screen reader, a keyboard alone, forced colours, a large zoom, another script.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { detailHash, holdOrder, isLive, launch, loseConnection, openAddress, openPage, PHONE, sleep, startServer, waitFor } from './harness.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let browser, server, fleet;

before(async () => {
  browser = await launch();
  server = await startServer('load', { resources: 60 });
  fleet = await startServer('fleet', { processes: 20 });
  await sleep(2000);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await fleet?.stop();
});

/** Opens a page, and closes it after `use`; nothing may complain. */
async function withPage(url, options, use) {
  const page = await openPage(browser, url, options);
  // The details of a phone hide the rows.
  if (url.includes('#')) await page.locator('body[data-state="live"]').waitFor();
  else await isLive(page);
  await use(page);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

/** The rules of axe-core that the page breaks, with the elements. */
async function violations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run(document));
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ''}`).join('; ')}`);
}

const LOOKS = {
  light: {},
  dark: { colorScheme: 'dark' },
  'forced colours': { forcedColors: 'active', colorScheme: 'dark' },
  '320 px': { viewport: { width: 320, height: 640 } },
  '400 %': { viewport: { width: 320, height: 200 }, deviceScaleFactor: 4 },
};

for (const [look, options] of Object.entries(LOOKS)) {
  test(`axe-core finds nothing: ${look}`, async () => {
    const found = {};
    const check = async (page, view) => {
      const broken = await violations(page);
      if (broken.length > 0) found[view] = broken;
    };
    await withPage(server.url, options, async (page) => {
      await check(page, 'list');
      await page.evaluate("byId('help').showModal()");
      await check(page, 'help');
      await page.evaluate("byId('help').close()");
      await page.evaluate('app.changes.toggle()');
      await page.locator('#changes li').first().waitFor();
      await check(page, 'changes');
      await page.locator('#save').click();
      await check(page, 'save');
      await page.evaluate("byId('save-menu').hidePopover()");
      await page.evaluate('app.changes.close()');
      await page.evaluate("app.setFilter('no such name')");
      await page.locator('#empty').waitFor();
      await check(page, 'no row');
    });
    await withPage(server.url + detailHash('GET /load/0004'), options, async (page) => {
      await page.locator('.figures tbody tr').nth(2).waitFor();
      await page.keyboard.press('ArrowLeft');
      await check(page, 'details');
      await loseConnection(page);
      await page.locator('body[data-state="lost"]').waitFor();
      await check(page, 'lost');
    });
    await withPage(fleet.url, options, async (page) => {
      await page.locator('#fleet-open').waitFor();
      await check(page, 'line of the fleet');
      await page.evaluate('app.openFleet()');
      await page.locator('#fleet table').nth(2).waitFor();
      await check(page, 'fleet');
    });
    const locked = await openAddress(await browser.newContext(options), server.url);
    await locked.locator('#locked').waitFor();
    await check(locked, 'locked');
    await locked.context().close();
    assert.deepEqual(found, {});
  });
}

/** Whether a canvas has a pixel of a colour of the style sheet. */
function hasColour(page, canvas, name) {
  return page.evaluate(([id, colour]) => {
    const surface = document.getElementById(id);
    const { data } = surface.getContext('2d').getImageData(0, 0, surface.width, surface.height);
    return new Uint32Array(data.buffer).includes(palette.pixel[colour]) && palette.css[colour] !== palette.css.gap;
  }, [canvas, name]);
}

test('charts keep their colours where the system sets all others', async () => {
  await withPage(server.url, { forcedColors: 'active', colorScheme: 'dark' }, async (page) => {
    for (const name of ['ok', 'failed', 'refused']) assert.ok(await waitFor(() => hasColour(page, 'bars', name)), name);
    const colours = await page.evaluate("['ok', 'failed', 'refused', 'cancelled', 'band-1', 'band-3', 'heat-1', 'heat-4', 'text'].map((name) => palette.css[name])");
    assert.equal(new Set(colours).size, colours.length, colours.join());
    const swatch = (kind) => page.locator(`.swatch.${kind}`).evaluate((one) => getComputedStyle(one).backgroundColor);
    assert.notEqual(await swatch('ok'), await swatch('failed'));
    // Switched off and on while the page is open.
    await page.emulateMedia({ forcedColors: 'none', colorScheme: 'light' });
    await waitFor(() => page.evaluate("palette.css.text === 'rgb(22, 32, 42)'"));
  });
});

test('each text has a contrast of 4.5 to its ground, faint ones and those of a lost connection too', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await withPage(server.url, { colorScheme }, async (page) => {
      for (const state of ['live', 'lost']) {
        const contrasts = await page.evaluate((name) => {
          document.body.dataset.state = name;
          const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
          const luminance = (parts) => {
            const [red, green, blue] = parts.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
            return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
          };
          const style = getComputedStyle(document.documentElement);
          const probe = document.body.appendChild(document.createElement('span'));
          const colour = (property) => {
            probe.style.color = `var(--${property})`;
            return numbers(getComputedStyle(probe).color);
          };
          // A filter may make a text fainter.
          const opacity = Number(getComputedStyle(document.querySelector('main')).filter.match(/opacity\(([\d.]+)\)/)?.[1] ?? 1);
          const found = [];
          for (const ground of ['paper', 'ground', 'tint-1', 'tint-2']) {
            for (const text of ['text', 'soft', 'faint', 'failed', 'refused-text']) {
              const below = colour(ground), above = colour(text).map((part, i) => part * opacity + below[i] * (1 - opacity));
              const [a, b] = [luminance(above), luminance(below)];
              found.push([`${name}: ${text} on ${ground}`, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
            }
          }
          probe.remove();
          return style && found;
        }, state);
        assert.deepEqual(contrasts.filter(([, ratio]) => ratio < 4.5), []);
      }
    });
  }
});

test('at 400 % the list, the details and what is read are in sight after scrolling', async () => {
  const options = { viewport: { width: 320, height: 200 }, deviceScaleFactor: 2 };
  await withPage(server.url, options, async (page) => {
    await page.locator('#list').focus();
    const box = await page.locator('#scroll').boundingBox();
    assert.ok(box.height >= 100, `${box.height} px`);
    await page.keyboard.press('j');
    await page.locator('.row.selected').scrollIntoViewIfNeeded();
    assert.ok(await page.locator('.row.selected').evaluate((row) => row.getBoundingClientRect().bottom <= innerHeight));
    await page.keyboard.press('Enter');
    await page.locator('.figures').waitFor();
    await page.keyboard.press('ArrowLeft');
    const readout = await page.locator('#readout').boundingBox();
    assert.ok(readout.y >= 0 && readout.y + readout.height <= 200, JSON.stringify(readout));
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 320);
  });
});

test('the title says which time it is of if the tab is paused, hidden or lost', async () => {
  await withPage(server.url, {}, async (page) => {
    const count = '\\([1-9]\\) ', time = '\\d\\d:\\d\\d:\\d\\d \\S+ ';
    await waitFor(async () => new RegExp(`^${count}orders-api$`).test(await page.title()));
    await page.keyboard.press('Space');
    assert.match(await page.title(), new RegExp(`^paused ${time}${count}orders-api$`));
    await page.keyboard.press('Space');
    await waitFor(async () => /^\(/.test(await page.title()));
    await loseConnection(page);
    assert.match(await page.title(), new RegExp(`^lost ${time}${count}orders-api$`));
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    assert.match(await page.title(), new RegExp(`^hidden ${time}${count}orders-api$`));
  });
});

test('a phone sorts by each column', async () => {
  for (const viewport of [PHONE, { width: 320, height: 640 }]) {
    await withPage(server.url, { viewport, isMobile: true, hasTouch: true }, async (page) => {
      for (const column of ['Resource', 'Failed /s', 'p99', 'Trouble first']) {
        const button = page.getByRole('button', { name: column, exact: true });
        await button.tap();
        assert.ok((await button.boundingBox()).height >= 24);
        assert.notEqual(await button.getAttribute('data-dir'), null);
      }
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), viewport.width);
    });
  }
});

test('each cell has a header, and each sign has a text', async () => {
  await withPage(server.url, {}, async (page) => {
    const { heads, cells, signs } = await page.evaluate(() => {
      const columns = (parent) => [...parent.children].filter((one) => !one.hidden).flatMap((one) => {
        const first = Number(one.getAttribute('aria-colindex'));
        return Array.from({ length: Number(one.getAttribute('aria-colspan') ?? 1) }, (_, i) => first + i);
      });
      return {
        heads: columns(document.getElementById('head')),
        cells: [...document.querySelectorAll('.row:not([hidden])')].map(columns),
        signs: [...document.querySelectorAll('.row:not(.group):not([hidden]) .c-sign')].map((one) => `${one.textContent} ${one.getAttribute('aria-label')}`),
      };
    });
    for (const columns of cells) assert.deepEqual(columns, heads);
    assert.equal(heads.length, 11);
    assert.ok(signs.includes('· quiet') && signs.every((sign) => ['· quiet', '▲ strained', '■ failing'].includes(sign)), signs.join());
  });
  await withPage(server.url, { viewport: PHONE }, async (page) => {
    // The sign of the state is not its only mark on a phone.
    assert.match(await page.locator('#mark').ariaSnapshot(), /live/);
  });
});

test('what is read with the arrow keys is announced', async () => {
  await withPage(server.url + detailHash('GET /load/0004'), {}, async (page) => {
    await page.locator('.figures tbody tr').nth(2).waitFor();
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    const announced = await page.locator('#announcement').innerText();
    assert.match(announced, /1 s before the newest: .* succeeded/);
    assert.equal(announced, await page.locator('#readout').innerText());
  });
});

test('Enter of an input method stays in the filter, and a held key acts once', async () => {
  await withPage(server.url, {}, async (page) => {
    await page.keyboard.press('/');
    const session = await page.context().newCDPSession(page);
    await session.send('Input.imeSetComposition', { text: '支払', selectionStart: 2, selectionEnd: 2 });
    await page.evaluate(() => byId('filter').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true })));
    assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
    await session.send('Input.insertText', { text: '支払' });
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'list');
    await page.evaluate("app.setFilter('')");
    await holdOrder(page);
    let streams = 0;
    page.on('request', (request) => { streams += Number(request.url().includes('/stream')); });
    for (const focused of ['list', 'pause']) {
      await page.locator(`#${focused}`).focus();
      for (let i = 0; i < 15; i++) await page.keyboard.down(focused === 'list' ? 'Space' : 'Enter');
      await page.keyboard.up(focused === 'list' ? 'Space' : 'Enter');
    }
    await sleep(300);
    assert.equal(streams, 1);
    // A held j moves on.
    await page.locator('#list').focus();
    await page.keyboard.press('g');
    for (let i = 0; i < 5; i++) await page.keyboard.down('j');
    await page.keyboard.up('j');
    assert.equal(await page.evaluate('app.table.entries.filter((entry) => entry.node).findIndex((entry) => entry.node.key === app.table.selected)'), 5);
  });
});

test('characters that reorder a text are shown as escapes, and texts do not reorder each other', async () => {
  const evil = 'pay\u202e10 05\u2066\u0000\ufeff\u200d', shown = 'pay\\u{202e}10 05\\u{2066}\\u{0}\\u{feff}\u200d';
  await withPage(server.url, {}, async (page) => {
    await page.evaluate((name) => {
      const row = (id) => [id, 900, 900, 0, 0, 0, 0, 1, 900, 1, 1, 1, 1, 1, 1, 1];
      app.accept({ type: 'second', t: app.store.newest, new: [[9001, name, null, 'in'], [9002, 'x', `${name} אבג`, 'in']], rows: [row(9001), row(9002)] });
      app.setFilter('');
      app.table.orderedAt = 0;
      app.render();
    }, evil);
    const row = page.locator('.row:not([hidden]) .name', { hasText: 'pay' });
    assert.deepEqual((await row.allTextContents()).sort(), [shown, `x ↳ ${shown} אבג`]);
    assert.equal(await row.first().getAttribute('title'), shown);
    assert.equal(await page.locator('.row:not([hidden]) .name bdi', { hasText: '↳' }).evaluate((one) => getComputedStyle(one).unicodeBidi), 'isolate');
    await page.evaluate((name) => app.go({ resource: name }, true), evil);
    assert.equal(await page.locator('.verdict h2').textContent(), shown);
    assert.equal(await page.locator('#detail').getAttribute('aria-label'), `Details of ${shown}`);
    // The stream of the details may bring the name of the server at any time.
    const title = await page.evaluate((name) => {
      app.store.hello.name = name;
      app.render();
      return document.title;
    }, evil);
    assert.ok(title.endsWith(`\u2068${shown}\u2069`), title);
  });
});
