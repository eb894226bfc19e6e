//! The rows of one second, and their sum.

use std::time::Duration;

use leaparray::{LatencyHistogram, MetricEvent, SecondMetrics};

use super::refused::ByReason;
use crate::format::{Counts, Refused, Row};

/// The rows of one second that are being collected.
pub(super) struct Sums {
    pub(super) t: u64,
    pub(super) rows: Vec<Row>,
    /// The refused requests by reason; `None` if they are not known.
    pub(super) refused: Option<Vec<Refused>>,
    pub(super) total: Counts,
    /// The response times of all nodes.
    merged: LatencyHistogram,
    /// Whether all response times are in the merged histogram.
    is_complete: bool,
}

impl Sums {
    /// Begins a second with room for `rows` rows.
    pub(super) fn new(t: u64, rows: usize) -> Self {
        Self {
            t,
            rows: Vec::with_capacity(rows),
            refused: Some(Vec::new()),
            total: Counts::default(),
            merged: LatencyHistogram::default(),
            is_complete: true,
        }
    }

    /// Adds the row of a node.
    pub(super) fn add(&mut self, id: u64, metrics: &SecondMetrics, in_flight: Option<u64>) {
        let counts = Counts { in_flight, ..counts_of(metrics) };
        add(&mut self.total, &counts);
        match &metrics.histogram {
            Some(histogram) if self.merged.is_empty() => self.merged.clone_from(histogram),
            Some(histogram) if !histogram.is_empty() => self.merged.merge(histogram),
            Some(_) => {}
            None => self.is_complete &= metrics.counts[MetricEvent::Rt] == 0,
        }
        self.rows.push(Row { id, counts });
    }

    /// Adds the refused requests of a node by reason.
    pub(super) fn add_refused(&mut self, id: u64, counts: ByReason) {
        let [limit_reached, wait_too_long, more_than_limit, failing, other, queue_full] = counts;
        self.refused.get_or_insert_default().push(Refused {
            id,
            limit_reached,
            wait_too_long,
            more_than_limit,
            failing,
            other,
            queue_full,
        });
    }

    /// Adds the row of a node that has requests in flight and nothing else.
    pub(super) fn add_in_flight(&mut self, id: u64, in_flight: u64) {
        let counts = Counts { in_flight: Some(in_flight), ..Counts::default() };
        add(&mut self.total, &counts);
        self.rows.push(Row { id, counts });
    }

    /// Sets the quantiles of the total, after the last row.
    pub(super) fn finish(&mut self) {
        if self.is_complete {
            set_quantiles(&mut self.total, &self.merged);
        }
    }
}

/// Returns the counts of a second, without the requests in flight.
fn counts_of(metrics: &SecondMetrics) -> Counts {
    let of = &metrics.counts;
    let mut counts = Counts {
        pass: of[MetricEvent::Pass],
        success: of[MetricEvent::Success],
        exception: of[MetricEvent::Exception],
        cancelled: of[MetricEvent::Cancelled],
        block: of[MetricEvent::Block],
        in_flight: None,
        max_in_flight: metrics.concurrency,
        rt_count: of[MetricEvent::Rt],
        rt_sum: nanos(of.rt_sum()),
        min: metrics.min_rt.map(nanos),
        max: metrics.max_rt.map(nanos),
        ..Counts::default()
    };
    if let Some(histogram) = &metrics.histogram {
        set_quantiles(&mut counts, histogram);
    }
    counts
}

fn set_quantiles(counts: &mut Counts, histogram: &LatencyHistogram) {
    let quantiles = histogram.quantiles([0.5, 0.9, 0.99, 0.999]);
    [counts.p50, counts.p90, counts.p99, counts.p999] = quantiles.map(|it| it.map(nanos));
}

/// Adds a row to a sum. The highest number of requests in flight is the highest of a single node.
fn add(sum: &mut Counts, row: &Counts) {
    sum.pass = sum.pass.saturating_add(row.pass);
    sum.success = sum.success.saturating_add(row.success);
    sum.exception = sum.exception.saturating_add(row.exception);
    sum.cancelled = sum.cancelled.saturating_add(row.cancelled);
    sum.block = sum.block.saturating_add(row.block);
    sum.in_flight = sum.in_flight.zip(row.in_flight).map(|(sum, row)| sum.saturating_add(row));
    sum.max_in_flight = sum.max_in_flight.max(row.max_in_flight);
    sum.rt_count = sum.rt_count.saturating_add(row.rt_count);
    sum.rt_sum = sum.rt_sum.saturating_add(row.rt_sum);
    sum.min = [sum.min, row.min].into_iter().flatten().min();
    sum.max = sum.max.max(row.max);
}

/// Returns a time in nanoseconds, at most `u64::MAX`.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
