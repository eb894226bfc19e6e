//! The series of one node.

use std::mem::replace;

use leaparray::{Clock, LatencyHistogram, MetricEvent, MetricTotals, Resource, TrafficType};
use metrics::{Key, Label, Level, Metadata, Recorder, Unit};

const METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The events with their counters. `Rt` is a sum of times, and no count.
const COUNTERS: [(MetricEvent, &str, &str); 6] = [
    (MetricEvent::Pass, "leaparray_pass", "Permits of admitted requests"),
    (MetricEvent::Block, "leaparray_block", "Permits of refused requests"),
    (MetricEvent::Success, "leaparray_success", "Permits of requests that succeeded"),
    (MetricEvent::Exception, "leaparray_exception", "Permits of requests that failed"),
    (MetricEvent::Cancelled, "leaparray_cancelled", "Permits of requests that were cancelled"),
    (MetricEvent::ReservedPass, "leaparray_reserved_pass", "Permits that were reserved in advance"),
];
const IN_FLIGHT: &str = "leaparray_in_flight";
const RESPONSE_TIME: &str = "leaparray_response_time_seconds";

pub(super) fn describe(recorder: &dyn Recorder) {
    for (_, name, help) in COUNTERS {
        recorder.describe_counter(name.into(), Some(Unit::Count), help.into());
    }
    recorder.describe_gauge(IN_FLIGHT.into(), Some(Unit::Count), "Requests in flight".into());
    recorder.describe_histogram(RESPONSE_TIME.into(), Some(Unit::Seconds), "Response times".into());
}

/// The values of a node that were fed. Each count is kept before the recorder takes it: if the
/// recorder panics, a count may be lost, and none is fed twice.
pub(super) struct Series {
    labels: Vec<Label>,
    /// The sums of the counters, in their order.
    sums: [u64; COUNTERS.len()],
    /// Whether the recorder has the counters. The first publication creates all of them.
    are_created: [bool; COUNTERS.len()],
    in_flight: Option<u64>,
    /// Whether the recorder has the histogram. It is created when it is empty.
    has_histogram: bool,
    /// The histogram of each geometry that the node has had, empty for one without a histogram.
    /// Each keeps its scale, so that its bins only grow.
    response_times: Vec<LatencyHistogram>,
}

impl Series {
    /// Creates the series of a node of which nothing was fed.
    pub(super) fn new<C>(resource: &Resource<C>) -> Self {
        let kind = match resource.traffic_type() {
            TrafficType::Outbound => "outbound",
            _ => "inbound",
        };
        let labels = vec![
            Label::new("resource", resource.name().to_owned()),
            Label::new("context", resource.context().unwrap_or_default().to_owned()),
            Label::from_static_parts("kind", kind),
        ];
        Self {
            labels,
            sums: Default::default(),
            are_created: Default::default(),
            in_flight: None,
            has_histogram: false,
            response_times: Vec::new(),
        }
    }

    /// Creates the series of a node whose present counts are not to be fed.
    pub(super) fn starting_at<C: Clock + Clone>(resource: &Resource<C>) -> Self {
        let mut series = Self::new(resource);
        let mut totals = MetricTotals::default();
        resource.for_each_lifetime_histogram(|of_geometry, histogram| {
            totals += of_geometry;
            series.response_times.push(histogram.cloned().unwrap_or_default());
        });
        series.sums = COUNTERS.map(|(event, ..)| totals.sum(event));
        series
    }

    pub(super) fn feed<C: Clock + Clone>(
        &mut self,
        resource: &Resource<C>,
        response_times: bool,
        recorder: &dyn Recorder,
    ) {
        let totals = resource.lifetime();
        for (number, (event, name, _)) in COUNTERS.into_iter().enumerate() {
            let sum = totals.sum(event);
            let before = replace(&mut self.sums[number], sum);
            let is_created = replace(&mut self.are_created[number], true);
            let increment = sum.saturating_sub(before);
            if increment > 0 || !is_created {
                recorder.register_counter(&self.key(name), &METADATA).increment(increment);
            }
        }
        self.feed_in_flight(resource.concurrency(), recorder);
        if response_times {
            let mut geometry = 0;
            resource.for_each_lifetime_histogram(|_, histogram| {
                self.feed_response_times(geometry, histogram, recorder);
                geometry += 1;
            });
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

    /// Feeds the response times of a geometry: the one with that number, in the order in which they
    /// were first set.
    fn feed_response_times(
        &mut self,
        geometry: usize,
        histogram: Option<&LatencyHistogram>,
        recorder: &dyn Recorder,
    ) {
        if self.response_times.len() <= geometry {
            self.response_times.resize_with(geometry + 1, LatencyHistogram::default);
        }
        let Some(histogram) = histogram else { return };
        let is_created = replace(&mut self.has_histogram, true);
        let before = &mut self.response_times[geometry];
        if is_created && histogram.count() == before.count() {
            return;
        }
        let before = replace(before, histogram.clone());
        let target = recorder.register_histogram(&self.key(RESPONSE_TIME), &METADATA);
        let mut before = before.buckets().peekable();
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

    fn key(&self, name: &'static str) -> Key {
        Key::from_parts(name, self.labels.clone())
    }
}

/// Returns a count as the nearest floating-point number. It is exact up to 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
const fn float(count: u64) -> f64 {
    count as f64
}
