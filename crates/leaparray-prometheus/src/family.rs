//! The families of metrics, and the samples of each.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use leaparray::flow::watch::WatchedMetric;
use leaparray::node::WindowSnapshot;
use leaparray::registry::WatchedLimiter;
use leaparray::{MetricEvent, TrafficType};

use crate::labels::Labels;
use crate::reading::{Reading, ResponseTime, Row};

/// A family of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// The permits or requests of a resource by event.
    Event(MetricEvent),
    Refusals,
    RefusedBy,
    Responses,
    ResponseTime,
    InFlight,
    /// Like [`Event`](Self::Event), of all resources that the registry has had.
    RegistryEvent(MetricEvent),
    Resources,
    ResourcesRefused,
    /// A number of the watched limiters.
    Watched(WatchedMetric),
    WindowRate,
    WindowResponseTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Counter(u64),
    Gauge(f64),
    Histogram(&'a ResponseTime),
}

/// A function that takes the samples of a family.
pub(crate) type Take<'a> = dyn FnMut(&Labels<'_>, Value<'_>) -> fmt::Result + 'a;

impl Family {
    /// Returns the families that have samples: `prometheus` and some parsers reject empty families.
    pub(crate) fn with_samples(reading: &Reading) -> impl Iterator<Item = Self> + use<'_> {
        let has_samples =
            |family: &Self| family.samples(reading, &mut |_, _| Err(fmt::Error)).is_err();
        Self::all().filter(has_samples)
    }

    /// Returns all families, in the order of the exposition.
    fn all() -> impl Iterator<Item = Self> {
        let of_resources =
            [Self::Refusals, Self::RefusedBy, Self::Responses, Self::ResponseTime, Self::InFlight];
        let of_lists = [Self::Resources, Self::ResourcesRefused];
        let watched = WatchedMetric::ALL.iter().copied().map(Self::Watched);
        let windows = [Self::WindowRate, Self::WindowResponseTime];
        let of_permits = || MetricEvent::OF_PERMITS.iter().copied();
        let events = of_permits().map(Self::Event);
        let of_registry = of_permits().map(Self::RegistryEvent).chain(of_lists);
        events.chain(of_resources).chain(of_registry).chain(watched).chain(windows)
    }

    /// Returns the name, without the `_total` of a counter.
    pub(crate) fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Event(event) => return format!("leaparray_{event}").into(),
            Self::RegistryEvent(event) => return format!("leaparray_registry_{event}").into(),
            Self::Watched(metric) => return format!("leaparray_{}", metric.name()).into(),
            Self::Refusals => "leaparray_refusals",
            Self::RefusedBy => "leaparray_refused_by",
            Self::Responses => "leaparray_responses",
            Self::ResponseTime => "leaparray_response_time_seconds",
            Self::InFlight => "leaparray_in_flight",
            Self::Resources => "leaparray_resources",
            Self::ResourcesRefused => "leaparray_resources_refused",
            Self::WindowRate => "leaparray_window_rate",
            Self::WindowResponseTime => "leaparray_window_response_time_seconds",
        };
        name.into()
    }

    pub(crate) const fn help(self) -> &'static str {
        match self {
            Self::Event(event) | Self::RegistryEvent(event) => event.description(),
            Self::Refusals => "Refused permits by reason",
            Self::RefusedBy => "Refused permits by the name of the limiter",
            Self::Responses => "Responses by the class of their status",
            Self::ResponseTime => "Response times",
            Self::InFlight => "Requests in flight",
            Self::Resources => "Listed resources",
            Self::ResourcesRefused => {
                "Refused look-ups of resources and contexts: no room, or an invalid name"
            }
            Self::Watched(metric) => metric.description(),
            Self::WindowRate => "Permits per second in the window, by event",
            Self::WindowResponseTime => "Quantiles of the response times in the window",
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Event(_)
            | Self::RegistryEvent(_)
            | Self::Refusals
            | Self::RefusedBy
            | Self::Responses
            | Self::ResourcesRefused => Kind::Counter,
            Self::Watched(metric) if metric.is_counter() => Kind::Counter,
            Self::ResponseTime => Kind::Histogram,
            _ => Kind::Gauge,
        }
    }

    /// Calls `take` with each sample, until it returns an error.
    pub(crate) fn samples(self, reading: &Reading, take: &mut Take<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => each(reading, |row| Value::Counter(row.totals.sum(event)), take),
            Self::ResponseTime => each(reading, |row| Value::Histogram(&row.response_time), take),
            Self::InFlight => each(reading, |row| Value::Gauge(float(row.in_flight)), take),
            Self::Refusals => refusals(reading, take),
            Self::RefusedBy => refused_by(reading, take),
            Self::Responses => responses(reading, take),
            Self::RegistryEvent(event) => reading.lifetime.iter().try_for_each(|(kind, totals)| {
                let labels = Labels::NONE.with("kind", name_of(*kind));
                take(&labels, Value::Counter(totals.sum(event)))
            }),
            Self::Resources => take(&Labels::NONE, Value::Gauge(float(reading.resources as u64))),
            Self::ResourcesRefused => take(&Labels::NONE, Value::Counter(reading.refused)),
            Self::Watched(metric) => watched(metric, reading, take),
            Self::WindowRate => windows(reading, |labels, window| {
                MetricEvent::OF_PERMITS.iter().try_for_each(|event| {
                    let rate = Value::Gauge(window.qps(*event));
                    take(&labels.with("event", event.name()), rate)
                })
            }),
            Self::WindowResponseTime => windows(reading, |labels, window| {
                let Some(quantiles) = window.quantiles else { return Ok(()) };
                let times = [
                    ("0.5", quantiles.p50),
                    ("0.9", quantiles.p90),
                    ("0.99", quantiles.p99),
                    ("0.999", quantiles.p999),
                ];
                times.into_iter().try_for_each(|(quantile, time): (_, Duration)| {
                    take(&labels.with("quantile", quantile), Value::Gauge(time.as_secs_f64()))
                })
            }),
        }
    }
}

/// Calls `take` with a sample of each row.
fn each<'a>(
    reading: &'a Reading,
    value: impl Fn(&'a Row) -> Value<'a>,
    take: &mut Take<'_>,
) -> fmt::Result {
    reading.rows.iter().try_for_each(|row| take(&labels_of(row), value(row)))
}

/// Calls `take` with the refusals of each row by reason. Those that are 0 are samples too: a rate
/// begins with the second sample of a series.
fn refusals(reading: &Reading, take: &mut Take<'_>) -> fmt::Result {
    for row in &reading.rows {
        for (reason, count) in row.refusals.iter() {
            take(&labels_of(row).with("reason", reason.name()), Value::Counter(count))?;
        }
    }
    Ok(())
}

/// Calls `take` with the refusals of each row by the name of the limiter.
fn refused_by(reading: &Reading, take: &mut Take<'_>) -> fmt::Result {
    for row in &reading.rows {
        for (limiter, count) in row.refused_by.iter() {
            take(&labels_of(row).with("limiter", limiter), Value::Counter(count))?;
        }
    }
    Ok(())
}

/// Calls `take` with the responses by class of each row that has some, also with those that are 0.
fn responses(reading: &Reading, take: &mut Take<'_>) -> fmt::Result {
    for row in reading.rows.iter().filter(|row| row.responses.sum() > 0) {
        for (class, count) in row.responses.iter() {
            take(&labels_of(row).with("code", class.name()), Value::Counter(count))?;
        }
    }
    Ok(())
}

/// Calls `take` with a number of each watched limiter that has it.
fn watched(metric: WatchedMetric, reading: &Reading, take: &mut Take<'_>) -> fmt::Result {
    let mut taken = Ok(());
    for WatchedLimiter { name, state, .. } in &reading.watched {
        let labels = Labels::NONE.with("limiter", name);
        state.for_each_metric(&mut |found, label, value| {
            if found == metric && taken.is_ok() {
                let labels = label.map_or(labels, |(name, value)| labels.with(name, value));
                taken = take(&labels, watched_value(metric, value));
            }
        });
    }
    taken
}

/// Returns a number as a sample. A count is a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
const fn watched_value<'a>(metric: WatchedMetric, value: f64) -> Value<'a> {
    if metric.is_counter() { Value::Counter(value as u64) } else { Value::Gauge(value) }
}

/// Calls `take` with the short and the long window of each row, and their labels.
fn windows(
    reading: &Reading,
    mut take: impl FnMut(Labels<'_>, &WindowSnapshot) -> fmt::Result,
) -> fmt::Result {
    for (row, snapshot) in reading.windows() {
        // The windows may have the same length, and then have the same samples.
        let long = Some(&snapshot.long).filter(|long| long.interval != snapshot.short.interval);
        for window in [&snapshot.short].into_iter().chain(long) {
            let length = format!("{:?}", window.interval);
            take(labels_of(row).with("window", &length), window)?;
        }
    }
    Ok(())
}

fn labels_of(row: &Row) -> Labels<'_> {
    Labels::NONE
        .with("resource", &row.key.name)
        .with("context", row.key.context.as_deref().unwrap_or_default())
        .with("kind", name_of(row.key.traffic_type))
}

const fn name_of(traffic: TrafficType) -> &'static str {
    match traffic {
        TrafficType::Outbound => "outbound",
        _ => "inbound",
    }
}

/// Returns a count as the nearest floating-point number. It is exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
const fn float(count: u64) -> f64 {
    count as f64
}
