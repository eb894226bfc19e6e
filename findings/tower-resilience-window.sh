#!/usr/bin/env bash
# tower-resilience: a sliding window of 10 calls has all calls since the breaker closed
#
# Guess: with `sliding_window_size(10)` and a threshold of one half, 5 failures among the last 10
# calls open the breaker, as in resilience4j, and as the documentation says.
# Behaviour: no call leaves the window. A breaker that has seen 1,000 successes opens after 1,000
# failures in a row. The healthier a service was, the later its breaker opens.
# Version: tower-resilience-circuitbreaker 0.14.0.
# Here: a `CircuitBreaker` over the last calls forgets the oldest call with each new one
# (`src/count_window`).
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
tokio = { version = "=1.54.1", features = ["macros", "rt"] }
tower = { version = "=0.5.3", features = ["util"] }
tower-resilience-circuitbreaker = "=0.14.0"
END

program() { cargo_program <<'END'; }
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, CircuitState};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for successes in [0, 10, 100, 1_000] {
        let window = CircuitBreakerLayer::builder().sliding_window_size(10);
        let layer = window.failure_rate_threshold(0.5).build().unwrap();
        let backend = service_fn(|is_up: bool| async move { if is_up { Ok(()) } else { Err("down") } });
        let mut service = layer.layer(backend);
        for _call in 0..successes {
            service.ready().await.unwrap().call(true).await.unwrap();
        }
        let mut failures = 0;
        while service.state_sync() == CircuitState::Closed && failures < 10_000 {
            service.ready().await.unwrap().call(false).await.unwrap_err();
            failures += 1;
        }
        println!("after {successes} successes: open after {failures} failures in a row");
    }
}
END

expect program <<'END'
after 0 successes: open after 10 failures in a row
after 10 successes: open after 10 failures in a row
after 100 successes: open after 100 failures in a row
after 1000 successes: open after 1000 failures in a row
END
