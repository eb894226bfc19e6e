//! Epochs, in which threads take permits from stripes and give them back to stripes.
//!
//! The protocol is the one of the window of permits, whose roles are told in
//! `permits/permit_window/epoch.rs`. The word of the limiter is one of
//! two:
//!
//! ```text
//! direct   { 0: 1, permits in use: 63 }
//! striped  { 1: 1, epoch: 39, balance: 24 }
//! ```
//!
//! Four things differ from the window:
//!
//! - *Permits are given back* in the same steps as they are taken: the thread reads a stripe,
//!   validates the limiter's word, and adds the permits to the stripe by a compare-exchange. If the
//!   limiter's word is direct, the thread subtracts them there. Any stripe takes any permits, also
//!   those of before the epoch and those of another stripe. So the word of a stripe recurs within
//!   an epoch, with the same meaning, and never in a later epoch.
//!
//!   A single permit that was taken from the limiter's own word is subtracted from that word by one
//!   `fetch_sub`, without a load before, whether the word is direct or striped. In a striped word,
//!   this lowers the *balance*, and the end of the epoch subtracts the permit from the sum. A
//!   thread that finds half of the balance used ends the epoch before it returns. Until then, each
//!   thread subtracts at most one permit, and the other half of the balance has more permits than
//!   the system has threads.
//! - *A reader* ends the epoch. While permits are taken and given back, the sum of the stripes may
//!   be a number that was never in use.
//! - *An epoch begins* only after another thread has taken permits from the limiter's word, or
//!   given some back. Both complete an operation of that thread, so the operations are lock-free
//!   here too.
//! - *The striped words run out*: a limiter has 2³⁹ epochs. After that, its own word decides.
//!
//! # The promises
//!
//! - The stripes get the permits that the limit leaves by the very word that the striped word
//!   replaces. So the limit holds.
//! - A request is refused by a direct word only. Then no epoch is running, and the word counts all
//!   permits in use. Permits in stripes that are being prepared are not in use yet.
//! - The sum at the end of an epoch is the number of permits in use at the compare-exchange that
//!   ends it: by then, all stripes are frozen, and that compare-exchange finds the balance
//!   unchanged. So the sum is never below zero.
//!
//! # Orderings
//!
//! As in the window of permits. In addition, giving back releases, taking acquires, and so does the
//! freeze of a stripe, whose thread then releases the limiter's word. Each of these is a
//! read-modify-write of the word through which the permit goes, and continues its release sequence.
//! So a request that is admitted because a permit was given back happens after that.
//!
//! A compare-exchange on the limiter's word that fails acquires, as a load does: the thread may
//! find the word striped, and then needs the stripes. The compare-exchange that begins an epoch is
//! the exception, since it cannot find another epoch.

use crossbeam_utils::CachePadded;

use super::held::{Held, STRIPED};
use super::{ConcurrencyLimiter, refuse};
use crate::flow::contract::Decision;
use crate::flow::permits::{STRIPES, Shares, Stripes};
use crate::sync::Ordering;
use crate::sync::stall::{self, Point};

/// The bits of the balance, and the balance at the beginning of an epoch. Linux can run 2²²
/// threads.
const BALANCE: u64 = (1 << 24) - 1;

/// Returns whether two striped words are of one epoch.
#[inline]
const fn is_same_epoch(one: u64, other: u64) -> bool {
    one ^ other <= BALANCE
}

impl ConcurrencyLimiter {
    /// Begins an epoch if the permits that are left are worth it, after a compare-exchange that has
    /// `found` another word than it `expected`. Returns a word that was found or made since.
    #[cold]
    #[inline(never)]
    pub(super) fn contend(&self, expected: u64, found: u64, permits: u64) -> u64 {
        if found == expected || found & STRIPED != 0 {
            return found;
        }
        self.begin_epoch_from(found, permits).unwrap_or(found)
    }

    /// Begins an epoch from a direct word. Returns the word after that, or another one that was
    /// found instead; `None` if no epoch can begin, or none is worth it.
    fn begin_epoch_from(&self, word: u64, permits: u64) -> Option<u64> {
        let limit = self.limit();
        let divide = |in_use| Shares::of_lent(limit.saturating_sub(in_use), permits, STRIPES);
        divide(word)?;
        let stripes = self.stripes.get_or_init(|| CachePadded::new(Stripes::new()));
        let preparation = stripes.prepare()?;
        let epoch_word = preparation.next_word(STRIPED | BALANCE, BALANCE + 1)?;
        // Loaded after the right was acquired: if this word is direct, no epoch is running.
        let (mut word, mut prepared) = (self.load(), None::<Shares>);
        while word & STRIPED == 0 {
            let shares = match prepared {
                // The stripes need not be prepared again after each permit that was taken from the
                // word.
                Some(same) if same.sum() <= limit.saturating_sub(word) => same,
                _ => {
                    let Some(new) = divide(word) else { break };
                    preparation.share_out(limit, new);
                    *prepared.insert(new)
                }
            };
            preparation.grant(word, shares);
            stall::at(Point::SharedOut);
            // Release: pairs with the Acquire in `load`. A thread that finds the word striped finds
            // the stripes prepared. Relaxed: a word that is found instead is direct, since only
            // this thread can begin an epoch. It gives a number and orders nothing: the end of the
            // last epoch was acquired by `load`, and what was done under permits that were given
            // back since is acquired from the striped word, which continues their release
            // sequences.
            match self.word.compare_exchange(word, epoch_word, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Some(epoch_word),
                Err(found) => word = found,
            }
        }
        Some(word)
    }

    /// Begins an epoch, as a request does that has lost a compare-exchange to another one.
    #[cfg(any(loom, test))]
    pub fn begin_epoch(&self) {
        let word = self.load();
        if word & STRIPED == 0 {
            self.begin_epoch_from(word, 1);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_striped(&self) -> bool {
        self.load() & STRIPED != 0
    }

    /// Makes all epochs but the last `left` ones count as over. Panics if no epoch has begun
    /// before.
    #[cfg(all(test, not(loom)))]
    pub(super) fn skip_epochs_but(&self, left: u64) {
        let preparation = self.stripes().prepare().expect("no other thread");
        preparation.skip_words_below(u64::MAX - left * (BALANCE + 1));
    }

    /// Takes permits from a stripe. Returns the word that was found instead, if none were taken.
    #[inline(never)]
    pub(super) fn take_striped(&self, word: u64, permits: u64) -> Result<Held, u64> {
        stall::at(Point::StripedSeen);
        let offer = self.stripes().find(permits, self.limit());
        let found = self.load();
        if !is_same_epoch(found, word) {
            return Err(found);
        }
        stall::at(Point::StripeRead);
        match offer.map(|offer| offer.take(permits)) {
            Some(true) => Ok(Held::of_stripe(permits)),
            Some(false) => Err(self.load()),
            None => Err(self.end_epoch(word)),
        }
    }

    /// Gives permits back to a stripe, or to the limiter's own word if it is direct.
    #[inline(never)]
    pub(super) fn give_back_compared(&self, permits: u64) {
        if permits == 0 {
            return;
        }
        let mut word = self.load();
        loop {
            let attempt = if word & STRIPED != 0 {
                self.give_back_striped(word, permits)
            } else {
                // Release: as in `give_back`. Acquire: as in `load`.
                let (order, found) = (Ordering::Release, Ordering::Acquire);
                let changed = self.word.compare_exchange_weak(word, word - permits, order, found);
                changed.map(|_| ())
            };
            match attempt {
                Ok(()) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Gives permits back to a stripe. Returns the word that was found instead, if none were given
    /// back.
    fn give_back_striped(&self, word: u64, permits: u64) -> Result<(), u64> {
        stall::at(Point::StripedSeen);
        let offer = self.stripes().find_room(permits);
        let found = self.load();
        if !is_same_epoch(found, word) {
            return Err(found);
        }
        stall::at(Point::StripeRead);
        match offer.map(|offer| offer.give_back(permits)) {
            Some(true) => Ok(()),
            Some(false) => Err(self.load()),
            None => Err(self.end_epoch(word)),
        }
    }

    /// Ends the epoch if half of its balance is used. `word` was found by giving back a permit.
    #[cold]
    pub(super) fn check_balance(&self, word: u64) {
        if word & BALANCE <= BALANCE / 2 {
            // Acquire: this thread has only released the word.
            let word = self.load();
            if word & STRIPED != 0 {
                self.end_epoch(word);
            }
        }
    }

    /// Ends the epoch of a striped word. Returns the word after that.
    fn end_epoch(&self, word: u64) -> u64 {
        let in_use = self.stripes().freeze();
        stall::at(Point::StripesFrozen);
        let mut striped = word;
        loop {
            let given_back = BALANCE - (striped & BALANCE);
            // Wraps around only if the epoch has ended before.
            let ended = in_use.wrapping_sub(given_back);
            // Release: pairs with the Acquire in `load`, and passes on what the freeze has
            // acquired. If the epoch has ended before, the sum may be wrong. The word has then
            // changed for ever, and this does nothing.
            let (to, order) = (ended, Ordering::Release);
            match self.word.compare_exchange(striped, to, order, Ordering::Acquire) {
                Ok(_) => return ended,
                Err(found) if is_same_epoch(found, word) => striped = found,
                Err(found) => return found,
            }
        }
    }

    /// Returns the number of permits in use. Ends the epoch, if there is one.
    pub(super) fn count(&self) -> u64 {
        let mut word = self.load();
        while word & STRIPED != 0 {
            word = self.end_epoch(word);
        }
        word
    }

    /// Returns the decision that a request for `permits` permits would get now, and takes none.
    pub(super) fn peek(&self, permits: u64) -> Decision {
        let word = self.load();
        if word & STRIPED != 0 {
            let offer = self.stripes().find(permits, self.limit());
            if offer.is_some() && is_same_epoch(self.load(), word) {
                return Decision::Admitted(());
            }
        }
        let refusal = refuse(self.limit(), self.count(), permits);
        refusal.map_or(Decision::Admitted(()), Decision::Refused)
    }

    fn stripes(&self) -> &Stripes {
        self.stripes.get().expect("made before the word was striped")
    }
}
