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
const IN_FLIGHT: usize = 8;

/// The number of the numbers: those above, the other events, and the refusals by reason.
pub(super) const FIELDS: usize = 6 + MetricEvent::ALL.len() + Reason::ALL.len();
const _: () = assert!(FIELDS < u32::BITS as usize, "a mask has a bit for each");

/// The other events, in their order.
static OTHERS: LazyLock<Vec<MetricEvent>> = LazyLock::new(|| {
    MetricEvent::ALL.iter().copied().filter(|event| !FIRST.contains(event)).collect()
});

/// The counts of a row, or of several, without their histogram.
///
/// A view adds up a million rows in a second. It adds those of the numbers of a row that are not 0,
/// which are few: a row of [`FleetCounts`] takes several hundred bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers(pub(super) [u64; FIELDS]);

/// The numbers of a row that are not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sparse<'a> {
    /// A bit for each field that is not 0.
    pub(super) mask: u32,
    /// The numbers of these fields, in ascending order of the fields.
    pub(super) numbers: &'a [u64],
}

/// The number and the sum of some response times, and those of the extremes that are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) sum: Duration,
    pub(super) min: Option<Duration>,
    pub(super) max: Option<Duration>,
}

impl Times {
    fn of(number: impl Fn(usize) -> u64) -> Self {
        let [secs, nanos] = [RT_SECS, RT_NANOS].map(&number);
        let extreme = |field: usize| number(field).checked_sub(1).map(Duration::from_nanos);
        Self {
            count: number(RT_COUNT),
            sum: Duration::from_secs(secs).saturating_add(Duration::from_nanos(nanos)),
            min: extreme(MIN_RT),
            max: extreme(MAX_RT),
        }
    }
}

impl From<&SecondMetrics> for Times {
    fn from(metrics: &SecondMetrics) -> Self {
        let SecondMetrics { counts, min_rt, max_rt, .. } = metrics;
        let (count, sum) = (counts[MetricEvent::Rt], counts.rt_sum());
        Self { count, sum, min: *min_rt, max: *max_rt }
    }
}

impl Sparse<'_> {
    /// As [`Numbers::times`].
    pub(super) fn times(&self) -> Times {
        Times::of(|field| {
            let before = self.mask & ((1 << field) - 1);
            let number = self.numbers.get(before.count_ones() as usize);
            number.filter(|_| self.mask & 1 << field != 0).copied().unwrap_or(0)
        })
    }

    /// Returns whether there are response times.
    pub(crate) const fn has_rt(&self) -> bool {
        self.mask & 1 << RT_COUNT != 0
    }
}

impl Numbers {
    /// Returns the numbers of some counts.
    pub(super) fn of(counts: &FleetCounts) -> Self {
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
        let mut numbers = Self::default();
        numbers.0.iter_mut().zip(all).for_each(|(number, it)| *number = it);
        numbers
    }

    /// Returns the counts with these numbers.
    pub(crate) fn to_counts(&self, second: Timestamp) -> FleetCounts {
        let mut counts =
            FleetCounts { metrics: SecondMetrics::new(second), ..FleetCounts::default() };
        let FleetCounts { metrics, in_flight, refusals } = &mut counts;
        for (event, it) in FIRST.into_iter().zip(self.0) {
            metrics.counts[event] = it;
        }
        let times = self.times();
        metrics.counts.set_rt_sum(times.sum);
        (metrics.min_rt, metrics.max_rt) = (times.min, times.max);
        (metrics.concurrency, *in_flight) = (self.0[CONCURRENCY], self.0[IN_FLIGHT]);
        let mut others = self.0[IN_FLIGHT + 1..].iter();
        for (event, it) in OTHERS.iter().zip(&mut others) {
            metrics.counts[*event] = *it;
        }
        for (reason, it) in Reason::ALL.iter().zip(others) {
            refusals[*reason] = *it;
        }
        counts
    }

    /// Appends the numbers that are not 0 to a list. Returns the bits of their fields.
    pub(super) fn push_to(&self, list: &mut Vec<u64>) -> u32 {
        let mut mask = 0;
        for (field, it) in self.0.iter().enumerate().filter(|(_, it)| **it != 0) {
            mask |= 1 << field;
            list.push(*it);
        }
        mask
    }

    /// Returns the response times, as far as a histogram may have them in common.
    pub(super) fn times(&self) -> Times {
        Times::of(|field| self.0[field])
    }

    /// Adds the numbers of another resource or process, as [`FleetCounts::add`] does.
    pub(crate) fn add(&mut self, other: Sparse<'_>) {
        let mut left = other.mask;
        for it in other.numbers {
            let field = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            let Some(sum) = self.0.get_mut(field) else { return };
            *sum = match field {
                MIN_RT if *sum > 0 => (*sum).min(*it),
                MIN_RT | MAX_RT | CONCURRENCY => (*sum).max(*it),
                _ => sum.saturating_add(*it),
            };
        }
    }

    /// Returns whether there are response times.
    pub(crate) const fn has_rt(&self) -> bool {
        self.0[RT_COUNT] > 0
    }

    /// Returns the number of requests in flight.
    pub(crate) const fn in_flight(&self) -> u64 {
        self.0[IN_FLIGHT]
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
                let (numbers, mut list) = (Numbers::of(&counts), Vec::new());
                assert_eq!(numbers.to_counts(second), counts);
                let mask = numbers.push_to(&mut list);
                let row = Sparse { mask, numbers: &list };
                assert_eq!(row.has_rt(), counts.metrics.counts[MetricEvent::Rt] > 0);
                let times = |it: Times| (it.count, it.sum, it.min, it.max);
                assert_eq!(times(row.times()), times((&counts.metrics).into()));
                sum.add(row);
                expected.add(&counts);
                assert_eq!(sum.to_counts(second), expected);
                assert_eq!(sum.in_flight(), expected.in_flight);
            }
        }
    }
}
