//! What the slots of an array have held before.

use crate::bucket::Bucket;
use crate::sync::{Arc, Ordering, fence};
use crate::timestamp::Timestamp;
use crate::wrap::BucketWrap;

/// The retired wraps of an array: an immutable value that is swapped as a whole.
///
/// A wrap is retired *before* another one takes its slot, so that at every moment each wrap is in
/// a slot, or here, or both, and a reader that sees this value unchanged around its look at the
/// slots has missed nothing. Who stalled while recording may still add to a retired wrap, so it
/// stays readable until nobody else holds it, and only then is it added up.
#[derive(Debug)]
pub(crate) struct Retired<B: Bucket> {
    /// The final counts of the wraps that nobody can add to any more.
    settled: B::Total,
    /// The wraps that somebody may still add to.
    open: Vec<Arc<BucketWrap<B>>>,
}

impl<B: Bucket> Retired<B> {
    /// What `before` becomes when `wrap` is retired; `None` if it is already there.
    ///
    /// The caller holds `wrap`, so it has not been settled: it is in `before.open` or not retired.
    pub(crate) fn with(before: Option<&Self>, wrap: Arc<BucketWrap<B>>) -> Option<Self> {
        let Some(before) = before else {
            return Some(Self { settled: B::Total::default(), open: vec![wrap] });
        };
        if before.is_open(wrap.start()) {
            return None;
        }
        let (settled, mut open) = before.settle();
        open.push(wrap);
        Some(Self { settled, open })
    }

    /// Adds up the open wraps that nobody else holds.
    fn settle(&self) -> (B::Total, Vec<Arc<BucketWrap<B>>>) {
        let mut settled = self.settled.clone();
        let mut open = Vec::with_capacity(self.open.len() + 1);
        for wrap in &self.open {
            // A count of one is this list's own. The slot has given the wrap up then, and turned
            // what loads had lent of it into counts before it did. It stays so: a wrap that has
            // left its slot can be had from here alone, and nothing here is handed out.
            if Arc::strong_count(wrap) == 1 {
                // Acquire: pairs with the Release of every count that was dropped. What was done
                // through a loan that was returned before happens before the slot's own drop:
                // arc-swap may free the value as soon as the other counts are gone, too.
                fence(Ordering::Acquire);
                settled += &wrap.bucket().total();
            } else {
                open.push(Arc::clone(wrap));
            }
        }
        (settled, open)
    }

    /// Whether the wrap of that start is retired and open. Starts identify wraps: each bucket
    /// number has one wrap at most.
    fn is_open(&self, start: Timestamp) -> bool {
        self.open.iter().any(|wrap| wrap.start() == start)
    }

    pub(crate) fn settled(&self) -> &B::Total {
        &self.settled
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &BucketWrap<B>> {
        self.open.iter().map(|wrap| &**wrap)
    }
}
