//! Nodes with few buckets.

use leaparray::{Entry, ManualClock, NodeConfig, ResourceNode, Timestamp, WindowConfig};
use loom::sync::Arc;

use crate::ring::{LEN, start};

/// A node to which the models pass the time.
pub type Node = ResourceNode<ManualClock>;

/// A geometry with a short window of `short` buckets and a long window of `long` buckets, each of
/// length [`LEN`].
///
/// # Panics
///
/// If one of them is 0, or if `short` does not divide `long`.
#[must_use]
pub fn node_config(short: u32, long: u32) -> NodeConfig {
    let window = |len: u32| WindowConfig::new(len as usize, LEN * len).expect("not empty");
    NodeConfig::new(window(short), window(long)).expect("the short window divides the long one")
}

/// A node in which nothing was recorded.
#[must_use]
pub fn node(config: NodeConfig) -> Arc<Node> {
    Arc::new(ResourceNode::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

/// Enters one request in bucket `number`.
pub fn enter(node: &Arc<Node>, number: u32) -> Entry<Arc<Node>, ManualClock> {
    Entry::enter_at(node.clone(), start(number))
}
