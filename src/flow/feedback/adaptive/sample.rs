//! The calls of an epoch that are measured.

use crate::flow::limiters::PermitCount;
use crate::sync::{AtomicU64, Ordering};

/// The share of the calls that are measured: counted in their epoch, with their response times.
///
/// An algorithm compares quantiles, for which some thousands of calls are enough. A call that is
/// not measured ends without a reading of the clock. Its permits are counted all the same.
#[derive(Debug)]
pub(super) struct Sampling {
    /// A [`Sample`].
    ///
    /// Relaxed: it orders nothing. A call between two epochs may be drawn by the share of either.
    highest: AtomicU64,
}

/// The calls that are measured: those whose number, multiplied by the golden ratio, modulo 1, is at
/// most this, in units of 2⁻⁶⁴. These multiples are spread evenly, in whichever rhythm calls come.
/// (Knuth, *The Art of Computer Programming*, volume 3, 6.4.) The number is that of the call's last
/// permit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample(u64);

impl Sample {
    const ALL: Self = Self(u64::MAX);
    /// The golden ratio minus 1, in units of 2⁻⁶⁴. A count has 40 bits.
    const GOLDEN: u64 = 0x9E_3779_B97F << 24;

    /// Returns whether the call that has made the count is measured.
    #[inline]
    pub(super) const fn has(self, count: PermitCount) -> bool {
        count.taken().wrapping_mul(Self::GOLDEN) <= self.0
    }
}

impl Sampling {
    /// The calls that are measured in an epoch, if it does not ask for more.
    const CALLS: u64 = 2_048;
    /// At least one call in this many is measured: fewer calls may come than before, and a clock
    /// that has stepped back shows too high a rate. A smaller share would save little: at this one,
    /// measuring is less than a thirtieth of the instructions of a call.
    const MOST_PARTS: u64 = 64;

    pub(super) fn of_all() -> Self {
        Self { highest: AtomicU64::new(Sample::ALL.0) }
    }

    #[inline]
    pub(super) fn get(&self) -> Sample {
        Sample(self.highest.load(Ordering::Relaxed))
    }

    fn set(&self, sample: Sample) {
        self.highest.store(sample.0, Ordering::Relaxed);
    }

    /// Measures all calls.
    pub(super) fn take_all(&self) {
        self.set(Sample::ALL);
    }

    /// Measures about 2,048 of `calls` calls, or `wanted` if that is more, or one in 64.
    pub(super) fn take(&self, wanted: u64, calls: u64) {
        let parts = calls / wanted.max(Self::CALLS);
        self.set(Sample(u64::MAX / parts.clamp(1, Self::MOST_PARTS)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Also of calls of one weight, and of the calls of one source among as many others.
    #[test]
    fn sample_has_its_share_of_each_rhythm() {
        let sampling = Sampling::of_all();
        for (calls, parts) in [(2_047, 1), (20_480, 10), (131_072, 64), (2_048_000, 64)] {
            sampling.take(20, calls);
            for step in [1, 2, 3, 10, 64, 1_000, 1 << 16] {
                let has = |&call: &u64| sampling.get().has(PermitCount::of_taken(call * step));
                let measured = (0..100_000).filter(has).count();
                let expected = 100_000 / parts;
                let tolerance = expected / 10 + 2;
                assert!(measured.abs_diff(expected) <= tolerance, "{parts}, {step}: {measured}");
            }
        }
    }

    #[test]
    fn more_calls_are_measured_if_the_plan_wants_more() {
        let sampling = Sampling::of_all();
        sampling.take(50_000, 100_000);
        let measured =
            (0..1_000).filter(|&it| sampling.get().has(PermitCount::of_taken(it))).count();
        assert!(measured.abs_diff(500) <= 2, "{measured}");
    }
}
