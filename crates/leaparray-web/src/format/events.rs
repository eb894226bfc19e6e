//! The counts of events in a message, by their positions.

use leaparray::{EventCounts, MetricEvent};
use serde::de::SeqAccess;
use serde::ser::SerializeTuple;

use super::positional::{Positional, next, serde_as_array};

/// The events whose counts come first.
const FIRST: [MetricEvent; 5] = [
    MetricEvent::Pass,
    MetricEvent::Success,
    MetricEvent::Exception,
    MetricEvent::Cancelled,
    MetricEvent::Block,
];

/// Returns the events whose counts come last, in the order of the core. An earlier version has
/// fewer of them.
fn later() -> impl Iterator<Item = MetricEvent> {
    MetricEvent::OF_PERMITS.iter().copied().filter(|event| !FIRST.contains(event))
}

pub(super) fn write_first_events<S: SerializeTuple>(
    counts: &EventCounts,
    to: &mut S,
) -> Result<(), S::Error> {
    FIRST.iter().try_for_each(|event| to.serialize_element(&counts[*event]))
}

pub(super) fn write_later_events<S: SerializeTuple>(
    counts: &EventCounts,
    to: &mut S,
) -> Result<(), S::Error> {
    later().try_for_each(|event| to.serialize_element(&counts[event]))
}

pub(super) fn read_first_events<'de, A: SeqAccess<'de>>(
    from: &mut A,
    read: &mut usize,
) -> Result<EventCounts, A::Error> {
    let mut counts = EventCounts::default();
    for event in FIRST {
        counts[event] = next(from, read, event.name())?;
    }
    Ok(counts)
}

pub(super) fn read_later_events<'de, A: SeqAccess<'de>>(
    counts: &mut EventCounts,
    from: &mut A,
) -> Result<(), A::Error> {
    for event in later() {
        counts[event] = from.next_element()?.unwrap_or_default();
    }
    Ok(())
}

/// The counts of the events of a node or a process. Serialized as an array: the requests that were
/// let through, succeeded, failed, were cancelled, were refused, and were let through on a reserved
/// permit, and further events, if a later version counts them.
///
/// ```
/// use leaparray::EventCounts;
/// use leaparray::MetricEvent::{Cancelled, Pass};
/// use leaparray_web::format::EventTotals;
///
/// let totals = EventTotals::from(&EventCounts::from([(Pass, 3), (Cancelled, 1)]));
/// assert_eq!(serde_json::to_string(&totals)?, "[3,0,0,1,0,0]");
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTotals {
    /// The counts. The number and the sum of the response times are not serialized.
    pub counts: EventCounts,
}

impl From<&EventCounts> for EventTotals {
    fn from(counts: &EventCounts) -> Self {
        Self { counts: *counts }
    }
}

impl Positional for EventTotals {
    const LEN: usize = MetricEvent::OF_PERMITS.len();

    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
        write_first_events(&self.counts, to)?;
        write_later_events(&self.counts, to)
    }

    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error> {
        let mut counts = read_first_events(from, read)?;
        read_later_events(&mut counts, from)?;
        Ok(Self { counts })
    }
}

serde_as_array!(EventTotals);
