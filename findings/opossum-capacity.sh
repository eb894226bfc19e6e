#!/usr/bin/env bash
# opossum: calls that the breaker itself refuses, above its capacity, open it
#
# Guess: `capacity: 10` refuses the calls above ten at once. They never reach the backend, so they
# say nothing about it, and the breaker stays closed.
# Behaviour: each refusal of the semaphore counts as a failure of the backend. A burst of 30 calls
# to a backend without an error opens the breaker, which then refuses the rest of the burst, and the
# calls after it.
# Version: opossum 10.0.0 (of npm).
# Here: a refusal of a limiter is no exception, so a circuit breaker beside a limiter does not count
# it.
. "$(dirname "$0")/lib.sh"

node_packages opossum@10.0.0

program() { node_program <<'END'; }
import CircuitBreaker from 'opossum'

let running = 0
let calls = 0
let finish
const finished = new Promise((resolve) => { finish = resolve })
const backend = async () => {
  calls += 1
  running += 1
  await finished
  running -= 1
}
const options = { capacity: 10, errorThresholdPercentage: 50, timeout: false }
const breaker = new CircuitBreaker(backend, options)

const burst = Array.from({ length: 30 }, () => breaker.fire())
const results = Promise.allSettled(burst)
console.log(`in flight: ${running}`)
finish()
const codes = {}
for (const { status, reason } of await results) {
  const code = status === 'fulfilled' ? 'success' : reason.code
  codes[code] = (codes[code] ?? 0) + 1
}
console.log('burst of 30:', codes)
const { failures, semaphoreRejections, rejects } = breaker.stats
console.log(`failures ${failures}, semaphoreRejections ${semaphoreRejections}, rejects ${rejects}`)
console.log(`in flight: ${running}, opened: ${breaker.opened}`)
await breaker.fire().catch(({ code }) => console.log(`one more call: ${code}`))
console.log(`calls of the backend: ${calls}, all successful`)
breaker.shutdown()
END

expect program <<'END'
in flight: 10
burst of 30: { success: 10, ESEMLOCKED: 11, EOPENBREAKER: 9 }
failures 11, semaphoreRejections 11, rejects 9
in flight: 0, opened: true
one more call: EOPENBREAKER
calls of the backend: 10, all successful
END
