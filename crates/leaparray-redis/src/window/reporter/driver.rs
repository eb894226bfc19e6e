//! The task of a reporter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaparray::{Clock, Timestamp};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use crate::engine::{EngineError, FleetEngine};
use crate::fleet::{Collector, FleetConfig, Outbox, ProcessId, Receipt};
use crate::random;
use crate::window::backoff::backoff;
use crate::window::state::FleetState;

/// How long after its end a second is read: a thread may have read the clock just before, and
/// record only now.
const DELAY: Duration = Duration::from_millis(50);
/// How many calls in a row without an answer end the last deliveries.
const LAST_TRIES: u32 = 2;

/// Reads a registry after each second, and delivers what it has found.
pub(super) struct Driver<C, E> {
    pub(super) shared: Arc<Shared>,
    pub(super) engine: E,
    pub(super) config: FleetConfig,
    pub(super) answer_timeout: Duration,
    pub(super) clock: C,
}

/// Also if a reading or the engine has panicked, or if the runtime ends.
impl<C, E> Drop for Driver<C, E> {
    fn drop(&mut self) {
        self.shared.state.send_replace(FleetState::Closed);
    }
}

impl<C: Clock + Clone + Send + Sync + 'static, E: FleetEngine> Driver<C, E> {
    /// Runs until the reporter is closed. Ends in a forked child: the identity and the connection
    /// are those of the parent.
    pub(super) async fn run(self, mut collector: Collector<C>, mut outbox: Outbox) {
        // At once, so that readers know the process before its first second is over.
        let mut failures = self.send(&mut outbox, 0).await;
        let mut retry = self.clock.now();
        loop {
            let next_second = Timestamp::from_secs(outbox.end() + 1).saturating_add(DELAY);
            let wake_at = if failures > 0 { next_second.min(retry) } else { next_second };
            let closed = self.shared.close.notified();
            tokio::select! {
                () = closed => break,
                () = sleep(wake_at.saturating_since(self.clock.now())) => {}
            }
            if self.shared.starter.is_elsewhere() {
                return;
            }
            if self.clock.now() >= next_second {
                let Some(read) = self.collect(collector, outbox).await else { return };
                (collector, outbox) = read;
            } else if failures == 0 || self.clock.now() < retry {
                // The registry and the runtime have different clocks.
                continue;
            }
            failures = self.send(&mut outbox, failures).await;
            retry = self.clock.now().saturating_add(backoff(failures));
        }
        self.leave(collector, outbox).await;
    }

    /// Delivers the current second after its end, and says that there is no other.
    async fn leave(&self, collector: Collector<C>, outbox: Outbox) {
        let end = Timestamp::from_secs(self.clock.now().as_secs() + 1).saturating_add(DELAY);
        sleep(end.saturating_since(self.clock.now())).await;
        let Some((_, mut outbox)) = self.collect(collector, outbox).await else { return };
        outbox.leave();
        // After an answer that decides nothing, such as one to a clock that is ahead, the server's
        // time may come.
        let end = Instant::now() + Duration::from_micros(self.config.lost_after_micros());
        let (mut failures, mut tries) = (0, 0);
        while !outbox.is_done() && failures < LAST_TRIES && (tries == 0 || Instant::now() < end) {
            if tries > 0 {
                sleep(backoff(tries)).await;
            }
            failures = self.send(&mut outbox, failures).await;
            tries += 1;
        }
    }

    /// Reads the finished seconds. Returns `None` if the reading has panicked.
    async fn collect(
        &self,
        mut collector: Collector<C>,
        mut outbox: Outbox,
    ) -> Option<(Collector<C>, Outbox)> {
        let now = self.clock.now();
        // It takes some milliseconds, in which this thread serves other tasks.
        let reading = spawn_blocking(move || {
            collector.collect_into(now, &mut outbox);
            (collector, outbox)
        });
        let (collector, outbox) = reading.await.ok()?;
        self.shared.set_record(outbox.record());
        Some((collector, outbox))
    }

    /// Delivers until nothing waits, or a call gets no answer. Returns the number of failures in a
    /// row.
    async fn send(&self, outbox: &mut Outbox, failures: u32) -> u32 {
        loop {
            let answer = self.deliver(outbox).await;
            let now = self.clock.now();
            let error = match &answer {
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            };
            self.shared.state.send_if_modified(|state| {
                let after = state.after(now, error);
                let is_new = *state != after;
                *state = after;
                is_new
            });
            let Ok(receipt) = answer else { return failures.saturating_add(1) };
            let has_more = outbox.on_receipt(now.as_micros(), &receipt) || self.rename(outbox);
            self.shared.set_record(outbox.record());
            if !has_more {
                return 0;
            }
        }
    }

    /// Takes another identity, if another process delivers under the one of this process. Returns
    /// whether it has: without a random number, the next delivery is told the same.
    fn rename(&self, outbox: &mut Outbox) -> bool {
        let number = outbox.is_taken().then(random::number);
        let Some(Ok(number)) = number else { return false };
        report_taken(&self.shared, number);
        outbox.rename(ProcessId(number));
        self.shared.process.store(number, Ordering::Relaxed);
        true
    }

    async fn deliver(&self, outbox: &mut Outbox) -> Result<Receipt, EngineError> {
        let nonce = random::number().map_err(|it| EngineError::Randomness(it.into()))?;
        outbox.set_nonce(nonce);
        let delivery = outbox.delivery(self.clock.now().as_micros());
        let answer = self.engine.deliver(&self.shared.keys, &self.config, &delivery);
        let after = self.answer_timeout;
        timeout(after, answer).await.unwrap_or(Err(EngineError::Timeout { after }))
    }
}

/// Emits an event that another process has the identity of this one.
#[cfg(feature = "tracing")]
fn report_taken(shared: &Shared, number: u64) {
    let (fleet, process) = (shared.keys.name(), ProcessId(number));
    tracing::warn!(fleet, %process, "another process delivers under the identity of this one");
}

#[cfg(not(feature = "tracing"))]
const fn report_taken(_shared: &Shared, _number: u64) {}
