//! Settings that change while threads decide by them.

use super::rule::{CLOSED, Rule};
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, RacyOnce, Slot};

/// The settings of a limiter and its word, which change together.
///
/// The settings and the word are one *version*. A decision reads the settings of a version, and is
/// a compare-exchange on its word, so it counts under the settings by which it was made.
///
/// # Changing the settings
///
/// 1. *Announce* the next settings in the current version.
/// 2. *Close* its word: store the word as the last one, and swap [`CLOSED`] in by a
///    compare-exchange.
/// 3. *Publish* the next version, whose word follows from the last one.
///
/// Threads that change settings take turns by a lock, so one thread announces and closes. Any
/// thread that finds a word closed can publish: all of them compute the same version, and one puts
/// it into the slot. So a thread that decides waits for no thread that changes settings, wherever
/// that is stopped. The compare-exchange that closes the word is the linearization point: each
/// decision is before it and in the last word, or after it and by the next settings.
///
/// The first version is inline. While it is in force, a decision does not read the slot.
///
/// # Orderings
///
/// - `word`: closing releases, and a thread that publishes acquires. It finds the announced
///   settings and the last word. For this, decisions may be relaxed: the modification order of the
///   word decides. A limiter that orders more by its word, as a token bucket does for refunds, does
///   so by read-modify-writes of it. Closing continues their release sequences, so they extend to
///   the next version.
/// - `later`: as [`Slot`]. A thread that loads a version finds it complete. A thread that loads an
///   older version finds its word closed, and its own attempt to publish fails.
//
// In this order, what a decision reads comes first, in the first version as well.
#[derive(Debug)]
#[repr(C)]
pub(in crate::flow) struct Live<S> {
    first: Version<S>,
    /// The current version, after the first change.
    later: Slot<Version<S>>,
    changing: Mutex<()>,
}

/// Settings, and the word of the limiter while they are in force.
#[derive(Debug)]
#[repr(C)]
pub(in crate::flow) struct Version<S> {
    pub(in crate::flow) word: AtomicU64,
    pub(in crate::flow) settings: S,
    /// The last word before it was closed.
    last: AtomicU64,
    next: RacyOnce<Next<S>>,
}

/// The settings that follow, and the time from which on they are in force.
#[derive(Debug)]
struct Next<S> {
    settings: S,
    now: u64,
}

impl<S: Rule> Live<S> {
    pub(in crate::flow) fn new(settings: S, word: u64) -> Self {
        let (first, later) = (Version::new(settings, word), Slot::empty());
        Self { first, later, changing: Mutex::new(()) }
    }

    /// Returns the first version, for a decision without a copy of its result. If its word is
    /// closed, [`with`](Self::with) finds the current one.
    #[inline]
    pub(in crate::flow) const fn first(&self) -> &Version<S> {
        &self.first
    }

    /// Calls `act` with the current version. `act` returns `None` if it finds the word closed, and
    /// is then called with a later version.
    #[inline]
    pub(in crate::flow) fn with<R>(&self, act: impl Fn(&Version<S>) -> Option<R>) -> R {
        match act(&self.first) {
            Some(result) => result,
            None => self.with_later(act),
        }
    }

    #[inline(never)]
    fn with_later<R>(&self, act: impl Fn(&Version<S>) -> Option<R>) -> R {
        loop {
            let found = self.later.load();
            let version = found.get().unwrap_or(&self.first);
            if let Some(result) = act(version) {
                return result;
            }
            if let Some(next) = version.successor() {
                // If this fails, another thread has published the same version.
                let _ = self.later.compare_and_swap(&found, Arc::new(next));
            }
        }
    }

    /// Returns the settings.
    pub(in crate::flow) fn settings(&self) -> S {
        self.with(|version| version.is_open().then_some(version.settings))
    }

    /// Changes the settings at `now`.
    pub(in crate::flow) fn set(&self, now: u64, settings: S) {
        // No invariant spans the lock, so a thread that has panicked with it does no harm.
        let _turn = self.changing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.with(|version| {
            // Only this thread closes a version, so it stays open until then.
            version.is_open().then(|| version.close(settings, now))
        });
        // Publishes the next version, unless another thread has done so.
        self.with(|version| version.is_open().then_some(()));
    }
}

impl<S: Rule> Version<S> {
    fn new(settings: S, word: u64) -> Self {
        let (word, last) = (AtomicU64::new(word), AtomicU64::new(0));
        Self { settings, word, last, next: RacyOnce::new() }
    }

    pub(in crate::flow) fn is_open(&self) -> bool {
        // Relaxed: if this finds an older word, the version was open during the call.
        self.word.load(Ordering::Relaxed) != CLOSED
    }

    /// Announces the next settings, and closes the word.
    fn close(&self, settings: S, now: u64) {
        self.next.get_or_init(|| Next { settings, now });
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            self.last.store(word, Ordering::Relaxed);
            stall::at(Point::ChangeAnnounced);
            // Release: pairs with the Acquire in `successor`.
            match self.word.compare_exchange(word, CLOSED, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        stall::at(Point::WordClosed);
    }

    /// Returns the version that follows; `None` if the word is not closed.
    fn successor(&self) -> Option<Self> {
        // Acquire: pairs with the Release in `close`.
        if self.word.load(Ordering::Acquire) != CLOSED {
            return None;
        }
        let next = self.next.get()?;
        let last = self.last.load(Ordering::Relaxed);
        let settings = self.settings.succeed(last, next.settings, next.now);
        let word = self.settings.carry(last, &settings, next.now);
        Some(Self::new(settings, word))
    }
}
