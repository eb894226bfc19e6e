//! Random numbers of the operating system.
//!
//! Nothing here has a state in the memory of the process: two processes with copies of the same
//! memory, as after a fork or from one snapshot, draw different numbers.

use crate::lease::MAX_EXACT;

pub(crate) use getrandom::Error;

/// Returns a random number.
pub(crate) fn number() -> Result<u64, Error> {
    getrandom::u64()
}

/// Returns a random number below [`MAX_EXACT`].
pub(crate) fn exact() -> Result<u64, Error> {
    number().map(|it| it % MAX_EXACT)
}

/// Returns a random number from 0 to 1, or 0.5 if there is none: only the time of an ask depends on
/// it.
pub(crate) fn fraction() -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    exact().map_or(0.5, |it| it as f64 / MAX_EXACT as f64)
}
