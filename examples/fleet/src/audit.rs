//! The audit: how many requests were admitted in each window.
//!
//! A request was admitted between two times. If both are in the window, it certainly counts there.
//! If they are in different buckets, and one of these is outside of the window, it may count there.
//! The limit is broken if more requests than the limit certainly count in a window.
//!
//! A request that was sent to a process, and not answered because the process was killed, may have
//! been admitted or not. It never counts certainly.

use std::collections::BTreeMap;

use leaparray_redis::lease::LeaseConfig;

use crate::notes::Use;

/// The requests of a fleet, by the buckets of the server's time.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    limit: u64,
    buckets: u64,
    bucket_micros: u64,
    /// The numbers of admitted requests, by the buckets of their earliest and latest time.
    admitted: BTreeMap<(u64, u64), u64>,
    /// The highest difference of these buckets.
    widest: u64,
    /// The buckets of each lost request.
    lost: Vec<(u64, u64)>,
}

/// The requests in n consecutive buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first bucket.
    pub(crate) first: u64,
    pub(crate) certain: u64,
    pub(crate) at_most: u64,
}

impl Audit {
    pub(crate) fn new(
        config: &LeaseConfig,
        admitted: impl IntoIterator<Item = Use>,
        lost: impl IntoIterator<Item = Use>,
    ) -> Self {
        let bucket_micros = config.bucket_micros();
        let buckets = |it: Use| (it.earliest / bucket_micros, it.latest / bucket_micros);
        let mut audit = Self {
            limit: config.limit(),
            buckets: config.buckets().into(),
            bucket_micros,
            admitted: BTreeMap::new(),
            widest: 0,
            lost: lost.into_iter().map(buckets).collect(),
        };
        for (first, last) in admitted.into_iter().map(buckets) {
            *audit.admitted.entry((first, last)).or_default() += 1;
            audit.widest = audit.widest.max(last.saturating_sub(first));
        }
        audit
    }

    /// Returns the window that begins with this bucket.
    pub(crate) fn window(&self, first: u64) -> Window {
        let end = first + self.buckets;
        let (mut certain, mut at_most) = (0, 0);
        let before = first.saturating_sub(self.widest);
        for (&(earliest, latest), count) in self.admitted.range((before, 0)..(end, 0)) {
            if earliest >= first && latest < end {
                certain += count;
            }
            if latest >= first {
                at_most += count;
            }
        }
        let may = |&&(earliest, latest): &&(u64, u64)| earliest < end && latest >= first;
        at_most += self.lost.iter().filter(may).count() as u64;
        Window { first, certain, at_most }
    }

    /// Returns the window with the most requests that certainly count; `None` if none was admitted.
    ///
    /// A fullest window that begins with a bucket without requests has no more than the one that
    /// begins with the next request.
    pub(crate) fn highest(&self) -> Option<Window> {
        let mut firsts: Vec<u64> = self.admitted.keys().map(|&(first, _)| first).collect();
        firsts.dedup();
        firsts.into_iter().map(|it| self.window(it)).max_by_key(|it| (it.certain, it.at_most))
    }

    /// Returns the most requests that may have been in a window: those of which that is not known,
    /// and lost ones, count in each window that is possible.
    pub(crate) fn most_possible(&self) -> u64 {
        let firsts = self.admitted.keys().map(|it| it.0 + 1 - self.buckets.min(it.0 + 1));
        let (Some(first), Some(last)) = (firsts.min(), self.admitted.keys().map(|it| it.1).max())
        else {
            return 0;
        };
        (first..=last).map(|it| self.window(it).at_most).max().unwrap_or_default()
    }

    /// Returns the admitted requests that may have been in either of two buckets.
    pub(crate) fn unclear(&self) -> u64 {
        self.admitted.iter().filter(|((first, last), _)| first != last).map(|it| it.1).sum()
    }

    /// Returns which part of the limit was used in the windows that lie in one of these spans of
    /// time, in microseconds; `None` if none does.
    pub(crate) fn utilisation(&self, spans: &[(u64, u64)]) -> Option<f64> {
        let (mut used, mut allowed) = (0, 0);
        for &(begin, end) in spans {
            let firsts = begin.div_ceil(self.bucket_micros)..end / self.bucket_micros;
            for first in firsts.take_while(|it| (it + self.buckets) * self.bucket_micros <= end) {
                used += self.window(first).certain;
                allowed += self.limit;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        (allowed > 0).then(|| used as f64 / allowed as f64)
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the begin and the end of a window, in microseconds.
    pub(crate) const fn bounds(&self, window: &Window) -> (u64, u64) {
        let begin = window.first * self.bucket_micros;
        (begin, begin + self.buckets * self.bucket_micros)
    }
}
