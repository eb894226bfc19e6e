//! The cell in which a request entered, and the number of its requests that have ended elsewhere.

use super::slab::{EndedElsewhere, slab};
use super::thread_cell::ThreadCell;
use crate::sync::Ordering;

/// The cell in which a request entered; none if the request was recorded without a cell.
///
/// If a request ends in another cell, because it ends on another thread, this is noted in a word of
/// the cell in which it entered. So the thread that enters requests knows how many of them are in
/// flight: see [`GaugeWatch`](super::gauge_watch::GaugeWatch). The word decides only when the gauge
/// is added up, and has no effect on the result. It is never reset, and goes on counting for later
/// owners and windows of the cell; each of them remembers the value that it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Option<&'static ThreadCell>);

impl Origin {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) const fn of(cell: &'static ThreadCell) -> Self {
        Self(Some(cell))
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of requests that entered here and have ended elsewhere. It wraps around.
    pub(crate) fn ended_elsewhere(self) -> u32 {
        let word = self.0.and_then(|cell| slab().ended_elsewhere(cell));
        // Relaxed: a look first acquires the ends that it counts, and each end is noted before it
        // is counted.
        word.map_or(0, |EndedElsewhere(count)| count.load(Ordering::Relaxed))
    }

    /// Notes that a request that entered here has ended elsewhere.
    pub(crate) fn note_end_elsewhere(self) {
        let word = self.0.and_then(|cell| slab().make_ended_elsewhere(cell));
        if let Some(EndedElsewhere(count)) = word {
            // Relaxed: see `GaugeWatch`.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl PartialEq for Origin {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}
