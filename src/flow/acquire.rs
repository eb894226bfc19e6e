//! Waiting for a decision. The controllers themselves do not sleep.

use std::thread;
use std::time::Duration;

use super::{Decision, Limiter, Refusal};
use crate::time::Timestamp;

impl<P> Decision<P> {
    /// Sleeps on this thread for the wait of the decision, and returns the permit.
    ///
    /// # Errors
    ///
    /// The refusal, at once.
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

    /// Waits for the wait of the decision by `sleep`, such as that of a runtime, and returns the permit.
    ///
    /// If the future is dropped during the wait, the permit is dropped. Permits that were taken of a rate are spent then.
    ///
    /// # Errors
    ///
    /// The refusal, at once.
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

/// Asks for `permits` until they are admitted. Sleeps on this thread until it asks again, and until the request may go ahead.
/// Times are those of the limiter's clock.
///
/// `timeout` limits the time until the last attempt. The wait of an admitted request is bounded by the limiter.
///
/// # Errors
///
/// The refusal, as soon as the next time to ask again is after the timeout, or unknown.
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

/// The same, with `sleep` for sleeping: that of a runtime, or one that advances a clock by hand.
///
/// If the future is dropped while it waits to ask again, no permit was taken. If it is dropped while it waits to go ahead,
/// the permits are spent.
///
/// # Errors
///
/// As of [`acquire_blocking`].
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
            Poll::Pending => panic!("it waits"),
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
    fn refused_request_sleeps_until_the_time_to_ask_again() {
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

    /// A limiter that refuses with a time to ask again that has passed.
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
