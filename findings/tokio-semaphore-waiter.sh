#!/usr/bin/env bash
# tokio: a task that waits for 8 permits of a semaphore takes the 7 free ones away from all others
#
# Guess: a task that waits has no permit. With 8 permits of which one is held, `available_permits`
# is 7, and the permits in use are 8 less that number.
# Behaviour: a task that waits in `acquire_many(8)` keeps each permit that becomes free. So
# `available_permits` is 0 and `try_acquire` fails while one permit is in use, and `forget_permits`
# finds none to remove. If the task stops waiting, the seven return.
# Version: tokio 1.54.1.
# Here: a `ConcurrencyLimiter` counts what is in use, and never refuses a request while a permit is
# free. A gauge of requests in flight cannot be made of `available_permits`.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
tokio = { version = "=1.54.1", features = ["sync"] }
END

program() { cargo_program <<'END'; }
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use tokio::sync::Semaphore;

fn main() {
    let semaphore = Semaphore::new(8);
    let look = |what| {
        let (available, got) = (semaphore.available_permits(), semaphore.try_acquire().is_ok());
        println!("{what}: available {available}, try_acquire {}", if got { "succeeds" } else { "fails" });
    };
    let _one = semaphore.try_acquire().unwrap();
    look("one in use");
    {
        let mut all = pin!(semaphore.acquire_many(8));
        assert!(all.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        look("one in use, a task waits for 8");
        println!("forget_permits(2) removes {}", semaphore.forget_permits(2));
    }
    look("one in use, the task has left");
    println!("forget_permits(2) removes {}", semaphore.forget_permits(2));
}
END

expect program <<'END'
one in use: available 7, try_acquire succeeds
one in use, a task waits for 8: available 0, try_acquire fails
forget_permits(2) removes 0
one in use, the task has left: available 7, try_acquire succeeds
forget_permits(2) removes 2
END
