//! The details of the nodes that viewers have opened.

use std::ops::Range;

use leaparray::metric::SecondMetrics;
use leaparray::node::{NodeSnapshot, SecondsCursor, WindowSnapshot};
use leaparray::{Clock, LatencyHistogram, Resource, Timestamp, WindowConfig};

use super::Hub;
use super::frame::Frame;
use super::ledger::{Places, events};
use super::readings::Readings;
use super::viewer::Target;
use super::viewers::{Details, Wanted};
use crate::format::{
    Bin, Counts, Detail, Geometry, NodeDetail, NodeLedger, SecondBins, WindowGeometry, nanos,
};

/// The finest scale that is sent. A picture has no more rows, and 1.19 is the factor from one bin
/// to the next.
const MAX_SCALE: i8 = 2;

impl Readings {
    /// Returns the details that are wanted, serialized once for all viewers of a node.
    pub(super) fn details<C>(
        &self,
        hub: &Hub<C>,
        now: Timestamp,
        wanted: Vec<Wanted>,
    ) -> Vec<Details>
    where
        C: Clock + Clone + Send + Sync + 'static,
    {
        let t = self.next().saturating_sub(1);
        let details = wanted.into_iter().map(|Wanted { target, all, newest }| {
            let found = find(hub, &target);
            let found = found.and_then(|it| Some((self.nodes.id_of(it.id())?, it)));
            let frame = |since: u64| {
                let detail = match &found {
                    Some((id, resource)) => {
                        let node = node_detail(resource, now, since..self.next());
                        Detail { id: Some(*id), t, node: Some(node) }
                    }
                    None => Detail { id: None, t, node: None },
                };
                Frame::new(None, &detail, 1024)
            };
            Details {
                all: all.then(|| frame(0)),
                newest: newest.then(|| frame(self.first)),
                target,
            }
        });
        details.collect()
    }
}

/// Returns the listed node with these names.
fn find<C>(hub: &Hub<C>, target: &Target) -> Option<Resource<C>>
where
    C: Clock + Clone + Send + Sync + 'static,
{
    let resource = hub.registry.get(&target.resource)?;
    match &target.context {
        None => Some(resource),
        Some(context) => resource.contexts().find(|it| it.context() == Some(context)),
    }
}

/// Returns the details of a node at `now`, with the response times of these seconds.
fn node_detail<C: Clock + Clone>(
    resource: &Resource<C>,
    now: Timestamp,
    seconds: Range<u64>,
) -> NodeDetail {
    let snapshot = resource.at(now).snapshot();
    let Places { in_window, expired, late } = Places::of(&resource.at(now).long().ledger());
    let lifetime = resource.lifetime();
    let config = resource.config();
    let (scale, seconds) = bins(resource, now, seconds);
    NodeDetail {
        scale,
        seconds,
        second: counts_of(&snapshot, &snapshot.short),
        minute: counts_of(&snapshot, &snapshot.long),
        refusals: snapshot.refusals.iter().map(|(_, count)| count).collect(),
        refused_by: snapshot.refused_by.iter().map(|(name, count)| (name.into(), count)).collect(),
        responses: snapshot.responses.iter().map(|(_, count)| count).collect(),
        lifetime: lifetime.counts().into(),
        ledger: NodeLedger { in_window, expired, late, recorded: events(&lifetime) },
        window: Geometry {
            short: geometry(config.short()),
            long: geometry(config.long()),
            histogram_error: config.histogram().map(leaparray::HistogramConfig::relative_error),
        },
    }
}

fn geometry(window: &WindowConfig) -> WindowGeometry {
    let interval = window.interval().as_secs_f64();
    WindowGeometry { interval, buckets: window.sample_count() }
}

/// Returns the scale and the response times of these seconds, as far as they are in the long
/// window.
fn bins<C: Clock + Clone>(
    resource: &Resource<C>,
    now: Timestamp,
    seconds: Range<u64>,
) -> (Option<i8>, Vec<SecondBins>) {
    let cursor = SecondsCursor::new();
    // Leaves the earlier seconds out, without reading them.
    drop(resource.at(Timestamp::from_secs(seconds.start)).poll_seconds(&cursor));
    let complete = resource.at(now).poll_seconds(&cursor);
    // The hub has not read a second that ended just now: threads may still record in it.
    let complete = complete.filter(|it| seconds.contains(&it.second.as_secs()));
    let histogram = |it: SecondMetrics| Some((it.second.as_secs(), it.histogram?));
    let histograms: Vec<_> =
        complete.filter_map(histogram).filter(|(_, it)| !it.is_empty()).collect();
    let Some(config) = resource.config().histogram() else { return (None, Vec::new()) };
    let scales = histograms.iter().map(|(_, it)| it.scale());
    let scale = scales.fold(config.scale().cast_signed().min(MAX_SCALE), i8::min);
    let bins = |(t, histogram): (u64, LatencyHistogram)| {
        let coarser = histogram.downscaled(scale).expect("the scale is at most its own");
        let bins = coarser.buckets().map(|it| Bin { index: it.index, count: it.count });
        SecondBins { t, bins: bins.collect() }
    };
    (Some(scale), histograms.into_iter().map(bins).collect())
}

fn counts_of(snapshot: &NodeSnapshot, window: &WindowSnapshot) -> Counts {
    let totals = &window.totals;
    let quantiles = window.quantiles.as_ref();
    Counts {
        events: *totals.counts(),
        in_flight: Some(snapshot.concurrency),
        max_in_flight: totals.max_concurrency().unwrap_or(0),
        min: totals.min_rt().map(nanos),
        p50: quantiles.map(|it| nanos(it.p50)),
        p90: quantiles.map(|it| nanos(it.p90)),
        p99: quantiles.map(|it| nanos(it.p99)),
        p999: quantiles.map(|it| nanos(it.p999)),
        max: totals.max_rt().map(nanos),
    }
}
