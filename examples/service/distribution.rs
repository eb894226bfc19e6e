//! The distribution of the response times of one route.

use leaparray::Timestamp;

use crate::metrics::Metrics;
use crate::plot::plot;
use crate::route::Route;

/// A chart of the response times of the last minute at `now`, with a heading.
pub(crate) fn chart_at(now: Timestamp, route: Route, metrics: &Metrics) -> String {
    let minute = metrics.of(route).long_histogram_at(now).unwrap_or_default();
    format!("\n{route}, {} response times in the last minute\n\n{}", minute.count(), plot(&minute))
}
