//! Windows that are dropped while threads have their cells in the thread caches. The last thread
//! with a reference drops the window.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use leaparray::{HistogramConfig, ManualClock, MetricEvent, SlidingWindow, Timestamp};
use leaparray_stress_tests::{BUCKET, Round, one_after_the_other, rounds, work};

const SUCCESS: MetricEvent = MetricEvent::Success;

/// The number of threads of each writer, one after the other.
const LIVES: u64 = 5;
/// The response time of all requests.
const RT: Duration = Duration::from_micros(3);
/// A writer replaces the current window once in this number of turns.
const REPLACED_EVERY: u64 = 100;
/// A writer loads the current window once in this number of turns.
const LOOKED_UP_EVERY: u64 = 30;

/// The number of windows that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A window that checks its ledger, and its histogram if it has one, when it is dropped. A third of
/// the windows have none, and the others are of two scales.
struct Checked {
    window: SlidingWindow<ManualClock>,
    recorded: AtomicU64,
}

impl Checked {
    fn new(round: Round) -> Arc<Self> {
        let clock = ManualClock::new(Timestamp::MIN);
        let scale = |scale| HistogramConfig::with_scale(scale).expect("at most 8");
        let window = match MADE.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => SlidingWindow::with_clock(round.config(), clock),
            1 => SlidingWindow::with_histogram(round.config(), scale(0), clock),
            _ => SlidingWindow::with_histogram(round.config(), scale(4), clock),
        };
        Arc::new(Self { window, recorded: AtomicU64::new(0) })
    }

    fn add(&self, step: Duration) {
        self.window.clock().advance(step);
        self.window.record_success(RT);
        self.recorded.fetch_add(1, Ordering::Release);
    }

    fn read(&self) {
        let recorded = self.recorded.load(Ordering::Acquire);
        let lifetime = self.window.lifetime().sum(SUCCESS);
        assert!(lifetime >= recorded, "{lifetime} recorded, expected at least {recorded}");
        if let Some(histogram) = self.window.lifetime_histogram() {
            assert!(histogram.count() >= recorded, "{histogram:?}, expected at least {recorded}");
            assert_eq!(histogram.count_at_or_below(RT), histogram.count(), "{histogram:?}");
        }
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        // Not checked after a failure, because a second panic would hide the first.
        if !thread::panicking() {
            let recorded = *self.recorded.get_mut();
            assert_eq!(self.window.lifetime().sum(SUCCESS), recorded);
            if let Some(histogram) = self.window.lifetime_histogram() {
                assert_eq!(histogram.count(), recorded);
                assert_eq!(histogram.sum(), RT * u32::try_from(recorded).expect("few"));
            }
        }
    }
}

/// The current window.
struct Current(Mutex<Arc<Checked>>);

impl Current {
    /// Locks without sleeping in the standard library, because a sanitizer does not see the
    /// synchronization of a thread that sleeps there.
    fn lock(&self) -> MutexGuard<'_, Arc<Checked>> {
        loop {
            match self.0.try_lock() {
                Ok(locked) => return locked,
                Err(TryLockError::Poisoned(locked)) => return locked.into_inner(),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }

    fn get(&self) -> Arc<Checked> {
        Arc::clone(&self.lock())
    }

    fn replace(&self, new: Arc<Checked>) {
        // Dropped after the lock is released: the thread that drops the last reference also drops
        // the window.
        let _before = std::mem::replace(&mut *self.lock(), new);
    }

    fn write(&self, round: Round) {
        let mut window = self.get();
        for turn in 0..u64::from(round.turns) / LIVES / round.writers as u64 {
            if turn.is_multiple_of(REPLACED_EVERY) {
                self.replace(Checked::new(round));
            }
            if turn.is_multiple_of(LOOKED_UP_EVERY) {
                window = self.get();
            }
            window.add(BUCKET / round.turns_per_bucket);
        }
    }
}

#[test]
fn each_window_has_all_of_its_counts_when_it_ends() {
    for round in rounds() {
        let current = Current(Mutex::new(Checked::new(round)));
        work(
            round.writers,
            |_| one_after_the_other(LIVES, |_| current.write(round)),
            vec![Box::new(|| current.get().read())],
        );
    }
}
