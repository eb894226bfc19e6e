//! The wait after a failure.

use std::time::Duration;

use crate::random;

/// The first and the longest wait.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Returns the wait after some failures in a row: twice as long after each one, and drawn at random
/// from its upper half, so that processes do not ask at the same time when the server is back.
pub(super) fn backoff(failures: u32) -> Duration {
    let longest = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
    longest.mul_f64(0.5 + random::fraction() / 2.0)
}
