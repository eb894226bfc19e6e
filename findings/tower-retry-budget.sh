#!/usr/bin/env bash
# tower's retry budget of 70 % lets every request be retried
#
# Guess: `TpsBudget::new(ttl, 0, 0.7)` allows 7 retries for 10 requests.
# Behaviour: the price of a retry is a whole number of deposits, 1 / 0.7 rounded down to 1. So a
# share above a half is one, 0.4 is a half, and 0.3 is a third. The minimum a second is no rate
# either: that of the whole time to live may be used at once.
# Version: tower 0.5.3.
# Here: what a budget of retries allows is compared with the exact share.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
tokio = { version = "=1.54.1", features = ["rt", "test-util", "time"] }
tower = { version = "=0.5.3", features = ["retry"] }
END

program() { cargo_program <<'END'; }
use std::time::Duration;
use tower::retry::budget::{Budget, TpsBudget};

const TIME_TO_LIVE: Duration = Duration::from_secs(10);

fn allowed(budget: &TpsBudget) -> usize {
    (0..100_000).take_while(|_| budget.withdraw()).count()
}

async fn print() {
    for share in [0.2, 0.3, 0.4, 0.6, 0.7, 0.99, 1.5] {
        let budget = TpsBudget::new(TIME_TO_LIVE, 0, share);
        (0..1_000).for_each(|_| budget.deposit());
        println!("{share} of 1000 requests: {} retries", allowed(&budget));
    }
    let budget = TpsBudget::new(TIME_TO_LIVE, 10, 0.2);
    println!("at least 10 a second, without a request: {} retries at once", allowed(&budget));
    tokio::time::advance(Duration::from_secs(9)).await;
    println!("9 s later: {} retries", allowed(&budget));
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(print());
}
END

expect program <<'END'
0.2 of 1000 requests: 200 retries
0.3 of 1000 requests: 333 retries
0.4 of 1000 requests: 500 retries
0.6 of 1000 requests: 1000 retries
0.7 of 1000 requests: 1000 retries
0.99 of 1000 requests: 1000 retries
1.5 of 1000 requests: 1501 retries
at least 10 a second, without a request: 100 retries at once
9 s later: 0 retries
END
