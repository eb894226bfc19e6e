#!/usr/bin/env bash
# mollitia: a breaker with a window of a minute decides on the last 1,000 calls
#
# Guess: a `SlidingTimeBreaker` with a window of 60 s and a threshold of one half opens when half of
# the calls of the last 60 s have failed.
# Behaviour: it keeps the last 1,000 calls. At 1,000 calls a second, half a second of failures opens
# it, after half a minute without any. The busier a service is, the shorter is the window.
# Version: mollitia 0.1.1 (of npm).
# Here: the window of a `CircuitBreaker` has all calls of its interval, at any rate. A number of
# calls is a window of its own (`CircuitConfig::last_calls`).
. "$(dirname "$0")/lib.sh"

node_packages mollitia@0.1.1

program() { node_program <<'END'; }
import { mock } from 'node:test'
import * as mollitia from 'mollitia'

mock.timers.enable({ apis: ['Date'] })

for (const rate of [10, 100, 1_000]) {
  const breaker = new mollitia.SlidingTimeBreaker({
    slidingWindowSize: 60_000, minimumNumberOfCalls: 100, failureRateThreshold: 50
  })
  const circuit = new mollitia.Circuit({ options: { modules: [breaker] } })
  const succeed = () => Promise.resolve()
  const fail = () => Promise.reject(new Error('backend'))
  const call = (backend) => {
    mock.timers.tick(1_000 / rate)
    return circuit.fn(backend).execute().catch(() => {})
  }
  const successes = 30 * rate
  for (let number = 0; number < successes; number += 1) await call(succeed)
  let failures = 0
  while (breaker.state === 'closed') {
    await call(fail)
    failures += 1
  }
  const share = 100 * failures / (successes + failures)
  console.log(`${rate} a second: open after ${failures} failures, ${share.toFixed(1)} % of the calls`)
  breaker.dispose()
}
END

expect program <<'END'
10 a second: open after 300 failures, 50.0 % of the calls
100 a second: open after 500 failures, 14.3 % of the calls
1000 a second: open after 500 failures, 1.6 % of the calls
END
