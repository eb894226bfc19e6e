//! Reservations over limiters of other kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::settle::{CostReservation, Settle, Settling, Unsettled};
use leaparray::flow::{
    Account, AllOf, Ask, Decision, FixedWindowLimiter, Keyed, LeakyBucket, Limiter, LimiterExt,
    Quota, Retry, SlidingWindowLimiter, TokenBucket, WaitQueue,
};
use leaparray::{Clock, ManualClock, Timestamp};
use proptest::prelude::*;

use crate::flow::{at, ms, rate};

/// Counts the permits that a limiter has given out and got back.
struct Counted<L> {
    limiter: L,
    taken: AtomicU64,
    back: AtomicU64,
}

impl<L: Limiter<Permit = ()>> Limiter for Counted<L> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        let decision = self.limiter.decide(ask);
        if !decision.is_refused() {
            self.taken.fetch_add(ask.permits(), Ordering::Relaxed);
        }
        decision
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.limiter.peek(ask)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl<L: Limiter<Permit = ()>> Account for Counted<L> {
    fn now(&self) -> Timestamp {
        self.limiter.account().now()
    }

    fn quota(&self, now: Timestamp) -> Option<Quota> {
        self.limiter.account().quota(now)
    }

    fn refund(&self, ask: &Ask<'_>, wait: Duration) -> bool {
        let is_given_back = self.limiter.account().refund(ask, wait);
        if is_given_back {
            self.back.fetch_add(ask.permits(), Ordering::Relaxed);
        }
        is_given_back
    }
}

/// Runs a trace of requests: the time since the one before, the estimate, and the cost, which is
/// settled after the next request has asked. Each cost is taken from the limiter or owed, and
/// nothing else is, but for the estimates in flight and those that the limiter has not taken back.
fn conserves<L: Limiter<Permit = ()>>(clock: &ManualClock, limiter: L, trace: &[(u64, u64, u64)]) {
    let (taken, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let limiter = Settling::new(Counted { limiter, taken, back });
    let (mut settled, mut before) = (0, None::<(CostReservation<_>, u64)>);
    for &(after, estimate, cost) in trace {
        clock.advance(ms(after));
        let own = limiter.try_acquire_many(estimate).at_once().ok();
        assert!(own.is_none() || estimate == 0 || limiter.debt() == 0, "paid before");
        if let Some((reserved, cost)) = before.take() {
            let unused = reserved.estimate().saturating_sub(cost);
            settled += cost + unused - reserved.settle(cost).given_back;
        }
        let in_flight = own.as_ref().map_or(0, CostReservation::estimate);
        before = own.map(|it| (it, cost));
        let Counted { taken, back, .. } = limiter.limiter();
        let net = taken.load(Ordering::Relaxed) - back.load(Ordering::Relaxed);
        assert_eq!(u128::from(settled + in_flight), u128::from(net) + limiter.debt());
    }
}

proptest! {
    #[test]
    fn each_cost_is_taken_once_or_owed(
        trace in prop::collection::vec((0..400_u64, 0..8_u64, 0..20_u64), 1..60),
    ) {
        let clock = || ManualClock::new(at(60_000));
        let one = clock();
        conserves(&one, TokenBucket::with_clock(rate(10, 1_000), 8, one.clone()), &trace);
        let one = clock();
        conserves(&one, LeakyBucket::with_clock(rate(10, 1_000), ms(0), one.clone()), &trace);
        let one = clock();
        let window = SlidingWindowLimiter::with_clock(ms(1_000), 9, one.clone()).unwrap();
        conserves(&one, window, &trace);
        let one = clock();
        let window = FixedWindowLimiter::with_clock(ms(1_000), 9, one.clone()).unwrap();
        conserves(&one, window, &trace);
    }
}

/// The level of the bucket is below zero, in effect.
#[test]
fn bucket_admits_when_it_has_the_debt_and_the_estimate() {
    let clock = ManualClock::new(at(60_000));
    let limiter = Settling::new(TokenBucket::with_clock(rate(10, 1_000), 50, clock.clone()));
    assert_eq!(limiter.try_acquire_many(50).at_once().unwrap().settle(80).owed, 30);
    for (asks, admitted_at) in [(1, 63_100), (20, 65_100)] {
        let refusal = limiter.try_acquire_many(asks).refusal().unwrap();
        assert_eq!(refusal.retry_at(), Some(at(admitted_at)));
        clock.set(at(admitted_at - 1));
        assert!(limiter.try_acquire_many(asks).is_refused());
        clock.set(at(admitted_at));
        assert!(limiter.try_acquire_many(asks).is_admitted());
    }
    assert_eq!(
        (limiter.debt(), limiter.try_acquire_many(51).refusal().unwrap().retry()),
        (0, Retry::Never)
    );
}

/// More than the bucket ever has at once is paid in parts.
#[test]
fn combination_and_queue_pay_a_great_debt() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(10, 1_000), 10, clock.clone());
    let limiter = Arc::new(Settling::new(bucket).with_unsettled(Unsettled::GivenBack));
    let window = FixedWindowLimiter::with_clock(ms(1_000), 100, clock.clone()).unwrap();
    let both = AllOf::new((&window, Arc::clone(&limiter)));
    let ((), settled) = both.try_acquire_many(10).at_once().unwrap().settle_at(at(60_000), 45);
    assert_eq!((settled.owed, limiter.debt()), (35, 35));
    let admitted_at = (0..200).find(|_| {
        clock.advance(ms(100));
        both.try_acquire().is_admitted()
    });
    assert_eq!(admitted_at, Some(35), "3.6 s later: 35 that were owed, and one");
    let queue = WaitQueue::new(Arc::clone(&limiter));
    assert!(queue.acquire_by(10, ms(10_000), |wait| clock.advance(wait)).is_ok());
    assert_eq!((clock.now(), limiter.limiter().account().now()), (at(64_500), at(64_500)));
}

#[test]
fn key_with_a_debt_stays() {
    let clock = ManualClock::new(at(60_000));
    let make = {
        let clock = clock.clone();
        move || Settling::new(TokenBucket::with_clock(rate(10, 1_000), 10, clock.clone()))
    };
    let keyed = Keyed::<u64, _>::new((make, clock.clone()), 10).unwrap().with_keep(Duration::ZERO);
    assert_eq!(keyed.of_key(&7).try_acquire_many(5).at_once().unwrap().settle(30).owed, 20);
    clock.set(at(62_000));
    assert_eq!(keyed.evict_at(clock.now(), 100), 0, "full, and owes 20");
    assert!(keyed.of_key(&7).try_acquire().is_refused());
}

#[test]
fn charges_beside_threads_are_conserved() {
    let clock = ManualClock::new(at(60_000));
    let bucket = TokenBucket::with_clock(rate(1, 3_600_000), 10_000, clock);
    let limiter = &Settling::new(bucket);
    let cost = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..2_000_u64 {
                    let Ok(reserved) = limiter.try_acquire_many(number % 5).at_once() else {
                        continue;
                    };
                    let excess = number % 3;
                    cost.fetch_add(reserved.estimate() + excess, Ordering::Relaxed);
                    let all = reserved.estimate() + excess;
                    assert_eq!(reserved.settle(all).excess, excess);
                }
            });
        }
    });
    let left = limiter.limiter().quota_at(at(60_000)).unwrap().remaining;
    assert_eq!(
        u128::from(cost.load(Ordering::Relaxed)),
        u128::from(10_000 - left) + limiter.debt()
    );
}
