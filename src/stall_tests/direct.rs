//! Tests of a thread that records while it ends, without a cell of its own, and is stopped there.

use std::cell::RefCell;
use std::time::Duration;

use super::Window;
use super::expected::MARK;
use super::histogram::assert_covers_its_sum;
use super::subject::{config, time};
use super::threads::Led;
use super::world::{AFTER, BEFORE};
use crate::histogram::HistogramConfig;
use crate::time::{ManualClock, Timestamp};

/// Records a response time when it is dropped.
struct AtEnd(Window, u64);

impl Drop for AtEnd {
    fn drop(&mut self) {
        record(&self.0, self.1);
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

fn record(window: &Window, nanos: u64) {
    window.record_rt_at(time(1), Duration::from_nanos(nanos));
}

/// The thread-locals of a thread are dropped in the reverse order of their first use: first the
/// thread's cells, then `AT_END`, and last the leash. So `first` is recorded in a cell, and `last`
/// without one.
fn ending(window: &Window, first: u64, last: u64) -> Led<()> {
    let window = window.clone();
    Led::start(move |leash| {
        leash.put_on();
        AT_END.set(Some(AtEnd(window.clone(), last)));
        record(&window, first);
    })
}

/// Wherever the thread is stopped, each histogram covers its sum, and at the end each response time
/// is counted.
fn assert_covered(first: u64, last: u64) {
    let mut stopped_directly = false;
    for passed in 0.. {
        let clock = ManualClock::new(Timestamp::MIN);
        let window = Window::with_histogram(config(1), HistogramConfig::default(), clock);
        let mut thread = ending(&window, first, last);
        if !thread.lead(passed) {
            break;
        }
        let histogram = window.lifetime_histogram().unwrap();
        assert_covers_its_sum(&histogram);
        if histogram.count() == 2 {
            let extremes = [first.min(last), first.max(last)].map(Duration::from_nanos);
            assert_eq!([histogram.min(), histogram.max()], extremes.map(Some));
        }
        assert_covers_its_sum(&window.at(time(1)).histogram().unwrap());
        stopped_directly |= histogram.count() == 2;
        thread.finish();
        for histogram in [window.at(time(1)).histogram(), window.lifetime_histogram()] {
            let histogram = histogram.unwrap();
            assert_eq!(histogram.sum(), Duration::from_nanos(first + last));
            assert_eq!(histogram.count(), 2);
        }
    }
    assert!(stopped_directly, "the thread was led while it ended");
}

#[test]
fn histogram_beside_a_direct_record_covers_its_sum() {
    assert_covered(BEFORE, AFTER);
}

#[test]
fn histogram_beside_a_direct_record_of_the_shortest_time_covers_its_sum() {
    assert_covered(MARK, AFTER);
}
