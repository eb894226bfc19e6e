//! The encoding of the counts of a row: a mask with a bit for each number that is not the expected
//! one, and these numbers.

use std::sync::LazyLock;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::{MetricEvent, Timestamp};

use super::super::codec::{Decoder, FormatError, put};
use super::super::counts::FleetCounts;
use super::nanos;

/// The first numbers of a row: the events from which others are expected.
const FIRST: [MetricEvent; 3] = [MetricEvent::Pass, MetricEvent::Success, MetricEvent::Rt];

// Their positions, and those of the numbers that follow.
const PASS: usize = 0;
const SUCCESS: usize = 1;
const RT_COUNT: usize = 2;
const RT_NANOS: usize = 3;
const RT_SECS: usize = 4;
const MIN_RT: usize = 5;
const MAX_RT: usize = 6;
const CONCURRENCY: usize = 7;

/// The numbers for which something else than 0 may be expected, in ascending order.
const DERIVED: [usize; 5] = [SUCCESS, RT_COUNT, MIN_RT, MAX_RT, CONCURRENCY];

/// The numbers of a row: those above, the requests in flight, the other events, and the refusals by
/// reason.
const FIELDS: usize = 6 + MetricEvent::ALL.len() + Reason::ALL.len();
type Numbers = [u64; FIELDS];
const _: () = assert!(FIELDS < u32::BITS as usize, "the mask has a bit for each");

/// The other events, in their order.
static OTHERS: LazyLock<Vec<MetricEvent>> = LazyLock::new(|| {
    MetricEvent::ALL.iter().copied().filter(|event| !FIRST.contains(event)).collect()
});

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
    let mut left = mask;
    while left != 0 {
        all[left.trailing_zeros() as usize] = from.get()?;
        left &= left - 1;
    }
    // In ascending order: what is expected follows from the numbers before.
    for field in DERIVED {
        if mask & 1 << field == 0 {
            all[field] = expected(field, &all);
        }
    }
    Ok(counts(&all, second))
}

fn numbers(counts: &FleetCounts) -> Numbers {
    let FleetCounts { metrics, in_flight, refusals } = counts;
    let rt_sum = metrics.counts.rt_sum();
    // An extreme of 0 ns differs from one that is not known.
    let extreme = |it: Option<Duration>| it.map_or(0, |it| nanos(it).saturating_add(1));
    let times = [
        u64::from(rt_sum.subsec_nanos()),
        rt_sum.as_secs(),
        extreme(metrics.min_rt),
        extreme(metrics.max_rt),
    ];
    let first = FIRST.map(|event| metrics.counts[event]).into_iter().chain(times);
    let first = first.chain([metrics.concurrency, *in_flight]);
    let others = OTHERS.iter().map(|event| metrics.counts[*event]);
    let all = first.chain(others).chain(refusals.iter().map(|(_, count)| count));
    let mut numbers = [0; FIELDS];
    numbers.iter_mut().zip(all).for_each(|(number, it)| *number = it);
    numbers
}

fn counts(numbers: &Numbers, second: Timestamp) -> FleetCounts {
    let mut numbers = numbers.iter().copied();
    let mut next = || numbers.next().unwrap_or_default();
    let mut counts = FleetCounts { metrics: SecondMetrics::new(second), ..FleetCounts::default() };
    let FleetCounts { metrics, in_flight, refusals } = &mut counts;
    for event in FIRST {
        metrics.counts[event] = next();
    }
    let (rt_nanos, rt_secs) = (Duration::from_nanos(next()), Duration::from_secs(next()));
    metrics.counts.set_rt_sum(rt_secs.saturating_add(rt_nanos));
    let extreme = |it: u64| it.checked_sub(1).map(Duration::from_nanos);
    (metrics.min_rt, metrics.max_rt) = (extreme(next()), extreme(next()));
    (metrics.concurrency, *in_flight) = (next(), next());
    for event in &*OTHERS {
        metrics.counts[*event] = next();
    }
    for reason in Reason::ALL {
        refusals[*reason] = next();
    }
    counts
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
