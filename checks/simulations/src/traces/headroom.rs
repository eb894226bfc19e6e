//! The limit that adapts itself, on a trace, beside fixed limits.

use std::collections::VecDeque;

use leaparray::flow::adaptive::{Headroom, LimitAlgorithm, LimitRange};
use leaparray::flow::{AdaptiveLimiter, FeedbackPermit, LimiterExt};
use leaparray::{ManualClock, Outcome, Timestamp};

use super::limits::BEGIN;
use super::{Expected, MILLI, Request, Shape, Tally};
use crate::algorithms::Algorithm;
use crate::queue::Queue;

/// The workers of the backend. They serve 240 calls in a second.
const WORKERS: u32 = 12;
/// A call is good if it ends within this time, of its wait for a worker and its length, beyond its
/// length.
const PATIENCE: u64 = 200 * MILLI;
/// The fixed limits, of which one is the best.
const FIXED: [u64; 8] = [8, 12, 16, 24, 32, 48, 64, 128];

/// The result of the limit that adapts itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodput {
    /// Its decisions.
    pub tally: Tally,
    /// The calls that waited for a worker for at most 200 ms, as a share of those with the best
    /// fixed limit, which is chosen after the run.
    pub of_best: f64,
}

type Limiter = AdaptiveLimiter<Box<dyn LimitAlgorithm>, ManualClock>;

struct Call<'a> {
    arrived: u64,
    length: u64,
    permit: FeedbackPermit<&'a Limiter>,
}

enum Event<'a> {
    Ask(Request),
    End(FeedbackPermit<&'a Limiter>),
}

/// Runs the default limit on a trace, before a backend of workers with one queue.
///
/// # Panics
///
/// Panics if the range of the limit is invalid.
#[must_use]
pub fn headroom(shape: Shape, seed: u64) -> Goodput {
    let range = LimitRange::new(1, 20, 1_000).expect("valid");
    let requests = shape.draw(seed);
    let (tally, good) = run(Box::new(Headroom::new(range)), &requests);
    let fixed = FIXED.map(|limit| run(Algorithm::Fixed(limit).create(), &requests).1);
    let best = fixed.into_iter().max().expect("some");
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    Goodput { tally, of_best: good as f64 / best as f64 }
}

/// Returns the decisions, and the number of good calls.
fn run(algorithm: Box<dyn LimitAlgorithm>, requests: &[Request]) -> (Tally, u64) {
    let clock = ManualClock::new(Timestamp::from_nanos(BEGIN));
    let limiter = AdaptiveLimiter::with_clock(algorithm, clock.clone());
    let (mut events, mut waiting) = (Queue::new(), VecDeque::<Call<'_>>::new());
    let (mut tally, mut good, mut busy) = (Tally::default(), 0, 0);
    for &request in requests {
        events.add(BEGIN + request.at, Event::Ask(request));
    }
    while let Some((now, event)) = events.next() {
        let time = Timestamp::from_nanos(now);
        clock.set(time);
        match event {
            Event::Ask(request) => {
                let (in_use, before) = (limiter.in_use(), limiter.limit());
                let result = limiter.try_acquire_at(time, 1).at_once();
                // The request may be the first one of an epoch, and change the limit.
                let is_free = [before, limiter.limit()].map(|limit| in_use < limit);
                let expected = match is_free {
                    [true, true] => Expected::Admitted,
                    [false, false] => Expected::Refused,
                    _ => Expected::Either,
                };
                tally.count(result.is_ok(), expected);
                if let Ok(permit) = result {
                    waiting.push_back(Call { arrived: now, length: request.length, permit });
                }
            }
            Event::End(permit) => {
                permit.end_at(time, Outcome::Success);
                busy -= 1;
            }
        }
        while busy < WORKERS
            && let Some(call) = waiting.pop_front()
        {
            busy += 1;
            good += u64::from(now - call.arrived <= PATIENCE);
            events.add(now + call.length, Event::End(call.permit));
        }
    }
    (tally, good)
}
