//! Requests that get a permit.

use std::future::ready;
use std::time::Duration;

use super::park::Timers;
use super::{Begun, Limiter, QueuePermit, Refusal, WaitQueue};
use crate::node::ResourceNode;
use crate::time::Timestamp;

/// The longest timeout that ends.
pub(super) const LONGEST: Duration = Duration::MAX.saturating_sub(Duration::from_nanos(1));

impl<L: Limiter> WaitQueue<L> {
    /// Waits for `permits` permits, all of them or none, for at most `timeout`. `sleep` is the
    /// `sleep` function of an async runtime, or a function that advances a
    /// [`ManualClock`](crate::ManualClock): it gets a time, which is not zero unless the timeout
    /// has passed, and returns a future that completes once that time has passed.
    ///
    /// The time of the first question is read from the limiter's clock at the first poll. The time
    /// of a later one is the time of the clock, but at least the time of the previous one plus the
    /// sleep since then. So the call also ends under a clock that stands still, such as a
    /// [`CachedClock`](crate::time::CachedClock) that this thread refreshes between requests. A
    /// request that was due before, as by a late timer, asks for the time at which it was due, so
    /// that delays do not add up: a bucket of one token keeps its rate, also if its tokens come
    /// faster than timers tick. Several requests then go ahead at one tick. That time is at most 50
    /// ms before, and only a limiter of one bucket is asked for it: over an
    /// [`AllOf`](crate::flow::AllOf), the other limiters count a request when it goes ahead, and
    /// late timers lower the rate.
    ///
    /// The future can be dropped at any time; see [Cancellation](Self#cancellation). It is `Send`
    /// if the limiter is `Sync`, and `sleep` and its futures are `Send`.
    ///
    /// # Errors
    ///
    /// Returns the refusal if the limiter will never admit the request, if it cannot in
    /// [time](Self#timeout), if its retry time is [unknown](Self#permits-that-are-given-back), or
    /// if the queue is [full](Self::with_capacity).
    ///
    /// # Panics
    ///
    /// Panics only if `sleep` or the limiter panics. The request then leaves the queue without a
    /// permit.
    ///
    /// ```
    /// use leaparray::flow::{Rate, Reason, TokenBucket, WaitQueue};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = WaitQueue::new(TokenBucket::new(Rate::per_second(1_000)?, 1));
    /// for _ in 0..3 {
    ///     queue.acquire_with(1, Duration::from_secs(60), tokio::time::sleep).await?;
    /// }
    /// let never = queue.acquire_with(2, Duration::from_secs(60), tokio::time::sleep).await;
    /// assert_eq!(never.unwrap_err().reason, Reason::MoreThanLimit);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_with<F: Future>(
        &self,
        permits: u64,
        timeout: Duration,
        sleep: impl FnMut(Duration) -> F,
    ) -> Result<QueuePermit<L::Permit>, Refusal> {
        self.acquire_with_at(self.limiter.account().now(), permits, timeout, sleep).await
    }

    /// Like [`acquire_with`](Self::acquire_with), with `now` as the time of the first question.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    pub async fn acquire_with_at<F: Future>(
        &self,
        now: Timestamp,
        permits: u64,
        timeout: Duration,
        sleep: impl FnMut(Duration) -> F,
    ) -> Result<QueuePermit<L::Permit>, Refusal> {
        match self.begin(None::<&ResourceNode>, now, permits, timeout)? {
            Begun::Admitted(permit) => Ok(permit),
            Begun::Waits(waiting) => Ok(waiting.run(sleep).await?.0),
        }
    }

    /// Waits for `permits` permits, all of them or none, for at most `timeout`, and blocks this
    /// thread until then. Like [`acquire_with`](Self::acquire_with) otherwise.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    ///
    /// ```
    /// use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
    /// use std::time::Duration;
    ///
    /// let limiter = ConcurrencyLimiter::new(2);
    /// let queue = WaitQueue::new(&limiter);
    /// std::thread::scope(|scope| {
    ///     for _ in 0..5 {
    ///         scope.spawn(|| drop(queue.acquire_blocking(1, Duration::MAX).expect("in turn")));
    ///     }
    /// });
    /// assert_eq!(limiter.in_use(), 0);
    /// ```
    pub fn acquire_blocking(
        &self,
        permits: u64,
        timeout: Duration,
    ) -> Result<QueuePermit<L::Permit>, Refusal> {
        let now = self.limiter.account().now();
        match self.begin(None::<&ResourceNode>, now, permits, timeout)? {
            Begun::Admitted(permit) => Ok(permit),
            Begun::Waits(waiting) => {
                let timers = Timers::default();
                Ok(timers.block_on(waiting.run(|wait| timers.sleep(wait)))?.0)
            }
        }
    }

    /// Like [`acquire_blocking`](Self::acquire_blocking), but waits by `sleep`: a synchronous
    /// acquire under a [`ManualClock`](crate::ManualClock), for tests and simulations.
    ///
    /// `sleep` gets each wait, and returns once that time has passed: it advances the clock, or it
    /// blocks the thread. If the clock shows less than the wait after `sleep`, the whole wait
    /// counts. A request that waits for other requests, and not until a known time, sleeps once
    /// until its timeout, and then asks again if it has become the first: nothing wakes it during
    /// `sleep`.
    ///
    /// # Errors
    ///
    /// As for [`acquire_with`](Self::acquire_with).
    ///
    /// ```
    /// use leaparray::flow::{Rate, TokenBucket, WaitQueue};
    /// use leaparray::{Clock, ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let bucket = TokenBucket::with_clock(Rate::per_second(10)?, 1, clock.clone());
    /// let queue = WaitQueue::new(bucket);
    /// for _ in 0..3 {
    ///     queue.acquire_by(1, Duration::from_secs(1), |wait| clock.advance(wait))?;
    /// }
    /// assert_eq!(clock.now(), Timestamp::from_millis(60_200), "two waits of 100 ms");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_by(
        &self,
        permits: u64,
        timeout: Duration,
        mut sleep: impl FnMut(Duration),
    ) -> Result<QueuePermit<L::Permit>, Refusal> {
        // Each timer has ended when it is polled, so the future is never pending: there is always a
        // timer.
        let sleep = |wait| {
            sleep(wait);
            ready(())
        };
        let timers = Timers::default();
        timers.block_on(self.acquire_with(permits, timeout.min(LONGEST), sleep))
    }
}
