//! Reservations: the charges stay within the limit, the books are conserved, and a number is
//! settled once, while threads settle, ask, drop and expire beside each other.
#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use leaparray::flow::Ask;
use leaparray::flow::settle::{CostLimiter, CostReservation, Ledger, LedgerError, Unsettled};
use leaparray::{ManualClock, Timestamp};
use leaparray_loom_tests::explore;
use loom::thread;

const NOW: Timestamp = Timestamp::from_nanos(1_000_000);

type Costs = CostLimiter<ManualClock>;

fn costs(limit: u64) -> Arc<Costs> {
    let clock = ManualClock::new(NOW);
    let limiter = CostLimiter::with_clock(Duration::from_secs(1), limit, clock).unwrap();
    Arc::new(limiter.with_max_lead(Duration::MAX))
}

fn reserve(limiter: &Arc<Costs>, estimate: u64) -> Option<CostReservation<Arc<Costs>>> {
    CostReservation::ask(Arc::clone(limiter), &Ask::at(NOW).many(estimate)).at_once().ok()
}

fn check(limiter: &Costs, in_flight: u64) {
    let books = limiter.books_at(NOW);
    let spent = books.settled + books.reserved + books.unused;
    assert_eq!(spent, u128::from(books.charged) + books.expired + books.debt, "{books:?}");
    assert!(books.charged <= books.limit && books.in_flight == in_flight, "{books:?}");
    assert!(books.debt == 0 || books.charged == books.limit, "{books:?}");
}

/// One settles for less, one asks and settles for more, and one is dropped and gives all back.
#[test]
fn books_are_conserved_and_charges_within_the_limit() {
    explore(None, || {
        let limiter = costs(3);
        let [first, second] = [2, 1].map(|estimate| reserve(&limiter, estimate).unwrap());
        let settles = thread::spawn(move || first.settle(1).given_back);
        let asks = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                let reserved = reserve(&limiter, 1);
                reserved.map(|it| it.settle(4).excess)
            })
        };
        drop(second.if_unsettled(Unsettled::GivenBack));
        assert_eq!(settles.join().unwrap(), 1);
        let excess = asks.join().unwrap();
        assert!(excess.is_none_or(|excess| excess == 3));
        check(&limiter, 0);
        // 1, and 4 if there was room at that moment: 3 are charged, and 2 owed.
        let books = limiter.books_at(NOW);
        let expected = if excess.is_some() { (3, 2) } else { (1, 0) };
        assert_eq!((books.charged, books.debt), expected);
    });
}

#[test]
fn number_is_settled_once() {
    explore(None, || {
        let limiter = costs(5);
        let clock = ManualClock::new(NOW);
        let ledger = Arc::new(Ledger::with_clock(Duration::from_nanos(10), 2, clock));
        let id = ledger.keep(reserve(&limiter, 3).unwrap()).unwrap();
        let later = Timestamp::from_nanos(NOW.as_nanos() + 10);
        let settles = |now: Timestamp, cost: u64| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || ledger.settle_at(id, now, cost).map(|it| it.given_back))
        };
        let both = [settles(NOW, 1), settles(NOW, 2)];
        let expired = ledger.expire_at(later);
        let both = both.map(|it| it.join().unwrap());
        let settled = both.iter().filter(|it| it.is_ok()).count();
        assert_eq!(settled + expired, 1, "settled, or ended by its policy");
        for error in both.iter().filter_map(|it| it.err()) {
            assert!(matches!(error, LedgerError::Settled | LedgerError::Expired));
        }
        check(&limiter, 0);
        let cost = match both {
            [Ok(2), _] => 1,
            [_, Ok(1)] => 2,
            _ => 3,
        };
        assert_eq!(limiter.books_at(NOW).charged, cost);
    });
}
