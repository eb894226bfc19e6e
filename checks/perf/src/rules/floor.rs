//! The least that a decision reads if its limiter can be replaced while threads decide.

use std::array;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use leaparray::flow::{Ask, LimiterExt, TokenBucket};

/// Limiters that are found by the word of a handle, in the version that the thread keeps. A
/// decision compares the number of the version with the newest one before and after.
pub(super) struct Floor {
    /// The words of handles, each beside a pointer.
    handles: Box<[(u64, u64)]>,
    newest: AtomicU64,
    version: Arc<Version>,
}

struct Version {
    number: u64,
    /// Each limiter has a cache line of what it reads. The pointers stay in the cache of the core.
    groups: Box<[Arc<[Line; GROUP]>]>,
}

/// The limiters of a group.
const GROUP: usize = 4;

#[repr(C, align(64))]
struct Line {
    before: [u64; (64 - TokenBucket::<()>::DECISION_OFFSET) / 8],
    limiter: TokenBucket,
}

thread_local! {
    static LAST: Cell<Option<Arc<Version>>> = const { Cell::new(None) };
}

impl Floor {
    pub(super) fn new(limiters: usize, limiter: impl Fn() -> TokenBucket) -> Self {
        let line = |_| Line { before: Default::default(), limiter: limiter() };
        let group = |_| Arc::new(array::from_fn(line));
        let groups = (0..limiters.div_ceil(GROUP)).map(group).collect();
        let handles = (0..limiters as u64).map(|it| (it, it)).collect();
        let (newest, version) = (AtomicU64::new(1), Version { number: 1, groups });
        Self { handles, newest, version: Arc::new(version) }
    }

    #[inline]
    pub(super) fn admits(&self, place: usize, ask: &Ask<'_>) -> bool {
        let version = LAST.take().filter(|it| it.number == self.newest.load(Ordering::Acquire));
        let version = version.unwrap_or_else(|| Arc::clone(&self.version));
        let word = self.handles[place].1 as usize;
        let decision = version.groups[word / GROUP][word % GROUP].limiter.ask(ask);
        fence(Ordering::Acquire);
        let is_newest = self.newest.load(Ordering::Relaxed) == version.number;
        // There was none since it was taken: no call decides inside of this one.
        mem::forget(LAST.replace(Some(version)));
        decision.is_admitted() && is_newest
    }
}
