//! Waiting for a decision. The controllers themselves never block.

use std::thread;
use std::time::Duration;

use super::{Decision, Delayed, Limiter, Refusal};
use crate::time::Timestamp;

impl<P> Delayed<P> {
    /// Blocks this thread for the [wait](Self::wait), and returns the permit.
    #[must_use]
    pub fn sleep(self) -> P {
        self.sleep_by(thread::sleep)
    }

    fn sleep_by(self, sleep: impl FnOnce(Duration)) -> P {
        let (permit, wait) = self.into_parts();
        if !wait.is_zero() {
            sleep(wait);
        }
        permit
    }

    /// Waits for the [wait](Self::wait), and returns the permit. `sleep` returns a future that completes after the given
    /// time, as the `sleep` function of an async runtime does.
    ///
    /// If the future is dropped during the wait, the permit is dropped. The permits of a limiter that uses a rate are
    /// then spent.
    pub async fn sleep_with<S: Future>(self, sleep: impl FnOnce(Duration) -> S) -> P {
        let (permit, wait) = self.into_parts();
        if !wait.is_zero() {
            sleep(wait).await;
        }
        permit
    }
}

impl<P> Decision<P> {
    /// Blocks this thread for the [wait](Self::wait) of the decision, and returns the permit.
    ///
    /// # Errors
    ///
    /// Returns the refusal at once, without a wait.
    pub fn sleep(self) -> Result<P, Refusal> {
        self.into_result().map(Delayed::sleep)
    }

    /// Waits for the [wait](Self::wait) of the decision, and returns the permit, as [`Delayed::sleep_with`] does.
    ///
    /// # Errors
    ///
    /// Returns the refusal at once, without a wait.
    pub async fn sleep_with<S: Future>(
        self,
        sleep: impl FnOnce(Duration) -> S,
    ) -> Result<P, Refusal> {
        Ok(self.into_result()?.sleep_with(sleep).await)
    }
}

/// Asks a limiter for `permits` until it admits them. Blocks this thread between two attempts, and for the wait of an
/// admitted request.
///
/// The time of the first attempt is read from the limiter's clock. The time of a later attempt is the time of the
/// clock, but at least the time of the previous attempt plus the wait since then. So the call also ends under a clock
/// that stands still, such as a [`CachedClock`](crate::CachedClock) that this thread refreshes between requests.
///
/// `timeout` limits the time from the first attempt to the last one. The limiter bounds the wait of an admitted
/// request.
///
/// # Errors
///
/// Returns the refusal as soon as the next attempt would be after the timeout, or if the time of the next attempt is
/// unknown.
///
/// ```
/// use leaparray::flow::{Rate, TokenBucket, acquire_blocking};
/// use std::time::Duration;
///
/// let bucket = TokenBucket::new(Rate::new(1_000, Duration::from_secs(1))?, 1);
/// for _ in 0..3 {
///     acquire_blocking(&bucket, 1, Duration::from_secs(60))?;
/// }
/// assert!(acquire_blocking(&bucket, 2, Duration::MAX).is_err(), "there are never two");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn acquire_blocking<L: Limiter + ?Sized>(
    limiter: &L,
    permits: u64,
    timeout: Duration,
) -> Result<L::Permit, Refusal> {
    acquire_by(limiter, permits, timeout, thread::sleep)
}

/// Like [`acquire_blocking`], but waits by `sleep`: a synchronous acquire under a [`ManualClock`](crate::ManualClock),
/// for tests and simulations, or with another way to block a thread.
///
/// `sleep` gets each wait, which is never zero, and returns once that time has passed: it blocks the thread for at
/// least that time, or it advances the clock. If the clock shows less than the wait after `sleep`, the whole wait
/// counts.
///
/// # Errors
///
/// As for [`acquire_blocking`].
///
/// # Panics
///
/// Panics only if `sleep` or the limiter panics. If `sleep` panics between two attempts, no permit was taken. If it
/// panics in the wait of an admitted request, the permits are spent.
///
/// ```
/// use leaparray::flow::{Rate, TokenBucket, acquire_by};
/// use leaparray::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let bucket = TokenBucket::with_clock(Rate::new(10, Duration::from_secs(1))?, 1, clock.clone());
/// for _ in 0..3 {
///     acquire_by(&bucket, 1, Duration::from_secs(1), |wait| clock.advance(wait))?;
/// }
/// assert_eq!(clock.now(), Timestamp::from_millis(60_200), "two waits of 100 ms");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn acquire_by<L: Limiter + ?Sized>(
    limiter: &L,
    permits: u64,
    timeout: Duration,
    mut sleep: impl FnMut(Duration),
) -> Result<L::Permit, Refusal> {
    let mut attempts = Attempts::begin(limiter, permits, timeout);
    loop {
        match attempts.ask()? {
            Answer::Decided(decision) => return Ok(decision.into_result()?.sleep_by(sleep)),
            Answer::AskAgain(wait) => sleep(wait),
        }
    }
}

/// Like [`acquire_blocking`], but waits for the futures that `sleep` returns, and does not block the thread. `sleep` is
/// the `sleep` function of an async runtime, or a function that advances a [`ManualClock`](crate::ManualClock). It gets
/// each wait, and its future completes once that time has passed, as for [`acquire_by`].
///
/// If the future is dropped while it waits for the next attempt, no permit was taken. If it is dropped during the wait
/// of an admitted request, the permits are spent.
///
/// # Errors
///
/// As for [`acquire_blocking`].
///
/// ```
/// use leaparray::flow::{Rate, TokenBucket, acquire_with};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bucket = TokenBucket::new(Rate::new(1_000, Duration::from_secs(1))?, 1);
/// for _ in 0..3 {
///     acquire_with(&bucket, 1, Duration::from_secs(60), tokio::time::sleep).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub async fn acquire_with<L: Limiter + ?Sized, S: Future>(
    limiter: &L,
    permits: u64,
    timeout: Duration,
    mut sleep: impl FnMut(Duration) -> S,
) -> Result<L::Permit, Refusal> {
    let mut attempts = Attempts::begin(limiter, permits, timeout);
    loop {
        match attempts.ask()? {
            Answer::Decided(decision) => return decision.sleep_with(sleep).await,
            Answer::AskAgain(wait) => {
                sleep(wait).await;
            }
        }
    }
}

/// The attempts of one caller to get its permits.
struct Attempts<'a, L: ?Sized> {
    limiter: &'a L,
    permits: u64,
    /// The earliest time of the next attempt: the caller has waited until then.
    now: Timestamp,
    /// The latest time of an attempt.
    /// The last reading of the clock.
    clock: Timestamp,
    until: Timestamp,
}

enum Answer<P> {
    /// The result is final.
    Decided(Decision<P>),
    /// Wait for this time, and ask again.
    AskAgain(Duration),
}

impl<'a, L: Limiter + ?Sized> Attempts<'a, L> {
    fn begin(limiter: &'a L, permits: u64, timeout: Duration) -> Self {
        let now = limiter.now();
        Self { limiter, permits, now, clock: now, until: now.saturating_add(timeout) }
    }

    /// Makes an attempt, after the caller has waited as the last answer says.
    fn ask(&mut self) -> Result<Answer<L::Permit>, Refusal> {
        // The clock may stand still while the caller waits, if this thread refreshes it. The wait has passed all the
        // same.
        let clock = self.limiter.now();
        let now = clock.max(self.now);
        let decision = self.limiter.try_acquire_at(now, self.permits);
        let Some(refusal) = decision.refusal() else { return Ok(Answer::Decided(decision)) };
        let Some(retry_at) = refusal.retry_at() else { return Err(refusal) };
        // A limiter whose clock is further behind than its lead returns a time that has passed here, but not by its
        // clock: the wait is what its clock lacks. A pause in any case prevents a busy loop.
        let from = if retry_at > now { now } else { clock };
        let stands_still = clock == std::mem::replace(&mut self.clock, clock);
        if retry_at <= now && stands_still && retry_at > clock {
            // The wait was longer than the lead, and the clock has not moved: no wait would be long enough.
            return Err(refusal);
        }
        let wait = retry_at.saturating_since(from).max(Duration::from_nanos(1));
        let next = now.saturating_add(wait);
        // At the end of time, the next attempt would be at the time of this one.
        if next > self.until || next == now {
            return Err(refusal);
        }
        self.now = next;
        Ok(Answer::AskAgain(next.saturating_since(now)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
