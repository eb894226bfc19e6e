//! The wait of an admitted request. The controllers themselves never block.

use std::thread;
use std::time::Duration;

use crate::flow::contract::{Decision, Delayed, Refusal};

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

    /// Waits for the [wait](Self::wait), and returns the permit. `sleep` returns a future that
    /// completes after the given time, as the `sleep` function of an async runtime does.
    ///
    /// If the future is dropped during the wait, the permit is dropped. The permits of a limiter
    /// that uses a rate are then spent.
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
}

#[cfg(all(test, not(loom)))]
mod tests;
