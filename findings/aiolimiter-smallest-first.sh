#!/usr/bin/env bash
# aiolimiter: a task that waits for 5 permits is overtaken by all later tasks that want one
#
# Guess: tasks that wait are served in the order in which they came. At one permit a second, a task
# that wants 5 has them after 5 s.
# Behaviour: the tasks wait in a heap that is ordered by the amount, and by time only among equals.
# While a task with a smaller amount comes each second, the larger one is not served. It waits
# for the two minutes of the others, and 5 s more.
# Version: aiolimiter 1.3.0 (of PyPI).
# Here: a `WaitQueue` serves requests in the order of their arrival. One for many permits gets its
# turn beside any number of requests for few.
. "$(dirname "$0")/lib.sh"

python_packages aiolimiter==1.3.0

program() { python_program <<'END'; }
import asyncio
from aiolimiter import AsyncLimiter

class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose time advances by a millisecond each time that it is idle."""

    now = 0.0

    def __init__(self):
        super().__init__()
        select = self._selector.select
        def look(timeout):
            self.now += 0.001 if timeout else 0
            return select(0)
        self._selector.select = look

    def time(self):
        return self.now

async def main():
    loop = asyncio.get_running_loop()
    limiter = AsyncLimiter(10, time_period=10)
    await limiter.acquire(10)

    async def acquire(amount):
        await limiter.acquire(amount)
        return round(loop.time())

    start = round(loop.time())
    large = asyncio.create_task(acquire(5))
    small = []
    for _second in range(120):
        small.append(asyncio.create_task(acquire(1)))
        await asyncio.sleep(1)
    served = [await task - start for task in small]
    waits = [end - begin for begin, end in enumerate(served)]
    print("longest wait of 120 tasks that want one:", max(waits), "s")
    print("wait of the task that came before them and wants 5:", await large - start, "s")

with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
    runner.run(main())
END

expect program <<'END'
longest wait of 120 tasks that want one: 1 s
wait of the task that came before them and wants 5: 125 s
END
