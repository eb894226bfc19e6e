#!/usr/bin/env bash
# circuitbreaker: a slow call that began before the breaker opened closes it when it succeeds
#
# Guess: an open breaker lets nothing pass for its recovery timeout of 30 s. Then it is half open,
# and the next call decides.
# Behaviour: each success closes the breaker and clears its failures, whatever the state is and
# whenever the call began. With a few slow successes in flight, an open breaker closes again within
# moments. A late failure does the opposite: it starts the 30 s anew.
# Version: circuitbreaker 2.1.3 (of PyPI).
# Here: a completion counts only in the state of the `CircuitBreaker` in which its request was
# admitted. One that comes later changes neither an open breaker nor a half-open one.
. "$(dirname "$0")/lib.sh"

python_packages circuitbreaker==2.1.3

program() { python_program <<'END'; }
import asyncio
import circuitbreaker

now = 0
circuitbreaker.monotonic = lambda: now

async def main():
    global now
    breaker = circuitbreaker.CircuitBreaker(failure_threshold=3, recovery_timeout=30)

    @breaker
    async def call(result):
        if await result:
            raise OSError

    def print_state(what):
        print(f"{now:2} s, {what}: {breaker.state}, {max(breaker.open_remaining, 0)} s remain")

    loop = asyncio.get_running_loop()
    fails, succeeds = loop.create_future(), loop.create_future()
    slow = [asyncio.create_task(call(result)) for result in (fails, succeeds)]
    await asyncio.sleep(0)
    failed = loop.create_future()
    failed.set_result(True)
    await asyncio.gather(*(call(failed) for _ in range(3)), return_exceptions=True)
    print_state("after three failures")
    now = 20
    fails.set_result(True)
    await asyncio.gather(slow[0], return_exceptions=True)
    print_state("a call of 0 s fails")
    now = 21
    succeeds.set_result(False)
    await slow[1]
    print_state("a call of 0 s succeeds")

asyncio.run(main())
END

expect program <<'END'
 0 s, after three failures: open, 30 s remain
20 s, a call of 0 s fails: open, 30 s remain
21 s, a call of 0 s succeeds: closed, 29 s remain
END
