//! The nodes of a registry, as the dashboard lists them.

use std::time::Duration;

use leaparray::node::{NodeSnapshot, WindowSnapshot};
use leaparray::registry::{RegistrySnapshot, ResourceSnapshot};
use leaparray::{Clock, MetricEvent, Registry};
use serde::Serialize;

/// The root of the tree.
const ROOT: &str = "machine-root";

/// The context of the requests without one.
const DEFAULT_CONTEXT: &str = "sentinel_default_context";

/// The requests that completed, however they ended: Sentinel's successes.
const COMPLETED: [MetricEvent; 3] =
    [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled];

/// A node, with the fields that the dashboard reads, in the order in which Sentinel writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node<'a> {
    average_rt: u64,
    block_qps: u64,
    exception_qps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    one_minute_block: u64,
    one_minute_exception: u64,
    one_minute_pass: u64,
    one_minute_total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    pass_qps: u64,
    resource: &'a str,
    success_qps: u64,
    thread_num: u64,
    timestamp: u64,
    total_qps: u64,
}

impl<'a> Node<'a> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole rates ≥ 0")]
    fn new(resource: &'a str, snapshot: &NodeSnapshot) -> Self {
        let NodeSnapshot { short, long, .. } = snapshot;
        let rate = |events: &[MetricEvent]| rate(short, events) as u64;
        let [pass, block] = [MetricEvent::Pass, MetricEvent::Block].map(|it| long.totals.sum(it));
        Self {
            average_rt: snapshot.avg_rt().map_or(0, |it| saturating(it.as_millis())),
            block_qps: rate(&[MetricEvent::Block]),
            exception_qps: rate(&[MetricEvent::Exception]),
            id: None,
            one_minute_block: block,
            one_minute_exception: long.totals.sum(MetricEvent::Exception),
            one_minute_pass: pass,
            one_minute_total: pass.saturating_add(block),
            parent_id: None,
            pass_qps: rate(&[MetricEvent::Pass]),
            resource,
            success_qps: rate(&COMPLETED),
            thread_num: snapshot.concurrency,
            timestamp: snapshot.timestamp.as_millis(),
            total_qps: rate(&[MetricEvent::Pass, MetricEvent::Block]),
        }
    }
}

fn saturating(millis: u128) -> u64 {
    millis.try_into().unwrap_or(u64::MAX)
}

/// Returns the rate of events over the whole interval of the window, as Sentinel divides.
fn rate(window: &WindowSnapshot, events: &[MetricEvent]) -> f64 {
    events.iter().map(|&it| window.qps_over_interval(it)).sum()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers")
}

/// Returns each resource, with all its contexts together, by its name.
pub(crate) fn cluster<C: Clock + Clone>(registry: &Registry<C>, is_zero_left_out: bool) -> String {
    let mut rows = registry.now().snapshot().resources;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let sums: Vec<_> = rows.chunk_by(|one, next| one.name == next.name).map(sum).collect();
    let nodes = sums.iter().map(|(row, sum)| Node::new(&row.name, sum));
    json(&nodes.filter(|it| !is_zero_left_out || it.one_minute_total > 0).collect::<Vec<_>>())
}

/// Returns the resource with a name: `{}` if there is none.
pub(crate) fn cluster_of<C: Clock + Clone>(registry: &Registry<C>, name: &str) -> String {
    let now = registry.clock().now();
    let found = registry.get(name);
    found.map_or_else(|| "{}".to_owned(), |it| json(&Node::new(name, &it.total_snapshot(now))))
}

/// Returns the first row, and the sum of all rows, of which there is one.
fn sum(rows: &[ResourceSnapshot]) -> (&ResourceSnapshot, NodeSnapshot) {
    let mut sum = rows[0].snapshot.clone();
    rows[1..].iter().for_each(|it| sum += &it.snapshot);
    (&rows[0], sum)
}

/// Returns the tree: the root, below it the contexts, and below each of these the resources whose
/// requests came through it. Parents come before their children.
pub(crate) fn tree<C: Clock + Clone>(registry: &Registry<C>) -> String {
    let snapshot = registry.now().snapshot();
    let root = snapshot.total();
    let rows = of_contexts(snapshot);
    let contexts: Vec<_> = rows.chunk_by(|one, next| one.context == next.context).collect();
    let sums: Vec<_> = contexts.iter().map(|rows| sum(rows)).collect();
    let mut nodes = vec![Node { id: Some(0.to_string()), ..Node::new(ROOT, &root) }];
    for (rows, (first, entrance)) in contexts.iter().zip(&sums) {
        let name = first.context.as_deref().unwrap_or(DEFAULT_CONTEXT);
        let context = add(&mut nodes, 0, Node::new(name, entrance));
        for row in *rows {
            add(&mut nodes, context, Node::new(&row.name, &row.snapshot));
        }
    }
    json(&nodes)
}

/// Adds a node below another one, and returns its number.
fn add<'a>(nodes: &mut Vec<Node<'a>>, parent: usize, mut node: Node<'a>) -> usize {
    let id = nodes.len();
    (node.id, node.parent_id) = (Some(id.to_string()), Some(parent.to_string()));
    nodes.push(node);
    id
}

/// Returns the rows by their contexts and names, without those of resources that are used by their
/// contexts only.
fn of_contexts(snapshot: RegistrySnapshot) -> Vec<ResourceSnapshot> {
    let mut all = snapshot.resources.into_iter().peekable();
    let mut rows = Vec::new();
    while let Some(row) = all.next() {
        // The contexts of a resource follow it.
        let has_contexts = all.peek().is_some_and(|it| it.context.is_some());
        let NodeSnapshot { long, concurrency, .. } = &row.snapshot;
        let is_idle = *concurrency == 0 && long.totals.counts().is_zero();
        if row.context.is_some() || !has_contexts || !is_idle {
            rows.push(row);
        }
    }
    rows.sort_by(|one, other| (&one.context, &one.name).cmp(&(&other.context, &other.name)));
    rows
}

/// Returns milliseconds with their fraction, such as 6.7.
#[expect(clippy::cast_precision_loss, reason = "far below 2⁵³ ns")]
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// The figures of all inbound traffic.
#[derive(Serialize)]
struct Status {
    b: f64,
    r: f64,
    t: u64,
    qps: f64,
    rqps: f64,
}

pub(crate) fn status<C: Clock + Clone>(registry: &Registry<C>) -> String {
    let inbound = registry.now().inbound();
    let rate = |events: &[MetricEvent]| rate(&inbound.short, events);
    json(&Status {
        b: rate(&[MetricEvent::Block]),
        r: inbound.avg_rt().map_or(0.0, millis),
        t: inbound.concurrency,
        qps: rate(&[MetricEvent::Pass]),
        rqps: rate(&COMPLETED),
    })
}
