#!/usr/bin/env bash
# cockatiel: a half-open breaker holds calls back, and then sends all of them at once
#
# Guess: while the one probe of a half-open breaker is in flight, other calls are refused with
# `BrokenCircuitError`, as by an open one.
# Behaviour: they wait for the end of the probe, without a bound of number or time. If the probe
# succeeds, all are sent in the same moment, to a backend that has just answered its first call.
# If it fails, all are refused then.
# Version: cockatiel 3.2.1 (of npm). 4.0.0, which needs Node.js 22, does the same.
# Here: a half-open `CircuitBreaker` admits its probes, and refuses all other requests at once.
. "$(dirname "$0")/lib.sh"

node_packages cockatiel@3.2.1

program() { node_program <<'END'; }
import { mock } from 'node:test'
import cockatiel from 'cockatiel'

mock.timers.enable({ apis: ['Date'] })
const { ConsecutiveBreaker, circuitBreaker, handleAll } = cockatiel
const turn = () => new Promise((resolve) => setImmediate(resolve))

for (const isProbeGood of [true, false]) {
  const breaker = circuitBreaker(handleAll, { halfOpenAfter: 1_000, breaker: new ConsecutiveBreaker(2) })
  const fail = () => Promise.reject(new Error('backend'))
  for (let failure = 0; failure < 2; failure += 1) await breaker.execute(fail).catch(() => {})
  mock.timers.tick(1_000)

  let inFlight = 0
  const ends = []
  const call = () => new Promise((resolve, reject) => {
    inFlight += 1
    ends.push((isGood) => {
      inFlight -= 1
      isGood ? resolve() : reject(new Error('backend'))
    })
  })
  let settled = 0
  const calls = Array.from({ length: 1_000 }, () => breaker.execute(call).finally(() => { settled += 1 }))
  const results = Promise.allSettled(calls)
  await turn()
  console.log(`during the probe: ${inFlight} in flight, ${1_000 - inFlight - settled} wait, ${settled} ended`)
  ends.shift()(isProbeGood)
  await turn()
  console.log(`after a ${isProbeGood ? 'success' : 'failure'}: ${inFlight} in flight, ${settled} ended`)
  ends.forEach((end) => end(true))
  const refused = (await results).filter(({ reason }) => reason?.isBrokenCircuitError).length
  console.log(`refused: ${refused}`)
}
END

expect program <<'END'
during the probe: 1 in flight, 999 wait, 0 ended
after a success: 999 in flight, 1 ended
refused: 0
during the probe: 1 in flight, 999 wait, 0 ended
after a failure: 0 in flight, 1000 ended
refused: 999
END
