//! `histogram`: atomic bins, logarithmic in groups and linear in each group.

use std::sync::{Mutex, PoisonError};

use histogram::{AtomicHistogram, Histogram};
use leaparray::MonotonicClock;

use super::{Peer, QUANTILES};

/// 32 bins in each power of two, up to 2³⁶ ns, which is more than a minute.
const GROUPING_POWER: u8 = 5;
const MAX_POWER: u8 = 36;

/// A histogram, and the snapshot that reads copy it into. The first read creates the snapshot.
pub(super) struct Atomic {
    histogram: AtomicHistogram,
    snapshot: Mutex<Option<Histogram>>,
}

impl Peer for Atomic {
    /// Grouping power 5, up to 2³⁶ ns; a read copies it into a snapshot that is kept; the
    /// estimate is the middle of the bin.
    const NAME: &'static str = "histogram, `AtomicHistogram`";

    fn new(_: &MonotonicClock) -> Self {
        let histogram = AtomicHistogram::new(GROUPING_POWER, MAX_POWER).expect("valid powers");
        Self { histogram, snapshot: Mutex::default() }
    }

    fn recorder(&self) -> impl FnMut(u32) {
        |rt| self.histogram.increment(rt.into()).expect("a value in range")
    }

    fn quantiles(&self) -> Option<[f64; 4]> {
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Histogram::with_config(&self.histogram.config());
        let snapshot = snapshot.get_or_insert_with(new);
        self.histogram.load_into(snapshot).expect("the same configuration");
        let mut bins = [const { None }; 4];
        snapshot.quantile_buckets_into(&QUANTILES, &mut bins).expect("valid quantiles");
        let middle = |start: u64, end: u64| u64::midpoint(start, end) as f64;
        Some(bins.map(|bin| bin.map_or(f64::NAN, |bin| middle(bin.start(), bin.end()))))
    }
}
