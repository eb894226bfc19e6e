//! The pages of a thread's cache: its sets by the numbers of windows, as many as the thread needs.

#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;

use super::cache_set::{ColdEntry, MovedEntry, Set, WAYS, WINDOW_STRIDE, Way};
use super::further_sets::FurtherSets;
use crate::sync::{AtomicCell, OnceLock, PrivateU64, THREAD_CACHE_SETS};

/// The sets of one page.
pub(super) type Page = [Set; THREAD_CACHE_SETS];

/// The page of each number of a page.
pub(super) type Directory = [AtomicCell<&'static Page>; 256];

/// The number of pages that a cache can have, a power of two. Models have one, so that few windows
/// fill a cache.
const MAX_PAGES: usize = if cfg!(loom) { 1 } else { 128 };

/// The number of entries with a recorder of response times, which has kilobytes. A thread that
/// records in more such windows abandons cells, so that other threads take over their recorders.
const MAX_RECORDERS: u64 = 16_384;

static NO_PAGE: Page = [const { Set::new() }; THREAD_CACHE_SETS];

/// The directory of a thread without a cache.
pub(super) static NO_DIRECTORY: Directory = [const { AtomicCell::new(&NO_PAGE) }; 256];
pub(super) static NO_PAGES: Pages = Pages::new();

/// The sets of a cache, and the words of it that only the slow path needs.
///
/// Windows are numbered in the order in which they are made. The number of a window consists of the
/// number of its set, which a record uses as it is, and the number of a page. A directory has the
/// page of each of the 256 numbers of pages. At first, all of them are one page. If a window finds
/// no way in its set while there are half as many entries as ways, the number of pages doubles, and
/// the directory has them in turn. So a look-up is the same few instructions, and one set, whether
/// the thread uses ten windows or a hundred thousand.
///
/// A window whose set is full while most of the ways are free has its entry in [`FurtherSets`].
///
/// # Moves
///
/// To double the pages, and to give back the ways of dropped windows, the thread moves all entries.
/// That takes about 0.1 µs for each. It is due only after a number of insertions that
/// is a quarter of that of all ways, so it adds a bounded time to an insertion on average, also if
/// windows are made and dropped all the time or all pages are in use.
#[derive(Debug)]
pub(super) struct Pages {
    made: [OnceLock<StatedPage>; MAX_PAGES],
    /// The number of pages in use, a power of two. The others are those of an earlier thread.
    len: PrivateU64,
    /// The number of ways that were taken since the entries were last moved, also in further sets.
    taken: PrivateU64,
    /// The number of insertions since then.
    insertions: PrivateU64,
    /// The number of entries with a recorder.
    recorders: PrivateU64,
    /// The number of the way from which the thread searches for a recorder to give up.
    hand: PrivateU64,
    pub(super) further: FurtherSets,
}

/// A page, with the states of its cells, as the thread has last changed them.
#[derive(Debug)]
struct StatedPage {
    sets: &'static Page,
    states: &'static [[PrivateU64; WAYS]; THREAD_CACHE_SETS],
}

impl Pages {
    /// Creates a cache without memory.
    pub(super) const fn new() -> Self {
        Self {
            made: [const { OnceLock::new() }; MAX_PAGES],
            len: PrivateU64::new(1),
            taken: PrivateU64::new(0),
            insertions: PrivateU64::new(0),
            recorders: PrivateU64::new(0),
            hand: PrivateU64::new(0),
            further: FurtherSets::new(),
        }
    }

    /// Makes the first page, and returns its sets.
    pub(super) fn first(&self) -> &'static Page {
        self.page(0).sets
    }

    /// Returns the number of bytes of the pages and of the further sets.
    pub(super) fn bytes(&self) -> usize {
        let pages = self.made.iter().filter_map(OnceLock::get);
        let bytes = pages.map(|page| size_of_val(page.sets) + size_of_val(page.states));
        bytes.sum::<usize>() + self.further.bytes()
    }

    /// Returns the way with the entry of a window.
    #[inline]
    pub(super) fn find(
        &'static self,
        directory: &'static Directory,
        window: u64,
    ) -> Option<Way<'static>> {
        let set = set_of(window);
        // By the directory, as a record has done a moment ago.
        let found = &directory[page_of(window) as usize].load()[set];
        let [first, second] = &found.entries;
        let way = if first.is_of(window) {
            0
        } else if second.is_of(window) {
            1
        } else {
            return self.further.find(window);
        };
        let page = self.made[self.page_of(window)].get()?;
        Some(Way::at(found, &page.states[set], way))
    }

    /// Returns the words of a window's entry that are beside it, without the state of its cell.
    #[inline]
    pub(super) fn cold(
        &'static self,
        directory: &'static Directory,
        window: u64,
    ) -> Option<&'static ColdEntry> {
        let Set { entries: [first, second], cold: [cold, cold_of_second] } =
            &directory[page_of(window) as usize].load()[set_of(window)];
        if first.is_of(window) {
            Some(cold)
        } else if second.is_of(window) {
            Some(cold_of_second)
        } else {
            Some(self.further.find(window)?.cold)
        }
    }

    /// Takes a way for a window that has none. If there is none, the thread abandons a cell.
    pub(super) fn take(
        &'static self,
        directory: &Directory,
        window: u64,
        has_recorder: bool,
    ) -> Way<'static> {
        self.insertions.set(self.insertions.get() + 1);
        let is_full = || has_recorder && self.recorders.get() >= MAX_RECORDERS;
        if is_full() {
            self.move_entries(directory);
            if is_full() {
                self.abandon_recorder(window);
            }
        }
        if let Some(way) = self.free_way(window, has_recorder) {
            return way;
        }
        if self.taken.get() * 2 >= self.ways_len() {
            self.move_entries(directory);
            if let Some(way) = self.free_way(window, has_recorder) {
                return way;
            }
        }
        self.free_way_of_all(window, has_recorder)
            .unwrap_or_else(|| self.evict(window, has_recorder))
    }

    /// Abandons all cells, and leaves a cache with one page in use. A thread with few windows does
    /// little here, even if it has the cache of a thread with many.
    pub(super) fn abandon(&'static self, directory: &Directory) {
        self.ways().for_each(Way::abandon);
        self.note_emptied();
        self.use_pages(directory, 1);
    }

    /// Returns a way of the window's set that is free, as taken.
    fn free_way(&'static self, window: u64, has_recorder: bool) -> Option<Way<'static>> {
        let way = self.ways_of(window)?.into_iter().find(|way| way.is_free())?;
        self.note_taken(way, has_recorder);
        Some(way)
    }

    /// Does the same, also in the further sets.
    fn free_way_of_all(&'static self, window: u64, has_recorder: bool) -> Option<Way<'static>> {
        self.free_way(window, has_recorder).or_else(|| {
            let way = self.further.take(window)?;
            self.note_taken(way, has_recorder);
            Some(way)
        })
    }

    /// Abandons the cell in the second way of the window's set, and returns the first way, whose
    /// entry moves to the second one.
    fn evict(&'static self, window: u64, has_recorder: bool) -> Way<'static> {
        let [first, second] = self.ways_in(self.page_of(window), set_of(window));
        self.note_recorder(second, has_recorder);
        second.abandon();
        second.copy_from(first);
        first
    }

    /// Abandons a cell with a recorder: of the window's set, or the next one in turn.
    fn abandon_recorder(&'static self, window: u64) {
        let own = self.ways_of(window).into_iter().flatten().find(|way| way.has_recorder());
        let way = own.or_else(|| {
            let all = self.ways_len();
            let mut turn = (0..all).map(|step| (self.hand.get() + step) % all);
            let (hand, way) = turn.find_map(|hand| {
                let set = usize::try_from(hand).ok()? / WAYS;
                let (page, set) = (set / THREAD_CACHE_SETS, set % THREAD_CACHE_SETS);
                let ways = self.ways_in(page, set).into_iter();
                Some((hand, ways.into_iter().find(|way| way.has_recorder())?))
            })?;
            self.hand.set(hand);
            Some(way)
        });
        if let Some(way) = way {
            self.note_recorder(way, false);
            way.abandon();
        }
    }

    fn note_taken(&self, way: Way<'_>, has_recorder: bool) {
        self.taken.set(self.taken.get() + u64::from(way.is_empty()));
        self.note_recorder(way, has_recorder);
    }

    /// Notes that the entry of the way gives way to another one.
    fn note_recorder(&self, way: Way<'_>, has_recorder: bool) {
        let before = u64::from(way.has_recorder());
        self.recorders.set(self.recorders.get() + u64::from(has_recorder) - before);
    }

    /// Removes the entries of dropped windows, and doubles the pages if the others have half of
    /// their ways. Does nothing if too few entries were inserted since the last move.
    #[cold]
    #[inline(never)]
    fn move_entries(&'static self, directory: &Directory) {
        if self.insertions.get() < self.ways_len() / 4 {
            return;
        }
        let entries: Vec<MovedEntry> = self.ways().filter_map(Way::moved).collect();
        let pages = self.pages_in_use();
        let is_to_grow = entries.len() * 2 >= pages * THREAD_CACHE_SETS * WAYS;
        let pages = if is_to_grow { (pages * 2).min(MAX_PAGES) } else { pages };
        self.ways().for_each(Way::clear);
        self.note_emptied();
        self.use_pages(directory, pages);
        for entry in &entries {
            match self.free_way_of_all(entry.window(), entry.has_recorder()) {
                Some(way) => way.copy_from(entry.way()),
                None => entry.way().abandon(),
            }
        }
    }

    fn note_emptied(&self) {
        self.further.note_emptied();
        for word in [&self.taken, &self.insertions, &self.recorders] {
            word.set(0);
        }
    }

    /// Sets the number of pages in use, a power of two.
    fn use_pages(&self, directory: &Directory, pages: usize) {
        if pages != self.pages_in_use() {
            for (number, page) in directory.iter().enumerate() {
                page.store(self.page(number % pages).sets);
            }
            self.len.set(pages as u64);
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most `MAX_PAGES`")]
    fn pages_in_use(&self) -> usize {
        self.len.get() as usize
    }

    /// Returns the number of ways of the pages in use.
    fn ways_len(&self) -> u64 {
        self.len.get() * (THREAD_CACHE_SETS * WAYS) as u64
    }

    /// Returns the page with that index, and makes it if there is none.
    fn page(&self, page: usize) -> &StatedPage {
        self.made[page].get_or_init(StatedPage::new)
    }

    /// Returns the index of the page of a window.
    #[inline]
    fn page_of(&self, window: u64) -> usize {
        page_of(window) as usize & (self.pages_in_use() - 1)
    }

    /// Returns the ways of a window in the pages; `None` for a thread without a cache.
    #[inline]
    fn ways_of(&'static self, window: u64) -> Option<[Way<'static>; WAYS]> {
        let page = self.made[self.page_of(window)].get()?;
        let set = set_of(window);
        Some(Way::all(&page.sets[set], &page.states[set]))
    }

    fn ways_in(&'static self, page: usize, set: usize) -> [Way<'static>; WAYS] {
        let page = self.page(page);
        Way::all(&page.sets[set], &page.states[set])
    }

    /// Returns all ways in use.
    fn ways(&'static self) -> impl Iterator<Item = Way<'static>> {
        let sets = move |page| (0..THREAD_CACHE_SETS).map(move |set| (page, set));
        let pages = (0..self.pages_in_use()).flat_map(sets);
        pages.flat_map(|(page, set)| self.ways_in(page, set)).chain(self.further.ways())
    }
}

impl StatedPage {
    /// Allocates an empty page. Nothing of it is ever on the stack of the thread, which may be
    /// small.
    fn new() -> Self {
        Self { sets: leak_array(Set::new), states: leak_array(Set::no_states) }
    }
}

/// Allocates an array that is never freed.
pub(super) fn leak_array<T: fmt::Debug, const N: usize>(new: impl Fn() -> T) -> &'static [T; N] {
    let items: Box<[T]> = (0..N).map(|_| new()).collect();
    Box::leak(items.try_into().expect("as many items as the array has"))
}

/// Returns the id of the window that is made as that one, counted from 1. No two windows have the
/// same.
///
/// Windows that are made one after the other fill the sets of one page after the other. In each
/// block of 4,096 windows, they do so in another order. So windows at equal distances fill all sets
/// as well, as if one thread uses every 64th window, and another thread the next ones.
pub(super) const fn id_of(number: u64) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    const SETS: u64 = THREAD_CACHE_SETS as u64;
    // In models, few windows fill a set.
    let order = if cfg!(loom) { 0 } else { (number / (8 * SETS)).wrapping_mul(FACTOR) };
    (number ^ (order >> (u64::BITS - SETS.ilog2()))) * WINDOW_STRIDE
}

/// Returns the number of a window's set in its page.
#[inline]
pub(super) const fn set_of(window: u64) -> usize {
    (window / WINDOW_STRIDE % THREAD_CACHE_SETS as u64) as usize
}

/// Returns the number of a window's page.
#[inline]
pub(super) const fn page_of(window: u64) -> u8 {
    (window / WINDOW_STRIDE / THREAD_CACHE_SETS as u64).to_le_bytes()[0]
}
