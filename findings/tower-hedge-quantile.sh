#!/usr/bin/env bash
# tower's hedge after the quantile 0.9 hedges a fifth of the requests
#
# Guess: a hedge that is sent after the quantile 0.9 of the response times is sent for one request
# in ten.
# Behaviour: if the hedge is first, the original is dropped, and its response time is never
# recorded; that of the hedge counts from the start of the hedge. So the slow tenth leaves the
# histogram, and the quantile of the next period is lower.
# Version: tower 0.5.3.
# Here: a quantile from which hedges start needs the times of requests that were overtaken.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
tokio = { version = "=1.54.1", features = ["rt", "test-util", "time"] }
tower = { version = "=0.5.3", features = ["hedge", "util"] }
END

program() { cargo_program <<'END'; }
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tower::{Service, ServiceExt, hedge::Hedge, hedge::Policy, service_fn};

#[derive(Clone)]
struct Always;

impl Policy<()> for Always {
    fn clone_request(&self, _: &()) -> Option<()> {
        Some(())
    }
    fn can_retry(&self, _: &()) -> bool {
        true
    }
}

async fn print() {
    let (calls, seed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(1u64)));
    let counted = Rc::clone(&calls);
    // Of ten calls, eight take 10 ms, and two take 100 to 1,000 ms.
    let backend = service_fn(move |()| {
        counted.set(counted.get() + 1);
        seed.set(seed.get() * 48_271 % 2_147_483_647);
        let draw = seed.get() % 1_000;
        let millis = if draw < 800 { 10 } else { 100 + (draw - 800) * 9 / 2 };
        async move {
            sleep(Duration::from_millis(millis)).await;
            Ok::<_, Infallible>(())
        }
    });
    let mut hedged = Hedge::new(backend, Always, 100, 0.9, Duration::from_secs(60));
    let start = Instant::now();
    for minute in 1..=8 {
        let (before, mut requests) = (calls.get(), 0);
        while start.elapsed() < Duration::from_secs(60 * minute) {
            hedged.ready().await.unwrap().call(()).await.unwrap();
            requests += 1;
        }
        let hedges = calls.get() - before - requests;
        println!("minute {minute}: {} % of the requests were hedged", 100 * hedges / requests);
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(print());
}
END

expect program <<'END'
minute 1: 0 % of the requests were hedged
minute 2: 8 % of the requests were hedged
minute 3: 19 % of the requests were hedged
minute 4: 19 % of the requests were hedged
minute 5: 19 % of the requests were hedged
minute 6: 22 % of the requests were hedged
minute 7: 20 % of the requests were hedged
minute 8: 20 % of the requests were hedged
END
