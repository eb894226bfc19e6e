//! The distribution of the response times of one route.

use std::time::Duration;

use leaparray::Timestamp;

use crate::metrics::Metrics;
use crate::route::Route;

/// The quantiles that are printed, with their names.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The mean and the quantiles of the response times of the last minute at `now`, with a heading.
pub(crate) fn text_at(now: Timestamp, route: Route, metrics: &Metrics) -> String {
    let Some(minute) = metrics.of(route).at(now).long().histogram() else {
        return format!(
            "\n{route} has response times in the last minute that are in no histogram\n"
        );
    };
    let quantiles = minute.quantiles(QUANTILES.map(|(_, quantile)| quantile));
    let names = QUANTILES.map(|(name, _)| name);
    let row = |(name, rt): (&str, Option<Duration>)| Some(format!("{name:>6} {:>9.2?}\n", rt?));
    let rows = [("mean", minute.mean())].into_iter().chain(names.into_iter().zip(quantiles));
    let rows: String = rows.filter_map(row).collect();
    format!("\n{route}, {} response times in the last minute\n{rows}", minute.count())
}
