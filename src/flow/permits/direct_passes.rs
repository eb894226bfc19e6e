//! The passes of a node that did not go through its limiter.

use crate::flow::contract::Passed;
use crate::flow::permits::Layout;
use crate::flow::permits::PermitWindow;
use crate::sync::{AtomicU64, Ordering, zeros};
use crate::time::{Timestamp, WindowConfig};

/// The *direct* passes in the window of a limiter: the passes of the node for which the limiter
/// took no permit.
///
/// They are counted when the first request asks in a bucket, of the limiter or of the node, and
/// cached for the rest of that bucket. Each count takes cache lines from the threads that record,
/// so a count for each request would cost more than the decision.
///
/// The word `known` is `{ bucket, known: 1, passes }`: the bucket with which the window ends, and
/// its direct passes.
///
/// # Orderings
///
/// Relaxed: a word is complete in itself. If `known` and `until` are of two counts, one of them is
/// older, and the result is a count that ends early, or one that is used a moment longer.
#[derive(Debug)]
pub(in crate::flow) struct DirectPasses {
    layout: Layout,
    known: AtomicU64,
    /// The time, in nanoseconds, from which the passes are counted again.
    until: AtomicU64,
}

impl DirectPasses {
    pub(in crate::flow) fn new(window: &WindowConfig) -> Self {
        let [known, until] = zeros();
        Self { layout: Layout::of(window), known, until }
    }

    /// Returns the direct passes of the window that ends with a bucket; `None` if they have to be
    /// counted.
    #[inline]
    pub(in crate::flow) fn get(&self, number: u64, now: Timestamp) -> Option<u64> {
        let known = self.layout.read(self.known.load(Ordering::Relaxed));
        let is_current = known.flag && known.number == number;
        (is_current && now.as_nanos() < self.until.load(Ordering::Relaxed)).then_some(known.count)
    }

    /// Returns the direct passes that were counted last, and the bucket with which their window
    /// ends, if any of them may be in the window of `samples` buckets that ends with bucket
    /// `number`.
    pub(in crate::flow) fn last(&self, number: u64, samples: u64) -> Option<(u64, u64)> {
        let known = self.layout.read(self.known.load(Ordering::Relaxed));
        let is_current = known.flag && known.number.saturating_add(samples) > number;
        is_current.then_some((known.number, known.count))
    }

    /// Counts the direct passes of the window that ends with a bucket, and returns them; `None` if
    /// a later bucket has become the newest.
    ///
    /// The node is read before the permits. Each pass of a request of the limiter that the read
    /// finds is then among the permits that were taken, so no request counts twice. A request whose
    /// pass is not recorded yet hides one direct pass.
    #[cold]
    pub(in crate::flow) fn count(
        &self,
        window: &PermitWindow,
        node: &dyn Passed,
        number: u64,
        now: Timestamp,
    ) -> Option<u64> {
        // Up to the end of the newest bucket, also for a thread with a stale `now`.
        let passed = node.passed_since(window.oldest(number), window.last_moment(number));
        let taken = window.taken_in(number)?;
        let direct = passed.saturating_sub(taken).min(self.layout.max_count());
        let known = self.layout.flagged(self.layout.word(number, direct));
        self.known.store(known, Ordering::Relaxed);
        self.until.store(node.bucket_end(now).as_nanos(), Ordering::Relaxed);
        Some(direct)
    }
}
