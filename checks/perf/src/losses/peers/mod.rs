//! Who goes through it.

mod ours;
mod rings;
mod sentinel;

pub(super) use ours::Ours;
pub(super) use rings::{mutex_ring, reset_in_place_ring};
pub(super) use sentinel::Sentinel;

use leaparray::Ledger;

use super::clock::{Span, WallClock};

/// A peer's window of [`BUCKETS`](super::BUCKETS) milliseconds.
pub(super) trait Window: Sync {
    /// Counts one, and tells when.
    fn record(&self, clock: WallClock) -> Span;

    /// What is in the window, and when that was.
    fn sum(&self, clock: WallClock) -> (u64, Span);

    /// Where everything is that it ever counted, if it knows that.
    fn ledger(&self) -> Option<Ledger<u64>> {
        None
    }
}
