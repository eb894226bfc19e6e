//! Reservations that are settled with the actual cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::settle::{
    CostBooks, CostLimiter, CostReservation, Ledger, LedgerError, PerRequest, ReservationId,
    Settle, Unsettled,
};
use leaparray::flow::shadow::{Mode, Shadow};
use leaparray::flow::{
    AllOf, Ask, Decision, FixedWindowLimiter, Keyed, Limiter, LimiterExt, Reason, Refusal, Retry,
    WaitQueue,
};
use leaparray::{Clock, ManualClock, NodeConfig, ResourceNode, Timestamp};
use proptest::prelude::*;

use crate::flow::{at, ms, remaining};

type Costs = CostLimiter<ManualClock>;

/// A limiter of costs in any second, at 60 s.
fn costs(limit: u64) -> (ManualClock, Costs) {
    let clock = ManualClock::new(at(60_000));
    let limiter = CostLimiter::with_clock(ms(1_000), limit, clock.clone()).unwrap();
    (clock, limiter)
}

fn is_conserved(books: &CostBooks) -> bool {
    books.settled + books.reserved + books.unused
        == u128::from(books.charged) + books.expired + books.debt
}

fn reserve(limiter: &Costs, now: Timestamp, estimate: u64) -> CostReservation<&Costs> {
    limiter.try_acquire_at(now, estimate).at_once().unwrap()
}

/// The times of a trace, at each of which a request may ask or settle: the time since the one
/// before, the estimate, how long the request takes, and its cost.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64, u64)>> {
    let cost = prop_oneof![4 => 0..20_u64, 1 => 0..200_u64];
    prop::collection::vec((0..120_u64, 0..20_u64, 0..1_500_u64, cost), 1..80)
}

proptest! {
    /// In any interval of a second, at whatever phase, over all pairs of times. An estimate costs
    /// when it is reserved, as far as it is used, and the excess when it is settled.
    #[test]
    fn cost_of_any_interval_is_within_the_limit_and_the_excesses_settled_in_it(
        limit in 1..40_u64,
        requests in requests(),
    ) {
        let (clock, limiter) = costs(limit);
        let (mut open, mut now, mut costs, mut excesses) = (Vec::new(), 60_000, vec![], vec![]);
        let mut settle_until = |open: &mut Vec<(u64, u64, u64, CostReservation<&Costs>)>, until| {
            open.sort_by_key(|it| std::cmp::Reverse(it.0));
            while open.last().is_some_and(|it| it.0 <= until) {
                let (end, begin, cost, reserved) = open.pop().unwrap();
                let estimate = reserved.estimate();
                clock.set(at(end));
                let settled = reserved.settle(cost);
                assert_eq!(settled.excess, cost.saturating_sub(estimate));
                costs.push((begin, cost.min(estimate)));
                costs.push((end, settled.excess));
                excesses.push((end, settled.excess));
                assert!(is_conserved(&limiter.books_at(at(end))));
            }
        };
        for (after, estimate, takes, cost) in requests {
            now += after;
            settle_until(&mut open, now);
            clock.set(at(now));
            if let Ok(reserved) = limiter.try_acquire_many(estimate).at_once() {
                open.push((now + takes, now, cost, reserved));
            }
        }
        settle_until(&mut open, u64::MAX);
        let sum = |of: &[(u64, u64)], from: u64| {
            of.iter().filter(|(time, _)| (from..from + 1_000).contains(time)).map(|it| it.1).sum()
        };
        for &(from, _) in &costs {
            let (cost, excess): (u64, u64) = (sum(&costs, from), sum(&excesses, from));
            prop_assert!(cost <= limit + excess, "{} from {}: {} + {}", cost, from, limit, excess);
        }
    }
}

#[test]
fn debt_is_charged_before_later_requests() {
    let (clock, limiter) = costs(100);
    let settled = reserve(&limiter, at(60_000), 40).settle(250);
    assert_eq!((settled.given_back, settled.excess, settled.owed), (0, 210, 150));
    let refusal = limiter.try_acquire_many(1).refusal().unwrap();
    // A window of 51 buckets of 20 ms later, 100 of the 150 are charged; 51 more buckets later, 50.
    assert_eq!(refusal.retry_at(), Some(at(62_040)));
    assert_eq!(limiter.try_acquire_many(51).refusal().unwrap().retry_at(), Some(at(63_060)));
    assert_eq!(limiter.try_acquire_many(101).refusal().unwrap().reason, Reason::MoreThanLimit);
    clock.set(at(62_039));
    assert!(limiter.try_acquire_many(1).is_refused());
    clock.set(at(62_040));
    assert!(limiter.try_acquire_many(50).is_admitted() && limiter.try_acquire().is_refused());
    let books = limiter.books_at(at(62_040));
    assert_eq!((books.debt, books.settled, books.expired), (0, 300, 200));
}

#[test]
fn rest_of_an_estimate_is_given_back_where_it_was_taken() {
    let (clock, limiter) = costs(100);
    let early = reserve(&limiter, at(60_000), 60);
    clock.set(at(60_900));
    let late = reserve(&limiter, at(60_900), 40);
    assert!(limiter.try_acquire().is_refused());
    assert_eq!(early.settle(10).given_back, 50);
    assert_eq!(limiter.books_at(at(60_900)).charged, 50);
    // The early bucket leaves with 10, and not with 60.
    clock.set(at(61_020));
    assert_eq!(limiter.quota_at(at(61_020)).unwrap().remaining, 60);
    clock.set(at(70_000));
    assert!(!(&limiter).account().is_as_new(at(70_000)), "a reservation is open");
    assert_eq!(late.settle(10).given_back, 0, "it has left the window");
    let books = limiter.books_at(at(70_000));
    assert_eq!((books.unused, books.charged, books.expired), (30, 0, 50));
    assert!(is_conserved(&books) && (&limiter).account().is_as_new(at(70_000)));
}

#[test]
fn reservation_that_is_not_settled_ends_once_by_its_policy() {
    let (_, limiter) = costs(1_000);
    let limiter = limiter.with_unsettled(Unsettled::GivenBack);
    let charged = || limiter.books_at(at(60_000)).charged;
    drop(reserve(&limiter, at(60_000), 100));
    assert_eq!(charged(), 0);
    drop(reserve(&limiter, at(60_000), 100).if_unsettled(Unsettled::Stands));
    assert_eq!(charged(), 100);
    let node = ResourceNode::new(NodeConfig::default());
    let entry = limiter.try_enter_at(&node, Ask::at(at(60_000)).many(10)).unwrap();
    assert_eq!(charged(), 110);
    entry.cancel();
    assert_eq!((charged(), limiter.books_at(at(60_000)).in_flight), (100, 0));
}

/// A limiter that foretells to admit, and then refuses.
struct Surprise;

impl Limiter for Surprise {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::Custom("surprise"), Retry::Unknown))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::Admitted(()))
    }
}

/// Whatever the policy of reservations is that go ahead.
#[test]
fn combination_reserves_over_all_limits_or_over_none() {
    let (clock, of_client) = costs(100);
    let (of_all, requests) = (
        CostLimiter::with_clock(ms(1_000), 150, clock.clone()).unwrap(),
        FixedWindowLimiter::with_clock(ms(1_000), 3, clock.clone()).unwrap(),
    );
    let refusing = AllOf::new((&of_client, &of_all, Surprise));
    assert!(refusing.try_acquire_many(50).is_refused());
    let charged = || [&of_client, &of_all].map(|it| it.books_at(at(60_000)).charged);
    assert_eq!(charged(), [0, 0], "withdrawn");
    let limit = AllOf::new((PerRequest::new(&requests), &of_client, &of_all));
    let reserved = limit.try_acquire_many(80).at_once().unwrap();
    assert!(limit.try_acquire_many(30).is_refused());
    assert_eq!((charged(), remaining(&requests)), ([80, 80], 2));
    let ((), of_one, of_both) = reserved.settle_at(at(60_000), 120);
    assert_eq!((of_one.owed, of_both.owed), (20, 0));
    assert_eq!(charged(), [100, 120]);
    let all = AllOf::new(vec![&of_client, &of_all]);
    clock.set(at(62_040));
    let settled = all.try_acquire_many(10).at_once().unwrap().settle_at(at(62_040), 4);
    assert!(settled.iter().map(|it| it.given_back).eq([6, 6]));
}

#[test]
fn queue_waits_until_the_debt_is_charged() {
    let (clock, limiter) = costs(100);
    let queue = WaitQueue::new(&limiter);
    let acquire = |cost| queue.acquire_by(cost, ms(10_000), |wait| clock.advance(wait));
    assert_eq!(acquire(100).unwrap().settle_at(at(60_000), 130).owed, 30);
    let reserved = acquire(70).unwrap();
    assert_eq!(clock.now(), at(61_020));
    assert_eq!(reserved.settle_at(at(61_020), 70).given_back, 0);
}

/// The estimate of the first request leaves the window after a minute, and is given back before.
#[tokio::test]
async fn waiting_request_asks_when_an_estimate_is_given_back() {
    for timeout in [ms(10_000), Duration::MAX] {
        let clock = ManualClock::new(at(60_000));
        let minute = Duration::from_secs(60);
        let limiter = Arc::new(CostLimiter::with_clock(minute, 100, clock.clone()).unwrap());
        let queue = WaitQueue::new(limiter);
        let never = |_| std::future::pending::<()>();
        let first = queue.acquire_with(100, timeout, never).await.unwrap();
        let mut second = std::pin::pin!(queue.acquire_with(50, timeout, never));
        let mut third = std::pin::pin!(queue.acquire_with(50, timeout, never));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending(), "{timeout:?}");
        assert!(third.as_mut().poll(&mut context).is_pending(), "{timeout:?}");
        assert_eq!(first.settle_at(at(60_000), 0).given_back, 100);
        let second = second.await.unwrap();
        let third = third.await.unwrap();
        assert_eq!((second.estimate(), third.estimate()), (50, 50));
    }
}

#[test]
fn shadow_settles_what_it_has_reserved() {
    let (_, limiter) = costs(100);
    let shadow = Shadow::new(limiter, Mode::Shadow);
    let [first, second] = [(); 2].map(|()| shadow.try_acquire_many(60).at_once().unwrap());
    assert_eq!(shadow.counts().would_refuse, 1);
    assert!(first.settle_at(at(60_000), 50).is_some() && second.settle_at(at(60_000), 9).is_none());
    assert_eq!(shadow.limiter().books_at(at(60_000)).charged, 50);
}

#[test]
fn key_with_a_reservation_or_a_debt_stays() {
    let clock = ManualClock::new(at(60_000));
    let make = {
        let clock = clock.clone();
        move || CostLimiter::with_clock(ms(1_000), 100, clock.clone()).unwrap()
    };
    let keyed = Keyed::<u64, _>::new((make, clock.clone()), 10).unwrap().with_keep(Duration::ZERO);
    let reserved = keyed.of_key(&7).try_acquire_many(100).at_once().unwrap();
    clock.set(at(65_000));
    assert_eq!(keyed.evict_at(clock.now(), 100), 0, "a reservation refers to it");
    assert_eq!(reserved.settle(350).owed, 150);
    clock.set(at(66_000));
    assert_eq!(keyed.evict_at(clock.now(), 100), 0, "150 are owed");
    assert!(
        keyed.of_key(&7).try_acquire_many(1).is_refused()
            && keyed.of_key(&8).try_acquire_many(1).is_admitted()
    );
    clock.set(at(69_000));
    assert_eq!((keyed.evict_at(clock.now(), 100), keyed.len()), (2, 0));
}

#[test]
fn stale_and_early_times_are_bounded() {
    let (clock, limiter) = costs(100);
    let reserved = reserve(&limiter, at(3_600_000), 60);
    assert_eq!(
        limiter.books_at(at(60_000)).charged,
        60,
        "a second ahead of the clock, not an hour"
    );
    assert!(!(&limiter).account().is_as_new(at(60_000)));
    // Counts in the newest bucket, and is settled by an even older time.
    let late = reserve(&limiter, at(59_000), 40);
    assert_eq!(late.settle_at(at(1), 0).given_back, 40);
    clock.set(at(62_019));
    assert_eq!(limiter.books_at(at(62_019)).charged, 60);
    clock.set(at(62_020));
    assert_eq!(limiter.books_at(at(62_020)).charged, 0);
    assert_eq!(reserved.settle(60).given_back, 0);
}

#[test]
fn bad_input_has_an_outcome() {
    assert!(CostLimiter::new(Duration::ZERO, 5).is_err());
    assert!(CostLimiter::new(Duration::MAX, 5).is_err());
    let (clock, limiter) = costs(0);
    assert_eq!(
        limiter.try_acquire_many(1).refusal(),
        limiter.peek_at(at(60_000), 1).unwrap().refusal()
    );
    assert_eq!(limiter.try_acquire_many(1).refusal().unwrap().retry(), Retry::Never);
    reserve(&limiter, at(60_000), 0).settle(1 << 63);
    reserve(&limiter, at(60_000), 0).settle(u64::MAX);
    let books = limiter.books_at(at(60_000));
    assert_eq!(books.debt, (1 << 63) + u128::from(u64::MAX));
    limiter.reconfigure(1 << 63);
    let refusal = limiter.try_acquire_many(1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(62_040)));
    clock.set(Timestamp::MAX);
    assert!(limiter.try_acquire_many(1 << 63).is_admitted());
    assert!(is_conserved(&limiter.books_at(Timestamp::MAX)));
    assert_eq!(limiter.try_acquire_many(1 << 62).refusal().unwrap().retry(), Retry::Never);
}

#[test]
fn ledger_settles_each_number_once() {
    let (clock, limiter) = costs(1_000);
    let limiter = Arc::new(limiter);
    let ledger = Ledger::with_clock(ms(500), 2, clock.clone());
    let reserve = || limiter.clone().try_acquire_many(100).at_once().unwrap();
    let charged = || limiter.books_at(clock.now()).charged;
    let keep = || {
        let reserved = CostReservation::ask(Arc::clone(&limiter), &Ask::at(clock.now()).many(100));
        ledger.keep(reserved.at_once().unwrap().if_unsettled(Unsettled::GivenBack))
    };
    let [first, second] = [keep().unwrap(), keep().unwrap()];
    assert_eq!(reserve().settle(0).given_back, 100);
    assert_eq!((first.get(), second.get(), first.to_string().as_str()), (0, 1, "0"));
    let refused = keep().unwrap_err();
    assert_eq!((refused.estimate(), charged()), (100, 300), "the ledger is full");
    drop(refused);
    assert_eq!(ledger.settle(first, 130).unwrap().excess, 30);
    assert_eq!(ledger.settle(first, 1), Err(LedgerError::Settled));
    assert_eq!(ledger.settle(ReservationId::from(2), 1), Err(LedgerError::Unknown));
    assert_eq!(charged(), 230);
    clock.set(at(60_499));
    assert_eq!((ledger.expire_at(clock.now()), ledger.len()), (0, 2));
    clock.set(at(60_500));
    assert_eq!(ledger.settle(second, 1), Err(LedgerError::Expired));
    assert_eq!((charged(), ledger.len()), (130, 2), "given back by its policy");
    // A caller that charges what has expired must know which.
    assert_eq!(ledger.settle(first, 130), Err(LedgerError::Settled));
    assert_eq!(ledger.settle(second, 1), Err(LedgerError::Expired));
    clock.set(at(60_999));
    assert_eq!(ledger.settle(first, 130), Err(LedgerError::Settled));
    clock.set(at(61_000));
    assert_eq!([first, second].map(|id| ledger.settle(id, 1)), [Err(LedgerError::Forgotten); 2]);
    assert_eq!((charged(), ledger.is_empty()), (130, true));
    assert_eq!(limiter.charge_at(clock.now(), 7).excess, 7, "nothing is lost");
}

#[test]
fn deadlines_of_a_ledger_are_in_order_although_the_clock_goes_back() {
    let clock = ManualClock::new(at(60_000));
    let ledger = Ledger::with_clock(ms(500), 10, clock.clone());
    let ids = [60_000, 59_000].map(|now| {
        clock.set(at(now));
        ledger.keep(()).unwrap()
    });
    clock.set(at(60_499));
    assert_eq!(ids.map(|id| ledger.settle(id, 0)), [Ok(()); 2]);
    clock.set(at(60_500));
    assert_eq!((ledger.expire_at(clock.now()), ledger.len()), (0, 2));
    clock.set(at(61_000));
    assert_eq!((ledger.expire_at(clock.now()), ledger.len()), (0, 0));
}

#[test]
fn wrong_time_ends_no_reservation_of_a_ledger() {
    let clock = ManualClock::new(at(60_000));
    let ledger = Ledger::with_clock(ms(5_000), 10, clock);
    let id = ledger.keep(()).unwrap();
    assert_eq!(ledger.expire_at(Timestamp::MAX), 0, "a second ahead of the clock");
    assert_eq!(ledger.settle_at(id, Timestamp::MAX, 1), Ok(()));
}

/// Reservations are taken, settled by two threads at once, dropped and expired.
#[test]
fn books_are_conserved_beside_threads() {
    const ASKS: u64 = 4_000;
    let (clock, limiter) = costs(5_000);
    let limiter = &limiter;
    let ledger = &Ledger::with_clock(ms(40), 1_000, clock.clone());
    let [cost, reserved, excess] = &[(); 3].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let clock = &clock;
            scope.spawn(move || {
                for number in 0..ASKS {
                    clock.advance(Duration::from_micros(97));
                    let Ok(own) = limiter.try_acquire_many(number % 50).at_once() else { continue };
                    reserved.fetch_add(own.estimate(), Ordering::Relaxed);
                    let actual = (number * 7 + thread) % 80;
                    let estimate = own.estimate();
                    match number % 4 {
                        0 => drop(own),
                        1 => {
                            excess.fetch_add(own.settle(actual).excess, Ordering::Relaxed);
                        }
                        _ => {
                            let Ok(id) = ledger.keep(own) else { continue };
                            let settled = [ledger.settle(id, actual), ledger.settle(id, actual)];
                            if let Ok(settled) = settled[0] {
                                excess.fetch_add(settled.excess, Ordering::Relaxed);
                            }
                            assert!(settled[1].is_err());
                            if settled[0].is_ok() {
                                cost.fetch_add(actual, Ordering::Relaxed);
                                continue;
                            }
                        }
                    }
                    let spent = if number % 4 == 1 { actual } else { estimate };
                    cost.fetch_add(spent, Ordering::Relaxed);
                }
            });
        }
    });
    let now = clock.now();
    ledger.expire_at(now.saturating_add(ms(40)));
    let books = limiter.books_at(now);
    assert!(is_conserved(&books), "{books:?}");
    assert_eq!((books.in_flight, books.reserved), (0, 0));
    assert_eq!(books.settled, u128::from(cost.load(Ordering::Relaxed)));
    assert!(books.charged <= 5_000 && excess.load(Ordering::Relaxed) > 0);
}
