//! The rows of one second, and their sum.

use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::{LatencyHistogram, MetricEvent};

use crate::format::{Counts, RefusedRow, Row};

/// The rows of one second that are being collected.
pub(super) struct Sums {
    pub(super) t: u64,
    pub(super) rows: Vec<Row>,
    /// The refused requests by reason; `None` if they are not known.
    pub(super) refused: Option<Vec<RefusedRow>>,
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
        let counts = Counts { in_flight, ..Counts::from(metrics) };
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
    pub(super) fn add_refused(&mut self, id: u64, counts: Refusals) {
        self.refused.get_or_insert_default().push(RefusedRow { id, counts });
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
            self.total.set_quantiles(&self.merged);
        }
    }
}

/// Adds a row to a sum. The highest number of requests in flight is the highest of a single node.
fn add(sum: &mut Counts, row: &Counts) {
    sum.events += &row.events;
    sum.in_flight = sum.in_flight.zip(row.in_flight).map(|(sum, row)| sum.saturating_add(row));
    sum.max_in_flight = sum.max_in_flight.max(row.max_in_flight);
    sum.min = [sum.min, row.min].into_iter().flatten().min();
    sum.max = sum.max.max(row.max);
}
