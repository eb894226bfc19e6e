//! Keeping a fast counter on the operating system's time.

use crate::sync::{AtomicU64, Ordering};

/// A fast counter and the slow clock that it is to follow.
pub(super) trait Source {
    /// The counter, scaled to nanoseconds as well as it is known.
    fn counter(&self) -> u64;
    /// The operating system's monotonic clock, in nanoseconds.
    fn reference(&self) -> u64;
}

/// How long a reading may rest on the counter alone, 2¹⁸ ns = 262 µs.
const HOLD: u64 = 1 << 18;

/// The counter is taken to run fast by 2⁻¹⁰, some 1,000 ppm: twice what the operating system slews
/// its own clock by, and far above any calibration's error.
const SLOWDOWN: u32 = 10;

/// How far ahead of the reference a reading may be found: what the counters of two cores, or the
/// two looks of one correction, may differ by.
const LEAD: u64 = 1_000;

/// Time as `offset + counter · (1 − 2⁻¹⁰)`.
///
/// Going back is what a correction must not do, even for a thread that stalled with the numbers of
/// an older one. So there is one slope for ever, a little too slow, and corrections that only ever
/// raise the offset: each line lies above those before it, at every value of the counter. Between
/// corrections a reading falls behind the reference by 2⁻¹⁰ of the time since, plus the counter's
/// own error; the reader that finds the last correction [`HOLD`] old makes the next one. Hence a
/// bound for any run time, with no background thread.
///
/// What the slope does not allow for is a counter that runs ahead of the reference (by a jump, or
/// by an error above 1,000 ppm). The next correction sees it, and from there on every reading is
/// the reference's own, until that has caught up.
#[derive(Debug)]
pub(super) struct Steering<S> {
    source: S,
    offset: AtomicU64,
    /// The slowed counter's value from which on a correction is due.
    due: AtomicU64,
}

impl<S: Source> Steering<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, offset: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    pub(super) fn nanos(&self) -> u64 {
        let counter = self.slowed_counter();
        // Acquire: pairs with the Release in `corrected`, so that a later `due` comes with the
        // offset that was corrected before it. A stale one costs a correction and nothing else.
        let due = self.due.load(Ordering::Acquire);
        if counter >= due {
            return self.corrected(due);
        }
        // Relaxed: a reading that happened before this one has its offset seen here, by coherence.
        self.offset.load(Ordering::Relaxed).saturating_add(counter)
    }

    fn slowed_counter(&self) -> u64 {
        let counter = self.source.counter();
        counter - (counter >> SLOWDOWN)
    }

    #[cold]
    fn corrected(&self, due: u64) -> u64 {
        // The reference is read between two looks at the counter. Whoever stalls there ends up
        // with an offset that is too low and a correction that is soon due again: both err on the
        // slow side.
        let before = self.slowed_counter();
        let reference = self.source.reference();
        let counter = self.slowed_counter();

        let wanted = reference.saturating_sub(counter);
        let offset = self.offset.fetch_max(wanted, Ordering::Relaxed).max(wanted);
        let nanos = offset.saturating_add(counter);
        if nanos <= reference.saturating_add(LEAD) {
            // Release: pairs with the Acquire in `nanos`.
            self.due.fetch_max(before.saturating_add(HOLD), Ordering::Release);
            return nanos;
        }
        // Ahead. Every reading from the counter alone was taken below `due`: do not go back
        // behind the last of them. Those that come after this one have an offset that puts them
        // at this reference at least.
        reference.max(offset.saturating_add(due))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "steering_tests.rs"]
mod tests;
