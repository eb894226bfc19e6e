//! The cell in which a request entered, and the number of its requests that have ended elsewhere.

use super::slab::{EndedElsewhere, slab};
use super::thread_cell::ThreadCell;
use crate::sync::Ordering;

/// The cell in which a request entered, by its index in the slab; none if the request was recorded
/// without a cell.
///
/// If a request ends in another cell, because it ends on another thread, this is noted in a word of
/// the cell in which it entered. So the thread that enters requests knows how many of them are in
/// flight: see [`GaugeWatch`](super::gauge_watch::GaugeWatch). The word decides only when the gauge
/// is added up, and has no effect on the result. It is never reset, and goes on counting for later
/// owners and windows of the cell; each of them remembers the value that it has read.
///
/// The thread that ends the request finds the word by the index alone. If it read the cell, it
/// would take the cache line that the owner writes with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Origin {
    /// No cell has this index: see [`Cells::take`](super::slab::Cells::take).
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) const fn of(cell: &ThreadCell) -> Self {
        Self(cell.index())
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Returns the number of requests that entered here and have ended elsewhere. It wraps around.
    pub(crate) fn ended_elsewhere(self) -> u32 {
        let word = slab().ended_elsewhere(self.0);
        // Relaxed: a look first acquires the ends that it counts, and each end is noted before it
        // is counted.
        word.map_or(0, |EndedElsewhere(count)| count.load(Ordering::Relaxed))
    }

    /// Notes that a request that entered here has ended elsewhere.
    pub(crate) fn note_end_elsewhere(self) {
        if let Some(EndedElsewhere(count)) = slab().make_ended_elsewhere(self.0) {
            // Relaxed: see `GaugeWatch`.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
