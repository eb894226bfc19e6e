//! The encoding of the counts of a row: a mask with a bit for each number that is not the expected
//! one, and these numbers.

use super::super::codec::{Decoder, FormatError, put};
use super::super::counts::FleetCounts;
use super::numbers::{
    CONCURRENCY, FIELDS, IN_FLIGHT, MAX_RT, MIN_RT, PASS, RT_COUNT, RT_NANOS, RT_SECS, SUCCESS,
    USUAL, fields,
};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Encodes counts without their histogram.
pub(super) fn encode(bytes: &mut Vec<u8>, counts: &FleetCounts) {
    let all = fields(counts);
    let unexpected = |field: &usize| all[*field] != expected(*field, &all);
    let mask = (0..FIELDS).filter(unexpected).fold(0_u32, |mask, field| mask | 1 << field);
    put(bytes, &mask);
    for field in (0..FIELDS).filter(unexpected) {
        put(bytes, &all[field]);
    }
}

/// Decodes counts without their histogram: the usual numbers in place, and others to the end of a
/// list. Returns the bits of the others.
#[inline]
pub(super) fn decode(
    from: &mut Decoder<'_>,
    usual: &mut [u64; USUAL],
    others: &mut Vec<u64>,
) -> Result<u32, FormatError> {
    let mask = from.u32()?;
    if mask >> FIELDS != 0 {
        return Err(FormatError::Damaged);
    }
    // In ascending order: what is expected follows from the numbers before. Each by itself: the
    // compiler does not unroll a loop that may end early.
    usual[PASS] = number(PASS, mask, usual, from)?;
    usual[SUCCESS] = number(SUCCESS, mask, usual, from)?;
    usual[RT_COUNT] = number(RT_COUNT, mask, usual, from)?;
    usual[RT_NANOS] = number(RT_NANOS, mask, usual, from)?;
    usual[RT_SECS] = number(RT_SECS, mask, usual, from)?;
    usual[MIN_RT] = number(MIN_RT, mask, usual, from)?;
    usual[MAX_RT] = number(MAX_RT, mask, usual, from)?;
    usual[CONCURRENCY] = number(CONCURRENCY, mask, usual, from)?;
    usual[IN_FLIGHT] = number(IN_FLIGHT, mask, usual, from)?;
    let of_others = mask & !((1 << USUAL) - 1);
    for _ in 0..of_others.count_ones() {
        others.push(from.u64()?);
    }
    // The whole seconds are apart, so that sums of both are exact.
    if usual[RT_NANOS] < NANOS_PER_SEC { Ok(of_others) } else { Err(FormatError::Damaged) }
}

/// Reads the number of a field, if it is not the expected one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the field is constant")]
fn number(
    field: usize,
    mask: u32,
    before: &[u64],
    from: &mut Decoder<'_>,
) -> Result<u64, FormatError> {
    if mask & 1 << field == 0 { Ok(expected(field, before)) } else { from.u64() }
}

/// Returns the number that a field most often has, given the fields before it. Only other numbers
/// take bytes.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the field is constant")]
fn expected(field: usize, before: &[u64]) -> u64 {
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
