//! Permits, whatever the algorithm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leaparray::flow::adaptive::{
    AdaptiveConfigError, Aimd, Headroom, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange,
};
use leaparray::flow::{
    AdaptiveLimiter, Ask, ConcurrencyLimiter, FeedbackPermit, LimiterExt, Reason, Retry,
};
use leaparray::node::OnDrop;
use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, Outcome, ResourceNode, Timestamp};

use super::{NOON, Scene, Script, TENTH, millis, range};

fn fixed(limit: u64) -> Script {
    Script::new([LimitPlan::epoch(limit, TENTH)])
}

#[test]
fn calls_beyond_the_limit_are_refused() {
    let scene = Scene::new(fixed(2));
    let calls = [scene.call(), scene.call()];
    let refusal = scene.limiter.try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::LimitReached, Retry::Unknown));
    let [first, second] = calls;
    first.accept();
    scene.call().reject();
    second.cancel();
    assert_eq!(scene.limiter.in_use(), 0);
}

#[test]
fn several_permits_are_taken_together() {
    let scene = Scene::new(fixed(10));
    let limiter = &scene.limiter;
    let call = limiter.try_acquire_at(NOON, 7).at_once().unwrap();
    assert!(limiter.try_acquire_at(NOON, 4).is_refused());
    assert_eq!(limiter.in_use(), 7);
    let refusal = limiter.try_acquire_at(NOON, 11).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::LimitReached, Retry::Unknown));
    call.end_at(NOON, Outcome::Success);
    assert_eq!(limiter.in_use(), 0);
    let quota = limiter.quota_at(NOON).unwrap();
    assert_eq!((quota.limit, quota.remaining), (10, 10));
}

/// Such a call would else wait for a limit that no call teaches.
#[test]
fn call_for_more_permits_than_the_limit_is_admitted_alone() {
    let limiter = AdaptiveLimiter::with_clock(Aimd::new(range(1, 2, 5)), ManualClock::new(NOON));
    let one = limiter.try_acquire().at_once().unwrap();
    let refusal = limiter.try_acquire_at(NOON, 3).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::LimitReached, Retry::Unknown));
    assert!(limiter.peek_at(NOON, 3).unwrap().is_refused());
    one.end_at(NOON, Outcome::Success);
    assert_eq!(limiter.limit(), 3, "one of two permits was in use");
    assert!(limiter.peek_at(NOON, 5).unwrap().is_admitted());
    let alone = limiter.try_acquire_at(NOON, 5).at_once().unwrap();
    assert!(limiter.try_acquire().is_refused());
    assert_eq!((limiter.in_use(), limiter.quota_at(NOON).unwrap().remaining), (5, 0));
    alone.end_at(NOON, Outcome::Success);
    assert_eq!((limiter.in_use(), limiter.limit()), (0, 4));
    let never = limiter.try_acquire_at(NOON, 6).refusal().unwrap();
    assert_eq!((never.reason, never.retry()), (Reason::MoreThanLimit, Retry::Never));
}

/// A weight of 2 after failures that have lowered the limit to 1.
#[test]
fn calls_heavier_than_a_fallen_limit_raise_it() {
    let scene = Scene::new(Aimd::new(range(1, 20, 200)));
    for _ in 0..14 {
        scene.call().reject();
    }
    assert_eq!(scene.limiter.limit(), 1);
    for _ in 0..20 {
        let now = scene.clock.now();
        scene.limiter.try_acquire_at(now, 2).at_once().unwrap().end_at(now, Outcome::Success);
    }
    assert_eq!(scene.limiter.limit(), 5, "until two are less than half of it");
}

#[test]
fn peek_takes_no_permit() {
    let scene = Scene::new(fixed(1));
    let limiter = &scene.limiter;
    assert!(limiter.peek_at(NOON, 1).unwrap().is_admitted());
    let _call = scene.call();
    assert!(limiter.peek_at(NOON, 1).unwrap().is_refused());
    assert_eq!(limiter.in_use(), 1);
}

#[test]
fn owned_permit_outlives_the_borrow() {
    let limiter = Arc::new(AdaptiveLimiter::default());
    let call = limiter.try_acquire().at_once().unwrap();
    std::thread::spawn(move || call.accept()).join().unwrap();
    assert_eq!(limiter.in_use(), 0);
}

#[test]
fn entry_gives_the_permit_back() {
    let limiter = Arc::new(AdaptiveLimiter::new(Headroom::new(range(1, 1, 9))));
    let node = ResourceNode::new(NodeConfig::default());
    let entry = limiter.try_enter(&node).unwrap();
    assert!(limiter.try_enter(&node).is_err());
    assert_eq!(node.now().long().sum(MetricEvent::Block), 1);
    entry.success();
    assert_eq!(limiter.in_use(), 0);
    let boxed = limiter.clone().boxed();
    drop(boxed.try_enter(&node).unwrap());
    assert_eq!((limiter.in_use(), node.now().long().sum(MetricEvent::Exception)), (0, 1));
}

#[test]
fn dropped_permit_follows_the_policy() {
    for (policy, exceptions) in [(OnDrop::Exception, 1), (OnDrop::Cancelled, 0)] {
        let script = fixed(5);
        let told = script.told.clone();
        let mut scene = Scene::new(script);
        scene.limiter = scene.limiter.on_drop(policy);
        drop(scene.call());
        for _ in 0..2 {
            scene.clock.advance(TENTH);
            scene.call().accept();
        }
        assert_eq!(scene.limiter.in_use(), 0);
        let first = told.lock().unwrap()[0].clone();
        assert_eq!((first.begun, first.exceptions), (exceptions, exceptions), "{policy:?}");
    }
}

#[test]
fn panic_in_the_algorithm_keeps_no_permit_and_stops_no_plan() {
    struct PanicsOnce(bool);
    impl LimitAlgorithm for PanicsOnce {
        fn first_plan(&mut self) -> LimitPlan {
            LimitPlan::each_call(3)
        }

        fn next_plan(&mut self, _evidence: &LimitEvidence<'_>) -> LimitPlan {
            assert!(std::mem::replace(&mut self.0, true), "once");
            LimitPlan::each_call(7)
        }
    }
    let scene = Scene::new(PanicsOnce(false));
    let call = scene.call();
    assert!(catch_unwind(AssertUnwindSafe(|| call.accept())).is_err());
    assert_eq!((scene.limiter.in_use(), scene.limiter.limit()), (0, 3));
    scene.call().accept();
    assert_eq!((scene.limiter.in_use(), scene.limiter.limit()), (0, 7));
}

#[test]
fn limit_is_at_least_1_and_fits_in_a_permit() {
    for (planned, limit) in [(0, 1), (u64::MAX, LimitRange::MAX)] {
        for plan in [LimitPlan::each_call(planned), LimitPlan::epoch(planned, TENTH)] {
            let scene = Scene::new(Script::new([plan]));
            assert_eq!(scene.limiter.limit(), limit);
            scene.call().accept();
            assert_eq!(scene.limiter.limit(), limit);
        }
    }
    let scene = Scene::new(fixed(u64::MAX));
    let call = scene.limiter.try_acquire_at(NOON, LimitRange::MAX).at_once().unwrap();
    assert!(scene.limiter.try_acquire().is_refused());
    call.accept();
    assert_eq!(scene.limiter.in_use(), 0);
}

#[test]
fn extreme_times_neither_panic_nor_wrap() {
    let scene = Scene::new(Headroom::default());
    for [start, end] in [[Timestamp::MAX, Timestamp::MIN], [Timestamp::MIN, Timestamp::MAX]] {
        scene.limiter.try_acquire_at(start, 1).at_once().unwrap().end_at(end, Outcome::Success);
    }
    let scene = Scene::new(Aimd::default());
    scene
        .limiter
        .try_acquire_at(Timestamp::MIN, 1)
        .at_once()
        .unwrap()
        .end_at(Timestamp::MAX, Outcome::Success);
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (20, 0), "at the lowest limit");
}

#[test]
fn wrong_setting_is_an_error_with_its_value() {
    let error = LimitRange::new(0, 1, 2).unwrap_err();
    assert!(matches!(error, AdaptiveConfigError::Range { min: 0, .. }));
    assert!(LimitRange::new(1, 1, LimitRange::MAX + 1).is_err());
    for backoff in [0.49, 1.0, f64::NAN] {
        assert!(Aimd::default().backoff(backoff).is_err());
    }
    for factor in [0.4, 10.1, f64::NAN] {
        let error = Headroom::default().headroom(factor).unwrap_err();
        assert!(error.to_string().ends_with(&format!("not {factor}")));
    }
}

#[test]
fn clock_may_step_back_and_plans_go_on() {
    let script = Script::new([LimitPlan::epoch(3, TENTH), LimitPlan::epoch(5, TENTH)]);
    let scene = Scene::new(script);
    scene.call().end_at(NOON.saturating_sub(millis(50)), Outcome::Success);
    for _ in 0..2 {
        scene.clock.advance(TENTH);
        scene.call().accept();
    }
    assert_eq!(scene.limiter.limit(), 5);
}

/// The clock shows a time an hour ahead, for one call.
#[test]
fn clock_that_was_ahead_for_one_call_delays_no_plan() {
    for plan in [LimitPlan::epoch(3, TENTH), LimitPlan::epoch(3, millis(30_000))] {
        let script = Script::new([plan, plan, LimitPlan::epoch(5, TENTH)]);
        let scene = Scene::new(script);
        scene.clock.advance(millis(3_600_000));
        scene.call().accept();
        scene.clock.set(NOON);
        for _ in 0..1_000 {
            scene.call().accept();
            scene.clock.advance(TENTH);
        }
        assert_eq!(scene.limiter.limit(), 5);
    }
}

#[test]
fn adaptive_limiter_decides_as_a_concurrency_limiter_of_its_limit() {
    let scene = Scene::new(fixed(4));
    let plain = ConcurrencyLimiter::new(4);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for step in 0..200_u64 {
        if step * 7 % 5 < 2 {
            assert_eq!(ours.pop().is_some(), theirs.pop().is_some());
        }
        let permits = step * 11 % 3;
        let (one, other) =
            (scene.limiter.try_acquire_at(NOON, permits), plain.try_acquire_many(permits));
        assert_eq!(one.refusal().is_some(), other.refusal().is_some(), "step {step}");
        ours.extend(one.at_once());
        theirs.extend(other.at_once());
        assert_eq!(scene.limiter.in_use(), plain.in_use());
    }
}

/// An algorithm that panics once.
struct PanicsOnce(bool);

impl LimitAlgorithm for PanicsOnce {
    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::epoch(4, TENTH)
    }

    fn next_plan(&mut self, _: &LimitEvidence<'_>) -> LimitPlan {
        assert!(std::mem::replace(&mut self.0, true), "once");
        LimitPlan::epoch(4, TENTH)
    }
}

#[test]
fn panic_of_an_algorithm_takes_no_permit() {
    let scene = Scene::new(PanicsOnce(false));
    let mut panics = 0;
    for _ in 0..4 {
        let call = scene.call();
        scene.clock.advance(millis(150));
        let ended = catch_unwind(AssertUnwindSafe(|| call.accept()));
        panics += usize::from(ended.is_err());
        assert_eq!(scene.limiter.in_use(), 0);
    }
    assert_eq!(panics, 1);
}

#[test]
fn other_algorithm_goes_on_from_the_limit_and_keeps_the_permits() {
    let scene = Scene::new(Aimd::new(range(1, 20, 200)));
    scene.call().reject();
    assert_eq!(scene.limiter.limit(), 18);
    let held = [(); 3].map(|()| scene.call());
    scene.limiter.reconfigure(Aimd::new(range(1, 1, 30)).backoff(0.5).unwrap());
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (18, 3));
    let refusal = scene.limiter.try_acquire_many(31).refusal().expect("30 are the most");
    assert_eq!(refusal.reason, Reason::MoreThanLimit);
    scene.call().reject();
    assert_eq!(scene.limiter.limit(), 9, "by the new factor");
    held.into_iter().for_each(FeedbackPermit::cancel);
    scene.limiter.reconfigure(Aimd::new(range(12, 12, 200)));
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (12, 0));
}

/// From a plan for each call to epochs, and back. A call of the former plan is not told.
#[test]
fn call_in_flight_is_not_told_to_another_algorithm() {
    let of = |plan| Box::new(Script::new([plan])) as Box<dyn LimitAlgorithm>;
    let scene = Scene::new(of(LimitPlan::each_call(3)));
    let call = scene.call();
    scene.limiter.reconfigure(of(LimitPlan::epoch(5, TENTH)));
    let other = scene.call();
    call.accept();
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (5, 1));
    scene.limiter.reconfigure(of(LimitPlan::each_call(4)));
    other.accept();
    assert_eq!((scene.limiter.limit(), scene.limiter.in_use()), (4, 0));
}

#[test]
fn refused_peek_of_a_request_shows_that_the_limit_was_reached() {
    for (is_first, peak) in [(true, 9), (false, 7)] {
        let script = Script::new([LimitPlan::epoch(9, TENTH)]);
        let told = script.told.clone();
        let scene = Scene::new(script);
        let ask = Ask::at(NOON).many(7);
        let call = scene.limiter.ask(&ask).at_once().unwrap();
        let peek = if is_first { ask } else { ask.again() };
        assert!(scene.limiter.foretell(&peek).unwrap().is_refused());
        call.accept();
        for _ in 0..3 {
            scene.clock.advance(TENTH);
            scene.call().cancel();
        }
        assert_eq!(told.lock().unwrap()[0].peak_in_flight, peak);
    }
}
