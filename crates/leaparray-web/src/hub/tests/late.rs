//! Readings that are late, so that seconds have begun to leave the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaparray::MetricEvent::Block;
use leaparray::flow::Reason::Failing;
use leaparray::{
    Clock, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp, WindowConfig,
};

use super::{SECOND, START, Tested, take, take_seconds};
use crate::format::{Message, Second};
use crate::hub::DELAY;
use crate::hub::frame::SERIALIZED;
use crate::hub::steps::{SteppedViewer, Steps};

/// A clock that advances by 100 ms after its next use, if it is told to.
#[derive(Clone)]
struct Hasty {
    clock: ManualClock,
    is_hasty: Arc<AtomicBool>,
}

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        if self.is_hasty.swap(false, Ordering::Relaxed) {
            self.clock.advance(Duration::from_millis(100));
        }
        now
    }
}

/// A registry with a window of 1.5 s: a second is whole in it up to half a second after its end.
struct Short {
    clock: Hasty,
    registry: Arc<Registry<Hasty>>,
    steps: Steps<Hasty>,
    viewer: SteppedViewer,
}

impl Short {
    fn new() -> Self {
        let long = WindowConfig::new(3, Duration::from_millis(1_500)).unwrap();
        let config = RegistryConfig::default().node(NodeConfig::new(long, long).unwrap());
        let clock = ManualClock::new(Timestamp::from_secs(START));
        let clock = Hasty { clock, is_hasty: Arc::default() };
        let registry = Arc::new(Registry::with_clock(config, clock.clone()));
        let steps = Steps::with_delay(Arc::clone(&registry), DELAY);
        let viewer = steps.join(None, None).unwrap();
        Self { clock, registry, steps, viewer }
    }

    fn read_at(&mut self, millis: u64) {
        self.clock.clock.set(Timestamp::from_millis(START * 1_000 + millis));
        self.steps.step(Timestamp::from_millis(START * 1_000 + millis));
    }

    fn refuse(&self) {
        self.registry.resource("orders").unwrap().refuse(Failing);
    }
}

fn seconds(messages: &[Message]) -> Vec<&Second> {
    let mut found = Vec::new();
    for message in messages {
        if let Message::Second(second) = message {
            found.push(second);
        }
    }
    found
}

#[test]
fn reading_that_comes_too_late_for_its_second_leaves_the_changes_to_the_next_one() {
    let mut short = Short::new();
    short.read_at(1_050);
    short.refuse();
    short.read_at(2_520);
    short.refuse();
    short.read_at(3_050);
    let messages = take(&short.viewer);
    let seconds = seconds(&messages);
    let last = seconds.last().unwrap();
    assert!(seconds.iter().all(|it| it.t != START + 1), "it is not whole any more");
    assert_eq!((last.t, last.new.len(), last.rows.len()), (START + 2, 1, 1));
    assert_eq!(
        last.rows[0].counts.events[Block], 1,
        "the other one is in the second that is not whole"
    );
    assert_eq!(last.refused.as_ref().unwrap()[0].counts[Failing], 1);
}

#[test]
fn reading_whose_second_leaves_the_window_meanwhile_lists_the_nodes_again() {
    let mut short = Short::new();
    short.read_at(1_050);
    short.refuse();
    take(&short.viewer);
    short.clock.is_hasty.store(true, Ordering::Relaxed);
    short.read_at(2_450);
    let messages = take(&short.viewer);
    let [Message::Resources(resources)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(resources.resources.len(), 1);
    short.refuse();
    short.read_at(3_050);
    short.refuse();
    short.read_at(4_050);
    let messages = take(&short.viewer);
    let refused: Vec<_> = seconds(&messages).iter().map(|it| it.refused.is_some()).collect();
    assert_eq!(refused, [false, true], "those of the second that was not sent are not known");
}

/// The time of a reading was taken before it waited for its thread.
#[test]
fn second_is_missing_and_not_incomplete_if_its_reading_waits() {
    let mut tested = Tested::new();
    let orders = tested.registry.resource("orders").unwrap();
    orders.block();
    tested.clock.advance(59 * SECOND + Duration::from_millis(990));
    let now = tested.clock.now();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.clock.advance(Duration::from_millis(20));
    // Replaces the bucket of the first record.
    orders.block();
    tested.steps.step(now);
    assert!(take_seconds(&viewer).iter().all(|it| it.t != START));
}

#[test]
fn history_of_a_long_window_is_a_minute() {
    let long = WindowConfig::new(3_600, 3_600 * SECOND).unwrap();
    let short = WindowConfig::new(1, SECOND).unwrap();
    let mut tested = Tested::with_node(NodeConfig::new(short, long).unwrap());
    tested.succeed("orders", 1);
    for _ in 0..200 {
        tested.clock.advance(SECOND);
        tested.succeed("orders", 1);
    }
    let viewer = tested.steps.join(None, None).unwrap();
    let before = SERIALIZED.get();
    tested.steps.step(tested.clock.now());
    assert_eq!(
        SERIALIZED.get() - before,
        62,
        "the seconds of a minute, the nodes, and the gap before"
    );
    let seconds: Vec<_> = take_seconds(&viewer).iter().map(|it| it.t - START).collect();
    assert_eq!(seconds, (140..200).collect::<Vec<_>>());
}
