//! This crate, as the others are measured: with a clock of its own.

use std::time::Duration;

use leaparray::MetricEvent::Pass;
use leaparray::{CachedClock, Clock, MonotonicClock, SlidingWindow};

use super::Peer;
use crate::harness::Suite;
use crate::scenarios::{BUCKET_LEN, RT, config};

pub(super) const PRECISE: Peer = Peer {
    name: "leaparray, precise clock",
    what: "2 × 500 ms; a rate is exact and fresh",
    in_threads_plot: true,
};
pub(super) const CACHED: Peer = Peer {
    name: "leaparray, cached clock",
    what: "the same, its clock refreshed every millisecond",
    in_threads_plot: true,
};

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) {
    add_one(suite, cores, &PRECISE, clock.clone());
    let cached = CachedClock::start(clock.clone(), Duration::from_millis(1));
    add_one(suite, cores, &CACHED, cached.expect("one more thread"));
}

fn add_one<C>(suite: &mut Suite, cores: usize, peer: &Peer, clock: C)
where
    C: Clock + Clone + Sync + 'static,
{
    let window = SlidingWindow::with_clock(config(2, BUCKET_LEN), clock.clone());
    let record = {
        let window = window.clone();
        move || window.add(Pass, 1)
    };
    peer.add_record(suite, cores, record);
    peer.add_request(suite, move || window.record_success(RT));
    add_rate(suite, peer, SlidingWindow::with_clock(config(2, BUCKET_LEN), clock));
}

/// Of a window that no more threads have recorded in than are there.
fn add_rate<C>(suite: &mut Suite, peer: &Peer, window: SlidingWindow<C>)
where
    C: Clock + Clone + Sync + 'static,
{
    let record = {
        let window = window.clone();
        move || window.add(Pass, 1)
    };
    let fill = {
        let window = window.clone();
        move || {
            let now = window.clock().now();
            window.add_at(now.saturating_sub(BUCKET_LEN), Pass, 1);
            window.add_at(now, Pass, 1);
        }
    };
    peer.add_rate(suite, move || window.qps(Pass), fill, record);
}
