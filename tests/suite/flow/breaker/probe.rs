//! Probes: one in each interval, for the requests that would be dropped.

use super::*;
use leaparray::Outcome;

#[test]
fn refusal_has_the_retry_time() {
    let config = AdaptiveBreakerConfig::default().k(1.0).unwrap().min_requests(0);
    let (breaker, clock) = breaker(config, Strict);
    assert!(ask(&breaker, true) && ask(&breaker, false));
    let _probe = breaker.try_acquire().at_once().expect("a probe is due");
    clock.advance(MILLI);
    let refusal = breaker.try_acquire().refusal().expect("a drop probability of 1 / 3");
    assert_eq!(refusal.reason, Reason::Failing);
    assert_eq!(refusal.retry(), Retry::Unknown, "the next draw may differ");

    let breaker = strict().0;
    assert!(ask(&breaker, false) && ask(&breaker, false));
    let refusal = breaker.try_acquire().refusal().expect("a drop probability of 2 / 3");
    assert_eq!(refusal.retry_at(), Some(NOON.saturating_add(SECOND)), "the next probe");
    assert!(breaker.try_acquire_at(refusal.retry_at().unwrap(), 1).is_admitted());
}

#[test]
fn backend_that_fails_entirely_is_probed_once_a_second() {
    let (breaker, clock) = strict();
    assert!(ask(&breaker, false));
    let mut last_probe: Option<u32> = None;
    let mut probes = 0;
    for millis in 0..60_000 {
        if ask(&breaker, false) {
            assert!(
                last_probe.is_none_or(|last| millis - last == 1_000),
                "{last_probe:?} {millis}"
            );
            last_probe = Some(millis);
            probes += 1;
        }
        clock.advance(MILLI);
    }
    assert_eq!(probes, 60);
    assert_eq!(counts(&breaker), [0, 61, 59_940]);
}

/// A request that gets through by chance postpones the next probe.
#[test]
fn probe_comes_a_second_after_the_last_that_got_through() {
    struct Nth(std::sync::atomic::AtomicU32);
    impl RandomSource for Nth {
        fn next_u32(&self) -> u32 {
            let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if before == 500 { u32::MAX } else { 0 }
        }
    }
    let config = AdaptiveBreakerConfig::default().min_requests(0);
    let (breaker, clock) = breaker(config, Nth(0.into()));
    ask(&breaker, false);
    let passes: Vec<_> = (0..2_000)
        .filter(|_| {
            clock.advance(MILLI);
            ask(&breaker, false)
        })
        .collect();
    assert_eq!(passes, [0, 500, 1_500]);
}

/// Two threads ask in turn. The timestamp of one of them is behind by two probe intervals.
#[test]
fn stale_timestamp_gets_no_probe_of_its_own() {
    let config = AdaptiveBreakerConfig::default().min_requests(0).probe_interval(MILLI).unwrap();
    let (breaker, _) = breaker(config, Strict);
    let in_time = NOON.saturating_add(MILLI * 3);
    for _ in 0..2 {
        breaker.try_acquire_at(in_time, 1).at_once().unwrap().end_at(in_time, Outcome::Exception);
    }
    for now in [NOON.saturating_add(MILLI), in_time].repeat(10) {
        assert!(breaker.try_acquire_at(now, 1).map(FeedbackPermit::cancel).is_refused(), "{now}");
    }
}
