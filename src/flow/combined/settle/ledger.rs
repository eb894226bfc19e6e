//! Reservations by number, which end after a time.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use super::Settle;
use crate::flow::permits::Horizon;
use crate::sync::{Mutex, MutexGuard};
use crate::time::{Clock, MonotonicClock, Timestamp};

/// The number of a reservation in a [`Ledger`]. Numbers are given out in order, and none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u64);

impl ReservationId {
    /// Returns the number, as for a message to another task or process.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for ReservationId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reservations that are settled by a number, as by another task than the one that has reserved,
/// and that end if they are not settled in time.
///
/// `P` is a [`CostReservation`](super::CostReservation), or what several limits have given out:
/// anything that can be [settled](Settle).
///
/// # Expiry
///
/// A reservation that is not settled within the time of the ledger, counted from when it was put
/// in, is dropped, and so ends [by its policy](super::CostLimiter::with_unsettled). There is no
/// thread in the background: each call ends those whose time has passed, and a timer may call
/// [`expire_at`](Self::expire_at). So an expiry is late only while no call is made. A given time is
/// at most a second ahead of the clock: a later one counts as that.
///
/// # Idempotence
///
/// Of several calls that settle a number, the first one settles. The others change nothing, and
/// tell what has become of the reservation: it is [settled](LedgerError::Settled), or it [has
/// ended](LedgerError::Expired) by its policy. The ledger remembers that for as long again as a
/// reservation has time; then the number is [forgotten](LedgerError::Forgotten).
///
/// The cost of a reservation that has ended by its policy is in the hands of the caller, who can
/// [charge](super::CostLimiter::charge_at) the part that the policy has not: all of it if the
/// estimate was given back, and the part above the estimate if that stands. A cost whose number is
/// settled or forgotten must not be charged again.
///
/// ```
/// use leaparray::flow::settle::{CostLimiter, Ledger, LedgerError, Unsettled};
/// use leaparray::flow::LimiterExt;
/// use leaparray::{ManualClock, Timestamp};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let minute = Duration::from_secs(60);
/// let tokens = CostLimiter::with_clock(minute, 1_000, clock.clone())?;
/// let tokens = Arc::new(tokens.with_unsettled(Unsettled::GivenBack));
/// let ledger = Ledger::with_clock(Duration::from_secs(30), 10_000, clock.clone());
/// let reserve = || {
///     let reserved = (&tokens).try_acquire_many(300).at_once().expect("there is room");
///     ledger.keep(reserved).expect("there is room")
/// };
/// let [first, _second] = [reserve(), reserve()];
/// assert_eq!(ledger.settle(first, 120)?.given_back, 180);
/// assert_eq!(ledger.settle(first, 120), Err(LedgerError::Settled));
/// clock.advance(Duration::from_secs(30));
/// ledger.expire_at(Timestamp::from_secs(90));
/// assert_eq!(tokens.books_at(Timestamp::from_secs(90)).charged, 120, "the second one has ended");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ledger<P, C = MonotonicClock> {
    time: Duration,
    capacity: usize,
    pages: Mutex<Pages<P>>,
    horizon: Horizon,
    clock: C,
}

/// The reservations by their numbers. They end in this order: after the clock has gone back, none
/// ends before one with a lower number.
#[derive(Debug)]
struct Pages<P> {
    next: u64,
    /// The least number whose time has not passed.
    open: u64,
    kept: BTreeMap<u64, Kept<P>>,
}

#[derive(Debug)]
struct Kept<P> {
    deadline: Timestamp,
    page: Page<P>,
}

#[derive(Debug)]
enum Page<P> {
    Open(P),
    Settled,
    /// By its policy.
    Ended,
}

/// The error of a [`Ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerError {
    /// The reservation was settled before. Nothing was changed.
    Settled,
    /// The time of the reservation has passed, and it has ended by its policy. Nothing was changed.
    Expired,
    /// The reservation was settled, or has ended by its policy, too long ago for the ledger to
    /// know. Nothing was changed.
    Forgotten,
    /// The ledger has given out no such number.
    Unknown,
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settled => "the reservation is settled",
            Self::Expired => "the time of the reservation has passed, and it has ended",
            Self::Forgotten => "the reservation has ended too long ago to tell how",
            Self::Unknown => "no reservation has that number",
        })
    }
}

impl Error for LedgerError {}

impl<P: Settle> Ledger<P> {
    /// Creates a ledger of up to `capacity` reservations, each of which ends after `time` and is
    /// remembered for as long again, with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(time: Duration, capacity: usize) -> Self {
        Self::with_clock(time, capacity, MonotonicClock::new())
    }
}

impl<P: Settle, C: Clock> Ledger<P, C> {
    /// Creates a ledger that reads `clock`, which should be the clock of the limiters.
    #[must_use]
    pub fn with_clock(time: Duration, capacity: usize, clock: C) -> Self {
        let pages = Pages { next: 0, open: 0, kept: BTreeMap::new() };
        Self { time, capacity, pages: Mutex::new(pages), horizon: Horizon::new(), clock }
    }

    /// Keeps a reservation, and returns its number.
    ///
    /// # Errors
    ///
    /// Returns the reservation if the ledger is full: open and remembered reservations count.
    ///
    /// ```
    /// use leaparray::flow::settle::Ledger;
    /// use std::time::Duration;
    ///
    /// let ledger = Ledger::new(Duration::from_secs(30), 1);
    /// assert!(ledger.keep(()).is_ok());
    /// assert!(ledger.keep(()).is_err());
    /// ```
    pub fn keep(&self, reserved: P) -> Result<ReservationId, P> {
        let now = self.clock.now();
        let mut pages = self.lock();
        let expired = pages.take_expired(now, self.time);
        if pages.kept.len() >= self.capacity {
            drop(pages);
            drop(expired);
            return Err(reserved);
        }
        let number = pages.next;
        pages.next += 1;
        let deadline = now.saturating_add(self.time);
        let kept = Kept { deadline, page: Page::Open(reserved) };
        pages.kept.insert(number, kept);
        drop(pages);
        drop(expired);
        Ok(ReservationId(number))
    }

    /// Settles a reservation now with the actual cost.
    ///
    /// # Errors
    ///
    /// Returns a [`LedgerError`] if it was settled, has ended, or is not known. Nothing is
    /// changed then.
    pub fn settle(&self, id: ReservationId, cost: u64) -> Result<P::Settled, LedgerError> {
        self.settle_at(id, self.clock.now(), cost)
    }

    /// Like [`settle`](Self::settle), at `now`.
    ///
    /// # Errors
    ///
    /// As for [`settle`](Self::settle).
    pub fn settle_at(
        &self,
        id: ReservationId,
        now: Timestamp,
        cost: u64,
    ) -> Result<P::Settled, LedgerError> {
        let mut pages = self.lock();
        let expired = pages.take_expired(self.bound(now), self.time);
        let taken = pages.take(id);
        drop(pages);
        // The end of a reservation is code of other limiters: after the lock.
        drop(expired);
        Ok(taken?.settle_at(now, cost))
    }

    /// Ends the reservations whose time has passed at `now`, and returns how many of them were not
    /// settled.
    pub fn expire_at(&self, now: Timestamp) -> usize {
        let expired = self.lock().take_expired(self.bound(now), self.time);
        expired.len()
    }

    /// Returns the number of reservations that are open, or that the ledger remembers, as of the
    /// last call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().kept.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bound(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.horizon.bound(now.as_nanos(), &self.clock))
    }

    fn lock(&self) -> MutexGuard<'_, Pages<P>> {
        // No code of a user runs under the lock.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Pages<P> {
    /// Ends what has expired, forgets what has expired for `time`, and returns the reservations
    /// that were open.
    fn take_expired(&mut self, now: Timestamp, time: Duration) -> Vec<P> {
        let mut expired = Vec::new();
        while let Some((&number, kept)) = self.kept.range_mut(self.open..).next()
            && kept.deadline <= now
        {
            self.open = number + 1;
            if let Page::Open(_) = kept.page
                && let Page::Open(reserved) = std::mem::replace(&mut kept.page, Page::Ended)
            {
                expired.push(reserved);
            }
        }
        while let Some(first) = self.kept.first_entry()
            && *first.key() < self.open
            && first.get().deadline.saturating_add(time) <= now
        {
            first.remove();
        }
        expired
    }

    /// Takes a reservation, which is settled from then on.
    fn take(&mut self, id: ReservationId) -> Result<P, LedgerError> {
        let Some(kept) = self.kept.get_mut(&id.0) else {
            let is_known = id.0 < self.next;
            return Err(if is_known { LedgerError::Forgotten } else { LedgerError::Unknown });
        };
        match std::mem::replace(&mut kept.page, Page::Settled) {
            Page::Open(reserved) => Ok(reserved),
            Page::Settled => Err(LedgerError::Settled),
            Page::Ended => {
                kept.page = Page::Ended;
                Err(LedgerError::Expired)
            }
        }
    }
}
