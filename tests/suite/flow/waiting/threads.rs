//! Threads that block. No test depends on how long they do.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::flow::{ConcurrencyLimiter, Rate, Reason, TokenBucket, WaitQueue};

use crate::flow::ms;

/// A permit that ends on another thread wakes a waiting thread.
#[test]
fn permits_given_back_by_other_threads_wake_those_that_wait() {
    for newest_first in [false, true] {
        let limiter = ConcurrencyLimiter::new(2);
        let mut queue = WaitQueue::new(&limiter);
        if newest_first {
            queue = queue.newest_first();
        }
        let (most, done) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..6 {
                let (queue, limiter, most, done) = (&queue, &limiter, &most, &done);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let permits = thread % 2 + 1;
                        let permit = queue.acquire_blocking(permits, Duration::MAX).unwrap();
                        most.fetch_max(limiter.in_use(), Ordering::Relaxed);
                        thread::yield_now();
                        drop(permit);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), limiter.in_use(), queue.waiting()), (1_200, 0, 0));
        assert!(most.into_inner() <= 2);
    }
}

#[test]
fn blocked_thread_gives_up_at_its_timeout() {
    let limiter = ConcurrencyLimiter::new(1);
    let queue = WaitQueue::new(&limiter);
    let _held = queue.acquire_blocking(1, ms(0)).unwrap();
    let refusal = queue.acquire_blocking(1, ms(1)).unwrap_err();
    assert_eq!((refusal.reason, queue.waiting()), (Reason::WaitTooLong, 0));
}

#[test]
fn blocked_threads_wait_for_tokens() {
    let queue = WaitQueue::new(TokenBucket::new(Rate::new(1, ms(1)).unwrap(), 1));
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..5 {
                    queue.acquire_blocking(1, Duration::from_secs(3_600)).unwrap();
                }
            });
        }
    });
    assert_eq!(queue.waiting(), 0);
}
