//! The length of epochs, by the response times.

use std::time::Duration;

use super::algorithm::EpochCalls;

/// A length of epochs that is doubled while many calls of an epoch have not ended when the
/// algorithm is told of it, an epoch later. The response times of such an epoch are too short.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochLength {
    shortest: Duration,
    length: Duration,
}

impl EpochLength {
    /// The longest length. The calls of a backend that takes longer are seen as shorter than they
    /// are.
    pub(super) const LONGEST: Duration = Duration::from_secs(30);

    pub(super) const fn new(shortest: Duration) -> Self {
        Self { shortest, length: shortest }
    }

    pub(super) const fn get(self) -> Duration {
        self.length
    }

    /// Returns whether at least nine of ten calls of an epoch have ended.
    pub(super) fn is_complete(epoch: &EpochCalls<'_>) -> bool {
        let unfinished = epoch.unfinished();
        unfinished * 10 <= unfinished + epoch.response_times.count()
    }

    /// Doubles the length.
    pub(super) fn lengthen(&mut self) {
        self.length = (self.length * 2).min(Self::LONGEST);
    }

    /// Halves the length, but not below twice a response time that few calls exceed.
    pub(super) fn shorten(&mut self, response_time: Duration) {
        let least = (response_time * 2).clamp(self.shortest, Self::LONGEST);
        self.length = least.max(self.length / 2);
    }
}
