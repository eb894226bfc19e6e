//! The lines of a second: of each resource, and of all inbound traffic.

use leaparray::metric::{MetricLine, SecondMetrics};
use leaparray::registry::ResourceSecond;
use leaparray::{Timestamp, TrafficType};

/// The name under which Sentinel writes all inbound traffic together.
pub(crate) const TOTAL: &str = "__total_inbound_traffic__";

/// The lines of one second.
#[derive(Debug)]
pub(crate) struct SecondLines {
    pub(crate) second: Timestamp,
    /// One for each resource, with the requests of all its contexts, by their names. The last one
    /// has all inbound traffic, if there was any.
    pub(crate) lines: Vec<MetricLine>,
}

/// Returns the lines of seconds that are sorted by the second and the name, as the registry
/// delivers them.
pub(crate) fn of_seconds(seconds: &[ResourceSecond]) -> impl Iterator<Item = SecondLines> {
    seconds.chunk_by(|one, next| one.metrics.second == next.metrics.second).map(of_second)
}

fn of_second(resources: &[ResourceSecond]) -> SecondLines {
    let second = resources[0].metrics.second;
    // No kind of a resource is known here: 0 is any.
    let line = |name: &str, all: &[ResourceSecond], only: Option<TrafficType>| {
        let mut sum = SecondMetrics::new(second);
        let mut parts = all.iter().filter(|it| only.is_none_or(|only| it.traffic_type == only));
        let first = parts.next()?;
        sum += &first.metrics;
        parts.for_each(|it| sum += &it.metrics);
        Some(MetricLine::new(name, 0, &sum))
    };
    let of_names = resources.chunk_by(|one, next| one.name == next.name);
    let of_names = of_names.filter_map(|all| line(&all[0].name, all, None));
    let total = line(TOTAL, resources, Some(TrafficType::Inbound));
    SecondLines { second, lines: of_names.chain(total).collect() }
}
