//! The counts of a series.

use std::borrow::Cow;
use std::mem;

use crate::histogram::LatencyHistogram;
use crate::metric::MetricTotals;
use crate::node::{Refusals, RefusedBy, ResourceNode, Responses};
use crate::time::Clock;

/// Everything that a series has counted. No count decreases from one reading to the next.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SeriesCounts {
    /// The totals by event, and the response times.
    pub totals: MetricTotals,
    /// The refused permits by reason.
    pub refusals: Refusals,
    /// The refused permits by the name of the limiter. A series of several nodes has the names of
    /// each.
    pub refused_by: RefusedBy,
    /// The responses by class.
    pub responses: Responses,
    histograms: Vec<LatencyHistogram>,
}

impl SeriesCounts {
    /// Returns the histograms of the response times: one for each scale with which the series was
    /// recorded, the finest first; none if it has never had a histogram.
    ///
    /// A response time stays in its bin for ever. So an exporter that sorts the bins into classes
    /// of its own takes no count out of a class, which the [merged](Self::histogram) histogram
    /// could: its bins become wider when a coarser scale is set.
    #[must_use]
    pub fn histograms(&self) -> &[LatencyHistogram] {
        &self.histograms
    }

    /// Returns the merge of the [histograms](Self::histograms), at the coarsest scale with response
    /// times; `None` if there are none. It allocates nothing if there is one.
    #[must_use]
    pub fn histogram(&self) -> Option<Cow<'_, LatencyHistogram>> {
        let mut filled = self.histograms.iter().filter(|it| !it.is_empty());
        let mut merged = Cow::Borrowed(filled.next().or(self.histograms.first())?);
        filled.for_each(|it| merged.to_mut().merge(it));
        Some(merged)
    }

    /// Returns the number of response times that are in no histogram, since they were recorded
    /// under a geometry without one.
    #[must_use]
    pub fn rt_count_without_histogram(&self) -> u64 {
        let known = self.histograms.iter().map(LatencyHistogram::count);
        self.totals.rt_count().saturating_sub(known.fold(0, u64::saturating_add))
    }

    /// Returns whether something was counted that `before` has not counted.
    pub(in crate::registry) fn is_ahead_of(&self, before: &Self) -> bool {
        self.totals != before.totals
            || self.refusals != before.refusals
            || self.refused_by != before.refused_by
            || self.responses != before.responses
    }

    /// Leaves nothing, and keeps the memory.
    pub(in crate::registry) fn clear(&mut self) {
        self.totals = MetricTotals::default();
        self.refusals = Refusals::default();
        self.refused_by.clear();
        self.responses = Responses::default();
        self.histograms.iter_mut().for_each(LatencyHistogram::clear);
    }

    /// Forgets the histograms, and returns their memory.
    pub(in crate::registry) fn drop_histograms(&mut self) {
        self.histograms = Vec::new();
    }

    /// Adds the counts of a node.
    pub(in crate::registry) fn add_node<C: Clock + Clone>(
        &mut self,
        node: &ResourceNode<C>,
        with_histograms: bool,
    ) {
        if with_histograms {
            node.for_each_lifetime_histogram(|totals, histogram| {
                self.totals += totals;
                if let Some(histogram) = histogram {
                    self.merge(histogram);
                }
            });
        } else {
            self.totals += &node.lifetime();
        }
        self.refusals += &node.refusals();
        self.refused_by += &node.refused_by();
        self.responses += &node.responses();
    }

    /// Adds the counts of former nodes.
    pub(in crate::registry) fn add(&mut self, other: &Self, with_histograms: bool) {
        self.totals += &other.totals;
        self.refusals += &other.refusals;
        self.refused_by += &other.refused_by;
        self.responses += &other.responses;
        if with_histograms {
            other.histograms.iter().for_each(|it| self.merge(it));
        }
    }

    fn merge(&mut self, histogram: &LatencyHistogram) {
        let scale = histogram.scale();
        let place = self.histograms.binary_search_by(|it| scale.cmp(&it.scale()));
        match place {
            Ok(place) if self.histograms[place].is_empty() => {
                self.histograms[place].clone_from(histogram);
            }
            Ok(place) => self.histograms[place].merge(histogram),
            Err(place) => self.histograms.insert(place, histogram.clone()),
        }
    }

    /// Makes these counts the former ones, and leaves nothing here.
    pub(in crate::registry) fn advance(&mut self, before: &mut Self) {
        mem::swap(self, before);
        self.clear();
    }
}
