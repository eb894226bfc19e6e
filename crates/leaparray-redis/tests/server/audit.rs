//! The admitted permits, by the server's time.

use leaparray_redis::lease::LeaseConfig;

/// A permit that was used between two readings of the time of day, in microseconds. The server is
/// on the same machine, and reads the same clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) after: u64,
    pub(crate) before: u64,
}

/// The uses of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Each sorted.
    after: Vec<u64>,
    before: Vec<u64>,
}

impl Audit {
    pub(crate) fn new(uses: impl IntoIterator<Item = Use>) -> Self {
        let (mut after, mut before): (Vec<_>, Vec<_>) =
            uses.into_iter().map(|it| (it.after, it.before)).unzip();
        after.sort_unstable();
        before.sort_unstable();
        Self { after, before }
    }

    pub(crate) fn total(&self) -> u64 {
        self.after.len() as u64
    }

    /// Returns the most uses that were certainly in one interval. It begins with a use. No use
    /// takes longer than an interval.
    pub(crate) fn most(&self, config: LeaseConfig) -> u64 {
        let interval = u64::try_from(config.interval().as_micros()).unwrap();
        let within = |(first, &from): (usize, &u64)| {
            let ended = self.before.partition_point(|it| *it < from + interval);
            (ended - first) as u64
        };
        // Of uses that begin at one time, the first one has all of them.
        self.after.iter().enumerate().map(within).max().unwrap_or_default()
    }

    /// Panics if an interval has more uses than the limit, or if less than `share` of what the
    /// limit allows in `secs` was used: a test without load shows nothing.
    #[track_caller]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub(crate) fn check(&self, config: LeaseConfig, secs: f64, share: f64) {
        let (most, total) = (self.most(config), self.total());
        let allowed = config.limit() as f64 * secs / config.interval().as_secs_f64();
        println!("{total} of {allowed:.0} permits, {most} of {} in an interval", config.limit());
        assert!(most <= config.limit(), "{most} uses in an interval");
        assert!(total as f64 >= share * allowed, "{total} uses of {allowed}");
    }
}
