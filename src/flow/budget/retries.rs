//! A budget of the retries of a window.

use std::time::Duration;

use super::{AtomicBudget, BudgetError, checked, refuse};
use crate::flow::contract::{Account, Ask, Decision, Limiter, Quota, Refusal};
use crate::flow::permits::{FullWindow, Horizon, PackedBucket, PermitWindow, Ration, Usage};
use crate::metric::MetricEvent;
use crate::sync::{Ordering, fence};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};
use crate::window::SlidingWindow;

/// A budget of the retries of a window: a share of the requests of the window, plus a minimum.
///
/// The caller [deposits](Self::deposit) each request once, and asks for a permit for each retry of
/// it.
///
/// A retry is admitted only if the retries of the window, with it, are at most
/// `minimum + share · requests`, with the requests of the same window, rounded down: to the unit,
/// under any race. So each retry is one of the minimum of its window, or is paid for by
/// `1 / share` requests of the window that ends with it, and a request pays once. Over any time,
/// the retries are at most the share of all requests, and the minimum in each window.
///
/// A retry is refused only if at some moment of the call the budget was spent, counting the
/// requests that were deposited before the call. The time to ask again is not known: a request may
/// raise the budget at any time.
///
/// ```
/// use leaparray::flow::{LimiterExt, Reason};
/// use leaparray::flow::budget::RetryBudget;
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// // 20 % of the requests of 10 s, and one retry in each 10 s besides.
/// let budget = RetryBudget::with_clock(window, 0.2, 1, clock.clone())?;
/// (0..10).for_each(|_| budget.deposit());
/// let retries = (0..10).filter(|_| budget.try_acquire().is_admitted()).count();
/// assert_eq!(retries, 3);
/// let refusal = budget.try_acquire().refusal().expect("the budget is spent");
/// assert_eq!(refusal.reason, Reason::BUDGET_SPENT);
/// clock.advance(Duration::from_secs(10));
/// let retries = (0..10).filter(|_| budget.try_acquire().is_admitted()).count();
/// assert_eq!(retries, 1, "the requests have left the window");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A window of n buckets forgets a request between n − 1 and n bucket lengths after it, and a retry
/// likewise. finagle and tower have 10 buckets in 10 s, a share of 20 % and a minimum of 100.
///
/// # Orderings
///
/// A retry reads the requests, and then takes its permit by a compare-exchange on the word of the
/// newest bucket in which retries were admitted. The requests of the window that ends with a bucket
/// only grow, and the word of another bucket is another word. So if the compare-exchange succeeds,
/// the requests are at least those that were read.
///
/// A release fence comes between the requests that a retry has read and its compare-exchange, and
/// each load of the word acquires. So a thread that finds a retry in the word also finds the
/// requests that pay for it, and those that the retrying thread has deposited. Otherwise it could
/// count the retry and not those requests, and refuse a retry although the budget is not spent.
///
/// # Timestamps
///
/// A request counts in the bucket of its time, and one that is older than the window does not
/// count. A retry counts in the newest bucket in which a retry was admitted, if that is later than
/// its time. If a request of a later bucket has displaced a bucket of its window, that does not
/// count for it. A time that is more than a second ahead of the clock counts as one second ahead.
#[derive(Debug)]
pub struct RetryBudget<C = MonotonicClock> {
    settings: AtomicBudget,
    /// The requests, as passes.
    requests: SlidingWindow<C>,
    /// Bounds the times of the requests: one far ahead would otherwise end the window.
    horizon: Horizon,
    retries: PermitWindow,
}

impl RetryBudget {
    /// Creates a budget with its own [`MonotonicClock`]: `share` of the requests of the window, in
    /// steps of a millionth, plus `minimum` retries.
    ///
    /// # Errors
    ///
    /// Returns a [`BudgetError`] if `share` is not between 0 and 1,000, or if `minimum` is above
    /// the [maximum](crate::flow::SlidingWindowLimiter::max_limit) for a window of that geometry,
    /// or above 2³⁴ − 1.
    pub fn new(window: WindowConfig, share: f64, minimum: u64) -> Result<Self, BudgetError> {
        Self::with_clock(window, share, minimum, MonotonicClock::new())
    }
}

impl<C: Clock> RetryBudget<C> {
    /// Creates a budget that reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](RetryBudget::new).
    pub fn with_clock(
        window: WindowConfig,
        share: f64,
        minimum: u64,
        clock: C,
    ) -> Result<Self, BudgetError> {
        let share = checked(share, minimum, highest(&window))?;
        let settings = AtomicBudget::new(share, minimum);
        let requests = SlidingWindow::with_clock(window, clock);
        let retries = PermitWindow::new(window);
        Ok(Self { settings, requests, horizon: Horizon::new(), retries })
    }

    /// Sets how far ahead of the clock a given time may be; see
    /// [`SlidingWindowLimiter::with_max_lead`](crate::flow::SlidingWindowLimiter::with_max_lead).
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        let (horizon, retries) = (Horizon::with_lead(lead), self.retries.with_max_lead(lead));
        Self { horizon, retries, ..self }
    }

    /// [Changes](crate::flow#changes-in-place) the share and the minimum. Requests and retries so
    /// far still count.
    ///
    /// # Errors
    ///
    /// As for [`new`](RetryBudget::new). Nothing is then changed.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::flow::LimiterExt;
    /// use leaparray::flow::budget::RetryBudget;
    /// use std::time::Duration;
    ///
    /// let window = WindowConfig::new(10, Duration::from_secs(10))?;
    /// let budget = RetryBudget::new(window, 0.0, 0)?;
    /// assert!(budget.try_acquire().is_refused());
    /// budget.reconfigure(0.0, 1)?;
    /// assert!(budget.try_acquire().is_admitted() && budget.try_acquire().is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, share: f64, minimum: u64) -> Result<(), BudgetError> {
        let share = checked(share, minimum, highest(self.retries.config()))?;
        self.settings.store(share, minimum);
        Ok(())
    }

    /// Counts a request now. Its retries are not deposited.
    pub fn deposit(&self) {
        self.deposit_at(self.clock().now());
    }

    /// Counts a request at `now`.
    pub fn deposit_at(&self, now: Timestamp) {
        let now = self.horizon.bound(now.as_nanos(), self.clock());
        self.requests.add_at(Timestamp::from_nanos(now), MetricEvent::Pass, 1);
    }

    const fn clock(&self) -> &C {
        self.requests.clock()
    }

    /// Returns the highest number of retries of the window that ends with a bucket.
    fn limit_of(&self, number: u64) -> u64 {
        let end = self.retries.config().start_of(number);
        let requests = self.requests.at(end).sum(MetricEvent::Pass);
        let (share, minimum) = self.settings.load();
        minimum.saturating_add(share.of(requests)).min(highest(self.retries.config()))
    }

    /// Returns the bucket with which the window of a retry ends.
    fn last(&self, now: Timestamp) -> u64 {
        let number = self.retries.config().bucket_number(self.retries.bounded(now, self.clock()));
        number.max(self.retries.view(|newest| newest.number))
    }

    fn refuse(&self, permits: u64) -> Refusal {
        refuse(permits, highest(self.retries.config()))
    }
}

/// Returns the highest number of retries of a window.
fn highest(window: &WindowConfig) -> u64 {
    PermitWindow::max_permits(window).min(AtomicBudget::MOST)
}

impl<C: Clock> Limiter for RetryBudget<C> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.retries.take(ask.now(), ask.permits(), self, self.clock())
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        let (now, permits) = (ask.now(), ask.permits());
        let limit = self.limit_of(self.last(now));
        Some(match self.retries.peek(now, permits, limit, self.clock()) {
            Decision::Refused(_) => Decision::Refused(self.refuse(permits)),
            decision => decision,
        })
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> Ration for RetryBudget<C> {
    /// There is none: it changes with each request, and stripes have permits of one limit.
    fn limit(&self, _window: &PermitWindow, _number: u64) -> Option<u64> {
        None
    }

    fn usage(&self, window: &PermitWindow, word: u64, _permits: u64) -> Option<Usage> {
        let PackedBucket { number, count: taken, .. } = window.layout().read(word);
        let limit = self.limit_of(number);
        // Release: pairs with the Acquire of each load of the word in `PermitWindow::take`.
        fence(Ordering::Release);
        Some(Usage::of_remaining(limit.saturating_sub(taken)))
    }

    fn refuse(&self, _window: &PermitWindow, full: &FullWindow) -> Refusal {
        Self::refuse(self, full.permits)
    }
}

impl<C: Clock> Account for RetryBudget<C> {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Returns the limit by the requests of the window, and the retries that are left of it.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let limit = self.limit_of(self.last(now));
        let left = limit.saturating_sub(self.retries.permits_and_end(now).0);
        Some(Quota::new(limit, left, None).with_window(self.retries.config().interval()))
    }

    fn is_as_new(&self, now: Timestamp) -> bool {
        let now = self.retries.bounded(now, self.clock());
        self.retries.is_as_new(now) && self.requests.at(now).sum(MetricEvent::Pass) == 0
    }

    fn refund(&self, ask: &Ask<'_>, _wait: Duration) -> bool {
        self.retries.give_back(ask.now(), ask.permits())
    }
}
