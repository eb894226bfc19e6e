//! The hub, with a clock that is set by hand.

mod changes;
mod detail;
mod fleet;
mod late;
mod listing;
mod seconds;
mod task;
mod verdicts;
mod viewers;

use std::sync::Arc;
use std::time::Duration;

use leaparray::{
    Clock as _, Entry, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig,
    Timestamp,
};

use super::steps::{SteppedViewer, Steps};
use crate::format::{Message, Second};

const SECOND: Duration = Duration::from_secs(1);
const START: u64 = 1_000;

/// A registry whose nodes have histograms, and its hub.
struct Tested {
    clock: ManualClock,
    registry: Arc<Registry<ManualClock>>,
    steps: Steps<ManualClock>,
}

impl Tested {
    fn new() -> Self {
        let node = NodeConfig::default().with_histogram(HistogramConfig::default());
        Self::with_node(node)
    }

    fn with_node(node: NodeConfig) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(START));
        let config = RegistryConfig::default().node(node);
        let registry = Arc::new(Registry::with_clock(config, clock.clone()));
        let steps = Steps::new(Arc::clone(&registry));
        Self { clock, registry, steps }
    }

    /// Ends the second, and reads it.
    fn next_second(&mut self) {
        self.clock.advance(SECOND);
        self.steps.step(self.clock.now());
    }

    fn succeed(&self, name: &str, millis: u64) {
        let entry = Entry::enter(self.registry.resource(name).unwrap());
        let end = self.clock.now().saturating_add(Duration::from_millis(millis));
        entry.end_at(end, Outcome::Success);
    }
}

/// Takes all messages.
fn take(viewer: &SteppedViewer) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(bytes) = viewer.take() {
        let is_last = bytes.is_err();
        let bytes = bytes.unwrap_or_else(|bye| bye);
        let line = std::str::from_utf8(&bytes).unwrap();
        assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?} is one line");
        messages.push(Message::parse(line).unwrap().expect("its type is known"));
        if is_last {
            break;
        }
    }
    messages
}

/// Takes all messages, and returns the seconds.
fn take_seconds(viewer: &SteppedViewer) -> Vec<Second> {
    let messages = take(viewer).into_iter();
    let second = |message| match message {
        Message::Second(second) => Some(second),
        _ => None,
    };
    messages.filter_map(second).collect()
}
