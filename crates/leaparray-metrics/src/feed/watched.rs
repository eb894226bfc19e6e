//! The gauges of the watched limiters.

use std::collections::{HashMap, HashSet};

use leaparray::flow::watch::WatchedGauge;
use leaparray::registry::WatchedLimiter;
use metrics::{Key, Label, Recorder, Unit};

use super::series::METADATA;

/// The gauges that the recorder has.
#[derive(Default)]
pub(super) struct Watched(HashSet<Key>);

pub(super) fn describe(recorder: &dyn Recorder) {
    for gauge in WatchedGauge::ALL {
        let help = gauge.description().into();
        recorder.describe_gauge(name(*gauge).into(), Some(Unit::Count), help);
    }
}

fn name(gauge: WatchedGauge) -> String {
    format!("leaparray_{}", gauge.name())
}

impl Watched {
    /// Sets the gauges, and those to 0 that are gone: of a limiter that is no longer watched, or of
    /// a key that is no longer among those that were refused most. If the recorder panics, all of
    /// them stay known, and the next call sets them.
    pub(super) fn feed(&mut self, limiters: &[WatchedLimiter], recorder: &dyn Recorder) {
        let mut gauges = HashMap::new();
        for WatchedLimiter { name: limiter, state, .. } in limiters {
            state.for_each_gauge(&mut |gauge, label, value| {
                let mut labels = vec![Label::new("limiter", limiter.to_string())];
                labels.extend(label.map(|(name, value)| Label::new(name, value.to_owned())));
                gauges.insert(Key::from_parts(name(gauge), labels), value);
            });
        }
        self.0.extend(gauges.keys().cloned());
        for key in &self.0 {
            let value = gauges.get(key).copied().unwrap_or_default();
            recorder.register_gauge(key, &METADATA).set(value);
        }
        self.0.retain(|key| gauges.contains_key(key));
    }
}
