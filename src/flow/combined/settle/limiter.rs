//! The limiter of costs.

use std::sync::PoisonError;
use std::time::Duration;

use super::book::{Book, Mark, Settlement};
use super::reservation::{CostReservation, sealed::Costs};
use crate::flow::contract::{
    Account, Ask, Decision, LimitError, Quota, QuotaUnit, Refusal, Retry, lend,
};
use crate::flow::limiters::window_of_any;
use crate::flow::permits::Horizon;
use crate::node::Reason;
use crate::sync::{Mutex, MutexGuard, lock_soon};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// A limit of the cost of requests, in any interval of a length, where the cost of a request is
/// known only after it: tokens of a language model, bytes, the time of a database.
///
/// A request asks for an estimate of its cost, and gets a [`CostReservation`]. At its end, the
/// reservation is [settled](CostReservation::settle) with the actual cost:
///
/// - If that is *less*, the rest of the estimate is given back where it was taken: the limit is
///   then as if the request had asked for its cost.
/// - If it is *more*, the excess is charged now. The part for which the limit has no room is a
///   *debt*: it is charged as soon as there is room, before any later request is admitted.
///
/// ```
/// use leaparray::flow::settle::CostLimiter;
/// use leaparray::flow::LimiterExt;
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let minute = Duration::from_secs(60);
/// let tokens = CostLimiter::with_clock(minute, 1_000, clock.clone())?;
/// let first = tokens.try_acquire_many(400).at_once()?;
/// let second = tokens.try_acquire_many(600).at_once()?;
/// clock.advance(Duration::from_secs(20));
/// first.settle(150);
/// let third = tokens.try_acquire_many(250).at_once()?;
/// let settlement = second.settle(900);
/// assert_eq!((settlement.excess, settlement.owed), (300, 300));
/// third.settle(250);
/// // 60 s after the first two, 750 leave the window: 300 of them are owed.
/// clock.advance(Duration::from_secs(42));
/// assert!(tokens.try_acquire_many(451).is_refused());
/// assert!(tokens.try_acquire_many(450).is_admitted());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # The guarantee
///
/// The *charges* of any interval of that length are at most the limit, at whatever phase. A cost is
/// charged where its estimate was reserved, as far as that goes, and the excess where it was
/// settled, or later. So the cost of any interval is at most the limit and the excesses that were
/// settled in it: each request can exceed the limit only by the error of its own estimate, and that
/// is made up for by later ones.
///
/// As in a [`SlidingWindowLimiter`](crate::flow::SlidingWindowLimiter#intervals-and-buckets), the
/// interval is divided into 50 buckets, and the window has one more. Under lasting demand, at least
/// 98 % of the rate is admitted.
///
/// # Reservations that are not settled
///
/// A reservation that is dropped ends by a [policy](Self::with_unsettled): its estimate stands for
/// its cost, or is given back. One that is kept and never settled stays charged until its bucket
/// leaves the window, after an interval, like one whose estimate stands. To end reservations after
/// another time, and to settle them by a number, keep them in a [`Ledger`](super::Ledger).
///
/// A reservation can be settled at any time. If its bucket has left the window, nothing of a lower
/// cost is left to be given back, and an excess is charged now.
///
/// # Edges
///
/// - An estimate of 0 is always admitted, beside a debt as well: it reserves nothing. Its whole
///   cost is an excess.
/// - An estimate above the limit is [never](crate::flow::Retry::Never) admitted. A cost above the
///   limit is charged over several intervals.
/// - With a limit of 0, a debt stays until the limit is raised.
/// - The limit, the estimates and the costs have no maximum.
/// - The retry time of a refusal is the earliest if no estimate is given back until then. If one
///   is, asking again can succeed earlier: a [`WaitQueue`](crate::flow::WaitQueue) lets the first
///   waiting request ask whenever one of its permits ends, and does not give up before its timeout.
///
/// # Several limits
///
/// An [`AllOf`](crate::flow::AllOf) reserves over several limits, or over none of them. Its permits
/// are settled together, as a tuple or a `Vec`: see [`Settle`](super::Settle). A limit of requests
/// beside it is asked for one permit by [`PerRequest`](super::PerRequest).
///
/// # Threads
///
/// Each operation locks the limiter for some tens of nanoseconds, to change the books or to copy
/// them; the time of a refusal is computed from a copy. Once in a bucket, there is a walk
/// over up to three windows of 51 numbers. A thread that is stopped by the scheduler while
/// it has the lock delays the others. It takes about 600 bytes.
#[derive(Debug)]
pub struct CostLimiter<C = MonotonicClock> {
    interval: Duration,
    window: WindowConfig,
    horizon: Horizon,
    unsettled: Unsettled,
    book: Mutex<Book>,
    clock: C,
}

/// The policy for a reservation that ends without its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unsettled {
    /// The estimate stands for the cost. It leaves the window with its bucket.
    #[default]
    Stands,
    /// The estimate is given back: the request has cost nothing.
    GivenBack,
}

/// The books of a [`CostLimiter`] at one time: plain data.
///
/// They are conserved: `settled + reserved + unused = charged + expired + debt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CostBooks {
    /// The limit.
    pub limit: u64,
    /// The sum of the charges in the window.
    pub charged: u64,
    /// The costs that are not charged yet.
    pub debt: u128,
    /// The number of reservations that have not ended.
    pub in_flight: u64,
    /// The sum of their estimates.
    pub reserved: u128,
    /// The sum of the costs since the limiter was made, with the estimates that stand for one.
    pub settled: u128,
    /// The charges that have left the window.
    pub expired: u128,
    /// The part of the estimates that was not used, and had left the window when they were settled.
    pub unused: u128,
}

impl CostLimiter {
    /// Creates a limiter of a cost of `limit` in any interval of that length, with its own
    /// [`MonotonicClock`].
    ///
    /// # Errors
    ///
    /// Returns [`LimitError::NoWindow`] if the interval is zero or too long for a window.
    pub fn new(interval: Duration, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(interval, limit, MonotonicClock::new())
    }
}

impl<C: Clock> CostLimiter<C> {
    /// Creates a limiter of a cost of `limit` in any interval of that length, which reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](CostLimiter::new).
    pub fn with_clock(interval: Duration, limit: u64, clock: C) -> Result<Self, LimitError> {
        let window = window_of_any(interval).map_err(LimitError::NoWindow)?;
        let book = Mutex::new(Book::new(window.sample_count(), limit));
        let (horizon, unsettled) = (Horizon::new(), Unsettled::default());
        Ok(Self { interval, window, horizon, unsettled, book, clock })
    }

    /// Sets the policy for a reservation that is dropped, or whose entry ends, before it is
    /// settled. By default, its estimate [stands](Unsettled::Stands).
    ///
    /// ```
    /// use leaparray::flow::LimiterExt;
    /// use leaparray::flow::settle::{CostLimiter, Unsettled};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let (minute, now) = (Duration::from_secs(60), Timestamp::from_secs(60));
    /// let charged = |policy| {
    ///     let tokens = CostLimiter::with_clock(minute, 1_000, ManualClock::new(now))?;
    ///     let tokens = tokens.with_unsettled(policy);
    ///     drop(tokens.try_acquire_many(400));
    ///     Ok::<_, leaparray::flow::LimitError>(tokens.books_at(now).charged)
    /// };
    /// assert_eq!((charged(Unsettled::Stands)?, charged(Unsettled::GivenBack)?), (400, 0));
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    #[must_use]
    pub fn with_unsettled(self, unsettled: Unsettled) -> Self {
        Self { unsettled, ..self }
    }

    /// Sets the *lead*, as
    /// [`SlidingWindowLimiter::with_max_lead`](crate::flow::SlidingWindowLimiter::with_max_lead).
    /// By default, this is a second.
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { horizon: Horizon::with_lead(lead), ..self }
    }

    /// Returns the interval in which the limit holds.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the limit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.lock().limit
    }

    /// Changes the limit, from now on. Charges and debts stay.
    ///
    /// ```
    /// use leaparray::flow::settle::CostLimiter;
    /// use leaparray::flow::LimiterExt;
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let tokens = CostLimiter::with_clock(Duration::from_secs(60), 100, clock)?;
    /// tokens.try_acquire_many(100).at_once()?.settle(150);
    /// tokens.reconfigure(200);
    /// let books = tokens.books_at(Timestamp::from_secs(60));
    /// assert_eq!((books.charged, books.debt), (150, 0));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, limit: u64) {
        self.reconfigure_at(self.clock.now(), limit);
    }

    /// Like [`reconfigure`](Self::reconfigure), at `now`: a debt is charged then, as far as there
    /// is room.
    pub fn reconfigure_at(&self, now: Timestamp, limit: u64) {
        self.at(now).reconfigure(limit);
    }

    /// Charges a cost at `now` for which there is no reservation, as of a request whose reservation
    /// has ended before.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::flow::settle::CostLimiter;
    /// use std::time::Duration;
    ///
    /// let tokens = CostLimiter::new(Duration::from_secs(60), 100)?;
    /// assert_eq!(tokens.charge_at(Timestamp::from_secs(60), 130).owed, 30);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    pub fn charge_at(&self, now: Timestamp, cost: u64) -> Settlement {
        self.at(now).spend(cost)
    }

    /// Returns the books at `now`.
    pub fn books_at(&self, now: Timestamp) -> CostBooks {
        let Book { limit, charged, debt, in_flight, reserved, settled, expired, unused, .. } =
            self.seen_at(now);
        CostBooks { limit, charged, debt, in_flight, reserved, settled, expired, unused }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // No operation on the book panics between two changes of it.
        lock_soon(&self.book).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the book, with a window that ends at `now` or later.
    fn at(&self, now: Timestamp) -> MutexGuard<'_, Book> {
        let now = Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock));
        let mut book = self.lock();
        book.roll_to(self.window.bucket_number(now));
        book
    }

    /// Returns a copy of the book as [`at`](Self::at), and changes nothing.
    fn seen_at(&self, now: Timestamp) -> Book {
        let now = Timestamp::from_nanos(self.horizon.bounded(now.as_nanos(), &self.clock));
        let mut book = self.lock().clone();
        book.roll_to(self.window.bucket_number(now));
        book
    }

    /// Returns the refusal of an estimate by a book that does not admit it.
    #[cold]
    fn refusal(&self, book: Book, estimate: u64) -> Refusal {
        if estimate > book.limit {
            return Refusal::never();
        }
        let (reason, may_come_back) = (Reason::LimitReached, book.reserved > 0);
        match self.start_of(book.ready(estimate)) {
            Some(time) if may_come_back => Refusal::at_latest(reason, time),
            None if may_come_back => Refusal::new(reason, Retry::Unknown),
            time => Refusal::until(reason, time),
        }
    }

    /// Returns the start of a bucket; `None` if that is after the end of time.
    fn start_of(&self, number: Option<u64>) -> Option<Timestamp> {
        number?.checked_mul(self.window.bucket_nanos()).map(Timestamp::from_nanos)
    }

    /// Reserves the estimate of a request.
    fn admit(&self, ask: &Ask<'_>) -> Result<Mark, Refusal> {
        let mut book = self.at(ask.now());
        if let Some(mark) = book.reserve(ask.permits()) {
            return Ok(mark);
        }
        let seen = book.clone();
        drop(book);
        Err(self.refusal(seen, ask.permits()))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as of the controllers that cannot tell")]
    fn foretold(&self, ask: &Ask<'_>) -> Option<Decision> {
        let estimate = ask.permits();
        let book = self.seen_at(ask.now());
        if book.admits(estimate) {
            return Some(Decision::Admitted(()));
        }
        Some(Decision::Refused(self.refusal(book, estimate)))
    }
}

impl<C: Clock> Account for CostLimiter<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the limit, the room that is left, and the time at which there is no charge and no
    /// debt.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        let book = self.seen_at(now);
        let (limit, room) = (book.limit, book.room());
        let is_whole = book.charged == 0 && book.debt == 0;
        let reset = if is_whole { Some(now) } else { self.start_of(book.empty()) };
        Some(Quota::new(limit, room, reset).with_window(self.interval).with_unit(QuotaUnit::Cost))
    }

    /// Returns whether nothing is charged, owed or reserved at `now`, and no request was decided
    /// in a later bucket.
    fn is_as_new(&self, now: Timestamp) -> bool {
        let book = self.seen_at(now);
        let is_empty = book.charged == 0 && book.debt == 0 && book.in_flight == 0;
        is_empty && book.newest <= self.window.bucket_number(now)
    }
}

impl<C: Clock> Costs for CostLimiter<C> {
    type Mark = Mark;

    fn clock_now(&self) -> Timestamp {
        self.clock.now()
    }

    fn unsettled(&self) -> Unsettled {
        self.unsettled
    }

    fn reserve(&self, ask: &Ask<'_>) -> Result<Mark, Refusal> {
        self.admit(ask)
    }

    fn estimate(mark: &Mark) -> u64 {
        mark.estimate
    }

    fn settle(&self, now: Timestamp, mark: Mark, cost: u64) -> Settlement {
        self.at(now).settle(mark, cost)
    }
}

lend!(CostReservation, [C: Clock] CostLimiter<C>);
