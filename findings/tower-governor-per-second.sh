#!/usr/bin/env bash
# tower_governor: `per_second(100)` admits one request in 100 seconds
#
# Guess: `per_second(100)` admits 100 requests a second, as `Quota::per_second(100)` of governor
# does, the crate that tower_governor is made of.
# Behaviour: the argument is a number of seconds. A permit comes back every 100 s.
# Versions: tower_governor 0.8.0, governor 0.10 below it, axum 0.8.9.
# Here: a quota of tower_governor is moved by its period. `per_second(n)` is one permit in n
# seconds.
. "$(dirname "$0")/lib.sh"

cargo_dependencies <<'END'
axum = { version = "=0.8.9", default-features = false }
governor = { version = "=0.10.4", default-features = false, features = ["std"] }
tokio = { version = "=1.54.1", features = ["macros", "rt"] }
tower = { version = "=0.5.3", features = ["util"] }
tower_governor = { version = "=0.8.0", default-features = false, features = ["axum"] }
END

program() { cargo_program <<'END'; }
use axum::{Router, body::Body, http::Request, routing::get};
use governor::Quota;
use std::num::NonZeroU32;
use tower::ServiceExt;
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder, key_extractor::GlobalKeyExtractor};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let quota = Quota::per_second(NonZeroU32::new(100).unwrap());
    println!("governor: a permit each {:?}", quota.replenish_interval());

    let mut builder = GovernorConfigBuilder::default().key_extractor(GlobalKeyExtractor);
    let config = builder.per_second(100).burst_size(1).finish().unwrap();
    let app = Router::new().route("/", get(async || "done")).layer(GovernorLayer::new(config));
    let app = app.with_state(());
    for _request in 0..2 {
        let request = Request::get("/").body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let wait = response.headers().get("retry-after").map(|it| it.to_str().unwrap().parse().unwrap());
        let wait = wait.map(|seconds: u32| if seconds >= 90 { "in more than 90 s" } else { "soon" });
        println!("tower_governor: {}, again {}", response.status(), wait.unwrap_or("at once"));
    }
}
END

expect program <<'END'
governor: a permit each 10ms
tower_governor: 200 OK, again at once
tower_governor: 429 Too Many Requests, again in more than 90 s
END
