//! A node of the smallest geometry there is.

use leaparray::{Entry, ManualClock, NodeConfig, ResourceNode, Timestamp, WindowConfig};
use loom::sync::Arc;

use crate::ring::{LEN, start};

/// A node that is given the time.
pub type Node = ResourceNode<ManualClock>;

/// A geometry with a short window of `second` buckets and a long one of `minute`.
///
/// # Panics
///
/// If the one does not divide the other.
#[must_use]
pub fn node_config(short: u32, long: u32) -> NodeConfig {
    let window = |len: u32| WindowConfig::new(len as usize, LEN * len).expect("not empty");
    NodeConfig::new(window(short), window(long)).expect("a part of it")
}

/// A node in which nothing was recorded.
#[must_use]
pub fn node(config: NodeConfig) -> Arc<Node> {
    Arc::new(ResourceNode::with_clock(config, ManualClock::new(Timestamp::MIN)))
}

/// Lets one request in, in bucket `number`.
pub fn enter(node: &Arc<Node>, number: u32) -> Entry<Arc<Node>, ManualClock> {
    Entry::enter_at(node.clone(), start(number))
}
