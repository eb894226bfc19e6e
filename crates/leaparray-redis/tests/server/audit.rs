//! The admitted permits, by the server's time.

use std::collections::BTreeMap;

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
    /// By bucket of the server's time.
    used: BTreeMap<u64, u64>,
    /// Uses that may have been in two buckets.
    unclear: u64,
}

impl Audit {
    pub(crate) fn new(config: LeaseConfig, uses: impl IntoIterator<Item = Use>) -> Self {
        let mut audit = Self::default();
        for it in uses {
            let bucket = it.after / config.bucket_micros();
            if bucket == it.before / config.bucket_micros() {
                *audit.used.entry(bucket).or_default() += 1;
            } else {
                audit.unclear += 1;
            }
        }
        audit
    }

    pub(crate) fn total(&self) -> u64 {
        self.used.values().sum()
    }

    /// Returns the most uses in a window.
    pub(crate) fn most(&self, config: LeaseConfig) -> u64 {
        let window = |first: u64| -> u64 {
            self.used.range(first..first + u64::from(config.buckets())).map(|it| it.1).sum()
        };
        self.used.keys().map(|&first| window(first)).max().unwrap_or_default()
    }

    /// Panics if a window has more uses than the limit, or if less than `share` of what the limit
    /// allows in `secs` was used: a test without load shows nothing.
    #[track_caller]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub(crate) fn check(&self, config: LeaseConfig, secs: f64, share: f64) {
        let (most, total) = (self.most(config), self.total());
        let windows = secs / config.bucket_len().as_secs_f64() / f64::from(config.buckets());
        let allowed = config.limit() as f64 * windows;
        println!(
            "{total} of {allowed:.0} permits, {most} of {} in a window, {} unclear",
            config.limit(),
            self.unclear
        );
        assert!(most <= config.limit(), "{most} uses in a window");
        assert!(total as f64 >= share * allowed, "{total} uses of {allowed}");
        assert!(self.unclear <= total / 20, "{} of {total} uses are unclear", self.unclear);
    }
}
