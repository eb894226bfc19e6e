//! The watched limiters of a registry, as the page shows them.

use leaparray::Registry;
use leaparray::flow::circuit::Cause;
use leaparray::flow::watch::WatchedState;
use leaparray::registry::WatchedLimiter;

use crate::format::{Controller, ControllerState, KeyRefusals, Level, ShadowState};

/// Returns the states of all watched limiters that have one to show.
pub(crate) fn read<C>(registry: &Registry<C>) -> Vec<Controller> {
    registry.watched().into_iter().filter_map(controller).collect()
}

fn controller(watched: WatchedLimiter) -> Option<Controller> {
    let (state, shadow) = match watched.state {
        WatchedState::Shadow { mode, counts, limiter, .. } => {
            let shadow = ShadowState {
                mode: mode.name().into(),
                enforced_share: f64::from(mode.enforced().parts_per_million()) / 1e6,
                would_refuse: counts.would_refuse,
                would_delay: counts.would_delay,
            };
            (state_of(*limiter).unwrap_or(ControllerState::Unknown), Some(shadow))
        }
        state => (state_of(state)?, None),
    };
    let name = (watched.name != watched.resource).then(|| watched.name.to_string());
    let resource = watched.resource.to_string();
    Some(Controller { resource, name, state, level: Level::Quiet, shadow })
}

/// Returns the state; `None` if there is none to show.
fn state_of(state: WatchedState) -> Option<ControllerState> {
    Some(match state {
        WatchedState::Nothing => return None,
        WatchedState::Quota(quota) => {
            ControllerState::Limit { limit: quota.limit, remaining: quota.remaining }
        }
        WatchedState::Breaker { drop_probability, .. } => {
            ControllerState::Drop { probability: drop_probability }
        }
        WatchedState::Circuit { at, snapshot, last, .. } => ControllerState::Circuit {
            state: snapshot.state.to_string(),
            probe_in: snapshot.open_until.map(|until| until.saturating_since(at).as_secs_f64()),
            cause: last.map(|it| text_of(it.cause).into()),
        },
        WatchedState::Keyed { counts, top_refused, .. } => {
            let top_refused = top_refused
                .into_iter()
                .map(|it| KeyRefusals { key: it.key, refusals: it.refusals });
            let (keys, top_refused) = (counts.keys as u64, top_refused.collect());
            ControllerState::Keyed { keys, top_refused }
        }
        _ => ControllerState::Unknown,
    })
}

const fn text_of(cause: Cause) -> &'static str {
    match cause {
        Cause::ExceptionRatio => "share of exceptions",
        Cause::SlowRatio => "share of slow calls",
        Cause::Exceptions => "number of exceptions",
        Cause::ConsecutiveExceptions => "consecutive exceptions",
        Cause::WaitOver => "wait over",
        Cause::Probes => "probes succeeded",
        Cause::Timeout => "probes timed out",
        Cause::Set => "set by the program",
        _ => "other",
    }
}
