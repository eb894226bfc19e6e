#!/usr/bin/env bash
# "10 requests a second" of governor and of tower admit 19 requests within a second
#
# Guess: a limit of 10 a second admits at most 10 in any second.
# Behaviour: governor's quota is a rate with a burst of the same size. After an idle time it admits
# 10 at once, and 9 more until 0.9 s later. Its interval between two permits is in whole
# nanoseconds, rounded down, so a high rate is higher than the one that was asked for. tower's rate
# limit counts in a window that begins with a request: 9 requests at the end of a window and 10 at
# the beginning of the next one are 19 in 10 ms.
# Versions: governor 0.10.4, tower 0.5.3.
# Here: `SlidingWindowLimiter` admits at most its limit in any window, and a `Rate` does not drift.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
governor = { version = "=0.10.4", default-features = false, features = ["std"] }
tokio = { version = "=1.54.1", features = ["rt", "test-util", "time"] }
tower = { version = "=0.5.3", features = ["limit", "util"] }
END

program() { cargo_program <<'END'; }
use governor::{Quota, RateLimiter, clock::FakeRelativeClock};
use std::{convert::Infallible, num::NonZeroU32, time::Duration};
use tower::{Service, ServiceExt, limit::RateLimit, limit::rate::Rate, service_fn};

fn main() {
    let clock = FakeRelativeClock::default();
    let quota = |permits| Quota::per_second(NonZeroU32::new(permits).unwrap());
    let limiter = RateLimiter::direct_with_clock(quota(10), clock.clone());
    let mut admitted = 0;
    for _millis in 0..901 {
        while limiter.check().is_ok() {
            admitted += 1;
        }
        clock.advance(Duration::from_millis(1));
    }
    println!("governor, 10 a second: {admitted} admitted in 0.9 s");
    for permits in [10, 600_000, 7_000_000] {
        let real = 1e9 / quota(permits).replenish_interval().as_nanos() as f64;
        println!("governor, {permits} a second: a rate of {real:.0} a second");
    }

    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let admitted = runtime.unwrap().block_on(async {
        let inner = service_fn(|()| async { Ok::<_, Infallible>(()) });
        let mut limited = RateLimit::new(inner, Rate::new(10, Duration::from_secs(1)));
        limited.ready().await.unwrap().call(()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(990)).await;
        let (start, mut admitted) = (tokio::time::Instant::now(), 0);
        while limited.ready().await.is_ok() && start.elapsed() <= Duration::from_millis(10) {
            limited.call(()).await.unwrap();
            admitted += 1;
        }
        admitted
    });
    println!("tower, 10 a second: {admitted} admitted in 10 ms");
}
END

expect program <<'END'
governor, 10 a second: 19 admitted in 0.9 s
governor, 10 a second: a rate of 10 a second
governor, 600000 a second: a rate of 600240 a second
governor, 7000000 a second: a rate of 7042254 a second
tower, 10 a second: 19 admitted in 10 ms
END
