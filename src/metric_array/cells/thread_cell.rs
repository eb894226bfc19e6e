//! One thread's counters for one window.

use super::slab::slab;
use crate::metric::{Counts, MetricCell, MetricEvent, OwnedWriter};
use crate::metric_array::latency::LatencyRecorder;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Ordering, const_unless_loom, fence};

/// The counters that one thread writes for one window, for one bucket at a time.
///
/// A cell is *bound* to the bucket whose events it counts. It is *sealed* when its counts move into
/// the window's history, and can then be bound to another bucket. Cells live in the process-wide
/// [slab](crate::collections::Slab) and are never freed, so a thread cache can keep a plain
/// reference.
///
/// # Ownership
///
/// Exactly one thread may write a cell: its owner. Only the owner binds, and only the owner starts
/// to seal; any thread may complete a seal that has been published. A cell that its owner
/// has *abandoned* has no owner until another thread adopts it by a compare-exchange on `state`.
///
/// # Orderings
///
/// - Binding stores `state` with Release, after the counters were zeroed; a reader loads `state`
///   with Acquire, so it never adds counts of an earlier binding to a later one.
/// - A release fence precedes the zeroing of the counters. A reader that sees counts of a later
///   binding finds, after its acquire fence, that the history's head has moved on, and retries.
/// - Abandoning is a Release and adopting an Acquire: the adopter continues from the counts of the
///   previous owner.
//
// 128 bytes: the adjacent-line prefetcher of x86 fetches pairs of lines, so the writes of a
// neighbour would disturb a cell of 64 bytes.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct ThreadCell {
    /// `{ version, RETIRED, ABANDONED, BOUND }`. The version only grows, also from one window to
    /// the next, so a state identifies one binding for ever.
    state: AtomicU64,
    /// The number of the bucket that the cell is bound to, with [`LATE`] if the cell was bound
    /// late.
    bucket: AtomicU64,
    /// The number of requests that entered in the cell, since the first binding after it was
    /// claimed or retired. In the cache line of the state: a reader of the gauge reads the state
    /// and these counts of each cell.
    entered: AtomicU64,
    /// The number of requests that ended in the cell, since then.
    ended: AtomicU64,
    counts: MetricCell,
    /// The cell's index in the slab.
    index: u32,
    /// While the cell is free, the index of the next free cell, plus 1, or 0 for none. While it
    /// belongs to a window, the index of its [latency
    /// recorder](crate::metric_array::latency::LatencyRecorder), plus 1, or 0 for none.
    link: AtomicU32,
}

/// A cell's state: see [`ThreadCell`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellState(pub(crate) u64);

impl CellState {
    const BOUND: u64 = 1;
    const ABANDONED: u64 = 2;
    /// The gauge counts have moved into the history as well.
    const RETIRED: u64 = 4;
    const VERSION: u64 = 8;
    const FLAGS: u64 = Self::VERSION - 1;

    #[inline]
    pub(crate) const fn is_bound(self) -> bool {
        self.0 & Self::BOUND != 0
    }

    pub(crate) const fn is_abandoned(self) -> bool {
        self.0 & Self::ABANDONED != 0
    }

    #[inline]
    pub(crate) const fn is_retired(self) -> bool {
        self.0 & Self::RETIRED != 0
    }

    /// Returns whether the cell is abandoned and not retired, so that its gauge counts are still in
    /// it.
    pub(crate) const fn is_unretired(self) -> bool {
        self.is_abandoned() && !self.is_retired()
    }

    /// Returns the state with the next version and those flags.
    const fn next(self, flags: u64) -> Self {
        Self((self.0 & !Self::FLAGS) + Self::VERSION + flags)
    }

    /// Returns the state of a bound cell once it is sealed.
    pub(crate) const fn sealed(self) -> Self {
        self.next(0)
    }

    /// Returns the state of a cell once its counts and its gauge are sealed, while its owner has
    /// more to take from it.
    pub(crate) const fn retired_by_owner(self) -> Self {
        self.next(Self::RETIRED)
    }

    /// Returns the state of an abandoned cell once its counts and its gauge are sealed.
    pub(crate) const fn retired(self) -> Self {
        self.next(Self::RETIRED | Self::ABANDONED)
    }
}

/// The mark on a cell's bucket if that was gone when the cell was bound to it.
pub(crate) const LATE: u64 = 1 << 63;

impl ThreadCell {
    const_unless_loom! {
        /// Creates a free cell with that index.
        pub(crate) fn new(index: u32) -> Self {
            Self {
                state: AtomicU64::new(0),
                bucket: AtomicU64::new(0),
                entered: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                counts: MetricCell::new(),
                index,
                link: AtomicU32::new(0),
            }
        }
    }

    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    pub(crate) const fn link(&self) -> &AtomicU32 {
        &self.link
    }

    /// Returns a writer, for the owner only.
    #[inline]
    pub(crate) const fn writer(&self) -> OwnedWriter<'_> {
        OwnedWriter(&self.counts)
    }

    /// Returns the sum of `event` since the cell was bound.
    #[inline]
    pub(crate) fn sum(&self, event: MetricEvent) -> u64 {
        self.counts.sum(event)
    }

    /// Returns the raw value of the counter of `event`: 2⁶² or more if the counter is at its
    /// ceiling.
    #[inline]
    pub(crate) fn unbounded_sum(&self, event: MetricEvent) -> u64 {
        self.counts.unbounded_sum(event)
    }

    #[inline]
    pub(crate) fn state(&self) -> CellState {
        // Acquire: pairs with the Release in `bind`, `unbind` and `abandon`.
        CellState(self.state.load(Ordering::Acquire))
    }

    /// Returns the bucket that the cell is bound to, with [`LATE`]; valid while the cell is bound.
    #[inline]
    pub(crate) fn bucket(&self) -> u64 {
        // Relaxed: written before `state`, which the caller has acquired.
        self.bucket.load(Ordering::Relaxed)
    }

    /// Binds a cell that is not bound, as its owner, and returns its new state. `recorder` is the
    /// cell's recorder, if it has one.
    #[inline]
    pub(crate) fn bind(
        &self,
        sealed: CellState,
        bucket: u64,
        recorder: Option<&LatencyRecorder>,
    ) -> CellState {
        // Release: pairs with the acquire fence of a reader. A reader that sees the zeros sees that
        // the history's head has moved on.
        fence(Ordering::Release);
        if sealed.is_retired() {
            self.entered.store(0, Ordering::Relaxed);
            self.ended.store(0, Ordering::Relaxed);
        }
        self.counts.reset();
        if let Some(recorder) = recorder {
            recorder.begin_bucket();
        }
        self.bucket.store(bucket, Ordering::Relaxed);
        stall::at(Point::CellZeroed);
        let bound = sealed.next(CellState::BOUND);
        // Release: pairs with the Acquire in `state`.
        self.state.store(bound.0, Ordering::Release);
        bound
    }

    /// Returns the index of the cell's recorder of response times, plus 1, or 0 if the cell has
    /// none.
    pub(crate) fn recorder_word(&self) -> u32 {
        // Relaxed. The word changes only while the cell is retired, and the caller has acquired a
        // state after that: the owner by adopting the cell, a reader by finding it not retired. If
        // the cell is retired by now, a reader may find a later word; then its acquire fence makes
        // it find that the head has moved on. The slab acquires the recorder itself.
        self.link.load(Ordering::Relaxed)
    }

    /// Sets the index of the cell's recorder, plus 1, or 0 for none, as the owner.
    pub(crate) fn set_recorder_word(&self, word: u32) {
        // Release: pairs with the acquire fence of a reader, as in `recorder_word`. The publication
        // that has retired the cell happens before.
        self.link.store(word, Ordering::Release);
    }

    /// Completes a seal. Any thread may call this; the first call succeeds.
    #[inline]
    pub(crate) fn unbind(&self, bound: CellState, sealed: CellState) {
        // Release: a thread that acquires the new state finds the publication's row in its slot.
        let changed =
            self.state.compare_exchange(bound.0, sealed.0, Ordering::Release, Ordering::Relaxed);
        if sealed.is_retired() && changed.is_ok() {
            slab().note_abandonment();
        }
    }

    /// Gives up ownership, unless the window was dropped since the caller bound the cell.
    pub(crate) fn abandon(&self, owned: CellState) {
        // Release: pairs with the Acquire in `adopt_if`. The caller's counts happen before.
        let abandoned = self.state.compare_exchange(
            owned.0,
            owned.0 | CellState::ABANDONED,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if abandoned.is_ok() {
            // Afterwards: a sweep that finds the number finds the cell abandoned.
            slab().note_abandonment();
        }
    }

    /// Makes the calling thread the owner of a cell, if the cell is abandoned. Returns the new
    /// state.
    pub(crate) fn adopt(&self) -> Option<CellState> {
        self.adopt_if(CellState::is_abandoned)
    }

    /// Makes the calling thread the owner of a cell, if the cell is abandoned and not retired.
    /// Returns the new state.
    pub(crate) fn adopt_unretired(&self) -> Option<CellState> {
        self.adopt_if(CellState::is_unretired)
    }

    /// Decides by one load, and makes the compare-exchange against the loaded state: if two
    /// sweepers find the same cell, the second one must not adopt it once the first one has retired
    /// it.
    fn adopt_if(&self, may_adopt: impl Fn(CellState) -> bool) -> Option<CellState> {
        let state = self.state();
        if !may_adopt(state) {
            return None;
        }
        let owned = CellState(state.0 & !CellState::ABANDONED);
        stall::at(Point::AbandonedSeen);
        // Acquire: pairs with the Release in `abandon`. If two threads adopt the same cell, only
        // one succeeds.
        self.state
            .compare_exchange(state.0, owned.0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then_some(owned)
    }

    /// Prepares a cell that was just taken from the slab for its first binding.
    pub(crate) fn claim(&self) -> CellState {
        // Retired, so that the first binding zeroes the gauge as well.
        let claimed = self.state().next(CellState::RETIRED);
        // Relaxed, as below.
        self.link.store(0, Ordering::Relaxed);
        // Relaxed: no window refers to the cell yet.
        self.state.store(claimed.0, Ordering::Relaxed);
        claimed
    }

    /// Invalidates every state that a thread cache may remember, before the cell returns to the
    /// slab.
    pub(crate) fn disown(&self) {
        // A read-modify-write: the owner may abandon the cell at this moment. Relaxed: the slab's
        // free list orders it before the next owner.
        self.state.fetch_add(CellState::VERSION, Ordering::Relaxed);
    }

    /// Returns the counts since the cell was bound.
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        self.counts.counts()
    }

    /// Returns the counts since the cell was bound, for the owner only. A counter may be above its
    /// ceiling.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise the counts are copied")]
    pub(crate) fn owned_counts(&self) -> Counts {
        self.counts.owned_counts()
    }

    /// Returns the sum of the response times since the cell was bound, in nanoseconds. Counts
    /// that are read after it include the calls of each.
    pub(crate) fn rt_nanos(&self) -> u64 {
        self.counts.rt().0
    }

    /// Counts a request that enters, as the owner. Returns the [`balance`](Self::balance) after
    /// that.
    #[inline]
    pub(crate) fn enter(&self) -> i64 {
        let entered = self.entered.load(Ordering::Relaxed).wrapping_add(1);
        stall::at(Point::CounterRead);
        // Release: pairs with the Acquire in `entered`. A reader that sees this request enter sees
        // the ends that came before.
        self.entered.store(entered, Ordering::Release);
        entered.wrapping_sub(self.ended.load(Ordering::Relaxed)).cast_signed()
    }

    /// Returns the highest concurrency that was recorded since the cell was bound; 0 if there is
    /// none.
    pub(crate) fn max_concurrency(&self) -> u64 {
        self.counts.max_concurrency().unwrap_or(0)
    }

    /// Returns the number of requests that entered in this cell less the number that ended in it,
    /// for the owner only.
    pub(crate) fn balance(&self) -> i64 {
        let [entered, ended] = [&self.entered, &self.ended].map(|it| it.load(Ordering::Relaxed));
        entered.wrapping_sub(ended).cast_signed()
    }

    /// Counts a request that ends, as the owner.
    #[inline]
    pub(crate) fn end(&self) {
        let ended = self.ended.load(Ordering::Relaxed).wrapping_add(1);
        // Release: pairs with the Acquire in `ended`. A reader that sees this request end sees it
        // enter, on any thread.
        self.ended.store(ended, Ordering::Release);
    }

    #[inline]
    pub(crate) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }
}
