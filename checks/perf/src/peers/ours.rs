//! This crate, measured as its peers are: by its own clock.

use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::time::CachedClock;
use leaparray::{Clock, MonotonicClock, SlidingWindow};

use super::Peer;
use crate::harness::Suite;
use crate::scenarios::{BUCKET_LEN, RT, config};

/// 2 × 500 ms; a rate is exact and current.
pub(super) const PRECISE: Peer = Peer { name: "leaparray, precise clock" };
/// The same, with a clock that is updated every millisecond.
pub(super) const CACHED: Peer = Peer { name: "leaparray, cached clock" };

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    add_one(suite, &PRECISE, clock);
    let cached = CachedClock::start(clock.clone(), Duration::from_millis(1));
    add_one(suite, &CACHED, &cached.expect("the thread starts"));
}

fn add_one<C>(suite: &mut Suite, peer: &Peer, clock: &C)
where
    C: Clock + Clone + Sync + 'static,
{
    peer.add_window(
        suite,
        || SlidingWindow::with_clock(config(2, BUCKET_LEN), clock.clone()),
        |window| window.add(Pass, 1),
        |window| window.record_success(RT),
        |window| window.now().qps(Pass),
        |window| {
            let now = window.clock().now();
            window.add_at(now.saturating_sub(BUCKET_LEN), Pass, 1);
            window.add_at(now, Pass, 1);
        },
    );
}
