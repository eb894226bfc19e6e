//! A queue under constant arrivals, timeouts, cancellations and releases: no permit is lost, and no
//! request waits for ever.

use std::future::{Pending, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use leaparray::flow::{ConcurrencyLimiter, WaitQueue};
use leaparray_stress_tests::{Round, rounds, stall, work};

struct Stress<'a> {
    limit: u64,
    queue: WaitQueue<&'a ConcurrencyLimiter>,
    /// The permits that are held, as counted by the threads.
    held: AtomicU64,
    admitted: AtomicU64,
}

impl Stress<'_> {
    fn ask(&self, round: Round, writer: usize) {
        for turn in writer..writer + round.turns as usize / round.writers / 10 {
            let permits = turn as u64 % self.limit + 1;
            match turn % 5 {
                // Dropped while it waits, or with its permit.
                0 => {
                    let sleep = |_| -> Pending<()> { pending() };
                    let mut request = pin!(self.queue.acquire_with(permits, Duration::MAX, sleep));
                    for _ in 0..3 {
                        let mut context = Context::from_waker(Waker::noop());
                        if request.as_mut().poll(&mut context).is_ready() {
                            break;
                        }
                        stall();
                    }
                }
                1 => drop(self.queue.acquire_blocking(permits, Duration::from_micros(50))),
                _ => {
                    let permit = self.queue.acquire_blocking(permits, Duration::MAX);
                    let permit = permit.expect("the queue has no bound");
                    let held = self.held.fetch_add(permits, Ordering::Relaxed) + permits;
                    assert!(held <= self.limit, "{held} of {}", self.limit);
                    stall();
                    self.held.fetch_sub(permits, Ordering::Relaxed);
                    self.admitted.fetch_add(1, Ordering::Relaxed);
                    drop(permit);
                }
            }
        }
    }
}

/// Each thread ends: it would wait for ever if a wake-up or a permit were lost.
fn each_request_is_answered(newest_first: bool) {
    for round in rounds() {
        let limit = u64::from(round.samples.min(3));
        let limiter = ConcurrencyLimiter::new(limit);
        let mut queue = WaitQueue::new(&limiter);
        if newest_first {
            queue = queue.newest_first();
        }
        let stress = Stress { limit, queue, held: AtomicU64::new(0), admitted: AtomicU64::new(0) };
        work(round.writers, |writer| stress.ask(round, writer), vec![]);
        assert!(stress.admitted.into_inner() > 0);
        assert_eq!((limiter.in_use(), stress.queue.waiting()), (0, 0));
    }
}

#[test]
fn each_request_is_answered_in_turn() {
    each_request_is_answered(false);
}

#[test]
fn each_request_is_answered_the_newest_first() {
    each_request_is_answered(true);
}
