//! The cells that a thread has in use, so that a record need not look its cell up.

use std::cell::Cell;

use super::gauge_watch::GaugeWatch;
use super::origin::Origin;
use super::thread_cell::{State, ThreadCell};
use crate::metric::OwnedWriter;
use crate::sync::{
    AtomicCell, AtomicU32, OnceRef, Ordering, PrivateU32, PrivateU64, THREAD_CACHE_SETS,
    process_static, thread_local, unique,
};
use crate::time::Timestamp;

thread_local! {
    /// Without a destructor, so that an access has no state to check; and one word, so that a thread
    /// that never records takes no more memory.
    static CACHE: Cell<&'static ThreadCache> = const { Cell::new(&NONE) };
}

thread_local! {
    static CLEANUP: Cleanup = const { Cleanup(Cell::new(None)) };
}

/// The cache of a thread that has recorded nothing, or that is ending: no window is ever found in it,
/// and nothing is written to it.
static NONE: ThreadCache = ThreadCache::new();

/// A set-associative cache of one thread's cells: two ways for each window, by its id.
///
/// It holds plain references to cells of the process-wide slab. The thread owns these cells until it
/// abandons them: when it ends, or when a third window needs a place in the same set. A dropped window
/// returns its cells to the slab; an entry that is left of it never matches, since no id is used twice.
///
/// One thread at a time uses a cache. Its words are atomic so that it can be leaked once, and go from
/// a thread that has ended to one that begins, without unsafe code; they are never read by others.
#[derive(Debug)]
struct ThreadCache {
    sets: [Set; THREAD_CACHE_SETS],
}

const WAYS: usize = 2;

/// Window ids are multiples of the size of a set, so that an id has its set's offset in its low bits.
const WINDOW_STRIDE: u64 = size_of::<Set>() as u64;

/// Marks the id of a window whose cell each record has to look up. No id has this bit.
const LOOK_UP: u64 = 1;

/// A window id that was never returned before; never 0.
pub(crate) fn new_window_id() -> u64 {
    (unique() + 1) * WINDOW_STRIDE
}

/// The windows that were made a multiple of [`THREAD_CACHE_SETS`] apart. A record reads the first of its two
/// cache lines.
#[derive(Debug)]
#[repr(C, align(128))]
struct Set {
    entries: [CacheEntry; WAYS],
    leases: [Lease; WAYS],
}

/// The words that each record reads.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    /// The window's id, with [`LOOK_UP`] if no record is to find the cell here; 0 for none.
    window: PrivateU64,
    /// The start of the bucket that the cell is bound to.
    start: PrivateU64,
    cell: AtomicCell<Option<&'static ThreadCell>>,
    /// The cell's state since this thread has bound it.
    state: PrivateU64,
}

/// The words that only a change of the bucket and the gauge read.
#[derive(Debug)]
pub(crate) struct Lease {
    place: PrivateU32,
    gauge: GaugeWatch,
}

impl Lease {
    /// One of no window.
    pub(crate) const fn new() -> Self {
        Self { place: PrivateU32::new(0), gauge: GaugeWatch::new() }
    }
}

/// A cell that the calling thread owns for the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedCell<'a> {
    pub(crate) cell: &'a ThreadCell,
    /// That of its place in the cache, or a new one for a cell that is not kept.
    pub(crate) lease: &'a Lease,
}

impl OwnedCell<'static> {
    /// That of a request that enters here.
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
        &self.lease.gauge
    }
}

/// A cell of the calling thread, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leased {
    entry: &'static CacheEntry,
    lease: &'static Lease,
    pub(crate) place: u32,
    pub(crate) cell: &'static ThreadCell,
    pub(crate) state: State,
}

/// The calling thread's cell for that window, if it is bound to the bucket of `now`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "part of every record")]
pub(crate) fn get(window: u64, bucket_nanos: u64, now: Timestamp) -> Option<OwnedCell<'static>> {
    let cache = CACHE.with(Cell::get);
    let Set { entries: [entry, second], leases: [lease, lease_of_second] } =
        &cache.sets[set_of(window)];
    let (entry, lease) = if entry.window.get() == window {
        (entry, lease)
    } else if second.window.get() == window {
        (second, lease_of_second)
    } else {
        return None;
    };
    // One comparison for both ends of the bucket: a time before it wraps around.
    if now.as_nanos().wrapping_sub(entry.start.get()) >= bucket_nanos {
        return None;
    }
    match entry.cell.load() {
        Some(cell) => Some(OwnedCell { cell, lease }),
        None => no_cell(),
    }
}

/// An entry of a window has a cell. Out of line: otherwise the two tests are merged into one, and that
/// takes more instructions than to predict both.
#[cold]
#[inline(never)]
fn no_cell() -> Option<OwnedCell<'static>> {
    None
}

/// Notes that a request that entered in another cell has ended on the calling thread: it is none of the requests that
/// entered in the thread's own cell.
pub(crate) fn note_end_of_other(window: u64) {
    if let Some(Leased { lease, .. }) = find(window) {
        lease.gauge.note_end_of_other();
    }
}

/// The cell that the calling thread has for that window, bound to whichever bucket.
pub(crate) fn find(window: u64) -> Option<Leased> {
    let cache = CACHE.with(Cell::get);
    let (entry, lease) = cache.sets[set_of(window)].find(window)?;
    let place = lease.place.get();
    let (cell, state) = (entry.cell.load()?, State(entry.state.get()));
    Some(Leased { entry, lease, place, cell, state })
}

/// Keeps a cell that the calling thread has become the owner of. If its set is full, the cell in its
/// second way is abandoned, and the one in the first way moves there.
///
/// The thread has a cache: [`may_own`] has returned true.
pub(crate) fn insert(window: u64, place: u32, cell: &'static ThreadCell, state: State) -> Leased {
    let cache = CACHE.with(Cell::get);
    let set = &cache.sets[set_of(window)];
    let (entry, lease) = set.find(0).unwrap_or_else(|| {
        set.abandon(1);
        set.move_first_to_second();
        (&set.entries[0], &set.leases[0])
    });
    lease.place.set(place);
    lease.gauge.reset();
    entry.set(window | LOOK_UP, 0, Some(cell), state);
    Leased { entry, lease, place, cell, state }
}

/// Has records in the bucket that starts at `start` find the cell, which is bound to it in this state.
/// Without a start the cell is kept, and each record looks it up: the last bucket of all time is cut
/// short, and the comparison in [`get`] would hold for the first times that there are.
pub(crate) fn rebind(
    window: u64,
    leased: Leased,
    state: State,
    start: Option<Timestamp>,
) -> OwnedCell<'static> {
    let Leased { entry, lease, cell, .. } = leased;
    if entry.state.get() != state.0 {
        // In each bucket, the first request of a thread looks.
        lease.gauge.reset();
    }
    entry.state.set(state.0);
    let (mark, start) = start.map_or((LOOK_UP, 0), |start| (0, start.as_nanos()));
    entry.window.set(window | mark);
    entry.start.set(start);
    OwnedCell { cell, lease }
}

/// Whether the calling thread may own cells: it has a cache, or gets one now. False for a thread that
/// is ending and has abandoned its cells: it records in the history directly.
pub(crate) fn may_own() -> bool {
    CLEANUP
        .try_with(|cleanup| {
            if cleanup.0.get().is_none() {
                let leaked = Leaked::take();
                cleanup.0.set(Some(leaked));
                CACHE.with(|cache| cache.set(&leaked.cache));
            }
        })
        .is_ok()
}

#[inline]
const fn set_of(window: u64) -> usize {
    (window / WINDOW_STRIDE % THREAD_CACHE_SETS as u64) as usize
}

impl CacheEntry {
    fn set(&self, window: u64, start: u64, cell: Option<&'static ThreadCell>, state: State) {
        self.window.set(window);
        self.start.set(start);
        self.cell.store(cell);
        self.state.set(state.0);
    }
}

impl ThreadCache {
    #[cfg_attr(not(loom), expect(clippy::large_stack_arrays, reason = "of a static, or of a box"))]
    const fn new() -> Self {
        Self { sets: [const { Set::new() }; THREAD_CACHE_SETS] }
    }
}

impl Set {
    const fn new() -> Self {
        Self {
            entries: [const {
                CacheEntry {
                    window: PrivateU64::new(0),
                    start: PrivateU64::new(0),
                    cell: AtomicCell::new(None),
                    state: PrivateU64::new(0),
                }
            }; WAYS],
            leases: [const { Lease::new() }; WAYS],
        }
    }

    /// The way of that window, or for 0 an empty one.
    fn find(&self, window: u64) -> Option<(&CacheEntry, &Lease)> {
        let mut ways = self.entries.iter().zip(&self.leases);
        ways.find(|(entry, _)| entry.window.get() & !LOOK_UP == window)
    }

    /// Gives up the cell there, if there is one.
    fn abandon(&self, way: usize) {
        let entry = &self.entries[way];
        if entry.window.get() != 0 {
            let (cell, state) = (entry.cell.load(), State(entry.state.get()));
            entry.set(0, 0, None, State(0));
            if let Some(cell) = cell {
                // If its window was dropped, the cell's state is another one by now.
                cell.abandon(state);
            }
        }
    }

    fn move_first_to_second(&self) {
        let ([from_entry, to_entry], [from_lease, to_lease]) = (&self.entries, &self.leases);
        let state = State(from_entry.state.get());
        let (window, start) = (from_entry.window.get(), from_entry.start.get());
        to_entry.set(window, start, from_entry.cell.load(), state);
        to_lease.place.set(from_lease.place.get());
        to_lease.gauge.copy_from(&from_lease.gauge);
    }
}

/// A cache that is never freed: in a list that only grows, for one thread after the other.
#[derive(Debug)]
struct Leaked {
    cache: ThreadCache,
    /// 1 while a thread has it.
    is_taken: AtomicU32,
    next: OnceRef<'static, Self>,
}

process_static! {
    static FIRST: OnceRef<'static, Leaked> = OnceRef::new();
}

/// How many bytes the caches of all threads take.
pub(crate) fn bytes() -> usize {
    let caches = std::iter::successors(FIRST.get(), |leaked| leaked.next.get());
    caches.count() * size_of::<Leaked>()
}

impl Leaked {
    /// One that no other thread has: the first in the list that is free, or a new one at its end.
    fn take() -> &'static Self {
        let mut link: &OnceRef<'static, Self> = &FIRST;
        while let Some(leaked) = link.get() {
            // Acquire: pairs with the Release in `Cleanup`. The last thread's words come first.
            let taken =
                leaked.is_taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return leaked;
            }
            link = &leaked.next;
        }
        let (cache, is_taken, next) = (ThreadCache::new(), AtomicU32::new(1), OnceRef::new());
        let new: &'static Self = Box::leak(Box::new(Self { cache, is_taken, next }));
        // If another thread was faster, its cache comes before this one.
        while link.set(new).is_err() {
            link = link.get().map_or(link, |leaked| &leaked.next);
        }
        new
    }
}

/// Abandons the cells of a thread when it ends.
///
/// Its destructor may never run, as for the main thread: then the cells stay as they are, counted in
/// every reading.
struct Cleanup(Cell<Option<&'static Leaked>>);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let Some(leaked) = self.0.get() else { return };
        // First, so that a record by another destructor finds nothing. (Loom drops all locals of a
        // thread together, and has none of them any more.)
        let _ = CACHE.try_with(|cache| cache.set(&NONE));
        leaked.cache.sets.iter().for_each(|set| (0..WAYS).for_each(|way| set.abandon(way)));
        // Release: pairs with the Acquire in `take`.
        leaked.is_taken.store(0, Ordering::Release);
    }
}
