//! Further sets of a thread's cache, for windows that find no room in the set of their number.

use super::cache_set::{CacheEntry, ColdEntry, Set, WAYS, WINDOW_STRIDE, Way};
use crate::sync::{OnceLock, PrivateU64};

/// The binary logarithms of the numbers of sets of the levels. A level is made when the levels
/// before it are full for some window. Models have none, so that few windows fill a cache.
const LEVELS: [u32; if cfg!(loom) { 0 } else { 2 }] = {
    let (all, mut level) = ([11, 13], 0);
    let mut some = [0; if cfg!(loom) { 0 } else { 2 }];
    while level < some.len() {
        some[level] = all[level];
        level += 1;
    }
    some
};

/// Levels of sets, each four times as large as the one before it.
///
/// A window stays in the set in which it was inserted until the entries of the cache are moved. A
/// record in such a window takes some tens of instructions more than in another one, and no
/// read-modify-write.
#[derive(Debug)]
pub(super) struct FurtherSets([OnceLock<Level>; LEVELS.len()]);

#[derive(Debug)]
struct Level {
    /// 1 if the thread has taken a way of it.
    is_used: PrivateU64,
    sets: Box<[Set]>,
    states: Box<[[PrivateU64; WAYS]]>,
}

impl FurtherSets {
    /// Creates levels without memory.
    pub(super) const fn new() -> Self {
        Self([const { OnceLock::new() }; LEVELS.len()])
    }

    /// Returns the number of bytes of the levels that were made.
    pub(super) fn bytes(&self) -> usize {
        let levels = self.0.iter().filter_map(OnceLock::get);
        levels.map(|level| size_of_val(&*level.sets) + size_of_val(&*level.states)).sum()
    }

    /// Returns the entry of a window that records find.
    #[inline]
    pub(super) fn entry(
        &'static self,
        window: u64,
    ) -> Option<(&'static CacheEntry, &'static ColdEntry)> {
        for (level, log) in self.0.iter().zip(LEVELS) {
            let Set { entries: [first, second], cold: [cold, cold_of_second] } =
                &level.get()?.sets[set_of(window, log)];
            if first.window.get() == window {
                return Some((first, cold));
            }
            if second.window.get() == window {
                return Some((second, cold_of_second));
            }
        }
        None
    }

    /// Returns the way of a window.
    #[cold]
    #[inline(never)]
    pub(super) fn find(&'static self, window: u64) -> Option<Way<'static>> {
        self.0.iter().zip(LEVELS).find_map(|(level, log)| {
            // A window is in no level after one that was not made.
            level.get()?.ways(set_of(window, log)).into_iter().find(|way| way.entry.is_of(window))
        })
    }

    /// Takes a way for a window: an empty one, or one whose window was dropped.
    pub(super) fn take(&'static self, window: u64) -> Option<Way<'static>> {
        self.0.iter().zip(LEVELS).find_map(|(level, log)| {
            let level = level.get_or_init(|| Level::new(log));
            let free = level.ways(set_of(window, log)).into_iter().find(|way| way.is_free());
            if free.is_some() {
                level.is_used.set(1);
            }
            free
        })
    }

    /// Returns the ways of the levels that the thread has used. The cache may be one of an earlier
    /// thread with many windows, and this one may be a thread of a single request.
    pub(super) fn ways(&'static self) -> impl Iterator<Item = Way<'static>> {
        let levels = self.0.iter().filter_map(OnceLock::get);
        let used = levels.filter(|level| level.is_used.get() != 0);
        used.flat_map(|level| (0..level.sets.len()).flat_map(|set| level.ways(set)))
    }

    /// Notes that all ways are empty.
    pub(super) fn note_emptied(&self) {
        self.0.iter().filter_map(OnceLock::get).for_each(|level| level.is_used.set(0));
    }
}

impl Level {
    fn new(log: u32) -> Self {
        let sets = 1 << log;
        Self {
            is_used: PrivateU64::new(0),
            sets: (0..sets).map(|_| Set::new()).collect(),
            states: (0..sets).map(|_| Set::no_states()).collect(),
        }
    }

    fn ways(&'static self, set: usize) -> [Way<'static>; WAYS] {
        Way::all(&self.sets[set], &self.states[set])
    }
}

/// Returns the set of a window among 2^`log`. The multiples of the factor, of consecutive windows
/// and of windows at equal distances, spread evenly.
#[inline]
const fn set_of(window: u64, log: u32) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    ((window / WINDOW_STRIDE).wrapping_mul(FACTOR) >> (u64::BITS - log)) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A thread may record in one of several windows that are made together, as in one for each
    /// resource.
    #[test]
    fn few_of_10_000_windows_at_equal_distances_have_no_way() {
        for distance in 1..=8 {
            let mut taken = LEVELS.map(|log| vec![0; 1 << log]);
            let without = (0..10_000).filter(|window| {
                let mut levels = taken.iter_mut().zip(LEVELS);
                let found = levels.find_map(|(level, log)| {
                    let taken = &mut level[set_of(window * distance * WINDOW_STRIDE, log)];
                    (*taken < WAYS).then(|| *taken += 1)
                });
                found.is_none()
            });
            let without = without.count();
            assert!(without <= 100, "{without} at {distance}");
        }
    }
}
