//! The events that are counted.

use std::fmt;

/// Calls a macro with the list of all events, before its own arguments. An event that is added to
/// this list is counted, summed, serialized and exported everywhere.
///
/// An event has a variant, the name of the field with its count in a serialized form, the name of
/// the event, and a description of its count.
macro_rules! with_events {
    ($then:ident!($($argument:tt)*)) => {
        $then! {
            [
                /// A request was let through.
                Pass, pass, "pass", "Permits of admitted requests";
                /// A request was refused.
                Block, block, "block", "Permits of refused requests";
                /// A request that was let through failed.
                Exception, exception, "exception", "Permits of requests that failed";
                /// A request that was let through succeeded.
                Success, success, "success", "Permits of requests that succeeded";
                /// The response time. Its sum is in nanoseconds. Each count that is added to it is
                /// one response time in nanoseconds, and is included in the mean and in the
                /// extremes.
                Rt, rt_count, "rt", "Response times";
                /// A request was let through on a permit that was reserved before its bucket began.
                ReservedPass, reserved_pass, "reserved_pass",
                    "Permits that were reserved in advance";
                /// A request that was let through was cancelled: it neither succeeded nor failed.
                /// It has no response time.
                Cancelled, cancelled, "cancelled", "Permits of requests that were cancelled";
            ]
            $($argument)*
        }
    };
}

#[cfg(feature = "serde")]
pub(super) use with_events;

/// Declares the events.
macro_rules! declare {
    ([$(
        $(#[$doc:meta])+
        $event:ident, $field:ident, $name:literal, $description:literal;
    )+]) => {
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
            $($(#[$doc])+ $event,)+
        }

        impl MetricEvent {
            pub(crate) const COUNT: usize = [$($name),+].len();

            /// [`ALL`](Self::ALL) as an array, whose length would change with each event that is
            /// added.
            pub(crate) const EVENTS: [Self; Self::COUNT] = [$(Self::$event),+];

            /// Returns the event's name in snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$event => $name,)+
                }
            }

            /// Returns what a count of the event is, in a few words for an exporter.
            ///
            /// ```
            /// use leaparray::MetricEvent;
            ///
            /// assert_eq!(MetricEvent::Pass.description(), "Permits of admitted requests");
            /// ```
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self {
                    $(Self::$event => $description,)+
                }
            }
        }
    };
}

with_events!(declare!());

impl MetricEvent {
    /// Every event, in the order of their declaration.
    pub const ALL: &[Self] = &Self::EVENTS;

    /// The events that are counted in permits, in the order of their declaration: all but
    /// [`Rt`](Self::Rt).
    ///
    /// ```
    /// use leaparray::MetricEvent;
    ///
    /// assert_eq!(MetricEvent::OF_PERMITS.len(), MetricEvent::ALL.len() - 1);
    /// assert!(!MetricEvent::OF_PERMITS.contains(&MetricEvent::Rt));
    /// ```
    pub const OF_PERMITS: &[Self] = &{
        let mut of_permits = [Self::Pass; Self::COUNT - 1];
        let (mut from, mut to) = (0, 0);
        while from < Self::COUNT {
            if !matches!(Self::EVENTS[from], Self::Rt) {
                of_permits[to] = Self::EVENTS[from];
                to += 1;
            }
            from += 1;
        }
        of_permits
    };
}

impl fmt::Display for MetricEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
