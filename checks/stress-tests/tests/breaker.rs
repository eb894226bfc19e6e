//! A breaker under constant rollover of its window: each request is counted once.

use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::MetricEvent::{Block, Cancelled, Exception, Success};
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::{AdaptiveBreaker, LimiterExt};
use leaparray::node::OnDrop;
use leaparray::{Clock, ManualClock, Timestamp};
use leaparray_stress_tests::{BUCKET, Round, rounds, stall, work};

/// The outcomes of requests, counted by the writers: an accepted, rejected or cancelled request
/// before it ends.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    rejected: AtomicU64,
    cancelled: AtomicU64,
    dropped: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Stress {
    round: Round,
    clock: ManualClock,
    breaker: AdaptiveBreaker<ManualClock>,
    counts: Counts,
}

impl Stress {
    fn new(round: Round) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(1));
        let config = AdaptiveBreakerConfig::default().window(round.config()).min_requests(0);
        let breaker = AdaptiveBreaker::with_clock(config, clock.clone());
        Self { round, clock, breaker, counts: Counts::default() }
    }

    fn run(&self) {
        let reader = Box::new(|| {
            let probability = self.breaker.drop_probability_at(self.breaker.clock().now());
            assert!((0.0..1.0).contains(&probability), "{probability}");
        });
        work(self.round.writers, |writer| self.ask(writer), vec![reader]);
        let ledger = self.breaker.window().now().ledger().recorded();
        let Counts { accepted, rejected, cancelled, dropped } = &self.counts;
        let outcomes =
            [(Success, accepted), (Exception, rejected), (Cancelled, cancelled), (Block, dropped)];
        for (event, booked) in outcomes {
            assert_eq!(ledger.sum(event), booked.load(Ordering::Relaxed), "{event:?}");
        }
        assert!(ledger.sum(Block) > 0, "nothing was dropped");
    }

    fn ask(&self, writer: usize) {
        for turn in writer..writer + self.round.turns as usize / self.round.writers {
            self.clock.advance(BUCKET / self.round.turns_per_bucket);
            let Ok(permit) = self.breaker.try_acquire().at_once() else {
                count(&self.counts.dropped);
                continue;
            };
            stall();
            match turn % 7 {
                0 | 1 => {
                    count(&self.counts.accepted);
                    permit.accept();
                }
                2 => {
                    count(&self.counts.cancelled);
                    permit.cancel();
                }
                // A drop rejects or cancels.
                5 => {
                    count(&self.counts.cancelled);
                    drop(permit.on_drop(OnDrop::Cancelled));
                }
                3 => {
                    count(&self.counts.rejected);
                    drop(permit);
                }
                _ => {
                    count(&self.counts.rejected);
                    permit.reject();
                }
            }
        }
    }
}

#[test]
fn each_request_ends_once() {
    for round in rounds() {
        Stress::new(round).run();
    }
}
