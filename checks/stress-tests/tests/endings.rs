//! Threads that record in the destructors of their thread-locals, when they may no longer have
//! cells of their own, while other threads rotate and read. Each response time is in the histogram.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::{HistogramConfig, LatencyHistogram, ManualClock, SlidingWindow, Timestamp};
use leaparray_stress_tests::{BUCKET, Round, one_after_the_other, rounds, work};

/// The number of response times of a thread that does not end.
const TURNS: u64 = 8;

struct Stress {
    window: SlidingWindow<ManualClock>,
    /// The number of response times whose record has returned.
    recorded: AtomicU64,
}

impl Stress {
    fn new(round: Round) -> Arc<Self> {
        let clock = ManualClock::new(Timestamp::MIN);
        let histogram = HistogramConfig::default();
        let window = SlidingWindow::with_histogram(round.config(), histogram, clock);
        Arc::new(Self { window, recorded: AtomicU64::new(0) })
    }

    fn record(&self, micros: u64) {
        self.window.clock().advance(BUCKET / 4);
        self.window.record_success(Duration::from_micros(micros));
        self.recorded.fetch_add(1, Ordering::Release);
    }

    /// Records as a thread that ends: in cells of its own, and then in a destructor.
    fn live(self: &Arc<Self>, life: u64) {
        // The destructors run in the order of the first use of the thread-locals, or in reverse.
        if life.is_multiple_of(2) {
            AT_END.set(Some(AtEnd(Arc::clone(self))));
        }
        (1..=TURNS).for_each(|micros| self.record(micros));
        AT_END.set(Some(AtEnd(Arc::clone(self))));
    }

    fn read(&self) {
        let recorded = self.recorded.load(Ordering::Acquire);
        let lifetime = self.window.lifetime_histogram().expect("there is one");
        assert!(lifetime.count() >= recorded, "{lifetime:?}, expected at least {recorded}");
        for histogram in [Some(lifetime), self.window.now().histogram()].into_iter().flatten() {
            assert!(histogram.mean() <= histogram.max(), "{histogram:?}");
            assert!(histogram.quantile(1.0) <= histogram.max(), "{histogram:?}");
        }
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Records when it is dropped.
struct AtEnd(Arc<Stress>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.record(1_000);
    }
}

#[test]
fn response_times_of_destructors_are_in_the_histogram() {
    for round in rounds() {
        let stress = Stress::new(round);
        let lives = u64::from(round.turns) / 50 / round.writers as u64;
        work(
            round.writers,
            |_| one_after_the_other(lives, |life| stress.live(life)),
            vec![Box::new(|| stress.read())],
        );
        let mut expected = LatencyHistogram::default();
        let threads = lives * round.writers as u64;
        for micros in 1..=TURNS {
            expected.record_many(Duration::from_micros(micros), threads);
        }
        // Half of the threads put it there twice.
        let at_end = stress.recorded.load(Ordering::Acquire) - threads * TURNS;
        assert_eq!(at_end, threads + lives.div_ceil(2) * round.writers as u64);
        expected.record_many(Duration::from_millis(1), at_end);
        assert_eq!(stress.window.lifetime_histogram(), Some(expected));
        assert_eq!(stress.window.lifetime().rt_count(), stress.recorded.load(Ordering::Acquire));
    }
}
