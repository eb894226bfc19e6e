//! The strategies of assignments.

use std::time::Duration;

/// How a client decides on the requests of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// It admits all.
    AllowAll,
    /// It refuses all.
    DenyAll,
    /// It admits a request for a token.
    TokenBucket {
        /// The tokens to begin with, and the most that the bucket has.
        max_tokens: u32,
        /// The tokens that are added evenly in a `fill_interval`.
        tokens_per_fill: u32,
        /// The time of `tokens_per_fill` in whole seconds; the nanoseconds tell two limits apart.
        fill_interval: Duration,
    },
}

/// The part of a limit that an assignment has: at most b + q requests in any interval of the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The tokens of the burst, b.
    pub(super) burst: u64,
    /// The requests of the rate, q.
    pub(super) rate: u64,
}

impl Part {
    /// The part of `units` requests, of which at most `max_burst` are the burst, and a 40th if it
    /// is less: as many as the rate brings in a 40th of the interval. A client can be late by that
    /// time without a loss.
    pub(super) fn new(units: u64, max_burst: u64) -> Self {
        let burst = (units / 40).clamp(1, max_burst.max(1)).min(units);
        Self { burst, rate: units - burst }
    }

    pub(super) const fn units(self) -> u64 {
        self.burst + self.rate
    }

    /// Whether its burst is less than half of what is usual.
    pub(super) fn is_thin(self) -> bool {
        self.burst * 2 < Self::new(self.units(), u64::MAX).burst
    }

    /// Returns the additional charge when it replaces `old`, which stays charged.
    pub(super) const fn beyond(self, old: Self) -> u64 {
        self.burst + self.rate.saturating_sub(old.rate)
    }

    /// The strategy for a limit per `window`, of whole seconds.
    pub(super) fn strategy(self, window: Duration) -> Strategy {
        let Ok(max_tokens @ 1..) = u32::try_from(self.burst) else { return Strategy::DenyAll };
        let seconds = window.as_secs().max(1);
        let tokens = self.rate + 1;
        // ε = 1 / scale, so longer intervals are more exact, as far as the numbers go.
        let scale = (1_000_000 / seconds).clamp(16, 1_000).min(u64::from(u32::MAX) / tokens).max(1);
        let tokens_per_fill = u32::try_from(tokens * scale - 1).unwrap_or(u32::MAX).max(1);
        let nanos = u32::try_from(seconds % 1_000_000_000).unwrap_or(0);
        let fill_interval = Duration::new(seconds * scale, nanos);
        Strategy::TokenBucket { max_tokens, tokens_per_fill, fill_interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_burst_admit_their_part_and_no_more() {
        for seconds in [1, 60, 3_600, 86_400, 31_536_000_u64] {
            for units in [1, 2, 5, 40, 1_000, 1_000_000, u64::from(u32::MAX)] {
                let part = Part::new(units, u64::MAX);
                let strategy = part.strategy(Duration::from_secs(seconds));
                let Strategy::TokenBucket { max_tokens, tokens_per_fill, fill_interval } = strategy
                else {
                    panic!("{strategy:?}")
                };
                // The most in an interval, as a fraction over the whole seconds of the interval.
                let filled = u128::from(tokens_per_fill) * u128::from(seconds);
                let most = u128::from(max_tokens) + filled / u128::from(fill_interval.as_secs());
                assert!(most <= u128::from(units), "{units} in {seconds} s: {most}");
                let lost = u128::from(units) - most;
                assert!(lost <= 1, "{units} in {seconds} s: {most}");
            }
        }
        assert_eq!(Part::default().strategy(Duration::from_secs(1)), Strategy::DenyAll);
    }
}
