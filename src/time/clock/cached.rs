//! A clock that caches the time of another clock.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, mem, process};

use super::Clock;
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::time::timestamp::Timestamp;

/// A clock that shows the time of another clock at the last refresh. A reading is one load.
///
/// [`CachedClock::start`] starts a thread that refreshes the clock, and that ends when the last
/// clone is dropped. With [`CachedClock::new`], the caller refreshes it, for example from an event
/// loop. A cached clock never goes back, even if its source goes back.
///
/// A reading is old by up to one period, plus scheduling delays. An event is counted in the bucket
/// of the reading, so the period should be well below the length of a bucket. The thread does not
/// survive a `fork`: in the child, the clock stands still, and can be dropped. Start a clock there.
/// If the source panics in that thread, the clock stops.
///
/// ```
/// use leaparray::{Clock, ManualClock, Timestamp};
/// use leaparray::time::CachedClock;
///
/// let source = ManualClock::new(Timestamp::from_secs(1));
/// let clock = CachedClock::new(source.clone());
/// source.set(Timestamp::from_secs(2));
/// assert_eq!(clock.now(), Timestamp::from_secs(1));
/// clock.refresh();
/// assert_eq!(clock.now(), Timestamp::from_secs(2));
/// ```
#[derive(Clone, Debug)]
pub struct CachedClock<C> {
    cache: Arc<Cache<C>>,
    _ticker: Option<Arc<Ticker>>,
}

impl<C: Clock> CachedClock<C> {
    /// Creates a clock that shows the time of `source` at this call, until it is
    /// [refreshed](Self::refresh).
    #[must_use]
    pub fn new(source: C) -> Self {
        let nanos = AtomicU64::new(source.now().as_nanos());
        Self { cache: Arc::new(Cache { source, nanos }), _ticker: None }
    }

    /// Sets the time to the time of the source, unless that is earlier.
    pub fn refresh(&self) {
        self.cache.refresh();
    }
}

impl<C: Clock + Send + Sync + 'static> CachedClock<C> {
    /// Creates a clock with a thread that refreshes it every `period`. With a period of zero, the
    /// thread never pauses.
    ///
    /// # Errors
    ///
    /// Returns the error of [`thread::Builder::spawn`] if the system cannot start a thread.
    ///
    /// ```
    /// use leaparray::{Clock, MonotonicClock};
    /// use leaparray::time::CachedClock;
    /// use std::time::Duration;
    ///
    /// let clock = CachedClock::start(MonotonicClock::new(), Duration::from_millis(1))?;
    /// let first = clock.now();
    /// while clock.now() == first {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub fn start(source: C, period: Duration) -> io::Result<Self> {
        let clock = Self::new(source);
        let cache = Arc::clone(&clock.cache);
        let ticker = Ticker::start(period, move || cache.refresh())?;
        Ok(Self { _ticker: Some(Arc::new(ticker)), ..clock })
    }
}

impl<C: Clock> Clock for CachedClock<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        // Relaxed: the time orders nothing.
        Timestamp::from_nanos(self.cache.nanos.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct Cache<C> {
    source: C,
    nanos: AtomicU64,
}

impl<C: Clock> Cache<C> {
    fn refresh(&self) {
        // `fetch_max`: if two threads refresh at once, the later reading wins. Relaxed: the time
        // orders nothing.
        self.nanos.fetch_max(self.source.now().as_nanos(), Ordering::Relaxed);
    }
}

/// A thread that calls a function at intervals until the ticker is dropped.
#[derive(Debug)]
struct Ticker {
    /// Dropped before the thread is joined, which wakes the thread at once.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

impl Ticker {
    fn start(period: Duration, tick: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("leaparray-clock".into()).spawn(move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), process: process::id() })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if self.process != process::id() {
            // A forked child does not have the thread, so it cannot join it: `join` would panic.
            // Nor can it close the channel, whose lock the thread may have had during the fork.
            mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the source's `now` has been reported by its thread.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::time::ManualClock;

    #[test]
    fn never_goes_back_with_its_source() {
        let source = ManualClock::new(Timestamp::from_secs(5));
        let clock = CachedClock::new(source.clone());
        source.set(Timestamp::from_secs(3));
        clock.refresh();
        assert_eq!(clock.now(), Timestamp::from_secs(5));
    }

    #[test]
    fn thread_runs_while_any_clone_is_left_and_ends_with_the_last() {
        let source = ManualClock::new(Timestamp::MIN);
        let clock = CachedClock::start(source.clone(), Duration::ZERO).unwrap();
        let clone = clock.clone();
        drop(clock);
        source.set(Timestamp::from_secs(1));
        while clone.now() < Timestamp::from_secs(1) {
            thread::yield_now();
        }
        let cache = Arc::downgrade(&clone.cache);
        drop(clone);
        assert!(cache.upgrade().is_none(), "the thread still refers to the clock");
    }
}
