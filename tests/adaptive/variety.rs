//! `Headroom` beside calls whose response times do not depend on the limit alone.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use leaparray::Clock;
use leaparray::flow::adaptive::Headroom;
use leaparray::flow::{FeedbackPermit, LimiterExt};

use super::{Scene, millis, range};

/// A backend without a queue. Some clients give up after a time that is longer than most calls,
/// whatever the limit is.
#[test]
fn clients_that_always_give_up_do_not_lower_the_limit() {
    for share in [0.0, 0.25, 0.4] {
        let scene = Scene::new(Headroom::default());
        let mut random = fastrand::Rng::with_seed(3);
        let mut ends = BTreeMap::<u64, Vec<_>>::new();
        let mut refused = 0;
        for now in 0..60_000 {
            for _ in 0..5 {
                let Ok(call) = scene.limiter.try_acquire().at_once() else {
                    refused += 1;
                    continue;
                };
                let gives_up = random.f64() < share;
                let end = now + if gives_up { 50 } else { 10 };
                ends.entry(end).or_default().push((call, gives_up));
            }
            scene.clock.advance(millis(1));
            for (call, gives_up) in ends.remove(&(now + 1)).into_iter().flatten() {
                if gives_up { call.cancel() } else { call.accept() }
            }
        }
        assert!(refused * 20 < 300_000, "{share}: {refused} of 300,000 refused");
    }
}

/// The limit falls at the end of a busy time, and then shrinks because it is hardly used. A later
/// backend of less capacity gets no limit from before.
#[test]
fn limit_from_before_a_quiet_time_does_not_return() {
    let backend = Queued { scene: Scene::new(Headroom::default()) };
    let limit = || backend.scene.limiter.limit();
    backend.run(20_000, 30, || false);
    // Until a fall has begun.
    let (before, has_fallen) = (Cell::new(limit()), Cell::new(false));
    backend.run(5_000, 28, || {
        has_fallen.set(limit() < before.replace(limit()));
        has_fallen.get()
    });
    assert!(has_fallen.get());
    for _ in 0..1_500 {
        backend.scene.calls(1, millis(10));
        backend.scene.clock.advance(millis(400));
    }
    assert_eq!(limit(), 20);
    let highest = Cell::new(0);
    backend.run(20_000, 2, || {
        highest.set(limit().max(highest.get()));
        false
    });
    assert!(highest.get() < 60, "{} in flight for 20 that are served", highest.get());
}

/// Takes as many calls as the limit allows, and serves `rate` of them in each millisecond, for 10
/// ms each.
struct Queued {
    scene: Scene<Headroom>,
}

impl Queued {
    fn run(&self, times: u64, rate: u64, is_over: impl Fn() -> bool) {
        let (scene, mut queue, mut served) = (&self.scene, VecDeque::new(), VecDeque::new());
        for _ in 0..times {
            queue.extend(std::iter::from_fn(|| scene.limiter.try_acquire().at_once().ok()));
            for _ in 0..rate {
                let end = scene.clock.now().saturating_add(millis(10));
                served.extend(queue.pop_front().map(|call| (end, call)));
            }
            scene.clock.advance(millis(1));
            while served.front().is_some_and(|(end, _)| *end <= scene.clock.now()) {
                served.pop_front().expect("it is there").1.accept();
            }
            if is_over() {
                break;
            }
        }
        queue.into_iter().for_each(FeedbackPermit::cancel);
        for (_, call) in served {
            call.cancel();
        }
    }
}

/// Few calls at a time, each longer than an epoch, and a limit that is always reached.
#[test]
fn low_limit_of_long_calls_grows() {
    for (least, first, service) in [(1, 4, 1_000), (4, 8, 2_000)] {
        let scene = Scene::new(Headroom::new(range(least, first, 1_000)));
        let mut ends = BTreeMap::<u64, Vec<_>>::new();
        let mut highest = 0;
        for now in 0..240_000 {
            while let Ok(call) = scene.limiter.try_acquire().at_once() {
                ends.entry(now + service).or_default().push(call);
            }
            scene.clock.advance(millis(1));
            let ended = ends.remove(&(now + 1)).into_iter().flatten();
            ended.for_each(FeedbackPermit::accept);
            highest = highest.max(scene.limiter.limit());
        }
        assert!(highest > first, "{first} calls of {service} ms");
        ends.into_values().flatten().for_each(FeedbackPermit::cancel);
    }
}
