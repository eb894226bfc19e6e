//! Changes of the limit, the period and the cold factor of a warm-up in use.

use leaparray::flow::{LimitError, SlidingWindowLimiter, WarmUpConfig};

use super::{Service, config, second};

#[test]
fn warm_service_stays_warm_under_another_limit() {
    let service = Service::of(100);
    for bucket in 0..150 {
        service.take_all(bucket, 1);
    }
    // In the middle of a bucket that is used up.
    assert!(service.ask(149, 1).is_refused());
    service.limiter.reconfigure(200, service.limiter.config()).unwrap();
    assert_eq!((service.limiter.limit(), service.current_limit(149)), (200, 200));
    assert_eq!(service.take_all(149, 1), 10, "20 in this bucket");
    let second: u64 = (150..160).map(|bucket| service.take_all(bucket, 1)).sum();
    assert_eq!(second, 200);
    service.limiter.reconfigure(50, service.limiter.config()).unwrap();
    assert_eq!((service.current_limit(160), service.available(160)), (50, 0));
    let refused = service.ask(160, 1);
    assert_eq!(service.retry(refused), 167, "when 151 of the 200 permits have left");
    let later: u64 = (161..177).map(|bucket| service.take_all(bucket, 1)).sum();
    assert_eq!(later, 50);
}

/// The service is in the middle of its tokens, and stays there.
#[test]
fn coldness_and_debt_stay_under_another_limit_and_curve() {
    let service = Service::of(1_000);
    assert!([0, 28].iter().all(|&bucket| service.ask(bucket, 1_000).is_admitted()));
    // 2,000 of 5,000 tokens are taken, which is paid in bucket 52.
    let retry = |bucket| service.retry(service.ask(bucket, 1));
    assert_eq!((service.current_limit(29), retry(29)), (454, 52));
    service.limiter.reconfigure(500, service.limiter.config()).unwrap();
    assert_eq!((service.current_limit(29), retry(29)), (227, 52));
    service.limiter.reconfigure(service.limiter.limit(), config(20_000, 3.0)).unwrap();
    assert_eq!((service.current_limit(29), retry(29)), (227, 52));
    service.limiter.reconfigure(service.limiter.limit(), config(20_000, 9.0)).unwrap();
    assert_eq!((service.current_limit(29), retry(29)), (86, 52));
    assert_eq!(service.limiter.config(), config(20_000, 9.0));
}

/// The permits of the bucket in which the change comes take a mean of 7 times the time of a warm
/// service with the first curve, and 2.8 times with the second, which stays so with the third. The
/// limit is 100 permits in a bucket.
#[test]
fn permits_of_the_bucket_of_a_change_are_paid_by_the_curve_that_takes_less_time() {
    let service = Service::new(second(10), 1_000, config(10_000, 9.0));
    assert!(service.ask(0, 1_000).is_admitted());
    let retry = || service.retry(service.ask(0, 1));
    assert_eq!([retry(), retry()], [70; 2]);
    let change = |limit, factor| service.limiter.reconfigure(limit, config(10_000, factor));
    change(1_000, 3.0).unwrap();
    assert_eq!([retry(), retry()], [28; 2]);
    change(1_000, 9.0).unwrap();
    assert_eq!([retry(), retry()], [28; 2]);
    // By way of a lower limit to a higher one: seven times as much takes less time again.
    change(500, 9.0).unwrap();
    assert_eq!(retry(), 28);
    change(7_000, 9.0).unwrap();
    assert!(retry() < 28);
}

/// A warm service has taken a burst, which its credit has paid. A limit of a hundredth would take
/// 80 seconds to pay it.
#[test]
fn burst_of_a_warm_service_is_no_debt_under_a_lower_limit() {
    let service = Service::of(1_000);
    for bucket in 0..150 {
        service.take_all(bucket, 1);
    }
    assert!(service.ask(160, 900).is_admitted());
    service.limiter.reconfigure_at(service.start(160), 10, service.limiter.config()).unwrap();
    assert_eq!(service.retry(service.peek(160, 1).unwrap()), 170, "when the burst has left");
    assert_eq!(service.retry(service.ask(160, 1)), 170);
    assert_eq!(service.current_limit(170), 10, "it is as warm as before");
    assert!(service.ask(170, 1).is_admitted());
}

/// A cold service has 34 permits in its first bucket, and has taken 20. Half of the limit gives
/// half of the rest, and twice the limit 67 permits in all.
#[test]
fn rest_of_the_bucket_of_a_change_follows_the_new_curve() {
    for (limit, rest) in [(1_000, 14), (500, 7), (2_000, 47)] {
        let service = Service::of(1_000);
        assert!(service.ask(0, 20).is_admitted());
        service.limiter.reconfigure(limit, service.limiter.config()).unwrap();
        assert_eq!(service.available(0), rest, "with {limit}");
        assert_eq!(service.take_all(0, 1), rest, "with {limit}");
    }
}

/// A period of half the length: the rest takes half of the time.
#[test]
fn rest_of_a_period_follows_the_new_one() {
    let warm_after = |change: Option<WarmUpConfig>| {
        let service = Service::of(1_000);
        (0..1_000).find(|&bucket| {
            if let (40, Some(config)) = (bucket, change) {
                service.limiter.reconfigure(service.limiter.limit(), config).unwrap();
            }
            service.take_all(bucket, 1);
            service.current_limit(bucket + 1) == 1_000
        })
    };
    assert_eq!(warm_after(None), Some(99));
    assert_eq!(warm_after(Some(config(5_000, 3.0))), Some(69));
}

/// The debt of bucket 0 is paid in bucket 28 under the former settings. A tenth of the limit would
/// pay it in bucket 280.
#[test]
fn debt_that_is_paid_stays_paid_under_another_limit() {
    let service = Service::of(1_000);
    assert!(service.ask(0, 1_000).is_admitted());
    service.limiter.reconfigure_at(service.start(30), 100, service.limiter.config()).unwrap();
    assert!(service.ask(30, 1).is_admitted());
}

/// A debt of 70 buckets: with ten times the limit, the same permits would be paid in bucket 7.
#[test]
fn debt_of_an_earlier_bucket_takes_the_same_time_under_a_higher_limit() {
    let service = Service::new(second(10), 100, config(10_000, 9.0));
    assert!(service.ask(0, 100).is_admitted());
    let paid = service.retry(service.peek(1, 1).unwrap());
    assert_eq!(paid, 70);
    service.limiter.reconfigure_at(service.start(12), 1_000, service.limiter.config()).unwrap();
    assert_eq!(service.retry(service.ask(12, 1)), paid);
}

/// Half of the former period after the last demand, the service is cold. It stays so under a period
/// ten times as long.
#[test]
fn service_that_has_cooled_stays_cold_under_a_longer_period() {
    let service = Service::of(1_000);
    for bucket in 0..150 {
        service.take_all(bucket, 1);
    }
    assert_eq!([150, 250].map(|bucket| service.current_limit(bucket)), [1_000, 333]);
    service.limiter.reconfigure_at(service.start(250), 1_000, config(100_000, 3.0)).unwrap();
    assert_eq!(service.current_limit(250), 333);
}

/// 150 permits are more than a cold service of a factor of 10 admits, and fewer than one of 3.
#[test]
fn service_cools_by_the_cold_limit_of_the_new_curve() {
    let service = Service::new(second(10), 1_000, config(10_000, 10.0));
    for bucket in 0..150 {
        service.take_all(bucket, 1);
    }
    assert!(service.ask(170, 100).is_admitted() && service.ask(171, 50).is_admitted());
    let before = service.current_limit(172);
    assert_eq!(service.current_limit(178), before, "it does not cool");
    service.limiter.reconfigure_at(service.start(172), 1_000, config(10_000, 3.0)).unwrap();
    assert!(service.current_limit(178) < service.current_limit(173), "it cools");
}

#[test]
fn fresh_service_has_no_credit_after_a_change() {
    let service = Service::of(1_000);
    service.limiter.reconfigure(2_000, service.limiter.config()).unwrap();
    assert_eq!(service.take_all(5, 1), 67);
    // Nothing is forgotten by a change: as many again, in the next bucket.
    service.limiter.reconfigure(service.limiter.limit(), WarmUpConfig::default()).unwrap();
    assert_eq!(service.take_all(6, 1), 67);
}

#[test]
fn limit_that_cannot_be_leaves_the_limiter_as_it_is() {
    let service = Service::of(100);
    let most = SlidingWindowLimiter::max_limit(&service.window);
    assert_eq!(service.limiter.reconfigure(0, service.limiter.config()), Err(LimitError::Zero));
    assert!(matches!(
        service.limiter.reconfigure(most + 1, service.limiter.config()),
        Err(LimitError::TooHigh { .. })
    ));
    assert_eq!(service.limiter.limit(), 100);
    assert_eq!(service.limiter.reconfigure(most, service.limiter.config()), Ok(()));
}
