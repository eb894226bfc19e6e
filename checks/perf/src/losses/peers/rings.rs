//! The stand-ins.

use leaparray::Timestamp;

use super::Window;
use crate::losses::BUCKETS;
use crate::losses::clock::{Span, WallClock};
use crate::standins::locked::MutexRing;
use crate::standins::striped::StripedRing;
use crate::standins::{BUCKET_NANOS, Ring};

struct StandIn<R>(R);

pub(in crate::losses) fn mutex_ring() -> impl Window {
    StandIn(MutexRing::new(BUCKETS as usize))
}

pub(in crate::losses) fn reset_in_place_ring() -> impl Window {
    StandIn(StripedRing::new(BUCKETS as usize))
}

impl<R: Ring> Window for StandIn<R> {
    fn record(&self, clock: WallClock) -> Span {
        let now = clock.millis();
        self.0.record(time(now));
        Span::at(now)
    }

    fn sum(&self, clock: WallClock) -> (u64, Span) {
        let now = clock.millis();
        (self.0.sum(time(now)), Span::at(now))
    }
}

/// A stand-in's buckets have a length of their own: its time runs so much faster.
const fn time(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * BUCKET_NANOS)
}
