#!/usr/bin/env bash
# pyrate-limiter: while a task waits for one key, no other key is answered, even without waiting
#
# Guess: keys with buckets of their own are independent: a task that waits for the bucket of one key
# delays no other key, and a request with `blocking=False` is answered at once.
# Behaviour: `try_acquire_async` takes one lock for all keys of the limiter, and holds it while it
# waits. So the requests of all other keys wait for that lock, also those with `blocking=False` or a
# time-out of 0, and are then admitted. `try_acquire` of the same limiter answers at once.
# Version: pyrate-limiter 4.5.1 (of PyPI).
# Here: a `Keyed` limiter locks the shard of a key while it decides, and not while a request waits.
# A `WaitQueue` is of one key (`Keyed::of_key`), and a request that must not wait asks the limiter
# itself.
. "$(dirname "$0")/lib.sh"

python_packages pyrate-limiter==4.5.1

program() { python_program <<'END'; }
import asyncio
from pyrate_limiter import BucketFactory, InMemoryBucket, Limiter, MonotonicClock, Rate, RateItem

class BucketOfEachKey(BucketFactory):
    def __init__(self):
        self.clock, self.buckets = MonotonicClock(), {}

    def wrap_item(self, name, weight=1):
        return RateItem(name, self.clock.now(), weight=weight)

    def get(self, item):
        if item.name not in self.buckets:
            self.buckets[item.name] = self.create(InMemoryBucket, [Rate(1, 5_000)])
        return self.buckets[item.name]

async def main():
    limiter = Limiter(BucketOfEachKey())
    ended = []

    async def ask(key, **how):
        is_admitted = await limiter.try_acquire_async(key, **how)
        ended.append(f"{key} {how}: {is_admitted}")

    await ask("ann")
    tasks = [asyncio.create_task(ask("ann"))]
    await asyncio.sleep(0.1)
    tasks.append(asyncio.create_task(ask("bob", blocking=False)))
    tasks.append(asyncio.create_task(ask("carol", timeout=0)))
    await asyncio.sleep(1)
    print("after a second:", *ended, sep="\n  ")
    print("dave by try_acquire:", limiter.try_acquire("dave", blocking=False))
    ended.clear()
    await asyncio.gather(*tasks)
    print("after the wait of ann:", *ended, sep="\n  ")
    limiter.close()

asyncio.run(main())
END

expect program <<'END'
after a second:
  ann {}: True
dave by try_acquire: True
after the wait of ann:
  ann {}: True
  bob {'blocking': False}: True
  carol {'timeout': 0}: True
END
