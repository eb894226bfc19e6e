//! Which rows of a second are sent, and which of them with a histogram.

use std::cmp::Reverse;

use super::super::codec::{put, to_bytes};
use super::super::counts::FleetCounts;
use super::{LeftOut, Row, gaps, histogram, row};

/// Encodes the rows of a second. If they take more than `max_bytes`, three quarters of it are for the counts of the busiest
/// resources, an eighth is for the names of the resources that are left out, and the rest is for the histograms of the
/// busiest ones. Rows with a name from `names` on have no name, and are left out. The sum of all comes on top.
///
/// Returns also the number of the resources that were left out.
pub(super) fn fit(second: u64, rows: Vec<Row>, names: u32, max_bytes: usize) -> (Vec<u8>, u64) {
    let mut sum = FleetCounts::new(second);
    let mut encoded = Vec::new();
    for row in rows {
        sum.add(&row.counts);
        encoded.push(EncodedRow::new(row));
    }
    encoded.sort_by_key(|it| it.row.name);
    let is_named = encoded.last().is_none_or(|it| it.row.name < names);
    let mut left_out = None;
    if !is_named || len(&encoded) > max_bytes {
        encoded.sort_by_key(|it| Reverse((it.row.name < names, it.row.counts.requests())));
        let mut room = Room { names, max_bytes, used: 0 };
        let rows = room.split(&mut encoded);
        left_out = (!rows.is_empty()).then(|| room.left_out(second, rows));
        room.drop_histograms(&mut encoded);
        encoded.sort_by_key(|it| it.row.name);
    }
    let mut bytes = to_bytes(&encoded.len());
    let mut before = 0;
    for it in &encoded {
        put(&mut bytes, &(it.row.name - before));
        bytes.extend_from_slice(&it.counts);
        bytes.extend_from_slice(&it.histogram);
        before = it.row.name;
    }
    let count = left_out.as_ref().map_or(0, |it| it.count);
    put(&mut bytes, &count);
    if let Some(it) = left_out {
        put(&mut bytes, &gaps(it.names));
        row::encode(&mut bytes, &it.sum);
    }
    histogram::encode(&mut bytes, &sum.metrics);
    (bytes, count)
}

/// Returns the bytes of rows in the order of their names.
fn len(rows: &[EncodedRow]) -> usize {
    let mut before = 0;
    let of_row = |it: &EncodedRow| {
        let name = size(it.row.name - before);
        before = it.row.name;
        name + it.counts.len() + it.histogram.len()
    };
    rows.iter().map(of_row).sum()
}

/// Returns the bytes of a number.
fn size(number: u32) -> usize {
    let mut bytes = Vec::new();
    put(&mut bytes, &number);
    bytes.len()
}

/// A row, and its bytes without the name.
struct EncodedRow {
    row: Row,
    counts: Vec<u8>,
    histogram: Vec<u8>,
}

impl EncodedRow {
    fn new(row: Row) -> Self {
        let (mut counts, mut histogram) = (Vec::new(), Vec::new());
        row::encode(&mut counts, &row.counts);
        histogram::encode(&mut histogram, &row.counts.metrics);
        Self { row, counts, histogram }
    }
}

/// The bytes that a second may take, and how many of them are used.
struct Room {
    names: u32,
    max_bytes: usize,
    used: usize,
}

impl Room {
    /// Removes and returns the rows for whose counts there is no room. None of them is busier than one that stays.
    fn split(&mut self, rows: &mut Vec<EncodedRow>) -> Vec<EncodedRow> {
        let fits = |it: &&EncodedRow| {
            // Without the histogram, its tag stays. The name takes less, because it is encoded as a distance.
            let size = size(it.row.name) + it.counts.len() + 1;
            let fits = it.row.name < self.names && self.used + size <= self.max_bytes / 4 * 3;
            self.used += if fits { size } else { 0 };
            fits
        };
        let first = rows.iter().take_while(fits).count();
        rows.split_off(first)
    }

    /// Adds up the rows that are left out.
    fn left_out(&mut self, second: u64, rows: Vec<EncodedRow>) -> LeftOut {
        let mut left_out = LeftOut { sum: FleetCounts::new(second), ..LeftOut::default() };
        for EncodedRow { mut row, .. } in rows {
            row.counts.metrics.histogram = None;
            left_out.count += 1;
            left_out.sum.add(&row.counts);
            if row.name < self.names {
                left_out.names.push(row.name);
            }
        }
        // The busiest ones have their names in it, if there is no room for all.
        let bytes = self.max_bytes / 8;
        let mut used = 0;
        left_out.names.retain(|it| {
            used += size(*it);
            used <= bytes
        });
        self.used += used.min(bytes);
        left_out
    }

    /// Drops the histograms for which there is no room. None of the others is of a less busy resource.
    fn drop_histograms(&mut self, rows: &mut [EncodedRow]) {
        let mut has_room = true;
        for it in rows {
            let size = it.histogram.len() - 1;
            has_room &= self.used + size <= self.max_bytes;
            if has_room {
                self.used += size;
            } else {
                it.histogram = vec![histogram::NONE];
            }
        }
    }
}
