//! The published algorithms that learn from each call. The numbers are worked by hand from the
//! published formulas.

use leaparray::flow::FeedbackPermit;
use leaparray::flow::adaptive::{Aimd, Gradient2, LimitAlgorithm, Vegas};

use super::{Scene, millis, range};

/// Holds `busy` calls, so that each call finds them in flight, and makes calls with the given
/// response times.
fn limits_after<A: LimitAlgorithm>(algorithm: A, busy: u64, response_times: &[u64]) -> Vec<u64> {
    let scene = Scene::new(algorithm);
    let held: Vec<_> = (0..busy).map(|_| scene.call()).collect();
    let limits = response_times
        .iter()
        .map(|&rt| {
            let call = scene.call();
            scene.clock.advance(millis(rt));
            call.accept();
            scene.limiter.limit()
        })
        .collect();
    held.into_iter().for_each(FeedbackPermit::cancel);
    limits
}

#[test]
fn aimd_grows_by_one_if_half_of_the_limit_is_in_use() {
    assert_eq!(limits_after(Aimd::default(), 8, &[10; 3]), [20, 20, 20]);
    assert_eq!(limits_after(Aimd::default(), 9, &[10; 3]), [21, 21, 21]);
    assert_eq!(limits_after(Aimd::default(), 19, &[10; 3]), [21, 22, 23]);
    assert_eq!(
        limits_after(Aimd::new(range(1, 4, 5)), 3, &[10; 3]),
        [5, 5, 5],
        "up to the highest"
    );
}

#[test]
fn aimd_backs_off_after_a_timeout_and_an_exception() {
    let aimd = Aimd::new(range(20, 100, 200)).timeout(millis(50)).backoff(0.5).unwrap();
    assert_eq!(limits_after(aimd, 0, &[50, 51, 51, 51]), [100, 50, 25, 20]);
    let scene = Scene::new(Aimd::new(range(1, 15, 20)));
    scene.call().reject();
    assert_eq!(scene.limiter.limit(), 13, "13.5 rounded down");
    scene.call().cancel();
    assert_eq!(scene.limiter.limit(), 13);
}

#[test]
fn vegas_follows_its_queue() {
    // k = 1. The first call sets the base. Then of 20: no queue, +6. Of 26: 26 · (1 − 10/11) = 2.4,
    // three queued, neither below 3 nor above 6.
    assert_eq!(limits_after(Vegas::default(), 19, &[10, 10, 11]), [20, 26, 26]);
    // Of 20: 20 · (1 − 10/15) = 6.7, seven queued, −1.
    assert_eq!(limits_after(Vegas::default(), 18, &[10, 15]), [20, 19]);
    // Of 20: 20 · (1 − 100/105) = 0.95, one queued, +6; of 26: 26 · (1 − 100/107) = 1.7, two
    // queued, +1.
    assert_eq!(limits_after(Vegas::default(), 19, &[100, 105, 107]), [20, 26, 27]);
    // Less than half of the limit is in use.
    assert_eq!(limits_after(Vegas::default(), 8, &[10, 10, 10]), [20, 20, 20]);
    // k = 2 from 100 on.
    let large = Vegas::new(range(1, 100, 1_000));
    assert_eq!(limits_after(large, 99, &[10, 10]), [100, 112]);
}

#[test]
fn vegas_shrinks_after_an_exception() {
    let scene = Scene::new(Vegas::default());
    scene.clock.advance(millis(1));
    let times = [5, 5].map(millis);
    for time in times {
        let call = scene.call();
        scene.clock.advance(time);
        call.reject();
    }
    assert_eq!(scene.limiter.limit(), 19, "the first one sets the base");
}

#[test]
fn vegas_measures_its_base_again() {
    // Without growth, since less than half of the limit is in use. After 15 · 20 to 30 · 20 calls,
    // 20 ms is the base, so that no call queues.
    let scene = Scene::new(Vegas::default());
    scene.calls(1, millis(10));
    let grown_after = (0..700).find(|_| {
        scene.calls(1, millis(20));
        let before = scene.limiter.limit();
        scene.calls(20, millis(20));
        scene.limiter.limit() > before
    });
    // Each round has 21 calls, or 20 where the limit has shrunk.
    let rounds = grown_after.expect("the limit grows");
    assert!((5..=40).contains(&rounds), "{rounds}");
}

#[test]
fn gradient2_moves_a_fifth_of_the_way() {
    // The average is 10 ms: the gradient is 1, and 20 + 0.2 · 4 = 20.8.
    let range = range(1, 20, 200);
    assert_eq!(limits_after(Gradient2::new(range), 19, &[10, 10, 10]), [20, 21, 22]);
    // The first ten count alike: (10 + 40)/2 = 25, 1.5 · 25/40 = 0.9375; 0.8 · 20.8 + 0.2 · (0.9375
    // · 20.8 + 4) = 21.34.
    assert_eq!(limits_after(Gradient2::new(range), 19, &[10, 40]), [20, 21]);
    // (10 + 990)/2 = 500, 1.5 · 500/990 = 0.757…; 0.8 · 20.8 + 0.2 · (0.757… · 20.8 + 4) = 20.59.
    // Then (10 + 990 + 10)/3 is more than 20 ms: · 0.95.
    assert_eq!(limits_after(Gradient2::new(range), 19, &[10, 990, 10]), [20, 20, 21]);
    // Less than half of the limit is in use.
    assert_eq!(limits_after(Gradient2::new(range), 8, &[10; 4]), [20; 4]);
}

/// The average of the first ten calls is their mean, whatever it was reduced to before.
#[test]
fn gradient2_forgets_a_reduction_while_it_warms_up() {
    let rts = [&[1_000][..], &[10; 9], &[200]].concat();
    // Ten times + 0.8: 108. (1,000 + 90)/10 = 109, · 0.95 = 103.55, and with 200 ms 103.87: the
    // gradient is 0.779.
    let limits = limits_after(Gradient2::new(range(1, 100, 200)), 99, &rts);
    assert_eq!(limits[9..], [108, 104]);
}

/// A range in the thousands gives the limit more digits.
#[test]
fn gradient2_reduces_a_long_average_by_a_twentieth() {
    // The first response times count alike: (100 + 10)/2 = 55 is more than 20 ms. Then 10 more of
    // 10 ms: the mean of ten is 19, which is not. The average of later ones: 19 + 2/601 · (9
    // − 19) = 18.967, more than 18 ms: · 0.95 = 18.018; again + 2/601 · (9 − 18.018) = 17.988,
    // which is not.
    let rts = [&[100][..], &[10; 9], &[9; 2], &[60]].concat();
    let limits = limits_after(Gradient2::new(range(1, 10_000, 20_000)), 9_999, &rts);
    // With 60 ms: 17.988 + 2/601 · 42.012 = 18.128, and the gradient is 1.5 · 18.128/60 = 0.4532,
    // at least 0.5. With 30 ms it is not: below.
    assert_eq!(limits[11], 10_009);
    let rts = [&[100][..], &[10; 9], &[9; 2], &[30]].concat();
    let limits = limits_after(Gradient2::new(range(1, 10_000, 20_000)), 9_999, &rts);
    // 17.988 + 2/601 · 12.012 = 18.028: 1.5 · 18.028/30 = 0.9014, and 10,009.6 · (0.8 + 0.2
    // · 0.9014) + 0.8 = 9,813.
    assert_eq!(limits[12], 9_813);
}

#[test]
fn gradient2_at_most_halves_its_target() {
    // Eleven calls of 1 ms, then 1,000 ms: the average is 1 + 999 · 2/601 = 4.3 ms, and the
    // gradient is at least 0.5.
    let scene = Scene::new(Gradient2::new(range(1, 100, 200)));
    for _ in 0..11 {
        scene.calls(1, millis(1));
    }
    let held: Vec<_> = (0..99).map(|_| scene.call()).collect();
    let call = scene.call();
    scene.clock.advance(millis(1_000));
    call.accept();
    assert_eq!(scene.limiter.limit(), 90, "80 + 0.2 · (50 + 4) = 90.8");
    held.into_iter().for_each(FeedbackPermit::cancel);
}
