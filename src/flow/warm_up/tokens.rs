//! The tokens that measure how cold a service is.

use super::WarmUpConfig;
use crate::flow::packed_bucket::Layout;
use crate::flow::permit_window::{FullWindow, PermitWindow, Ration};
use crate::flow::{Reason, Refusal};
use crate::sync::{AtomicU64, Ordering};
use crate::time::WindowConfig;

/// The token bucket of a warm-up. The colder the service, the more tokens there are. A token stands for a permit.
///
/// The word `counted` is `{ bucket, cools: 1, tokens }`: the bucket at whose start the tokens were counted, and the
/// tokens as a share of the full bucket, in as many parts as there is room for.
///
/// # Orderings
///
/// A thread that takes permits of an open bucket uses the tokens that were counted before the bucket was opened. Storing
/// `counted` and `known` releases, and loading them acquires. If a thread finds later tokens, it has acquired them from a
/// thread that has found the bucket closed. It then finds the word of the window changed when it reads that word again,
/// as it does before it refuses a request.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The layout of `counted`, whose flag says that the service is cooling, and of `known`.
    layout: Layout,
    counted: AtomicU64,
    /// If the flag is set, the bucket for which the limit was last computed, and that limit.
    known: AtomicU64,
    /// One more than the number of the last bucket in which a request was refused.
    refused: AtomicU64,
    /// The permits of a window when the service is warm.
    limit: u64,
    /// The factor by which the permits are fewer when the bucket is full.
    cold_factor: f64,
    /// The permits of a window when the bucket is full.
    cold_limit: u64,
    /// The warning line: tokens above it lower the limit.
    warning: f64,
    full: f64,
    /// The tokens that are added in one bucket of the window.
    refill: f64,
    /// The number of buckets after a bucket with permits during which the window may have these permits.
    remembers: u64,
    /// The number of parts of a token.
    parts: f64,
}

impl Tokens {
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    pub(super) fn new(window: &WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let layout = Layout::of(window);
        let (period, cold_factor) = (config.period(), config.cold_factor());
        // The permits of one period at the whole limit.
        let of_period = limit as f64 * period.as_secs_f64() / window.interval().as_secs_f64();
        // From the full bucket to the line, the mean time between two permits is the mean of the times at both ends. So
        // this number of tokens above the line lasts for the period. Guava and Sentinel use the same line.
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

    /// Returns the permits of the window that ends with the newest bucket.
    #[inline]
    fn limit_in(&self, number: u64) -> u64 {
        // Acquire: pairs with the Release in `cache_limit`.
        let known = self.layout.read(self.known.load(Ordering::Acquire));
        if known.flag && known.number == number { known.count } else { self.cache_limit(number) }
    }

    #[cold]
    fn cache_limit(&self, number: u64) -> u64 {
        let limit = self.find_limit(number);
        let known = self.layout.flagged(self.layout.word(number, limit));
        // Release: passes on what was acquired with the count. A stalled thread may replace the limit of a newer bucket
        // by the limit of an older one; the limit is then computed again.
        self.known.store(known, Ordering::Release);
        limit
    }

    /// Returns the permits of the window that ends with a bucket, computed from the tokens.
    pub(super) fn find_limit(&self, number: u64) -> u64 {
        // Acquire: pairs with the Release in `close`.
        self.limit_with(self.tokens_in(self.counted.load(Ordering::Acquire), number))
    }

    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    fn limit_with(&self, tokens: f64) -> u64 {
        let above = (tokens - self.warning).max(0.0) / (self.full - self.warning);
        let times_less = 1.0 + (self.cold_factor - 1.0) * above;
        // The addend prevents a rounding error of the division from lowering the limit by a whole permit.
        whole(self.limit as f64 / times_less + 1e-9).clamp(1, self.limit)
    }

    /// Returns the tokens at the start of a bucket, if no request was admitted since they were counted.
    #[expect(clippy::cast_precision_loss, reason = "parts of a whole")]
    fn tokens_in(&self, counted: u64, number: u64) -> f64 {
        let counted = self.layout.read(counted);
        let tokens = counted.count as f64 / self.parts;
        let since = number.saturating_sub(counted.number);
        // The service cools if it was cooling, and once the window is empty.
        let busy = if counted.flag { 0 } else { since.min(self.remembers) };
        let tokens = self.refilled(tokens, busy, tokens.max(self.warning));
        self.refilled(tokens, since - busy, self.full)
    }

    /// Returns the tokens after `buckets` buckets of refill, at most `up_to`.
    #[expect(clippy::cast_precision_loss, reason = "that many buckets fill it")]
    fn refilled(&self, tokens: f64, buckets: u64, up_to: f64) -> f64 {
        (tokens + buckets as f64 * self.refill).min(up_to)
    }

    /// Returns the tokens in parts, rounded up or down depending on the number of the bucket. In the long run, this
    /// rounds up as often as down, so that fractions of a part add up. All threads round alike. It does not round up
    /// across the line.
    fn in_parts(&self, tokens: f64, number: u64) -> u64 {
        // Multiples of the golden ratio fill the numbers from 0 to 1 evenly.
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let up = f64::from((number.wrapping_mul(GOLDEN) >> 32) as u32) / f64::from(u32::MAX);
        let most = if tokens > self.warning { self.full } else { self.warning };
        whole((tokens.max(0.0) * self.parts + up).min(most * self.parts))
            .min(self.layout.max_count())
    }
}

impl Ration for Tokens {
    #[inline]
    fn remaining(&self, number: u64, taken: u64) -> Option<u64> {
        // A request for more permits than a cold service admits is admitted if the window has no other permits.
        let limit = if taken == 0 { self.limit } else { self.limit_in(number) };
        Some(limit.saturating_sub(taken))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal {
        if full.permits > self.limit {
            return Refusal::never();
        }
        // Relaxed: a thread that closes the bucket at the same time may miss this.
        if self.refused.load(Ordering::Relaxed) <= full.number {
            self.refused.fetch_max(full.number + 1, Ordering::Relaxed);
        }
        match full.excess(self.limit) {
            // The limit may have risen by then.
            0 => Refusal::until(Reason::LimitReached, window.begins(full.number + 1)),
            // However high the limit rises, this number of permits has to leave.
            excess => window.refuse_until(full.number, excess),
        }
    }

    /// Counts the tokens at the end of a bucket, unless another thread has done so: a thread that opens a later bucket
    /// has counted them before.
    #[cold]
    #[expect(clippy::cast_precision_loss, reason = "a limit above 2⁵³ is not told from the next")]
    fn close(&self, number: u64, of_window: u64, of_bucket: u64) {
        // Relaxed: the word has everything that was counted before, and a read-modify-write continues its release
        // sequence.
        let mut found = self.counted.load(Ordering::Relaxed);
        while self.layout.read(found).number <= number {
            let before = self.tokens_in(found, number);
            let was_enough = self.refused.load(Ordering::Relaxed) != number + 1;
            let cools = was_enough && of_window < self.cold_limit;
            let up_to = if cools { self.full } else { before.max(self.warning) };
            let tokens = self.refilled(before, 1, up_to) - of_bucket as f64;
            let counted = self.layout.word(number + 1, self.in_parts(tokens, number));
            let counted = if cools { self.layout.flagged(counted) } else { counted };
            // Release: pairs with the Acquire in `find_limit`. A thread that finds the count finds the bucket closed.
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

/// Returns the number, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn whole(number: f64) -> u64 {
    number as u64
}
