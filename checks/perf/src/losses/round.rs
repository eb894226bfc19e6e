//! A round: all threads record across rollovers and end; then the windows are read.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Barrier;
use std::thread;

use super::clock::WallClock;
use super::pace::Pace;
use super::tally::Tally;
use super::windows::Window;
use super::written::Written;

/// Runs a round. The windows must no longer contain anything of an earlier round.
pub(super) fn drive(
    windows: &[Box<dyn Window>],
    pace: Pace,
    threads: usize,
    clock: WallClock,
) -> Tally {
    let mut tally = Tally::default();
    for (window, written) in windows.iter().zip(write(windows, pace, threads, clock)) {
        let (summed, read) = window.sum(clock);
        tally += Tally::of(&written, summed, read);
    }
    tally
}

/// Runs the threads, which visit the windows in the same order. Returns the calls of all threads,
/// for each window. A panic is counted, and the thread continues.
fn write(
    windows: &[Box<dyn Window>],
    pace: Pace,
    threads: usize,
    clock: WallClock,
) -> Vec<Written> {
    let (start, end) = (Barrier::new(threads), clock.millis() + pace.millis());
    let run = || {
        let mut written = vec![Written::default(); windows.len()];
        start.wait();
        while pace.wait(clock) < end {
            for (window, written) in windows.iter().zip(&mut written) {
                match panic::catch_unwind(AssertUnwindSafe(|| window.record(clock))) {
                    Ok(span) => written.add(span),
                    Err(_) => written.panicked += 1,
                }
            }
        }
        written
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut all = vec![Written::default(); windows.len()];
        for writer in writers {
            let own = writer.join().expect("panics are caught");
            all.iter_mut().zip(own).for_each(|(all, own)| all.append(own));
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::BUCKETS;
    use super::super::clock::{Span, sleep_until};
    use super::super::windows::{Ours, mutex_ring};
    use super::*;

    /// A window with a fixed sum, whatever it records. Each tenth call panics.
    #[derive(Debug, Default)]
    struct FixedSumWindow {
        sum: u64,
        calls: AtomicU64,
    }

    impl Window for FixedSumWindow {
        fn record(&self, clock: WallClock) -> Span {
            assert!(self.calls.fetch_add(1, Ordering::Relaxed) % 10 != 9, "a tenth call");
            Span::at(clock.millis())
        }

        fn sum(&self, clock: WallClock) -> (u64, Span) {
            (self.sum, Span::at(clock.millis()))
        }
    }

    fn round_with_sum(sum: u64) -> Tally {
        let window = FixedSumWindow { sum, calls: AtomicU64::new(0) };
        drive(&[Box::new(window)], Pace::Together, 2, WallClock::start())
    }

    #[test]
    fn adds_that_are_not_in_the_window_are_lost_or_expired() {
        let tally = round_with_sum(0);
        assert_eq!((tally.lost + tally.expired, tally.too_many), (tally.recorded, 0));
        assert_eq!(tally.panicked, (tally.recorded + tally.panicked) / 10);
    }

    #[test]
    fn adds_that_were_not_recorded_are_too_many() {
        let tally = round_with_sum(1 << 40);
        assert!(tally.lost == 0 && tally.too_many > 0, "{tally:?}");
    }

    #[test]
    fn exact_rings_lose_nothing() {
        let clock = WallClock::start();
        let windows: [Box<dyn Window>; 2] = [Box::new(Ours::new(clock)), Box::new(mutex_ring())];
        for pace in Pace::ALL {
            let tally = drive(&windows, pace, 4, clock);
            sleep_until(clock, clock.millis() + BUCKETS);
            assert_eq!([tally.lost, tally.too_many, tally.panicked], [0; 3], "{tally:?}");
        }
    }
}
