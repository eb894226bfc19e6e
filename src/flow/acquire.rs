//! What sleeps: beside the controllers, not in them.

use std::thread;
use std::time::Duration;

use super::{Decision, Limiter, Refusal};
use crate::timestamp::Timestamp;

impl<P> Decision<P> {
    /// Waits on this thread for as long as it says, and gives what it holds.
    ///
    /// # Errors
    ///
    /// The refusal, at once.
    pub fn sleep(self) -> Result<P, Refusal> {
        let (permit, wait) = self.into_result()?;
        pause(wait);
        Ok(permit)
    }

    /// Waits for as long as it says by `sleep`, such as a runtime's, and gives what it holds.
    ///
    /// If the future is dropped meanwhile, so is what it holds. What was taken of a rate is spent then.
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

/// Asks for `permits` until they are admitted, and sleeps on this thread meanwhile and until they may be
/// used. The time is the limiter's.
///
/// A limiter that has requests wait decides itself how long; `patience` is for asking again.
///
/// # Errors
///
/// The refusal, as soon as it is known that the time to ask again comes after `patience` has run out, or
/// never.
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
    patience: Duration,
) -> Result<(), Refusal> {
    let until = limiter.now().saturating_add(patience);
    loop {
        match ask(limiter, permits, until)? {
            Answer::Admitted(wait) => {
                pause(wait);
                return Ok(());
            }
            Answer::AskAgain(wait) => pause(wait),
        }
    }
}

/// The same, with `sleep` for sleeping: a runtime's, or one that advances a clock by hand.
///
/// If the future is dropped while it waits to ask again, nothing was taken; if it is while it waits to go
/// ahead, what was taken is spent.
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
    patience: Duration,
    mut sleep: impl FnMut(Duration) -> S,
) -> Result<(), Refusal> {
    let until = limiter.now().saturating_add(patience);
    loop {
        match ask(limiter, permits, until)? {
            Answer::Admitted(Duration::ZERO) => return Ok(()),
            Answer::Admitted(wait) => {
                sleep(wait).await;
                return Ok(());
            }
            Answer::AskAgain(wait) => {
                sleep(wait).await;
            }
        }
    }
}

enum Answer {
    /// Go ahead after so long.
    Admitted(Duration),
    /// Ask again after so long.
    AskAgain(Duration),
}

fn ask(
    limiter: &(impl Limiter + ?Sized),
    permits: u64,
    until: Timestamp,
) -> Result<Answer, Refusal> {
    let now = limiter.now();
    match limiter.try_acquire_at(now, permits) {
        Decision::Admitted(()) => Ok(Answer::Admitted(Duration::ZERO)),
        Decision::Wait((), wait) => Ok(Answer::Admitted(wait)),
        Decision::Refused(refusal) => match refusal.retry_at {
            Some(retry_at) if retry_at <= until => {
                Ok(Answer::AskAgain(retry_at.saturating_since(now)))
            }
            _ => Err(refusal),
        },
    }
}

fn pause(wait: Duration) {
    if !wait.is_zero() {
        thread::sleep(wait);
    }
}
