//! The encoding of a case: six bytes for the geometry and the origin of time, then four bytes for
//! each turn.
//!
//! | byte | of the head | of a turn |
//! |---|---|---|
//! | 0 | the buckets of the window | the kind of [`Step`] |
//! | 1 | the index of a divisor of these: the buckets that the view covers | the size of the step |
//! | 2 | the index of a divisor of those: the buckets in one bucket of the view | the record, and its handle |
//! | 3 | the length of a bucket, a [`size`] | the count, a [`size`] |
//! | 4 | the end of time from which the origin is counted | |
//! | 5 | the origin, a [`size`] | |
//!
//! Any bytes are a case: missing bytes are zero. All turns have the same length, so a mutation or a
//! shrinking step that removes, inserts or swaps a turn leaves the others as they are.

use leaparray::MetricEvent;

use super::{Case, Geometry, Operation, Record, Step, Through, Turn};

/// The maximum number of turns. The comparison after each turn adds up all turns before it, so
/// further turns would cost more than they would find.
const MAX_TURNS: usize = 64;

impl Case {
    pub(crate) const HEAD_LEN: usize = 6;
    pub(crate) const TURN_LEN: usize = 4;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let (head, turns) = bytes.split_at(bytes.len().min(Self::HEAD_LEN));
        let [samples, view, view_bucket, bucket, from_end, origin] = padded(head);
        let geometry = Geometry::new(samples, view, view_bucket, size(bucket));
        let origin = if from_end % 2 == 0 { size(origin) } else { u64::MAX - size(origin) };
        let turns = turns.chunks(Self::TURN_LEN).take(MAX_TURNS).map(Turn::from_bytes).collect();
        Self { geometry, origin, turns }
    }
}

impl Turn {
    fn from_bytes(bytes: &[u8]) -> Self {
        let [step, step_size, operation, count] = padded(bytes);
        Self { step: self::step(step, step_size), operation: self::operation(operation, count) }
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

/// A byte below 192 is the size itself. The other bytes are 2⁶⁴ − 1, shifted right by the byte
/// less 192.
fn size(byte: u8) -> u64 {
    if byte < 192 { byte.into() } else { u64::MAX >> (byte - 192) }
}

fn step(kind: u8, size: u8) -> Step {
    let wide = u64::from(size);
    match kind % 32 {
        0..=6 => Step::Stand,
        7..=9 => Step::Nanos(wide),
        10..=13 => Step::PartOfBucket(wide),
        14..=18 => Step::Buckets(1 + wide % 16),
        19..=20 => Step::Laps(1 + wide % 4),
        21..=22 => Step::BackNanos(wide),
        23..=24 => Step::BackBuckets(1 + wide % 16),
        25 => Step::BackLaps(1 + wide % 4),
        26..=29 => Step::ToTheEdge,
        30 => Step::ToTheBeginning(self::size(size)),
        _ => Step::ToTheEnd(self::size(size)),
    }
}

fn operation(kind: u8, count: u8) -> Operation {
    let count = size(count);
    let record = match kind % 16 {
        10..=11 => return Operation::Release,
        12.. => return Operation::Nothing,
        6 => Record::Rt(count),
        7 => Record::Success(count),
        8 => Record::Exception(count),
        9 => Record::Concurrency(count),
        event => Record::Count(MetricEvent::ALL[usize::from(event)], count),
    };
    let through = match kind >> 4 & 7 {
        0..=2 => Through::Window,
        3..=4 => Through::View,
        5 => Through::Clone,
        6 => Through::Hold,
        _ => Through::Pinned,
    };
    Operation::Record { record, through, at: kind >= 128 }
}
