//! Budgets of retries: the retries never exceed the minimum and the share of the requests of the
//! same window, or of the same moment, and a retry whose request was deposited is not refused.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray::flow::budget::{LiveBudget, LiveRequest, RetryBudget};
use leaparray::{ManualClock, Timestamp, WindowConfig, shadow_all_words};
use leaparray_loom_tests::{LEN, explore, start};
use loom::sync::Arc;
use loom::thread;

type Budget = RetryBudget<ManualClock>;

/// A budget of two buckets, with a retry for each request.
fn budget() -> Arc<Budget> {
    let window = WindowConfig::new(2, LEN * 2).unwrap();
    let clock = ManualClock::new(Timestamp::MIN);
    let budget = RetryBudget::with_clock(window, 1.0, 0, clock).unwrap();
    Arc::new(budget.with_max_lead(Duration::MAX))
}

fn retry(budget: &Budget, number: u32) -> bool {
    budget.try_acquire_at(start(number), 1).is_admitted()
}

#[test]
fn one_request_pays_for_one_retry() {
    explore(Some(2), || {
        shadow_all_words();
        let budget = budget();
        budget.deposit_at(start(2));
        let other = budget.clone();
        let other = thread::spawn(move || retry(&other, 2));
        let own = retry(&budget, 2);
        assert!(own != other.join().unwrap(), "one of the two is admitted");
    });
}

/// The request of bucket 1 pays for a retry in bucket 2 and not for one in bucket 3, so both are
/// admitted only if the request of bucket 3 pays for one.
#[test]
fn request_pays_in_its_window_alone() {
    explore(Some(2), || {
        shadow_all_words();
        let budget = budget();
        budget.deposit_at(start(1));
        let other = budget.clone();
        let other = thread::spawn(move || retry(&other, 2));
        let own = retry(&budget, 3);
        assert!(!own, "no request is in the window of bucket 3");
        other.join().unwrap();
        assert!(!retry(&budget, 3));
    });
}

/// Each of two threads retries after its own deposit. Neither counts the retry of the other one
/// without the request that pays for it.
#[test]
fn thread_that_has_deposited_is_not_refused() {
    explore(Some(2), || {
        shadow_all_words();
        let budget = budget();
        budget.deposit_at(start(2));
        let other = budget.clone();
        let other = thread::spawn(move || {
            other.deposit_at(start(2));
            retry(&other, 2)
        });
        assert!(retry(&budget, 2));
        assert!(other.join().unwrap());
        assert!(!retry(&budget, 2));
    });
}

/// Three retries take what a request beside them pays for. A retry that finds them finds that
/// request too, and is not refused, since the budget is never spent.
#[test]
fn retry_is_found_with_the_request_that_pays_for_it() {
    explore(Some(1), || {
        shadow_all_words();
        let window = WindowConfig::new(2, LEN * 2).unwrap();
        let clock = ManualClock::new(Timestamp::MIN);
        let budget = RetryBudget::with_clock(window, 2.0, 1, clock).unwrap();
        let budget = Arc::new(budget.with_max_lead(Duration::MAX));
        // Three retries, of which one is taken.
        budget.deposit_at(start(2));
        assert!(retry(&budget, 2));
        let other = budget.clone();
        let other = thread::spawn(move || other.try_acquire_at(start(2), 3).is_admitted());
        let own = budget.clone();
        let own = thread::spawn(move || retry(&own, 2));
        budget.deposit_at(start(2));
        other.join().unwrap();
        assert!(own.join().unwrap());
    });
}

/// A request ends while two retries ask. At each admission, there are at least as many other
/// requests as retries.
#[test]
fn retries_in_flight_are_a_share_of_the_requests_in_flight() {
    explore(None, || {
        shadow_all_words();
        let budget = Arc::new(LiveBudget::new(1.0, 0).unwrap());
        let [first, second] = [(); 2].map(|()| LiveRequest::of(budget.clone()));
        let other = budget.clone();
        let other = thread::spawn(move || other.try_acquire().at_once().map(std::mem::forget));
        let ender = thread::spawn(move || drop(first));
        let own = budget.try_acquire().at_once().map(std::mem::forget);
        assert!(!(own.is_ok() && other.join().unwrap().is_ok()));
        ender.join().unwrap();
        drop(second);
        assert_eq!((budget.requests(), budget.retries() <= 1), (0, true));
    });
}
