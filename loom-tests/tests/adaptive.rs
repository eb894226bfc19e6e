//! The adaptive limiter: no permit beyond the limit, each epoch is planned once, a call of an epoch
//! was admitted under its limit or a later one, and each call is told once, whether plans are made
//! for calls or for epochs.
#![cfg(loom)]

use std::time::Duration;

use leaparray::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan};
use leaparray::flow::{AdaptiveLimiter, Ask, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp, shadow_all_words};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const LENGTH: Duration = Duration::from_millis(1);
const START: Timestamp = Timestamp::from_secs(1);

fn after(epochs: u32) -> Timestamp {
    START.saturating_add(LENGTH * epochs)
}

/// Allows `limits[n]` calls in the epoch n, and notes the calls that it was told of.
struct Script {
    limits: &'static [u64],
    plans: usize,
    told: Arc<Told>,
}

/// Calls that began, and the number of epochs.
#[derive(Default)]
struct Told {
    begun: AtomicU64,
    /// Of them, those in epochs with the limit 1.
    begun_under_1: AtomicU64,
    /// The permits taken in epochs, and those given back.
    permits: AtomicU64,
    returned: AtomicU64,
    epochs: AtomicU64,
}

impl Script {
    fn plan(&mut self) -> LimitPlan {
        let limit = self.limits[self.plans.min(self.limits.len() - 1)];
        self.plans += 1;
        LimitPlan::epoch(limit, LENGTH)
    }
}

impl LimitAlgorithm for Script {
    fn first_plan(&mut self) -> LimitPlan {
        self.plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        if let LimitEvidence::Epoch(epoch) = evidence {
            assert!(epoch.begun >= epoch.response_times.count(), "a call ended before it began");
            self.told.begun.fetch_add(epoch.begun, Ordering::Relaxed);
            if epoch.limit == 1 {
                self.told.begun_under_1.fetch_add(epoch.begun, Ordering::Relaxed);
            }
            self.told.permits.fetch_add(epoch.permits, Ordering::Relaxed);
            self.told.returned.fetch_add(epoch.returned, Ordering::Relaxed);
            self.told.epochs.fetch_add(1, Ordering::Relaxed);
        }
        self.plan()
    }
}

type Limiter = AdaptiveLimiter<Script, ManualClock>;

fn limiter(limits: &'static [u64]) -> (Arc<Limiter>, Arc<Told>) {
    shadow_all_words();
    let told = Arc::new(Told::default());
    let script = Script { limits, plans: 0, told: told.clone() };
    (Arc::new(AdaptiveLimiter::with_clock(script, ManualClock::new(START))), told)
}

#[test]
fn threads_that_race_for_the_last_permit_get_one() {
    explore(Some(2), || {
        let (limiter, _) = limiter(&[1]);
        let other = limiter.clone();
        let other = thread::spawn(move || {
            let call = other.try_acquire_at(START, 1).at_once();
            call.is_ok_and(|call| {
                call.end_at(START, Outcome::Success);
                true
            })
        });
        let call = limiter.try_acquire_at(START, 1).at_once();
        if call.is_ok() {
            assert_eq!(limiter.in_use(), 1);
        }
        let admitted = call.is_ok();
        drop(call);
        assert!(other.join().unwrap() || admitted);
        assert_eq!(limiter.in_use(), 0);
    });
}

#[test]
fn epoch_is_planned_once_by_threads_that_find_it_over() {
    explore(Some(1), || {
        let (limiter, told) = limiter(&[4, 4, 5, 6]);
        limiter.try_acquire_at(START, 1).at_once().unwrap().end_at(START, Outcome::Success);
        limiter.try_acquire_at(after(1), 1).at_once().unwrap().end_at(after(1), Outcome::Success);
        let other = limiter.clone();
        let other = thread::spawn(move || drop(other.try_acquire_at(after(2), 1).at_once()));
        drop(limiter.try_acquire_at(after(2), 1).at_once());
        other.join().unwrap();
        assert_eq!(told.epochs.load(Ordering::Relaxed), 1);
        assert_eq!(told.begun.load(Ordering::Relaxed), 1);
        assert_eq!((limiter.limit(), limiter.in_use()), (4, 0));
    });
}

#[test]
fn call_of_an_epoch_was_admitted_under_its_limit_or_a_later_one() {
    explore(Some(2), || {
        // The limit falls to 1 in the third epoch: the first one has no evidence at its end, so its
        // plan applies twice.
        let (limiter, told) = limiter(&[2, 1, 1, 1]);
        limiter.try_acquire_at(START, 1).at_once().unwrap().end_at(START, Outcome::Success);
        // One call is in flight from the second epoch on. So no call can be admitted under the
        // limit 1.
        let held = limiter.try_acquire_at(after(1), 1).at_once().unwrap();
        let other = limiter.clone();
        // Begins the third epoch.
        let other = thread::spawn(move || assert!(other.try_acquire_at(after(2), 1).is_refused()));
        // The clock of this thread is behind. It is admitted under the limit 2, or refused.
        drop(limiter.try_acquire_at(after(1), 1).at_once());
        other.join().unwrap();
        assert!(limiter.try_acquire_at(after(3), 1).is_refused());
        assert!(limiter.try_acquire_at(after(4), 1).is_refused());
        assert_eq!(told.epochs.load(Ordering::Relaxed), 3);
        assert_eq!(told.begun_under_1.load(Ordering::Relaxed), 0);
        held.end_at(after(4), Outcome::Success);
        assert_eq!(limiter.in_use(), 0);
    });
}

/// A thread gives two permits back, beside the thread that ends the second epoch.
#[test]
fn permits_given_back_count_in_one_epoch() {
    explore(Some(1), || {
        let (limiter, told) = limiter(&[2]);
        let held = FeedbackPermit::ask(limiter.clone(), &Ask::at(START).many(2)).at_once().unwrap();
        assert!(limiter.try_acquire_at(after(1), u64::MAX).is_refused());
        let other = thread::spawn(move || held.end_at(after(1), Outcome::Exception));
        // Ends the second epoch, of which the algorithm is told at the end of the third.
        assert!(limiter.try_acquire_at(after(2), u64::MAX).is_refused());
        other.join().unwrap();
        for epochs in [3, 4] {
            assert!(limiter.try_acquire_at(after(epochs), u64::MAX).is_refused());
        }
        assert_eq!(told.epochs.load(Ordering::Relaxed), 3);
        let counts = [&told.permits, &told.returned].map(|it| it.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 2], "taken, given back");
    });
}

/// Allows one call more after each call that it is told of.
struct EachCall {
    limit: u64,
    told: Arc<AtomicU64>,
}

impl LimitAlgorithm for EachCall {
    fn first_plan(&mut self) -> LimitPlan {
        LimitPlan::each_call(self.limit)
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        assert!(matches!(evidence, LimitEvidence::Call(_)), "no epoch was planned");
        self.told.fetch_add(1, Ordering::Relaxed);
        self.limit += 1;
        LimitPlan::each_call(self.limit)
    }
}

#[test]
fn call_that_ends_is_told_or_skipped_and_the_last_plan_applies() {
    explore(Some(2), || {
        shadow_all_words();
        let told = Arc::new(AtomicU64::new(0));
        let algorithm = EachCall { limit: 2, told: told.clone() };
        let limiter = Arc::new(AdaptiveLimiter::with_clock(algorithm, ManualClock::new(START)));
        let other = limiter.clone();
        let other = thread::spawn(move || {
            other
                .try_acquire_at(START, 1)
                .at_once()
                .expect("two may go ahead")
                .end_at(START, Outcome::Success);
        });
        limiter
            .try_acquire_at(START, 1)
            .at_once()
            .expect("two may go ahead")
            .end_at(START, Outcome::Success);
        other.join().unwrap();
        let told = told.load(Ordering::Relaxed);
        assert!(told >= 1, "a call that finds the planner free is told");
        assert_eq!(told + limiter.skipped_calls(), 2, "each call is told or skipped");
        assert_eq!((limiter.limit(), limiter.in_use()), (2 + told, 0));
    });
}

/// Two threads ask for the only permit. Each sees what was done under it before.
#[test]
fn next_call_sees_what_the_former_one_did() {
    explore(Some(2), || {
        let (limiter, _) = limiter(&[1]);
        let data = Arc::new(AtomicU64::new(0));
        let call = |limiter: &Limiter, data: &AtomicU64| {
            let Ok(permit) = limiter.try_acquire_at(START, 1).at_once() else { return 0 };
            // No other thread has a permit: a load and a store are enough.
            data.store(data.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            permit.end_at(START, Outcome::Success);
            1
        };
        let other = {
            let (limiter, data) = (limiter.clone(), data.clone());
            thread::spawn(move || call(&limiter, &data))
        };
        let admitted = call(&limiter, &data) + other.join().unwrap();
        assert!(admitted >= 1);
        assert_eq!((data.load(Ordering::Relaxed), limiter.in_use()), (admitted, 0));
    });
}
