//! The counts of a node in one second or in one window.

use std::time::Duration;

use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::{EventCounts, LatencyHistogram, MetricEvent};
use serde::de::SeqAccess;
use serde::ser::SerializeTuple;

use super::events::{read_first_events, read_later_events, write_first_events, write_later_events};
use super::positional::{Positional, next, serde_as_array};

/// The counts of one node, or of all nodes together, in one second or in one window. Serialized as
/// an array in the order below. Times are in nanoseconds.
///
/// | elements | |
/// |---|---|
/// | 0 to 4 | the requests that were let through, succeeded, failed, were cancelled, and were refused |
/// | 5, 6 | [`in_flight`](Self::in_flight), [`max_in_flight`](Self::max_in_flight) |
/// | 7, 8 | the number and the sum of the response times |
/// | 9 to 14 | `min`, `p50`, `p90`, `p99`, `p999`, `max` |
/// | from 15 on | the requests that were let through on a reserved permit; further events, if a later version counts them |
///
/// ```
/// use leaparray::MetricEvent::{Block, Pass, Rt, Success};
/// use leaparray_web::format::Counts;
///
/// let json = "[3,2,0,0,1,null,2,2,9000000,4000000,null,null,null,null,5000000,0]";
/// let counts: Counts = serde_json::from_str(json)?;
/// assert_eq!([Pass, Success, Block, Rt].map(|event| counts.events[event]), [3, 2, 1, 2]);
/// assert_eq!((counts.in_flight, counts.p99, counts.max), (None, None, Some(5_000_000)));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The count of each event, and the sum of the response times.
    pub events: EventCounts,
    /// The requests in flight at the end of the second; `None` if it is not known, because the
    /// second was before the first viewer.
    pub in_flight: Option<u64>,
    /// The highest number of requests in flight that an entering request has found; 0 if no request
    /// has entered. For all nodes together, it is the highest of a single node.
    pub max_in_flight: u64,
    /// The shortest response time; `None` if there is none.
    pub min: Option<u64>,
    /// The median of the response times; `None` if there is none, or no histogram of all of them,
    /// as for the other quantiles.
    pub p50: Option<u64>,
    /// The quantile 0.9.
    pub p90: Option<u64>,
    /// The quantile 0.99.
    pub p99: Option<u64>,
    /// The quantile 0.999.
    pub p999: Option<u64>,
    /// The longest response time; `None` if there is none.
    pub max: Option<u64>,
}

impl Counts {
    /// Sets the quantiles to those of `histogram`.
    pub(crate) fn set_quantiles(&mut self, histogram: &LatencyHistogram) {
        let quantiles = histogram.quantiles([0.5, 0.9, 0.99, 0.999]);
        [self.p50, self.p90, self.p99, self.p999] = quantiles.map(|it| it.map(nanos));
    }
}

impl From<&SecondMetrics> for Counts {
    /// Returns the counts of a second. The requests in flight are not known.
    fn from(metrics: &SecondMetrics) -> Self {
        let mut counts = Self {
            events: metrics.counts,
            max_in_flight: metrics.concurrency,
            min: metrics.min_rt.map(nanos),
            max: metrics.max_rt.map(nanos),
            ..Self::default()
        };
        if let Some(histogram) = &metrics.histogram {
            counts.set_quantiles(histogram);
        }
        counts
    }
}

impl Positional for Counts {
    const LEN: usize = 10 + MetricEvent::OF_PERMITS.len();

    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
        let Self { events, in_flight, max_in_flight, min, p50, p90, p99, p999, max } = self;
        write_first_events(events, to)?;
        to.serialize_element(in_flight)?;
        to.serialize_element(max_in_flight)?;
        to.serialize_element(&events[MetricEvent::Rt])?;
        to.serialize_element(&nanos(events.rt_sum()))?;
        for time in [min, p50, p90, p99, p999, max] {
            to.serialize_element(time)?;
        }
        write_later_events(events, to)
    }

    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error> {
        let mut events = read_first_events(from, read)?;
        let in_flight = next(from, read, "in_flight")?;
        let max_in_flight = next(from, read, "max_in_flight")?;
        events[MetricEvent::Rt] = next(from, read, "rt_count")?;
        events.set_rt_sum(Duration::from_nanos(next(from, read, "rt_sum")?));
        let mut counts = Self {
            events,
            in_flight,
            max_in_flight,
            min: next(from, read, "min")?,
            p50: next(from, read, "p50")?,
            p90: next(from, read, "p90")?,
            p99: next(from, read, "p99")?,
            p999: next(from, read, "p999")?,
            max: next(from, read, "max")?,
        };
        read_later_events(&mut counts.events, from)?;
        Ok(counts)
    }
}

serde_as_array!(Counts);

/// The counts of one node in one second. Serialized as an array: the id, and then the [`Counts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The id of the node: see [`Listed`](super::Listed).
    pub id: u64,
    /// The counts.
    pub counts: Counts,
}

impl Positional for Row {
    const LEN: usize = 1 + Counts::LEN;

    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
        to.serialize_element(&self.id)?;
        self.counts.write(to)
    }

    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error> {
        let id = next(from, read, "id")?;
        Ok(Self { id, counts: Counts::read(from, read)? })
    }
}

serde_as_array!(Row);

/// The refused requests of one node by reason. Serialized as an array: the id, and then a count for
/// each of [`reasons`](super::reasons).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedRow {
    /// The id of the node: see [`Listed`](super::Listed).
    pub id: u64,
    /// The counts.
    pub counts: Refusals,
}

impl Positional for RefusedRow {
    const LEN: usize = 1 + Reason::ALL.len();

    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
        to.serialize_element(&self.id)?;
        self.counts.iter().try_for_each(|(_, count)| to.serialize_element(&count))
    }

    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error> {
        let (id, mut counts) = (next(from, read, "id")?, Refusals::default());
        for reason in Reason::ALL {
            // An earlier version does not have them all.
            counts[*reason] = from.next_element()?.unwrap_or_default();
        }
        Ok(Self { id, counts })
    }
}

serde_as_array!(RefusedRow);

/// Returns a time in nanoseconds, at most `u64::MAX`.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
