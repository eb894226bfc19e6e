//! The error of the settings of a fleet.

use std::error::Error;
use std::fmt;

/// The error of a [`FleetConfig`](super::FleetConfig): a time that is too short or too long beside
/// the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetConfigError {
    /// The setting.
    pub setting: &'static str,
    /// Its value, in seconds.
    pub seconds: u32,
    /// The lowest value beside the other settings.
    pub min: u32,
    /// The highest value beside the other settings.
    pub max: u32,
}

impl fmt::Display for FleetConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, seconds, min, max } = self;
        write!(f, "`{setting}` of a fleet is from {min} to {max} seconds, not {seconds}")
    }
}

impl Error for FleetConfigError {}
