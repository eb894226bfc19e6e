//! The events that are counted.

use std::fmt;

/// An event of a resource, as in Sentinel's `MetricEvent`.
///
/// ```
/// use leaparray::MetricEvent;
///
/// assert!(MetricEvent::ALL.contains(&MetricEvent::Pass));
/// assert_eq!(MetricEvent::ReservedPass.to_string(), "reserved_pass");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricEvent {
    /// A request was let through.
    Pass,
    /// A request was refused.
    Block,
    /// A request that was let through failed.
    Exception,
    /// A request that was let through succeeded.
    Success,
    /// The response time. Its sum is in nanoseconds. Each count that is added to it is one response
    /// time in nanoseconds, and is included in the mean and in the extremes.
    Rt,
    /// A request was let through on a permit that was reserved before its bucket began.
    ReservedPass,
    /// A request that was let through was cancelled: it neither succeeded nor failed. It has no
    /// response time.
    Cancelled,
}

impl MetricEvent {
    pub(crate) const COUNT: usize = 7;

    /// Every event, in the order of their declaration.
    pub const ALL: &[Self] = &Self::EVENTS;

    /// [`ALL`](Self::ALL) as an array, whose length would change with each event that is added.
    pub(crate) const EVENTS: [Self; Self::COUNT] = [
        Self::Pass,
        Self::Block,
        Self::Exception,
        Self::Success,
        Self::Rt,
        Self::ReservedPass,
        Self::Cancelled,
    ];

    /// Returns the event's name in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Block => "block",
            Self::Exception => "exception",
            Self::Success => "success",
            Self::Rt => "rt",
            Self::ReservedPass => "reserved_pass",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for MetricEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
