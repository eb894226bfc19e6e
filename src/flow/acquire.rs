//! Waiting for a decision. The controllers themselves never block.

use std::thread;
use std::time::Duration;

use super::{Decision, Limiter, Refusal};
use crate::time::Timestamp;

impl<P> Decision<P> {
    /// Blocks this thread for the [wait](Self::wait) of the decision, and returns the permit.
    ///
    /// # Errors
    ///
    /// Returns the refusal at once, without a wait.
    pub fn sleep(self) -> Result<P, Refusal> {
        self.sleep_by(thread::sleep)
    }

    fn sleep_by(self, sleep: impl FnOnce(Duration)) -> Result<P, Refusal> {
        let (permit, wait) = self.into_result()?;
        if !wait.is_zero() {
            sleep(wait);
        }
        Ok(permit)
    }

    /// Waits for the [wait](Self::wait) of the decision, and returns the permit. `sleep` returns a future that
    /// completes after the given time, as the `sleep` function of an async runtime does.
    ///
    /// If the future is dropped during the wait, the permit is dropped. The permits of a limiter that uses a rate are
    /// then spent.
    ///
    /// # Errors
    ///
    /// Returns the refusal at once, without a wait.
    pub async fn sleep_with<S: Future>(
        self,
        sleep: impl FnOnce(Duration) -> S,
    ) -> Result<P, Refusal> {
        let (permit, wait) = self.into_result()?;
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(permit)
    }
}

/// Asks a limiter for `permits` until it admits them. Blocks this thread between two attempts, and for the wait of an
/// admitted request. Times are read from the limiter's clock.
///
/// `timeout` limits the time until the last attempt. The limiter bounds the wait of an admitted request.
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
pub fn acquire_blocking(
    limiter: &(impl Limiter + ?Sized),
    permits: u64,
    timeout: Duration,
) -> Result<(), Refusal> {
    acquire_by(limiter, permits, timeout, thread::sleep)
}

fn acquire_by(
    limiter: &(impl Limiter + ?Sized),
    permits: u64,
    timeout: Duration,
    mut sleep: impl FnMut(Duration),
) -> Result<(), Refusal> {
    let until = limiter.now().saturating_add(timeout);
    loop {
        match ask(limiter, permits, until)? {
            Answer::Decided(decision) => return decision.sleep_by(sleep),
            Answer::AskAgain(wait) => sleep(wait),
        }
    }
}

/// Like [`acquire_blocking`], but waits for the futures that `sleep` returns, and does not block the thread. `sleep` is
/// the `sleep` function of an async runtime, or a function that advances a [`ManualClock`](crate::ManualClock).
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
pub async fn acquire_with<S: Future>(
    limiter: &(impl Limiter + ?Sized),
    permits: u64,
    timeout: Duration,
    mut sleep: impl FnMut(Duration) -> S,
) -> Result<(), Refusal> {
    let until = limiter.now().saturating_add(timeout);
    loop {
        match ask(limiter, permits, until)? {
            Answer::Decided(decision) => return decision.sleep_with(sleep).await,
            Answer::AskAgain(wait) => {
                sleep(wait).await;
            }
        }
    }
}

enum Answer {
    /// The result is final.
    Decided(Decision),
    /// Ask again after this time.
    AskAgain(Duration),
}

fn ask(
    limiter: &(impl Limiter + ?Sized),
    permits: u64,
    until: Timestamp,
) -> Result<Answer, Refusal> {
    let now = limiter.now();
    let decision = limiter.try_acquire_at(now, permits);
    let Some(refusal) = decision.refusal() else { return Ok(Answer::Decided(decision)) };
    match refusal.retry_at {
        Some(retry_at) if retry_at <= until => {
            // If a limiter returns a time that has passed, a pause prevents a busy loop.
            let wait = retry_at.saturating_since(now).max(Duration::from_nanos(1));
            Ok(Answer::AskAgain(wait))
        }
        _ => Err(refusal),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::flow::{LeakyBucket, Rate, Reason, TokenBucket};
    use crate::time::ManualClock;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn ten_a_second() -> Rate {
        Rate::new(10, ms(1_000)).unwrap()
    }

    /// The output of a future that never waits.
    fn now<F: Future>(future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the future is pending"),
        }
    }

    #[test]
    fn decision_sleeps_for_its_wait() {
        let refusal = Refusal::new(Reason::LimitReached, None);
        for (decision, expected, result) in [
            (Decision::Admitted(7), None, Ok(7)),
            (Decision::Wait(7, ms(3)), Some(ms(3)), Ok(7)),
            (Decision::Refused(refusal), None, Err(refusal)),
        ] {
            let mut slept = None;
            assert_eq!(decision.sleep_by(|wait| slept = Some(wait)), result);
            assert_eq!(slept, expected);
            let mut slept = None;
            let sleep = |wait| {
                slept = Some(wait);
                std::future::ready(())
            };
            assert_eq!(now(decision.sleep_with(sleep)), result);
            assert_eq!(slept, expected);
        }
    }

    #[test]
    fn permit_is_dropped_with_its_future() {
        let permit = std::sync::Arc::new(());
        let decision = Decision::Wait(permit.clone(), ms(3));
        let mut waiting = Box::pin(decision.sleep_with(|_| std::future::pending::<()>()));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending() && std::sync::Arc::strong_count(&permit) == 2);
        drop(waiting);
        assert_eq!(std::sync::Arc::strong_count(&permit), 1);
    }

    #[test]
    fn refused_request_sleeps_until_the_retry_time() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let bucket = TokenBucket::with_clock(ten_a_second(), 1, clock.clone());
        let mut slept = Vec::new();
        for _ in 0..3 {
            let sleep = |wait| {
                slept.push(wait);
                clock.advance(wait);
            };
            acquire_by(&bucket, 1, ms(100), sleep).unwrap();
        }
        assert_eq!(slept, [ms(100), ms(100)]);
        let sleep = |_| panic!("the timeout would pass");
        assert!(acquire_by(&bucket, 1, ms(99), sleep).is_err());
    }

    #[test]
    fn admitted_request_sleeps_for_its_wait() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let bucket = LeakyBucket::with_clock(ten_a_second(), ms(1_000), clock);
        let mut slept = Vec::new();
        for _ in 0..3 {
            acquire_by(&bucket, 1, Duration::ZERO, |wait| slept.push(wait)).unwrap();
            let sleep = |wait| {
                slept.push(wait);
                std::future::ready(())
            };
            now(acquire_with(&bucket, 1, Duration::ZERO, sleep)).unwrap();
        }
        assert_eq!(slept, [100, 200, 300, 400, 500].map(ms));
    }

    /// A limiter that refuses each request, with a time to ask again that has already passed.
    struct Hasty(ManualClock);

    impl Limiter for Hasty {
        fn now(&self) -> Timestamp {
            crate::time::Clock::now(&self.0)
        }

        fn try_acquire_at(&self, now: Timestamp, _permits: u64) -> Decision {
            Decision::Refused(Refusal::new(Reason::LimitReached, Some(now)))
        }
    }

    #[test]
    fn limiter_is_not_asked_without_a_pause() {
        let clock = ManualClock::new(Timestamp::from_secs(60));
        let mut pauses = 0;
        let sleep = |wait| {
            pauses += 1;
            clock.advance(wait);
        };
        let refused = acquire_by(&Hasty(clock.clone()), 1, Duration::from_nanos(3), sleep);
        assert!(refused.is_err());
        assert_eq!(pauses, 4);
    }
}
