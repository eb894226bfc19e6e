//! The state of a limiter, as text.

use std::fmt;

use leaparray::flow::watch::WatchedMetric::{
    CircuitState, ShadowEnforced, ShadowEnforcedShare, ShadowMode, ShadowWouldDelay,
    ShadowWouldRefuse,
};
use leaparray::flow::watch::WatchedState;

/// The names of its numbers with their values, as in `/metrics`, without the zeros of a shadow.
pub(crate) struct Text<'a>(pub(crate) &'a WatchedState);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        self.0.for_each_metric(&mut |metric, label, value| {
            let name = metric.name().replace('_', " ");
            let is_set = value > 0.0;
            match (metric, label) {
                // One of these has the value 1, and the others 0.
                (CircuitState | ShadowMode, Some((_, state))) if is_set => {
                    parts.push(format!("{name} {state}"));
                }
                (CircuitState | ShadowMode, Some(_)) => {}
                (
                    ShadowEnforcedShare | ShadowWouldRefuse | ShadowWouldDelay | ShadowEnforced,
                    None,
                ) if !is_set => {}
                (_, Some((_, label))) => parts.push(format!("{name} {label} {value}")),
                (_, None) => parts.push(format!("{name} {value}")),
            }
        });
        f.write_str(&parts.join(", "))
    }
}
