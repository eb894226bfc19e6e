#!/usr/bin/env bash
# pybreaker: a closed breaker that threads share sends their calls one after another
#
# Guess: a breaker takes a lock to look at its state and to change it. While it is closed, calls of
# several threads are in flight together.
# Behaviour: the lock is held until the call has ended. Eight threads with calls of 100 ms need
# 800 ms, and the backend never sees two calls at once. A call that hangs holds all others back,
# so an overloaded backend gets the breaker's queue as well.
# Version: pybreaker 1.4.1 (of PyPI).
# Here: no lock of a breaker or limiter is held while a request is in flight. A comparison of
# breakers by their throughput measures the lock.
. "$(dirname "$0")/lib.sh"

python_packages pybreaker==1.4.1

program() { python_program <<'END'; }
import contextlib
import threading
import pybreaker

def most_in_flight(call):
    """How many of eight calls are in flight at once, each of which waits for the others."""
    lock, together, count, most = threading.Lock(), threading.Event(), 0, 0

    def backend():
        nonlocal count, most
        with lock:
            count += 1
            most = max(most, count)
            if count == 8:
                together.set()
        together.wait(0.5)
        with lock:
            count -= 1

    threads = [threading.Thread(target=call, args=(backend,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return most

print("without a breaker:", most_in_flight(lambda backend: backend()), "in flight")
breaker = pybreaker.CircuitBreaker()
print("with a breaker:", most_in_flight(breaker.call), "in flight,", breaker.current_state)
END

expect program <<'END'
without a breaker: 8 in flight
with a breaker: 1 in flight, closed
END
