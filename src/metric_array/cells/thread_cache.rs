//! The cache of a thread's cells, so that a record need not look its cell up.

use std::cell::Cell;

use super::cache_pages::{
    Directory, NO_DIRECTORY, NO_PAGES, Pages, id_of, leak_array, page_of, set_of,
};
use super::cache_set::{CacheEntry, ColdEntry, LOOK_UP, Set, Way};
use super::gauge_watch::GaugeWatch;
use super::origin::Origin;
use super::thread_cell::{CellState, ThreadCell};
use crate::metric::OwnedWriter;
use crate::metric_array::latency::LatencyRecorder;
use crate::sync::{AtomicCell, AtomicU32, OnceRef, Ordering, process_static, thread_local, unique};
use crate::time::Timestamp;

thread_local! {
    /// The cache of the thread. It has no destructor, so an access has no state to check. It is two
    /// words, so a thread that never records takes no other memory.
    static CACHE: Cell<ThreadCache> = const { Cell::new(ThreadCache::NONE) };
}

thread_local! {
    static CLEANUP: Cleanup = const { Cleanup(Cell::new(None)) };
}

/// A cache of one thread's cells by the ids of their windows.
///
/// It has plain references to cells of the process-wide slab. The thread owns these cells until it
/// abandons them: when it ends, when all ways for another window have been taken, or when it has as
/// many recorders as it may keep. A dropped window returns its cells to the slab. An entry of such
/// a window never matches again, since no id is used twice.
///
/// One thread at a time uses a cache, and no other thread reads it. Its words are atomic so that a
/// leaked cache can go from a thread that has ended to a thread that begins, without unsafe code.
#[derive(Clone, Copy, Debug)]
struct ThreadCache {
    directory: &'static Directory,
    pages: &'static Pages,
}

/// The id of a window, and what a look-up derives from it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct WindowKey {
    id: u64,
    /// The number of the id's page: see [`Pages`].
    page: u8,
}

impl WindowKey {
    /// Returns the key of an id.
    pub(crate) const fn of(id: u64) -> Self {
        Self { id, page: page_of(id) }
    }
}

/// Returns a window id that was never returned before; never 0.
pub(crate) fn new_window_id() -> u64 {
    id_of(unique() + 1)
}

/// A cell that the calling thread owns at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedCell<'a> {
    pub(crate) cell: &'a ThreadCell,
    /// The words of its entry in the cache, or new ones for a cell that is not kept.
    pub(crate) cold: &'a ColdEntry,
}

impl OwnedCell<'static> {
    /// Returns the origin of a request that enters here.
    #[inline]
    pub(crate) const fn origin(self) -> Origin {
        Origin::of(self.cell)
    }
}

impl<'a> OwnedCell<'a> {
    #[inline]
    pub(crate) const fn writer(self) -> OwnedWriter<'a> {
        self.cell.writer()
    }

    #[inline]
    pub(crate) const fn gauge(self) -> &'a GaugeWatch {
        &self.cold.gauge
    }
}

/// A cell of the calling thread, with its entry in the cache and its place in the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedCell {
    way: Way<'static>,
    pub(crate) place: u32,
    pub(crate) cell: &'static ThreadCell,
    pub(crate) state: CellState,
}

impl CachedCell {
    pub(crate) fn recorder(&self) -> Option<&'static LatencyRecorder> {
        self.way.entry.recorder.load()
    }
}

/// Returns the calling thread's cell for that window, if it is bound to the bucket of `now`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of every record")]
pub(crate) fn get(
    window: WindowKey,
    bucket_nanos: u64,
    now: Timestamp,
) -> Option<OwnedCell<'static>> {
    let (entry, cold) = get_entry(window, bucket_nanos, now)?;
    Some(OwnedCell { cell: entry.cell.get(), cold })
}

/// Returns what [`get`] returns, and the recorder of the cell, if its window has a histogram.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of every record of a response time")]
pub(crate) fn get_with_recorder(
    window: WindowKey,
    bucket_nanos: u64,
    now: Timestamp,
) -> Option<(OwnedCell<'static>, Option<&'static LatencyRecorder>)> {
    let (entry, cold) = get_entry(window, bucket_nanos, now)?;
    let recorder = entry.recorder.load();
    Some((OwnedCell { cell: entry.cell.get(), cold }, recorder))
}

/// Returns what [`get_with_recorder`] returns, for a window in the further sets.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of every record in such a window")]
pub(crate) fn get_further(
    window: u64,
    bucket_nanos: u64,
    now: Timestamp,
) -> Option<(OwnedCell<'static>, Option<&'static LatencyRecorder>)> {
    let (entry, cold) = CACHE.with(Cell::get).pages.further.entry(window)?;
    // As in `get_entry`.
    if now.as_nanos().wrapping_sub(entry.start.get()) >= bucket_nanos {
        return None;
    }
    Some((OwnedCell { cell: entry.cell.get(), cold }, entry.recorder.load()))
}

/// Returns the entry of that window, if it is in the pages and its cell is bound to the bucket of
/// `now`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of every record")]
fn get_entry(
    WindowKey { id: window, page }: WindowKey,
    bucket_nanos: u64,
    now: Timestamp,
) -> Option<(&'static CacheEntry, &'static ColdEntry)> {
    let cache = CACHE.with(Cell::get);
    let Set { entries: [entry, second], cold: [cold, cold_of_second] } =
        &cache.directory[page as usize].load()[set_of(window)];
    let (entry, cold) = if entry.window.get() == window {
        (entry, cold)
    } else if second.window.get() == window {
        (second, cold_of_second)
    } else {
        return None;
    };
    // One comparison for both ends of the bucket: for a time before the bucket, the difference
    // wraps around.
    if now.as_nanos().wrapping_sub(entry.start.get()) >= bucket_nanos {
        return None;
    }
    Some((entry, cold))
}

/// Notes that a request that entered in another cell has ended on the calling thread, so it is none
/// of the requests that entered in the thread's own cell.
pub(crate) fn note_end_of_other(window: u64) {
    let ThreadCache { directory, pages } = CACHE.with(Cell::get);
    if let Some(cold) = pages.cold(directory, window) {
        cold.gauge.note_end_of_other();
    }
}

/// Returns the cell that the calling thread has for that window, whatever its bucket.
#[inline]
pub(crate) fn find(window: u64) -> Option<CachedCell> {
    let cache = CACHE.with(Cell::get);
    let way = cache.find(window)?;
    let place = way.cold.place.get();
    let (cell, state) = (way.entry.cell.get(), CellState(way.state.get()));
    Some(CachedCell { way, place, cell, state })
}

/// Inserts a cell that the calling thread has become the owner of. If there is no way for it, the
/// thread abandons another cell.
///
/// The thread must have a cache: [`may_own`] has returned true.
pub(crate) fn insert(
    window: u64,
    place: u32,
    cell: &'static ThreadCell,
    state: CellState,
    recorder: Option<&'static LatencyRecorder>,
) -> CachedCell {
    let cache = CACHE.with(Cell::get);
    let way = cache.pages.take(cache.directory, window, recorder.is_some());
    way.cold.place.set(place);
    way.cold.gauge.reset();
    way.set(window | LOOK_UP, 0, Some(cell), recorder, state);
    CachedCell { way, place, cell, state }
}

/// Lets records in the bucket that starts at `start` find the cell, which is bound to that bucket
/// in this state. Without a start, the cell stays in the cache, but each record takes the slow
/// path: the last bucket of all time is cut short, and the comparison in [`get`] would also hold
/// for the first times of all.
pub(crate) fn rebind(
    window: u64,
    cached: CachedCell,
    state: CellState,
    start: Option<Timestamp>,
) -> OwnedCell<'static> {
    let CachedCell { way: Way { entry, cold, state: kept }, cell, .. } = cached;
    if kept.get() != state.0 {
        // The first request of a thread in each bucket looks at the gauge.
        cold.gauge.reset();
    }
    kept.set(state.0);
    let (mark, start) = start.map_or((LOOK_UP, 0), |start| (0, start.as_nanos()));
    entry.window.set(window | mark);
    entry.start.set(start);
    OwnedCell { cell, cold }
}

/// Returns whether the calling thread may own cells. It may if it has a cache, and gets one now if
/// it has none. A thread that is ending and has abandoned its cells may not: it records directly.
pub(crate) fn may_own() -> bool {
    CLEANUP
        .try_with(|cleanup| {
            if cleanup.0.get().is_none() {
                let leaked = Leaked::take();
                cleanup.0.set(Some(leaked));
                CACHE.with(|cache| cache.set(leaked.cache));
            }
        })
        .is_ok()
}

impl ThreadCache {
    /// The cache of all threads that have recorded nothing, or that are ending: no window is ever
    /// found in it, and nothing is written to it.
    const NONE: Self = Self { directory: &NO_DIRECTORY, pages: &NO_PAGES };

    /// Allocates an empty cache. Its 76 KiB are never on the stack of the thread, which may be
    /// small: the entries are made one by one in the heap.
    fn leak() -> Self {
        let pages: &'static Pages = Box::leak(Box::new(Pages::new()));
        let first = pages.first();
        Self { directory: leak_array(|| AtomicCell::new(first)), pages }
    }

    /// Returns the number of bytes of the cache.
    fn bytes(self) -> usize {
        size_of::<Directory>() + size_of::<Pages>() + self.pages.bytes()
    }

    /// Returns the way with the entry of a window.
    #[inline]
    fn find(self, window: u64) -> Option<Way<'static>> {
        self.pages.find(self.directory, window)
    }
}

/// A cache that is never freed. It is in a list that only grows, and one thread after another uses
/// it.
#[derive(Debug)]
struct Leaked {
    cache: ThreadCache,
    /// 1 while a thread uses the cache.
    is_taken: AtomicU32,
    next: OnceRef<'static, Self>,
}

process_static! {
    static FIRST: OnceRef<'static, Leaked> = OnceRef::new();
}

/// Returns the number of bytes that the caches of all threads take.
pub(crate) fn bytes() -> usize {
    let caches = std::iter::successors(FIRST.get(), |leaked| leaked.next.get());
    caches.map(|leaked| size_of::<Leaked>() + leaked.cache.bytes()).sum()
}

impl Leaked {
    /// Takes a cache that no other thread uses: the first free cache in the list, or a new cache at
    /// its end.
    fn take() -> &'static Self {
        let mut link: &OnceRef<'static, Self> = &FIRST;
        while let Some(leaked) = link.get() {
            // Acquire: pairs with the Release in `Cleanup`. The last thread's accesses happen
            // before.
            let taken =
                leaked.is_taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return leaked;
            }
            link = &leaked.next;
        }
        let (cache, is_taken, next) = (ThreadCache::leak(), AtomicU32::new(1), OnceRef::new());
        let new: &'static Self = Box::leak(Box::new(Self { cache, is_taken, next }));
        // If another thread appends first, its cache comes before this one.
        while link.set(new).is_err() {
            link = link.get().map_or(link, |leaked| &leaked.next);
        }
        new
    }
}

/// Abandons the cells of a thread when it ends.
///
/// The destructor may never run, for example on the main thread. Then the cells stay as they are,
/// and each read counts them.
struct Cleanup(Cell<Option<&'static Leaked>>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let Some(leaked) = self.0.get() else { return };
        // First, so that a record in another destructor finds no cell. (Loom drops all locals of a
        // thread together, so `CACHE` is gone then.)
        let _ = CACHE.try_with(|cache| cache.set(ThreadCache::NONE));
        leaked.cache.pages.abandon(leaked.cache.directory);
        // Release: pairs with the Acquire in `take`.
        leaked.is_taken.store(0, Ordering::Release);
    }
}
