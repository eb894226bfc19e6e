//! The evidence of epochs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use leaparray::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan};
use leaparray::flow::{AdaptiveLimiter, FeedbackPermit, LimiterExt};
use leaparray::{Clock, ManualClock, Outcome, Timestamp};

use super::{NOON, Scene, Script, TENTH, Told, millis};

#[test]
fn calls_are_told_by_the_epoch_in_which_they_began() {
    let script = Script::new([LimitPlan::epoch(4, TENTH), LimitPlan::epoch(6, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    let slow = [scene.call(), scene.call()];
    scene.clock.advance(millis(30));
    scene.call().reject();
    let cancelled = scene.call();
    scene.clock.advance(millis(20));
    cancelled.cancel();
    scene.clock.advance(millis(50));
    // The next epoch: it begins with the call that finds the first one over.
    let later = scene.call();
    let [one, other] = slow;
    scene.clock.advance(millis(50));
    one.accept();
    scene.clock.advance(millis(50));
    later.accept();
    let first = Told {
        start: NOON,
        end: NOON.saturating_add(TENTH),
        limit: 4,
        peak_in_flight: 3,
        begun: 3,
        mean_permits: 1.0,
        permits: 4,
        returned: 2,
        exceptions: 1,
        unfinished: 1,
        response_times: vec![millis(150); 2],
        cancelled: vec![millis(20); 2],
    };
    assert_eq!(*told.lock().unwrap(), [first]);
    assert_eq!(scene.limiter.limit(), 6);
    other.accept();
}

#[test]
fn time_far_ahead_does_not_put_off_the_plans() {
    let hour = NOON.saturating_add(millis(3_600_000));
    for ahead in [hour, Timestamp::MAX] {
        let scene =
            Scene::new(Script::new([LimitPlan::epoch(4, TENTH), LimitPlan::epoch(6, TENTH)]));
        scene.limiter.try_acquire_at(ahead, 1).at_once().unwrap().end_at(ahead, Outcome::Success);
        for _ in 0..30 {
            scene.call().accept();
            scene.clock.advance(TENTH);
        }
        assert_eq!(scene.limiter.limit(), 6);
    }
}

/// As if the clock of one of two callers was wrong.
#[test]
fn times_far_ahead_that_come_again_do_not_put_off_the_plans() {
    let hour = NOON.saturating_add(millis(3_600_000));
    for ahead in [hour, Timestamp::MAX] {
        let scene =
            Scene::new(Script::new([LimitPlan::epoch(4, TENTH), LimitPlan::epoch(6, TENTH)]));
        for _ in 0..30 {
            let wrong = scene.limiter.try_acquire_at(ahead, 1).at_once().unwrap();
            wrong.end_at(ahead, Outcome::Success);
            scene.call().accept();
            scene.clock.advance(TENTH);
        }
        assert_eq!(scene.limiter.limit(), 6);
    }
}

#[test]
fn epoch_is_told_again_after_a_panic() {
    struct PanicsOnce(Script, bool);
    impl LimitAlgorithm for PanicsOnce {
        fn first_plan(&mut self) -> LimitPlan {
            self.0.first_plan()
        }

        fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
            let plan = self.0.next_plan(evidence);
            assert!(std::mem::replace(&mut self.1, true), "once");
            plan
        }
    }
    let script = Script::new([LimitPlan::epoch(9, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(PanicsOnce(script, false));
    for calls in 1..=5 {
        for _ in 0..calls {
            // Fails once, in the call that begins the third epoch.
            let _ = catch_unwind(AssertUnwindSafe(|| scene.call().accept()));
        }
        scene.clock.advance(TENTH);
    }
    let told: Vec<_> = told.lock().unwrap().iter().map(|it| (it.start, it.begun)).collect();
    let start = |tenths| NOON.saturating_add(TENTH * tenths);
    let first = (start(0), 1);
    // The call that fails does not begin.
    assert_eq!(told, [first, first, (start(1), 2), (start(2), 2)]);
}

/// Notes what it is told. The first plan after an epoch waits until `goes_on` is set.
struct Stalls {
    script: Script,
    has_stalled: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

impl LimitAlgorithm for Stalls {
    fn first_plan(&mut self) -> LimitPlan {
        self.script.first_plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        self.has_stalled.store(true, Relaxed);
        while !self.goes_on.load(Relaxed) {
            thread::yield_now();
        }
        self.script.next_plan(evidence)
    }
}

/// While a thread makes a plan, calls count in an epoch that is over.
#[test]
fn epoch_whose_plan_stalls_lasts_as_long_as_its_calls_come() {
    let script = Script::new([LimitPlan::epoch(1_000, TENTH)]);
    let told = script.told.clone();
    let [has_stalled, goes_on] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (stalled, go) = (has_stalled.clone(), goes_on.clone());
    let scene = Scene::new(Stalls { script, has_stalled, goes_on });
    for _ in 0..2 {
        scene.call().accept();
        scene.clock.advance(TENTH);
    }
    thread::scope(|scope| {
        scope.spawn(|| scene.call().accept());
        while !stalled.load(Relaxed) {
            thread::yield_now();
        }
        // 50 calls in half a second.
        for _ in 0..50 {
            scene.call().accept();
            scene.clock.advance(millis(10));
        }
        go.store(true, Relaxed);
    });
    for _ in 0..3 {
        scene.clock.advance(TENTH);
        scene.call().cancel();
    }
    let told = told.lock().unwrap();
    let longest = told.iter().max_by_key(|it| it.begun).unwrap();
    assert!((50..=52).contains(&longest.begun), "{told:?}");
    let length = longest.end.saturating_since(longest.start);
    assert!((millis(490)..=millis(700)).contains(&length), "{length:?} {told:?}");
    assert!(told.windows(2).all(|it| it[0].end <= it[1].start), "{told:?}");
}

#[test]
fn epoch_without_calls_is_told() {
    let script = Script::new([LimitPlan::epoch(4, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    for _ in 0..3 {
        scene.clock.advance(TENTH);
        assert!(scene.limiter.try_acquire_at(scene.clock.now(), u64::MAX).is_refused());
    }
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|it| it.begun == 0 && it.response_times.is_empty()));
    // The refusal of a call that the limit can never admit does not show that the limit was
    // reached.
    assert_eq!(told[1].peak_in_flight, 0);
}

#[test]
fn refused_call_shows_that_the_limit_was_reached() {
    let script = Script::new([LimitPlan::epoch(4, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    let three = scene.limiter.try_acquire_at(NOON, 3).at_once().unwrap();
    assert!(scene.limiter.try_acquire_at(NOON, 2).is_refused());
    three.accept();
    for _ in 0..2 {
        scene.clock.advance(TENTH);
        scene.call().cancel();
    }
    assert_eq!(told.lock().unwrap()[0].peak_in_flight, 4);
}

#[test]
fn call_in_flight_counts_in_the_peak_of_each_epoch() {
    let script = Script::new([LimitPlan::epoch(9, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    let long = scene.call();
    for _ in 0..5 {
        scene.clock.advance(TENTH);
        // Begins the next epoch, and is no call of it.
        assert!(scene.limiter.try_acquire_at(scene.clock.now(), u64::MAX).is_refused());
    }
    assert_eq!(told.lock().unwrap().iter().map(|it| it.peak_in_flight).collect::<Vec<_>>(), [1; 4]);
    long.accept();
}

/// An epoch is told at the end of the next one.
#[test]
fn call_that_ends_while_the_next_epoch_is_told_is_not_late() {
    let script = Script::new([LimitPlan::epoch(9, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    scene.clock.advance(TENTH);
    scene.call().accept();
    let long = scene.call();
    scene.clock.advance(TENTH);
    scene.call().accept();
    scene.clock.advance(millis(99));
    long.accept();
    scene.clock.advance(millis(1));
    scene.call().accept();
    let told = told.lock().unwrap();
    assert_eq!((told[1].begun, told[1].unfinished), (2, 0), "{told:?}");
}

#[test]
fn call_far_ahead_that_begins_epochs_does_not_put_off_the_plans() {
    let plans = [
        LimitPlan::each_call(2),
        LimitPlan::epoch(3, TENTH),
        LimitPlan::epoch(3, TENTH),
        LimitPlan::epoch(5, TENTH),
    ];
    let scene = Scene::new(Script::new(plans));
    scene.call().end_at(NOON.saturating_add(millis(3_600_000)), Outcome::Success);
    assert_eq!(scene.limiter.limit(), 3);
    for _ in 0..30 {
        scene.clock.advance(TENTH);
        scene.call().accept();
    }
    assert_eq!(scene.limiter.limit(), 5);
}

#[test]
fn epoch_is_extended_until_enough_calls_began() {
    let plan = LimitPlan::epoch(9, TENTH).until_calls(3, millis(1_000));
    let script = Script::new([plan]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    scene.call().accept();
    for _ in 0..4 {
        scene.clock.advance(TENTH);
        assert!(scene.limiter.try_acquire_at(scene.clock.now(), u64::MAX).is_refused());
    }
    scene.call().accept();
    scene.call().accept();
    // Asks again an eighth of the time later.
    scene.clock.advance(millis(51));
    scene.call().accept();
    scene.clock.advance(millis(1_000));
    scene.call().accept();
    let told = told.lock().unwrap();
    let [first] = &told[..] else { panic!("{told:?}") };
    assert_eq!((first.begun, first.end), (3, NOON.saturating_add(millis(451))));
}

/// Two calls for five permits are ten permits.
#[test]
fn epoch_is_extended_until_enough_permits_were_taken() {
    let plan = LimitPlan::epoch(9, TENTH).until_permits(1, 10, millis(10_000));
    let script = Script::new([plan]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    for _ in 0..9 {
        scene.clock.advance(TENTH);
        let now = scene.clock.now();
        scene.limiter.try_acquire_at(now, 5).at_once().unwrap().cancel();
    }
    let told = told.lock().unwrap();
    let counted: Vec<_> = told.iter().map(|it| (it.permits, it.returned)).collect();
    assert_eq!(counted, [(10, 10); 3], "{told:?}");
}

/// All within 300 ms, and later half.
#[test]
fn epoch_is_extended_until_calls_have_ended() {
    for (ended_at_once, length) in [(10, 100), (9, 300), (5, 300), (4, 900)] {
        let plan = LimitPlan::epoch(20, TENTH);
        let wait = plan.until_ended(millis(300), millis(900));
        let script = Script::new([plan, plan, wait, plan]);
        let told = script.told.clone();
        let scene = Scene::new(script);
        // The first plan is that of two epochs.
        for _ in 0..2 {
            scene.call().accept();
            scene.clock.advance(TENTH);
        }
        let mut calls: Vec<_> = (0..10).map(|_| scene.call()).collect();
        calls.drain(..ended_at_once).for_each(FeedbackPermit::accept);
        for _ in 0..60 {
            scene.clock.advance(millis(25));
            let _ = scene.limiter.try_acquire_at(scene.clock.now(), u64::MAX);
        }
        let told = told.lock().unwrap();
        let wait = told.iter().position(|it| it.begun == 0).unwrap();
        let lasted = told[wait].end.saturating_since(told[wait].start);
        assert!(lasted >= millis(length) && lasted < millis(length + 120), "{lasted:?} {told:?}");
    }
}

#[test]
fn epoch_ends_at_its_longest_length() {
    let plan = LimitPlan::epoch(9, TENTH).until_calls(1_000, millis(300));
    let script = Script::new([plan]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    for _ in 0..40 {
        scene.call().accept();
        scene.clock.advance(millis(20));
    }
    let told = told.lock().unwrap();
    assert_eq!(told[0].end, NOON.saturating_add(millis(300)));
    assert_eq!(told[0].begun, 15);
}

#[test]
fn call_that_ends_many_epochs_later_is_unfinished_and_gives_its_permit_back() {
    let script = Script::new([LimitPlan::epoch(3, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    let long = scene.call();
    for _ in 0..20 {
        scene.clock.advance(TENTH);
        scene.call().accept();
    }
    long.accept();
    assert_eq!(scene.limiter.in_use(), 0);
    let told = told.lock().unwrap();
    assert_eq!((told[0].begun, told[0].unfinished), (1, 1));
    assert!(told[1..].iter().all(|it| (it.begun, it.unfinished) == (1, 0)));
}

#[test]
fn algorithm_changes_between_calls_and_epochs() {
    let plans = [
        LimitPlan::each_call(2),
        LimitPlan::epoch(3, TENTH),
        LimitPlan::each_call(4),
        LimitPlan::each_call(5),
    ];
    let script = Script::new(plans);
    let scene = Scene::new(script);
    let early = scene.call();
    scene.call().accept();
    assert_eq!(scene.limiter.limit(), 3);
    let of_epoch = scene.call();
    early.accept();
    assert_eq!(scene.limiter.limit(), 3, "a call of the former plan changes nothing");
    for _ in 0..2 {
        scene.clock.advance(TENTH);
        scene.call().accept();
    }
    assert_eq!(scene.limiter.limit(), 4);
    of_epoch.accept();
    scene.call().accept();
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (5, 0));
}

/// 1,000 calls in a millisecond, 100,000 in an epoch.
#[test]
fn busy_epoch_measures_a_share_of_its_calls_and_counts_all_permits() {
    let script = Script::new([LimitPlan::epoch(9, TENTH)]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    for _ in 0..400 {
        for call in 0..1_000 {
            let permits = 1 + call % 2;
            let now = scene.clock.now();
            scene.limiter.try_acquire_at(now, permits).at_once().unwrap().accept();
        }
        scene.clock.advance(millis(1));
    }
    // Each 48th of 100,000 calls.
    let told = told.lock().unwrap();
    let [first, second] = &told[..] else { panic!("{told:?}") };
    assert_eq!(first.begun, 100_000, "no rate is known");
    assert!((2_000..2_200).contains(&second.begun), "{}", second.begun);
    assert_eq!((second.permits, second.returned, second.unfinished), (150_000, 150_000, 0));
    assert!((second.mean_permits - 1.5).abs() < 0.05, "{}", second.mean_permits);
}

/// 500 calls in a millisecond, in epochs of 200 and 10 ms in turn: each 48th of 100,000 calls, and
/// each second of 5,000.
#[test]
fn share_of_measured_calls_follows_the_length_of_the_epoch() {
    let lengths = [200, 10, 200, 10, 200, 10].map(millis);
    let script = Script::new(lengths.map(|length| LimitPlan::epoch(9, length)));
    let told = script.told.clone();
    let scene = Scene::new(script);
    for _ in 0..640 {
        for _ in 0..500 {
            scene.call().accept();
        }
        scene.clock.advance(millis(1));
    }
    // The first plan lasts for two epochs, and nothing is known in the first one.
    let begun: Vec<_> = told.lock().unwrap()[1..].iter().map(|it| (it.permits, it.begun)).collect();
    let expected = [(100_000, 2_083), (5_000, 2_500)];
    assert!(begun.len() >= 3, "{begun:?}");
    for ((permits, begun), (calls, measured)) in begun.iter().zip(expected.iter().cycle()) {
        assert_eq!(permits, calls);
        assert!(begun.abs_diff(*measured) < 30, "{begun} of {calls}");
    }
}

/// A million calls a second in 20 ms, and then 10,000 in an epoch of a second.
#[test]
fn each_64th_call_is_measured_after_a_rush() {
    let script = Script::new([10, 10, 1_000].map(|length| LimitPlan::epoch(9, millis(length))));
    let told = script.told.clone();
    let scene = Scene::new(script);
    for step in 0..2_100 {
        for _ in 0..if step < 30 { 1_000 } else { 10 } {
            scene.call().accept();
        }
        scene.clock.advance(millis(1));
    }
    let told = told.lock().unwrap();
    let slow = told.iter().find(|it| it.end.saturating_since(it.start) == millis(1_000)).unwrap();
    assert_eq!(slow.permits, 10_000);
    assert!(slow.begun.abs_diff(10_000 / 64) <= 5, "{slow:?}");
}

/// The epoch that was to have 100,000 calls has 100.
#[test]
fn epoch_that_waits_for_calls_measures_all_of_them() {
    let plan = LimitPlan::epoch(9, TENTH).until_calls(100, millis(60_000));
    let script = Script::new([plan]);
    let told = script.told.clone();
    let scene = Scene::new(script);
    for step in 0..1_600 {
        for _ in 0..if step < 200 { 1_000 } else { 1 } {
            scene.call().accept();
        }
        scene.clock.advance(millis(1));
    }
    let told = told.lock().unwrap();
    let slow = &told[2];
    let length = slow.end.saturating_since(slow.start);
    assert!(slow.begun >= 100 && length < millis(300), "{slow:?}");
}

/// A call begins with a reading, and ends with one only if it is measured.
#[test]
fn call_that_is_not_measured_ends_without_a_reading_of_the_clock() {
    #[derive(Clone)]
    struct Counting(ManualClock, Arc<AtomicU64>);
    impl Clock for Counting {
        fn now(&self) -> Timestamp {
            self.1.fetch_add(1, Relaxed);
            self.0.now()
        }
    }
    let readings = Arc::new(AtomicU64::new(0));
    let clock = Counting(ManualClock::new(NOON), readings.clone());
    let limiter =
        AdaptiveLimiter::with_clock(Script::new([LimitPlan::epoch(9, TENTH)]), clock.clone());
    let mut read_in = [0; 3];
    for tenth in &mut read_in {
        let before = readings.load(Relaxed);
        for call in 0..100_000_u64 {
            match call % 4 {
                0 => limiter.try_acquire().at_once().unwrap().accept(),
                1 => limiter.try_acquire().at_once().unwrap().reject(),
                2 => limiter.try_acquire().at_once().unwrap().cancel(),
                _ => drop(limiter.try_acquire().at_once().unwrap()),
            }
        }
        *tenth = readings.load(Relaxed) - before;
        clock.0.advance(TENTH);
    }
    assert_eq!(limiter.in_use(), 0);
    let [first, second, third] = read_in;
    assert!((200_000..200_010).contains(&first), "{read_in:?}");
    for read in [second, third] {
        assert!((102_000..102_200).contains(&read), "{read_in:?}");
    }
}
