//! The time of the newest record of a node.

use super::ResourceNode;
use super::generation::Generation;
use crate::time::{Clock, Timestamp};

impl<C: Clock> ResourceNode<C> {
    /// Returns a time before which everything was recorded: the end of the newest bucket in which a
    /// thread has recorded, or for which a thread has asked for a reservation. If there is no such
    /// bucket, it is the end of the bucket in which the node was made.
    ///
    /// The result may miss records that other threads make at the same time.
    pub(crate) fn recorded_before(&self) -> Timestamp {
        let long = &self.first.long;
        let made = long.made().saturating_add(long.config().bucket_len());
        let newest = self.generations().filter_map(Generation::newest_end).max();
        newest.map_or(made, |newest| newest.max(made))
    }
}
