//! The passes of a node, which a limiter asks for.

use crate::node::ResourceNode;
use crate::time::{Clock, Timestamp};

/// The passes and the clock of a node, for a limiter that also counts the requests that entered the
/// node directly: see [`Ask::over`](crate::flow::Ask::over).
pub trait Passed {
    /// Returns the time of the node's clock.
    fn now(&self) -> Timestamp;

    /// Returns the number of passes from `start`, the start of a bucket, up to the end of the
    /// bucket of `now`.
    fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64;

    /// Returns the end of the bucket of `now`, from which the passes may be read again. The result
    /// is after `now`, except at the end of time.
    fn bucket_end(&self, now: Timestamp) -> Timestamp;
}

impl<C: Clock + Clone> Passed for ResourceNode<C> {
    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn passed_since(&self, start: Timestamp, now: Timestamp) -> u64 {
        Self::passed_since(self, start, now)
    }

    fn bucket_end(&self, now: Timestamp) -> Timestamp {
        self.config().short().bucket_end(now)
    }
}
