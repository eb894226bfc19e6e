//! Second attempts, after a quantile of the response times.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::{BudgetError, RetryBudget};
use crate::flow::contract::{Decision, LimiterExt};
use crate::histogram::HistogramConfig;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig, saturating_nanos};
use crate::window::SlidingWindow;
use sealed::Attempts;

/// Tells when to send a second attempt of a request, and whether to: after a quantile of the
/// response times of first attempts, and within a [`RetryBudget`].
///
/// The response times are those of the last window. Each first attempt counts, also one that loses
/// to the second attempt and is dropped: with the time that it had taken by then, and at least an
/// eighth more than the quantile, so that the quantile can rise. If it did not count, the quantile
/// would be one of the fast attempts alone, and fall with each hedge. So without a bound by the
/// budget, of the requests of a window, a share of `1 − quantile` is hedged, whatever the second
/// attempts do. Second attempts do not count.
///
/// ```
/// use leaparray::flow::budget::Hedges;
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// // After the time in which 95 % have a response, and for at most 6 % of the requests.
/// let hedges = Hedges::with_clock(window, 0.95, 0.06, 0, clock.clone())?;
/// for millis in 1..=100 {
///     clock.set(Timestamp::from_secs(60));
///     let first = hedges.begin();
///     assert_eq!(first.patience(), None, "too few response times");
///     clock.advance(Duration::from_millis(millis));
///     first.end();
/// }
/// clock.set(Timestamp::from_secs(61));
/// let first = hedges.begin();
/// let patience = first.patience().expect("100 response times");
/// assert!((93..=97).contains(&patience.as_millis()), "{patience:?}");
/// clock.advance(patience);
/// assert!(first.hedge().is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hedges<C = MonotonicClock> {
    budget: RetryBudget<C>,
    /// The bits of a number.
    quantile: AtomicU64,
    /// The response times of first attempts.
    firsts: SlidingWindow<C>,
    /// The number of the bucket in which the patience was read last, and the patience in
    /// nanoseconds: [`NONE`](Self::NONE) if there were too few response times.
    ///
    /// Relaxed: a request that finds the patience of the bucket before waits for that.
    read_in: AtomicU64,
    patience: AtomicU64,
}

impl Hedges {
    /// Creates hedges with their own [`MonotonicClock`]: after the `quantile` of the response times
    /// of `window`, for at most `share` of the requests of the window, plus `minimum`.
    ///
    /// # Errors
    ///
    /// Returns a [`BudgetError`] if `quantile` is not between 0 and 1, and otherwise as
    /// [`RetryBudget::new`].
    pub fn new(
        window: WindowConfig,
        quantile: f64,
        share: f64,
        minimum: u64,
    ) -> Result<Self, BudgetError> {
        Self::with_clock(window, quantile, share, minimum, MonotonicClock::new())
    }
}

impl<C: Clock> Hedges<C> {
    const NONE: u64 = u64::MAX;

    /// Creates hedges that read `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](Hedges::new).
    pub fn with_clock(
        window: WindowConfig,
        quantile: f64,
        share: f64,
        minimum: u64,
        clock: C,
    ) -> Result<Self, BudgetError>
    where
        C: Clone,
    {
        let quantile = AtomicU64::new(bits(quantile)?);
        let budget = RetryBudget::with_clock(window, share, minimum, clock.clone())?;
        let firsts = SlidingWindow::with_histogram(window, HistogramConfig::default(), clock);
        let [read_in, patience] = [0, Self::NONE].map(AtomicU64::new);
        Ok(Self { budget, quantile, firsts, read_in, patience })
    }

    /// [Changes](crate::flow#changes-in-place) the quantile, from the next bucket of the window on,
    /// and the budget at once.
    ///
    /// # Errors
    ///
    /// As for [`new`](Hedges::new). Nothing is then changed.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::flow::budget::Hedges;
    /// use std::time::Duration;
    ///
    /// let window = WindowConfig::new(10, Duration::from_secs(10))?;
    /// let hedges = Hedges::new(window, 0.95, 0.06, 0)?;
    /// hedges.reconfigure(0.99, 0.02, 1)?;
    /// assert!(hedges.begin().hedge().is_admitted());
    /// assert!(hedges.reconfigure(1.5, 0.02, 1).is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, quantile: f64, share: f64, minimum: u64) -> Result<(), BudgetError> {
        let bits = bits(quantile)?;
        self.budget.reconfigure(share, minimum)?;
        self.quantile.store(bits, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a request: counts it in the budget. Its first attempt is sent now.
    #[must_use = "a first attempt that is dropped at once counts for nothing"]
    pub fn begin(&self) -> FirstAttempt<&Self> {
        FirstAttempt::of(self)
    }

    /// Returns the budget of the second attempts.
    #[must_use]
    pub const fn budget(&self) -> &RetryBudget<C> {
        &self.budget
    }

    /// Returns the patience, read once in each bucket.
    fn patience(&self, now: Timestamp) -> Option<Duration> {
        let number = self.firsts.config().bucket_number(now);
        let before = self.read_in.load(Ordering::Relaxed);
        // One thread reads it, and only for a later bucket.
        if number > before
            && self
                .read_in
                .compare_exchange(before, number, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let patience = self.read(now).map_or(Self::NONE, saturating_nanos);
            self.patience.store(patience, Ordering::Relaxed);
        }
        let patience = self.patience.load(Ordering::Relaxed);
        (patience != Self::NONE).then(|| Duration::from_nanos(patience))
    }

    #[expect(clippy::cast_precision_loss, reason = "compared with a small number")]
    fn read(&self, now: Timestamp) -> Option<Duration> {
        let quantile = f64::from_bits(self.quantile.load(Ordering::Relaxed));
        let times = self.firsts.at(now).histogram()?;
        // One of them at least is above the quantile.
        let is_enough = times.count() as f64 * (1.0 - quantile) >= 1.0;
        is_enough.then(|| times.quantile(quantile)).flatten()
    }
}

/// Returns the bits of a quantile.
fn bits(quantile: f64) -> Result<u64, BudgetError> {
    if (0.0..=1.0).contains(&quantile) {
        return Ok(quantile.to_bits());
    }
    Err(BudgetError::Quantile { quantile })
}

/// The first attempt of a request: see [`Hedges`].
///
/// If it is dropped without [its end](Self::end), its time counts if it is at least the
/// [patience](Self::patience). If it is shorter, the caller has left, or the attempt has failed,
/// and its response time is not known.
///
/// `L` is the type of the reference to the hedges: `&Hedges` or [`Arc`](std::sync::Arc).
#[must_use = "a first attempt that is dropped at once counts for nothing"]
pub struct FirstAttempt<L: Deref<Target: Attempts>> {
    hedges: L,
    start: Timestamp,
    patience: Option<Duration>,
    is_ended: bool,
}

impl<L: Deref<Target: Attempts>> FirstAttempt<L> {
    /// Begins a request by any reference to hedges; see [`Hedges::begin`].
    pub fn of(hedges: L) -> Self {
        let (start, patience) = hedges.start();
        Self { hedges, start, patience, is_ended: false }
    }

    /// Returns the time after which a second attempt is due. `None` as long as there are too few
    /// response times: at least one of them has to be above the quantile.
    pub const fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Asks the budget for a second attempt.
    pub fn hedge(&self) -> Decision {
        self.hedges.hedge()
    }

    /// Ends the attempt, which has a response now.
    pub fn end(mut self) {
        self.is_ended = true;
        self.hedges.record(self.start, None);
    }
}

impl<L: Deref<Target: Attempts>> Drop for FirstAttempt<L> {
    fn drop(&mut self) {
        if let Some(patience) = self.patience
            && !self.is_ended
        {
            self.hedges.record(self.start, Some(patience));
        }
    }
}

impl<L: Deref<Target: Attempts>> fmt::Debug for FirstAttempt<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstAttempt").field("patience", &self.patience).finish_non_exhaustive()
    }
}

mod sealed {
    use std::time::Duration;

    use crate::flow::contract::Decision;
    use crate::time::Timestamp;

    /// Hedges by any clock, for a first attempt that does not name it.
    pub trait Attempts {
        fn start(&self) -> (Timestamp, Option<Duration>);
        fn hedge(&self) -> Decision;

        /// Records the time since `start`: of an attempt that has ended, or of one that was dropped
        /// after the patience.
        fn record(&self, start: Timestamp, dropped_after: Option<Duration>);
    }
}

impl<C: Clock> Attempts for Hedges<C> {
    fn start(&self) -> (Timestamp, Option<Duration>) {
        let now = self.firsts.clock().now();
        self.budget.deposit_at(now);
        (now, self.patience(now))
    }

    fn hedge(&self) -> Decision {
        self.budget.try_acquire()
    }

    fn record(&self, start: Timestamp, dropped_after: Option<Duration>) {
        let now = self.firsts.clock().now();
        let time = now.saturating_since(start);
        let time = match dropped_after {
            Some(patience) if time < patience => return,
            // It would have taken longer. With the patience as their times, chance would lower the
            // quantile, and nothing would raise it.
            Some(patience) => time.max(patience.saturating_add(patience / 8)),
            None => time,
        };
        self.firsts.record_success_at(now, time);
    }
}
