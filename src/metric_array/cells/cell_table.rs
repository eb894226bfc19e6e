//! The cells of one window.

use super::mask::{BITS, Mask, for_each_bit, has_one, is_empty, try_for_each_bit};
use super::slab::slab;
use super::thread_cell::{CellState, ThreadCell};
use crate::sync::{AtomicU32, AtomicU64, OnceRef, Ordering, RacyOnce};

/// The number of places that share one word of a mask.
pub(crate) const GROUP: usize = if cfg!(loom) { 2 } else { 32 };

/// The number of places, 65,536. Further threads record directly.
const PLACES: u32 = if cfg!(loom) { 8 } else { 1 << 16 };

/// The number of groups, with the first one, that need no level.
const NEAR: usize = if cfg!(loom) { 2 } else { 32 };

/// The number of levels that contain all places except for those of the near groups.
const LEVELS: usize = (PLACES as usize / GROUP / NEAR).ilog2() as usize;

/// The bit of all levels in the mask of groups.
const LEVELS_BIT: usize = NEAR - 1;

/// The cells that threads have taken for one window, each at a *place*.
///
/// A cell stays at its place until the window is dropped, and goes to another thread when its owner
/// has ended. Two masks tell readers which places to visit: `active` has the places whose cell may
/// be bound to a bucket of the window, and `present` has the places whose cell has gauge counts.
/// Further masks have the groups with active places, so that a sum skips the others.
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
    more: RacyOnce<MoreGroups>,
}

/// The groups beyond the first one.
///
/// A thread that records beside hundreds of idle threads may have its cell in any of them. One mask
/// has the near groups, those of the first 1,024 places, so a read that visits this cell follows
/// one pointer more than in a window of few threads.
#[derive(Debug)]
struct MoreGroups {
    /// The groups that have active places: bit i - 1 for the near group with the index i, and
    /// [`LEVELS_BIT`] for the groups of all levels.
    active: Mask,
    near: [RacyOnce<CellGroup>; NEAR - 1],
    levels: [RacyOnce<Level>; LEVELS],
}

/// Groups that are made together. The level at depth d has 2^d groups, from the index 2^d on. The
/// first level begins where the near groups end.
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
            if let (index @ 1.., Some(more)) = (place as usize / GROUP, self.more.get()) {
                more.activate(index);
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
        if index == 0 {
            return Some(self.first.get_or_init(CellGroup::new));
        }
        self.more.get_or_init(MoreGroups::new).make(index)
    }

    /// Returns the group of a place, and the place's bit in it.
    fn group(&self, place: u32) -> Option<(&CellGroup, usize)> {
        let (index, bit) = (place as usize / GROUP, place as usize % GROUP);
        let group = if index == 0 { self.first.get() } else { self.more.get()?.group(index) };
        Some((group?, bit))
    }

    /// Visits the cells that may be bound to a bucket of the window.
    #[inline]
    pub(crate) fn for_each_active(&self, mut visit: impl FnMut(&ThreadCell)) {
        let Some(first) = self.first.get() else { return };
        first.for_each(first.active.load(), &mut visit);
        let Some(more) = self.more.get() else { return };
        for_each_bit(more.active.load(), |bit| match more.near.get(bit).map(RacyOnce::get) {
            Some(Some(group)) => group.for_each(group.active.load(), &mut visit),
            // A place is stored in its group before the group is in the mask.
            Some(None) => {}
            None => more.for_each_in_levels(&mut visit),
        });
    }

    /// Returns the near group that has all active cells; `None` if there is no such group.
    #[inline]
    pub(crate) fn only_active_group(&self) -> Option<ActiveCells<'_>> {
        let first = self.first.get()?;
        let active = first.active.load();
        let Some(more) = self.more.get() else { return Some(ActiveCells { group: first, active }) };
        let groups = more.active.load();
        if is_empty(groups) {
            return Some(ActiveCells { group: first, active });
        }
        if !is_empty(active) || !has_one(groups) {
            return None;
        }
        let group = more.near.get(groups.trailing_zeros() as usize)?.get()?;
        Some(ActiveCells { group, active: group.active.load() })
    }

    /// Visits the active cells of the near groups until `visit` returns `None`. Returns `None` if
    /// `visit` does, if there is no group, or if a cell of a level is active.
    #[inline]
    pub(crate) fn try_for_each_active_near(
        &self,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        let mut group = self.first.get()?;
        let more = self.more.get();
        let mut others = more.map_or(0, |more| more.active.load() & BITS);
        // One loop for all groups: nested closures take a third more for each cell.
        loop {
            group.try_for_each(group.active.load(), &mut visit)?;
            if others == 0 {
                return Some(());
            }
            group = more?.near.get(others.trailing_zeros() as usize)?.get()?;
            others &= others - 1;
        }
    }

    /// Visits the cells that may have gauge counts.
    #[inline]
    pub(crate) fn for_each_present(&self, mut visit: impl FnMut(&ThreadCell)) {
        let more = self.more.get().into_iter().flat_map(MoreGroups::groups);
        for group in self.first.get().into_iter().chain(more) {
            group.for_each(group.present.load(), &mut visit);
        }
    }

    /// Visits every cell, whether its place is in a mask or not.
    pub(crate) fn for_each_cell(&self, visit: impl FnMut(&'static ThreadCell)) {
        (0..self.len()).filter_map(|place| self.cell(place)).for_each(visit);
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

/// The cells of one group that are active.
pub(crate) struct ActiveCells<'a> {
    group: &'a CellGroup,
    /// The word of the mask.
    active: u64,
}

impl ActiveCells<'_> {
    /// Visits the cells until `visit` returns `None`.
    #[inline]
    pub(crate) fn try_for_each(&self, visit: impl FnMut(&ThreadCell) -> Option<()>) -> Option<()> {
        self.group.try_for_each(self.active, visit)
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
        // Stored only if it changes: the threads that bind cells share its line.
        if !is_unretired && !is_retired && checked.load(Ordering::Relaxed) != abandonments {
            checked.store(abandonments, Ordering::Relaxed);
        }
        if let (index @ 1.., Some(more)) = (self.first as usize / GROUP, self.table.more.get()) {
            more.skip_if_idle(index);
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

impl MoreGroups {
    fn new() -> Self {
        Self {
            active: Mask::new(),
            near: std::array::from_fn(|_| RacyOnce::new()),
            levels: std::array::from_fn(|_| RacyOnce::new()),
        }
    }

    /// Returns the group with an index of 1 or more, which it makes if it is not there yet; `None`
    /// beyond the last group.
    fn make(&self, index: usize) -> Option<&CellGroup> {
        match Self::position(index) {
            Position::Near(bit) => Some(self.near[bit].get_or_init(CellGroup::new)),
            Position::Level { level, group } => {
                let level = self.levels.get(level)?.get_or_init(|| Level::new(NEAR << level));
                level.groups.get(group)
            }
        }
    }

    fn group(&self, index: usize) -> Option<&CellGroup> {
        match Self::position(index) {
            Position::Near(bit) => self.near[bit].get(),
            Position::Level { level, group } => self.level(level)?.groups.get(group),
        }
    }

    const fn position(index: usize) -> Position {
        if index < NEAR {
            return Position::Near(index - 1);
        }
        let depth = index.ilog2();
        Position::Level { level: (depth - NEAR.ilog2()) as usize, group: index - (1 << depth) }
    }

    fn level(&self, level: usize) -> Option<&Level> {
        self.levels.get(level)?.get()
    }

    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().filter_map(RacyOnce::get)
    }

    fn groups(&self) -> impl Iterator<Item = &CellGroup> {
        let near = self.near.iter().filter_map(RacyOnce::get);
        near.chain(self.levels().flat_map(|level| &level.groups))
    }

    /// Lets readers visit a group, in which a place was activated.
    fn activate(&self, index: usize) {
        match Self::position(index) {
            Position::Near(bit) => self.active.insert(bit),
            Position::Level { level, group } => {
                if let Some(level) = self.level(level) {
                    level.active.insert(level.bit_of(group));
                }
                self.active.insert(LEVELS_BIT);
            }
        }
    }

    /// Removes a group from its masks if no place in it is active.
    fn skip_if_idle(&self, index: usize) {
        // Each mask is loaded before its groups are checked: see `Mask`.
        let observed = self.active.load();
        match Self::position(index) {
            Position::Near(bit) => {
                if self.near[bit].get().is_some_and(CellGroup::is_idle) {
                    self.active.remove(observed, bit);
                }
            }
            Position::Level { level, group } => {
                if let Some(level) = self.level(level) {
                    level.skip_if_idle(level.bit_of(group));
                }
                if self.levels().all(|level| is_empty(level.active.load())) {
                    self.active.remove(observed, LEVELS_BIT);
                }
            }
        }
    }

    /// Visits the active cells of the levels.
    #[cold]
    fn for_each_in_levels(&self, visit: &mut dyn FnMut(&ThreadCell)) {
        for level in self.levels() {
            for_each_bit(level.active.load(), |bit| {
                for group in level.groups_of(bit) {
                    group.for_each(group.active.load(), &mut *visit);
                }
            });
        }
    }
}

/// Where a group is that is not the first one.
enum Position {
    /// A near group, with its bit.
    Near(usize),
    /// The number of a level, and the index of the group in it.
    Level { level: usize, group: usize },
}

impl Level {
    /// The number of bits in a mask.
    const BITS: usize = u32::BITS as usize;

    fn new(groups: usize) -> Self {
        let groups = (0..groups).map(|_| CellGroup::new()).collect();
        Self { groups, active: Mask::new() }
    }

    /// Removes the groups that share a bit from the mask, if no place in them is active.
    fn skip_if_idle(&self, bit: usize) {
        let observed = self.active.load();
        if self.groups_of(bit).iter().all(CellGroup::is_idle) {
            self.active.remove(observed, bit);
        }
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

    fn is_idle(&self) -> bool {
        is_empty(self.active.load())
    }

    /// Returns the places of cells that may be abandoned or retired.
    #[inline]
    fn unchecked(&self, abandonments: u64) -> u64 {
        let is_checked = self.checked.load(Ordering::Relaxed) == abandonments;
        if is_checked { 0 } else { self.present.load() }
    }

    /// Visits the cells of the places in a mask's word.
    #[inline]
    fn for_each(&self, mask: u64, mut visit: impl FnMut(&ThreadCell)) {
        for_each_bit(mask, |bit| {
            if let Some(cell) = self.cells[bit % GROUP].get() {
                visit(cell);
            }
        });
    }

    /// Visits the cells of the places in a mask's word, until `visit` returns `None`.
    #[inline]
    fn try_for_each(
        &self,
        mask: u64,
        mut visit: impl FnMut(&ThreadCell) -> Option<()>,
    ) -> Option<()> {
        try_for_each_bit(mask, |bit| match self.cells[bit % GROUP].get() {
            Some(cell) => visit(cell),
            None => Some(()),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{iter, ptr};

    use super::*;

    #[test]
    fn places_fill_the_groups_in_order() {
        let table = CellTable::new();
        let added: Vec<_> = (0..70 * 32).filter_map(|_| table.add()).collect();
        assert!(added.iter().map(|(place, ..)| *place).eq(0..70 * 32));
        let first = table.first.get().into_iter();
        let more = table.more.get().unwrap();
        let groups: Vec<_> = first.chain(more.groups()).collect();
        assert_eq!(groups.len(), 128, "32 near groups, and levels of 32 and 64");
        for (place, cell, _) in added {
            let found = groups[place as usize / 32].cells[place as usize % 32].get();
            assert!(found.is_some_and(|found| ptr::eq(found, cell)), "{place}");
            assert!(table.cell(place).is_some_and(|found| ptr::eq(found, cell)), "{place}");
        }
    }

    #[test]
    fn idle_groups_and_levels_leave_the_masks() {
        // The last place is in group 93, of the level of 64 groups: there, a bit stands for two
        // groups.
        const PLACES_USED: u32 = 3_000;
        let table = CellTable::new();
        let added: Vec<_> = (0..PLACES_USED).filter_map(|_| table.add()).collect();
        for (place, ..) in &added {
            table.activate(*place);
        }
        let visited = || {
            let mut count = 0_u32;
            table.for_each_active(|_| count += 1);
            count
        };
        let sweep = || {
            for _ in 0..(PLACES_USED as usize).div_ceil(GROUP) {
                table.next_group().unwrap().skip_idle(|_, _| true);
            }
        };
        let more = table.more.get().unwrap();
        let bits = || {
            let masks = iter::once(&more.active).chain(more.levels().map(|level| &level.active));
            masks.map(|mask| mask.load() & u64::from(u32::MAX)).collect::<Vec<_>>()
        };
        let all = u64::from(u32::MAX);
        assert_eq!((visited(), bits()), (PLACES_USED, vec![all, all, (1 << 15) - 1]));
        assert!(table.only_active_group().is_none());
        assert!(table.try_for_each_active_near(|_| Some(())).is_none(), "levels are active");
        sweep();
        assert_eq!((visited(), bits()), (0, vec![0, 0, 0]));
        assert!(table.only_active_group().is_some());
        // Of the first group, of the near group 31, and of group 93.
        for (place, expected) in [
            (31, [0, 0, 0]),
            (31 * 32, [1 << 30, 0, 0]),
            (PLACES_USED - 1, [1 << 30 | 1 << 31, 0, 1 << ((93 - 64) / 2)]),
        ] {
            table.activate(place);
            assert_eq!(bits(), expected);
        }
        assert_eq!(visited(), 3);
        sweep();
        // A cell alone in any of the near groups, and then a second one in another group.
        for place in [31, 31 * 32] {
            table.activate(place);
            let mut count = 0;
            let mut visit = |cell: &ThreadCell| {
                count += usize::from(ptr::eq(cell, added[place as usize].1));
                Some(())
            };
            table.only_active_group().unwrap().try_for_each(&mut visit).unwrap();
            table.try_for_each_active_near(&mut visit).unwrap();
            assert_eq!(count, 2);
            sweep();
        }
        table.activate(31);
        table.activate(31 * 32);
        let mut count = 0;
        table
            .try_for_each_active_near(|_| {
                count += 1;
                Some(())
            })
            .unwrap();
        assert!(count == 2 && table.only_active_group().is_none());
    }

    #[test]
    fn cells_return_to_the_slab_with_their_table() {
        let table = CellTable::new();
        let taken: Vec<_> = (0..70).filter_map(|_| table.add()).collect();
        assert_eq!(taken.len(), 70);
        for (place, cell, _) in &taken {
            assert!(table.cell(*place).is_some_and(|found| ptr::eq(found, *cell)));
        }
        let states = taken.iter().map(|(_, cell, state)| (*cell, *state)).collect::<Vec<_>>();
        drop(table);
        assert!(states.iter().all(|(cell, state)| cell.state() != *state), "all are disowned");
    }
}
