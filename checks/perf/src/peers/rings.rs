//! The stand-ins, with the precise clock.

use std::sync::Arc;

use leaparray::{Clock, MonotonicClock};

use super::{Peer, RT_NANOS};
use crate::harness::Suite;
use crate::scenarios::BUCKET_LEN;
use crate::standins::locked::{MutexRing, RwLockRing};
use crate::standins::striped::StripedRing;
use crate::standins::{Ring, SECOND};

pub(super) const MUTEX: Peer =
    Peer {
        name: "mutex ring", what: "stand-in; 2 × 500 ms behind a mutex", in_threads_plot: true
    };
pub(super) const RWLOCK: Peer = Peer {
    name: "RwLock ring",
    what: "stand-in for go-zero's `RollingWindow`; 2 × 500 ms behind a readers-writer lock",
    in_threads_plot: true,
};
pub(super) const STRIPED: Peer = Peer {
    name: "striped ring",
    what: "stand-in for Sentinel's `LeapArray` of `LongAdder`s; 2 × 500 ms, reset in place: a \
           count that races with a reset is lost or leaks",
    in_threads_plot: true,
};

pub(super) fn add(suite: &mut Suite, clock: &MonotonicClock, cores: usize) {
    add_one(suite, cores, &MUTEX, clock, || MutexRing::new(SECOND));
    add_one(suite, cores, &RWLOCK, clock, || RwLockRing::new(SECOND));
    add_one(suite, cores, &STRIPED, clock, || StripedRing::new(SECOND));
}

fn add_one<R>(
    suite: &mut Suite,
    cores: usize,
    peer: &Peer,
    clock: &MonotonicClock,
    make: impl Fn() -> R,
) where
    R: Ring + Send + 'static,
{
    let (ring, own) = (Arc::new(make()), clock.clone());
    let record = {
        let (ring, own) = (Arc::clone(&ring), own.clone());
        move || ring.record(own.now())
    };
    peer.add_record(suite, cores, record);
    peer.add_request(suite, move || ring.finish(own.now(), RT_NANOS));
    add_rate(suite, peer, clock, make());
}

/// Of a ring that no more threads have recorded in than are there.
fn add_rate<R>(suite: &mut Suite, peer: &Peer, clock: &MonotonicClock, ring: R)
where
    R: Ring + Send + 'static,
{
    let (ring, clock) = (Arc::new(ring), clock.clone());
    let record = {
        let (ring, clock) = (Arc::clone(&ring), clock.clone());
        move || ring.record(clock.now())
    };
    let fill = {
        let (ring, clock) = (Arc::clone(&ring), clock.clone());
        move || {
            ring.record(clock.now().saturating_sub(BUCKET_LEN));
            ring.record(clock.now());
        }
    };
    peer.add_rate(suite, move || ring.rate(clock.now()), fill, record);
}
