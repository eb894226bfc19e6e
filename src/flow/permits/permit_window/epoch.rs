//! Epochs, in which threads take the permits of a window from stripes instead of from one word.
//!
//! While one word decides, threads that are admitted compete for its cache line. So a thread that
//! has lost a compare-exchange to another one divides most of the permits that are left
//! among *stripes*: words on lines of their own. An *epoch* is the time in which the permits of a
//! window are taken from stripes. The window's word is then *striped*: it has the bucket and a
//! number in place of the count. Otherwise, it is *direct* or closed. Striped words only grow, so
//! none recurs.
//!
//! ```text
//!           begin                    end
//!  direct ─────────▶ striped word ─────────▶ direct, or closed if a later bucket is opened
//!  stripes: prepared │ taken from │ frozen
//! ```
//!
//! # The protocol by role
//!
//! - *A thread that begins* an epoch first acquires the right to prepare it, which one thread has
//!   at a time. It finds the window's word direct, stores the terms of the epoch and the permits of
//!   each stripe, and replaces the word by a striped one. Seven eighths of the permits that are
//!   left go to the stripes. If the word has changed by then, the thread tries again with the same
//!   stripes, as long as their permits are left. Only this thread can begin an epoch, so none is
//!   running while it prepares. If it stalls, the other threads take permits from the word.
//! - *A thread that takes* permits reads the terms and a stripe, and *validates* the window's word:
//!   if the word is unchanged, what the thread has read is of the running epoch. Then it takes the
//!   permits by a compare-exchange on the stripe, which is the linearization point. No word of a
//!   stripe recurs. So if the exchange succeeds, the stripe was not frozen yet, and the epoch is
//!   still running.
//! - *A thread that ends* the epoch, because no stripe has enough permits or because its time is in
//!   a later bucket, freezes every stripe, adds up the permits that were taken, and replaces the
//!   striped word by the sum. Any thread can do that (helping). All threads find the same sum,
//!   since a frozen stripe does not change before the next preparation.
//! - *A reader* adds up the stripes and validates the word. The permits in the stripes only
//!   decrease during an epoch, so the sum lies between the sums at the beginning and at the end of
//!   the reading.
//!
//! # The promises
//!
//! - The stripes get no more permits than the limit leaves, by the very word that the striped word
//!   replaces. So the limit holds.
//! - A request is refused by a direct word only. Then no epoch is running, and the word counts all
//!   permits that were taken. Permits in stripes that are being prepared are not taken yet. So no
//!   permit is hidden in a stripe.
//! - Permits of a stripe count in the bucket of the striped word. That is not older than the
//!   request's own bucket.
//! - The operations are lock-free. An epoch begins only after another thread was admitted, so
//!   threads that begin and end epochs do not keep each other from admissions for ever.
//!
//! # Orderings
//!
//! - The change to the striped word releases, and each load of the window's word acquires. A thread
//!   that finds the word striped finds the terms and the stripes of its epoch, or of a later one.
//! - Terms and stripes are stored with Release and loaded with Acquire. A thread that finds those
//!   of a later epoch has acquired the end of its own. So its validation fails, and its
//!   compare-exchange on the window's word as well.
//! - Taking and freezing are read-modify-writes of a stripe. They continue the release sequence of
//!   its store, and the modification order decides which comes first.
//! - The change from the striped word releases. A thread that prepares the next epoch acquires it,
//!   and with it that all stripes are frozen.

use crossbeam_utils::CachePadded;

use super::{PackedBucket, PermitWindow, Ration};
use crate::flow::permits::{STRIPES, Shares, Stripes};
use crate::sync::Ordering;
use crate::sync::stall::{self, Point};

impl PermitWindow {
    /// Begins an epoch if the permits that are left are worth it, after a compare-exchange that has
    /// `found` another word than it `expected`. Returns a word that was found or made since.
    #[cold]
    #[inline(never)]
    pub(super) fn contend(
        &self,
        expected: u64,
        found: u64,
        permits: u64,
        ration: &impl Ration,
    ) -> u64 {
        let is_taken_from = found > expected && self.layout.is_same_bucket(found, expected);
        if is_taken_from {
            self.begin_epoch(found, permits, ration).unwrap_or(found)
        } else {
            found
        }
    }

    /// Begins an epoch in the bucket of a direct word. Returns the word after that, or another one
    /// that was found instead; `None` if no epoch can begin, or none is worth it.
    fn begin_epoch(&self, word: u64, permits: u64, ration: &impl Ration) -> Option<u64> {
        let PackedBucket { number, count: taken, .. } = self.layout.read(word);
        let limit = ration.limit(self, number)?;
        if !Shares::is_worth(limit.saturating_sub(taken), permits) {
            return None;
        }
        let stripes = self.stripes.get_or_init(|| CachePadded::new(Stripes::new()));
        let preparation = stripes.prepare()?;
        let first = self.layout.striped(number, 0);
        let epoch_word = preparation.next_word(first, 1)?;
        if !self.layout.is_same_bucket(first, epoch_word) {
            // The bucket has no more words.
            return None;
        }
        // Loaded after the right was acquired: if this word is direct, no epoch is running.
        let (mut word, mut prepared) = (self.load(), None::<Shares>);
        while self.layout.is_same_bucket(word, self.layout.word(number, 0)) {
            let taken = self.layout.read(word).count;
            let remaining = limit.saturating_sub(taken);
            let shares = match prepared {
                // The stripes need not be prepared again after each permit that was taken from the
                // word.
                Some(same) if same.sum() <= remaining => same,
                _ => {
                    let Some(new) = Shares::of(remaining, permits, STRIPES) else { break };
                    preparation.share_out(limit, new);
                    *prepared.insert(new)
                }
            };
            preparation.grant(taken, shares);
            stall::at(Point::SharedOut);
            // Release: pairs with the Acquire in `load`. A thread that finds the word striped finds
            // the stripes prepared.
            match self.newest.compare_exchange(
                word,
                epoch_word,
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(epoch_word),
                Err(found) => word = found,
            }
        }
        Some(word)
    }

    /// Begins an epoch, for tests and models in which no thread has lost a compare-exchange.
    #[cfg(any(loom, test))]
    pub(in crate::flow) fn begin_epoch_now(&self, ration: &impl Ration) {
        let word = self.load();
        if self.layout.read(word).is_direct() {
            self.begin_epoch(word, 1, ration);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(in crate::flow) fn is_striped(&self) -> bool {
        self.layout.read(self.load()).striped
    }

    /// Takes permits from a stripe. Returns the word that was found instead, if none were taken.
    #[inline(never)]
    pub(super) fn take_striped(
        &self,
        word: u64,
        permits: u64,
        ration: &impl Ration,
    ) -> Result<(), u64> {
        let Some(limit) = ration.limit(self, self.layout.read(word).number) else {
            return Err(self.load());
        };
        stall::at(Point::StripedSeen);
        let offer = self.stripes().find(permits, limit);
        let found = self.load();
        if found != word {
            return Err(found);
        }
        stall::at(Point::StripeRead);
        match offer.map(|offer| offer.take(permits)) {
            Some(true) => Ok(()),
            Some(false) => Err(self.load()),
            None => Err(self.end_epoch(word, |direct| direct)),
        }
    }

    /// Ends the epoch of a striped word. `then` makes the next word from the direct word with the
    /// permits of the window. Returns the word after that.
    pub(super) fn end_epoch(&self, word: u64, then: impl FnOnce(u64) -> u64) -> u64 {
        let taken = self.stripes().freeze();
        stall::at(Point::StripesFrozen);
        let ended = then(self.layout.word(self.layout.read(word).number, taken));
        // Release: pairs with the Acquire in `load`. If the epoch has ended before, the sum may be
        // wrong. The word has then changed for ever, and this does nothing.
        match self.newest.compare_exchange(word, ended, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => ended,
            Err(_) => self.load(),
        }
    }

    /// Ends the epoch of the newest bucket, if it has one.
    pub(in crate::flow) fn end_epoch_now(&self) {
        let word = self.load();
        if self.layout.read(word).striped {
            self.end_epoch(word, |direct| direct);
        }
    }

    /// Returns the newest bucket of a word, with the permits of its window; `None` if the word was
    /// striped and has changed since. `taken` returns the permits while it is striped.
    ///
    /// If other threads take permits from stripes during the call, the count lies between those
    /// before and after it.
    pub(super) fn newest_in(
        &self,
        word: u64,
        taken: impl FnOnce(&Stripes) -> u64,
    ) -> Option<PackedBucket> {
        let newest = self.layout.read(word);
        if !newest.striped {
            return Some(newest);
        }
        let count = taken(self.stripes());
        (self.load() == word).then_some(PackedBucket { count, ..newest })
    }

    fn stripes(&self) -> &Stripes {
        self.stripes.get().expect("made before the word was striped")
    }
}
