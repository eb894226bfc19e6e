//! The task of a limiter: it sends the asks.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{Clock, Timestamp};
use tokio::time::{sleep, timeout};

use super::shared::{Shared, Step};
use crate::engine::{Engine, EngineError};
use crate::lease::{Answer, Ask, LeaseConfig};
use crate::random;

/// The longest wait between two asks after failures.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Sends the asks of a limiter, one at a time.
#[derive(Debug)]
pub(super) struct Driver<C, E> {
    pub(super) shared: Arc<Shared<C>>,
    pub(super) engine: E,
    pub(super) config: LeaseConfig,
    pub(super) answer_timeout: Duration,
}

/// Also if the engine has panicked, or if the runtime ends: a request that waits for an answer
/// would wait for ever.
impl<C, E> Drop for Driver<C, E> {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl<C: Clock, E: Engine> Driver<C, E> {
    /// Runs until the limiter is closed, and gives all permits back. Ends in a forked child: the
    /// permits and the connection are those of the parent.
    pub(super) async fn run(self) {
        let mut failures = 0;
        while !self.shared.is_closing() {
            if self.shared.is_forked() {
                return;
            }
            match self.shared.step(self.shared.clock.now()) {
                Step::Send(ask) => failures = self.send(ask, failures).await,
                Step::Wait(until) => self.wait(until).await,
            }
        }
        if !self.shared.is_forked()
            && let Some(ask) = self.shared.last_ask(self.shared.clock.now())
        {
            // If it is lost, the permits are charged until the end of their leases.
            drop(self.ask(ask).await);
        }
    }

    /// Sends an ask and takes its answer. Returns the number of failures in a row.
    async fn send(&self, ask: Ask, failures: u32) -> u32 {
        let answer = self.ask(ask).await;
        let now = self.shared.clock.now();
        match answer {
            Ok(answer) => {
                self.shared.on_answer(now, &answer);
                0
            }
            Err(error) => {
                let retry_at = now.saturating_add(self.backoff(failures));
                self.shared.on_lost(now, retry_at, error.to_string());
                failures.saturating_add(1)
            }
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, EngineError> {
        let nonce = random::exact().map_err(|it| EngineError::Randomness(it.into()))?;
        let ask = Ask { nonce, ..ask };
        let answer = self.engine.lease(&self.shared.keys, &self.config, &ask);
        let after = self.answer_timeout;
        let mut answer = pin!(timeout(after, answer));
        loop {
            let begins = self.shared.begins().saturating_since(self.shared.clock.now());
            tokio::select! {
                answer = &mut answer => return answer.unwrap_or(Err(EngineError::Timeout { after })),
                () = sleep(begins) => self.shared.begin(self.shared.clock.now()),
            }
        }
    }

    /// Waits until a time, or until woken.
    async fn wait(&self, until: Option<Timestamp>) {
        let woken = self.shared.wake.notified();
        let Some(until) = until else { return woken.await };
        let span = until.saturating_since(self.shared.clock.now());
        tokio::select! {
            () = woken => {}
            () = sleep(span) => {}
        }
    }

    /// Returns the wait after a failure: twice as long after each one, and drawn at random from its
    /// upper half, so that the nodes do not ask at the same time when the server is back.
    fn backoff(&self, failures: u32) -> Duration {
        let first = self.config.min_gap().clamp(Duration::from_millis(10), MAX_BACKOFF);
        let longest = first.saturating_mul(1 << failures.min(10)).min(MAX_BACKOFF);
        longest.mul_f64(0.5 + random::fraction() / 2.0)
    }
}
