//! The cells of one window.

use super::slab::slab;
use super::thread_cell::{State, ThreadCell};
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, AtomicU64, Lazy, OnceRef, Ordering};

/// How many places share one word of a mask.
pub(crate) const GROUP: usize = if cfg!(loom) { 2 } else { 32 };

/// 65,536 places: what more threads record in one window goes to its history directly.
const PLACES: u32 = if cfg!(loom) { 4 } else { 1 << 16 };

/// The cells that threads have taken for one window, each at a *place*.
///
/// A cell stays at its place until the window is dropped, and goes from one thread to the next when
/// its owner has ended. Two masks say which places a reader must visit: those whose cell may be bound
/// to a bucket of the window (`active`), and those whose cell has gauge counts (`present`).
#[derive(Debug)]
pub(crate) struct CellTable {
    /// How many places were taken.
    len: AtomicU32,
    first: Lazy<Level>,
}

/// A part of the table; each but the first doubles it.
#[derive(Debug)]
struct Level {
    next: Lazy<Self>,
    groups: Box<[Group]>,
}

#[derive(Debug)]
struct Group {
    active: Mask,
    present: Mask,
    cells: Box<[OnceRef<'static, ThreadCell>; GROUP]>,
}

/// A set of up to 32 places: `{ tag: 32, bits: 32 }`.
///
/// # Protocol
///
/// A place is removed by a thread that has found its cell idle, and inserted by the cell's owner once
/// the cell is not idle any more. An insertion changes the word also if the bit is set: so either the
/// removal acquires the insertion and then finds the cell in use, or its compare-exchange fails.
#[derive(Debug)]
pub(crate) struct Mask(AtomicU64);

impl Mask {
    #[inline]
    fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `insert`. Whoever sees the bit sees the cell bound.
        self.0.load(Ordering::Acquire)
    }

    fn insert(&self, bit: usize) {
        let mut word = self.load();
        loop {
            let inserted = (word | 1 << bit).wrapping_add(1 << 32);
            // Release: as told above. Acquire: an insertion also hands on the ones before it.
            match self.0.compare_exchange(word, inserted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
    }

    /// Removes a place if the set has not changed since it was `observed`.
    fn remove(&self, observed: u64, bit: usize) -> bool {
        stall::at(Point::IdleSeen);
        let removed = (observed & !(1 << bit)).wrapping_add(1 << 32);
        self.0.compare_exchange(observed, removed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Visits the places of a word.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the bits")]
fn for_each_bit(word: u64, mut visit: impl FnMut(usize)) {
    let mut bits = word as u32;
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl CellTable {
    pub(crate) fn new() -> Self {
        Self { len: AtomicU32::new(0), first: Lazy::new() }
    }

    /// Takes a place and a cell for the calling thread, which becomes the cell's owner; `None` if
    /// there is no place, or no memory, for one more.
    pub(crate) fn add(&self) -> Option<(u32, &'static ThreadCell, State)> {
        // Relaxed: no two threads get the same place, and that is all.
        let taken = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| {
            (len < PLACES).then_some(len + 1)
        });
        let place = taken.ok()?;
        let (level, group, bit) = locate(place);
        let mut made = self.first.get_or_make(|| Level::new(0));
        for depth in 1..=level {
            made = made.next.get_or_make(|| Level::new(depth));
        }
        let cell = slab().take()?;
        let state = cell.claim();
        // The only thread that has this place: it is empty.
        let _ = made.groups.get(group)?.cells[bit].set(cell);
        Some((place, cell, state))
    }

    /// Takes over a cell that its owner has abandoned.
    pub(crate) fn adopt(&self) -> Option<(u32, &'static ThreadCell, State)> {
        (0..self.len()).find_map(|place| {
            let cell = self.cell(place)?;
            Some((place, cell, cell.adopt()?))
        })
    }

    pub(crate) fn len(&self) -> u32 {
        // Relaxed: whoever must see a place has its thread's adds behind it.
        self.len.load(Ordering::Relaxed)
    }

    /// The cell at a place, once it is there.
    pub(crate) fn cell(&self, place: u32) -> Option<&'static ThreadCell> {
        let (group, bit) = self.group(place)?;
        group.cells[bit].get()
    }

    /// Has readers visit the place: its cell was bound.
    pub(crate) fn activate(&self, place: u32) {
        if let Some((group, bit)) = self.group(place) {
            group.active.insert(bit);
        }
    }

    /// Has readers of the gauge visit the place: its cell was taken.
    pub(crate) fn make_present(&self, place: u32) {
        if let Some((group, bit)) = self.group(place) {
            group.present.insert(bit);
        }
    }

    #[inline]
    fn levels(&self) -> impl Iterator<Item = &Level> {
        std::iter::successors(self.first.get(), |level| level.next.get())
    }

    fn level(&self, depth: usize) -> Option<&Level> {
        self.levels().nth(depth)
    }

    fn group(&self, place: u32) -> Option<(&Group, usize)> {
        let (level, group, bit) = locate(place);
        Some((self.level(level)?.groups.get(group)?, bit))
    }

    /// Visits the cells that may be bound to a bucket of the window.
    #[inline]
    pub(crate) fn for_each_active(&self, mut visit: impl FnMut(&ThreadCell)) {
        self.for_each(|group| &group.active, &mut visit);
    }

    /// Visits the cells that may have gauge counts.
    #[inline]
    pub(crate) fn for_each_present(&self, mut visit: impl FnMut(&ThreadCell)) {
        self.for_each(|group| &group.present, &mut visit);
    }

    #[inline]
    fn for_each(&self, mask: impl Fn(&Group) -> &Mask, visit: &mut impl FnMut(&ThreadCell)) {
        for level in self.levels() {
            for group in &level.groups {
                for_each_bit(mask(group).load(), |bit| {
                    if let Some(cell) = group.cells[bit % GROUP].get() {
                        visit(cell);
                    }
                });
            }
        }
    }

    /// Visits every cell, also those whose place is not in a mask.
    pub(crate) fn for_each_cell(&self, visit: impl FnMut(&'static ThreadCell)) {
        (0..self.len()).filter_map(|place| self.cell(place)).for_each(visit);
    }

    /// One of the groups: another one with each `turn`.
    pub(crate) fn group_of_turn(&self, turn: u64) -> Option<GroupOfCells<'_>> {
        let groups = (self.len() as usize).div_ceil(GROUP).max(1) as u64;
        #[expect(clippy::cast_possible_truncation, reason = "a place is 32 bits")]
        let first = (turn % groups) as u32 * GROUP as u32;
        Some(GroupOfCells { first, group: self.group(first)?.0 })
    }
}

/// The cells of one group.
pub(crate) struct GroupOfCells<'a> {
    first: u32,
    group: &'a Group,
}

impl GroupOfCells<'_> {
    /// A cell whose owner has abandoned it, and that has not been retired; now it is the caller's.
    pub(crate) fn adopt_abandoned(&self) -> Option<(u32, &'static ThreadCell, State)> {
        let mut adopted = None;
        for_each_bit(self.group.present.load(), |bit| {
            let left = self.group.cells[bit].get().filter(|cell| cell.state().is_left());
            if let (Some(cell), None) = (left, adopted) {
                #[expect(clippy::cast_possible_truncation, reason = "below the group's length")]
                let place = self.first + bit as u32;
                adopted = cell.adopt().map(|state| (place, cell, state));
            }
        });
        adopted
    }

    /// Lets readers skip the cells that `is_idle` accepts.
    pub(crate) fn deactivate(&self, is_idle: impl Fn(&ThreadCell) -> bool) {
        self.remove_if(&self.group.active, is_idle);
    }

    /// Lets readers of the gauge skip the cells that have been retired.
    pub(crate) fn remove_retired(&self) {
        self.remove_if(&self.group.present, |cell| cell.state().is_retired());
    }

    fn remove_if(&self, mask: &Mask, is_idle: impl Fn(&ThreadCell) -> bool) {
        for_each_bit(mask.load(), |bit| {
            // Loaded before the cell is looked at: see `Mask`.
            let observed = mask.load();
            if self.group.cells[bit].get().is_some_and(&is_idle) {
                mask.remove(observed, bit);
            }
        });
    }
}

impl Drop for CellTable {
    /// Gives the cells to the next windows. A thread cache may still refer to them, by states that
    /// are not theirs any more.
    fn drop(&mut self) {
        self.for_each_cell(|cell| {
            cell.disown();
            slab().give(cell);
        });
    }
}

impl Level {
    fn new(depth: usize) -> Self {
        let groups = groups_before(depth + 1) - groups_before(depth);
        let group = || Group {
            active: Mask(AtomicU64::new(0)),
            present: Mask(AtomicU64::new(0)),
            cells: Box::new(std::array::from_fn(|_| OnceRef::new())),
        };
        Self { next: Lazy::new(), groups: (0..groups).map(|_| group()).collect() }
    }
}

/// How many groups there are in the levels above that one.
const fn groups_before(depth: usize) -> usize {
    if depth == 0 { 0 } else { 1 << (depth - 1) }
}

/// The level of a place, the group in it, and the place's bit.
fn locate(place: u32) -> (usize, usize, usize) {
    let group = place as usize / GROUP;
    let level = group.checked_ilog2().map_or(0, |log| log as usize + 1);
    (level, group - groups_before(level), place as usize % GROUP)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_fill_the_levels_in_order() {
        let mut expected = (0..4).flat_map(|depth| {
            let groups = groups_before(depth + 1) - groups_before(depth);
            (0..groups).flat_map(move |group| (0..32).map(move |bit| (depth, group, bit)))
        });
        assert!((0..256).all(|place| expected.next() == Some(locate(place))));
    }

    #[test]
    fn removal_fails_after_an_insertion_of_the_same_place() {
        let mask = Mask(AtomicU64::new(0));
        mask.insert(3);
        let observed = mask.load();
        mask.insert(3);
        assert!(!mask.remove(observed, 3));
        assert!(mask.remove(mask.load(), 3));
        assert_eq!(mask.load() & u64::from(u32::MAX), 0);
    }

    #[test]
    fn cells_return_to_the_slab_with_their_table() {
        let table = CellTable::new();
        let taken: Vec<_> = (0..70).filter_map(|_| table.add()).collect();
        assert_eq!(taken.len(), 70);
        for (place, cell, _) in &taken {
            assert!(table.cell(*place).is_some_and(|found| std::ptr::eq(found, *cell)));
        }
        let states = taken.iter().map(|(_, cell, state)| (*cell, *state)).collect::<Vec<_>>();
        drop(table);
        assert!(states.iter().all(|(cell, state)| cell.state() != *state), "they are disowned");
    }
}
