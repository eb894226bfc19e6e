//! The window over a fleet for Prometheus.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::{EventCounts, MetricEvent};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::reader::FleetReader;
use super::state::FleetState;
use crate::fleet::{FleetView, FleetWindow, ProcessId, ProcessState, Record, ResourceRow};

/// A collector that exposes the window over a fleet to Prometheus: a `Collector` of the crate
/// `prometheus-client`.
///
/// One process of the fleet exposes it, or one that only reads: a sum of several of them would
/// count each request several times. There is no sample before the first second is final.
///
/// Gauges of the newest final second, with the labels `resource`, `context` and `kind` that
/// `leaparray-prometheus` has too:
///
/// | name | further labels | value |
/// |---|---|---|
/// | `leaparray_fleet_rate` | `event` | permits in the second |
/// | `leaparray_fleet_refusals` | `reason` | permits that were refused in the second, by the reasons of `leaparray_refusals_total`. |
/// | `leaparray_fleet_in_flight` | | requests in flight |
/// | `leaparray_fleet_response_time_seconds` | `quantile` | a quantile of the response times, if there are any and all processes have histograms |
/// | `leaparray_fleet_response_time_mean_seconds` | | their mean, if there are any |
///
/// Gauges of the fleet:
///
/// | name | labels | value |
/// |---|---|---|
/// | `leaparray_fleet_second_processes` | `state`: `present`, `expected` | the processes in the newest final second, and the processes that belong in it |
/// | `leaparray_fleet_processes` | `state`: `live`, `lost`, `left` | the processes that have a record |
/// | `leaparray_fleet_newest_final_timestamp_seconds` | | the begin of the newest final second |
/// | `leaparray_fleet_total` | `event` | permits of all resources in that second |
/// | `leaparray_fleet_left_out` | `event` | those of them that are in no row of a resource, for lack of [room](crate::fleet::Budget) |
/// | `leaparray_fleet_left_out_processes` | `resource`, `context`, `kind` | how many processes had no row for the resource, if any. Its other numbers are those of the others |
/// | `leaparray_fleet_left_out_rows` | | the sum of these, and how often the name was not known either |
/// | `leaparray_fleet_left_out_unnamed` | | how often the name was not known either: any resource may lack permits |
/// | `leaparray_fleet_connected` | | 1 if the server answers. If not, the newest final second stays the same |
///
/// Counters of the fleet:
///
/// | name | labels | value |
/// |---|---|---|
/// | `leaparray_fleet_lifetime_total` | `event` | all that the processes have recorded, as of their last deliveries |
/// | `leaparray_fleet_missed_total` | `event` | what was recorded in seconds that were not delivered in time |
/// | `leaparray_fleet_late_total` | `event` | what was recorded after its second was read |
/// | `leaparray_fleet_delivered_seconds_total` | | the delivered seconds of all processes |
/// | `leaparray_fleet_missed_seconds_total` | | the missed ones |
/// | `leaparray_fleet_unreadable_total` | | records and seconds that could not be read |
///
/// The counters never decrease: each adds what the record of a process has grown by, and keeps what
/// it has added when the record expires. It remembers that for the last 16,384 such processes, in
/// case that they come back. A new collector begins with the records that it finds. For several
/// fleets, give each collector a label by `Registry::sub_registry_with_label`.
///
/// ```
/// use leaparray::{ManualClock, Registry, RegistryConfig, Timestamp};
/// use leaparray_redis::engine::MemoryFleet;
/// use leaparray_redis::{FleetCollector, FleetReader, FleetReporter, FleetState};
/// use prometheus_client::encoding::text;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let clock = ManualClock::new(Timestamp::from_secs(3_600));
/// let engine = Arc::new(MemoryFleet::with_clock(clock.clone()));
/// let service = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
/// let reporter = FleetReporter::builder("shop", "orders-1").start(&service, Arc::clone(&engine))?;
/// reporter.watch().wait_for(|it| *it == FleetState::Connected).await?;
/// service.resource("GET /orders")?.enter().success();
/// clock.advance(Duration::from_secs(1));
/// reporter.close().await;
///
/// let reader = Arc::new(FleetReader::builder("shop").start(engine)?);
/// let mut metrics = prometheus_client::registry::Registry::default();
/// metrics.register_collector(Box::new(FleetCollector::new(Arc::clone(&reader))));
/// // As it does once a second.
/// for _ in 0..2 {
///     clock.advance(Duration::from_secs(2));
///     reader.poll().await?;
/// }
///
/// let mut body = String::new();
/// text::encode(&mut body, &metrics)?;
/// assert!(body.contains(r#"leaparray_fleet_lifetime_total{event="pass"} 1"#), "{body}");
/// assert!(body.contains(r#"leaparray_fleet_processes{state="left"} 1"#), "{body}");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FleetCollector {
    reader: Arc<FleetReader>,
    counters: Mutex<Counters>,
}

impl FleetCollector {
    /// Creates a collector of what `reader` has read.
    #[must_use]
    pub fn new(reader: Arc<FleetReader>) -> Self {
        Self { reader, counters: Mutex::default() }
    }

    /// Reads everything that is exposed. Returns `None` before the first second is final.
    fn read(&self) -> Option<Reading> {
        let read = |view: &FleetView| {
            let second = view.last_second()?;
            let states = view.processes().map(|it| it.2).collect();
            let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
            counters.add(view.processes().map(|(id, record, _)| (id, record)));
            Some(Reading { second, states, sums: counters.sums, unreadable: view.unreadable() })
        };
        self.reader.with(read)
    }
}

impl Collector for FleetCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(reading) = self.read() else { return Ok(()) };
        let is_connected = self.reader.state() == FleetState::Connected;
        let mut families = Families(encoder);
        families.resources(&reading.second.resources)?;
        families.fleet(&reading, is_connected)?;
        families.counters(&reading)
    }
}

/// The exposed values.
#[derive(Debug)]
struct Reading {
    second: FleetWindow,
    states: Vec<ProcessState>,
    sums: Sums,
    unreadable: u64,
}

/// The counters of one process, or the sums of all that a collector has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    lifetime: EventCounts,
    missed: EventCounts,
    late: EventCounts,
    delivered_seconds: u64,
    missed_seconds: u64,
}

/// Sums that do not decrease when the record of a process expires.
#[derive(Debug, Default)]
struct Counters {
    sums: Sums,
    /// The part of each process that is in the sums.
    added: HashMap<ProcessId, Added>,
    /// The number of readings.
    readings: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Added {
    sums: Sums,
    /// The last reading that had a record of the process.
    reading: u64,
}

/// The most processes without a record that are remembered. A process whose record has expired
/// while it did not reach the server comes back with all that it has recorded.
const MAX_GONE: usize = 16_384;

impl Sums {
    const fn of(record: &Record) -> Self {
        Self {
            lifetime: record.lifetime,
            missed: record.missed.1,
            late: record.late,
            delivered_seconds: record.delivered.0,
            missed_seconds: record.missed.0,
        }
    }

    /// Adds what `new` has more than `old`.
    fn add_growth(&mut self, old: &Self, new: &Self) {
        self.lifetime += &new.lifetime.saturating_sub(&old.lifetime);
        self.missed += &new.missed.saturating_sub(&old.missed);
        self.late += &new.late.saturating_sub(&old.late);
        self.delivered_seconds += new.delivered_seconds.saturating_sub(old.delivered_seconds);
        self.missed_seconds += new.missed_seconds.saturating_sub(old.missed_seconds);
    }
}

impl Counters {
    /// Adds what the records have grown by.
    fn add<'a>(&mut self, records: impl Iterator<Item = (ProcessId, &'a Record)>) {
        self.readings += 1;
        let mut present = 0;
        for (id, record) in records {
            let added = self.added.entry(id).or_default();
            let (old, new) = (added.sums, Sums::of(record));
            self.sums.add_growth(&old, &new);
            // A count that is lower for a while is not added again.
            added.sums.add_growth(&old, &new);
            added.reading = self.readings;
            present += 1;
        }
        self.forget(present);
    }

    /// Forgets the processes that have been without a record for longest, if there are too many.
    fn forget(&mut self, present: usize) {
        let gone = self.added.len() - present;
        if gone > MAX_GONE {
            let mut readings: Vec<u64> = self.added.values().map(|it| it.reading).collect();
            let oldest = gone - MAX_GONE;
            let (_, last, _) = readings.select_nth_unstable(oldest - 1);
            let last = *last;
            self.added.retain(|_, it| it.reading > last);
        }
    }
}

type Label<'a> = (&'static str, &'a str);

/// Encodes families of metrics.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// Exposes the resources of a second.
    fn resources(&mut self, rows: &[ResourceRow]) -> fmt::Result {
        // A resource that all processes have left out has no counts.
        let rows: Vec<_> = rows.iter().filter(|row| row.processes > 0).collect();
        let rates = rows.iter().flat_map(|row| {
            let events = events(&row.counts.metrics.counts);
            events.map(|(event, count)| (labels(row, Some(("event", event))), float(count)))
        });
        self.gauges("leaparray_fleet_rate", "Permits in the newest final second, by event", rates)?;
        let refusals = rows.iter().flat_map(|row| {
            // Those that are 0 are samples too.
            row.counts
                .refusals
                .iter()
                .map(|(reason, count)| (labels(row, Some(("reason", reason.name()))), float(count)))
        });
        self.gauges(
            "leaparray_fleet_refusals",
            "Refused permits in the newest final second, by reason",
            refusals,
        )?;
        let in_flight = rows.iter().map(|row| (labels(row, None), float(row.counts.in_flight)));
        self.gauges("leaparray_fleet_in_flight", "Requests in flight", in_flight)?;
        let quantiles = rows.iter().flat_map(|row| {
            let all = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999)];
            all.into_iter().filter_map(move |(name, q)| {
                let time = row.counts.quantile(q)?;
                Some((labels(row, Some(("quantile", name))), time.as_secs_f64()))
            })
        });
        self.gauges(
            "leaparray_fleet_response_time_seconds",
            "Quantiles of the response times in the newest final second",
            quantiles,
        )?;
        let means = rows.iter().filter_map(|row| {
            let counts = &row.counts.metrics.counts;
            let (sum, count) = (counts.rt_sum(), counts[MetricEvent::Rt]);
            (count > 0).then(|| (labels(row, None), sum.as_secs_f64() / float(count)))
        });
        self.gauges(
            "leaparray_fleet_response_time_mean_seconds",
            "Mean response time in the newest final second",
            means,
        )
    }

    /// Exposes the gauges of the fleet.
    fn fleet(&mut self, reading: &Reading, is_connected: bool) -> fmt::Result {
        let Reading { second, states, .. } = reading;
        let presence = second.presence;
        for (name, help, counts) in [
            (
                "leaparray_fleet_total",
                "Permits of all resources in the newest final second, by event",
                &second.total,
            ),
            (
                "leaparray_fleet_left_out",
                "Permits in the newest final second that are in no row of a resource, by event",
                &second.left_out,
            ),
        ] {
            let events = events(&counts.metrics.counts);
            let samples = events.map(|(event, count)| (vec![("event", event)], float(count)));
            self.gauges(name, help, samples)?;
        }
        let left_out = second.resources.iter().filter(|row| row.left_out > 0);
        self.gauges(
            "leaparray_fleet_left_out_processes",
            "Processes that had no room for the row of the resource in the newest final second",
            left_out.map(|row| (labels(row, None), float(row.left_out))),
        )?;
        self.gauges(
            "leaparray_fleet_second_processes",
            "Processes present in the newest final second, and processes expected in it",
            [("present", presence.present), ("expected", presence.expected)]
                .map(|(state, count)| (vec![("state", state)], float(count))),
        )?;
        let count = |state| states.iter().filter(|it| **it == state).count() as u64;
        self.gauges(
            "leaparray_fleet_processes",
            "Processes that have a record, by state",
            [
                ("live", ProcessState::Live),
                ("lost", ProcessState::Lost),
                ("left", ProcessState::Left),
            ]
            .map(|(name, state)| (vec![("state", name)], float(count(state)))),
        )?;
        for (name, help, value) in [
            (
                "leaparray_fleet_newest_final_timestamp_seconds",
                "Begin of the newest final second",
                second.seconds.start,
            ),
            (
                "leaparray_fleet_left_out_rows",
                "How often a resource of a process had no row in the newest final second",
                second.left_out_rows,
            ),
            (
                "leaparray_fleet_left_out_unnamed",
                "How often of these the name of the resource is not known",
                second.left_out_unnamed,
            ),
            ("leaparray_fleet_connected", "1 if the server answers", u64::from(is_connected)),
        ] {
            self.gauges(name, help, [(vec![], float(value))])?;
        }
        Ok(())
    }

    /// Exposes the counters of the fleet.
    fn counters(&mut self, reading: &Reading) -> fmt::Result {
        let sums = &reading.sums;
        for (name, help, totals) in [
            (
                "leaparray_fleet_lifetime",
                "Permits that the processes have recorded",
                &sums.lifetime,
            ),
            (
                "leaparray_fleet_missed",
                "Permits in seconds that were not delivered in time",
                &sums.missed,
            ),
            (
                "leaparray_fleet_late",
                "Permits that were recorded after their second was read",
                &sums.late,
            ),
        ] {
            let samples = events(totals).map(|(event, count)| (vec![("event", event)], count));
            self.counter(name, help, samples)?;
        }
        for (name, help, count) in [
            ("leaparray_fleet_delivered_seconds", "Delivered seconds", sums.delivered_seconds),
            ("leaparray_fleet_missed_seconds", "Missed seconds", sums.missed_seconds),
            (
                "leaparray_fleet_unreadable",
                "Records and seconds that could not be read",
                reading.unreadable,
            ),
        ] {
            self.counter(name, help, [(vec![], count)])?;
        }
        Ok(())
    }

    /// Encodes a family of gauges. Without a sample, there is no family: some parsers reject empty
    /// ones.
    fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<Label<'a>>, f64)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        samples.try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
    }

    fn counter<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<Label<'a>>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        samples.into_iter().try_for_each(|(labels, count)| {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)
        })
    }
}

/// Returns the labels of a resource. One without a context has an empty label: some parsers require
/// all samples of a family to have the same label names.
fn labels<'a>(row: &'a ResourceRow, further: Option<Label<'a>>) -> Vec<Label<'a>> {
    let kind = if row.key.is_outbound { "outbound" } else { "inbound" };
    let context = row.key.context.as_deref().unwrap_or_default();
    let own = [("resource", &*row.key.name), ("context", context), ("kind", kind)];
    own.into_iter().chain(further).collect()
}

fn events(counts: &EventCounts) -> impl Iterator<Item = (&'static str, u64)> + use<'_> {
    MetricEvent::OF_PERMITS.iter().map(|event| (event.name(), counts[*event]))
}

#[expect(clippy::cast_precision_loss, reason = "a relative error of some 10⁻¹⁶")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_have_been_gone_for_longest_are_forgotten() {
        let mut counters = Counters::default();
        let record = Record::default();
        let all = MAX_GONE as u64 + 100;
        for id in 0..all {
            counters.add([(ProcessId(id), &record)].into_iter());
        }
        // All but the last one are gone.
        let kept = all - 1 - MAX_GONE as u64..all;
        assert_eq!(counters.added.len() as u64, kept.end - kept.start);
        assert!(kept.into_iter().all(|id| counters.added.contains_key(&ProcessId(id))));
    }
}
