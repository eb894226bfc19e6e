//! Tests of a thread that takes permits of a window, begins an epoch or ends one, and is stopped in
//! the middle of it.

use std::sync::Arc;
use std::time::Duration;

use super::pairs::{Act, acted, led, stop_each_two};
use super::threads::{Led, watched};
use crate::flow::{LimiterExt, SlidingWindowLimiter};
use crate::sync::stall::Point;
use crate::time::{ManualClock, Timestamp, WindowConfig};

type Sliding = SlidingWindowLimiter<ManualClock>;

const LIMIT: u64 = 1_000;
/// More than a stripe has.
const MANY: u64 = 600;
/// More than any limit that a test sets.
const ENDLESS: u64 = 10_000;

/// Returns a limiter of two buckets of a second, in an epoch of second 60. No permit is taken.
fn striped() -> Arc<Sliding> {
    let config = WindowConfig::new(2, Duration::from_secs(2)).unwrap();
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let limiter = SlidingWindowLimiter::of_buckets_with_clock(config, LIMIT, clock).unwrap();
    let limiter = limiter.with_max_lead(Duration::MAX);
    // Opens the bucket, and takes nothing.
    assert_eq!(ask(&limiter, 60, LIMIT + 1), 0);
    limiter.begin_epoch();
    assert!(limiter.is_striped());
    Arc::new(limiter)
}

/// Asks for permits at that second. Returns the number of admitted permits: all or none.
fn ask(limiter: &Sliding, second: u64, permits: u64) -> u64 {
    let now = Timestamp::from_secs(second);
    if limiter.try_acquire_at(now, permits).is_admitted() { permits } else { 0 }
}

/// Takes single permits at that second until one is refused. Returns their number.
fn drain(limiter: &Sliding, second: u64) -> u64 {
    (0..ENDLESS).take_while(|_| ask(limiter, second, 1) == 1).count() as u64
}

fn stopped_at(
    point: Point,
    limiter: &Arc<Sliding>,
    act: impl FnOnce(&Sliding) -> u64 + Send + 'static,
) -> Led<u64> {
    let mut stopped = led(limiter, act);
    stopped.lead_to(point);
    stopped
}

/// Operations of which some take permits from stripes, some end an epoch, and some begin the next
/// one.
const ACTS: [Act<Sliding>; 6] = [
    |limiter| ask(limiter, 60, 1),
    |limiter| ask(limiter, 60, MANY),
    |limiter| ask(limiter, 61, 1),
    |limiter| ask(limiter, 61, 200),
    |limiter| {
        limiter.begin_epoch();
        ask(limiter, 60, 2)
    },
    |limiter| {
        let taken = ask(limiter, 60, 3);
        // Ends the epoch. All three are taken in one bucket, or none is given back.
        let is_back = limiter.refund_at(Timestamp::from_secs(60), taken, Duration::ZERO);
        limiter.begin_epoch();
        if is_back { 0 } else { taken }
    },
];

/// One thread is stopped at each of its points, and a second one at each of its own, while a third
/// one acts and a fourth one takes all permits that are left. The limit is used up, and not
/// exceeded.
#[test]
fn stopped_threads_lose_no_permit_and_hide_none() {
    let mut points = Vec::new();
    for first in ACTS {
        for second in ACTS {
            for third in ACTS {
                stop_two(first, second, third, &mut points);
            }
        }
    }
    for point in [
        Point::SharedOut,
        Point::StripedSeen,
        Point::StripeRead,
        Point::StripeFrozen,
        Point::StripesFrozen,
    ] {
        assert!(points.contains(&point), "no thread stopped at {point:?}");
    }
}

fn stop_two(
    first: Act<Sliding>,
    second: Act<Sliding>,
    third: Act<Sliding>,
    points: &mut Vec<Point>,
) {
    stop_each_two(striped, [first, second], |limiter, stopped, when| {
        let mut admitted = acted(limiter, third);
        points.extend(stopped.iter().filter_map(|stopped| stopped.trace.last()));
        for stopped in stopped {
            admitted += stopped.finish().0;
        }
        let last = limiter.permits_by_bucket_at(Timestamp::from_secs(60)).pop().unwrap();
        admitted += drain(limiter, last.start.as_secs());
        assert_eq!((admitted, taken(limiter)), (LIMIT, LIMIT), "{when}");
    });
}

/// While a thread is stopped in the preparation of an epoch, permits are taken from the word, and
/// no other epoch begins.
#[test]
fn stopped_preparation_blocks_no_request() {
    let limiter = striped();
    let ends = ask(&limiter, 60, MANY);
    let stopped = stopped_at(Point::SharedOut, &limiter, |limiter| {
        limiter.begin_epoch();
        0
    });
    let other = limiter.clone();
    let takes = watched("a thread that takes permits", move || {
        other.begin_epoch();
        assert!(!other.is_striped());
        assert_eq!(ask(&other, 60, LIMIT), 0);
        drain(&other, 60)
    });
    assert_eq!(takes.result(), LIMIT - ends);
    stopped.finish();
    assert!(!limiter.is_striped(), "no permits are left");
    assert_eq!((ask(&limiter, 61, 1), ask(&limiter, 62, LIMIT)), (0, LIMIT));
}

/// Permits are taken from the word while a thread is stopped in the preparation of an epoch. The
/// stripes are used as they are prepared if their permits are left, and are prepared again
/// otherwise.
#[test]
fn prepared_stripes_are_used_if_their_permits_are_left() {
    for (taken, in_stripes) in [(128, 872), (129, 760)] {
        let limiter = striped();
        limiter.end_epoch();
        let prepares = stopped_at(Point::SharedOut, &limiter, |limiter| {
            limiter.begin_epoch();
            0
        });
        assert_eq!(ask(&limiter, 60, taken), taken);
        prepares.finish();
        let of_stripe = |_: &u64| ask(&limiter, 60, 1) == 1 && limiter.is_striped();
        assert_eq!((0..LIMIT).take_while(of_stripe).count(), in_stripes, "{taken} taken");
        // The first permit after these has ended the epoch, if there is one.
        assert_eq!(drain(&limiter, 60), (LIMIT - taken - in_stripes as u64).saturating_sub(1));
    }
}

/// A thread is stopped before it reads a stripe of an epoch, and a second one while it prepares the
/// next epoch. The first thread takes its permit from the word. In a stripe, the permit would be
/// lost: a third thread takes so many permits from the word that the second one prepares the
/// stripes again, or begins no epoch.
#[test]
fn stripe_in_preparation_gives_out_no_permits() {
    for point in [Point::StripedSeen, Point::StripeRead] {
        for (of_third, begins) in [(200, true), (990, false)] {
            let limiter = striped();
            let takes = stopped_at(point, &limiter, |limiter| ask(limiter, 60, 1));
            limiter.end_epoch();
            let prepares = stopped_at(Point::SharedOut, &limiter, |limiter| {
                limiter.begin_epoch();
                0
            });
            assert_eq!(takes.finish().0, 1);
            assert_eq!(ask(&limiter, 60, of_third), of_third);
            prepares.finish();
            assert_eq!(limiter.is_striped(), begins);
            assert_eq!(drain(&limiter, 60), LIMIT - of_third - 1);
        }
    }
}

/// A thread is stopped before it ends an epoch. Others end it, and take permits in later epochs.
#[test]
fn stopped_end_of_an_epoch_applies_to_that_epoch_only() {
    for point in [Point::StripeFrozen, Point::StripesFrozen] {
        let limiter = striped();
        let ends = stopped_at(point, &limiter, |limiter| {
            limiter.end_epoch();
            0
        });
        limiter.end_epoch();
        let mut admitted = 0;
        for _ in 0..3 {
            limiter.begin_epoch();
            admitted += ask(&limiter, 60, 1) + ask(&limiter, 60, 2);
            limiter.end_epoch();
        }
        limiter.begin_epoch();
        admitted += ask(&limiter, 60, 4);
        ends.finish();
        assert_eq!(
            (admitted, limiter.quota_at(Timestamp::from_secs(60)).unwrap().remaining),
            (13, LIMIT - 13)
        );
        assert_eq!(drain(&limiter, 60), LIMIT - 13);
    }
}

/// Returns the permits that were taken since second 60.
fn taken(limiter: &Sliding) -> u64 {
    let buckets = limiter.permits_by_bucket_at(Timestamp::from_secs(60));
    buckets.iter().map(|bucket| bucket.permits).sum()
}

/// Takes all permits that are left in the newest bucket, and asserts that the requests observe that
/// limit.
fn take_all(limiter: &Sliding, limit: u64, when: &str) {
    let most = limit.max(taken(limiter));
    let newest = limiter.permits_by_bucket_at(Timestamp::from_secs(60)).pop().unwrap();
    let _ = drain(limiter, newest.start.as_secs());
    assert_eq!(taken(limiter), most, "{when}, with a limit of {limit}");
}

/// The limit is changed while two threads are stopped, each at each of its points.
#[test]
fn changed_limit_applies_beside_stopped_threads() {
    let mut points = Vec::new();
    for first in ACTS {
        for second in ACTS {
            for changed in [300, 1_700] {
                change_beside_two(first, second, changed, &mut points);
            }
        }
    }
    for point in [Point::SharedOut, Point::StripedSeen, Point::StripeRead, Point::StripesFrozen] {
        assert!(points.contains(&point), "no thread stopped at {point:?}");
    }
}

fn change_beside_two(
    first: Act<Sliding>,
    second: Act<Sliding>,
    changed: u64,
    points: &mut Vec<Point>,
) {
    stop_each_two(striped, [first, second], |limiter, stopped, when| {
        points.extend(stopped.iter().filter_map(|stopped| stopped.trace.last()));
        limiter.reconfigure(changed).unwrap();
        take_all(limiter, changed, when);
        for stopped in stopped {
            stopped.finish();
            // The thread may have taken permits under the limit that it has read before.
            assert!(taken(limiter) <= LIMIT.max(changed), "{when}");
            take_all(limiter, changed, when);
        }
        // No permit is lost in a stripe.
        limiter.reconfigure(2_000).unwrap();
        take_all(limiter, 2_000, when);
    });
}

/// The limit is lowered while a thread is stopped in the preparation of an epoch. The thread
/// divides the permits of the former limit, also if it has to prepare its stripes again. No request
/// takes them.
#[test]
fn epoch_has_the_limit_that_was_divided() {
    // With the last permit, fewer are left than the stripes have.
    for taken in [128, 129] {
        let limiter = striped();
        limiter.end_epoch();
        let prepares = stopped_at(Point::SharedOut, &limiter, |limiter| {
            limiter.begin_epoch();
            0
        });
        limiter.reconfigure(200).unwrap();
        assert_eq!(ask(&limiter, 60, taken), taken);
        prepares.finish();
        assert!(limiter.is_striped(), "after {taken} permits");
        assert_eq!(drain(&limiter, 60), 200 - taken);
    }
}
