//! The encoding of the counts of a row: a mask with a bit for each number that is not the expected
//! one, and these numbers.

use super::super::codec::{Decoder, FormatError, put};
use super::super::counts::FleetCounts;
use super::numbers::{
    CONCURRENCY, FIELDS, MAX_RT, MIN_RT, Numbers, PASS, RT_COUNT, RT_NANOS, RT_SECS, SUCCESS,
};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The numbers for which something else than 0 may be expected, in ascending order.
const DERIVED: [usize; 5] = [SUCCESS, RT_COUNT, MIN_RT, MAX_RT, CONCURRENCY];

/// Encodes counts without their histogram.
pub(super) fn encode(bytes: &mut Vec<u8>, counts: &FleetCounts) {
    let all = Numbers::of(counts);
    let unexpected = |field: &usize| all.0[*field] != expected(*field, &all);
    let mask = (0..FIELDS).filter(unexpected).fold(0_u32, |mask, field| mask | 1 << field);
    put(bytes, &mask);
    for field in (0..FIELDS).filter(unexpected) {
        put(bytes, &all.0[field]);
    }
}

/// Decodes counts without their histogram. In place: a second has thousands of rows.
pub(super) fn decode(from: &mut Decoder<'_>, all: &mut Numbers) -> Result<(), FormatError> {
    let mask: u32 = from.get()?;
    if mask >> FIELDS != 0 {
        return Err(FormatError::Damaged);
    }
    *all = Numbers::default();
    let mut left = mask;
    while left != 0 {
        all.0[left.trailing_zeros() as usize] = from.get()?;
        left &= left - 1;
    }
    // In ascending order: what is expected follows from the numbers before.
    for field in DERIVED {
        if mask & 1 << field == 0 {
            all.0[field] = expected(field, all);
        }
    }
    // The whole seconds are apart, so that sums of both are exact.
    if all.0[RT_NANOS] < NANOS_PER_SEC { Ok(()) } else { Err(FormatError::Damaged) }
}

/// Returns the number that a field most often has, given the fields before it. Only other numbers
/// take bytes.
fn expected(field: usize, before: &Numbers) -> u64 {
    let Numbers(before) = before;
    match field {
        SUCCESS => before[PASS],
        RT_COUNT => before[SUCCESS],
        // The only response time is the shortest, the longest and the sum.
        MIN_RT | MAX_RT if before[RT_COUNT] == 1 => {
            let nanos = before[RT_SECS].saturating_mul(NANOS_PER_SEC);
            nanos.saturating_add(before[RT_NANOS]).saturating_add(1)
        }
        CONCURRENCY => before[PASS].min(1),
        _ => 0,
    }
}
