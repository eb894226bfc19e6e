//! Correction of a fast counter by the operating system's time.

use crate::sync::{AtomicU64, Ordering};

/// A fast counter, and the slow clock by which it is corrected.
#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
pub trait Source {
    /// The counter, scaled to nanoseconds by its calibration.
    fn counter(&self) -> u64;
    /// The operating system's monotonic clock, in nanoseconds.
    fn reference(&self) -> u64;
}

/// The longest time after a correction in which readings use the counter alone, 2¹⁸ ns = 262 µs.
const HOLD: u64 = 1 << 18;

/// The slowdown of the counter, 2⁻¹⁰ or about 1,000 ppm: twice the rate at which the operating
/// system slews its own clock, and far above the error of any calibration.
const SLOWDOWN: u32 = 10;

/// The tolerated lead of a reading over the reference, in nanoseconds: the counters of two cores,
/// or the two reads of one correction, may differ by as much.
const LEAD: u64 = 1_000;

/// Time as `offset + counter · (1 − 2⁻¹⁰)`.
///
/// A correction must not make the time go back, even for a thread that has stalled with the values
/// of an older correction. So the slope never changes and is slightly too low, and corrections only
/// raise the offset: each line is above the lines before it, at every value of the counter. Between
/// two corrections, a reading falls behind the reference by 2⁻¹⁰ of the time since the last
/// correction, plus the counter's own error. A reader that finds the last correction [`HOLD`] old
/// makes the next one. This bounds the error for any run time, without a background thread.
///
/// This scheme does not cover two failures. The counter may run ahead of the reference, by a jump
/// or by an error above 1,000 ppm: the next correction detects this. Or the counter may fall back,
/// for example to zero after a suspend: the next reading detects this. From then on, each reading
/// is the reading of the reference: in the first case until the reference has caught up with the
/// counter, in the second case for good.
///
/// # Orderings
///
/// `offset` and `due` only grow, by a relaxed `fetch_max`. A reading loads the offset before the
/// counter. By coherence, it finds the offset of each reading that happened before, or a later one,
/// which is all that it relies on.
#[derive(Debug)]
#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
pub struct Steering<S> {
    source: S,
    offset: AtomicU64,
    /// The value of the slowed counter at which the next correction is due.
    due: AtomicU64,
}

#[cfg_attr(not(loom), expect(unreachable_pub, reason = "the models reach it"))]
impl<S: Source> Steering<S> {
    /// Creates the clock of `source`, which is corrected at the first reading.
    pub fn new(source: S) -> Self {
        Self { source, offset: AtomicU64::new(0), due: AtomicU64::new(0) }
    }

    /// Returns the time, in nanoseconds.
    #[inline]
    pub fn nanos(&self) -> u64 {
        // The offset is read first: it is valid for every later counter. A counter that was read
        // before a stall, and perhaps before it fell back, is not valid for every later offset.
        // Relaxed: by coherence, this load finds the offset of each reading that happened before,
        // or a later offset. Accesses that a processor reorders are nanoseconds apart.
        let offset = self.offset.load(Ordering::Relaxed);
        // Relaxed: a stale value causes one needless correction.
        let due = self.due.load(Ordering::Relaxed);
        let counter = self.slowed_counter();
        // Below `due`, by no more than `HOLD + LEAD`: one comparison for both.
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
        // The reference is read between two reads of the counter. A thread that stalls there finds
        // an offset that is too low, which makes the clock slow, and a due time that is too early,
        // which causes an early correction.
        let before = self.slowed_counter();
        let reference = self.source.reference();
        let counter = self.slowed_counter();

        // A counter that has fallen back is no longer used. Earlier readings were ahead by `LEAD`
        // at most.
        let fallen_back = counter.saturating_add(HOLD + LEAD) < due;
        let ahead = reference.saturating_add(LEAD);
        let (target, next_due) = if fallen_back {
            (ahead, u64::MAX)
        } else {
            // `next_due` is at least this counter: the next reader that finds the counter ahead
            // must not return less than this reading.
            (reference, before.saturating_add(HOLD).max(counter))
        };
        let wanted = target.saturating_sub(counter);
        let offset = self.offset.fetch_max(wanted, Ordering::Relaxed).max(wanted);
        let nanos = offset.saturating_add(counter);
        if nanos <= ahead {
            self.due.fetch_max(next_due, Ordering::Relaxed);
            return nanos;
        }
        // The counter is ahead. Each earlier reading by the counter alone was taken below `due`,
        // with an offset of at most `seen`, so the result is not below any of them. The current
        // offset is not used: it may have been stored after the counter fell back, and this counter
        // may have been read before. Later readings find an offset with which they are not below
        // this reference.
        reference.max(seen.saturating_add(due.min(counter)))
    }
}

#[cfg(all(test, not(loom)))]
#[path = "steering_tests.rs"]
mod tests;
