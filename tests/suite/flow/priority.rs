//! Classes of a limit in flight: the shares, to the unit, and what gives way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use leaparray::flow::adaptive::{Headroom, LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange};
use leaparray::flow::priority::{ClassError, Classes, LimitInForce, OfClass};
use leaparray::flow::shadow::Share;
use leaparray::flow::shares::FairShares;
use leaparray::flow::{
    AdaptiveLimiter, Ask, ConcurrencyLimiter, Decision, Limiter, LimiterExt, QuotaUnit, Reason,
    Retry,
};
use leaparray::{Clock, ManualClock, MetricEvent, NodeConfig, Outcome, Permit, ResourceNode};

use crate::flow::at;

type Shared = Arc<ConcurrencyLimiter>;

fn classes(limit: u64, shares: &[f64]) -> Classes<Shared> {
    Classes::new(Arc::new(ConcurrencyLimiter::new(limit)), shares).unwrap()
}

/// Takes permits one by one until one is refused.
fn fill<L: Limiter>(class: &L) -> Vec<L::Permit> {
    std::iter::from_fn(|| class.try_acquire().at_once().ok()).collect()
}

#[test]
fn lower_class_is_refused_first_and_leaves_the_reserve() {
    let classes = classes(100, &[1.0, 0.8, 0.29]);
    let low = fill(&classes.class(2));
    assert_eq!(low.len(), 29);
    let refusal = classes.class(2).try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::GIVES_WAY, Retry::Unknown));
    let (middle, high) = (fill(&classes.class(1)), fill(&classes.class(0)));
    assert_eq!((middle.len(), high.len()), (51, 20));
    // The whole limit is in use: that is the reason for each class.
    for class in 0..3 {
        let refusal = classes.class(class).try_acquire().refusal().unwrap();
        assert_eq!(refusal.reason, Reason::LimitReached, "class {class}");
        assert_eq!(classes.class(class).peek_at(at(0), 1).unwrap().refusal(), Some(refusal));
    }
    // The low class has to wait until the use of all is below its share.
    drop((low, middle));
    assert_eq!(fill(&classes.class(2)).len(), 9, "20 of the high class and 9 are 29");
    drop(high);
    assert_eq!((classes.in_use(), classes.limiter().in_use()), (0, 0));
}

#[test]
fn share_of_a_request_is_that_of_a_class_with_it() {
    let classes = classes(100, &[1.0, 0.29]);
    let share = |parts| OfClass::with_share(&classes, Share::per_million(parts).unwrap());
    // In either order, the requests of the two count together.
    let low = fill(&share(290_000));
    assert_eq!((low.len(), fill(&classes.class(1)).len()), (29, 0));
    drop(low);
    let low = fill(&classes.class(1));
    assert_eq!((low.len(), fill(&share(290_000)).len()), (29, 0));
    let refusal = share(290_000).try_acquire().refusal().unwrap();
    assert_eq!(Some(refusal), classes.class(1).try_acquire().refusal());
    assert_eq!(refusal.reason, Reason::GIVES_WAY);
    let rest = fill(&share(1_000_000));
    assert_eq!((rest.len(), classes.in_use()), (71, 100));
    drop((low, rest));
    assert_eq!(fill(&share(0)).len(), 1, "each request may use a permit");
    assert_eq!(share(500_000).quota_at(at(0)).unwrap().limit, 50);
}

#[test]
fn no_class_starves_under_a_low_limit() {
    let classes = classes(1, &[1.0, 0.5]);
    let alone = classes.class(1).try_acquire();
    assert!(alone.is_admitted() && classes.class(0).try_acquire().is_refused());
    drop(alone);
    // More permits than its share, although no other request is in flight.
    let classes = self::classes(10, &[1.0, 0.5]);
    let refusal = classes.class(1).try_acquire_many(8).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::GIVES_WAY, Retry::Unknown));
    let refusal = classes.class(1).try_acquire_many(u64::MAX).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
    let one = classes.class(0).try_acquire();
    let refusal = classes.class(1).try_acquire_many(u64::MAX).refusal().unwrap();
    assert_eq!(refusal.retry(), Retry::Never, "also beside another request");
    drop(one);
    assert_eq!(classes.in_use(), 0, "what the limiter has refused is given back");
}

#[test]
fn requests_for_no_permits_and_unknown_classes_are_decided() {
    let classes = classes(4, &[1.0, 0.5]);
    let all = classes.class(0).try_acquire_many(4);
    assert!(all.is_admitted() && classes.class(1).try_acquire_many(0).is_admitted());
    drop(all);
    let unknown = OfClass::new(&classes, usize::MAX);
    assert_eq!(fill(&unknown).len(), 2, "as the lowest class");
    let quota = classes.class(1).quota_at(at(0)).unwrap();
    assert_eq!((quota.limit, quota.remaining, quota.unit), (2, 2, QuotaUnit::InFlight));
    assert!(classes.class(1).account().is_as_new(at(0)));
}

#[test]
fn shares_out_of_range_are_errors() {
    let new = |shares: &[f64]| Classes::new(Arc::new(ConcurrencyLimiter::new(1)), shares).err();
    assert_eq!(new(&[]), Some(ClassError::NoClass));
    assert_eq!(new(&[1.0, -0.5]), Some(ClassError::Share { class: 1, share: -0.5 }));
    assert_eq!(new(&[1.1]), Some(ClassError::Share { class: 0, share: 1.1 }));
    assert!(matches!(new(&[f64::NAN]), Some(ClassError::Share { class: 0, .. })));
    assert_eq!(new(&[1.0, 0.5, 0.6]), Some(ClassError::Rising { class: 2 }));
    let low = Classes::new(Arc::new(ConcurrencyLimiter::new(10)), &[0.5, 0.0]).unwrap();
    assert_eq!(fill(&low.class(0)).len(), 5);
    assert_eq!(fill(&low.class(1)).len(), 1, "alone");
}

/// Limits that a test gives, one after each call that ends; the last one stays.
struct Script(Vec<u64>);

impl Script {
    fn plan(&mut self) -> LimitPlan {
        LimitPlan::each_call(if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] })
    }
}

impl LimitAlgorithm for Script {
    fn first_plan(&mut self) -> LimitPlan {
        self.plan()
    }

    fn next_plan(&mut self, _evidence: &LimitEvidence<'_>) -> LimitPlan {
        self.plan()
    }
}

#[test]
fn shares_follow_a_limit_that_moves() {
    let script = Script(vec![10, 20, 4]);
    let limit = Arc::new(AdaptiveLimiter::with_clock(script, ManualClock::new(at(60_000))));
    let classes = Classes::new(Arc::clone(&limit), &[1.0, 0.5]).unwrap();
    let (high, low) = (classes.class(0), classes.class(1));
    let mut held = fill(&low);
    assert_eq!(held.len(), 5);
    drop(held.pop());
    assert_eq!(limit.limit(), 20);
    held.extend(fill(&low));
    assert_eq!(held.len(), 10);
    drop(held.pop());
    assert_eq!((limit.limit(), limit.in_use()), (4, 9));
    assert!(low.try_acquire().is_refused() && high.try_acquire().is_refused());
    held.truncate(3);
    assert!(low.try_acquire().is_refused());
    let call = high.try_acquire();
    assert!(call.is_admitted(), "a fourth of 4");
    drop((held, call));
    assert_eq!((classes.in_use(), limit.in_use()), (0, 0));
}

/// Threads of two classes take and give back permits. At no time do the low ones hold more than
/// their share, nor all more than the limit. Requests that find room are admitted.
#[test]
fn shares_hold_under_a_race() {
    let classes = classes(8, &[1.0, 0.5]);
    let [low, all] = [(); 2].map(|()| AtomicU64::new(0));
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let (classes, low, all, start) = (&classes, &low, &all, &start);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(number);
                let is_low = number % 2 == 1;
                start.wait();
                for _ in 0..5_000 {
                    let permits = rng.u64(1..3);
                    let class = classes.class(usize::from(is_low));
                    let Ok(permit) = class.try_acquire_many(permits).at_once() else { continue };
                    // Counted while it is held: at most what is held.
                    let of_low = if is_low { permits } else { 0 };
                    let low_now = low.fetch_add(of_low, Ordering::Relaxed) + of_low;
                    assert!(low_now <= 4, "{low_now} of a share of 4");
                    assert!(all.fetch_add(permits, Ordering::Relaxed) + permits <= 8);
                    all.fetch_sub(permits, Ordering::Relaxed);
                    low.fetch_sub(of_low, Ordering::Relaxed);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!((classes.in_use(), classes.limiter().in_use()), (0, 0));
}

/// The outcome of an entry reaches the limiter that is divided.
#[test]
fn adaptive_limiter_learns_from_the_calls_of_all_classes() {
    let limit = Arc::new(AdaptiveLimiter::default());
    let classes = Classes::new(Arc::clone(&limit).named("backend"), &[1.0, 0.5]).unwrap();
    let node = ResourceNode::new(NodeConfig::default());
    let entry = classes.class(1).try_enter(&node).unwrap();
    assert_eq!((limit.in_use(), classes.in_use()), (1, 1));
    entry.success();
    assert_eq!((limit.in_use(), classes.in_use()), (0, 0));
    let held = fill(&classes.class(1));
    assert_eq!(held.len(), 10, "half of 20");
    assert!(classes.class(1).try_enter(&node).is_err());
    assert_eq!(node.refusals()[Reason::GIVES_WAY], 1);
    assert_eq!(node.now().long().sum(MetricEvent::Success), 1);
}

/// A limit that grew by the calls of a lower class alone would grow until the share of that class
/// is all that the backend bears, and then the class above would find no reserve.
#[test]
fn adaptive_limit_grows_by_a_class_that_may_use_all_of_it() {
    let clock = ManualClock::new(at(60));
    let headroom = Headroom::new(LimitRange::new(1, 10, 1_000).unwrap());
    let limit = Arc::new(AdaptiveLimiter::with_clock(headroom, clock.clone()));
    let classes = Classes::new(Arc::clone(&limit), &[1.0, 0.6]).unwrap();
    // The backend answers each call in 10 ms, and the clients of each class want 40 at once.
    let mut calls = [(); 2].map(|()| VecDeque::new());
    for millis in 0..6_000 {
        clock.advance(Duration::from_millis(1));
        let now = clock.now();
        for (class, calls) in calls.iter_mut().enumerate().rev() {
            while calls.front().is_some_and(|(end, _)| *end <= now) {
                let (_, mut call) = calls.pop_front().unwrap();
                Permit::end_at(&mut call, now, Outcome::Success);
            }
            let wanted = if class == 1 || millis >= 5_000 { 40 } else { 0 };
            while calls.len() < wanted {
                let Ok(call) = classes.class(class).decide(&now.into()).at_once() else { break };
                calls.push_back((now.saturating_add(Duration::from_millis(10)), call));
            }
        }
        if millis < 5_000 {
            assert_eq!((limit.limit(), classes.in_use()), (10, 6));
        }
    }
    assert_eq!(calls[0].len(), 40, "of a limit of {}", limit.limit());
}

#[test]
fn shares_are_changed_in_place() {
    let classes = classes(10, &[1.0, 0.6, 0.5]);
    let held = fill(&classes.class(2));
    classes.reconfigure(&[1.0, 0.8]).unwrap();
    assert_eq!(fill(&classes.class(2)).len() + held.len(), 8, "as the last share");
    let error = classes.reconfigure(&[1.0; 4]).unwrap_err();
    assert_eq!(error, ClassError::TooMany { classes: 3 });
    assert_eq!(classes.reconfigure(&[0.1, 0.2]), Err(ClassError::Rising { class: 1 }));
    assert_eq!(fill(&classes.class(1)).len() + held.len(), 8, "nothing was changed");
}

/// A limiter that tells a permit that is withdrawn from one that is cancelled.
struct Withdraws(AtomicU64);

struct Withdrawn<'a>(&'a AtomicU64);

impl Permit for Withdrawn<'_> {
    fn end_at(&mut self, _now: leaparray::Timestamp, _outcome: Outcome) {}

    fn withdraw_at(&mut self, _now: leaparray::Timestamp) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a> Limiter for &'a Withdraws {
    type Permit = Withdrawn<'a>;

    fn decide(&self, _ask: &Ask<'_>) -> Decision<Withdrawn<'a>> {
        Decision::Admitted(Withdrawn(&self.0))
    }
}

impl LimitInForce for Withdraws {
    fn limit_in_force(&self) -> u64 {
        10
    }
}

#[test]
fn permit_is_withdrawn_from_the_limiter_that_is_divided() {
    let limiter = Withdraws(AtomicU64::new(0));
    let classes = Classes::new(&limiter, &[1.0]).unwrap();
    classes.class(0).try_acquire().at_once().unwrap().withdraw_at(at(0));
    let shares = FairShares::new(&limiter, 10).unwrap();
    shares.tenant("ann", 1).try_acquire().at_once().unwrap().withdraw_at(at(0));
    assert_eq!(limiter.0.load(Ordering::Relaxed), 2);
}
