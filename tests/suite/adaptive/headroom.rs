//! `Headroom`, with calls whose response times follow a rule. `checks/simulations` has a backend
//! with random calls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use leaparray::flow::adaptive::Headroom;
use leaparray::flow::{FeedbackPermit, LimiterExt};
use leaparray::{Clock, Outcome};

use super::{Scene, millis, range};

const NIGHT: Duration = Duration::from_secs(28_800);

/// A backend that begins to serve `rate` calls in each step, each for `service` steps, and has
/// always more calls than the limit allows. Its capacity is `rate` · `service` calls. A step is a
/// millisecond, unless it is set.
struct Saturated {
    scene: Scene<Headroom>,
    rate: u64,
    service: u32,
    step: Duration,
    /// Whether calls end with an exception.
    fails: bool,
    /// Once the limit is below this, no calls come for a night. The last ones end before it.
    night_below: u64,
}

impl Saturated {
    fn new(algorithm: Headroom, rate: u64) -> Self {
        let scene = Scene::new(algorithm);
        Self { scene, rate, service: 10, step: millis(1), fails: false, night_below: 0 }
    }

    /// Runs for some hundreds of steps. Returns the limits after each hundred.
    fn run(&self, hundreds: u32) -> Vec<u64> {
        let (mut waiting, mut served) = (VecDeque::new(), VecDeque::new());
        let mut limits = Vec::new();
        let mut evening = None;
        for step in 1..=hundreds * 100 {
            if self.scene.limiter.limit() < self.night_below {
                evening.get_or_insert(step);
            }
            if evening.is_some_and(|it| step == it + 100) {
                self.scene.clock.advance(NIGHT);
            }
            let is_quiet = evening.is_some_and(|it| step < it + 100);
            while !is_quiet && let Ok(call) = self.scene.limiter.try_acquire().at_once() {
                waiting.push_back(call);
            }
            for _ in 0..self.rate {
                served.extend(waiting.pop_front().map(|call| (step + self.service, call)));
            }
            self.scene.clock.advance(self.step);
            while served.front().is_some_and(|(end, _)| *end <= step + 1) {
                let (_, call) = served.pop_front().unwrap();
                if self.fails { call.reject() } else { call.accept() }
            }
            if step % 100 == 0 {
                limits.push(self.scene.limiter.limit());
            }
        }
        waiting
            .into_iter()
            .chain(served.into_iter().map(|it| it.1))
            .for_each(FeedbackPermit::cancel);
        limits
    }
}

fn last(limits: &[u64], count: usize) -> [u64; 2] {
    let last = &limits[limits.len() - count..];
    [*last.iter().min().unwrap(), *last.iter().max().unwrap()]
}

#[test]
fn limit_reaches_the_capacity_from_below_and_from_above() {
    for initial in [4, 400] {
        let backend = Saturated::new(Headroom::new(range(4, initial, 1_000)), 4);
        let limits = backend.run(400);
        // 40 and 4 + 1.5 · √40 = 13.5; in a dip, three quarters of 40.
        let [lowest, highest] = last(&limits, 100);
        assert!((28..=54).contains(&lowest), "{limits:?}");
        assert!((50..=60).contains(&highest), "{limits:?}");
    }
}

#[test]
fn limit_follows_a_capacity_that_falls() {
    let mut backend = Saturated::new(Headroom::default(), 8);
    backend.run(300);
    backend.rate = 1;
    let limits = backend.run(30);
    assert!(limits[29] <= 20, "{limits:?}");
}

/// The dip is as long as the night, which would put off the next dip for two weeks. A second of the
/// dip is after the night, so the next one comes after 120 s at most.
#[test]
fn limit_follows_a_capacity_that_falls_after_a_night_in_a_dip() {
    let mut backend = Saturated::new(Headroom::default(), 4);
    backend.run(300);
    backend.night_below = 40;
    let evening = backend.scene.clock.now();
    let limits = backend.run(100);
    assert!(backend.scene.clock.now().saturating_since(evening) > NIGHT);
    let [_, highest] = last(&limits, 50);
    assert!(highest > 45, "{limits:?}");
    (backend.night_below, backend.rate) = (0, 1);
    let limits = backend.run(400);
    assert!(limits[399] <= 20, "{limits:?}");
}

/// The capacity falls from 160.
#[test]
fn limit_that_follows_a_capacity_does_not_undershoot() {
    for rate in [12, 8, 4, 2] {
        let mut backend = Saturated::new(Headroom::default(), 16);
        backend.run(400);
        backend.rate = rate;
        let limits = backend.run(20);
        // In a dip, three quarters of it.
        assert!(limits.iter().all(|&limit| limit * 4 >= 30 * rate), "{limits:?}");
        assert!(limits[19] <= 10 * rate + 24, "{limits:?}");
    }
}

#[test]
fn limit_does_not_fall_when_all_calls_become_slower() {
    let mut backend = Saturated::new(Headroom::default(), 4);
    backend.run(300);
    // The same number of calls at once, each for five times as long.
    (backend.rate, backend.service) = (1, 50);
    let limits = backend.run(100);
    let [_, highest] = last(&limits, 40);
    assert!(highest >= 50, "{limits:?}");
}

/// Any number of calls is served at once, five in a millisecond. In some periods, all are slower,
/// as during a collection of garbage: of 200 ms, or of a second.
#[test]
fn calls_that_are_slow_now_and_then_are_hardly_refused() {
    for (period, slow, at_most) in [(200, 20, 25), (1_000, 15, 6)] {
        let scene = Scene::new(Headroom::default());
        let mut random = fastrand::Rng::with_seed(3);
        let mut in_flight = BTreeMap::<_, Vec<_>>::new();
        let (mut refused, mut service) = (0, 10);
        for step in 0..60_000 {
            if step % period == 0 {
                service = if random.u8(..10) < 3 { slow } else { 10 };
            }
            for _ in 0..5 {
                match scene.limiter.try_acquire().at_once() {
                    Ok(call) => in_flight.entry(step + service).or_default().push(call),
                    Err(_) => refused += 1,
                }
            }
            scene.clock.advance(millis(1));
            let ended = in_flight.remove(&(step + 1)).into_iter().flatten();
            ended.for_each(FeedbackPermit::accept);
        }
        let share = refused * 100 / 300_000;
        assert!(share < at_most, "periods of {period} ms: {share} % are refused");
        in_flight.into_values().flatten().for_each(FeedbackPermit::cancel);
    }
}

#[test]
fn unused_limit_does_not_grow() {
    let scene = Scene::new(Headroom::default());
    for _ in 0..2_000 {
        scene.calls(12, millis(10));
    }
    assert_eq!(scene.limiter.limit(), 20);
}

/// A tenth of the calls is slow. With few calls, that is a change of the quantiles now and then.
#[test]
fn light_traffic_does_not_lower_a_limit_that_it_does_not_use() {
    let scene = Scene::new(Headroom::default());
    let mut random = fastrand::Rng::with_seed(7);
    for call in 0..72_000 {
        scene.calls(1, millis(if random.u8(..10) == 0 { 50 } else { 5 }));
        scene.clock.advance(millis(75));
        assert_eq!(scene.limiter.limit(), 20, "after {call} calls");
    }
}

/// Calls of 200 ms, 1 s and 5 s: longer than the shortest epoch.
#[test]
fn limit_reaches_the_capacity_for_long_calls() {
    for step in [20, 100, 500] {
        let mut backend = Saturated::new(Headroom::new(range(4, 20, 1_000)), 4);
        backend.step = millis(step);
        let limits = backend.run(300);
        let [lowest, highest] = last(&limits, 100);
        assert!((28..=54).contains(&lowest), "{step} ms: {limits:?}");
        assert!((50..=60).contains(&highest), "{step} ms: {limits:?}");
        backend.rate = 1;
        let limits = backend.run(100);
        assert!(limits[99] <= 20, "{step} ms: {limits:?}");
    }
}

#[test]
fn calls_that_fail_fast_do_not_raise_the_limit() {
    let mut backend = Saturated::new(Headroom::default(), 4);
    backend.run(200);
    (backend.rate, backend.service, backend.fails) = (1_000, 1, true);
    let limits = backend.run(100);
    assert!(limits.iter().all(|&limit| limit <= 60), "{limits:?}");
    (backend.rate, backend.service, backend.fails) = (4, 10, false);
    let limits = backend.run(100);
    assert!(limits.iter().all(|&limit| limit <= 60), "{limits:?}");
}

/// The limits of a busy limiter, in 200 steps in which all calls end after `time` in the same way,
/// whatever the limit is.
fn limits_if_all_calls(time: Duration, outcome: Outcome) -> Vec<u64> {
    let scene = Scene::new(Headroom::default());
    for _ in 0..2_000 {
        scene.calls(60, millis(10));
    }
    let step = |_| {
        let calls: Vec<_> =
            std::iter::from_fn(|| scene.limiter.try_acquire().at_once().ok()).collect();
        scene.clock.advance(time);
        for call in calls {
            call.end_at(scene.clock.now(), outcome);
        }
        scene.limiter.limit()
    };
    (0..200).map(step).collect()
}

/// As if the client gave up after 90 ms, whatever the limit is: no comparison tells anything.
#[test]
fn calls_that_time_out_do_not_raise_the_limit() {
    for outcome in [Outcome::Exception, Outcome::Cancelled] {
        let limits = limits_if_all_calls(millis(90), outcome);
        assert!(limits.iter().all(|&it| it <= limits[0]), "{limits:?}");
    }
}

/// A cancellation that comes sooner than a response tells nothing. Half of the calls are cancelled.
#[test]
fn calls_that_are_cancelled_early_do_not_count() {
    let scene = Scene::new(Headroom::default());
    for _ in 0..200 {
        let mut calls: Vec<_> =
            std::iter::from_fn(|| scene.limiter.try_acquire().at_once().ok()).collect();
        scene.clock.advance(millis(9));
        calls.drain(..calls.len() / 2).for_each(FeedbackPermit::cancel);
        scene.clock.advance(millis(1));
        calls.into_iter().for_each(FeedbackPermit::accept);
    }
    assert!(scene.limiter.limit() > 60, "{}", scene.limiter.limit());
}

/// A dip is the only time in which the limit is below 30, and in each, all calls fail at once.
#[test]
fn dip_in_which_calls_fail_measures_no_base() {
    let scene = Scene::new(Headroom::new(range(4, 40, 40)));
    let (mut dips, mut usual) = (0, 0);
    for _ in 0..6_000 {
        let calls: Vec<_> =
            std::iter::from_fn(|| scene.limiter.try_acquire().at_once().ok()).collect();
        let is_dip = scene.limiter.limit() < 30;
        *(if is_dip { &mut dips } else { &mut usual }) += 1;
        scene.clock.advance(millis(if is_dip { 1 } else { 10 }));
        for call in calls {
            if is_dip { call.reject() } else { call.accept() }
        }
    }
    assert!(dips > 0 && dips * 10 < usual, "in dips for {dips} steps, else for {usual}");
}

#[test]
fn limit_stays_in_its_range() {
    for (limits, expected) in [(range(1, 1, 1), [1, 1]), (range(10, 10, 10), [10, 10])] {
        let limits = Saturated::new(Headroom::new(limits), 4).run(200);
        assert_eq!(last(&limits, limits.len()), expected);
    }
}

#[test]
fn refused_call_for_more_permits_than_the_highest_limit_does_not_raise_it() {
    let scene = Scene::new(Headroom::default());
    for _ in 0..3_000 {
        assert!(scene.limiter.try_acquire_at(scene.clock.now(), 10_001).is_refused());
        scene.calls(2, millis(10));
    }
    assert_eq!(scene.limiter.limit(), 20);
}

#[test]
fn few_calls_change_nothing() {
    let scene = Scene::new(Headroom::default());
    for millis_of_call in [1, 500, 2, 700, 1, 900] {
        scene.calls(1, millis(millis_of_call));
        scene.clock.advance(millis(1_000));
    }
    assert_eq!(scene.limiter.limit(), 20);
}
