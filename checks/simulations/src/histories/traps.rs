//! Histories from which limiters did not return to health.

use std::time::Duration;

use super::{Asks, Failures, History, Lengths, Range, Stage};

const fn range(min: u64, initial: u64, max: u64) -> Range {
    Range { min, initial, max }
}

/// A limit that begins at 1, calls of 10 ms, and 100 workers.
#[must_use]
pub fn lowest_limit() -> History {
    let lengths = Lengths::Constant(Duration::from_millis(10));
    let health = Stage::healthy(100, 0.8, lengths, [1, 1]);
    History { range: range(1, 1, 200), past: Vec::new(), health }
}

/// Eight workers, of which one was left for five minutes, at a load of three quarters.
#[must_use]
pub fn one_worker_of_eight() -> History {
    let lengths = Lengths::Exponential(Duration::from_millis(10));
    let health = Stage::healthy(8, 0.75, lengths, [1, 1]);
    let past = Stage { workers: 1, length: Duration::from_secs(300), ..health };
    History { range: range(1, 20, 200), past: vec![past], health }
}

/// One worker, and twice the calls that it serves. While the calls of a dip make room for those of
/// the limit, few wait.
#[must_use]
pub fn one_worker() -> History {
    let lengths = Lengths::Constant(Duration::from_millis(10));
    let health = Stage::healthy(1, 2.0, lengths, [1, 1]);
    History { range: range(1, 20, 200), past: Vec::new(), health }
}

/// Calls of a minute, give or take a tenth, on 220 workers of which 200 are needed.
#[must_use]
pub fn long_calls() -> History {
    let health = Stage::healthy(220, 0.9, Lengths::Around(Duration::from_secs(60)), [1, 1]);
    History { range: range(4, 20, 10_000), past: Vec::new(), health }
}

/// Calls of a mean of 20 s, exponential.
#[must_use]
pub fn long_exponential_calls() -> History {
    let health = Stage::healthy(100, 0.8, Lengths::Exponential(Duration::from_secs(20)), [1, 1]);
    History { range: range(4, 20, 10_000), past: Vec::new(), health }
}

/// 20 calls of 10 ms in a second, of which `share` are streams of 120 s, and 1,000 workers.
#[must_use]
pub fn streams(share: f64) -> History {
    let (short, stream) = (Duration::from_millis(10), Duration::from_secs(120));
    let lengths = Lengths::Streams { short, stream, share };
    let load = 20.0 * lengths.mean().as_secs_f64() / 1_000.0;
    let health = Stage::healthy(1_000, load, lengths, [1, 1]);
    History { range: range(4, 20, 10_000), past: Vec::new(), health }
}

/// Calls for two permits, after calls that all fail.
#[must_use]
pub fn heavier_than_the_limit() -> History {
    let lengths = Lengths::Constant(Duration::from_millis(10));
    let health = Stage::healthy(100, 0.8, lengths, [2, 2]);
    let failures = Failures { fast: 1.0, ..Failures::NONE };
    let past = Stage { failures, length: Duration::from_secs(1), ..health };
    History { range: range(1, 20, 200), past: vec![past], health }
}

/// A tenth of the workers, and then a clock that shows a time an hour ahead, for one call, which
/// ends an epoch.
#[must_use]
pub fn clock_step() -> History {
    let lengths = Lengths::Exponential(Duration::from_millis(10));
    let health = Stage::healthy(100, 0.8, lengths, [1, 1]);
    let ahead = Duration::from_secs(3_600);
    let few = Stage { workers: 10, length: Duration::from_secs(1), ..health };
    let past = vec![few, Stage { step: ahead, length: Duration::from_secs(2), ..health }];
    History { range: range(4, 20, 10_000), past, health }
}

/// Calls for 11 permits, so that some permits of the limit stay free while it is reached, and
/// callers that ask in that way.
#[must_use]
pub fn many_permits(asks: Asks) -> History {
    let lengths = Lengths::Constant(Duration::from_millis(10));
    let health = Stage { asks, ..Stage::healthy(220, 0.8, lengths, [11, 11]) };
    History { range: range(1, 15, 1_000), past: Vec::new(), health }
}

/// A third of the calls is cancelled, from the first one on. Too few were left in the first dip.
#[must_use]
pub fn cancelled_calls() -> History {
    let lengths = Lengths::Constant(Duration::from_millis(10));
    let mut health = Stage::healthy(100, 0.8, lengths, [1, 1]);
    health.failures.cancelled = 0.3;
    History { range: range(1, 20, 200), past: Vec::new(), health }
}
