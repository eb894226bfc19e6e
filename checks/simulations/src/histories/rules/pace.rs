//! The plain reference of a pace, from the documentation of `LeakyBucket`.

/// The due time of the last request that was admitted, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    latest: Option<u64>,
}

impl Pace {
    /// Returns the wait of a request for permits that are `interval` apart: it is due as many
    /// intervals after the last admitted request. If that has passed, it goes ahead at once.
    pub(super) fn wait(self, interval: u64, permits: u64, now: u64) -> u64 {
        self.latest.map_or(0, |latest| (latest + permits * interval).saturating_sub(now))
    }

    /// Takes the time of a request that is admitted.
    pub(super) fn take(&mut self, interval: u64, permits: u64, now: u64) {
        self.latest = Some(now + self.wait(interval, permits, now));
    }

    /// Gives the time of the last admitted request back. The next request for n permits is due n
    /// intervals after the request before. If the request went ahead after an idle time, that time
    /// is not known any more.
    pub(super) fn give_back(&mut self, interval: u64, permits: u64) {
        self.latest = self.latest.map(|latest| latest - permits * interval);
    }
}
