//! Retries and hedges within a budget.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray::flow::budget::{Hedges, LiveBudget, RetryBudget};
use leaparray::{ManualClock, Timestamp, WindowConfig};
use leaparray_tower::{HedgeLayer, RetryLive, RetryWithin, TowerBudget};
use tokio::time::{Instant, sleep};
use tower::retry::backoff::{ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::Budget;
use tower::util::rng::HasherRng;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

type Shared = Arc<RetryBudget<ManualClock>>;

fn budget(share: f64, minimum: u64) -> Shared {
    let window = WindowConfig::new(10, Duration::from_secs(10)).unwrap();
    let clock = ManualClock::new(Timestamp::from_secs(60));
    Arc::new(RetryBudget::with_clock(window, share, minimum, clock).unwrap())
}

/// The retries that are left.
fn left(budget: &Shared) -> u64 {
    budget.quota_at(Timestamp::from_secs(60)).unwrap().remaining
}

#[tokio::test]
async fn failing_backend_gets_a_fifth_more_and_not_three_times_the_load() {
    let attempts = AtomicU32::new(0);
    let failing = service_fn(|(): ()| {
        attempts.fetch_add(1, Ordering::Relaxed);
        ready(Err::<(), _>("failed"))
    });
    let budget = budget(0.2, 0);
    let policy =
        RetryWithin::new(Arc::clone(&budget), 2, |(): &(), result: &Result<(), _>| result.is_err());
    let mut service = ServiceBuilder::new().retry(policy).service(failing);
    for _ in 0..100 {
        assert_eq!(service.ready().await.unwrap().call(()).await, Err("failed"));
    }
    assert_eq!((attempts.load(Ordering::Relaxed), left(&budget)), (120, 0));
}

/// 17 requests are in flight while their first attempts fail. Two retries are admitted, since three
/// are more than a fifth of the other 14. They last until their results, and the requests until
/// their responses.
#[tokio::test]
async fn retries_are_a_share_of_the_requests_in_flight() {
    let budget = Arc::new(LiveBudget::new(0.2, 0).unwrap());
    let (attempts, in_flight) = (AtomicU32::new(0), AtomicU32::new(0));
    let failing = service_fn(|(): ()| {
        attempts.fetch_add(1, Ordering::Relaxed);
        let most = &in_flight;
        let budget = &budget;
        async move {
            tokio::task::yield_now().await;
            most.fetch_max(u32::try_from(budget.requests()).unwrap(), Ordering::Relaxed);
            Err::<(), _>("failed")
        }
    });
    let policy =
        RetryLive::new(Arc::clone(&budget), 2, |(): &(), result: &Result<(), _>| result.is_err());
    let service = ServiceBuilder::new().retry(policy).service(failing);
    let calls = (0..17).map(|_| service.clone().oneshot(()));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(|it| *it == Err("failed")));
    assert_eq!(in_flight.load(Ordering::Relaxed), 17);
    assert_eq!(attempts.load(Ordering::Relaxed), 19);
    assert_eq!((budget.requests(), budget.retries()), (0, 0));
    // A future that is dropped is in flight until then.
    let mut service = service;
    let call = service.ready().await.unwrap().call(());
    assert_eq!(budget.requests(), 1);
    drop(call);
    assert_eq!(budget.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn request_is_deposited_once_and_retried_up_to_a_number() {
    let attempts = AtomicU32::new(0);
    let failing =
        service_fn(|(): ()| ready(Ok::<_, Infallible>(attempts.fetch_add(1, Ordering::Relaxed))));
    let budget = budget(1.0, 5);
    let is_early = |(): &(), result: &Result<u32, _>| result.as_ref().is_ok_and(|it| *it < 2);
    let second = Duration::from_secs(1);
    let backoff = ExponentialBackoffMaker::new(second, second, 0.0, HasherRng::default());
    let backoff = backoff.unwrap().make_backoff();
    let policy = RetryWithin::new(Arc::clone(&budget), 3, is_early).backoff(backoff);
    let mut service = ServiceBuilder::new().retry(policy).service(failing);
    let start = Instant::now();
    assert_eq!(service.ready().await.unwrap().call(()).await, Ok(2));
    assert!(start.elapsed() >= 2 * second);
    assert_eq!(left(&budget), 4, "5 and one request, less two retries");
    attempts.store(0, Ordering::Relaxed);
    let policy = RetryWithin::new(Arc::clone(&budget), 1, is_early);
    let mut service = ServiceBuilder::new().retry(policy).service(failing);
    assert_eq!(service.ready().await.unwrap().call(()).await, Ok(1), "one retry");
    assert_eq!(left(&budget), 4);
}

#[test]
fn clones_of_a_budget_are_one() {
    let budget = TowerBudget(budget(0.5, 0));
    (0..2).for_each(|_| budget.clone().deposit());
    assert!(budget.withdraw() && !budget.clone().withdraw());
}

/// How an attempt ends, and after how many milliseconds.
type Attempt = (u64, Result<&'static str, &'static str>);

/// Hedges with a patience of 10 ms, and a clock that stands still.
fn hedges(share: f64, minimum: u64) -> (Arc<Hedges<ManualClock>>, ManualClock) {
    let window = WindowConfig::new(10, Duration::from_secs(10)).unwrap();
    let clock = ManualClock::new(Timestamp::from_secs(60));
    let hedges = Hedges::with_clock(window, 0.0, share, minimum, clock.clone()).unwrap();
    let first = hedges.begin();
    clock.advance(Duration::from_millis(10));
    first.end();
    clock.advance(Duration::from_secs(1));
    (Arc::new(hedges), clock)
}

/// Sends a request whose attempts end as given. Returns the result, after how many milliseconds,
/// and how many attempts were sent.
async fn hedged(attempts: [Attempt; 2], hedges: &Arc<Hedges<ManualClock>>) -> (Attempt, u32) {
    let sent = AtomicU32::new(0);
    let service = service_fn(|(): ()| {
        let (millis, result) = attempts[sent.fetch_add(1, Ordering::Relaxed) as usize];
        async move {
            sleep(Duration::from_millis(millis)).await;
            result
        }
    });
    let mut service = HedgeLayer::new(Arc::clone(hedges)).layer(service);
    let start = Instant::now();
    let result = service.ready().await.unwrap().call(()).await;
    let millis = u64::try_from(start.elapsed().as_millis()).unwrap();
    ((millis, result), sent.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn first_response_of_two_attempts_wins() {
    let (hedges, _) = hedges(0.0, 9);
    let [slow, fast] = [(100, Ok("slow")), (5, Ok("fast"))];
    assert_eq!(hedged([fast, slow], &hedges).await, ((5, Ok("fast")), 1));
    assert_eq!(hedged([slow, fast], &hedges).await, ((15, Ok("fast")), 2));
    assert_eq!(hedged([(12, Ok("first")), slow], &hedges).await, ((12, Ok("first")), 2));
}

#[tokio::test(start_paused = true)]
async fn error_is_returned_once_no_attempt_is_in_flight() {
    let (hedges, _) = hedges(0.0, 9);
    let failed = |millis, text| (millis, Err(text));
    let first = failed(5, "first");
    assert_eq!(hedged([first, (1, Ok("second"))], &hedges).await, ((5, Err("first")), 1));
    let first = failed(12, "first");
    assert_eq!(hedged([first, (20, Ok("second"))], &hedges).await, ((30, Ok("second")), 2));
    assert_eq!(hedged([first, failed(20, "second")], &hedges).await, ((30, first.1), 2));
    let first = (50, Ok("first"));
    assert_eq!(hedged([first, failed(5, "second")], &hedges).await, (first, 2));
    let first = failed(50, "first");
    assert_eq!(hedged([first, failed(5, "second")], &hedges).await, (first, 2));
}

#[tokio::test(start_paused = true)]
async fn hedges_are_a_share_of_the_requests() {
    let (hedges, _) = hedges(0.1, 0);
    let mut sent = 0;
    for _ in 0..49 {
        sent += hedged([(100, Ok("slow")); 2], &hedges).await.1;
    }
    // Of 50 requests, the one that has set the patience included.
    assert_eq!(sent, 49 + 5);
}

/// A first attempt that loses counts with the time that it had taken, and one that fails does not.
#[tokio::test(start_paused = true)]
async fn first_attempt_that_loses_counts() {
    let (hedges, clock) = hedges(0.0, 9);
    let loses = async |attempts: [Attempt; 2]| {
        let moves = clock.clone();
        let later = tokio::spawn(async move {
            sleep(Duration::from_millis(11)).await;
            moves.advance(Duration::from_secs(20));
        });
        let result = hedged(attempts, &hedges).await;
        later.await.unwrap();
        // In the next bucket, the first one has left the window.
        clock.advance(Duration::from_secs(1));
        (result.1, hedges.begin().patience())
    };
    let patience = loses([(100, Ok("slow")), (5, Ok("fast"))]).await;
    assert!(matches!(patience, (2, Some(it)) if it.as_secs() == 20), "{patience:?}");
}

#[tokio::test(start_paused = true)]
async fn no_hedge_is_sent_before_there_are_response_times() {
    let window = WindowConfig::new(10, Duration::from_secs(10)).unwrap();
    let hedges = Arc::new(Hedges::new(window, 0.9, 1.0, 9).unwrap());
    let sent = Cell::new(0);
    let service = service_fn(|(): ()| {
        sent.set(sent.get() + 1);
        pending::<Result<(), Infallible>>()
    });
    let mut service = HedgeLayer::new(hedges).layer(service);
    let call = service.ready().await.unwrap().call(());
    assert!(tokio::time::timeout(Duration::from_secs(60), call).await.is_err());
    assert_eq!(sent.get(), 1);
}

/// The future is kept, as in a structure or a `select!` by reference: the attempt that has lost is
/// dropped with the response.
#[tokio::test(start_paused = true)]
async fn attempt_that_loses_is_dropped_with_the_response() {
    let (hedges, _) = hedges(0.0, 9);
    let (sent, held) = (AtomicU32::new(0), Arc::new(()));
    let service = service_fn(|(): ()| {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let held = Arc::clone(&held);
        async move {
            sleep(Duration::from_millis(if number == 0 { 100 } else { 5 })).await;
            drop(held);
            Ok::<_, Infallible>(number)
        }
    });
    let mut service = HedgeLayer::new(hedges).layer(service);
    let mut call = std::pin::pin!(service.ready().await.unwrap().call(()));
    assert_eq!((&mut call).await, Ok(1));
    assert_eq!(Arc::strong_count(&held), 1, "no attempt is in flight");
}
