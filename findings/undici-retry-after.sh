#!/usr/bin/env bash
# undici: an agent that honours `Retry-After` comes again after 30 s, though the header says 60 s
#
# Guess: `RetryAgent` waits as long as the server says, or gives up.
# Behaviour: `maxTimeout`, which bounds its exponential waits to 30 s, also bounds `Retry-After`. So
# its retries come before the time that the server has named, and are refused again: all six
# requests of a call are sent within the first three minutes of an hour. A date in the header is
# treated in the same way.
# Version: undici 7.30.2 (of npm). 8.13.1, which needs Node.js 22, does the same.
# Here: a request that comes before its `Retry-After` is no error of the limiter or of its clock. A
# `Spread` of retries over more than 30 s does not spread those of this client.
. "$(dirname "$0")/lib.sh"

node_packages undici@7.30.2

program() { node_program <<'END'; }
import http from 'node:http'
import { Agent, RetryAgent } from 'undici'

let requests = 0
const server = http.createServer((request, response) => {
  requests += 1
  const after = request.url.slice(1)
  const header = after === 'date' ? new Date(Date.now() + 3_600_000).toUTCString() : after
  response.writeHead(429, { 'retry-after': header }).end()
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

// Timers of 5 to 100 s, which no other part of the client has, run at once. Their time is noted.
const waits = []
const real = globalThis.setTimeout
globalThis.setTimeout = (callback, delay, ...args) => {
  if (delay < 5_000 || delay > 100_000) return real(callback, delay, ...args)
  waits.push(delay / 1_000)
  return real(callback, 0, ...args)
}
for (const after of ['10', '60', '3600', 'date']) {
  requests = 0
  waits.length = 0
  const dispatcher = new RetryAgent(new Agent())
  const origin = `http://127.0.0.1:${server.address().port}`
  const outcome = await dispatcher.request({ origin, path: `/${after}`, method: 'GET' })
    .then(({ statusCode }) => statusCode, ({ message }) => message)
  console.log(`Retry-After: ${after}: ${requests} requests, waits ${waits.join(', ')} s: ${outcome}`)
  await dispatcher.close()
}
server.close()
END

expect program <<'END'
Retry-After: 10: 6 requests, waits 10, 10, 10, 10, 10 s: Request failed
Retry-After: 60: 6 requests, waits 30, 30, 30, 30, 30 s: Request failed
Retry-After: 3600: 6 requests, waits 30, 30, 30, 30, 30 s: Request failed
Retry-After: date: 6 requests, waits 30, 30, 30, 30, 30 s: Request failed
END
