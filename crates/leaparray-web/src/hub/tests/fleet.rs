use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leaparray::{Clock as _, ManualClock, Registry, RegistryConfig, Timestamp};

use super::{SECOND, START, take};
use crate::format::{Fleet, FleetUpdate, Message};
use crate::hub::steps::{SteppedViewer, Steps};
use crate::source::FleetSource;

/// A hub with a fleet whose newest final second is the number of the call.
struct Tested {
    clock: ManualClock,
    steps: Steps<ManualClock>,
    calls: Arc<AtomicU64>,
    /// Whether the function panics.
    is_broken: Arc<AtomicBool>,
}

impl Tested {
    fn new() -> Self {
        let (calls, is_broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, broken) = (Arc::clone(&calls), Arc::clone(&is_broken));
        let source = FleetSource::new(move || {
            let call = counted.fetch_add(1, Ordering::Relaxed) + 1;
            assert!(!broken.load(Ordering::Relaxed), "a function of the user");
            let mut fleet = Fleet::new("orders");
            fleet.newest_final = Some(call);
            Some(fleet)
        });
        Self::with(source, calls, is_broken)
    }

    fn with(source: FleetSource, calls: Arc<AtomicU64>, is_broken: Arc<AtomicBool>) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(START));
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let steps = Steps::with_fleet(Arc::new(registry), Duration::ZERO, source);
        Self { clock, steps, calls, is_broken }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn next_second(&mut self) {
        self.clock.advance(SECOND);
        self.steps.step(self.clock.now());
    }
}

fn fleets(viewer: &SteppedViewer) -> Vec<FleetUpdate> {
    let fleet = |message| match message {
        Message::Fleet(update) => Some(*update),
        _ => None,
    };
    take(viewer).into_iter().filter_map(fleet).collect()
}

fn newest(updates: &[FleetUpdate]) -> Vec<Option<u64>> {
    updates.iter().map(|it| it.fleet.as_ref().and_then(|it| it.newest_final)).collect()
}

#[test]
fn fleet_is_asked_for_once_a_second_for_all_viewers() {
    let mut tested = Tested::new();
    let viewers = [(); 3].map(|()| tested.steps.join(None, None).unwrap());
    for _ in 0..3 {
        tested.next_second();
    }
    assert_eq!(tested.calls(), 3);
    for viewer in &viewers {
        let updates = fleets(viewer);
        assert_eq!(newest(&updates), [Some(1), Some(2), Some(3)]);
        #[expect(clippy::float_cmp, reason = "whole numbers")]
        let is_now = updates[2].now == 1_003.0;
        assert!(is_now, "{}", updates[2].now);
    }
}

#[test]
fn fleet_is_not_asked_for_without_viewers() {
    let mut tested = Tested::new();
    tested.next_second();
    assert_eq!(tested.calls(), 0);
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    assert_eq!(tested.calls(), 1);
    drop(viewer);
    tested.next_second();
    assert_eq!(tested.calls(), 1);
    // Figures from before the pause are not sent as those of now.
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.welcome();
    assert_eq!(newest(&fleets(&viewer)), []);
    tested.next_second();
    assert_eq!(newest(&fleets(&viewer)), [Some(2)]);
}

#[test]
fn viewer_that_joins_between_two_seconds_gets_the_newest_fleet_at_once() {
    let mut tested = Tested::new();
    let _first = tested.steps.join(None, None).unwrap();
    tested.next_second();
    tested.next_second();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.steps.welcome();
    assert_eq!(newest(&fleets(&viewer)), [Some(2)]);
    assert_eq!(tested.calls(), 2);
}

#[test]
fn function_that_panics_leaves_the_seconds_and_no_figures() {
    let mut tested = Tested::new();
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    tested.is_broken.store(true, Ordering::Relaxed);
    tested.next_second();
    let messages = take(&viewer);
    assert!(matches!(messages.last(), Some(Message::Fleet(it)) if it.fleet.is_none()));
    let seconds = messages.iter().filter(|it| matches!(it, Message::Second(_))).count();
    assert_eq!(seconds, 2);
    tested.is_broken.store(false, Ordering::Relaxed);
    tested.next_second();
    assert_eq!(newest(&fleets(&viewer)), [Some(3)]);
}

#[test]
fn function_runs_without_a_lock_that_requests_wait_for() {
    let viewers = Arc::new(OnceLock::<Arc<crate::hub::Viewers>>::new());
    let found = Arc::new(AtomicU64::new(0));
    let (of_page, counted) = (Arc::clone(&viewers), Arc::clone(&found));
    let source = FleetSource::new(move || {
        // Takes the lock of the viewers: the test would not end if it were held.
        counted.store(of_page.get()?.len() as u64, Ordering::Relaxed);
        None
    });
    let mut tested = Tested::with(source, Arc::default(), Arc::default());
    viewers.set(tested.steps.shared_viewers()).unwrap();
    let _viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    assert_eq!(found.load(Ordering::Relaxed), 1);
}

#[test]
fn page_without_a_fleet_sends_none() {
    let mut tested = Tested::with(FleetSource::default(), Arc::default(), Arc::default());
    let viewer = tested.steps.join(None, None).unwrap();
    tested.next_second();
    assert!(fleets(&viewer).is_empty());
}
