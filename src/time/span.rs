//! A span of time, and its buckets in any geometry.

use std::ops::RangeInclusive;

use super::timestamp::Timestamp;
use super::window_config::WindowConfig;

/// A span of time. Both ends are included, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    first: u64,
    end: SpanEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanEnd {
    /// Up to the end of the bucket that contains this time, whatever its length: nothing was
    /// recorded after that bucket.
    Now(u64),
    /// Up to this time: a bucket that ends later is not included.
    Whole(u64),
}

impl Span {
    /// Returns the span from `start`, the start of a bucket, up to the end of the bucket of `now`.
    pub(crate) const fn until_now(start: Timestamp, now: Timestamp) -> Self {
        Self { first: start.as_nanos(), end: SpanEnd::Now(now.as_nanos()) }
    }

    /// Returns the span of `nanos` nanoseconds from `start` on, cut at the end of time.
    pub(crate) const fn of(start: Timestamp, nanos: u64) -> Self {
        let first = start.as_nanos();
        Self { first, end: SpanEnd::Whole(first.saturating_add(nanos - 1)) }
    }

    /// Returns the start.
    pub(crate) const fn start(&self) -> Timestamp {
        Timestamp::from_nanos(self.first)
    }

    /// Returns the buckets of a geometry that are within the span; `None` if there are none. A
    /// bucket that begins earlier is left out: its counts cannot be split by time.
    pub(crate) fn buckets(&self, config: &WindowConfig) -> Option<RangeInclusive<u64>> {
        let len = config.bucket_nanos();
        let first = self.first.div_ceil(len);
        let last = match self.end {
            SpanEnd::Now(now) => now / len,
            // A bucket is included only if its last nanosecond is, except for the last bucket of
            // all, which the end of time cuts short.
            SpanEnd::Whole(end) => match end.checked_add(1) {
                Some(after) => (after / len).checked_sub(1)?,
                None => end / len,
            },
        };
        (first <= last).then_some(first..=last)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(millis: u64) -> WindowConfig {
        WindowConfig::new(60, Duration::from_millis(60 * millis)).unwrap()
    }

    #[test]
    fn span_takes_in_the_buckets_that_lie_within() {
        let t = Timestamp::from_millis;
        let second = Span::of(t(3_000), 1_000_000_000);
        assert_eq!(second.buckets(&config(500)), Some(6..=7));
        assert_eq!(second.buckets(&config(1_000)), Some(3..=3));
        assert_eq!(second.buckets(&config(400)), Some(8..=9));
        assert_eq!(second.buckets(&config(700)), None);
        assert_eq!(second.buckets(&config(2_000)), None);
        assert_eq!(Span::of(t(0), 1).buckets(&config(1)), None);
        let shortest = WindowConfig::new(1, Duration::from_nanos(2)).unwrap();
        let t = Timestamp::from_nanos;
        let buckets = [3, 4, 5].map(|nanos| Span::of(t(10), nanos).buckets(&shortest));
        assert_eq!(buckets, [5..=5, 5..=6, 5..=6].map(Some));
    }

    #[test]
    fn span_up_to_now_includes_the_bucket_of_now() {
        let t = Timestamp::from_millis;
        let last = Span::until_now(t(9_500), t(10_300));
        assert_eq!(last.buckets(&config(500)), Some(19..=20));
        assert_eq!(last.buckets(&config(1_000)), Some(10..=10));
        assert_eq!(last.buckets(&config(2_000)), Some(5..=5));
        assert_eq!(last.buckets(&config(4_000)), None, "the bucket began at 8 s");
        // More buckets than the ring has, as after a long time without records.
        assert_eq!(Span::until_now(t(0), t(600_000)).buckets(&config(1_000)), Some(0..=600));
    }

    #[test]
    fn at_the_end_of_time() {
        let config = config(1_000);
        let last = config.bucket_number(Timestamp::MAX);
        let span = Span::of(config.bucket_start(Timestamp::MAX), 1_000_000_000);
        assert_eq!(span.buckets(&config), Some(last..=last));
    }
}
