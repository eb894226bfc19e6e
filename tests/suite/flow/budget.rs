//! Budgets of retries: their bound, to the unit, by an oracle and under a race.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use leaparray::flow::budget::{BudgetError, Hedges, LiveBudget, LiveRequest, RetryBudget};
use leaparray::flow::{AllOf, Ask, Keyed, Limiter, LimiterExt, Reason, Retry};
use leaparray::{Clock, ManualClock, Timestamp, WindowConfig};

use crate::flow::{at, ms};

/// 5 buckets of 100 ms.
fn window() -> WindowConfig {
    WindowConfig::new(5, Duration::from_millis(500)).unwrap()
}

fn budget(share: f64, minimum: u64) -> (RetryBudget<ManualClock>, ManualClock) {
    let clock = ManualClock::new(at(60_000));
    (RetryBudget::with_clock(window(), share, minimum, clock.clone()).unwrap(), clock)
}

fn retries<L: Limiter>(budget: &L, asked: u64) -> u64 {
    (0..asked).filter(|_| budget.try_acquire().is_admitted()).count() as u64
}

#[test]
fn budgets_are_changed_in_place() {
    let (budget, _clock) = budget(0.5, 0);
    for _ in 0..20 {
        budget.deposit();
    }
    assert_eq!(retries(&budget, 30), 10);
    budget.reconfigure(0.75, 0).unwrap();
    assert_eq!(retries(&budget, 30), 5, "of 15, ten were taken");
    budget.reconfigure(0.25, 0).unwrap();
    assert!(budget.reconfigure(-1.0, 9).is_err());
    assert_eq!(retries(&budget, 30), 0, "an error changes nothing");

    let live = LiveBudget::new(0.0, 1).unwrap();
    let first = live.try_acquire().at_once().unwrap();
    assert!(live.try_acquire().is_refused());
    live.reconfigure(0.0, 2).unwrap();
    let second = live.try_acquire().at_once().unwrap();
    assert!(live.reconfigure(-1.0, 9).is_err());
    assert!(live.try_acquire().is_refused(), "two are in flight");
    drop((first, second));
}

#[test]
fn each_decision_is_that_of_an_oracle() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let (tenths, minimum) = ([1_u32, 2, 5, 7, 10, 15][rng.usize(..6)], rng.u64(..3));
        let (budget, clock) = budget(f64::from(tenths) / 10.0, minimum);
        // The requests and retries by bucket.
        let (mut requests, mut taken) = (vec![0; 2_000], vec![0; 2_000]);
        for step in 0..300 {
            let bucket = usize::try_from((clock.now().as_millis() - 60_000) / 100).unwrap();
            let of_window = |counts: &[u64]| counts[bucket.saturating_sub(4)..=bucket].iter().sum();
            match rng.u32(..10) {
                0 => clock.advance(Duration::from_millis(rng.u64(..150))),
                1..6 => {
                    budget.deposit();
                    requests[bucket] += 1;
                }
                _ => {
                    let permits = rng.u64(..3);
                    let sum: u64 = of_window(&requests);
                    let limit = minimum + sum * u64::from(tenths) / 10;
                    let left = limit.saturating_sub(of_window(&taken));
                    let quota = budget.quota_at(clock.now()).unwrap();
                    assert_eq!((quota.limit, quota.remaining), (limit, left), "step {step}");
                    let is_admitted = permits <= left;
                    let peek = budget.peek_at(clock.now(), permits).unwrap();
                    assert_eq!(peek.is_admitted(), is_admitted, "step {step}");
                    let decision = budget.try_acquire_many(permits);
                    assert_eq!(decision.is_admitted(), is_admitted, "step {step}");
                    taken[bucket] += if is_admitted { permits } else { 0 };
                }
            }
        }
    }
}

/// With a share of a half, each retry beyond the minimum is paid for by two requests of the window
/// that ends with it, and no request pays twice: the oldest that are left pay.
#[test]
fn each_request_pays_once() {
    let mut rng = fastrand::Rng::with_seed(11);
    let (budget, clock) = budget(0.5, 0);
    let mut unpaid = std::collections::VecDeque::new();
    let mut admitted = 0;
    for _ in 0..30_000 {
        let bucket = clock.now().as_millis() / 100;
        match rng.u32(..8) {
            0 => clock.advance(Duration::from_millis(rng.u64(..200))),
            1..4 => {
                budget.deposit();
                unpaid.push_back(bucket);
            }
            _ if budget.try_acquire().is_admitted() => {
                admitted += 1;
                unpaid.retain(|paid| paid + 5 > bucket);
                assert!(unpaid.len() >= 2, "a retry that no requests pay for");
                unpaid.drain(..2);
            }
            _ => {}
        }
    }
    assert!(admitted > 4_000, "{admitted}");
}

#[test]
fn racing_threads_take_the_whole_budget_and_no_more() {
    for round in 0..20 {
        let (budget, _) = budget(0.3, 7);
        let start = Barrier::new(4);
        let admitted: u64 = thread::scope(|scope| {
            let threads = [0; 4].map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let mut admitted = 0;
                    for _ in 0..500 {
                        budget.deposit();
                        admitted += retries(&budget, 2);
                    }
                    admitted
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(admitted <= 607, "round {round}: {admitted} of 0.3 · 2,000 + 7");
        assert_eq!(admitted + retries(&budget, 700), 607, "round {round}");
    }
}

#[test]
fn refused_retry_names_its_reason_and_no_time() {
    let (budget, clock) = budget(0.2, 0);
    let refusal = budget.try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::BUDGET_SPENT, Retry::Unknown));
    assert_eq!(budget.peek_at(clock.now(), 1).unwrap().refusal(), Some(refusal));
    let refusal = budget.try_acquire_many(u64::MAX).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::MoreThanLimit, Retry::Never));
    assert!(budget.try_acquire_many(0).is_admitted());
}

#[test]
fn stale_and_far_times_neither_end_nor_extend_the_budget() {
    let (budget, clock) = budget(1.0, 0);
    // An hour ahead: it counts at 61 s, the clock and a second.
    budget.deposit_at(at(3_660_000));
    assert_eq!(retries(&budget, 5), 0);
    clock.set(at(61_000));
    assert_eq!(retries(&budget, 5), 1);
    // Older than the window: it does not count.
    budget.deposit_at(at(1_000));
    assert_eq!(retries(&budget, 5), 0);
    // A late retry counts in the newest bucket with a retry, by the requests of its window.
    budget.deposit();
    assert!(budget.try_acquire_at(at(60_100), 1).is_admitted());
    assert_eq!(retries(&budget, 5), 0);
    clock.advance(Duration::from_millis(499));
    budget.deposit_at(Timestamp::MIN);
    assert_eq!(retries(&budget, 5), 0);
}

#[test]
fn retry_that_is_not_made_gives_its_permit_back() {
    let (budget, clock) = budget(0.0, 1);
    assert_eq!(retries(&budget, 2), 1);
    assert!(budget.refund_at(clock.now(), 1, Duration::ZERO));
    assert_eq!(retries(&budget, 2), 1);
}

/// Two budgets together: the retries of a window, and those in flight.
#[test]
fn both_budgets_are_asked_together_and_by_key() {
    let live = LiveBudget::new(0.0, 1).unwrap();
    let (by_window, clock) = budget(0.0, 3);
    let both = AllOf::new((&live, &by_window));
    let first = both.try_acquire().at_once().unwrap();
    assert!(both.try_acquire().is_refused(), "one is in flight");
    drop(first);
    assert_eq!(retries(&both, 5), 2, "of each is dropped at once");
    assert_eq!(by_window.quota_at(clock.now()).unwrap().remaining, 0);

    let of_backend = clock.clone();
    let make = move || RetryBudget::with_clock(window(), 0.5, 1, of_backend.clone()).unwrap();
    let backends =
        Keyed::<u64, _>::new((make, clock.clone()), 10).unwrap().with_keep(Duration::ZERO);
    assert!(backends.try_acquire(&7).is_admitted() && backends.try_acquire(&7).is_refused());
    // Each backend has the budget of its own requests, also one that was not asked before.
    for (backend, retries) in [(7, 2), (8, 3)] {
        (0..4).for_each(|_| backends.limiter_of(&backend).unwrap().deposit());
        let admitted = (0..5).filter(|_| backends.try_acquire(&backend).is_admitted()).count();
        assert_eq!(admitted, retries, "of backend {backend}");
    }
    clock.advance(Duration::from_secs(1));
    // More steps than all tables have slots.
    backends.evict_at(clock.now(), 1_000);
    assert_eq!(backends.len(), 0, "a budget without requests and retries is as new");
}

#[test]
fn budget_of_live_requests_follows_them() {
    let budget = LiveBudget::new(0.25, 2).unwrap();
    let requests: Vec<_> = (0..15).map(|_| budget.request()).collect();
    let held: Vec<_> = (0..3).map(|_| budget.try_acquire().at_once().unwrap()).collect();
    let refusal = budget.try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::BUDGET_SPENT, Retry::Unknown));
    drop(requests);
    assert_eq!((budget.requests(), budget.retries()), (0, 3), "they go on");
    drop(held);
    let quota = budget.quota_at(Timestamp::MIN).unwrap();
    assert_eq!((quota.limit, quota.remaining), (2, 2));
    assert!((&budget).account().is_as_new(Timestamp::MIN));
    let ask = Ask::at(Timestamp::MIN).many(u64::MAX);
    assert_eq!(budget.ask(&ask).refusal().unwrap().retry(), Retry::Never);
    assert_eq!(budget.foretell(&ask).unwrap().refusal().unwrap().retry(), Retry::Never);
}

/// The retries that are admitted are the most that are a share of the requests not retried.
#[test]
fn live_retries_are_a_share_of_the_first_attempts() {
    let requests = [0_u32, 1, 5, 6, 11, 12, 99, 120, 700, 840];
    let of_share = |share: u32| requests.map(|requests| (share, requests));
    for (hundredths, requests) in [5, 20, 25, 100, 150].into_iter().flat_map(of_share) {
        let budget = LiveBudget::new(f64::from(hundredths) / 100.0, 0).unwrap();
        let _requests: Vec<_> = (0..requests).map(|_| budget.request()).collect();
        let retries =
            std::iter::from_fn(|| budget.try_acquire().at_once().ok()).collect::<Vec<_>>();
        let retries = u32::try_from(retries.len()).unwrap();
        let is_share =
            |retries: u32| retries * 100 <= hundredths * requests.saturating_sub(retries);
        assert!(is_share(retries), "{retries} of {requests}, {hundredths} %");
        assert!(!is_share(retries + 1), "{retries} of {requests}, {hundredths} %");
    }
}

#[test]
fn books_of_live_requests_balance_under_a_race() {
    let budget = LiveBudget::new(0.5, 1).unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            let budget = &budget;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let (mut requests, mut retries) = (Vec::new(), Vec::new());
                for _ in 0..5_000 {
                    match rng.u32(..4) {
                        0 => requests.push(LiveRequest::of(budget)),
                        1 => drop(requests.pop()),
                        2 => retries.extend(budget.try_acquire().at_once()),
                        _ => drop(retries.pop()),
                    }
                }
            });
        }
    });
    assert_eq!((budget.requests(), budget.retries()), (0, 0));
}

#[test]
fn settings_out_of_range_are_errors() {
    for share in [-0.1, 1_000.5, f64::NAN, f64::INFINITY] {
        let is_share = |error: BudgetError| matches!(error, BudgetError::Share { .. });
        assert!(is_share(RetryBudget::new(window(), share, 0).unwrap_err()), "{share}");
        assert!(is_share(LiveBudget::new(share, 0).unwrap_err()), "{share}");
    }
    let error = LiveBudget::new(0.2, 1 << 32).unwrap_err();
    assert_eq!(error, BudgetError::Minimum { minimum: 1 << 32, max: (1 << 32) - 1 });
    let error = RetryBudget::new(window(), 0.2, 1 << 24).unwrap_err();
    assert_eq!(error.to_string(), "a minimum of 16777216 retries is above 16777215, the highest");
    // The share cannot exceed the maximum of the window.
    let (budget, _) = budget(1_000.0, (1 << 24) - 1);
    budget.deposit();
    assert!(budget.try_acquire_many((1 << 24) - 1).is_admitted());
    assert!(budget.try_acquire().is_refused());
}

/// Sends requests of which each takes 1 to 100 ms, one after the other, with second attempts that
/// take `second` ms. Returns how many were hedged after the first seconds, and the last patience.
fn run(hedges: &Hedges<ManualClock>, clock: &ManualClock, second: u64) -> (u32, Duration) {
    let mut rng = fastrand::Rng::with_seed(3);
    let (mut sent, mut last) = (0, Duration::ZERO);
    for request in 0..11_000 {
        let took = Duration::from_micros(rng.u64(1_000..=100_000));
        let first = hedges.begin();
        let Some(patience) = first.patience().filter(|it| *it < took) else {
            clock.advance(took);
            first.end();
            continue;
        };
        clock.advance(patience);
        let (left, is_sent) = (took.saturating_sub(patience), first.hedge().is_admitted());
        sent += u32::from(is_sent && request >= 1_000);
        last = patience;
        if is_sent && left > ms(second) {
            clock.advance(ms(second));
            drop(first);
        } else {
            clock.advance(left);
            first.end();
        }
    }
    (sent, last)
}

/// First attempts that lose count with the time that they had taken, so the quantile is that of
/// all first attempts, also if each second attempt wins.
#[test]
fn quantile_is_that_of_all_first_attempts() {
    for second in [0, 10, 1_000] {
        let clock = ManualClock::new(at(60_000));
        let window = WindowConfig::new(10, Duration::from_secs(50)).unwrap();
        let hedges = Hedges::with_clock(window, 0.9, 1.0, 0, clock.clone()).unwrap();
        let (sent, patience) = run(&hedges, &clock, second);
        assert!((800..=1_200).contains(&sent), "{sent} of 10,000, second {second} ms");
        assert!((85..=95).contains(&patience.as_millis()), "{patience:?}, second {second} ms");
    }
}

#[test]
fn hedges_are_bounded_by_their_budget() {
    let clock = ManualClock::new(at(60_000));
    let window = WindowConfig::new(10, Duration::from_secs(50)).unwrap();
    let hedges = Hedges::with_clock(window, 0.5, 0.05, 0, clock.clone()).unwrap();
    let (sent, _) = run(&hedges, &clock, 10);
    assert!((450..=550).contains(&sent), "{sent} of 10,000");
}

#[test]
fn attempt_that_is_dropped_early_tells_nothing() {
    let clock = ManualClock::new(at(60_000));
    let window = WindowConfig::new(2, Duration::from_secs(2)).unwrap();
    let hedges = Hedges::with_clock(window, 0.5, 1.0, 0, clock.clone()).unwrap();
    drop(hedges.begin());
    assert_eq!(hedges.begin().patience(), None);
    for millis in [10, 10, 30] {
        let first = hedges.begin();
        clock.advance(ms(millis));
        first.end();
    }
    clock.advance(ms(1_000));
    let first = hedges.begin();
    let patience = first.patience().unwrap();
    assert!((9..=11).contains(&patience.as_millis()), "{patience:?}");
    clock.advance(ms(1));
    drop(first);
    // The next bucket has the three response times no longer, and no other one.
    clock.advance(ms(1_000));
    assert_eq!(hedges.begin().patience(), None);
    for quantile in [-0.1, 1.1, f64::NAN] {
        let error = Hedges::new(window, quantile, 0.1, 0).unwrap_err();
        assert!(matches!(error, BudgetError::Quantile { .. }), "{quantile}");
    }
}

/// A key for which there is no room has the shared limiter, or none.
#[test]
fn limiter_of_a_key_without_room() {
    let clock = ManualClock::new(at(60_000));
    let of_backend = clock.clone();
    let make = move || RetryBudget::with_clock(window(), 1.0, 0, of_backend.clone()).unwrap();
    let backends = Keyed::<u64, _>::new((make.clone(), clock.clone()), 1).unwrap();
    backends.limiter_of(&1).unwrap().deposit();
    assert!(backends.limiter_of(&2).is_none() && backends.len() == 1);
    let shared = Keyed::<u64, _>::new((make, clock), 1).unwrap().with_overflow();
    shared.limiter_of(&1).unwrap().deposit();
    shared.limiter_of(&2).unwrap().deposit();
    assert!(shared.try_acquire(&3).is_admitted() && shared.try_acquire(&2).is_refused());
}
