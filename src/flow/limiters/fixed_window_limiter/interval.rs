//! The arithmetic of a fixed window whose state is one word.

use crate::flow::contract::Quota;
use crate::flow::permits::{Layout, NotAdmitted, Rule, Take, Taken, Usage};
use crate::node::Reason;
use crate::time::{Timestamp, WindowConfig};

/// The settings of a fixed window: plain data.
///
/// The state of a window is an interval, and the permits that were taken in it: the direct word of
/// a [`PermitWindow`](crate::flow::permits::PermitWindow) of one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    config: WindowConfig,
    layout: Layout,
    limit: u64,
}

impl Interval {
    /// Creates the settings. The limit is not above the maximum of the geometry, which has one
    /// bucket.
    pub(in crate::flow) const fn new(config: WindowConfig, limit: u64) -> Self {
        Self { config, layout: Layout::of(&config), limit }
    }

    fn number_at(&self, nanos: u64) -> u64 {
        self.config.bucket_number(Timestamp::from_nanos(nanos))
    }

    fn start_of(&self, number: u64) -> u64 {
        self.config.start_of(number).as_nanos()
    }

    /// Returns the interval in which a request at `now` is decided, and the permits that were taken
    /// in it.
    #[inline]
    fn bucket_of(&self, word: u64, now: u64) -> (u64, u64) {
        let (number, last) = (self.number_at(now), self.layout.read(word));
        if number > last.number { (number, 0) } else { (last.number, last.count) }
    }

    /// Returns the end of an interval; `None` if it is after the end of time.
    fn end(&self, number: u64) -> Option<u64> {
        (number + 1).checked_mul(self.config.bucket_nanos())
    }
}

impl Rule for Interval {
    const REASON: Reason = Reason::LimitReached;

    /// Returns a window without permits in the interval of `since`. A request before that interval
    /// counts in it.
    fn new_word(&self, since: u64) -> u64 {
        self.layout.word(self.number_at(since), 0)
    }

    #[inline]
    fn decide(&self, word: u64, take: Take) -> Result<Taken, NotAdmitted> {
        let (number, taken) = self.bucket_of(word, take.now);
        if Usage::new(self.limit, taken).admits(take.permits) {
            let word = self.layout.word(number, taken + take.permits);
            return Ok(Taken { word, wait: 0 });
        }
        Err(if take.permits > self.limit {
            NotAdmitted::MoreThanLimit
        } else {
            self.end(number).map_or(NotAdmitted::Never, NotAdmitted::Until)
        })
    }

    /// Returns the end of the interval in which permits were last taken.
    #[inline]
    fn as_new_at(&self, word: u64) -> Option<u64> {
        let last = self.layout.read(word);
        if last.count == 0 { Some(self.start_of(last.number)) } else { self.end(last.number) }
    }

    fn quota(&self, word: u64, now: u64) -> Option<Quota> {
        let (number, taken) = self.bucket_of(word, now);
        let reset = if taken == 0 { Some(now) } else { self.end(number) };
        let remaining = Usage::new(self.limit, taken).remaining();
        let quota = Quota::new(self.limit, remaining, reset.map(Timestamp::from_nanos));
        Some(quota.with_window(self.config.interval()))
    }

    /// The permits that were taken in the present interval, or in a later one, count in the
    /// interval of the same time under the next settings. When each of them was taken is not known.
    fn carry(&self, word: u64, next: &Self, now: u64) -> u64 {
        let (number, taken) = self.bucket_of(word, now);
        let time = now.max(self.start_of(number));
        next.layout.word(next.number_at(time), taken.min(next.layout.max_count()))
    }
}
