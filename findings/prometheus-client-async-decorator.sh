#!/usr/bin/env bash
# prometheus_client: a decorated `async` function is measured before it runs
#
# Guess: `@histogram.time()`, `@gauge.track_inprogress()` and `@counter.count_exceptions()` measure a
# call of the function. The gauge has the calls in progress, the histogram their times, and the
# counter those that fail.
# Behaviour: a decorator measures the call that makes the coroutine, and that returns at once. While
# three calls wait, the gauge is 0 and the histogram has all three, each as a few microseconds. The
# call that fails is not counted. As context managers inside of the function, the same three measure
# what was meant.
# Version: prometheus_client 0.26.0 (of PyPI).
# Here: an entry is a value that ends when the call does. The middleware holds it in the future and
# then in the body of the response, so a call is in flight until its last frame, also if it fails.
. "$(dirname "$0")/lib.sh"

python_packages prometheus_client==0.26.0

program() { python_program <<'END'; }
import asyncio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

class Metrics:
    def __init__(self):
        self.registry = CollectorRegistry()
        self.calls = Gauge("calls", "In progress.", registry=self.registry)
        self.times = Histogram("times", "Of calls.", buckets=[0.1], registry=self.registry)
        self.failed = Counter("failed", "Calls.", registry=self.registry)

    def show(self, when):
        value = self.registry.get_sample_value
        short = value("times_bucket", {"le": "0.1"})
        print(f"  {when}: {value('calls'):.0f} in progress, {value('times_count'):.0f} measured, "
              f"{short:.0f} of them as below 0.1 s, {value('failed_total'):.0f} failed")

async def run(name, answer, metrics):
    print(name)
    gate = asyncio.Event()
    calls = [asyncio.create_task(answer(gate, number)) for number in range(3)]
    await asyncio.sleep(0.5)
    metrics.show("while three calls wait")
    gate.set()
    await asyncio.gather(*calls, return_exceptions=True)
    metrics.show("after one has failed")

async def work(gate, number):
    await gate.wait()
    if number == 0:
        raise ValueError

async def main():
    metrics = Metrics()

    @metrics.failed.count_exceptions()
    @metrics.times.time()
    @metrics.calls.track_inprogress()
    async def decorated(gate, number):
        await work(gate, number)

    await run("decorators", decorated, metrics)

    metrics_within = Metrics()

    async def within(gate, number):
        it = metrics_within
        with it.failed.count_exceptions(), it.times.time(), it.calls.track_inprogress():
            await work(gate, number)

    await run("context managers", within, metrics_within)

asyncio.run(main())
END

expect program <<'END'
decorators
  while three calls wait: 0 in progress, 3 measured, 3 of them as below 0.1 s, 0 failed
  after one has failed: 0 in progress, 3 measured, 3 of them as below 0.1 s, 0 failed
context managers
  while three calls wait: 3 in progress, 0 measured, 0 of them as below 0.1 s, 0 failed
  after one has failed: 0 in progress, 3 measured, 0 of them as below 0.1 s, 1 failed
END
