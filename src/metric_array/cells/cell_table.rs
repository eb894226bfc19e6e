//! The cells of one window.

use super::mask::{Mask, for_each_bit, is_empty, try_for_each_bit};
use super::slab::slab;
use super::thread_cell::{CellState, ThreadCell};
use crate::sync::{AtomicU32, AtomicU64, OnceRef, Ordering, RacyOnce};

/// The number of places that share one word of a mask.
pub(crate) const GROUP: usize = if cfg!(loom) { 2 } else { 32 };

/// The number of places, 65,536. Further threads record directly.
const PLACES: u32 = if cfg!(loom) { 4 } else { 1 << 16 };

/// The number of levels that contain all places except for the places of the first group.
const LEVELS: usize = (PLACES as usize / GROUP).ilog2() as usize;

/// The cells that threads have taken for one window, each at a *place*.
///
/// A cell stays at its place until the window is dropped, and goes to another thread when its owner
/// has ended. Two masks tell readers which places to visit: `active` has the places whose cell may
/// be bound to a bucket of the window, and `present` has the places whose cell has gauge counts.
/// Further masks have the groups and the levels with active places, so that a sum skips the others.
///
/// # Orderings
///
/// A cell is stored at its place with release and loaded with acquire, after the thread that owns
/// it has claimed it. The masks have the protocol of [`Mask`]. `len` and `turn` are relaxed. `len`
/// gives each thread another place; a reader that must find a place is ordered after the adds of
/// its owner. `checked` is relaxed: a sweep loads the number of abandonments, with acquire, before
/// it loads the states of the cells.
#[derive(Debug)]
pub(crate) struct CellTable {
    /// The number of places that were taken.
    len: AtomicU32,
    /// The number of groups that were swept, while there was more than one.
    turn: AtomicU32,
    /// The first group, apart from the others: most windows have no other group, and then a read
    /// follows one pointer.
    first: RacyOnce<CellGroup>,
    more: RacyOnce<Levels>,
}

/// The groups beyond the first one.
#[derive(Debug)]
struct Levels {
    /// The depths of the levels that have active places.
    active: Mask,
    levels: [RacyOnce<Level>; LEVELS],
}

/// Groups that are made together. The level at depth d has 2^d groups, from the index 2^d on.
#[derive(Debug)]
struct Level {
    groups: Box<[CellGroup]>,
    /// The groups that have active places. A bit stands for one group, or for several groups in a
    /// level of more than 32 groups.
    active: Mask,
}

#[derive(Debug)]
struct CellGroup {
    active: Mask,
    present: Mask,
    /// The number of abandonments in the process when a sweep last found no cell of the group that
    /// was abandoned or retired. As long as it is the same, a sweep visits the active cells only.
    checked: AtomicU64,
    cells: [OnceRef<'static, ThreadCell>; GROUP],
}

impl CellTable {
    pub(crate) fn new() -> Self {
        Self {
            len: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            first: RacyOnce::new(),
            more: RacyOnce::new(),
        }
    }

    /// Takes a place and a cell for the calling thread, which becomes the cell's owner; `None` if
    /// the table or the slab is full.
    pub(crate) fn add(&self) -> Option<(u32, &'static ThreadCell, CellState)> {
        // Relaxed: the update gives each thread a different place, and orders nothing.
        let taken = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| {
            (len < PLACES).then_some(len + 1)
        });
        let place = taken.ok()?;
        let (group, bit) = (self.make_group(place as usize / GROUP)?, place as usize % GROUP);
        let cell = slab().take()?;
        let state = cell.claim();
        // Succeeds: no other thread has this place, so it is empty.
        let _ = group.cells[bit].set(cell);
        Some((place, cell, state))
    }

    /// Adopts a cell that its owner has abandoned.
    pub(crate) fn adopt(&self) -> Option<(u32, &'static ThreadCell, CellState)> {
        (0..self.len()).find_map(|place| {
            let cell = self.cell(place)?;
            Some((place, cell, cell.adopt()?))
        })
    }

    pub(crate) fn len(&self) -> u32 {
        // Relaxed: a read that must find a place happens after the adds at that place, and so after
        // this was incremented.
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the cell at a place, once it is there.
    pub(crate) fn cell(&self, place: u32) -> Option<&'static ThreadCell> {
        let (group, bit) = self.group(place)?;
        group.cells[bit].get()
    }

    /// Lets readers visit the place: its cell was bound.
    pub(crate) fn activate(&self, place: u32) {
        if let Some((group, bit)) = self.group(place) {
            group.active.insert(bit);
            if let Some((levels, level, depth, index)) = self.level_of(place) {
                level.active.insert(level.bit_of(index));
                levels.active.insert(depth);
            }
        }
    }

    /// Lets readers of the gauge visit the place, whose cell was bound with its gauge counts
    /// zeroed.
    pub(crate) fn make_present(&self, place: u32) {
        if let Some((group, bit)) = self.group(place) {
            group.present.insert(bit);
        }
    }

    fn make_group(&self, index: usize) -> Option<&CellGroup> {
        let Some(last) = index.checked_ilog2() else {
            return Some(self.first.get_or_init(CellGroup::new));
        };
        let Levels { levels, .. } = self.more.get_or_init(Levels::new);
        let level = levels.get(last as usize)?.get_or_init(|| Level::new(last));
        level.groups.get(index - (1 << last))
    }

    /// Returns the group of a place, and the place's bit in it.
    fn group(&self, place: u32) -> Option<(&CellGroup, usize)> {
        let (index, bit) = (place as usize / GROUP, place as usize % GROUP);
        let Some(depth) = index.checked_ilog2() else { return Some((self.first.get()?, bit)) };
        let level = self.level(depth as usize)?;
        Some((level.groups.get(index - (1 << depth))?, bit))
    }

    fn level(&self, depth: usize) -> Option<&Level> {
        self.more.get()?.levels.get(depth)?.get()
    }

    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.more.get().into_iter().flat_map(|more| &more.levels).filter_map(RacyOnce::get)
    }

    /// Returns the mask of the levels.
    #[inline]
    fn active_levels(&self) -> u64 {
        self.more.get().map_or(0, |more| more.active.load())
    }

    /// Returns the levels, the level of a place, its depth, and the index of the place's group in
    /// it; `None` for a place of the first group.
    fn level_of(&self, place: u32) -> Option<(&Levels, &Level, usize, usize)> {
        let index = place as usize / GROUP;
        let depth = index.checked_ilog2()? as usize;
        Some((self.more.get()?, self.level(depth)?, depth, index - (1 << depth)))
    }

    /// Visits the cells that may be bound to a bucket of the window.
    #[inline]
    pub(crate) fn for_each_active(&self, mut visit: impl FnMut(&ThreadCell)) {
        let _ = self.try_for_each_active(|cell| {
            visit(cell);
            Some(())
        });
    }

    /// Visits the cells that may be bound to a bucket of the window, until `visit` returns `None`.
    #[inline]
    pub(crate) fn try_for_each_active(
        &self,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        let Some(first) = self.first.get() else { return Some(()) };
        first.try_for_each(&first.active, &mut visit)?;
        let levels = self.active_levels();
        if is_empty(levels) { Some(()) } else { self.try_for_each_in_levels(levels, visit) }
    }

    #[inline]
    fn try_for_each_in_levels(
        &self,
        active: u64,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        try_for_each_bit(active, |depth| {
            let Some(level) = self.level(depth) else { return Some(()) };
            let active = level.active.load();
            if level.groups.len() > Level::BITS {
                return level.try_for_each_in_groups(active, &mut visit);
            }
            try_for_each_bit(active, |bit| {
                let group = level.groups.get(bit)?;
                group.try_for_each(&group.active, &mut visit)
            })
        })
    }

    /// Returns whether all active cells are in the first group.
    #[inline]
    pub(crate) fn are_active_in_first(&self) -> bool {
        is_empty(self.active_levels())
    }

    /// Visits the active cells of the first group until `visit` returns `None`. Returns `None` if
    /// `visit` does, or if there is no group.
    #[inline]
    pub(crate) fn try_for_each_active_of_first(
        &self,
        visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        let first = self.first.get()?;
        first.try_for_each(&first.active, visit)
    }

    /// Visits the cells that may have gauge counts.
    #[inline]
    pub(crate) fn for_each_present(&self, mut visit: impl FnMut(&ThreadCell)) {
        let more = self.levels().flat_map(|level| &level.groups);
        for group in self.first.get().into_iter().chain(more) {
            group.for_each(&group.present, &mut visit);
        }
    }

    /// Visits every cell, whether its place is in a mask or not.
    pub(crate) fn for_each_cell(&self, visit: impl FnMut(&'static ThreadCell)) {
        (0..self.len()).filter_map(|place| self.cell(place)).for_each(visit);
    }

    /// Removes the groups and the level of a place from their masks, if no place in them is active.
    fn remove_idle_groups(&self, place: u32) {
        let Some((levels, level, depth, index)) = self.level_of(place) else { return };
        // Each mask is loaded before its groups are checked: see `Mask`.
        let observed = (levels.active.load(), level.active.load());
        let bit = level.bit_of(index);
        let is_in_mask = observed.1 & 1 << bit != 0;
        if is_in_mask && level.groups_of(bit).iter().all(|group| is_empty(group.active.load())) {
            level.active.remove(observed.1, bit);
        }
        if is_empty(level.active.load()) {
            levels.active.remove(observed.0, depth);
        }
    }

    /// Returns the groups in turn, one with each call.
    pub(crate) fn next_group(&self) -> Option<GroupOfCells<'_>> {
        let groups = (self.len() as usize).div_ceil(GROUP);
        // Relaxed, and two stores: which thread gets which group does not matter.
        let turn = || {
            let turn = self.turn.load(Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
            turn as usize
        };
        let index = if groups <= 1 { 0 } else { turn() % groups };
        #[expect(clippy::cast_possible_truncation, reason = "a place is 32 bits")]
        let first = (index * GROUP) as u32;
        Some(GroupOfCells { table: self, first, group: self.group(first)?.0 })
    }
}

/// The cells of one group.
pub(crate) struct GroupOfCells<'a> {
    table: &'a CellTable,
    /// The first place of the group.
    first: u32,
    group: &'a CellGroup,
}

impl GroupOfCells<'_> {
    /// Returns whether this is the group of that place, and a sweep would visit none of its other
    /// places.
    pub(crate) fn has_only(&self, place: u32) -> bool {
        let (index, bit) = (place as usize / GROUP, place as usize % GROUP);
        let bits = self.group.active.load() | self.group.unchecked(slab().abandonments());
        index == self.first as usize / GROUP && is_empty(bits & !(1 << bit))
    }

    /// Removes the cells for which `is_idle` holds from the mask of active places, and retired
    /// cells from the mask of present places. Returns whether it found an abandoned cell that has
    /// not been retired.
    ///
    /// Most cells are idle and have an owner. They are not visited unless a cell of the process was
    /// abandoned or retired since the group was checked.
    pub(crate) fn skip_idle(&self, is_idle: impl Fn(&ThreadCell, CellState) -> bool) -> bool {
        let CellGroup { active, present, checked, cells } = self.group;
        // Loaded before the cells' states: a cell that is abandoned after its state was loaded
        // makes the number another one.
        let abandonments = slab().abandonments();
        let (mut is_unretired, mut is_retired) = (false, false);
        for_each_bit(active.load() | self.group.unchecked(abandonments), |bit| {
            // Loaded before the cell's state: see `Mask`.
            let observed = (active.load(), present.load());
            let Some(cell) = cells[bit].get() else { return };
            let state = cell.state();
            is_unretired |= state.is_unretired();
            is_retired |= state.is_retired();
            if is_idle(cell, state) {
                active.remove(observed.0, bit);
            }
            if state.is_retired() {
                present.remove(observed.1, bit);
            }
        });
        if !is_unretired && !is_retired {
            checked.store(abandonments, Ordering::Relaxed);
        }
        if is_empty(active.load()) {
            self.table.remove_idle_groups(self.first);
        }
        is_unretired
    }

    /// Adopts a cell of the group whose owner has abandoned it and that has not been retired.
    pub(crate) fn adopt_abandoned(&self) -> Option<(u32, &'static ThreadCell, CellState)> {
        let mut adopted = None;
        for_each_bit(self.group.present.load(), |bit| {
            if let (Some(cell), None) = (self.group.cells[bit].get(), adopted) {
                #[expect(clippy::cast_possible_truncation, reason = "below the group's length")]
                let place = self.first + bit as u32;
                adopted = cell.adopt_unretired().map(|state| (place, cell, state));
            }
        });
        adopted
    }
}

impl Drop for CellTable {
    /// Gives the cells back to the slab. A thread cache may still refer to them, with states that
    /// they no longer have.
    fn drop(&mut self) {
        self.for_each_cell(|cell| {
            cell.disown();
            slab().give(cell);
        });
    }
}

impl Levels {
    fn new() -> Self {
        Self { active: Mask::new(), levels: std::array::from_fn(|_| RacyOnce::new()) }
    }
}

impl Level {
    /// The number of bits in a mask.
    const BITS: usize = u32::BITS as usize;

    fn new(depth: u32) -> Self {
        let groups = (0..1 << depth).map(|_| CellGroup::new()).collect();
        Self { groups, active: Mask::new() }
    }

    /// Visits the active cells of a level in which several groups share a bit.
    #[cold]
    fn try_for_each_in_groups(
        &self,
        active: u64,
        visit: &mut dyn FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        try_for_each_bit(active, |bit| {
            let mut groups = self.groups_of(bit).iter();
            groups.try_for_each(|group| group.try_for_each(&group.active, &mut *visit))
        })
    }

    /// Returns the number of groups that share a bit.
    fn groups_of_a_bit(&self) -> usize {
        self.groups.len().div_ceil(Self::BITS)
    }

    fn bit_of(&self, group: usize) -> usize {
        group / self.groups_of_a_bit()
    }

    fn groups_of(&self, bit: usize) -> &[CellGroup] {
        let count = self.groups_of_a_bit();
        self.groups.get(bit * count..(bit + 1) * count).unwrap_or_default()
    }
}

impl CellGroup {
    fn new() -> Self {
        Self {
            active: Mask::new(),
            present: Mask::new(),
            checked: AtomicU64::new(u64::MAX),
            cells: std::array::from_fn(|_| OnceRef::new()),
        }
    }

    /// Returns the places of cells that may be abandoned or retired.
    #[inline]
    fn unchecked(&self, abandonments: u64) -> u64 {
        let is_checked = self.checked.load(Ordering::Relaxed) == abandonments;
        if is_checked { 0 } else { self.present.load() }
    }

    /// Visits the cells of the places in a mask.
    #[inline]
    fn for_each(&self, mask: &Mask, visit: &mut impl FnMut(&ThreadCell)) {
        let _ = self.try_for_each(mask, |cell| {
            visit(cell);
            Some(())
        });
    }

    /// Visits the cells of the places in a mask, until `visit` returns `None`.
    #[inline]
    fn try_for_each(
        &self,
        mask: &Mask,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        try_for_each_bit(mask.load(), |bit| match self.cells[bit % GROUP].get() {
            Some(cell) => visit(cell),
            None => Some(()),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_fill_the_groups_in_order() {
        let table = CellTable::new();
        let added: Vec<_> = (0..9 * 32).filter_map(|_| table.add()).collect();
        assert!(added.iter().map(|(place, ..)| *place).eq(0..9 * 32));
        let first = table.first.get().into_iter();
        let groups: Vec<_> = first.chain(table.levels().flat_map(|level| &level.groups)).collect();
        assert_eq!(groups.len(), 16, "1 + 1 + 2 + 4 + 8");
        for (place, cell, _) in added {
            let found = groups[place as usize / 32].cells[place as usize % 32].get();
            assert!(found.is_some_and(|found| std::ptr::eq(found, cell)), "{place}");
            assert!(table.cell(place).is_some_and(|found| std::ptr::eq(found, cell)), "{place}");
        }
    }

    #[test]
    fn idle_groups_and_levels_leave_the_masks() {
        // The last place is in group 93, of the level of 64 groups: there, a bit stands for two
        // groups.
        const PLACES_USED: u32 = 3_000;
        let table = CellTable::new();
        let added: Vec<_> = (0..PLACES_USED).filter_map(|_| table.add()).collect();
        for (place, ..) in added {
            table.activate(place);
        }
        let visited = || {
            let mut count = 0_u32;
            table.for_each_active(|_| count += 1);
            count
        };
        assert_eq!(visited(), PLACES_USED);
        for _ in 0..(PLACES_USED as usize).div_ceil(GROUP) {
            table.next_group().unwrap().skip_idle(|_, _| true);
        }
        assert_eq!(visited(), 0);
        let all = &table.more.get().unwrap().active;
        let masks = || table.levels().map(|level| &level.active).chain([all]);
        assert!(masks().all(|mask| is_empty(mask.load())));
        table.activate(PLACES_USED - 1);
        assert_eq!(visited(), 1);
        let bits = masks().map(|mask| mask.load() & u64::from(u32::MAX)).collect::<Vec<_>>();
        assert_eq!(bits, [0, 0, 0, 0, 0, 0, 1 << ((93 - 64) / 2), 1 << 6]);
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
        assert!(states.iter().all(|(cell, state)| cell.state() != *state), "all are disowned");
    }
}
