//! The warm-up limiter, whose limit is lower while the service is cold.

use std::time::Duration;

use leaparray::flow::{Limiter, Reason, SlidingWindowLimiter, WarmUp, WarmUpConfig};
use leaparray::{Timestamp, WindowConfig};

use crate::{at, ms};

/// The time at which each test begins, in milliseconds.
const BEGIN: u64 = 7_000_000;

/// A cold service with a limit of `limit` permits a second, in ten buckets of 100 ms.
fn cold(limit: u64) -> WarmUp {
    let config = WindowConfig::new(10, ms(1_000)).unwrap();
    WarmUp::new(config, limit, WarmUpConfig::default()).unwrap()
}

/// A request every millisecond for ten minutes, without four minutes in the middle.
#[test]
fn warming_up_takes_its_period_and_cooling_down_is_seen() {
    let warm_up = cold(120);
    let second_of = |second: u64| {
        let times = (0..1_000).map(|millis| at(BEGIN + second * 1_000 + millis));
        times.filter(|&now| warm_up.try_acquire_at(now, 1).is_admitted()).count()
    };
    let first: Vec<_> = (0..180).map(second_of).collect();
    assert!((40..=42).contains(&first[0]), "{}", first[0]);
    assert!(first.is_sorted(), "{first:?}");
    let warm_after = first.iter().position(|&admitted| admitted == 120).unwrap();
    assert!((9..=11).contains(&warm_after), "{warm_after} s");
    let second: Vec<_> = (420..600).map(second_of).collect();
    for (first, second) in first.iter().zip(&second).take(20) {
        assert!(first.abs_diff(*second) <= 1, "{first} {second}: as cold as at the beginning");
    }
}

#[test]
fn warm_service_under_some_demand_stays_warm_and_under_little_cools() {
    let warm_up = cold(90);
    let demand = |seconds: std::ops::Range<u64>, every: usize| {
        for millis in (seconds.start * 1_000..seconds.end * 1_000).step_by(every) {
            let _ = warm_up.try_acquire_at(at(BEGIN + millis), 1);
        }
        warm_up.current_limit_at(at(BEGIN + seconds.end * 1_000))
    };
    assert_eq!(demand(0..15, 1), 90);
    assert_eq!(demand(15..200, 20), 90, "50 a second are more than a cold service admits");
    assert_eq!(demand(200..300, 20), 90);
    assert!(demand(300..330, 50) < 45, "20 a second are fewer");
}

/// Each bucket is closed by a request of the next one. 30 permits a second, as many as a cold service admits, keep it
/// warm; 29 do not.
#[test]
fn service_cools_at_the_rate_of_its_limit() {
    let limit_after = |buckets: u64, of_ten: u64| {
        let warm_up = cold(90);
        for bucket in 0..200 + buckets {
            let permits = if bucket < 200 { 9 } else { 2 + u64::from(bucket % 10 < of_ten) };
            for _ in 0..permits {
                let _ = warm_up.try_acquire_at(at(BEGIN + bucket * 100), 1);
            }
        }
        warm_up.current_limit_at(at(BEGIN + (200 + buckets) * 100))
    };
    assert_eq!(limit_after(2_000, 10), 90, "30 a second");
    // There is room for 450 tokens above the line. Once few earlier permits are left in the window, 90 tokens a second
    // are added and 29 are taken.
    let [early, late] = [20, 70].map(|buckets| limit_after(buckets, 9));
    assert_eq!((early, late), (69, 33));
    assert_eq!(limit_after(200, 9), 30);
}

/// Each request asks for ten permits. A cold service admits three requests in a window, 30 of its 33 permits, and
/// refuses the fourth request.
#[test]
fn demand_that_is_refused_warms() {
    let warm_up = cold(100);
    for bucket in 0..200 {
        for _ in 0..5 {
            let _ = warm_up.try_acquire_at(at(BEGIN + bucket * 100), 10);
        }
    }
    assert_eq!(warm_up.current_limit_at(at(BEGIN + 20_000)), 100);
}

#[test]
fn request_for_more_than_a_cold_service_has_goes_alone() {
    let warm_up = cold(90);
    assert!(warm_up.try_acquire_at(at(BEGIN), 31).is_admitted());
    let refusal = warm_up.try_acquire_at(at(BEGIN + 100), 31).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(BEGIN + 200)), "the service might be warm by then");
    assert!(warm_up.try_acquire_at(at(BEGIN + 900), 31).is_refused());
    assert!(warm_up.try_acquire_at(at(BEGIN + 1_000), 31).is_admitted());
    // Such requests warm the service up.
    for bucket in 0..600 {
        let _ = warm_up.try_acquire_at(at(BEGIN + 1_100 + bucket * 100), 31);
    }
    assert_eq!(warm_up.current_limit_at(at(BEGIN + 61_100)), 90);
}

#[test]
fn permits_that_are_left_are_those_of_the_present_limit() {
    let warm_up = cold(90);
    assert!(warm_up.try_acquire_at(at(BEGIN), 12).is_admitted());
    assert!(warm_up.try_acquire_at(at(BEGIN + 900), 7).is_admitted());
    let left = [900, 1_000].map(|millis| warm_up.available_at(at(BEGIN + millis)));
    let limits = [900, 1_000].map(|millis| warm_up.current_limit_at(at(BEGIN + millis)));
    assert_eq!(left, [limits[0] - 19, limits[1] - 7]);
    let by_bucket = warm_up.permits_by_bucket_at(at(BEGIN + 1_000));
    let permits: Vec<_> = by_bucket.iter().map(|bucket| bucket.permits).collect();
    assert_eq!(permits, [0, 0, 0, 0, 0, 0, 0, 0, 7, 0]);
    assert!(warm_up.try_acquire_at(at(BEGIN + 1_000), 40).refusal().is_some());
    assert!(warm_up.available() > 0, "the clock shows a later time");
}

#[test]
fn request_that_can_never_succeed_is_no_demand() {
    let warm_up = cold(10);
    for bucket in 0..400 {
        for _ in 0..10 {
            let _ = warm_up.try_acquire_at(at(BEGIN + bucket * 100), 1);
        }
    }
    assert_eq!(warm_up.current_limit_at(at(BEGIN + 40_000)), 10);
    for bucket in 400..1_400 {
        assert!(warm_up.try_acquire_at(at(BEGIN + bucket * 100), 11).is_refused());
    }
    assert_eq!(warm_up.current_limit_at(at(BEGIN + 140_000)), 3);
}

/// The period has more buckets than the full token bucket has parts, so the tokens change by less than a part in a
/// bucket.
#[test]
fn long_period_of_short_buckets_warms_in_time_and_cools() {
    let config = WindowConfig::new(10, ms(10)).unwrap();
    let period = Duration::from_secs(300);
    let warm_up = WarmUp::new(config, 1_000, WarmUpConfig::new(period, 3.0).unwrap()).unwrap();
    let warm_after = (0..400_000).find(|bucket| {
        for permits in [100, 50, 20, 10, 10, 5, 5] {
            let _ = warm_up.try_acquire_at(at(BEGIN + bucket), permits);
        }
        warm_up.current_limit_at(at(BEGIN + bucket)) == 1_000
    });
    let warm_after = warm_after.unwrap();
    assert!((280_000..320_000).contains(&warm_after), "{warm_after} ms");
    for bucket in warm_after..warm_after + 400_000 {
        assert!(warm_up.try_acquire_at(at(BEGIN + bucket), 1).is_admitted());
    }
    let cold = warm_up.current_limit_at(at(BEGIN + warm_after + 400_000));
    assert!((333..340).contains(&cold), "{cold}");
}

#[test]
fn highest_limit_warms_up() {
    let config = WindowConfig::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    let limit = SlidingWindowLimiter::max_limit(&config);
    let warm_up = WarmUp::new(config, limit, WarmUpConfig::default()).unwrap();
    assert!(warm_up.try_acquire_at(at(5), limit).is_admitted(), "a request that is alone");
    let reason = |permits| warm_up.try_acquire_at(at(5), permits).refusal().unwrap().reason;
    assert_eq!([1, limit].map(reason), [Reason::LimitReached; 2]);
    assert_eq!([limit + 1, u64::MAX].map(reason), [Reason::MoreThanLimit; 2]);
}

#[test]
fn warm_service_says_when_permits_come_back() {
    let warm_up = cold(90);
    let refusal = (0..200).find_map(|bucket| {
        let now = at(BEGIN + bucket * 100);
        let refusal = (0..9).find_map(|_| warm_up.try_acquire_at(now, 5).refusal());
        refusal.filter(|_| bucket > 150).map(|refusal| (now, refusal))
    });
    let (now, refusal) = refusal.unwrap();
    assert_eq!(warm_up.current_limit_at(now), 90);
    let retry_at = refusal.retry_at().unwrap();
    assert!(retry_at > now);
    let before = Timestamp::from_nanos(retry_at.as_nanos() - 1);
    assert!(warm_up.try_acquire_at(before, 5).is_refused());
    assert!(warm_up.try_acquire_at(retry_at, 5).is_admitted());
}
