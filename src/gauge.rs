//! How many requests are under way.

use std::cell::Cell;

use crate::cell_list::CellNode;
use crate::sync::{Arc, AtomicU64, Lazy, Ordering, ThreadToken};
use crate::timestamp::Timestamp;

/// Counts what enters and what ends, each thread in a cell of its own: no line is written by two.
#[derive(Debug)]
pub(crate) struct Gauge {
    cells: Lazy<Arc<CellNode<GaugeCell>>>,
}

impl Gauge {
    pub(crate) fn new() -> Self {
        Self { cells: Lazy::new() }
    }

    /// How many entered and have not ended. What does either meanwhile may be taken either way, so
    /// that this is at least the number of those who are there all the time.
    pub(crate) fn concurrency(&self) -> u64 {
        self.look().at_least_there
    }

    /// How many there were at some moment of the look, or fewer: one at least, whoever looks.
    pub(crate) fn peak(&self) -> u64 {
        self.look().at_most_reached.max(1)
    }

    /// Looks until nothing has ended meanwhile, but not for ever.
    fn look(&self) -> Look {
        let (mut look, mut looks) = (self.look_once(), 1);
        while look.at_least_there != look.at_most_reached && looks < LOOKS {
            let again = self.look_once();
            looks += 1;
            look.at_least_there = look.at_least_there.min(again.at_least_there);
            look.at_most_reached = look.at_most_reached.max(again.at_most_reached);
        }
        look
    }

    fn look_once(&self) -> Look {
        let Some(first) = self.cells.get() else { return Look::default() };
        // What ended is read first, and acquired: whoever is seen to have ended is seen to have
        // entered, be it in another cell. So this is never negative.
        let sum = |read: fn(&GaugeCell) -> u64| {
            first.list().fold(0_u64, |sum, node| sum.wrapping_add(read(node.cell())))
        };
        let ended = sum(|cell| cell.ended.load(Ordering::Acquire));
        // Acquire: pairs with the Release in `enter`. What had ended before any of these entered is seen
        // to have ended at the second look.
        let entered = sum(|cell| cell.entered.load(Ordering::Acquire));
        let ended_since = sum(|cell| cell.ended.load(Ordering::Relaxed)).wrapping_sub(ended);
        let at_least_there = entered.wrapping_sub(ended);
        Look { at_least_there, at_most_reached: at_least_there.saturating_sub(ended_since) }
    }

    /// Where the thread of that token is to count.
    pub(crate) fn hand(&self, token: ThreadToken) -> GaugeHand {
        let first = self.cells.get_or_make(|| Arc::new(CellNode::new(token)));
        let place = first.place(token);
        let owned = place.is_owned();
        let node = place.into_further().unwrap_or_else(|| Arc::clone(first));
        GaugeHand {
            node,
            owned,
            highest: Cell::new(i64::MIN),
            looked_at: Cell::new(Timestamp::MIN),
        }
    }
}

/// How often all cells are looked at, if something ends in the middle of it. Models explore what one look
/// finds.
const LOOKS: usize = if cfg!(loom) { 1 } else { 4 };

/// What a look at all cells has found: how many there are lies between the two.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// Less what had ended when the look began: no fewer than those who were there all the time.
    at_least_there: u64,
    /// Less what had ended when it was over: so many were there at once.
    at_most_reached: u64,
}

/// What threads have let in and out. On a line of its own: others read what is beside it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct GaugeCell {
    entered: AtomicU64,
    ended: AtomicU64,
}

impl Default for GaugeCell {
    fn default() -> Self {
        Self { entered: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }
}

/// A thread's place in a gauge, and what it last saw there.
#[derive(Debug)]
pub(crate) struct GaugeHand {
    node: Arc<CellNode<GaugeCell>>,
    /// Whether no other thread writes the cell.
    owned: bool,
    /// How many more had entered than ended here when this thread last looked at all cells.
    highest: Cell<i64>,
    looked_at: Cell<Timestamp>,
}

impl GaugeHand {
    /// Counts one in. Says whether it is time to look how many there are: if there were never so many
    /// of this thread since it last looked, or if that is long ago.
    #[inline]
    pub(crate) fn enter(&self, now: Timestamp, look_after: u64) -> bool {
        let cell = self.node.cell();
        // Release: pairs with the Acquire in `look_once`. Whoever sees it enter sees what ended before.
        let entered = self.count(&cell.entered, Ordering::Release);
        let here = entered.wrapping_sub(cell.ended.load(Ordering::Relaxed)).cast_signed();
        let age = now.as_nanos().saturating_sub(self.looked_at.get().as_nanos());
        let due = here > self.highest.get() || age >= look_after;
        if due {
            self.highest.set(here);
            self.looked_at.set(now);
        }
        due
    }

    /// Counts one out.
    #[inline]
    pub(crate) fn end(&self) {
        // Release: pairs with the Acquire in `concurrency`. It had entered before.
        self.count(&self.node.cell().ended, Ordering::Release);
    }

    #[inline]
    fn count(&self, counter: &AtomicU64, order: Ordering) -> u64 {
        if self.owned {
            let count = counter.load(Ordering::Relaxed).wrapping_add(1);
            counter.store(count, order);
            count
        } else {
            counter.fetch_add(1, order).wrapping_add(1)
        }
    }
}
