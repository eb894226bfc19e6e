//! The counts of a row as plain numbers, as they are encoded and added up.

use std::sync::LazyLock;
use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::{MetricEvent, Timestamp};

use super::super::counts::FleetCounts;
use super::nanos;

/// The first numbers: the events from which others are expected.
const FIRST: [MetricEvent; 3] = [MetricEvent::Pass, MetricEvent::Success, MetricEvent::Rt];

// Their positions, and those of the numbers that follow.
pub(super) const PASS: usize = 0;
pub(super) const SUCCESS: usize = 1;
pub(super) const RT_COUNT: usize = 2;
pub(super) const RT_NANOS: usize = 3;
pub(super) const RT_SECS: usize = 4;
pub(super) const MIN_RT: usize = 5;
pub(super) const MAX_RT: usize = 6;
pub(super) const CONCURRENCY: usize = 7;
pub(super) const IN_FLIGHT: usize = 8;

/// The number of the usual numbers, those above: most rows have no others.
pub(super) const USUAL: usize = IN_FLIGHT + 1;

/// The number of the numbers: those above, the other events, and the refusals by reason.
pub(super) const FIELDS: usize = 6 + MetricEvent::ALL.len() + Reason::ALL.len();
const _: () = assert!(FIELDS < u32::BITS as usize, "a mask has a bit for each");

/// The other events, in their order.
static OTHERS: LazyLock<Vec<MetricEvent>> = LazyLock::new(|| {
    MetricEvent::ALL.iter().copied().filter(|event| !FIRST.contains(event)).collect()
});

/// The numbers of some counts, without their histogram.
pub(super) type Fields = [u64; FIELDS];

/// The sum of the numbers of rows.
///
/// A view adds up a million rows in a second, and keeps a hundred thousand sums. So it adds the
/// numbers as they are encoded, and keeps those of the fields that are not 0: [`FleetCounts`] take
/// several hundred bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    usual: [u64; USUAL],
    /// A bit for each of the other fields that is not 0.
    mask: u32,
    /// The numbers of these fields, in ascending order of the fields.
    others: Box<[u64]>,
}

/// The numbers of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowNumbers<'a> {
    pub(super) usual: &'a [u64; USUAL],
    /// As in [`Numbers`].
    pub(super) mask: u32,
    pub(super) others: &'a [u64],
}

/// The number of some response times, and in nanoseconds their sum and those of the extremes that
/// are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) sum: Duration,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
}

impl From<&SecondMetrics> for Times {
    fn from(metrics: &SecondMetrics) -> Self {
        let SecondMetrics { counts, min_rt, max_rt, .. } = metrics;
        let (count, sum) = (counts[MetricEvent::Rt], counts.rt_sum());
        Self { count, sum, min: min_rt.map(nanos), max: max_rt.map(nanos) }
    }
}

/// Returns the numbers of some counts.
pub(super) fn fields(counts: &FleetCounts) -> Fields {
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
    let mut fields = [0; FIELDS];
    fields.iter_mut().zip(all).for_each(|(field, it)| *field = it);
    fields
}

impl RowNumbers<'_> {
    /// Returns the response times, as far as a histogram may have them in common.
    pub(super) fn times(&self) -> Times {
        let number = |field: usize| self.usual[field];
        let sum = Duration::from_secs(number(RT_SECS))
            .saturating_add(Duration::from_nanos(number(RT_NANOS)));
        let extreme = |field| number(field).checked_sub(1);
        Times { count: number(RT_COUNT), sum, min: extreme(MIN_RT), max: extreme(MAX_RT) }
    }

    /// Returns whether there are response times.
    pub(crate) const fn has_rt(&self) -> bool {
        self.usual[RT_COUNT] > 0
    }

    /// Returns the counts with these numbers.
    pub(super) fn to_counts(self, second: Timestamp) -> FleetCounts {
        let mut fields = [0; FIELDS];
        fields[..USUAL].copy_from_slice(self.usual);
        for (field, it) in fields_in(self.mask).zip(self.others) {
            fields[field] = *it;
        }
        let mut counts =
            FleetCounts { metrics: SecondMetrics::new(second), ..FleetCounts::default() };
        let FleetCounts { metrics, in_flight, refusals } = &mut counts;
        for (event, it) in FIRST.into_iter().zip(fields) {
            metrics.counts[event] = it;
        }
        let times = self.times();
        metrics.counts.set_rt_sum(times.sum);
        (metrics.min_rt, metrics.max_rt) =
            (times.min.map(Duration::from_nanos), times.max.map(Duration::from_nanos));
        (metrics.concurrency, *in_flight) = (fields[CONCURRENCY], fields[IN_FLIGHT]);
        let mut others = fields[USUAL..].iter();
        for (event, it) in OTHERS.iter().zip(&mut others) {
            metrics.counts[*event] = *it;
        }
        for (reason, it) in Reason::ALL.iter().zip(others) {
            refusals[*reason] = *it;
        }
        counts
    }
}

/// Returns the fields of the bits of a mask, in ascending order.
fn fields_in(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let field = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (field < u32::BITS).then_some(field as usize)
    })
}

impl Numbers {
    pub(super) fn as_row(&self) -> RowNumbers<'_> {
        RowNumbers { usual: &self.usual, mask: self.mask, others: &self.others }
    }

    /// Returns the counts with these numbers.
    pub(crate) fn to_counts(&self, second: Timestamp) -> FleetCounts {
        self.as_row().to_counts(second)
    }

    /// Adds the numbers of another resource or process, as [`FleetCounts::add`] does.
    pub(crate) fn add(&mut self, other: RowNumbers<'_>) {
        let (sums, usual) = (&mut self.usual, other.usual);
        // 0 is no time, and becomes the longest one.
        let least =
            |one: u64, other: u64| one.wrapping_sub(1).min(other.wrapping_sub(1)).wrapping_add(1);
        let min = least(sums[MIN_RT], usual[MIN_RT]);
        let [max, concurrency] = [MAX_RT, CONCURRENCY].map(|it| sums[it].max(usual[it]));
        // Two numbers below 2⁶³ do not overflow. That is one condition for all.
        let bits = sums.iter().zip(usual).fold(0, |bits, (sum, it)| bits | sum | it);
        let all = sums.iter_mut().zip(usual);
        if bits >> 63 == 0 {
            all.for_each(|(sum, it)| *sum = sum.wrapping_add(*it));
        } else {
            all.for_each(|(sum, it)| *sum = sum.saturating_add(*it));
        }
        (sums[MIN_RT], sums[MAX_RT], sums[CONCURRENCY]) = (min, max, concurrency);
        for (field, it) in fields_in(other.mask).zip(other.others) {
            self.add_to(field, *it);
        }
    }

    /// Adds to one of the other fields.
    fn add_to(&mut self, field: usize, number: u64) {
        let bit = 1 << field;
        let at = (self.mask & (bit - 1)).count_ones() as usize;
        if self.mask & bit == 0 {
            let mut others = std::mem::take(&mut self.others).into_vec();
            others.insert(at, 0);
            (self.mask, self.others) = (self.mask | bit, others.into());
        }
        self.others[at] = self.others[at].saturating_add(number);
    }

    /// Returns whether there are response times.
    pub(crate) const fn has_rt(&self) -> bool {
        self.usual[RT_COUNT] > 0
    }

    /// Returns the number of requests in flight.
    pub(crate) const fn in_flight(&self) -> u64 {
        self.usual[IN_FLIGHT]
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// A number that is small, large or the largest.
    fn number(rng: &mut Rng) -> u64 {
        match rng.u8(..8) {
            0 => u64::MAX - rng.u64(..2),
            it if it < 4 => 0,
            _ => rng.u64(..) >> rng.u32(..64),
        }
    }

    fn counts(rng: &mut Rng, second: Timestamp) -> FleetCounts {
        let mut counts =
            FleetCounts { metrics: SecondMetrics::new(second), ..FleetCounts::default() };
        let FleetCounts { metrics, in_flight, refusals } = &mut counts;
        for event in MetricEvent::ALL {
            metrics.counts[*event] = number(rng);
        }
        // Sums of a few thousand of them fit a `Duration`.
        let secs = number(rng) >> 12;
        metrics.counts.set_rt_sum(Duration::new(secs, rng.u32(..1_000_000_000)));
        // The longest extreme that is sent is 1 ns below the longest of 64 bits.
        let mut extreme = || {
            let nanos = number(rng).min(u64::MAX - 1);
            (!nanos.is_multiple_of(4)).then(|| Duration::from_nanos(nanos - 1))
        };
        (metrics.min_rt, metrics.max_rt) = (extreme(), extreme());
        (metrics.concurrency, *in_flight) = (number(rng), number(rng));
        for reason in Reason::ALL {
            refusals[*reason] = number(rng);
        }
        counts
    }

    /// The sum of the numbers of rows is the sum of the rows, also where counts saturate and rows
    /// have no extremes or no response times.
    #[test]
    fn numbers_add_up_as_counts_do() {
        let (rng, second) = (&mut Rng::with_seed(1), Timestamp::from_secs(60));
        for _ in 0..1_000 {
            let mut sum = Numbers::default();
            let mut expected =
                FleetCounts { metrics: SecondMetrics::new(second), ..FleetCounts::default() };
            for _ in 0..rng.u32(1..6) {
                let counts = counts(rng, second);
                let fields = fields(&counts);
                let (usual, others) = fields.split_first_chunk().unwrap();
                let known = (USUAL..FIELDS).filter(|it| fields[*it] != 0);
                let mask = known.fold(0, |mask, field| mask | 1 << field);
                let others: Vec<_> = others.iter().copied().filter(|it| *it != 0).collect();
                let row = RowNumbers { usual, mask, others: &others };
                assert_eq!(row.to_counts(second), counts);
                assert_eq!(row.has_rt(), counts.metrics.counts[MetricEvent::Rt] > 0);
                assert_eq!(row.times(), (&counts.metrics).into());
                sum.add(row);
                expected.add(&counts);
                assert_eq!(sum.to_counts(second), expected);
                assert_eq!(sum.in_flight(), expected.in_flight);
            }
        }
    }
}
