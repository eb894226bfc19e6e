//! What is no longer listed.

use std::sync::PoisonError;

use super::Registry;
use super::config::TrafficType;
use super::listed::Listed;
use crate::metric::MetricTotals;
use crate::sync::{Arc, MutexGuard};
use crate::time::Clock;

/// What those that are gone have recorded.
#[derive(Debug)]
pub(crate) struct Departed<C> {
    inbound: MetricTotals,
    outbound: MetricTotals,
    /// Removed while somebody held them: their holders may still record.
    held: Vec<Arc<Listed<C>>>,
}

impl<C> Departed<C> {
    pub(crate) fn new() -> Self {
        Self {
            inbound: MetricTotals::default(),
            outbound: MetricTotals::default(),
            held: Vec::new(),
        }
    }

    /// Keeps in mind one that was removed, whoever holds it.
    pub(crate) fn keep(&mut self, listed: Arc<Listed<C>>) {
        self.held.push(listed);
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = &Arc<Listed<C>>> {
        self.held.iter()
    }

    /// What those have recorded that are not held any more.
    pub(crate) const fn settled(&self, traffic: TrafficType) -> &MetricTotals {
        match traffic {
            TrafficType::Inbound => &self.inbound,
            TrafficType::Outbound => &self.outbound,
        }
    }
}

impl<C: Clock + Clone> Departed<C> {
    /// Adds what one has recorded in which nobody can record any more.
    pub(crate) fn settle(&mut self, listed: &Listed<C>) {
        let settled = match listed.traffic_type() {
            TrafficType::Inbound => &mut self.inbound,
            TrafficType::Outbound => &mut self.outbound,
        };
        *settled += &listed.lifetime();
    }

    /// Settles those that nobody holds any more.
    pub(crate) fn settle_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        for listed in held {
            if listed.holders().has_settled() {
                self.settle(&listed);
            } else {
                self.held.push(listed);
            }
        }
    }
}

impl<C> Registry<C> {
    /// What has departed, locked.
    pub(crate) fn departed(&self) -> MutexGuard<'_, Departed<C>> {
        // No panic leaves anything half done here.
        self.departed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
