//! `Headroom` beside calls whose response times do not depend on the limit alone.

use std::collections::BTreeMap;

use leaparray::flow::adaptive::Headroom;
use leaparray::flow::{FeedbackPermit, LimiterExt};

use super::{Scene, millis, range};

/// A backend without a queue. Some clients give up after a time that is longer than most calls,
/// whatever the limit is.
#[test]
fn clients_that_always_give_up_do_not_lower_the_limit() {
    for share in [0.0, 0.25, 0.4] {
        let scene = Scene::new(Headroom::default());
        let mut random = fastrand::Rng::with_seed(3);
        let mut ends = BTreeMap::<u64, Vec<_>>::new();
        let mut refused = 0;
        for now in 0..60_000 {
            for _ in 0..5 {
                let Ok(call) = scene.limiter.try_acquire().at_once() else {
                    refused += 1;
                    continue;
                };
                let gives_up = random.f64() < share;
                let end = now + if gives_up { 50 } else { 10 };
                ends.entry(end).or_default().push((call, gives_up));
            }
            scene.clock.advance(millis(1));
            for (call, gives_up) in ends.remove(&(now + 1)).into_iter().flatten() {
                if gives_up { call.cancel() } else { call.accept() }
            }
        }
        assert!(refused * 20 < 300_000, "{share}: {refused} of 300,000 refused");
    }
}

/// Few calls at a time, each longer than an epoch, and a limit that is always reached.
#[test]
fn low_limit_of_long_calls_grows() {
    for (least, first, service) in [(1, 4, 1_000), (4, 8, 2_000)] {
        let scene = Scene::new(Headroom::new(range(least, first, 1_000)));
        let mut ends = BTreeMap::<u64, Vec<_>>::new();
        let mut highest = 0;
        for now in 0..240_000 {
            while let Ok(call) = scene.limiter.try_acquire().at_once() {
                ends.entry(now + service).or_default().push(call);
            }
            scene.clock.advance(millis(1));
            let ended = ends.remove(&(now + 1)).into_iter().flatten();
            ended.for_each(FeedbackPermit::accept);
            highest = highest.max(scene.limiter.limit());
        }
        assert!(highest > first, "{first} calls of {service} ms");
        ends.into_values().flatten().for_each(FeedbackPermit::cancel);
    }
}
