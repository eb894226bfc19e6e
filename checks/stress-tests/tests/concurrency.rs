//! A limiter of the requests in flight under constant contention: no more permits than the limit
//! are held, and none is hidden in a stripe.

use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
use leaparray_stress_tests::{Round, rounds, stall, work};

/// The permits that a writer holds at most, in two requests.
const OF_WRITER: u64 = 40;

struct Stress {
    round: Round,
    limiter: ConcurrencyLimiter,
    /// The permits that are held, as counted by the threads.
    held: AtomicU64,
    refused: AtomicU64,
}

impl Stress {
    fn new(round: Round, limit: u64) -> Self {
        let [held, refused] = [(); 2].map(|()| AtomicU64::new(0));
        Self { round, limiter: ConcurrencyLimiter::new(limit), held, refused }
    }

    fn run(&self) {
        let reader = Box::new(|| {
            let in_use = self.limiter.in_use();
            assert!(in_use <= self.limiter.limit(), "{in_use}");
        });
        work(self.round.writers, |writer| self.ask(writer), vec![reader]);
        assert_eq!(self.limiter.in_use(), 0);
        assert!(self.limiter.try_acquire_many(self.limiter.limit()).is_admitted());
    }

    fn ask(&self, writer: usize) {
        let mut before = None;
        for turn in writer..writer + self.round.turns as usize / self.round.writers {
            // Mostly single permits.
            let permits = if turn % 7 == 0 { turn as u64 % OF_WRITER / 2 + 1 } else { 1 };
            let Ok(permit) = self.limiter.try_acquire_many(permits).at_once() else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let held = self.held.fetch_add(permits, Ordering::Relaxed) + permits;
            assert!(held <= self.limiter.limit(), "{held}");
            stall();
            // The permit of an earlier request is given back first.
            if let Some((permit, permits)) = before.replace((permit, permits)) {
                self.held.fetch_sub(permits, Ordering::Relaxed);
                drop(permit);
            }
        }
        if let Some((_, permits)) = before {
            self.held.fetch_sub(permits, Ordering::Relaxed);
        }
    }
}

#[test]
fn no_request_is_refused_if_all_of_them_fit() {
    for round in rounds() {
        let stress = Stress::new(round, OF_WRITER * round.writers as u64);
        stress.run();
        assert_eq!(stress.refused.into_inner(), 0);
    }
}

#[test]
fn no_more_permits_than_the_limit_are_held() {
    for round in rounds().filter(|round| round.writers > 1) {
        Stress::new(round, OF_WRITER).run();
    }
}
