//! Readings of a warm-up: available permits, quota and peeks.

use leaparray::flow::{LimiterExt, Reason, Retry};

use super::Service;

#[test]
fn available_permits_are_those_of_the_curve() {
    let service = Service::of(90);
    assert!(service.ask(0, 2).is_admitted());
    // The curve gives 3.01 permits in a bucket, and no credit at the beginning.
    assert_eq!([0, 1, 2].map(|bucket| service.available(bucket)), [2, 5, 8]);
    // A request for more goes while any is left.
    assert!(service.ask(2, 40).is_admitted());
    assert_eq!(service.available(2), 0);
}

#[test]
fn quota_is_the_burst_of_the_present_coldness() {
    let service = Service::of(90);
    assert!(service.ask(0, 1).is_admitted());
    let quota = |bucket| {
        let quota = service.limiter.quota_at(service.start(bucket)).unwrap();
        (quota.limit, quota.remaining, quota.reset)
    };
    assert_eq!([0, 1, 60].map(quota), [(31, 3, None), (31, 6, None), (31, 31, None)]);
    assert_eq!(service.take_all(60, 1), 31);
}

/// A peek notes no refusal as demand, and takes nothing.
#[test]
fn peek_changes_nothing() {
    let service = Service::of(90);
    let state =
        |service: &Service| (0..40).map(|bucket| service.available(bucket)).collect::<Vec<_>>();
    assert!(service.ask(0, 30).is_admitted());
    let before = state(&service);
    for permits in [0, 1, 90, 91] {
        for bucket in 0..40 {
            let peeked = service.limiter.peek_at(service.start(bucket), permits).unwrap();
            match permits {
                0 => assert!(peeked.is_admitted()),
                91 => assert_eq!(peeked.refusal().unwrap().reason, Reason::MoreThanLimit),
                _ => {}
            }
        }
    }
    assert_eq!(state(&service), before);
    assert_eq!(
        service.limiter.peek_at(service.start(0), 91).unwrap().refusal().unwrap().retry(),
        Retry::Never
    );
    assert_eq!(service.current_limit(40), 30, "no demand");
}
