//! Events about the state of a limiter.

use crate::lease::LeaseKeys;
use crate::limiter::state::LeaseState;

/// Emits an event for a change of the state, but not for each error while the server is away.
#[cfg(feature = "tracing")]
pub(super) fn report(keys: &LeaseKeys, before: &LeaseState, state: &LeaseState) {
    let limit = keys.name();
    match (before, state) {
        (LeaseState::Away { .. }, LeaseState::Away { .. }) => {}
        (_, state) if state.is_away() && *state != LeaseState::Connecting => {
            tracing::warn!(limit, %state, "no leases are granted");
        }
        _ => tracing::info!(limit, %state, "the state of the leases has changed"),
    }
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn report(_keys: &LeaseKeys, _before: &LeaseState, _state: &LeaseState) {}

/// Emits an event that another process has the number of this one.
#[cfg(feature = "tracing")]
pub(super) fn report_taken(keys: &LeaseKeys) {
    let limit = keys.name();
    tracing::warn!(limit, "another process asks with the number of this one: a fork or a clone");
}

#[cfg(not(feature = "tracing"))]
pub(super) const fn report_taken(_keys: &LeaseKeys) {}
