#!/usr/bin/env bash
# quanta: once its upkeep thread has ended, the recent time stands still, for ever
#
# Guess: `Instant::recent` is a cheap, older `now`. Without an upkeep thread, it is as exact as `now`,
# so a process that stops the thread is as one that never had it.
# Behaviour: before the first upkeep, `recent` reads the clock. The first upkeep writes a global
# value, which `recent` returns from then on, also after the handle was dropped and the thread has
# ended. Each duration that is measured by it is 0, and it never is later than an instant of `now`.
# Version: quanta 0.13.0.
# Here: `MonotonicClock` reads the counter by `raw`, and never the recent time. With a clock that
# stands still, no window moves on, and a limiter that has refused refuses for ever.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
quanta = "=0.13.0"
END

program() { cargo_program <<'END'; }
use quanta::{Instant, Upkeep};
use std::thread::sleep;
use std::time::Duration;

/// Whether the recent time is later within 30 s.
fn goes_on() -> bool {
    let start = Instant::recent();
    (0..300).any(|_| {
        sleep(Duration::from_millis(100));
        Instant::recent() > start
    })
}

fn main() {
    println!("before the upkeep, it goes on: {}", goes_on());
    let upkeep = Upkeep::new(Duration::from_millis(1)).start().unwrap();
    println!("with an upkeep, it goes on: {}", goes_on());
    drop(upkeep);
    println!("after the upkeep, it goes on: {}", goes_on());
    println!("it is 30 s late: {}", Instant::recent().elapsed() >= Duration::from_secs(30));
}
END

expect program <<'END'
before the upkeep, it goes on: true
with an upkeep, it goes on: true
after the upkeep, it goes on: false
it is 30 s late: true
END
