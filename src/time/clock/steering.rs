//! Keeping a fast counter on the operating system's time.

use crate::sync::{AtomicU64, Ordering};

/// A fast counter and the slow clock that it is to follow.
#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
pub trait Source {
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
/// by an error above 1,000 ppm) or that falls back (as one that starts anew after a suspend). The
/// next correction sees the one and the next reading the other, and from there on every reading is
/// the reference's own: until it has caught up with the counter, or for good.
#[derive(Debug)]
#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
pub struct Steering<S> {
    source: S,
    offset: AtomicU64,
    /// The slowed counter's value from which on a correction is due.
    due: AtomicU64,
}

#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
impl<S: Source> Steering<S> {
    /// Time by `source`, which is corrected at the first reading.
    pub fn new(source: S) -> Self {
        Self { source, offset: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    /// The time.
    #[inline]
    pub fn nanos(&self) -> u64 {
        // The offset first: it is good for every later counter, whereas a counter from before a
        // stall, at worst from before it fell back, is not good for every later offset.
        // Relaxed: a reading that happened before this one has its offset seen here, by coherence;
        // and what a processor reorders is nanoseconds apart.
        let offset = self.offset.load(Ordering::Relaxed);
        // Relaxed: a stale one costs a correction and nothing else.
        let due = self.due.load(Ordering::Relaxed);
        let counter = self.slowed_counter();
        // Below `due`, but not by more than can be: one comparison for both.
        if due.wrapping_sub(counter).wrapping_sub(1) >= HOLD + LEAD {
            return self.corrected(offset, due);
        }
        offset.saturating_add(counter)
    }

    #[inline]
    fn slowed_counter(&self) -> u64 {
        let counter = self.source.counter();
        counter - (counter >> SLOWDOWN)
    }

    #[cold]
    fn corrected(&self, seen: u64, due: u64) -> u64 {
        // The reference is read between two looks at the counter. Whoever stalls there ends up
        // with an offset that is too low and a correction that is soon due again: both err on the
        // slow side.
        let before = self.slowed_counter();
        let reference = self.source.reference();
        let counter = self.slowed_counter();

        // Once fallen back, never trusted again. Readings from before were ahead by the lead at
        // most.
        let fallen_back = counter.saturating_add(HOLD + LEAD) < due;
        let ahead = reference.saturating_add(LEAD);
        let (target, next_due) = if fallen_back {
            (ahead, u64::MAX)
        } else {
            // Not below this reading: who finds the counter ahead next must not go behind it.
            (reference, before.saturating_add(HOLD).max(counter))
        };
        let wanted = target.saturating_sub(counter);
        let offset = self.offset.fetch_max(wanted, Ordering::Relaxed).max(wanted);
        let nanos = offset.saturating_add(counter);
        if nanos <= ahead {
            self.due.fetch_max(next_due, Ordering::Relaxed);
            return nanos;
        }
        // Ahead. Every reading from the counter alone was taken below `due`: do not go behind the
        // last of them, and its offset was no higher than the one that was seen before this counter.
        // A later offset may be from after the counter fell back, and this counter from before.
        // Those that come after find an offset that puts them at this reference at least.
        reference.max(seen.saturating_add(due.min(counter)))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "steering_tests.rs"]
mod tests;
