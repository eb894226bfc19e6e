//! Tests of a thread that takes permits of a limiter of the requests in flight, gives them back,
//! begins an epoch or ends one, and is stopped in the middle of it.

use std::mem::forget;
use std::sync::Arc;

use super::pairs::{acted, led, stop_each_two};
use crate::flow::{ConcurrencyLimiter, ConcurrencyPermit, LimiterExt};
use crate::sync::stall::Point;

const LIMIT: u64 = 1_000;
/// More than a stripe has.
const MANY: u64 = 600;
/// More than any limit that a test sets.
const ENDLESS: u64 = 10_000;

/// Returns a limiter in an epoch. No permit is taken.
fn striped() -> Arc<ConcurrencyLimiter> {
    let limiter = ConcurrencyLimiter::new(LIMIT);
    limiter.begin_epoch();
    assert!(limiter.is_striped());
    Arc::new(limiter)
}

fn take(
    limiter: &ConcurrencyLimiter,
    permits: u64,
) -> Option<ConcurrencyPermit<&ConcurrencyLimiter>> {
    limiter.try_acquire_many(permits).at_once().ok()
}

/// Takes permits for ever. Returns their number: all or none.
fn keep(limiter: &ConcurrencyLimiter, permits: u64) -> u64 {
    take(limiter, permits).map_or(0, |permit| {
        forget(permit);
        permits
    })
}

/// Takes single permits for ever until one is refused. Returns their number.
fn drain(limiter: &ConcurrencyLimiter) -> u64 {
    (0..ENDLESS).take_while(|_| keep(limiter, 1) == 1).count() as u64
}

/// An operation, and the number of permits that it keeps.
type Act = super::pairs::Act<ConcurrencyLimiter>;

/// Operations of which some take permits from stripes and give them back, some end an epoch, and
/// some begin the next one.
const ACTS: [Act; 6] = [
    |limiter| keep(limiter, 1),
    |limiter| {
        drop(take(limiter, 2));
        0
    },
    |limiter| keep(limiter, MANY),
    |limiter| {
        // Of the limiter's own word, unless another thread has begun an epoch.
        let permit = (limiter.in_use() < LIMIT).then(|| take(limiter, 1));
        limiter.begin_epoch();
        drop(permit);
        0
    },
    |limiter| {
        limiter.begin_epoch();
        keep(limiter, 2)
    },
    |limiter| {
        let both = [take(limiter, 1), take(limiter, 40)];
        assert!(limiter.in_use() <= limiter.limit().max(LIMIT));
        drop(both);
        0
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

fn stop_two(first: Act, second: Act, third: Act, points: &mut Vec<Point>) {
    stop_each_two(striped, [first, second], |limiter, stopped, when| {
        let mut kept = acted(limiter, third);
        points.extend(stopped.iter().filter_map(|stopped| stopped.trace.last()));
        for stopped in stopped {
            kept += stopped.finish().0;
        }
        assert_eq!(limiter.in_use(), kept, "{when}");
        limiter.begin_epoch();
        kept += drain(limiter);
        assert_eq!((kept, limiter.in_use()), (LIMIT, LIMIT), "{when}");
    });
}

/// A thread is stopped before it ends an epoch. Others end it, and take and give back permits in
/// later epochs.
#[test]
fn stopped_end_of_an_epoch_applies_to_that_epoch_only() {
    for point in [Point::StripeFrozen, Point::StripesFrozen] {
        let limiter = striped();
        let mut ends = led(&limiter, ConcurrencyLimiter::in_use);
        ends.lead_to(point);
        let mut kept = 0;
        for _ in 0..3 {
            limiter.begin_epoch();
            drop(take(&limiter, 3));
            kept += keep(&limiter, 1) + keep(&limiter, 2);
            assert_eq!(limiter.in_use(), kept);
        }
        limiter.begin_epoch();
        kept += keep(&limiter, 4);
        ends.finish();
        assert_eq!((kept, limiter.in_use()), (13, 13));
        assert_eq!(drain(&limiter), LIMIT - 13);
    }
}

/// Permits are taken from the word while a thread is stopped in the preparation of an epoch. The
/// stripes are used as they are prepared if their permits are left, and are prepared again
/// otherwise.
#[test]
fn prepared_stripes_are_used_if_their_permits_are_left() {
    for (taken, in_stripes) in [(136, 864), (137, 752)] {
        let limiter = striped();
        assert_eq!(limiter.in_use(), 0, "the reading ends the epoch");
        let mut prepares = led(&limiter, |limiter| {
            limiter.begin_epoch();
            0
        });
        prepares.lead_to(Point::SharedOut);
        assert_eq!(keep(&limiter, taken), taken);
        prepares.finish();
        let of_stripe = |_: &u64| keep(&limiter, 1) == 1 && limiter.is_striped();
        assert_eq!((0..LIMIT).take_while(of_stripe).count(), in_stripes, "{taken} taken");
        // The first permit after these has ended the epoch, if there is one.
        assert_eq!(drain(&limiter), (LIMIT - taken - in_stripes as u64).saturating_sub(1));
    }
}

/// A thread is stopped before it reads a stripe of an epoch, and a second one while it prepares the
/// next epoch. The first thread takes its permit from the word, or gives it back there. In a
/// stripe, the change would be lost: a third thread takes so many permits from the word that the
/// second one prepares the stripes again, or begins no epoch.
#[test]
fn stripe_in_preparation_is_not_used() {
    let [seen, read] = [Point::StripedSeen, Point::StripeRead];
    let takes: Act = |limiter| keep(limiter, 1);
    let gives_back: Act = |limiter| {
        drop(take(limiter, 1));
        0
    };
    for (act, points, in_use) in [(takes, &[seen][..], 0), (gives_back, &[seen, read, seen], 1)] {
        for (of_third, begins) in [(200, true), (990, false)] {
            let limiter = striped();
            let mut stopped = led(&limiter, act);
            for point in points {
                stopped.lead_to(*point);
            }
            assert_eq!(limiter.in_use(), in_use, "the reading ends the epoch");
            let mut prepares = led(&limiter, |limiter| {
                limiter.begin_epoch();
                0
            });
            prepares.lead_to(Point::SharedOut);
            let mut kept = stopped.finish().0;
            kept += keep(&limiter, of_third);
            prepares.finish();
            assert_eq!(limiter.is_striped(), begins);
            assert_eq!(limiter.in_use(), kept, "{in_use} and {of_third} permits");
            assert_eq!(kept + drain(&limiter), LIMIT);
        }
    }
}

/// Takes all permits that are left for ever, most of them in a few requests. Returns their number.
fn take_all(limiter: &ConcurrencyLimiter) -> u64 {
    let many = (0..ENDLESS).map(|_| keep(limiter, 40)).take_while(|&kept| kept > 0).sum::<u64>();
    many + drain(limiter)
}

/// The limit is changed while two threads are stopped, each at each of its points.
#[test]
fn changed_limit_applies_beside_stopped_threads() {
    for first in ACTS {
        for second in ACTS {
            for changed in [300, 1_700] {
                change_beside_two(first, second, changed);
            }
        }
    }
}

fn change_beside_two(first: Act, second: Act, changed: u64) {
    stop_each_two(striped, [first, second], |limiter, stopped, when| {
        limiter.reconfigure(changed);
        let before = limiter.in_use();
        let mut kept = take_all(limiter);
        assert_eq!(limiter.in_use(), changed.max(before), "{when}");
        for stopped in stopped {
            kept += stopped.finish().0;
        }
        // The threads may have taken permits under the limit that they have read before. No reading
        // ends the epoch that they may have begun.
        assert!(kept <= LIMIT.max(changed), "{when}, {kept} are kept");
        assert_eq!(take_all(limiter), changed.saturating_sub(kept), "{when}");
        // No permit is lost in a stripe.
        limiter.reconfigure(2_000);
        take_all(limiter);
        assert_eq!(limiter.in_use(), 2_000, "{when}");
    });
}

/// The limit is lowered while a thread is stopped in the preparation of an epoch. The thread
/// divides the permits of the former limit, also if it has to prepare its stripes again. No request
/// takes them.
#[test]
fn epoch_has_the_limit_that_was_divided() {
    // With the last permit, fewer are left than the stripes have.
    for taken in [136, 137] {
        let limiter = striped();
        assert_eq!(limiter.in_use(), 0, "the reading ends the epoch");
        let mut prepares = led(&limiter, |limiter| {
            limiter.begin_epoch();
            0
        });
        prepares.lead_to(Point::SharedOut);
        limiter.reconfigure(200);
        assert_eq!(keep(&limiter, taken), taken);
        prepares.finish();
        assert!(limiter.is_striped(), "after {taken} permits");
        assert_eq!(drain(&limiter), 200 - taken);
    }
}
