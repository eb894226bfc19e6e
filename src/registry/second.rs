//! The counts of one resource in one second.

use std::cmp::Ordering;
use std::ops::Range;

use super::config::TrafficType;
use super::listed::Listed;
use crate::metric::SecondMetrics;
use crate::sync::Name;
use crate::time::{Clock, Timestamp};

/// The metrics of one resource, or of one of its contexts, in one second: plain data.
///
/// Returned by [`RegistryReading::poll_seconds`](super::RegistryReading::poll_seconds).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ResourceSecond {
    /// The name of the resource.
    pub name: Name,
    /// The name of the context; `None` for the requests without a context.
    pub context: Option<Name>,
    /// The direction of the resource.
    pub traffic_type: TrafficType,
    /// The second, and what was recorded in it.
    pub metrics: SecondMetrics,
}

impl ResourceSecond {
    /// Compares the second, and then the resource and the context.
    fn order(&self, other: &Self) -> Ordering {
        let second = self.metrics.second.cmp(&other.metrics.second);
        second.then_with(|| {
            self.order_of_names(&other.name, other.context.as_ref(), other.traffic_type)
        })
    }

    /// Compares the resource and the context with other names.
    pub(super) fn order_of_names(
        &self,
        name: &Name,
        context: Option<&Name>,
        traffic_type: TrafficType,
    ) -> Ordering {
        self.name
            .cmp(name)
            .then_with(|| self.context.as_ref().cmp(&context))
            .then_with(|| (self.traffic_type as u8).cmp(&(traffic_type as u8)))
    }
}

impl<C: Clock + Clone> Listed<C> {
    /// Appends the seconds with these numbers that are in the long window at `now`.
    pub(super) fn append_seconds(
        &self,
        now: Timestamp,
        numbers: &Range<u64>,
        to: &mut Vec<ResourceSecond>,
    ) {
        for (context, node) in self.named_nodes() {
            let seconds = node.seconds_in_window(now, numbers);
            to.extend(seconds.map(|metrics| self.second(context, metrics)));
        }
    }
}

impl<C> Listed<C> {
    /// Returns a second of the resource or of one of its contexts.
    pub(super) fn second(&self, context: Option<&Name>, metrics: SecondMetrics) -> ResourceSecond {
        ResourceSecond {
            name: Name::clone(self.name()),
            context: context.cloned(),
            traffic_type: self.traffic_type(),
            metrics,
        }
    }
}

/// Sorts the seconds, and adds up those of resources that had one name in the same second.
pub(super) fn add_up_equal(seconds: &mut Vec<ResourceSecond>) {
    // Unstable: allocates nothing.
    seconds.sort_unstable_by(ResourceSecond::order);
    seconds.dedup_by(|later, sum| {
        let is_equal = later.order(sum).is_eq();
        if is_equal {
            sum.metrics += &later.metrics;
        }
        is_equal
    });
}
