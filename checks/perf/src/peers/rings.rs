//! The stand-ins, with leaparray's precise clock.

use std::sync::{Arc, Mutex, RwLock};

use leaparray::{Clock, MonotonicClock};

use super::{Peer, RT_NANOS};
use crate::harness::Suite;
use crate::scenarios::BUCKET_LEN;
use crate::standins::locked::Buckets;
use crate::standins::striped::StripedRing;
use crate::standins::{Ring, SECOND};

/// Stand-in; 2 × 500 ms behind a mutex.
pub(super) const MUTEX: Peer = Peer { name: "mutex ring" };
/// Stand-in for go-zero's `RollingWindow`; 2 × 500 ms behind a readers-writer lock.
pub(super) const RWLOCK: Peer = Peer { name: "RwLock ring" };
/// Stand-in for Sentinel's `LeapArray` of `LongAdder`s; 2 × 500 ms, reset in place: a count that
/// races with a reset can be lost or counted in the wrong bucket.
pub(super) const STRIPED: Peer = Peer { name: "striped ring" };

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock) {
    add_one(suite, &MUTEX, clock, || Mutex::new(Buckets::new(SECOND)));
    add_one(suite, &RWLOCK, clock, || RwLock::new(Buckets::new(SECOND)));
    add_one(suite, &STRIPED, clock, || StripedRing::new(SECOND));
}

fn add_one<R>(suite: &mut Suite, peer: &Peer, clock: &MonotonicClock, make: impl Fn() -> R)
where
    R: Ring + Send + 'static,
{
    peer.add_window(
        suite,
        || (Arc::new(make()), clock.clone()),
        |(ring, clock)| ring.record(clock.now()),
        |(ring, clock)| ring.finish(clock.now(), RT_NANOS),
        // The window is a second long.
        |(ring, clock)| ring.sum(clock.now()) as f64,
        |(ring, clock)| {
            ring.record(clock.now().saturating_sub(BUCKET_LEN));
            ring.record(clock.now());
        },
    );
}
