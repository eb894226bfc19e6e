//! The states of limits, and the identities by which they outlive a change of the configuration.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::Clock;

use super::Store;
use super::counts::Counts;
use super::decision::RuleId;
#[cfg(feature = "redis")]
use super::leases::LeaseTable;
use super::settings::Settings;
use super::table::{Table, Window, window};
use super::tree::{Identity, Tree};
use crate::config::Config;

/// The most limits whose states are kept after they left the configuration.
const MAX_RETIRED: usize = 4_096;

/// The state of a limit.
#[derive(Debug)]
pub(super) struct State<C> {
    /// `None` if each value has a window of its own, which is in the [`Table`].
    pub(super) window: Option<Window<C>>,
    pub(super) counts: Counts<C>,
}

/// The states of all limits.
#[derive(Debug)]
pub(super) struct States<C: Clock> {
    pub(super) table: Table<C>,
    /// In place of the table, if several instances share the limits.
    #[cfg(feature = "redis")]
    pub(super) leases: Option<LeaseTable>,
    pub(super) settings: Settings,
    known: Mutex<Known<C>>,
    clock: C,
}

#[derive(Debug)]
struct Known<C> {
    states: HashMap<Identity, (RuleId, Arc<State<C>>)>,
    /// The last identity that was given.
    last: u64,
}

impl<C: Clock + Clone + Send + Sync + 'static> States<C> {
    pub(super) fn new(store: &Store, settings: Settings, clock: C) -> Self {
        #[cfg(feature = "redis")]
        let leases = match store {
            Store::Memory => None,
            Store::Redis(leases) => Some(LeaseTable::new(leases.clone(), &settings)),
        };
        #[cfg(not(feature = "redis"))]
        let Store::Memory = store;
        Self {
            #[cfg(feature = "redis")]
            leases,
            table: Table::new(settings.max_keys, clock.clone()),
            settings,
            known: Mutex::new(Known { states: HashMap::new(), last: 0 }),
            clock,
        }
    }

    /// Creates the tree of a configuration, with the states of limits that are known.
    pub(super) fn tree(&self, config: &Config) -> Tree<Arc<State<C>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { states, last } = &mut *known;
        let tree = Tree::new(config, |identity| {
            let unit = identity.unit.filter(|_| !identity.is_keyed);
            let make = || {
                *last += 1;
                let window = unit.map(|unit| window(unit, self.clock.clone()));
                (RuleId(*last), Arc::new(State { window, counts: Counts::new() }))
            };
            states.entry(identity).or_insert_with(make).clone()
        });
        // A limit that comes back finds its state, unless many others have left since.
        if states.len() > tree.rules().count() + MAX_RETIRED {
            states.retain(|_, (id, _)| tree.rule(*id).is_some());
        }
        tree
    }
}
