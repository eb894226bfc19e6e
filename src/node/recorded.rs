//! When a node was last recorded in.

use super::ResourceNode;
use super::generation::Generation;
use crate::time::{Clock, Timestamp};

impl<C: Clock> ResourceNode<C> {
    /// Nothing was recorded with this time or a later one: the end of the newest bucket that anything
    /// was recorded in, permits that were taken before their time included; if nothing was, of that in
    /// which the node was made.
    ///
    /// What is recorded meanwhile it may miss.
    pub(crate) fn recorded_before(&self) -> Timestamp {
        let minute = &self.first.minute;
        let made = minute.made().saturating_add(minute.config().bucket_len());
        let newest = self.generations().filter_map(Generation::newest_end).max();
        newest.map_or(made, |newest| newest.max(made))
    }
}
