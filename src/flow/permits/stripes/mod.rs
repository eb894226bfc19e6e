//! Stripes: words on cache lines of their own, from which threads take permits while they compete
//! for the word of a limiter.

mod shares;

use crossbeam_utils::CachePadded;

pub(in crate::flow) use shares::Shares;

use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU64, AtomicUsize, Ordering, pass_stripes, stripe, zeros};

/// The number of stripes, a power of two. If more threads ask at once, they share stripes.
///
/// It does not depend on the number of processors. The system tells a thread only on how many of
/// them that thread may run, and the call takes longer than many epochs. In models, epochs have two
/// stripes or four.
pub(in crate::flow) const STRIPES: usize = if cfg!(loom) { 4 } else { 16 };

/// The bit of a frozen stripe. The bits below it are the permits that the stripe has left.
const FROZEN: u64 = 1 << 16;

/// The highest number of permits of a stripe.
pub(in crate::flow) const MAX_LEFT: u64 = FROZEN - 1;

const EPOCH_SHIFT: u32 = FROZEN.trailing_zeros() + 1;

/// The bits of the permits that all other stripes have left.
const OTHERS_BITS: u32 = FROZEN.trailing_zeros() + STRIPES.trailing_zeros();

/// The lowest bits of the place of a thread, as many as a reading has.
const PLACE: usize = (1 << 8) - 1;

/// The number of permits of a stripe after which the other stripes are read again.
const RECENT: u64 = 32;

/// The stripes of a limiter, and the terms of the epoch that was prepared last. The head of
/// [`permit_window::epoch`](crate::flow::permits) has the protocol and the orderings.
///
/// The word of a stripe is `{ epoch: 47, frozen: 1, permits left: 16 }`. Epochs are numbered over
/// the life of the limiter, so no word of an earlier epoch recurs.
#[derive(Debug)]
pub(in crate::flow) struct Stripes {
    /// Twice the number of epochs that were prepared, plus one while a thread prepares the next
    /// one.
    prepared: AtomicU64,
    /// The last striped word of the limiter. Only a preparing thread uses it.
    last_word: AtomicU64,
    limit: AtomicU64,
    /// The permits of the limiter that are taken once the stripes have none left.
    granted: AtomicU64,
    /// The number of stripes that have got permits: a power of two.
    width: AtomicUsize,
    words: Box<[CachePadded<Words>]>,
}

/// A stripe, and what a thread that takes from it has read of the others.
#[derive(Debug)]
struct Words {
    stripe: AtomicU64,
    /// `{ epoch: 20, place of the thread: 8, permits left of this stripe: 16, permits left of the
    /// others: 20 }`, of one reading. The place changes when the thread passes on to another
    /// stripe.
    ///
    /// Relaxed: the word is complete in itself, and used only for what a caller is told.
    read: AtomicU64,
}

/// A stripe that has enough permits for a request, or enough room for permits that are given back.
pub(in crate::flow) struct Offer<'a> {
    stripe: &'a AtomicU64,
    word: u64,
}

const fn left_in(word: u64) -> u64 {
    word & MAX_LEFT
}

impl Stripes {
    pub(in crate::flow) fn new() -> Self {
        let [prepared, last_word, limit, granted] = zeros();
        let words = || Words { stripe: AtomicU64::new(FROZEN), read: AtomicU64::new(0) };
        let words = (0..STRIPES).map(|_| CachePadded::new(words())).collect();
        Self { prepared, last_word, limit, granted, width: AtomicUsize::new(STRIPES), words }
    }

    /// Finds a stripe that has `permits` permits, beginning with the stripe of this thread. Returns
    /// `None` if there is none, if the epoch is ending, or if `limit` is lower than the limit of
    /// the epoch.
    #[inline]
    pub(in crate::flow) fn find(&self, permits: u64, limit: u64) -> Option<Offer<'_>> {
        if limit < self.limit.load(Ordering::Acquire) {
            return None;
        }
        let (own, width) = (stripe(), self.width.load(Ordering::Acquire));
        for passed in 0..width {
            let stripe = &self.words[own.after(passed) & (width - 1)].stripe;
            let word = stripe.load(Ordering::Acquire);
            if word & FROZEN != 0 {
                return None;
            }
            if permits <= left_in(word) {
                // The next request of this thread begins with that stripe.
                pass_stripes(passed);
                return Some(Offer { stripe, word });
            }
        }
        None
    }

    /// Finds a stripe that has room for `permits` permits, beginning with the stripe of this
    /// thread. Returns `None` if there is none, or if the epoch is ending.
    #[inline]
    pub(in crate::flow) fn find_room(&self, permits: u64) -> Option<Offer<'_>> {
        let (own, width) = (stripe(), self.width.load(Ordering::Acquire));
        for passed in 0..width {
            let stripe = &self.words[own.after(passed) & (width - 1)].stripe;
            let word = stripe.load(Ordering::Acquire);
            if word & FROZEN != 0 {
                return None;
            }
            if permits <= MAX_LEFT - left_in(word) {
                return Some(Offer { stripe, word });
            }
        }
        None
    }

    /// Freezes the stripes, and returns the permits of the limiter that are taken by then.
    pub(in crate::flow) fn freeze(&self) -> u64 {
        self.sum(|stripe| {
            // Acquire: pairs with the Release in `give_back`. The word of the limiter passes on
            // that the stripe is frozen.
            let word = stripe.fetch_or(FROZEN, Ordering::Acquire);
            stall::at(Point::StripeFrozen);
            word
        })
    }

    /// Returns the permits of the limiter that are taken. If other threads take permits during the
    /// call, the result lies between the numbers before and after it.
    pub(in crate::flow) fn taken(&self) -> u64 {
        self.sum(|stripe| stripe.load(Ordering::Acquire))
    }

    /// As [`taken`](Self::taken), with the permits of other stripes by a reading that is up to
    /// [`RECENT`] permits of this thread's stripe old. So a thread that reads after each permit
    /// rarely takes the cache lines of the others.
    pub(in crate::flow) fn taken_recently(&self) -> u64 {
        // Before the stripes. Acquire: pairs with the Release in `drop` of `Preparation`.
        let prepared = self.prepared.load(Ordering::Acquire);
        let (place, width) = (stripe().after(0), self.width.load(Ordering::Acquire));
        let own = place & (width - 1);
        let Words { stripe, read } = &*self.words[own];
        let found = stripe.load(Ordering::Acquire);
        let (epoch, left) = (found >> EPOCH_SHIFT, left_in(found));
        let of = epoch << PLACE.count_ones() | (place & PLACE) as u64;
        // The highest bits of the epoch are shifted out.
        let mark = of << FROZEN.trailing_zeros() << OTHERS_BITS;
        let (known, most) = (read.load(Ordering::Relaxed), (1 << OTHERS_BITS) - 1);
        let left_then = (known >> OTHERS_BITS) & MAX_LEFT;
        let is_of_this = known ^ mark <= (MAX_LEFT << OTHERS_BITS | most);
        let is_known = found & FROZEN == 0 && is_of_this && left_then.wrapping_sub(left) < RECENT;
        let others = if is_known {
            known & most
        } else {
            let others = self.words[..width].iter().enumerate().filter(|(at, _)| *at != own);
            let left_in = |words: &Words| left_in(words.stripe.load(Ordering::Acquire));
            let others = others.map(|(_, words)| left_in(words)).sum();
            // While an epoch is prepared, its stripes may get other permits. If the others are of a
            // later epoch, that of this stripe is over, and so is the use of its mark.
            if prepared >= 2 * epoch {
                read.store(mark | left << OTHERS_BITS | others, Ordering::Relaxed);
            }
            others
        };
        // As in `sum`.
        self.granted.load(Ordering::Acquire).wrapping_sub(left + others)
    }

    fn sum(&self, read: impl Fn(&AtomicU64) -> u64) -> u64 {
        let granted = self.granted.load(Ordering::Acquire);
        let width = self.width.load(Ordering::Acquire);
        let left = self.words[..width].iter().map(|words| left_in(read(&words.stripe))).sum();
        // Wraps around only if the numbers are of two epochs. The caller then does not use the
        // result.
        granted.wrapping_sub(left)
    }

    /// Begins to prepare an epoch. Returns `None` if another thread prepares one.
    pub(in crate::flow) fn prepare(&self) -> Option<Preparation<'_>> {
        let found = self.prepared.load(Ordering::Relaxed);
        if found & 1 == 1 {
            return None;
        }
        // Acquire: pairs with the Release in `drop`. This thread finds the limiter's word as the
        // last preparing thread has left it, or later.
        let (to, order) = (found + 1, Ordering::Acquire);
        self.prepared.compare_exchange(found, to, order, Ordering::Relaxed).ok()?;
        Some(Preparation { stripes: self, epoch: found / 2 + 1 })
    }
}

impl Offer<'_> {
    /// Takes permits from the stripe; fails if the stripe has changed.
    #[inline]
    pub(in crate::flow) fn take(self, permits: u64) -> bool {
        // Acquire: pairs with the Release in `give_back`. The modification order of the stripe
        // decides whether the permits are taken before it is frozen.
        self.change(self.word - permits, Ordering::Acquire)
    }

    /// Gives permits back to the stripe; fails if the stripe has changed.
    #[inline]
    pub(in crate::flow) fn give_back(self, permits: u64) -> bool {
        // Release: pairs with the Acquire in `take` and in `freeze`.
        self.change(self.word + permits, Ordering::Release)
    }

    #[inline]
    fn change(&self, to: u64, order: Ordering) -> bool {
        let Err(found) = self.stripe.compare_exchange(self.word, to, order, Ordering::Relaxed)
        else {
            return true;
        };
        if found & FROZEN == 0 {
            // Another thread uses this stripe.
            pass_stripes(1);
        }
        false
    }
}

/// The exclusive right to prepare the next epoch, and to begin it.
pub(in crate::flow) struct Preparation<'a> {
    stripes: &'a Stripes,
    epoch: u64,
}

impl Preparation<'_> {
    /// Makes all striped words below `word` count as used.
    #[cfg(all(test, not(loom)))]
    pub(in crate::flow) fn skip_words_below(&self, word: u64) {
        self.stripes.last_word.store(word, Ordering::Relaxed);
    }

    /// Returns a striped word that the limiter has not had yet: `step` above the last one, and at
    /// least `first`. Returns `None` if there is no more.
    pub(in crate::flow) fn next_word(&self, first: u64, step: u64) -> Option<u64> {
        let last = &self.stripes.last_word;
        // Relaxed: preparations are ordered by `prepared`.
        let next = first.max(last.load(Ordering::Relaxed).checked_add(step)?);
        last.store(next, Ordering::Relaxed);
        Some(next)
    }

    /// Gives the stripes their permits. `limit` is the limit of the epoch.
    pub(in crate::flow) fn share_out(&self, limit: u64, shares: Shares) {
        let Self { stripes, epoch } = self;
        stripes.limit.store(limit, Ordering::Release);
        stripes.width.store(shares.width, Ordering::Release);
        for words in &stripes.words[..shares.width] {
            // A swap rather than a store: a thread that has stalled may freeze the stripe at the
            // same time, and loom orders such changes only if all of them are read-modify-writes.
            words.stripe.swap(epoch << EPOCH_SHIFT | shares.of_stripe, Ordering::Release);
        }
    }

    /// Counts the permits of the stripes as granted: `taken` permits are taken already.
    pub(in crate::flow) fn grant(&self, taken: u64, shares: Shares) {
        self.stripes.granted.store(taken + shares.sum(), Ordering::Release);
    }
}

impl Drop for Preparation<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `prepare`.
        self.stripes.prepared.store(2 * self.epoch, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A thread that found the last epoch running has stalled, and reads while the next one is
    /// prepared. The permits that are left become fewer, and are shared out again.
    #[test]
    fn reading_of_stripes_that_are_still_prepared_is_not_used_again() {
        let stripes = Stripes::new();
        let preparation = stripes.prepare().expect("no other thread prepares");
        for (taken, of_stripe) in [(10, 100), (40, 90)] {
            let shares = Shares { width: 4, of_stripe };
            preparation.share_out(500, shares);
            preparation.grant(taken, shares);
            let _: u64 = stripes.taken_recently();
        }
        let shares = Shares { width: 4, of_stripe: 80 };
        preparation.share_out(500, shares);
        preparation.grant(80, shares);
        drop(preparation);
        for taken in 80..200 {
            assert_eq!([stripes.taken_recently(), stripes.taken()], [taken; 2]);
            assert!(stripes.find(1, 500).is_some_and(|it| it.take(1)));
        }
    }
}
