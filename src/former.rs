//! Reads in their former form, which the adapters still use.

use std::time::Duration;

use crate::array::Ledger;
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricEvent, MetricTotals, SecondMetrics};
use crate::node::{NodeSnapshot, ResourceNode, SecondsCursor};
use crate::registry::{Registry, RegistryCursor, RegistrySnapshot, ResourceSecond, Visit, Visited};
use crate::time::{Clock, Timestamp};
use crate::window::SlidingWindow;

#[doc(hidden)]
#[expect(clippy::must_use_candidate, reason = "forwards to a reading")]
impl<C: Clock> SlidingWindow<C> {
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.now().sum(event)
    }

    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.now().qps(event)
    }

    pub fn max_rt(&self) -> Option<Duration> {
        self.now().totals().max_rt()
    }

    pub fn quantile(&self, q: f64) -> Option<Duration> {
        self.now().quantile(q)
    }

    pub fn histogram(&self) -> Option<LatencyHistogram> {
        self.now().histogram()
    }
}

#[doc(hidden)]
#[expect(clippy::must_use_candidate, reason = "forwards to a reading")]
impl<C: Clock + Clone> ResourceNode<C> {
    pub fn long_sum(&self, event: MetricEvent) -> u64 {
        self.now().long().sum(event)
    }

    pub fn ledger_at(&self, now: Timestamp) -> Ledger<MetricTotals> {
        self.at(now).long().ledger()
    }

    pub fn snapshot(&self) -> NodeSnapshot {
        self.now().snapshot()
    }

    pub fn snapshot_at(&self, now: Timestamp) -> NodeSnapshot {
        self.at(now).snapshot()
    }

    pub fn unfinished_at(&self, now: Timestamp) -> MetricTotals {
        self.at(now).unfinished()
    }

    pub fn poll_seconds_at(
        &self,
        now: Timestamp,
        cursor: &SecondsCursor,
    ) -> impl Iterator<Item = SecondMetrics> {
        self.at(now).poll_seconds(cursor)
    }
}

#[doc(hidden)]
#[expect(clippy::must_use_candidate, reason = "forwards to a reading")]
impl<C: Clock + Clone> Registry<C> {
    pub fn snapshot(&self) -> RegistrySnapshot {
        self.now().snapshot()
    }

    pub fn snapshot_at(&self, now: Timestamp) -> RegistrySnapshot {
        self.at(now).snapshot()
    }

    pub fn poll_seconds(&self, cursor: &RegistryCursor) -> Vec<ResourceSecond> {
        self.now().poll_seconds(cursor)
    }

    pub fn visit_seconds_at(
        &self,
        now: Timestamp,
        cursor: &RegistryCursor,
        visit: impl FnMut(Visited<'_, C>),
    ) -> Visit {
        self.at(now).visit_seconds(cursor, visit)
    }
}
