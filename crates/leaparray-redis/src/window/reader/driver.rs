//! The task of a reader.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leaparray::{Clock, MonotonicClock};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};

use super::Shared;
use crate::engine::{EngineError, FleetEngine};
use crate::fleet::FleetConfig;
use crate::window::backoff::backoff;
use crate::window::state::FleetState;

type Poll = oneshot::Sender<Result<(), EngineError>>;

/// Asks the task to poll.
#[derive(Debug)]
pub(super) struct PollAsk(mpsc::Sender<Poll>);

/// Returns both ends.
pub(super) fn polls() -> (PollAsk, mpsc::Receiver<Poll>) {
    let (sender, receiver) = mpsc::channel(16);
    (PollAsk(sender), receiver)
}

impl PollAsk {
    pub(super) async fn ask(&self) -> Result<(), EngineError> {
        let (sender, answer) = oneshot::channel();
        let ended = || EngineError::Server("the task of the reader has ended".into());
        self.0.send(sender).await.map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// Asks the server, and adds the answers.
pub(super) struct Driver<E> {
    pub(super) shared: Arc<Shared>,
    pub(super) engine: E,
    pub(super) config: FleetConfig,
    pub(super) period: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) asked: mpsc::Receiver<Poll>,
}

/// Also if the engine has panicked, or if the runtime ends.
impl<E> Drop for Driver<E> {
    fn drop(&mut self) {
        self.shared.state.send_replace(FleetState::Closed);
    }
}

impl<E: FleetEngine> Driver<E> {
    pub(super) async fn run(mut self) {
        let (mut failures, mut next) = (0, Instant::now());
        loop {
            let ask = tokio::select! {
                ask = self.asked.recv() => ask,
                () = sleep_until(next) => None,
            };
            // The connection belongs to the parent.
            if self.shared.starter.is_elsewhere() {
                return;
            }
            let begin = Instant::now();
            let result = self.poll().await;
            failures = if result.is_ok() { 0 } else { failures + 1 };
            next = match failures {
                0 => begin + self.period.min(self.shared.view().ask_within()),
                _ => Instant::now() + backoff(failures).max(self.period),
            };
            let error = result.as_ref().err().map(ToString::to_string);
            self.shared.state.send_if_modified(|state| {
                let after = state.after(MonotonicClock::new().now(), error);
                let is_new = *state != after;
                *state = after;
                is_new
            });
            if let Some(ask) = ask {
                // The caller may have given up.
                drop(ask.send(result));
            }
        }
    }

    /// Reads the records, and then all that is not known of the seconds. The next poll goes on if
    /// it takes too long.
    async fn poll(&self) -> Result<(), EngineError> {
        let end = Instant::now() + self.period;
        let Shared { keys, .. } = &*self.shared;
        let survey = self.answer(self.engine.survey(keys, &self.config)).await?;
        wait(self.add(move |shared| shared.view().on_survey(&survey))).await;
        self.name().await?;
        let (mut wanted, mut adding) = (self.shared.view().wanted(), None);
        while let Some(fetch) = wanted {
            // The answer before is added at the same time.
            let found = self.engine.second(keys, &self.config, fetch.second, &fetch.processes);
            let found = self.answer(found).await?;
            self.added(adding.take()).await?;
            let fetch = Arc::new(fetch);
            let of = Arc::clone(&fetch);
            adding = Some(self.add(move |shared| shared.on_fetched(&of, &found)));
            let is_over = Instant::now() >= end;
            wanted = if is_over { None } else { self.shared.view().wanted_beside(Some(&fetch)) };
        }
        self.added(adding).await
    }

    /// Reads names until all are known, or the server does not have them.
    async fn name(&self) -> Result<(), EngineError> {
        loop {
            let wanted = self.shared.view().wanted_names();
            if wanted.is_empty() {
                return Ok(());
            }
            let names = self.answer(self.engine.names(&self.shared.keys, &wanted)).await?;
            let adding = self.add(move |shared| shared.view().on_names(&wanted, &names));
            wait(adding).await;
        }
    }

    /// Waits until an answer is added, if there is one, reads the names that it needs, and tells of
    /// a new final second.
    async fn added(&self, adding: Option<JoinHandle<()>>) -> Result<(), EngineError> {
        if let Some(adding) = adding {
            wait(adding).await;
        }
        self.name().await?;
        let newest = self.shared.view().newest_final();
        self.shared.newest.send_if_modified(|it| std::mem::replace(it, newest) != newest);
        Ok(())
    }

    /// Adds an answer on another thread: it takes some milliseconds, in which this one serves other
    /// tasks.
    fn add(&self, add: impl FnOnce(&Shared) + Send + 'static) -> JoinHandle<()> {
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || add(&shared))
    }

    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let after = self.answer_timeout;
        timeout(after, answer).await.unwrap_or(Err(EngineError::Timeout { after }))
    }
}

async fn wait(adding: JoinHandle<()>) {
    if let Err(error) = adding.await {
        // The runtime ends, or there is a bug, and the task ends with the same panic.
        if let Ok(panic) = error.try_into_panic() {
            std::panic::resume_unwind(panic);
        }
    }
}
