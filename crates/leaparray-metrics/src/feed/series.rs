//! The counts of one series that the recorder has.

use std::mem::replace;
use std::sync::LazyLock;

use leaparray::node::ResponseClass;
use leaparray::registry::{Series, SeriesKey};
use leaparray::{Clock, LatencyHistogram, MetricEvent, TrafficType};
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit};

pub(super) const METADATA: Metadata<'_> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The events with the names of their counters.
static COUNTERS: LazyLock<Vec<(MetricEvent, KeyName)>> = LazyLock::new(|| {
    let counter = |event: &MetricEvent| (*event, format!("leaparray_{event}").into());
    MetricEvent::OF_PERMITS.iter().map(counter).collect()
});
const REFUSED_BY: &str = "leaparray_refused_by";
const RESPONSES: &str = "leaparray_responses";
const IN_FLIGHT: &str = "leaparray_in_flight";
const RESPONSE_TIME: &str = "leaparray_response_time_seconds";

pub(super) fn describe(recorder: &dyn Recorder) {
    for (event, name) in &*COUNTERS {
        let help = event.description().into();
        recorder.describe_counter(name.clone(), Some(Unit::Count), help);
    }
    let help = "Refused permits by the name of the limiter".into();
    recorder.describe_counter(REFUSED_BY.into(), Some(Unit::Count), help);
    let help = "Responses by the class of their status".into();
    recorder.describe_counter(RESPONSES.into(), Some(Unit::Count), help);
    recorder.describe_gauge(IN_FLIGHT.into(), Some(Unit::Count), "Requests in flight".into());
    recorder.describe_histogram(RESPONSE_TIME.into(), Some(Unit::Seconds), "Response times".into());
}

/// The state of a series at the recorder. A count that is new is known only until the next reading:
/// if the recorder panics, a count may be lost, and none is fed twice.
pub(super) struct Fed {
    labels: Vec<Label>,
    /// Whether the recorder has the counters. The first publication creates all of them.
    are_created: [bool; MetricEvent::OF_PERMITS.len()],
    /// Whether the recorder has the counters of responses: all of them, from the first response on.
    has_responses: bool,
    in_flight: Option<u64>,
    /// Whether the recorder has the histogram. It is created when it is empty.
    has_histogram: bool,
}

impl Fed {
    pub(super) fn new(key: &SeriesKey) -> Self {
        let kind = match key.traffic_type {
            TrafficType::Outbound => "outbound",
            _ => "inbound",
        };
        let labels = vec![
            Label::new("resource", key.name.to_string()),
            Label::new("context", key.context.as_deref().unwrap_or_default().to_owned()),
            Label::from_static_parts("kind", kind),
        ];
        Self {
            labels,
            are_created: Default::default(),
            has_responses: false,
            in_flight: None,
            has_histogram: false,
        }
    }

    /// Feeds what the series has counted since the last reading.
    pub(super) fn feed<C: Clock + Clone>(
        &mut self,
        series: &Series<C>,
        response_times: bool,
        recorder: &dyn Recorder,
    ) {
        for (number, (event, name)) in COUNTERS.iter().enumerate() {
            let is_created = replace(&mut self.are_created[number], true);
            let increment = series.newly(*event);
            if increment > 0 || !is_created {
                recorder.register_counter(&self.key(name.clone()), &METADATA).increment(increment);
            }
        }
        self.feed_refused_by(series, recorder);
        self.feed_responses(series, recorder);
        self.feed_in_flight(series.in_flight(), recorder);
        if response_times {
            for histogram in series.counts().histograms() {
                let before = series.before().histograms();
                let before = before.iter().find(|it| it.scale() == histogram.scale());
                self.feed_response_times(before, histogram, recorder);
            }
        }
    }

    fn feed_refused_by<C>(&self, series: &Series<C>, recorder: &dyn Recorder) {
        let before = &series.before().refused_by;
        for (limiter, count) in series.counts().refused_by.iter() {
            let increment = count.saturating_sub(before.get(limiter));
            if increment > 0 {
                let mut labels = self.labels.clone();
                labels.push(Label::new("limiter", limiter.to_owned()));
                let key = Key::from_parts(REFUSED_BY, labels);
                recorder.register_counter(&key, &METADATA).increment(increment);
            }
        }
    }

    fn feed_responses<C>(&mut self, series: &Series<C>, recorder: &dyn Recorder) {
        let (now, before) = (&series.counts().responses, &series.before().responses);
        if now.sum() == 0 {
            return;
        }
        let are_created = replace(&mut self.has_responses, true);
        for class in ResponseClass::ALL {
            let increment = now[class].saturating_sub(before[class]);
            if increment > 0 || !are_created {
                let mut labels = self.labels.clone();
                labels.push(Label::from_static_parts("code", class.name()));
                let key = Key::from_parts(RESPONSES, labels);
                recorder.register_counter(&key, &METADATA).increment(increment);
            }
        }
    }

    pub(super) fn feed_in_flight(&mut self, in_flight: u64, recorder: &dyn Recorder) {
        // A gauge that is not 0 is set again, so that an exporter with an idle time-out keeps it.
        if self.in_flight != Some(in_flight) || in_flight > 0 {
            recorder.register_gauge(&self.key(IN_FLIGHT), &METADATA).set(float(in_flight));
            // After the recorder: if it panics, the next publication sets the gauge again.
            self.in_flight = Some(in_flight);
        }
    }

    /// Feeds the response times that a histogram has more than the one before.
    fn feed_response_times(
        &mut self,
        before: Option<&LatencyHistogram>,
        histogram: &LatencyHistogram,
        recorder: &dyn Recorder,
    ) {
        let is_created = replace(&mut self.has_histogram, true);
        if is_created && before.is_some_and(|before| before.count() == histogram.count()) {
            return;
        }
        let target = recorder.register_histogram(&self.key(RESPONSE_TIME), &METADATA);
        let mut before = before.into_iter().flat_map(LatencyHistogram::buckets).peekable();
        for bin in histogram.buckets() {
            while before.next_if(|it| it.index < bin.index).is_some() {}
            let fed = before.next_if(|it| it.index == bin.index).map_or(0, |it| it.count);
            let count = usize::try_from(bin.count.saturating_sub(fed)).unwrap_or(usize::MAX);
            if count > 0 {
                // The geometric mean of the bounds.
                target.record_many(bin.lower.sqrt() * bin.upper.sqrt(), count);
            }
        }
    }

    fn key(&self, name: impl Into<KeyName>) -> Key {
        Key::from_parts(name, self.labels.clone())
    }
}

/// Returns a count as the nearest floating-point number. It is exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
const fn float(count: u64) -> f64 {
    count as f64
}
