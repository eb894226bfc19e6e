//! The circuit breaker and the adaptive limiter under threads that race, stall and cancel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::flow::adaptive::{LimitAlgorithm, LimitEvidence, LimitPlan};
use leaparray::flow::circuit::{CircuitState, RatioLimit, Transitions, Wait};
use leaparray::flow::{AdaptiveLimiter, CircuitBreaker, CircuitConfig, FeedbackPermit, LimiterExt};
use leaparray::node::OnDrop;
use leaparray::{ManualClock, Timestamp, WindowConfig};
use leaparray_stress_tests::{BUCKET, Round, rounds, stall, work};

const START: Timestamp = Timestamp::from_secs(1);
const PROBES: u16 = 3;
const MILLI: Duration = Duration::from_millis(1);

/// A window that rolls over all the time, or the last calls. Exceptions and slow calls in phases
/// open the breaker, whose wait is short. Without a time-out, a probe that is lost keeps it
/// half-open. With a short one, threads that end probes race with those that find the time over.
fn configs(window: WindowConfig) -> [CircuitConfig; 4] {
    let config = CircuitConfig::default()
        .min_calls(1)
        .slow_ratio(RatioLimit::at_least(0.9).unwrap(), MILLI)
        .wait(Wait::new(MILLI).growing(2.0, 4 * MILLI).unwrap())
        .probes(PROBES)
        .unwrap();
    let [in_window, last] = [config.window(window).unwrap(), config.last_calls(20).unwrap()];
    [(in_window, None), (last, None), (in_window, Some(MILLI)), (last, Some(MILLI))]
        .map(|(config, timeout)| config.half_open_timeout(timeout).unwrap())
}

struct Circuit {
    round: Round,
    clock: ManualClock,
    breaker: CircuitBreaker<ManualClock>,
}

impl Circuit {
    fn run(&self) {
        let mut transitions = self.breaker.transitions();
        let (mut state, mut seen) = (CircuitState::Closed, 0);
        let reader = Box::new(|| {
            seen += follow(&mut transitions, &mut state);
            let counted = self.breaker.snapshot().calls;
            assert!(counted.exceptions <= counted.calls && counted.slow <= counted.calls);
        });
        work(self.round.writers, |writer| self.ask(writer), vec![reader]);
        seen += follow(&mut transitions, &mut state);
        assert!(seen > 10, "{seen} transitions");
        // No probe was lost: whatever happened, the breaker closes after enough successes.
        self.clock.advance(Duration::from_secs(1));
        for _ in 0..10 {
            if let Ok(permit) = self.breaker.try_acquire().at_once() {
                permit.accept();
            }
            self.clock.advance(3 * MILLI);
        }
        follow(&mut transitions, &mut state);
        assert_eq!((self.breaker.state(), state), (CircuitState::Closed, CircuitState::Closed));
    }

    fn ask(&self, writer: usize) {
        for turn in writer..writer + self.round.turns as usize / self.round.writers {
            // In any round, so that many waits end in it.
            self.clock.advance(BUCKET / 4);
            let Ok(permit) = self.breaker.try_acquire().at_once() else { continue };
            stall();
            let is_down = turn / 50 % 2 == 1;
            match turn % 5 {
                0 => permit.cancel(),
                1 => drop(permit.on_drop(OnDrop::Cancelled)),
                _ if is_down => permit.reject(),
                _ => permit.accept(),
            }
        }
    }
}

/// Reads all transitions, checks that each begins with the state with which the one before has
/// ended, and returns their number.
fn follow(transitions: &mut Transitions, state: &mut CircuitState) -> u64 {
    let mut seen = 0;
    while let Some(transition) = transitions.next() {
        assert_eq!(transition.from, *state);
        *state = transition.to;
        seen += 1;
    }
    seen
}

#[test]
fn circuit_breaker_keeps_an_unbroken_chain_and_loses_no_probe() {
    for round in rounds() {
        for config in configs(round.config()) {
            let clock = ManualClock::new(START);
            let breaker = CircuitBreaker::with_clock(config, clock.clone());
            Circuit { round, clock, breaker }.run();
        }
    }
}

const HIGHEST: u64 = 6;

/// Moves the limit from 1 to [`HIGHEST`], and checks what it is told.
#[derive(Default)]
struct UpAndDown {
    epochs: u64,
}

impl UpAndDown {
    fn plan(&self) -> LimitPlan {
        LimitPlan::epoch(1 + self.epochs % HIGHEST, MILLI)
    }
}

impl LimitAlgorithm for UpAndDown {
    fn first_plan(&mut self) -> LimitPlan {
        self.plan()
    }

    fn next_plan(&mut self, evidence: &LimitEvidence<'_>) -> LimitPlan {
        let LimitEvidence::Epoch(epoch) = evidence else { panic!("{evidence:?}") };
        assert!(epoch.start < epoch.end && epoch.end <= epoch.now, "{epoch:?}");
        assert!(epoch.response_times.count() <= epoch.begun, "{epoch:?}");
        assert!(epoch.exceptions <= epoch.begun, "{epoch:?}");
        self.epochs += 1;
        self.plan()
    }
}

#[test]
fn adaptive_limiter_admits_no_more_than_its_highest_limit_and_keeps_no_permit() {
    for round in rounds() {
        let clock = ManualClock::new(START);
        let limiter = AdaptiveLimiter::with_clock(UpAndDown::default(), clock.clone());
        let (in_flight, admitted) = (AtomicU64::new(0), AtomicU64::new(0));
        let writer = |writer: usize| {
            for turn in writer..writer + round.turns as usize / round.writers {
                clock.advance(MILLI / round.turns_per_bucket);
                let Ok(permit) = limiter.try_acquire().at_once() else { continue };
                assert!(in_flight.fetch_add(1, Ordering::Relaxed) < HIGHEST);
                admitted.fetch_add(1, Ordering::Relaxed);
                stall();
                in_flight.fetch_sub(1, Ordering::Relaxed);
                end(permit, turn);
            }
        };
        let reader = Box::new(|| assert!((1..=HIGHEST).contains(&limiter.limit())));
        work(round.writers, writer, vec![reader]);
        assert_eq!(limiter.in_use(), 0);
        assert!(admitted.into_inner() > 0);
    }
}

fn end<L>(permit: FeedbackPermit<L>, turn: usize)
where
    L: std::ops::Deref,
    L::Target: leaparray::flow::Feedback,
{
    match turn % 5 {
        0 => permit.cancel(),
        1 => drop(permit),
        2 => permit.reject(),
        _ => permit.accept(),
    }
}
