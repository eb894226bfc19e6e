//! Which rows of a second are sent, and which of them with a histogram.

use std::cmp::Reverse;

use leaparray::metric::SecondMetrics;

use super::super::codec::{put, to_bytes};
use super::super::counts::FleetCounts;
use super::{LeftOut, Row, gaps, histogram, row};

/// Encodes the rows of a second. Up to a quarter of `max_bytes` is for the histogram of all
/// response times, which is made coarser if it needs more. If the rows take more than is left,
/// three quarters of that are for the counts of the busiest resources, an eighth is for the names
/// of the resources that are left out, and the rest is for the histograms of the busiest ones. Rows
/// with a name from `names` on have no name, and are left out. Up to `Budget::OVERHEAD` bytes come
/// on top.
///
/// Returns also the number of the resources that were left out.
pub(super) fn fit(second: u64, rows: Vec<Row>, names: u32, max_bytes: usize) -> (Vec<u8>, u64) {
    let mut sum = FleetCounts::new(second);
    let (mut encoded, mut left_out) = (Vec::new(), Vec::new());
    for row in rows {
        sum.add(&row.counts);
        if row.name < names {
            encoded.push(EncodedRow::new(row));
        } else {
            left_out.push(row);
        }
    }
    encoded.sort_by_key(|it| it.row.name);
    let histogram = histogram_of(&mut sum.metrics, max_bytes / 4);
    let mut room = Room { max_bytes: max_bytes.saturating_sub(histogram.len()), used: 0 };
    let has_room = len(&encoded) <= room.max_bytes;
    if !has_room {
        encoded.sort_by_key(|it| Reverse(it.row.counts.requests()));
        left_out.extend(room.split(&mut encoded));
    }
    let left_out = room.left_out(second, names, left_out);
    if !has_room {
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
    put(&mut bytes, &left_out.count);
    if left_out.count > 0 {
        put(&mut bytes, &gaps(left_out.names));
        row::encode(&mut bytes, &left_out.sum);
    }
    bytes.extend(histogram);
    (bytes, left_out.count)
}

/// Encodes a histogram, a coarser one if it takes more than `max_bytes`.
fn histogram_of(metrics: &mut SecondMetrics, max_bytes: usize) -> Vec<u8> {
    loop {
        let mut bytes = Vec::new();
        histogram::encode(&mut bytes, metrics);
        let coarser = metrics.histogram.as_ref().and_then(|it| it.downscaled(it.scale() - 1).ok());
        if bytes.len() <= max_bytes || coarser.is_none() {
            return bytes;
        }
        metrics.histogram = coarser;
    }
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

/// The bytes that the rows of a second may take, and how many of them are used.
struct Room {
    max_bytes: usize,
    used: usize,
}

impl Room {
    /// Removes and returns the rows for whose counts there is no room. None of them is busier than
    /// one that stays.
    fn split(&mut self, rows: &mut Vec<EncodedRow>) -> Vec<Row> {
        let fits = |it: &&EncodedRow| {
            // Without the histogram, its tag stays. The name takes less, because it is encoded as a
            // distance.
            let size = size(it.row.name) + it.counts.len() + 1;
            let fits = self.used + size <= self.max_bytes / 4 * 3;
            self.used += if fits { size } else { 0 };
            fits
        };
        let first = rows.iter().take_while(fits).count();
        rows.split_off(first).into_iter().map(|it| it.row).collect()
    }

    /// Adds up the rows that are left out.
    fn left_out(&mut self, second: u64, names: u32, rows: Vec<Row>) -> LeftOut {
        let mut left_out = LeftOut { sum: FleetCounts::new(second), ..LeftOut::default() };
        for mut row in rows {
            row.counts.metrics.histogram = None;
            left_out.count += 1;
            left_out.sum.add(&row.counts);
            if row.name < names {
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

    /// Drops the histograms for which there is no room. None of the others is of a less busy
    /// resource.
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
