//! `Aimd`. The numbers are worked by hand from the published formula.

use leaparray::flow::FeedbackPermit;
use leaparray::flow::adaptive::{Aimd, LimitAlgorithm};

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
