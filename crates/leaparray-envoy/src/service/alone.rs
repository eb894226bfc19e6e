//! The decision on a request of one descriptor, as most are.

use std::slice;
use std::sync::Arc;

use leaparray::{Clock, Registry, Timestamp};

use super::asked::Found;
use super::decision::Decision;
use super::key::Key;
use super::request::{Descriptor, Request};
use super::state::{State, States};
use super::tree::Level;
use super::{engine, find, handout};

/// Decides on a request of one descriptor at `now`, without a wait.
///
/// A window of the table is asked where it lies, and not through a reference of its own, which
/// threads with the same key would compete for. Only a window that hands hits out is looked up.
pub(super) fn decide<C: Clock + Clone + Send + Sync + 'static>(
    level: &Level<Arc<State<C>>>,
    request: &Request,
    descriptor: &Descriptor,
    states: &States<C>,
    registry: &Registry<C>,
    now: Timestamp,
) -> Decision {
    let (mut key, settings) = (Key::new(), &states.settings);
    let mut one = find::find_one(level, request, descriptor, states, &mut key);
    if matches!(one.limit, Found::InTable) && !one.has_quotas() {
        let unit = one.unit;
        let take = |window: &_| one.take_in(window, settings.charging, now);
        if states.table.with_window(unit, key.bytes(), now, take).is_none() {
            one.limit = Found::Fallback;
        }
    } else {
        find::look_up(&mut one, states, &key, now);
    }
    find::prepare(&mut one, states);
    let asked = slice::from_mut(&mut one);
    let over = if let Found::Read(_) = asked[0].limit {
        engine::is_over(request, asked)
    } else {
        engine::charge(request, asked, settings.charging, now)
    };
    if !over {
        handout::hand_out(asked, settings.clock_skew, now);
    }
    engine::answer(registry, request, asked, over, now)
}
