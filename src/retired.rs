//! What the slots of an array have held before.

use crate::bucket::Bucket;
use crate::sync::{Arc, Held, Ordering, fence};
use crate::timestamp::Timestamp;
use crate::wrap::BucketWrap;

/// The retired wraps of an array: an immutable value that is swapped as a whole.
///
/// A wrap is retired *before* another one takes its slot, so that at every moment each wrap is in
/// a slot, or here, or both, and a reader that looks at the slots first and here last has missed
/// nothing. Who stalled while recording may still add to a retired wrap, so it stays readable until
/// nobody else holds it, and only then is it added up.
pub(crate) struct Retired<B: Bucket> {
    /// The final counts of the wraps that nobody can add to any more.
    settled: B::Total,
    /// The wraps that somebody may still add to.
    open: Vec<Arc<BucketWrap<B>>>,
}

impl<B: Bucket> Retired<B> {
    pub(crate) fn empty() -> Self {
        Self { settled: B::Total::default(), open: Vec::new() }
    }

    /// Makes this what `before` becomes when `wrap` is retired; `false` if that is there already.
    ///
    /// The caller holds `wrap`, so it has not been settled: it is in `before.open` or not retired.
    pub(crate) fn follow(&mut self, before: Option<&Self>, wrap: &Held<BucketWrap<B>>) -> bool {
        let Some(wrap) = wrap.to_arc() else { return false };
        self.settled = B::Total::default();
        self.open.clear();
        if let Some(before) = before {
            if before.is_open(wrap.start()) {
                return false;
            }
            self.settled.clone_from(&before.settled);
            before.open.iter().for_each(|wrap| self.settle_or_keep(wrap));
        }
        self.open.push(wrap);
        true
    }

    /// Adds a wrap up if nobody else holds it.
    fn settle_or_keep(&mut self, wrap: &Arc<BucketWrap<B>>) {
        // A count of one is the list's own. The slot has given the wrap up then, and turned what
        // loads had lent of it into counts before it did. It stays so: a wrap that has left its
        // slot can be had from the list alone, and nothing in there is handed out.
        if Arc::strong_count(wrap) == 1 {
            // Acquire: pairs with the Release of every count that was dropped. What was done
            // through a loan that was returned before happens before the slot's own drop: arc-swap
            // may free the value as soon as the other counts are gone, too.
            fence(Ordering::Acquire);
            self.settled += &wrap.bucket().total();
        } else {
            self.open.push(Arc::clone(wrap));
        }
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

/// Memory that has been used and is nobody's: what a rotation needs, so that it need not allocate.
pub(crate) struct Spare<B: Bucket> {
    retired: Option<Arc<Retired<B>>>,
    /// A few: hands let go of their wraps at different times.
    wraps: Vec<Arc<BucketWrap<B>>>,
}

impl<B: Bucket> Spare<B> {
    const MAX_WRAPS: usize = 8;

    pub(crate) const fn none() -> Self {
        Self { retired: None, wraps: Vec::new() }
    }

    /// A fresh wrap of that start.
    pub(crate) fn wrap(&mut self, start: Timestamp) -> Arc<BucketWrap<B>> {
        let spare = self.wraps.pop().and_then(|mut spare| {
            Arc::get_mut(&mut spare)?.recycle(start);
            Some(spare)
        });
        spare.unwrap_or_else(|| Arc::new(BucketWrap::empty(start)))
    }

    /// A list to [fill](Retired::follow), which nobody else has.
    pub(crate) fn retired(&mut self) -> Arc<Retired<B>> {
        self.retired.take().unwrap_or_else(|| Arc::new(Retired::empty()))
    }

    pub(crate) fn keep_wrap(&mut self, wrap: Arc<BucketWrap<B>>) {
        if self.wraps.len() < Self::MAX_WRAPS {
            self.wraps.push(wrap);
        }
    }

    /// Keeps a list that another one has taken the place of, and of the wraps in it one that was
    /// settled there. Whoever else has either keeps it from being used again.
    pub(crate) fn keep_retired(&mut self, mut replaced: Arc<Retired<B>>) {
        let Some(retired) = Arc::get_mut(&mut replaced) else { return };
        for mut wrap in retired.open.drain(..) {
            // Alone: not even the next list has it, and that takes over all but the settled.
            if Arc::get_mut(&mut wrap).is_some() {
                self.keep_wrap(wrap);
            }
        }
        self.retired = Some(replaced);
    }
}
