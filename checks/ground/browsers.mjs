// How the requests of browsers end, as a service with leaparray-tower counts them, and whether the
// live page runs in them without an error. Prints rows of docs/COMPATIBILITY.md:
// `node browsers.mjs SERVICE NAME=PROGRAM...`, with the names `firefox` and `chrome`.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import puppeteer from 'puppeteer-core'

const [program, ...browsers] = process.argv.slice(2)
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
// An ending later than that is none.
const PATIENCE = 5000

const service = spawn(program)
const { value: address } = await createInterface({ input: service.stdout })[Symbol.asyncIterator]().next()
const origin = `http://${address}`

async function counts(path) {
  const lines = (await (await fetch(`${origin}/endings`)).text()).split('\n')
  return lines.find((line) => line.split(' ')[1] === path).split(' ').slice(2).map(Number)
}

async function until(path, condition, ms) {
  for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) {
    const now = await counts(path)
    if (condition(now)) return now
  }
}

// How the only request of an action ends. `leave` ends the client, if the action does not.
async function ending(browser, path, action, leave) {
  const page = await browser.newPage()
  await page.goto(`${origin}/done`)
  const before = await counts(path)
  await page.evaluate(action, path)
  if (!(await until(path, (now) => now.join() !== before.join(), 20_000))) return 'never came'
  if (leave) await page.close()
  const now = await until(path, (now) => now.slice(0, 3).join() !== before.slice(0, 3).join(), PATIENCE)
  if (!leave) await page.close()
  if (!now) return 'still in flight'
  return ['success', 'exception', 'cancelled'].find((_, kind) => now[kind] > before[kind])
}

// Each one returns at once: what it begins goes on in the page.
const endings = [
  ['/waits', (path) => void fetch(path), true],
  ['/waits', (path) => void fetch(path, { signal: AbortSignal.timeout(500) }).catch(() => {}), false],
  ['/stream', (path) => void fetch(path).then(async (response) => {
    const reader = response.body.getReader()
    await reader.read()
    await reader.cancel()
  }), false],
  ['/stream', (path) => void fetch(path), false],
]

async function livePage(browser) {
  const page = await browser.newPage()
  const errors = []
  page.on('pageerror', (error) => errors.push(error.message))
  await page.goto(`${origin}/leaparray`)
  for (const end = Date.now() + 20_000; Date.now() < end && !errors.length; await sleep(200)) {
    await (await fetch(`${origin}/done`)).text()
    const text = await page.evaluate(() => document.body.innerText)
    if (text.includes('The page is live') && text.includes('GET /done')) {
      await page.close()
      return 'live'
    }
  }
  return errors.join('; ') || 'not live'
}

try {
  for (const [name, executablePath] of browsers.map((it) => it.split('='))) {
    const args = name === 'chrome' ? ['--no-sandbox'] : []
    const browser = await puppeteer.launch({ browser: name, executablePath, args, defaultViewport: null })
    try {
      const cells = []
      for (const it of endings) cells.push(await ending(browser, ...it))
      console.log(`| ${[await browser.version(), ...cells, await livePage(browser)].join(' | ')} |`)
    } finally {
      await browser.close()
    }
  }
} finally {
  service.kill()
}
