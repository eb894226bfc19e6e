//! The gauges and counters of the watched limiters.

use std::collections::{HashMap, HashSet};

use leaparray::flow::watch::WatchedMetric;
use leaparray::registry::WatchedLimiter;
use metrics::{Key, Label, Recorder, Unit};

use super::series::METADATA;

/// The metrics of limiters that the recorder has.
pub(super) struct Watched {
    gauges: HashSet<Key>,
    /// The counters, with the last reading of each.
    counters: HashMap<Key, u64>,
}

pub(super) fn describe(recorder: &dyn Recorder) {
    for metric in WatchedMetric::ALL {
        let (name, unit, help) = (name(*metric), Some(Unit::Count), metric.description().into());
        if metric.is_counter() {
            recorder.describe_counter(name.into(), unit, help);
        } else {
            recorder.describe_gauge(name.into(), unit, help);
        }
    }
}

fn name(metric: WatchedMetric) -> String {
    format!("leaparray_{}", metric.name())
}

/// Calls `take` with each number of the limiters, and its key.
fn for_each_metric(limiters: &[WatchedLimiter], mut take: impl FnMut(WatchedMetric, Key, f64)) {
    for WatchedLimiter { name: limiter, state, .. } in limiters {
        state.for_each_metric(&mut |metric, label, value| {
            let mut labels = vec![Label::new("limiter", limiter.to_string())];
            labels.extend(label.map(|(name, value)| Label::new(name, value.to_owned())));
            take(metric, Key::from_parts(name(metric), labels), value);
        });
    }
}

impl Watched {
    /// Returns what a feed begins with: it feeds what the limiters count from now on.
    pub(super) fn new(limiters: &[WatchedLimiter]) -> Self {
        let mut counters = HashMap::new();
        for_each_metric(limiters, |metric, key, value| {
            if metric.is_counter() {
                counters.insert(key, whole(value));
            }
        });
        Self { gauges: HashSet::new(), counters }
    }

    /// Sets the gauges. Sets a gauge to 0 if its limiter is no longer watched, or if its key is no
    /// longer one of the most refused keys. If the recorder panics, all gauges stay known, and the
    /// next call sets them.
    ///
    /// Adds to the counters what is new. One that is lower than before is the one of another
    /// limiter with that name, which has begun at 0. If the recorder panics, one count may be lost,
    /// and none is added twice.
    pub(super) fn feed(&mut self, limiters: &[WatchedLimiter], recorder: &dyn Recorder) {
        let (mut gauges, mut counters) = (HashMap::new(), HashMap::new());
        for_each_metric(limiters, |metric, key, value| {
            if metric.is_counter() {
                counters.insert(key, whole(value));
            } else {
                gauges.insert(key, value);
            }
        });
        self.gauges.extend(gauges.keys().cloned());
        for key in &self.gauges {
            let value = gauges.get(key).copied().unwrap_or_default();
            recorder.register_gauge(key, &METADATA).set(value);
        }
        self.gauges.retain(|key| gauges.contains_key(key));
        for (key, count) in counters {
            let counter = recorder.register_counter(&key, &METADATA);
            let before = self.counters.insert(key, count).filter(|&before| before <= count);
            counter.increment(count - before.unwrap_or(0));
        }
    }
}

/// Returns a count, which is a whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
const fn whole(count: f64) -> u64 {
    count as u64
}
