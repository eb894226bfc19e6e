//! Times that stand still, go back, or are at an end of time, and windows of any size.

use super::*;
use leaparray::Outcome;

#[test]
fn time_that_stands_still() {
    let (breaker, _) = strict();
    let through = (0..10_000).filter(|_| ask(&breaker, false)).count();
    assert_eq!(through, 2, "the first request, and a probe");
    assert_eq!(counts(&breaker), [0, 2, 9_998]);
}

/// A thread reads its clock in the last nanosecond of a bucket, stalls, and reports an acceptance
/// at that stale timestamp.
#[test]
fn rejection_counts_requests_that_end_in_the_bucket_before() {
    let config = AdaptiveBreakerConfig::default().min_requests(0).k(1.0).unwrap();
    let (breaker, _) = breaker(config, Strict);
    let held_up = Timestamp::from_nanos(NOON.as_nanos() - 1);
    let [first, second, third] =
        [(); 3].map(|()| breaker.try_acquire_at(held_up, 1).at_once().unwrap());
    first.end_at(NOON, Outcome::Exception);
    let _probe = breaker.try_acquire_at(NOON, 1).at_once().expect("a probe is due");
    assert!(breaker.try_acquire_at(NOON, 1).is_refused(), "the probe is used up");
    second.end_at(held_up, Outcome::Success);
    assert!(breaker.drop_probability_at(NOON) > 0.0);
    assert!(
        (0..100)
            .all(|_| !breaker.try_acquire_at(NOON, 1).map(FeedbackPermit::cancel).is_admitted())
    );
    third.end_at(NOON, Outcome::Success);
}

#[test]
fn time_that_goes_back() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        ask(&breaker, false);
        clock.advance(MILLI * 20);
    }
    // Back by less than the window, as with a stale timestamp. Probes begin again once time has
    // caught up.
    clock.set(NOON.saturating_sub(SECOND).saturating_add(MILLI * 500));
    assert!(ask(&breaker, false), "the window at that time is empty");
    let through = (0..300).filter(|_| {
        clock.advance(MILLI * 10);
        ask(&breaker, false)
    });
    assert!((1..=2).contains(&through.count()));
    // Back by much more than the window: all earlier counts are ahead, so no request is dropped.
    clock.set(Timestamp::from_secs(1));
    let before = counts(&breaker);
    assert!((0..100).all(|_| ask(&breaker, true)));
    clock.set(NOON.saturating_add(SECOND * 2));
    assert!(!ask(&breaker, true));
    assert_eq!(counts(&breaker), [before[0] + 100, before[1], before[2] + 1], "no count is lost");
}

#[test]
fn both_ends_of_time() {
    for (end, retry) in
        [(Timestamp::MIN, Retry::Unknown), (Timestamp::MAX, Retry::At(Timestamp::MAX))]
    {
        let (breaker, clock) = strict();
        clock.set(end);
        assert!(ask(&breaker, false));
        let through = (0..100).filter(|_| ask(&breaker, false)).count();
        // The time of the last pass is 0 at first, as if a request had got through at the beginning
        // of time.
        assert_eq!(through, usize::from(end == Timestamp::MAX));
        let refusal = breaker.try_acquire().refusal().expect("all requests have failed");
        // At a probability of one half, the time to ask again is unknown. Above, it is the next
        // probe, before which time ends.
        assert_eq!(refusal.retry(), retry);
    }
}

#[test]
fn windows_of_any_size() {
    let nanos = Duration::from_nanos;
    for window in [
        WindowConfig::new(1, nanos(2)),
        WindowConfig::new(3, nanos(300)),
        WindowConfig::new(2, SECOND * 86_400),
        WindowConfig::new(1, nanos(u64::MAX)),
    ] {
        let config = AdaptiveBreakerConfig::default().window(window.unwrap()).min_requests(0);
        let (breaker, clock) = breaker(config, Strict);
        assert!(ask(&breaker, false) && ask(&breaker, false));
        assert!(!ask(&breaker, false), "{config:?}");
        clock.advance(window.unwrap().interval());
        assert!(ask(&breaker, true), "{config:?}");
    }
}
