// The scripts are modules, which the server puts together as one: see `document.rs`.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { parse } from 'acorn';
import { analyze } from 'eslint-scope';
import { isLive, launch, openAddress, startServer, waitFor, withToken } from './harness.mjs';

const FOLDER = new URL('../../page/', import.meta.url);

let browser;
/** The modules by their names: the text, the names of the top level, those that are imported, and those that are free. */
const modules = new Map();

before(async () => {
  browser = await launch();
  for (const name of (await readdir(FOLDER)).filter((file) => file.endsWith('.js'))) {
    const text = await readFile(new URL(name, FOLDER), 'utf8');
    const settings = { ecmaVersion: 2024, sourceType: 'module', ranges: true };
    const program = parse(text, settings);
    const { globalScope, scopes } = analyze(program, settings);
    const { variables } = scopes.find(({ type }) => type === 'module');
    const isImport = ({ defs: [{ type }] }) => type === 'ImportBinding';
    modules.set(name, {
      text,
      own: variables.filter((variable) => !isImport(variable)).map((variable) => variable.name),
      imports: program.body.filter(({ type }) => type === 'ImportDeclaration').map(({ source }) => source.value.replace('./', '')),
      unused: variables.filter((variable) => isImport(variable) && variable.references.length === 0).map((variable) => variable.name),
      free: new Set(globalScope.through.map(({ identifier }) => identifier.name)),
    });
  }
});

after(() => browser?.close());

test('no two modules have a name in common, and none uses a name of another without an import', () => {
  const owners = new Map();
  for (const [module, { own }] of modules) {
    for (const name of own) {
      assert.equal(owners.get(name), undefined, `${name} of ${module}`);
      owners.set(name, module);
    }
  }
  for (const [module, { free, unused }] of modules) {
    assert.deepEqual([...free].filter((name) => owners.has(name)), [], `${module} does not import what it uses`);
    assert.deepEqual(unused, [], `${module} does not use what it imports`);
  }
});

test('imports have no circle', () => {
  const left = new Set(modules.keys());
  for (let size = 0; size !== left.size;) {
    size = left.size;
    for (const module of left) if (!modules.get(module).imports.some((name) => left.has(name))) left.delete(module);
  }
  assert.deepEqual([...left], []);
});

test('a browser runs the modules as they are', async () => {
  const server = await startServer('incident', { resources: 5 });
  const context = await browser.newContext();
  const numbers = (await (await fetch(server.url)).text()).match(/JSON\.parse\('(.*?)'\)/)[1];
  await context.route(/\/(modules\/.*)?(\?.*)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice('/modules/'.length);
    if (name !== '') return route.fulfill({ contentType: 'text/javascript', body: modules.get(name).text.replace('/*RULE*/', numbers) });
    const html = await (await route.fetch()).text();
    return route.fulfill({ contentType: 'text/html', body: html.replace(/<script>[^]*<\/script>/, '<script type="module" src="modules/main.js"></script>') });
  });
  const page = await openAddress(context, withToken(server.url));
  await isLive(page);
  assert.equal(await page.evaluate('typeof app'), 'undefined', 'a module has names of its own');
  await page.locator('#list').focus();
  for (const key of ['o', 'o', 's', 's', 't', 't', 't', 'j', 'Enter']) await page.keyboard.press(key);
  await page.locator('.figures tbody tr').nth(2).waitFor();
  for (const key of ['ArrowLeft', 'p', 'c']) await page.keyboard.press(key);
  await page.locator('#changes li').first().waitFor();
  const download = page.waitForEvent('download');
  await page.locator('#save').click();
  await page.locator('#save-menu').getByRole('button', { name: 'CSV', exact: true }).click();
  await download;
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await waitFor(async () => /orders-api$/.test(await page.title()));
  assert.deepEqual(page.complaints, []);
  await context.close();
  await server.stop();
});
