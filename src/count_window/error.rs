//! The error of a window of calls.

use std::error::Error;
use std::fmt;

/// The error of [`CountWindow::new`](super::CountWindow::new): a number of calls that a window
/// cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountWindowError {
    /// The number of calls that was asked for.
    pub len: u32,
    /// The maximum.
    pub max: u32,
}

impl fmt::Display for CountWindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, max } = self;
        write!(f, "a window of the last {len} calls cannot be made: it can have 1 to {max} calls")
    }
}

impl Error for CountWindowError {}
