//! The series of one node.

use leaparray::{Clock, LatencyHistogram, MetricEvent, Resource, TrafficType};
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
    /// The sums of the counters, in their order. `None` before the first publication, which creates
    /// all counters.
    sums: [Option<u64>; COUNTERS.len()],
    in_flight: Option<u64>,
    response_times: Option<LatencyHistogram>,
}

impl Series {
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
        Self { labels, sums: Default::default(), in_flight: None, response_times: None }
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
            let before = self.sums[number].replace(sum);
            let increment = sum.saturating_sub(before.unwrap_or(0));
            if increment > 0 || before.is_none() {
                recorder.register_counter(&self.key(name), &METADATA).increment(increment);
            }
        }
        self.feed_in_flight(resource.concurrency(), recorder);
        let histogram = response_times.then(|| resource.lifetime_histogram()).flatten();
        if let Some(histogram) = histogram {
            self.feed_response_times(&histogram, recorder);
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

    fn feed_response_times(&mut self, histogram: &LatencyHistogram, recorder: &dyn Recorder) {
        let before = self.response_times.replace(histogram.clone()).unwrap_or_default();
        if histogram.count() == before.count() {
            return;
        }
        let key = self.key(RESPONSE_TIME);
        let target = recorder.register_histogram(&key, &METADATA);
        // A node that was reconfigured may have bins of another width: the coarser scale is used.
        // An empty histogram does not decide it.
        let scales = [&before, histogram].into_iter().filter(|it| !it.is_empty());
        let scale = scales.map(LatencyHistogram::scale).min().unwrap_or(histogram.scale());
        let at_scale = |histogram: &LatencyHistogram| {
            histogram.downscaled(scale).expect("not finer than the scale of the histogram")
        };
        let before = if before.is_empty() { before } else { at_scale(&before) };
        let now = at_scale(histogram);
        let mut before = before.buckets().peekable();
        for bin in now.buckets() {
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
