//! How cold a service is.

use super::WarmUpConfig;
use crate::flow::permit_window::{Full, PermitWindow, Quota};
use crate::flow::word::Layout;
use crate::flow::{Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::WindowConfig;

/// A bucket of tokens, of which there are more the colder it is.
///
/// A token is worth a permit. They are kept as a share of the full bucket, in so many parts as there is room
/// for in a word beside the number of a bucket of the window, at whose beginning they were counted.
//
// Who takes permits of an open bucket goes by what was counted before it was opened. Who finds more counted, or
// what follows from that, has acquired it from somebody who found the bucket closed; so it finds the word of
// the window changed when it looks again, as it does before it refuses anybody.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The flag of a word says that it cools.
    layout: Layout,
    counted: AtomicU64,
    /// The bucket that was last asked for, if there is the flag, and its limit.
    known: AtomicU64,
    /// One more than the number of the last bucket in which somebody was refused.
    refused: AtomicU64,
    /// Permits a window, when it is warm.
    limit: u64,
    /// How many times less when it is full.
    cold_factor: f64,
    /// How many permits a window has when it is full.
    cold_limit: u64,
    /// Where the line is: tokens above it make the limit lower.
    warning: f64,
    full: f64,
    /// How many come in a bucket of the window.
    refill: f64,
    /// Until so many buckets after one with permits, the window may have them.
    remembers: u64,
    /// How many parts a token has.
    parts: f64,
}

impl Tokens {
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    pub(super) fn new(window: &WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let layout = Layout::of(window);
        let (period, cold_factor) = (config.period(), config.cold_factor());
        // In the time of a period the whole limit is as many.
        let of_period = limit as f64 * period.as_secs_f64() / window.interval().as_secs_f64();
        // The mean time between two permits, from the line to the full bucket, is half of what it is at
        // both ends together; so the tokens above the line are these, to last for the period. The line
        // is Guava's, and Sentinel's.
        let above = 2.0 * of_period / (1.0 + cold_factor);
        let warning = of_period / (cold_factor - 1.0);
        let full = warning + above;
        let [known, refused] = [(); 2].map(|()| AtomicU64::new(0));
        let tokens = Self {
            layout,
            counted: AtomicU64::new(layout.word(0, layout.max_count())),
            known,
            refused,
            limit,
            cold_factor,
            cold_limit: 0,
            warning,
            full,
            refill: limit as f64 / window.sample_count() as f64,
            remembers: window.sample_count() as u64 - 1,
            parts: layout.max_count() as f64 / full,
        };
        Self { cold_limit: tokens.limit_with(full), ..tokens }
    }

    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// How many permits there are in the window that ends with the newest bucket.
    #[inline]
    fn limit_in(&self, number: u64) -> u64 {
        // Acquire: pairs with the Release in `know`.
        let known = self.layout.read(self.known.load(Ordering::Acquire));
        if known.flag && known.number == number { known.count } else { self.know(number) }
    }

    #[cold]
    fn know(&self, number: u64) -> u64 {
        let limit = self.find_limit(number);
        let known = self.layout.flagged(self.layout.word(number, limit));
        // Release: hands on what was acquired with the count. Who has an older bucket in mind puts that in the
        // place of a newer, which is then found again.
        self.known.store(known, Ordering::Release);
        limit
    }

    /// How many permits there are in the window that ends with a bucket, from the tokens.
    pub(super) fn find_limit(&self, number: u64) -> u64 {
        // Acquire: pairs with the Release in `close`.
        self.limit_with(self.tokens_in(self.counted.load(Ordering::Acquire), number))
    }

    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    fn limit_with(&self, tokens: f64) -> u64 {
        let above = (tokens - self.warning).max(0.0) / (self.full - self.warning);
        let times_less = 1.0 + (self.cold_factor - 1.0) * above;
        // What a division is short of by its rounding is not rounded down.
        whole(self.limit as f64 / times_less + 1e-9).clamp(1, self.limit)
    }

    /// The tokens at the beginning of a bucket, if nobody was admitted since they were counted.
    #[expect(clippy::cast_precision_loss, reason = "parts of a whole")]
    fn tokens_in(&self, counted: u64, number: u64) -> f64 {
        let counted = self.layout.read(counted);
        let tokens = counted.count as f64 / self.parts;
        let since = number.saturating_sub(counted.number);
        // It cools if it did, or when the window is empty.
        let busy = if counted.flag { 0 } else { since.min(self.remembers) };
        let tokens = self.refilled(tokens, busy, tokens.max(self.warning));
        self.refilled(tokens, since - busy, self.full)
    }

    /// The tokens after so many buckets, up to a line.
    #[expect(clippy::cast_precision_loss, reason = "so many buckets fill it")]
    fn refilled(&self, tokens: f64, buckets: u64, up_to: f64) -> f64 {
        (tokens + buckets as f64 * self.refill).min(up_to)
    }

    /// In parts, up or down by the number of the bucket: as much up as down in the long run, so that what is
    /// less than a part adds up, and the same for all who count. But not up over the line.
    fn in_parts(&self, tokens: f64, number: u64) -> u64 {
        // Multiples of the golden ratio fill the numbers from 0 to 1 evenly.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let up = f64::from((number.wrapping_mul(GOLDEN) >> 32) as u32) / f64::from(u32::MAX);
        let most = if tokens > self.warning { self.full } else { self.warning };
        whole((tokens.max(0.0) * self.parts + up).min(most * self.parts))
            .min(self.layout.max_count())
    }
}

impl Quota for Tokens {
    #[inline]
    fn free(&self, number: u64, taken: u64) -> Option<u64> {
        // One that asks for more than a cold service has is admitted alone.
        let limit = if taken == 0 { self.limit } else { self.limit_in(number) };
        Some(limit.saturating_sub(taken))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal {
        if full.permits > self.limit {
            return Refusal::never();
        }
        // Relaxed: who closes the bucket meanwhile may miss it.
        if self.refused.load(Ordering::Relaxed) <= full.number {
            self.refused.fetch_max(full.number + 1, Ordering::Relaxed);
        }
        let retry_at = match full.excess(self.limit) {
            // The limit may have risen by then.
            0 => window.begins(full.number + 1),
            // However much, so many have to leave.
            excess => window.leave_at(full.number, excess),
        };
        Refusal::new(Reason::LimitReached, retry_at)
    }

    /// Counts the tokens at the end of a bucket, unless somebody has: who has gone on from it has counted it.
    #[cold]
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    fn close(&self, number: u64, of_window: u64, of_bucket: u64) {
        // Relaxed: what was counted before is all in the word, and a read-modify-write passes on what was released
        // with it.
        let mut found = self.counted.load(Ordering::Relaxed);
        while self.layout.read(found).number <= number {
            let before = self.tokens_in(found, number);
            let was_enough = self.refused.load(Ordering::Relaxed) != number + 1;
            let cools = was_enough && of_window < self.cold_limit;
            let up_to = if cools { self.full } else { before.max(self.warning) };
            let tokens = self.refilled(before, 1, up_to) - of_bucket as f64;
            let counted = self.layout.word(number + 1, self.in_parts(tokens, number));
            let counted = if cools { self.layout.flagged(counted) } else { counted };
            // Release: pairs with the Acquire in `find_limit`. Who finds it finds the bucket closed.
            match self.counted.compare_exchange(
                found,
                counted,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(newer) => found = newer,
            }
        }
    }
}

/// Rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn whole(number: f64) -> u64 {
    number as u64
}
