//! The reader: reads the seconds of a fleet.

mod builder;
mod driver;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::state::FleetState;
use crate::engine::EngineError;
use crate::fleet::{DecodedSecond, Fetch, FleetKeys, FleetView, FleetWindow, decode};
use crate::fork::Starter;

pub use builder::FleetReaderBuilder;

/// Reads the seconds of a fleet, each once, and adds them up.
///
/// A task asks the server once a second. The last minute is in memory: a reading waits for nothing.
/// When the reader is dropped, the task ends. See [`FleetReporter`](super::FleetReporter) for an
/// example.
pub struct FleetReader {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    poll: driver::PollAsk,
}

/// The state that the task and its handle share.
#[derive(Debug)]
struct Shared {
    keys: FleetKeys,
    starter: Starter,
    view: Mutex<FleetView>,
    state: watch::Sender<FleetState>,
    /// The newest final second.
    newest: watch::Sender<Option<u64>>,
}

impl FleetReader {
    /// Returns the settings of a reader of the fleet `fleet`.
    pub fn builder(fleet: &str) -> FleetReaderBuilder {
        FleetReaderBuilder::new(fleet)
    }

    /// Returns the keys of the fleet on the server.
    #[must_use]
    pub fn keys(&self) -> &FleetKeys {
        &self.shared.keys
    }

    /// Returns the newest second that is final; see [`FleetView::last_second`].
    #[must_use]
    pub fn last_second(&self) -> Option<FleetWindow> {
        self.with(FleetView::last_second)
    }

    /// Returns the last minute; see [`FleetView::last_minute`].
    #[must_use]
    pub fn last_minute(&self) -> Option<FleetWindow> {
        self.with(FleetView::last_minute)
    }

    /// Returns what `read` returns of the fleet.
    ///
    /// Blocks while the task adds a part of what it has read: some milliseconds with a thousand
    /// processes. Keeps the task waiting as long as `read` runs.
    pub fn with<T>(&self, read: impl FnOnce(&FleetView) -> T) -> T {
        read(&self.shared.view())
    }

    /// Asks the server now, and returns after the answers were added. If that takes longer than a
    /// [period](FleetReaderBuilder::with_period), the next poll goes on: [`FleetView::wanted`]
    /// tells whether there is more.
    ///
    /// # Errors
    ///
    /// Returns the [`EngineError`] of the first call that got no answer.
    pub async fn poll(&self) -> Result<(), EngineError> {
        self.poll.ask().await
    }

    /// Returns the number of the newest second that is final, and its changes.
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<Option<u64>> {
        self.shared.newest.subscribe()
    }

    /// Returns whether the reader reaches the server.
    #[must_use]
    pub fn state(&self) -> FleetState {
        if self.shared.starter.is_elsewhere() {
            return FleetState::Forked;
        }
        self.shared.state.borrow().clone()
    }

    /// Returns the state and its changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<FleetState> {
        self.shared.state.subscribe()
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, FleetView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was read of a second. The view is locked for one process after the other.
    fn on_fetched(&self, fetch: &Fetch, bytes: &[Option<Vec<u8>>]) {
        let mut decoded = DecodedSecond::default();
        for (process, bytes) in fetch.processes.iter().zip(bytes) {
            let part = decode(fetch.second, bytes.as_deref(), &mut decoded);
            self.view().on_part(*process, fetch.second, part);
        }
        self.view().on_fetched_all(fetch);
    }
}

impl Drop for FleetReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for FleetReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetReader")
            .field("fleet", &self.shared.keys.name())
            .finish_non_exhaustive()
    }
}
