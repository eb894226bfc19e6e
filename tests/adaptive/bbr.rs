//! `Bbr`.

use std::collections::VecDeque;

use leaparray::Timestamp;
use leaparray::flow::adaptive::{Bbr, CpuLoad};
use leaparray::flow::{FeedbackPermit, LimiterExt};

use super::{NOON, Scene, millis, range};

/// A load that is high from the second `from` to the second `to` after noon.
struct Busy {
    from: u64,
    to: u64,
}

impl CpuLoad for Busy {
    fn load(&mut self, now: Timestamp) -> Option<f64> {
        let second = now.saturating_since(NOON).as_secs();
        Some(if (self.from..self.to).contains(&second) { 1.0 } else { 0.0 })
    }
}

fn scene(cpu: Busy, threshold: f64) -> Scene<Bbr<Busy>> {
    Scene::new(Bbr::new(cpu).range(range(1, 500, 500)).threshold(threshold))
}

#[test]
fn limit_is_the_product_of_the_best_epochs() {
    let scene = scene(Busy { from: 10, to: 1_000 }, 0.01);
    for _ in 0..20 {
        scene.calls(20, millis(10));
        scene.clock.advance(millis(90));
    }
    for _ in 0..20 {
        scene.calls(80, millis(40));
        scene.clock.advance(millis(60));
    }
    assert_eq!(scene.limiter.limit(), 500, "the processors are idle");
    for _ in 0..70 {
        scene.calls(1, millis(40));
        scene.clock.advance(millis(60));
    }
    // 800 calls in a second, 10 ms, and one more.
    assert_eq!(scene.limiter.limit(), 9);
}

#[test]
fn epochs_are_forgotten_after_10_seconds() {
    let scene = scene(Busy { from: 3_607, to: 10_000 }, 0.01);
    // 1,000 calls in a second, 10 ms.
    for _ in 0..50 {
        scene.calls(100, millis(10));
        scene.clock.advance(millis(90));
    }
    scene.clock.advance(millis(3_600_000));
    // 20 calls in a second, 100 ms: two in flight, and one more.
    for _ in 0..60 {
        scene.calls(2, millis(100));
    }
    assert_eq!(scene.limiter.limit(), 3);
}

/// 100 calls in a second.
#[test]
fn calls_that_are_longer_than_an_epoch_count() {
    for (service, in_flight) in [(50, 5), (150, 15), (250, 25), (500, 50)] {
        let scene = scene(Busy { from: 5, to: 10_000 }, 0.01);
        let mut calls = VecDeque::<FeedbackPermit<_>>::new();
        for tick in 0..1_000 {
            if tick >= service / 10
                && let Some(call) = calls.pop_front()
            {
                call.accept();
            }
            calls.extend(scene.limiter.try_acquire().at_once().ok());
            scene.clock.advance(millis(10));
        }
        assert_eq!(scene.limiter.limit(), in_flight + 1, "{service} ms");
        calls.into_iter().for_each(FeedbackPermit::cancel);
    }
}

#[test]
fn load_that_is_not_a_number_is_ignored() {
    struct NotANumberAtFirst(bool);
    impl CpuLoad for NotANumberAtFirst {
        fn load(&mut self, _now: Timestamp) -> Option<f64> {
            Some(if std::mem::replace(&mut self.0, true) { 1.0 } else { f64::NAN })
        }
    }
    let scene = Scene::new(Bbr::new(NotANumberAtFirst(false)).range(range(1, 500, 500)));
    for _ in 0..20 {
        scene.calls(10, millis(10));
        scene.clock.advance(millis(90));
    }
    // 100 calls in a second, 10 ms, and one more.
    assert_eq!(scene.limiter.limit(), 2);
}

#[test]
fn limit_applies_for_a_second_after_the_load() {
    let scene = scene(Busy { from: 0, to: 2 }, 0.9);
    let mut limited = Vec::new();
    for tenth in 0..60 {
        scene.calls(1, millis(10));
        scene.clock.advance(millis(90));
        if scene.limiter.limit() < 500 {
            limited.push(tenth);
        }
    }
    // The average falls below 0.9 with the third low load: 0.95, 0.9025, 0.857. They come every 500
    // ms from the second 2 on, the third in the second 3.1. The limit applies until a second after
    // the epoch before it.
    let last = *limited.last().unwrap();
    assert!((39..=42).contains(&last), "{limited:?}");
    assert!(limited.windows(2).all(|it| it[0] + 1 == it[1]));
}

/// Without the one call more than the product, as many calls as the limit would keep it as it is.
#[test]
fn limit_that_is_reached_rises_from_1() {
    let scene = Scene::new(Bbr::new(Busy { from: 0, to: 1_000 }).range(range(1, 1, 500)));
    for _ in 0..40 {
        scene.calls(50, millis(100));
    }
    assert_eq!(scene.limiter.limit(), 51, "the calls in flight, and one more");
}

/// The epochs before a step back of the clock would else count until the clock has caught up.
#[test]
fn epochs_before_a_step_back_are_forgotten() {
    let scene = scene(Busy { from: 0, to: 100_000 }, 0.01);
    scene.clock.advance(millis(3_600_000));
    for _ in 0..20 {
        scene.calls(100, millis(10));
        scene.clock.advance(millis(90));
    }
    assert_eq!(scene.limiter.limit(), 11, "1,000 calls in a second, 10 ms, and one more");
    scene.clock.set(NOON);
    for _ in 0..60 {
        scene.calls(2, millis(100));
    }
    assert_eq!(scene.limiter.limit(), 3, "20 calls in a second, 100 ms, and one more");
}
