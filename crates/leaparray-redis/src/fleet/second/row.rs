//! The encoding of the counts of a row: a mask with a bit for each number that is not the expected
//! one, and these numbers.

use std::time::Duration;

use leaparray::{Refusals, SecondMetrics, Timestamp};

use super::super::codec::{Decoder, FormatError, put};
use super::super::counts::FleetCounts;
use super::nanos;

/// The numbers of a row, in this order.
const FIELDS: usize = 19;
type Numbers = [u64; FIELDS];

// Those on which others depend.
const PASS: usize = 0;
const SUCCESS: usize = 1;
const RT_COUNT: usize = 2;
const RT_NANOS: usize = 3;
const RT_SECS: usize = 4;
const MIN_RT: usize = 5;
const MAX_RT: usize = 6;
const CONCURRENCY: usize = 7;

/// Encodes counts without their histogram.
pub(super) fn encode(bytes: &mut Vec<u8>, counts: &FleetCounts) {
    let all = numbers(counts);
    let unexpected = |field: &usize| all[*field] != expected(*field, &all);
    let mask = (0..FIELDS).filter(unexpected).fold(0_u32, |mask, field| mask | 1 << field);
    put(bytes, &mask);
    for field in (0..FIELDS).filter(unexpected) {
        put(bytes, &all[field]);
    }
}

/// Decodes counts without their histogram.
pub(super) fn decode(
    from: &mut Decoder<'_>,
    second: Timestamp,
) -> Result<FleetCounts, FormatError> {
    let mask: u32 = from.get()?;
    if mask >> FIELDS != 0 {
        return Err(FormatError::Damaged);
    }
    let mut all = [0; FIELDS];
    for field in 0..FIELDS {
        all[field] = if mask & 1 << field == 0 { expected(field, &all) } else { from.get()? };
    }
    Ok(counts(&all, second))
}

fn numbers(counts: &FleetCounts) -> Numbers {
    let FleetCounts { metrics, in_flight, refusals } = counts;
    // An extreme of 0 ns differs from one that is not known.
    let extreme = |it: Option<Duration>| it.map_or(0, |it| nanos(it).saturating_add(1));
    [
        metrics.pass,
        metrics.success,
        metrics.rt_count,
        u64::from(metrics.rt_sum.subsec_nanos()),
        metrics.rt_sum.as_secs(),
        extreme(metrics.min_rt),
        extreme(metrics.max_rt),
        metrics.concurrency,
        *in_flight,
        metrics.block,
        metrics.exception,
        metrics.cancelled,
        metrics.reserved_pass,
        refusals.limit_reached,
        refusals.wait_too_long,
        refusals.more_than_limit,
        refusals.failing,
        refusals.custom,
        refusals.queue_full,
    ]
}

fn counts(numbers: &Numbers, second: Timestamp) -> FleetCounts {
    let &[
        pass,
        success,
        rt_count,
        rt_nanos,
        rt_secs,
        min_rt,
        max_rt,
        concurrency,
        in_flight,
        block,
        exception,
        cancelled,
        reserved_pass,
        limit_reached,
        wait_too_long,
        more_than_limit,
        failing,
        custom,
        queue_full,
    ] = numbers;
    let mut metrics = SecondMetrics::new(second);
    (metrics.pass, metrics.block) = (pass, block);
    (metrics.success, metrics.exception) = (success, exception);
    (metrics.reserved_pass, metrics.cancelled) = (reserved_pass, cancelled);
    metrics.rt_count = rt_count;
    metrics.rt_sum = Duration::from_secs(rt_secs).saturating_add(Duration::from_nanos(rt_nanos));
    let extreme = |it: u64| it.checked_sub(1).map(Duration::from_nanos);
    (metrics.min_rt, metrics.max_rt) = (extreme(min_rt), extreme(max_rt));
    metrics.concurrency = concurrency;
    let mut refusals = Refusals::default();
    (refusals.limit_reached, refusals.wait_too_long) = (limit_reached, wait_too_long);
    (refusals.more_than_limit, refusals.failing) = (more_than_limit, failing);
    (refusals.custom, refusals.queue_full) = (custom, queue_full);
    FleetCounts { metrics, in_flight, refusals }
}

/// Returns the number that a field most often has, given the fields before it. Only other numbers
/// take bytes.
fn expected(field: usize, before: &Numbers) -> u64 {
    match field {
        SUCCESS => before[PASS],
        RT_COUNT => before[SUCCESS],
        // The only response time is the shortest, the longest and the sum.
        MIN_RT | MAX_RT if before[RT_COUNT] == 1 => {
            let nanos = before[RT_SECS].saturating_mul(1_000_000_000);
            nanos.saturating_add(before[RT_NANOS]).saturating_add(1)
        }
        CONCURRENCY => before[PASS].min(1),
        _ => 0,
    }
}
