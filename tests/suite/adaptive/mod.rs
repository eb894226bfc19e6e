//! The adaptive limiter, and its algorithms.

mod aimd;
mod epochs;
mod headroom;
mod limiter;
mod variety;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan, LimitRange};
use leaparray::flow::{AdaptiveLimiter, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Timestamp};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const TENTH: Duration = Duration::from_millis(100);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn range(min: u64, initial: u64, max: u64) -> LimitRange {
    LimitRange::new(min, initial, max).unwrap()
}

/// A limiter and its clock.
struct Scene<A> {
    limiter: AdaptiveLimiter<A, ManualClock>,
    clock: ManualClock,
}

impl<A: LimitAlgorithm> Scene<A> {
    fn new(algorithm: A) -> Self {
        let clock = ManualClock::new(NOON);
        Self { limiter: AdaptiveLimiter::with_clock(algorithm, clock.clone()), clock }
    }

    fn call(&self) -> FeedbackPermit<&AdaptiveLimiter<A, ManualClock>> {
        self.limiter.try_acquire().at_once().unwrap()
    }

    /// Makes as many calls at once as the limit allows, up to `calls`, each of which succeeds after
    /// `response_time`.
    fn calls(&self, calls: u64, response_time: Duration) {
        let admitted: Vec<_> =
            (0..calls).map_while(|_| self.limiter.try_acquire().at_once().ok()).collect();
        self.clock.advance(response_time);
        admitted.into_iter().for_each(FeedbackPermit::accept);
    }
}

/// An epoch, as an algorithm was told. Of the times, the shortest and the longest.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    start: Timestamp,
    end: Timestamp,
    limit: u64,
    peak_in_flight: u64,
    begun: u64,
    mean_permits: f64,
    permits: u64,
    returned: u64,
    exceptions: u64,
    unfinished: u64,
    response_times: Vec<Duration>,
    cancelled: Vec<Duration>,
}

/// Notes what it is told, and follows a list of plans, whose last one it keeps.
#[derive(Clone)]
struct Script {
    plans: Vec<LimitPlan>,
    next: usize,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Script {
    fn new(plans: impl IntoIterator<Item = LimitPlan>) -> Self {
        Self { plans: plans.into_iter().collect(), next: 0, told: Arc::default() }
    }

    fn plan(&mut self) -> LimitPlan {
        let plan = self.plans[self.next.min(self.plans.len() - 1)];
        self.next += 1;
        plan
    }
}

impl LimitAlgorithm for Script {
    fn first_plan(&mut self) -> LimitPlan {
        self.plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        if let LimitEvidence::Epoch(epoch) = evidence {
            let [response_times, cancelled] = [epoch.response_times, epoch.cancelled]
                .map(|it| [it.min(), it.max()].into_iter().flatten().collect());
            self.told.lock().unwrap().push(Told {
                start: epoch.start,
                end: epoch.end,
                limit: epoch.limit,
                peak_in_flight: epoch.peak_in_flight,
                begun: epoch.begun,
                mean_permits: epoch.mean_permits,
                permits: epoch.permits,
                returned: epoch.returned,
                exceptions: epoch.exceptions,
                unfinished: epoch.unfinished(),
                response_times,
                cancelled,
            });
        }
        self.plan()
    }
}
