use super::*;
use crate::metric_array::cells::slab::slab;
use crate::metric_array::cells::thread_cell::{CellState, ThreadCell};

/// The cache of one thread, and the cells that it was given.
struct Cache {
    pages: &'static Pages,
    directory: &'static Directory,
    cells: Vec<(u64, &'static ThreadCell, CellState)>,
}

impl Cache {
    fn new() -> Self {
        let pages: &'static Pages = Box::leak(Box::new(Pages::new()));
        let first = pages.first();
        let directory = leak_array(|| AtomicCell::new(first));
        Self { pages, directory, cells: Vec::new() }
    }

    fn insert(&mut self, window: u64) {
        let cell = slab().take().unwrap();
        let state = cell.claim();
        let way = self.pages.take(self.directory, window, false);
        way.cold.place.set(cell.index());
        way.set(window, window, Some(cell), None, state);
        self.cells.push((window, cell, state));
    }

    /// Returns the number of windows that a record finds in the pages.
    fn in_pages(&self) -> usize {
        let is_found = |window| {
            let page = self.directory[page_of(window) as usize].load();
            let mut entries = page[set_of(window)].entries.iter();
            entries.any(|entry| entry.window.get() == window && entry.start.get() == window)
        };
        self.cells.iter().filter(|(window, ..)| is_found(*window)).count()
    }

    /// Checks that each cell has its own entry, or was abandoned and has none. Returns the
    /// number of abandoned cells.
    fn abandoned(&self) -> usize {
        let is_abandoned = |(window, cell, state): &(u64, &ThreadCell, CellState)| {
            let found = self.pages.find(self.directory, *window);
            let is_abandoned = cell.state().is_abandoned();
            assert_eq!(found.is_none(), is_abandoned, "{window}");
            if let Some(way) = found {
                assert_eq!((way.cold.place.get(), way.state.get()), (cell.index(), state.0));
                assert!(std::ptr::eq(way.entry.cell.get(), *cell));
            }
            is_abandoned
        };
        self.cells.iter().filter(|cell| is_abandoned(cell)).count()
    }
}

fn cache_of(numbers: impl IntoIterator<Item = u64>) -> Cache {
    let mut cache = Cache::new();
    numbers.into_iter().for_each(|number| cache.insert(id_of(number)));
    cache
}

#[test]
fn windows_that_are_made_in_turn_are_all_in_pages() {
    for (windows, pages) in [(500, 1), (1_500, 2), (10_000, 16), (40_000, 64)] {
        let cache = cache_of(300..300 + windows);
        assert_eq!((cache.in_pages() as u64, cache.abandoned()), (windows, 0));
        assert_eq!(cache.pages.pages_in_use(), pages, "{windows}");
    }
}

/// A thread may record in one of several windows that are made together, or in those of every
/// 64th tenant.
#[test]
fn windows_at_equal_distances_are_all_kept() {
    for distance in [2, 3, 4, 7, 8, 64, 100, 512] {
        let cache = cache_of((1..=10_000).map(|number| number * distance));
        assert_eq!(cache.abandoned(), 0, "{distance}");
        assert!(cache.in_pages() >= 7_000, "{} at {distance}", cache.in_pages());
        assert!(cache.pages.pages_in_use() <= 32, "{distance}");
    }
}

/// All of these windows have one set, whatever the number of pages. Most have their entries
/// in the further sets. Each of the others takes the way of an earlier one.
#[test]
fn window_without_a_free_way_takes_that_of_an_abandoned_cell() {
    const WINDOWS: u64 = 30_000;
    let mut cache = Cache::new();
    let distance = 256 * THREAD_CACHE_SETS as u64 * WINDOW_STRIDE;
    (1..=WINDOWS).for_each(|window| cache.insert(window * distance));
    let kept = WINDOWS - cache.abandoned() as u64;
    assert!((18_000..=20_482).contains(&kept), "{kept}");
    assert_eq!(cache.in_pages(), 2);
}

#[test]
fn thread_that_ends_abandons_all_cells_and_leaves_one_page() {
    let cache = cache_of(1..=3_000);
    assert_eq!(cache.pages.pages_in_use(), 4);
    let bytes = cache.pages.bytes();
    cache.pages.abandon(cache.directory);
    assert_eq!((cache.abandoned(), cache.in_pages()), (3_000, 0));
    assert_eq!((cache.pages.pages_in_use(), cache.pages.bytes()), (1, bytes));
    assert!(cache.directory.iter().all(|page| std::ptr::eq(page.load(), cache.pages.first())));
}

/// Each round drops its windows. The cells of a dropped window have another state.
#[test]
fn ways_of_dropped_windows_are_taken_again() {
    let mut cache = Cache::new();
    for round in 0..100 {
        (1..=600).for_each(|number| cache.insert(id_of(round * 600 + number)));
        assert_eq!(cache.abandoned(), 0);
        cache.cells.drain(..).for_each(|(_, cell, _)| cell.disown());
    }
    assert!(cache.pages.pages_in_use() <= 2, "twice as many ways as windows at most");
}
