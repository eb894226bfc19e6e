//! A service cools in buckets with little demand: no refusal, no debt, and fewer permits than a
//! cold service admits.

use super::{BEGIN, Service, config, second};
use leaparray::flow::WarmUp;

/// A service that was under full demand in 150 buckets, ten seconds of which made it warm.
fn warm(limit: u64) -> Service {
    let service = Service::of(limit);
    for bucket in 0..150 {
        service.take_all(bucket, 1);
    }
    assert_eq!(service.current_limit(150), limit);
    service
}

/// The limit at the start of the last bucket, if `permits` single permits are asked for in each
/// bucket.
fn limit_after(service: &Service, buckets: std::ops::Range<u64>, permits: u64) -> u64 {
    let end = buckets.end;
    for bucket in buckets {
        for _ in 0..permits {
            let _ = service.ask(bucket, 1);
        }
    }
    service.current_limit(end)
}

/// The last refusal is in bucket 149. It is demand until its bucket leaves the window, in
/// bucket 159. The tokens then rise at the rate of the limit: 5,000 tokens at 100 in a bucket.
#[test]
fn idle_service_is_cold_after_half_of_the_period() {
    let service = warm(1_000);
    assert_eq!([159, 160].map(|bucket| service.current_limit(bucket)), [1_000, 961]);
    assert_eq!([208, 209].map(|bucket| service.current_limit(bucket)), [337, 333]);
    let read: Vec<u64> = (150..220).map(|bucket| service.current_limit(bucket)).collect();
    assert!(read.is_sorted_by(|earlier, later| earlier >= later), "{read:?}");
}

/// Without a refusal, a service cools once its window has fewer permits than a cold service admits:
/// 9 permits in each of 10 buckets, and 29 in the window that ends with bucket 166.
#[test]
fn service_without_refusals_cools_once_its_window_is_quiet() {
    let service = warm(90);
    // Seven buckets of 9 leave the window: 27 of 30 permits are left in bucket 166.
    assert_eq!(limit_after(&service, 150..160, 8), 90);
    let limits = [166, 167].map(|bucket| service.current_limit(bucket));
    // 8 · 4 = 32 permits until bucket 165, and 24 in bucket 166.
    assert_eq!(limits, [90, 86]);
}

/// 30 permits a second, as many as a cold service admits, keep it warm; 29 do not. There is room
/// for 450 tokens above the line; 90 tokens a second are added, and 29 are taken.
#[test]
fn demand_of_a_cold_service_keeps_it_warm_and_less_cools() {
    let service = warm(90);
    assert_eq!(limit_after(&service, 150..2_000, 3), 90, "30 a second");
    let fewer = |service: &Service, buckets: std::ops::Range<u64>| {
        for bucket in buckets.clone() {
            let permits = 2 + u64::from(bucket % 10 != 0);
            (0..permits).for_each(|_| assert!(service.ask(bucket, 1).is_admitted()));
        }
        service.current_limit(buckets.end)
    };
    assert_eq!(fewer(&service, 2_000..2_020), 58, "122 tokens");
    assert_eq!([fewer(&service, 2_020..2_060), fewer(&service, 2_060..2_200)], [34, 30]);
}

/// Half of the demand that the service gets is not refused. It stays cold if that is less than a
/// cold service admits, and becomes warm otherwise.
#[test]
fn demand_that_is_not_refused_warms_if_it_is_more_than_a_cold_service_admits() {
    let demand = |permits| limit_after(&Service::of(1_000), 0..400, permits);
    assert_eq!([16, 33, 34].map(demand), [333, 333, 1_000], "permits in a bucket");
}

/// A batch is demand until it is paid, also in buckets in which no request asks.
#[test]
fn service_does_not_cool_while_a_debt_is_paid() {
    let service = Service::of(1_000);
    assert!(service.ask(0, 1_000).is_admitted());
    // It takes 28 buckets. The service has taken a fifth of its tokens, which come back in ten
    // buckets.
    let limits = [1, 28, 29, 37, 38].map(|bucket| service.current_limit(bucket));
    assert_eq!(limits, [384, 384, 378, 337, 333]);
}

/// The service is as cold as at its beginning, and has the credit of a window.
#[test]
fn service_that_has_cooled_warms_as_at_the_beginning() {
    let (service, fresh) = (warm(1_000), Service::of(1_000));
    let begin = 3_000;
    assert_eq!(service.current_limit(begin), 333);
    let of = |service: &Service, buckets: std::ops::Range<u64>| -> u64 {
        buckets.map(|bucket| service.take_all(bucket, 1)).sum()
    };
    assert_eq!(service.take_all(begin, 1), of(&fresh, 0..10), "ten buckets at once");
    assert_eq!(of(&service, begin + 1..begin + 91), of(&fresh, 10..100));
    assert_eq!(service.current_limit(begin + 91), 1_000);
}

#[test]
fn request_that_can_never_succeed_is_no_demand() {
    let service = warm(10);
    for bucket in 150..1_150 {
        assert!(service.ask(bucket, 11).is_refused());
    }
    assert_eq!(service.current_limit(1_150), 3);
}

#[test]
fn request_for_no_permits_is_admitted_and_is_no_demand() {
    let service = warm(90);
    assert!(service.ask(149, 1).is_refused() && service.ask(149, 0).is_admitted());
    for bucket in 150..300 {
        assert!(service.ask(bucket, 0).is_admitted());
    }
    assert_eq!(service.current_limit(300), 30);
}

/// A gap of 10¹¹ buckets. A step for each of them would never end.
#[test]
fn gap_of_any_length_is_one_step() {
    let service = warm(90);
    let last = u64::MAX / 100_000_000;
    let end = leaparray::Timestamp::MAX;
    let limiter: &WarmUp<_> = &service.limiter;
    assert_eq!(limiter.current_limit_at(end), 30);
    assert!(service.ask(last - BEGIN, 90).is_admitted());
    let refusal = service.ask(last - BEGIN, 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), None, "after the end of time");
}

/// A window of one bucket has no credit: what a bucket does not take is gone.
#[test]
fn window_of_one_bucket_keeps_no_credit() {
    let service = Service::new(second(1), 1_000, config(10_000, 3.0));
    assert_eq!(service.take_all(0, 1), 342);
    assert_eq!(service.take_all(50, 1), 342, "cold again");
}
