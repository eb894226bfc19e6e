//! The circuit breaker: the cases of other breakers, and its own promises.

mod cases;
mod permits;
mod reconfigure;
mod settings;
mod simulation;
mod transitions;

use std::time::Duration;

use leaparray::count_window::CountTotals;
use leaparray::flow::circuit::{CircuitState, RatioLimit, Wait};
use leaparray::flow::{CircuitBreaker, CircuitConfig, FeedbackPermit, LimiterExt};
use leaparray::{Clock, ManualClock, Outcome, Timestamp, WindowConfig};

type Breaker = CircuitBreaker<ManualClock>;
type CallPermit<'a> = FeedbackPermit<&'a Breaker>;

const SECOND: Duration = Duration::from_secs(1);
const NOON: Timestamp = Timestamp::from_secs(43_200);

/// A breaker, its clock, and the response times of its calls.
struct Scene {
    breaker: Breaker,
    clock: ManualClock,
    fast: Duration,
    slow: Duration,
}

impl Scene {
    fn new(config: CircuitConfig) -> Self {
        let clock = ManualClock::new(NOON);
        let breaker = CircuitBreaker::with_clock(config, clock.clone());
        Self { breaker, clock, fast: Duration::from_millis(1), slow: 5 * SECOND }
    }

    /// Half of at least 5 calls in the last 20 seconds, or half of them slower than 4 s; open for 5
    /// s; 4 probes within a second.
    fn base() -> CircuitConfig {
        CircuitConfig::default()
            .window(WindowConfig::new(20, 20 * SECOND).unwrap())
            .unwrap()
            .min_calls(5)
            .exception_ratio(RatioLimit::at_least(0.5).unwrap())
            .slow_ratio(RatioLimit::at_least(0.5).unwrap(), 4 * SECOND)
            .wait(Wait::new(5 * SECOND))
            .probes(4)
            .unwrap()
            .half_open_timeout(Some(SECOND))
            .unwrap()
    }

    fn after(&self, time: Duration) -> &Self {
        self.clock.advance(time);
        self
    }

    /// Makes calls that end now: `S` succeeds, `F` fails, `s` and `f` do so slowly, `I` is
    /// cancelled, and `?` is admitted and not ended. Panics if one is refused.
    fn calls(&self, calls: &str) -> &Self {
        for call in calls.chars() {
            self.call(call);
        }
        self
    }

    fn call(&self, call: char) {
        let now = self.clock_now();
        let rt = if call.is_lowercase() { self.slow } else { self.fast };
        // An open or half-open breaker is asked now, since its decision depends on the time.
        let is_timed = [CircuitState::Open, CircuitState::HalfOpen].contains(&self.breaker.state());
        let start = if is_timed { now } else { now.saturating_sub(rt) };
        let permit = self.breaker.try_acquire_at(start, 1).at_once().unwrap();
        match call {
            'S' | 's' => permit.end_at(now, Outcome::Success),
            'F' | 'f' => permit.end_at(now, Outcome::Exception),
            'I' => permit.end_at(now, Outcome::Cancelled),
            '?' => std::mem::forget(permit),
            other => panic!("no call {other}"),
        }
    }

    fn clock_now(&self) -> Timestamp {
        use leaparray::Clock;
        self.clock.now()
    }

    /// Returns the permit of an admitted request.
    fn ask(&self) -> Option<CallPermit<'_>> {
        self.breaker.try_acquire().at_once().ok()
    }

    /// Returns whether a request is admitted, and cancels it.
    fn admits(&self) -> bool {
        self.ask().map(FeedbackPermit::cancel).is_some()
    }

    #[track_caller]
    fn is(&self, state: CircuitState) -> &Self {
        assert_eq!(self.breaker.state(), state);
        self
    }

    fn set(&self, state: CircuitState) -> &Self {
        self.breaker.set_state_at(self.breaker.clock().now(), state).unwrap();
        self
    }

    fn counted(&self) -> (u64, u64, u64) {
        let CountTotals { calls, exceptions, slow, .. } = self.breaker.snapshot().calls;
        (calls, exceptions, slow)
    }
}
