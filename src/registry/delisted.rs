//! Resources that are no longer listed.

use std::sync::PoisonError;

use super::Registry;
use super::config::TrafficType;
use super::listed::Listed;
use crate::metric::MetricTotals;
use crate::sync::{Arc, MutexGuard};
use crate::time::Clock;

/// The totals of resources that are gone: evicted or removed.
#[derive(Debug)]
pub(crate) struct Delisted<C> {
    inbound: MetricTotals,
    outbound: MetricTotals,
    /// The removed resources that may still have handles, by which threads may still record in them.
    with_holders: Vec<Arc<Listed<C>>>,
}

impl<C> Delisted<C> {
    pub(crate) fn new() -> Self {
        Self {
            inbound: MetricTotals::default(),
            outbound: MetricTotals::default(),
            with_holders: Vec::new(),
        }
    }

    /// Adds a resource that was removed and may still have handles.
    pub(crate) fn keep(&mut self, listed: Arc<Listed<C>>) {
        self.with_holders.push(listed);
    }

    pub(crate) fn with_holders(&self) -> impl Iterator<Item = &Arc<Listed<C>>> {
        self.with_holders.iter()
    }

    /// Returns the totals of the reclaimed resources, which no longer have handles.
    pub(crate) const fn reclaimed(&self, traffic: TrafficType) -> &MetricTotals {
        match traffic {
            TrafficType::Inbound => &self.inbound,
            TrafficType::Outbound => &self.outbound,
        }
    }
}

impl<C: Clock + Clone> Delisted<C> {
    /// Adds the totals of a resource in which no thread can record from now on.
    pub(crate) fn reclaim(&mut self, listed: &Listed<C>) {
        let total = match listed.traffic_type() {
            TrafficType::Inbound => &mut self.inbound,
            TrafficType::Outbound => &mut self.outbound,
        };
        *total += &listed.lifetime();
    }

    /// Reclaims the removed resources that no longer have handles.
    pub(crate) fn reclaim_released(&mut self) {
        let delisted = std::mem::take(&mut self.with_holders);
        for listed in delisted {
            if listed.holders().is_released() {
                self.reclaim(&listed);
            } else {
                self.with_holders.push(listed);
            }
        }
    }
}

impl<C> Registry<C> {
    /// Locks the resources that are gone.
    pub(crate) fn delisted(&self) -> MutexGuard<'_, Delisted<C>> {
        // A panic under this lock leaves no invariant broken, so a poisoned lock is used as it is.
        self.delisted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
