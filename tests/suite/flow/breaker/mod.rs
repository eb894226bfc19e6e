//! The adaptive breaker, with a manual clock and known random numbers.

mod hang;
mod histories;
mod permit;
mod plain;
mod probe;
mod recovery;
mod settings;
mod simulation;
mod time;

use std::sync::Arc;
use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Success};
use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource, SeededRandom, ThreadRandom};
use leaparray::flow::{AdaptiveBreaker, FeedbackPermit, LimiterExt, Reason, Retry};
use leaparray::node::OnDrop;
use leaparray::{Clock, ManualClock, Timestamp, WindowConfig};

const NOON: Timestamp = Timestamp::from_secs(43_200);
const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A random source that always draws 0, which drops each request whose drop probability is above
/// zero.
struct Strict;

impl RandomSource for Strict {
    fn next_u32(&self) -> u32 {
        0
    }
}

/// A random source that draws given numbers, one after the other, and then the last one again.
struct Draws(std::sync::Mutex<std::collections::VecDeque<u32>>);

impl<const N: usize> From<[u32; N]> for Draws {
    fn from(draws: [u32; N]) -> Self {
        Self(std::sync::Mutex::new(draws.into()))
    }
}

impl RandomSource for Draws {
    fn next_u32(&self) -> u32 {
        let mut draws = self.0.lock().unwrap();
        if draws.len() > 1 { draws.pop_front().unwrap() } else { draws[0] }
    }
}

type Breaker<R> = AdaptiveBreaker<ManualClock, R>;

fn breaker<R: RandomSource>(config: AdaptiveBreakerConfig, random: R) -> (Breaker<R>, ManualClock) {
    let clock = ManualClock::new(NOON);
    (AdaptiveBreaker::with_source(config, clock.clone(), random), clock)
}

/// A breaker without a minimum of requests that drops each request whose drop probability is above
/// zero, except for probes.
fn strict() -> (Breaker<Strict>, ManualClock) {
    breaker(AdaptiveBreakerConfig::default().min_requests(0), Strict)
}

/// The numbers of requests that were accepted, rejected and dropped.
fn counts<R: RandomSource>(breaker: &Breaker<R>) -> [u64; 3] {
    [Success, Exception, Block].map(|event| breaker.window().lifetime().sum(event))
}

/// Asks for one request, which the backend accepts or rejects at once. Returns whether the request
/// got through.
fn ask<R: RandomSource>(breaker: &Breaker<R>, accepts: bool) -> bool {
    match breaker.try_acquire().at_once() {
        Ok(permit) => {
            if accepts {
                permit.accept();
            } else {
                permit.reject();
            }
            true
        }
        Err(_) => false,
    }
}

#[test]
fn draws_are_as_likely_low_as_high() {
    fn low(random: impl RandomSource) -> usize {
        (0..1_000).filter(|_| random.next_u32() < 1 << 31).count()
    }
    let seeded = low(SeededRandom::new(7));
    for low in [seeded, low(ThreadRandom)] {
        // A number outside of this range has a probability below 10⁻²⁰.
        assert!((350..=650).contains(&low), "{low}");
    }
    let [lent, shared] = [(); 2].map(|()| Arc::new(SeededRandom::new(7)));
    assert_eq!([low(&*lent), low(shared)], [seeded; 2]);
}

#[test]
fn nothing_is_dropped_while_all_is_accepted() {
    let (breaker, clock) = strict();
    for _ in 0..60_000 {
        assert!(ask(&breaker, true));
        clock.advance(MILLI);
    }
    assert_eq!(counts(&breaker), [60_000, 0, 0]);
}

#[test]
fn nothing_is_dropped_while_one_in_k_is_accepted() {
    let (breaker, clock) = breaker(AdaptiveBreakerConfig::default().k(2.0).unwrap(), Strict);
    for number in 0..60_000 {
        assert!(ask(&breaker, number % 2 == 0));
        clock.advance(MILLI);
    }
}

#[test]
fn first_requests_are_never_dropped() {
    for min_requests in [0, 1, 5, 100] {
        let (breaker, _) =
            breaker(AdaptiveBreakerConfig::default().min_requests(min_requests), Strict);
        for _ in 0..=min_requests {
            assert!(ask(&breaker, false));
        }
        assert!(
            ask(&breaker, false),
            "a probe: no request that might be dropped got through before"
        );
        assert!(!ask(&breaker, false));
        assert_eq!(counts(&breaker), [0, min_requests + 2, 1]);
    }
}

#[test]
fn decision_reflects_the_request_that_ended_last() {
    let (breaker, _) = strict();
    let [one, two, three] =
        [(); 3].map(|()| breaker.try_acquire().at_once().expect("nothing has ended"));
    assert!(ask(&breaker, false));
    // The drop probability is 1 / 2. The first request that might be dropped is a probe, and the
    // next one is dropped.
    assert!(ask(&breaker, false) && !ask(&breaker, true));
    // 1 of 4 requests is accepted: (4 − 1.5 · 1) / 5 = 0.5.
    one.accept();
    assert!((breaker.drop_probability_at(breaker.clock().now()) - 0.5).abs() < 1e-9);
    assert!(!ask(&breaker, true));
    // 3 of 7 requests are accepted, still fewer than 2 in 3: (7 − 1.5 · 3) / 8 = 2.5 / 8.
    two.accept();
    three.accept();
    assert!((breaker.drop_probability_at(breaker.clock().now()) - 2.5 / 8.0).abs() < 1e-9);
    assert_eq!(counts(&breaker), [3, 2, 2]);
}

#[test]
fn nothing_is_dropped_once_enough_is_accepted() {
    let (breaker, _) = strict();
    let permits = [(); 4].map(|()| breaker.try_acquire().at_once().expect("nothing has ended"));
    assert!(ask(&breaker, false) && ask(&breaker, false));
    permits.into_iter().for_each(FeedbackPermit::accept);
    for _ in 0..100 {
        assert!(ask(&breaker, true));
    }
}

#[test]
fn drops_count_as_requests_from_the_next_slice_on() {
    let (breaker, clock) = strict();
    for _ in 0..100 {
        ask(&breaker, false);
    }
    let [accepts, rejects, drops] = counts(&breaker);
    assert_eq!((accepts, rejects, drops), (0, 2, 98));
    clock.advance(MILLI * 9);
    let refusal = breaker.try_acquire().refusal().expect("the drop probability is above zero");
    assert_eq!(refusal.retry_at(), Some(NOON.saturating_add(SECOND)), "the time of the next probe");
    assert!((breaker.drop_probability_at(breaker.clock().now()) - 101.0 / 102.0).abs() < 1e-9);
}
