#!/usr/bin/env bash
# failsafe: a breaker for a success rate of one half stays closed while 99 of 100 calls fail
#
# Guess: `success_rate_over_time_window` opens the breaker if fewer than the required share of the
# calls succeed. Later calls weigh more, as the documentation says, and each call counts.
# Behaviour: a call weighs as much as the time since the call before it, in whole milliseconds. Of
# the calls that end within one millisecond, the first one counts, and the others count nothing. If
# 100 calls end together, a success of the first keeps the breaker closed, and a failure opens it.
# At 10,000 calls a second, one in ten counts.
# Version: failsafe 1.3.0.
# Here: a `CircuitBreaker` and an `AdaptiveBreaker` count each outcome once, however many come in
# the same moment, and compare counts.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
failsafe = { version = "=1.3.0", default-features = false }
END

program() { cargo_program <<'END'; }
use failsafe::failure_policy::success_rate_over_time_window;
use failsafe::{CircuitBreaker, Config, backoff};
use std::thread;
use std::time::Duration;

/// Makes 100 calls in each fifth of a second, for 7 s, with a window of 5 s: all together, or one
/// each 2 ms. The first of the 100 ends in one way, and the others in the other.
fn state_after(first_succeeds: bool, are_together: bool) -> &'static str {
    let (window, wait) = (Duration::from_secs(5), backoff::constant(Duration::from_secs(60)));
    let policy = success_rate_over_time_window(0.5, 20, window, wait);
    let breaker = Config::new().failure_policy(policy).build();
    thread::sleep(Duration::from_millis(100));
    breaker.call(|| Ok::<_, ()>(())).unwrap();
    for call in 0..3_500 {
        let is_first = call % 100 == 0;
        if !are_together {
            thread::sleep(Duration::from_millis(2));
        } else if is_first {
            thread::sleep(Duration::from_millis(200));
        }
        let _ = breaker.call(|| if is_first == first_succeeds { Ok(()) } else { Err(()) });
    }
    if breaker.is_call_permitted() { "closed" } else { "open" }
}

fn main() {
    let cases = [(true, false), (false, false), (true, true), (false, true)];
    let states = cases.map(|(first, together)| thread::spawn(move || state_after(first, together)));
    for ((first_succeeds, are_together), state) in cases.into_iter().zip(states) {
        let end = if first_succeeds { "fail" } else { "succeed" };
        let when = if are_together { "together" } else { "one each 2 ms" };
        println!("99 of 100 calls {end}, {when}: {}", state.join().unwrap());
    }
}
END

expect program <<'END'
99 of 100 calls fail, one each 2 ms: open
99 of 100 calls succeed, one each 2 ms: closed
99 of 100 calls fail, together: closed
99 of 100 calls succeed, together: open
END
