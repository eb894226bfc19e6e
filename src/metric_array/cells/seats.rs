//! The seats of active cells, which readers visit first.

use super::mask::try_for_each_bit;
use super::thread_cell::{CellState, ThreadCell};
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicRef, AtomicU64, Ordering};

/// The number of seats. Models and tests have few, so that cells compete for them.
pub(crate) const SEATS: usize = if cfg!(any(test, loom)) { 2 } else { 16 };

/// Up to 16 cells that may be bound to a bucket of the window.
///
/// A window whose threads come and go has cells in many groups of its table, and few of them are
/// active. A cell that becomes active takes a seat, wherever its place in the table is. So a read
/// visits the seats, and no group unless more cells are active than there are seats.
///
/// # Protocol
///
/// ```text
/// word: { tag: 32, claimed: 16, taken: 16 }
/// ```
///
/// Each change of the word increments the tag. A seat is *free*, *claimed* or *taken*.
///
/// - A cell's owner claims a free seat by a compare-exchange, puts the cell into the seat, and
///   marks the seat as taken. No other thread writes a claimed seat.
/// - A sweeper frees a taken seat whose cell it has found idle, by a compare-exchange from the
///   word that it loaded before it looked at the cell. The cell stays in the free seat until
///   another owner claims the seat.
/// - An owner *renews* the seat of its cell each time that it has bound the cell. It loads the
///   word, finds its cell in a seat that is not claimed, and marks the seat as taken by a
///   compare-exchange from that word, also if the seat is taken already. If another owner claims
///   the seat in between, or a sweeper frees it, that fails, and the owner looks again.
/// - An owner that *moves* its cell, to a seat or to its group, counts the move before readers can
///   find the cell there. A reader compares the number of moves before and after its visits, and
///   retries if there was a move.
///
/// # Invariants
///
/// - *The cell of a taken seat is the cell of the owner that marked it.* Only the claim of a seat
///   changes its cell, and a taken seat is not claimed.
/// - *No cell has two taken seats, and none is in a taken seat and active in its group.* Only the
///   owner marks a seat for its cell or inserts the cell into its group. It takes another seat
///   only if it finds none that it can renew, and removes the cell from its group before that.
/// - *A reader that is not repeated visits no cell twice.* A reader visits the cells that it finds
///   in the seats, a while after it has loaded the word. So it may find the former cell of a seat
///   that was claimed since then, and the same cell at its present position. But then its owner
///   has found the seat claimed before it moved the cell, so the reader has loaded the number of
///   moves before this move.
/// - *A reader that misses a cell misses no count.* A cell counts nothing from its binding until
///   its owner has renewed or taken a seat, or inserted it into its group. If the reader finds a
///   later cell in a seat, the former one was found idle: see [`Mask`](super::mask::Mask).
///
/// # Orderings
///
/// Each change of the word releases, and each load of it acquires, as for a mask. So the owner that
/// claims a seat has acquired the bucket in which the sweeper found the former cell idle. A seat's
/// cell is stored with release and loaded with acquire, so a reader that finds the new cell has
/// acquired that bucket and the move. A move releases, and the load of the number before the visits
/// acquires. A reader that has loaded a move in that number finds the cell's former seat claimed,
/// or with another cell.
#[derive(Debug)]
pub(crate) struct Seats {
    word: AtomicU64,
    /// The number of times that a cell was moved to a seat or to its group.
    moves: AtomicU64,
    cells: [AtomicRef<ThreadCell>; SEATS],
}

/// The bits of taken seats, and the position of the bits of claimed seats.
const TAKEN: u64 = 0xffff;
const CLAIMED: u32 = 16;
const TAG: u64 = 1 << 32;

impl Seats {
    pub(crate) fn new() -> Self {
        let [word, moves] = [(); 2].map(|()| AtomicU64::new(0));
        Self { word, moves, cells: std::array::from_fn(|_| AtomicRef::new()) }
    }

    #[inline]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Releases in `change`. A thread that finds a seat taken finds its
        // cell bound. A reader that finds a seat free finds the bucket that has made its cell idle.
        self.word.load(Ordering::Acquire)
    }

    /// Returns the number of moves, for a reader that has not visited any cell yet.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        // Acquire: pairs with the Release in `count_move`.
        self.moves.load(Ordering::Acquire)
    }

    /// Returns whether the number of moves is still the same, for a reader that has visited the
    /// cells, after an acquire fence.
    #[inline]
    pub(crate) fn is_unmoved(&self, moves: u64) -> bool {
        // Relaxed: the reader has acquired the seat or the mask in which it found a moved cell.
        self.moves.load(Ordering::Relaxed) == moves
    }

    /// Counts a move, as the owner of the cell, which readers do not find there yet.
    pub(crate) fn count_move(&self) {
        // Release: pairs with the Acquire in `moves`. The word that the owner has found comes
        // before.
        self.moves.fetch_add(1, Ordering::Release);
    }

    /// Replaces the word `observed`. Returns the new word, or the word that was found instead if it
    /// has changed.
    fn change(&self, observed: u64, to: u64) -> Result<u64, u64> {
        let next = to.wrapping_add(TAG);
        // Release: pairs with the Acquire in `load`, and on failure.
        self.word
            .compare_exchange(observed, next, Ordering::Release, Ordering::Acquire)
            .map(|_| next)
    }

    /// Returns the seat that a cell tries first.
    #[inline]
    const fn home(place: u32) -> usize {
        place as usize % SEATS
    }

    /// Marks the home seat of a cell as taken, as the cell's owner, which has just bound it.
    /// Returns `false` if the cell is not in that seat.
    #[inline]
    pub(crate) fn renew_home(&self, place: u32, cell: &ThreadCell) -> bool {
        self.renew(Self::home(place), cell)
    }

    #[inline]
    fn renew(&self, seat: usize, cell: &ThreadCell) -> bool {
        let mut word = self.load();
        loop {
            // After the word: if the word is still the same at the compare-exchange, then the seat
            // was not claimed, and this is its cell.
            let found = self.cells[seat].load();
            let is_claimed = word & 1 << seat << CLAIMED != 0;
            if is_claimed || !found.is_some_and(|found| std::ptr::eq(found, cell)) {
                return false;
            }
            match self.change(word, word | 1 << seat) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    /// Returns whether a seat is free.
    pub(crate) fn has_room(&self) -> bool {
        Self::free_seat(self.load(), 0).is_some()
    }

    /// Returns the first free seat from `home` on.
    fn free_seat(word: u64, home: usize) -> Option<usize> {
        let used = word | word >> CLAIMED;
        (home..home + SEATS).map(|seat| seat % SEATS).find(|seat| used & 1 << seat == 0)
    }

    /// Takes a seat for a cell that is not active in its group, as the cell's owner, which has just
    /// bound it. Returns `false` if no seat is free.
    pub(crate) fn take(&self, place: u32, cell: &'static ThreadCell) -> bool {
        if (0..SEATS).any(|seat| self.renew(seat, cell)) {
            return true;
        }
        let Some((seat, mut word)) = self.claim(Self::home(place)) else { return false };
        stall::at(Point::SeatClaimed);
        self.count_move();
        self.cells[seat].store(cell);
        while let Err(found) = self.change(word, word & !(1 << seat << CLAIMED) | 1 << seat) {
            word = found;
        }
        true
    }

    /// Claims the first free seat from `home` on. Returns the seat, and the word after that.
    pub(crate) fn claim(&self, home: usize) -> Option<(usize, u64)> {
        let mut word = self.load();
        loop {
            let seat = Self::free_seat(word, home)?;
            match self.change(word, word | 1 << seat << CLAIMED) {
                Ok(claimed) => return Some((seat, claimed)),
                Err(found) => word = found,
            }
        }
    }

    /// Returns whether no seat is taken but the home seat of that place.
    pub(crate) fn has_only_home(&self, place: u32) -> bool {
        self.load() & TAKEN & !(1 << Self::home(place)) == 0
    }

    /// Frees the seats of the cells for which `is_idle` holds.
    pub(crate) fn skip_idle(&self, is_idle: impl Fn(&ThreadCell, CellState) -> bool) {
        let _ = try_for_each_bit(self.load() & TAKEN, |seat| {
            // Loaded before the cell and its state: see `Seats`.
            let observed = self.load();
            let is_taken = observed & 1 << seat != 0;
            if let Some(cell) = self.cells[seat].load().filter(|_| is_taken)
                && is_idle(cell, cell.state())
            {
                stall::at(Point::IdleSeen);
                let _ = self.change(observed, observed & !(1 << seat));
            }
            Some(())
        });
    }

    /// Visits the cells of taken seats, until `visit` returns `None`.
    #[inline]
    pub(crate) fn try_for_each(
        &self,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        let mut taken = self.load() & TAKEN;
        stall::at(Point::SeatsRead);
        // Not by `try_for_each_bit`: each read has this loop, and this one takes less.
        while taken != 0 {
            if let Some(cell) = self.cells[taken.trailing_zeros() as usize % SEATS].load() {
                visit(cell)?;
            }
            taken &= taken - 1;
        }
        Some(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::metric_array::cells::cell_table::CellTable;
    use crate::metric_array::cells::slab::slab;

    /// A reader has loaded the seats and visited the first. Both cells are then found idle. Another
    /// owner claims the first seat and stalls, and the owner of its cell takes the second one. The
    /// reader finds this cell again, and that a cell was moved.
    #[test]
    fn reader_that_finds_a_cell_twice_notices_the_move() {
        let (seats, [first, second]) = (Seats::new(), [(); 2].map(|()| slab().take().unwrap()));
        assert!(seats.take(0, first) && seats.take(1, second));
        let moves = seats.moves();
        let mut visited = Vec::new();
        let _ = seats.try_for_each(|cell| {
            visited.push(cell.index());
            if visited.len() == 1 {
                seats.skip_idle(|_, _| true);
                assert_eq!(seats.claim(0).map(|(seat, _)| seat), Some(0));
                assert!(!seats.renew_home(0, first), "the seat is claimed");
                assert!(seats.take(0, first));
            }
            Some(())
        });
        assert_eq!(visited, [first.index(); 2]);
        assert!(!seats.is_unmoved(moves));
        // The next reader finds the cell once.
        visited.clear();
        let moves = seats.moves();
        let _ = seats.try_for_each(|cell| {
            visited.push(cell.index());
            Some(())
        });
        assert!(visited == [first.index()] && seats.is_unmoved(moves));
    }

    /// A reader has visited the first of two seats. Its cell is then found idle, and another owner
    /// claims the seat and stalls. No seat is left, so the cell goes to its group. The reader finds
    /// it again there, and that a cell was moved.
    #[test]
    fn reader_that_finds_a_cell_again_in_its_group_notices_the_move() {
        let table = CellTable::new();
        let [first, second] = [(); SEATS].map(|()| table.add().unwrap());
        for (place, cell, _) in [first, second] {
            table.activate(place, cell);
        }
        let (seats, mut visited) = (table.seats(), Vec::new());
        let moves = seats.moves();
        table.for_each_active(|cell| {
            visited.push(cell.index());
            if visited.len() == 1 {
                seats.skip_idle(|cell, _| std::ptr::eq(cell, first.1));
                assert_eq!(seats.claim(0).map(|(seat, _)| seat), Some(0));
                table.activate(first.0, first.1);
            }
        });
        assert_eq!(visited, [first, second, first].map(|(_, cell, _)| cell.index()));
        assert!(!seats.is_unmoved(moves));
    }

    #[test]
    fn cell_finds_its_seat_until_another_cell_takes_it() {
        let (seats, [first, second, third]) =
            (Seats::new(), [(); 3].map(|()| slab().take().unwrap()));
        assert!(seats.take(0, first) && seats.take(1, second));
        assert!(!seats.has_room() && !seats.take(2, third), "all seats are taken");
        let moves = seats.moves();
        seats.skip_idle(|cell, _| std::ptr::eq(cell, first));
        assert!(seats.has_room() && seats.renew_home(0, first), "it is still there");
        assert!(seats.is_unmoved(moves));
        seats.skip_idle(|cell, _| std::ptr::eq(cell, first));
        assert!(seats.take(2, third) && !seats.renew_home(0, first));
    }
}
