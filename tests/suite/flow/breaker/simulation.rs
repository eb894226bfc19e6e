//! A simulation of clients, a breaker and a backend, in virtual time. Each run with the same input
//! has the same result.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of requests and of tenths of a second, far below 2⁵³"
)]

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use leaparray::flow::breaker::{AdaptiveBreakerConfig, RandomSource, SeededRandom};
use leaparray::flow::{AdaptiveBreaker, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp};

/// The answer of the backend to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The time from the request to its end.
    pub(crate) after: Duration,
    pub(crate) outcome: Outcome,
}

impl Answer {
    pub(crate) const fn accepted(after: Duration) -> Self {
        Self { after, outcome: Outcome::Success }
    }

    pub(crate) const fn rejected(after: Duration) -> Self {
        Self { after, outcome: Outcome::Exception }
    }
}

type Breaker = AdaptiveBreaker<ManualClock, SeededRandom>;

/// An attempt in flight.
struct Attempt<'a> {
    end: Timestamp,
    /// The number of the request. Of two attempts that end at the same time, the earlier request
    /// ends first.
    number: u64,
    outcome: Outcome,
    permit: FeedbackPermit<&'a Breaker>,
}

impl Attempt<'_> {
    const fn order(&self) -> (Timestamp, u64) {
        (self.end, self.number)
    }

    fn finish(self) {
        match self.outcome {
            Outcome::Success => self.permit.end_at(self.end, Outcome::Success),
            Outcome::Exception => self.permit.end_at(self.end, Outcome::Exception),
            Outcome::Cancelled => self.permit.end_at(self.end, Outcome::Cancelled),
        }
    }
}

impl Ord for Attempt<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Attempt<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Attempt<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Attempt<'_> {}

/// The requests of a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tenth {
    pub(crate) asked: u64,
    pub(crate) admitted: u64,
}

/// The requests of a simulation by tenths of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) tenths: Vec<Tenth>,
    pub(crate) first_drop: Option<Duration>,
}

impl Report {
    fn sum(&self, from: f64, to: f64, of: impl Fn(&Tenth) -> u64) -> u64 {
        let index = |secs: f64| ((secs * 10.0).round() as usize).min(self.tenths.len());
        self.tenths[index(from)..index(to)].iter().map(of).sum()
    }

    /// Returns the number of requests that got through between two times, in seconds.
    pub(crate) fn admitted(&self, from: f64, to: f64) -> u64 {
        self.sum(from, to, |tenth| tenth.admitted)
    }

    /// Returns the number of requests that were dropped between two times, in seconds.
    pub(crate) fn dropped(&self, from: f64, to: f64) -> u64 {
        self.sum(from, to, |tenth| tenth.asked - tenth.admitted)
    }

    /// Returns the share of requests that got through between two times, in seconds.
    pub(crate) fn share(&self, from: f64, to: f64) -> f64 {
        self.admitted(from, to) as f64 / self.sum(from, to, |tenth| tenth.asked) as f64
    }

    /// Returns the time from `from`, in seconds, to the end of the last tenth of a second in which
    /// fewer than 99 % of the requests got through.
    pub(crate) fn recovery(&self, from: f64) -> f64 {
        let first = (from * 10.0).round() as usize;
        let bad = |tenth: &Tenth| tenth.admitted * 100 < tenth.asked * 99;
        let last = self.tenths[first..].iter().rposition(bad);
        last.map_or(0.0, |last| (last + 1) as f64 / 10.0)
    }
}

/// Asks at a steady rate from `parts`, each with a rate of requests per second and a duration, one
/// after the other. The backend is told the time since the beginning, and has a random number from
/// 0 to 1 for each admitted request.
pub(crate) fn simulate(
    config: AdaptiveBreakerConfig,
    parts: &[(f64, f64)],
    mut backend: impl FnMut(f64, f64) -> Answer,
    seed: u64,
) -> Report {
    const NOON: u64 = 43_200_000_000_000;
    // Not at the start of a bucket.
    let begin = Timestamp::from_nanos(NOON + 17_000_000 * (seed % 14));
    let clock = ManualClock::new(begin);
    let random = SeededRandom::new(seed);
    let breaker = AdaptiveBreaker::with_source(config, clock, SeededRandom::new(seed + 1_000));
    let mut in_flight = BinaryHeap::<Reverse<Attempt<'_>>>::new();
    let mut report = Report::default();
    let (mut number, mut secs, mut end_of_part) = (0, 0.0, 0.0);
    for &(rate, length) in parts {
        end_of_part += length;
        while secs < end_of_part - 1e-9 {
            let now = begin.saturating_add(Duration::from_secs_f64(secs));
            while in_flight.peek().is_some_and(|Reverse(first)| first.end <= now) {
                in_flight.pop().into_iter().for_each(|Reverse(first)| first.finish());
            }
            let tenth = (secs * 10.0 + 1e-9) as usize;
            if report.tenths.len() <= tenth {
                report.tenths.resize(tenth + 1, Tenth::default());
            }
            let tenth = &mut report.tenths[tenth];
            tenth.asked += 1;
            if let Ok(permit) = breaker.try_acquire_at(now, 1).at_once() {
                tenth.admitted += 1;
                let draw = f64::from(random.next_u32()) / f64::from(u32::MAX);
                let Answer { after, outcome } = backend(secs, draw);
                let end = now.saturating_add(after);
                in_flight.push(Reverse(Attempt { end, number, outcome, permit }));
            } else if report.first_drop.is_none() {
                report.first_drop = Some(Duration::from_secs_f64(secs));
            }
            number += 1;
            secs += 1.0 / rate;
        }
    }
    report
}
