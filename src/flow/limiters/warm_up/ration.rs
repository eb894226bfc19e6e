//! The limit of a warm-up: the state of the service, shared by threads.

use super::WarmUpConfig;
use super::curve::Curve;
use super::warmth::{EndedBucket, NEVER, Warmth};
use crate::flow::contract::Refusal;
use crate::flow::permits::{FullWindow, PermitWindow, Ration, Usage};
use crate::flow::permits::{Layout, PackedBucket};
use crate::node::Reason;
use crate::sync::{Arc, AtomicU64, Loaded, Ordering, Slot, zeros};
use crate::time::WindowConfig;

/// The ration of a warm-up. A request is admitted if fewer permits were taken in the newest bucket
/// than the curve gives, and if the window has as many permits left of the whole limit.
///
/// `state` is the [`Warmth`] at the start of the bucket after the last closed one. A thread that
/// closes a bucket replaces it. For each bucket, two words are computed from it, so that a decision
/// costs a load:
///
/// - `known` is `{ bucket, 1, threshold }`: a single permit is admitted while the window has fewer
///   permits.
/// - `retry` is `{ bucket, 1, delay }`: a single permit that is refused is admitted `delay` buckets
///   later, if no other request asks. Permits of a bucket are not given back, so once a single
///   permit is refused, no permits of the bucket are taken any more, and the delay is final.
///
/// A change of the curve makes a new state, and then replaces both words by `{ revision }` without
/// the flag, so that they are computed again.
///
/// # Orderings
///
/// `state` is loaded with Acquire and replaced by a read-modify-write with Release, as [`Slot`]
/// says. A thread that finds a bucket open has acquired the state after all closed buckets. A
/// thread that finds a state after its own bucket has acquired it from a thread that found the
/// bucket closed, so it finds the word of the window changed.
///
/// A thread computes a word in three steps: it loads the word, then the state, and replaces the
/// word by a compare-exchange. Suppose that a change comes in between. If its swap of the word
/// comes before the load, the load acquires the new state. If it comes after the load, the
/// compare-exchange fails: the word never has its old value again. A revision is stored once. A
/// word of an older bucket is stored again only by a thread that has acquired the change, or a
/// later word. That thread then finds a state after its bucket, because the thread with the later
/// bucket has found its own bucket open, and does not store.
///
/// `refused` is relaxed. A thread that closes the bucket at the same time may miss it.
#[derive(Debug)]
pub(super) struct CurveRation {
    /// The layout of `known` and of `retry`.
    layout: Layout,
    known: AtomicU64,
    retry: AtomicU64,
    /// One more than the number of the last bucket in which a request was refused.
    refused: AtomicU64,
    state: Slot<Warmth>,
}

impl CurveRation {
    /// Creates the ration of a cold service.
    pub(super) fn new(window: &WindowConfig, limit: u64, config: WarmUpConfig) -> Self {
        let state = Slot::empty();
        let cold = Arc::new(Warmth::cold(Curve::new(window, limit, config)));
        // No other thread has the slot.
        let _ = state.compare_and_swap(&state.load(), cold);
        let [known, retry, refused] = zeros();
        Self { layout: Layout::of(window), known, retry, refused, state }
    }

    pub(super) fn limit(&self) -> u64 {
        warmth(&self.state.load()).curve().limit()
    }

    pub(super) fn config(&self) -> WarmUpConfig {
        warmth(&self.state.load()).curve().config()
    }

    /// Changes the limit, the period and the cold factor, at the start of bucket `number`, which
    /// was open: all buckets before are closed. If it was closed since, the state is a later one.
    pub(super) fn reconfigure(
        &self,
        window: &PermitWindow,
        number: u64,
        limit: u64,
        config: WarmUpConfig,
    ) {
        let revision = loop {
            let found = self.state.load();
            let state = warmth(&found).at(number);
            // After the state, as in `close`.
            let permits = window.permits_taken_in(state.since());
            let curve = Curve::new(window.config(), limit, config);
            let changed = Arc::new(state.with_curve(curve, permits));
            let revision = changed.revision();
            if self.state.compare_and_swap(&found, changed).is_ok() {
                break revision;
            }
        };
        let word = self.layout.revision(revision);
        // AcqRel: a thread that finds the word acquires the state. It also acquires the state of a
        // later change whose swap of the word came first.
        self.known.swap(word, Ordering::AcqRel);
        self.retry.swap(word, Ordering::AcqRel);
    }

    /// Returns `known` for the bucket of a flagged word, and stores it.
    #[cold]
    #[inline(never)]
    fn find_threshold(&self, window: &PermitWindow, of_bucket: u64) -> u64 {
        let number = self.layout.read(of_bucket).number;
        // Acquire: pairs with the Release in `reconfigure`. The word is loaded before the state.
        let before = self.known.load(Ordering::Acquire);
        let found = self.state.load();
        let state = warmth(&found);
        let threshold = threshold(state, number, window.noted(number));
        self.store(&self.known, before, state, number, threshold);
        self.layout.flagged(self.layout.word(number, threshold))
    }

    /// Stores a word that was computed for a bucket, unless the bucket is closed, or the word has
    /// changed since.
    fn store(&self, cell: &AtomicU64, before: u64, state: &Warmth, number: u64, count: u64) {
        if state.since() > number || count > self.layout.max_count() {
            return;
        }
        let word = self.layout.flagged(self.layout.word(number, count));
        // Release: passes on the state that was acquired. If the exchange fails, the next decision
        // computes the word.
        let _ = cell.compare_exchange(before, word, Ordering::Release, Ordering::Relaxed);
    }

    /// Returns the permits that are left for a request that would take more than the threshold.
    #[cold]
    fn remaining_of_limit(&self, taken: u64) -> u64 {
        self.limit().saturating_sub(taken)
    }

    /// Returns the number of the bucket in which the request of a refusal is admitted, if no other
    /// request asks; [`NEVER`] if it asks for more than the limit. Notes the refusal.
    #[cold]
    #[inline(never)]
    fn find_retry(&self, window: &PermitWindow, full: &FullWindow) -> u64 {
        // Acquire: as in `find_threshold`.
        let before = self.retry.load(Ordering::Acquire);
        let found = self.state.load();
        let state = warmth(&found);
        let limit = state.curve().limit();
        if full.permits > limit {
            return NEVER;
        }
        // Relaxed: see `Orderings`.
        if self.refused.load(Ordering::Relaxed) <= full.number {
            self.refused.fetch_max(full.number + 1, Ordering::Relaxed);
        }
        let noted = window.noted(full.number);
        let permits = full.taken.saturating_sub(noted);
        let paid = state.opens_after(full.number, permits);
        let left = match full.excess(limit) {
            0 => paid,
            excess => leaves(window, full.number, excess),
        };
        let retry = paid.max(left);
        // If the state admits the request, it has changed since, and more permits may be taken.
        if full.permits == 1 && full.taken >= threshold(state, full.number, noted) {
            self.store(&self.retry, before, state, full.number, retry - full.number);
        }
        retry
    }

    /// Returns the state after a bucket with that many permits, in the window that ends with it and
    /// in itself.
    fn after(
        &self,
        state: &Warmth,
        window: &PermitWindow,
        number: u64,
        of_window: u64,
        of_bucket: u64,
    ) -> Warmth {
        let excess = state.curve().above_cold_limit(of_window);
        let quiet_from = if excess == 0 { number } else { leaves(window, number, excess) };
        // Relaxed: see `Orderings`.
        let is_refused = self.refused.load(Ordering::Relaxed) == number + 1;
        state.after(&EndedBucket { number, permits: of_bucket, is_refused, quiet_from })
    }

    /// Returns the state at the start of bucket `number`, which is not older than the newest
    /// bucket, if no request asks in between. Replaces nothing.
    pub(super) fn state_at(
        &self,
        window: &PermitWindow,
        newest: &PackedBucket,
        number: u64,
    ) -> Warmth {
        let found = self.state.load();
        let state = warmth(&found);
        if number == newest.number || state.since() > newest.number {
            return state.at(number);
        }
        let of_bucket = window.permits_of(newest.number, newest);
        self.after(state, window, newest.number, newest.count, of_bucket).at(number)
    }
}

/// Returns the permits of a window up to which a single permit is admitted in a bucket. `before`
/// permits of the window are of earlier buckets.
pub(super) fn threshold(state: &Warmth, number: u64, before: u64) -> u64 {
    let permits = state.at(number).permits();
    before.saturating_add(permits).min(state.curve().limit())
}

/// Returns the number of the first bucket whose window does not have the oldest `permits` permits
/// of the window that ends with a bucket. After the end of time, it is one less than [`NEVER`].
fn leaves(window: &PermitWindow, number: u64, permits: u64) -> u64 {
    let leaves = window.leave_at(number, permits);
    leaves.map_or(NEVER - 1, |time| window.config().bucket_number(time))
}

fn warmth(found: &Loaded<Warmth>) -> &Warmth {
    found.get().expect("a state was put into the slot before any thread had it")
}

impl Ration for CurveRation {
    #[inline]
    fn limit(&self, _window: &PermitWindow, _number: u64) -> Option<u64> {
        None
    }

    #[inline]
    fn usage(&self, window: &PermitWindow, word: u64, permits: u64) -> Option<Usage> {
        let layout = window.layout();
        let taken = layout.flagged(word);
        // Acquire: pairs with the Release in `store`.
        let known = self.known.load(Ordering::Acquire);
        let is_known = layout.is_same_bucket(known, taken);
        let known = if is_known { known } else { self.find_threshold(window, taken) };
        // The words differ in their counts alone.
        let remaining = known.saturating_sub(taken);
        if permits <= remaining || remaining == 0 {
            return Some(Usage::of_remaining(remaining));
        }
        // While one permit is free, a request gets as many as the limit has.
        Some(Usage::of_remaining(self.remaining_of_limit(layout.read(word).count)))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal {
        // Acquire: pairs with the Release in `store`. The thread that stored the word has noted the
        // refusal.
        let known = self.retry.load(Ordering::Acquire);
        let layout = window.layout();
        let is_known = layout.is_same_bucket(known, layout.flagged(full.word));
        let retry = if full.permits == 1 && is_known {
            full.number + layout.read(known).count
        } else {
            self.find_retry(window, full)
        };
        if retry == NEVER {
            return Refusal::never();
        }
        Refusal::until(Reason::LimitReached, window.begins(retry))
    }

    /// Replaces the state by the state after a closed bucket, unless another thread has done so: a
    /// thread that opens a later bucket has done it before.
    #[cold]
    fn close(&self, window: &PermitWindow, number: u64, of_window: u64, of_bucket: u64) {
        loop {
            let found = self.state.load();
            let state = warmth(&found);
            if state.since() > number {
                return;
            }
            // The window is read after the state. If other threads have opened a later bucket, and
            // this thread reads their notes, they have replaced the state before, and the exchange
            // fails.
            let after = Arc::new(self.after(state, window, number, of_window, of_bucket));
            if self.state.compare_and_swap(&found, after).is_ok() {
                return;
            }
        }
    }
}
