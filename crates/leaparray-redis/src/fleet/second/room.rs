//! Which rows of a second are sent, and which of them with a histogram.

use std::cmp::Reverse;

use leaparray::{LatencyHistogram, SecondMetrics, Timestamp};
use postcard::experimental::serialized_size;

use super::super::counts::FleetCounts;
use super::histogram::{Buckets, WireHistogram};
use super::wire::WireRow;
use super::{LeftOut, Row, WireLeftOut, WireSecond, gaps};

/// Encodes the rows of a second. If they take more than `max_bytes`, three quarters of it are for the counts of the busiest
/// resources, an eighth is for the names of the resources that are left out, and the rest is for the histograms of the
/// busiest ones. Rows with a name from `names` on have no name, and are left out.
///
/// Returns also the number of the resources that were left out.
pub(super) fn fit(
    second: u64,
    mut rows: Vec<Row>,
    names: u32,
    max_bytes: usize,
) -> (WireSecond, u64) {
    rows.sort_by_key(|it| it.name);
    let wires = rows.iter().map(|it| WireRow::new(it.name, &it.counts)).collect();
    let whole = in_order(wires);
    let is_named = rows.last().is_none_or(|it| it.name < names);
    if is_named && whole.iter().map(size).sum::<usize>() <= max_bytes {
        return (WireSecond { rows: whole, left_out: None, rest: None }, 0);
    }
    let mut encoded: Vec<_> = rows.into_iter().zip(whole).collect();
    encoded.sort_by_key(|(row, _)| Reverse((row.name < names, row.counts.requests())));
    for (row, wire) in &mut encoded {
        wire.name = row.name;
    }
    let mut room = Room { second, names, max_bytes, used: 0, rest: Rest::default() };
    let (mut rows, left_out) = room.split(encoded);
    let left_out = room.left_out(left_out);
    room.drop_histograms(&mut rows);
    let count = left_out.count;
    let left_out = (count > 0).then(|| {
        let sum = WireRow::new(0, &left_out.sum);
        WireLeftOut { count, names: gaps(left_out.names), sum }
    });
    let rest = room.rest.histogram();
    let rest = rest.map(|it| Buckets::new(&it, &SecondMetrics::new(Timestamp::from_secs(second))));
    let rows = rows.into_iter().map(|it| it.1).collect();
    (WireSecond { rows: in_order(rows), left_out, rest }, count)
}

/// Replaces the names by their distances, which take fewer bytes.
fn in_order(mut rows: Vec<WireRow>) -> Vec<WireRow> {
    rows.sort_by_key(|it| it.name);
    let mut before = 0;
    for row in &mut rows {
        (row.name, before) = (row.name - before, row.name);
    }
    rows
}

fn size(value: &impl serde::Serialize) -> usize {
    serialized_size(value).unwrap_or(usize::MAX)
}

/// The bytes that a second may take, and what they are used for.
struct Room {
    second: u64,
    names: u32,
    max_bytes: usize,
    used: usize,
    rest: Rest,
}

impl Room {
    /// Returns the rows whose counts there is room for, and the others, of which none is busier.
    fn split(&mut self, mut rows: Vec<(Row, WireRow)>) -> (Vec<(Row, WireRow)>, Vec<Row>) {
        let mut fits = |(row, wire): &(Row, WireRow)| {
            let size = size(wire) - size(&wire.histogram) + size(&WireHistogram::None);
            let fits = row.name < self.names && self.used + size <= self.max_bytes / 4 * 3;
            self.used += if fits { size } else { 0 };
            fits
        };
        let first = rows.iter().take_while(|it| fits(it)).count();
        let left_out = rows.split_off(first).into_iter().map(|it| it.0).collect();
        (rows, left_out)
    }

    /// Adds up the rows that were left out.
    fn left_out(&mut self, rows: Vec<Row>) -> LeftOut {
        let mut left_out = LeftOut { sum: FleetCounts::new(self.second), ..LeftOut::default() };
        for mut row in rows {
            self.rest.add(&mut row.counts.metrics);
            left_out.count += 1;
            left_out.sum.add(&row.counts);
            if row.name < self.names {
                left_out.names.push(row.name);
            }
        }
        // The busiest ones have their names in it, if there is no room for all.
        let bytes = self.max_bytes / 8;
        let upper_bound = |name: &u32| size(name);
        let mut used = 0;
        left_out.names.retain(|it| {
            used += upper_bound(it);
            used <= bytes
        });
        self.used += used.min(bytes);
        left_out
    }

    /// Drops the histograms for which there is no room. None of the others is of a less busy resource.
    fn drop_histograms(&mut self, rows: &mut [(Row, WireRow)]) {
        let mut has_room = true;
        for (row, wire) in rows {
            let size = size(&wire.histogram);
            has_room &= self.used + size <= self.max_bytes;
            // Without a histogram of its own, the row makes the rest unknown.
            if has_room && row.counts.metrics.histogram.is_some() {
                self.used += size;
            } else {
                self.rest.add(&mut row.counts.metrics);
                wire.histogram = WireHistogram::None;
            }
        }
    }
}

/// The response times of the rows whose histograms are not sent.
#[derive(Default)]
struct Rest {
    /// `None` before the first response time.
    sum: Option<LatencyHistogram>,
    is_unknown: bool,
}

impl Rest {
    /// Takes the histogram of a row.
    fn add(&mut self, metrics: &mut SecondMetrics) {
        match (metrics.histogram.take(), &mut self.sum) {
            (Some(histogram), Some(sum)) => sum.merge(&histogram),
            (Some(histogram), sum @ None) => *sum = Some(histogram),
            (None, _) => self.is_unknown |= metrics.rt_count > 0,
        }
    }

    /// Returns `None` if some of the histograms are not known.
    fn histogram(&mut self) -> Option<LatencyHistogram> {
        self.sum.take().filter(|_| !self.is_unknown)
    }
}
