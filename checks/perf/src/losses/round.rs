//! One round: all threads record across rollovers, end, and then the windows are read.

use std::sync::Barrier;
use std::thread;

use super::clock::WallClock;
use super::pace::Pace;
use super::panics;
use super::peers::Window;
use super::tally::Tally;
use super::written::Written;

/// Nothing of an earlier round may be in a window any more.
pub(super) fn drive(
    windows: &[Box<dyn Window>],
    pace: Pace,
    threads: usize,
    clock: WallClock,
) -> Tally {
    let mut tally = Tally::default();
    for (window, written) in windows.iter().zip(write(windows, pace, threads, clock)) {
        let (summed, read) = window.sum(clock);
        tally += Tally::of(written, summed, read);
    }
    tally
}

/// What the threads wrote, which have ended: one for each window.
fn write(
    windows: &[Box<dyn Window>],
    pace: Pace,
    threads: usize,
    clock: WallClock,
) -> Vec<Written> {
    let (start, end) = (Barrier::new(threads), clock.millis() + pace.millis());
    let run = || {
        start.wait();
        write_until(end, windows, pace, clock)
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut all = vec![Written::default(); windows.len()];
        for writer in writers {
            let own = writer.join().expect("what panics is caught");
            all.iter_mut().zip(own).for_each(|(all, own)| all.append(own));
        }
        all
    })
}

/// What one thread wrote. It goes through the windows in the order that all do.
fn write_until(
    end: u64,
    windows: &[Box<dyn Window>],
    pace: Pace,
    clock: WallClock,
) -> Vec<Written> {
    let mut written = vec![Written::default(); windows.len()];
    while pace.wait(clock) < end {
        for (window, written) in windows.iter().zip(&mut written) {
            write_one(&**window, written, clock);
        }
    }
    written
}

/// A thread goes on where a call panics.
fn write_one(window: &dyn Window, written: &mut Written, clock: WallClock) {
    match panics::catch(|| window.record(clock)) {
        Ok(span) => written.add(span),
        Err(said) => written.panicked(said),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::BUCKETS;
    use super::super::clock::{Span, sleep_until};
    use super::super::peers::{Ours, mutex_ring};
    use super::*;

    /// Whatever it is told, its window has so many. Each tenth call panics.
    #[derive(Debug, Default)]
    struct Stubborn {
        sum: u64,
        calls: AtomicU64,
    }

    impl Window for Stubborn {
        fn record(&self, clock: WallClock) -> Span {
            assert!(self.calls.fetch_add(1, Ordering::Relaxed) % 10 != 9, "a tenth call");
            Span::at(clock.millis())
        }

        fn sum(&self, clock: WallClock) -> (u64, Span) {
            (self.sum, Span::at(clock.millis()))
        }
    }

    /// What came of a round of it.
    fn round_of_stubborn(sum: u64) -> Tally {
        panics::keep_quiet_when_caught();
        let window = Stubborn { sum, calls: AtomicU64::new(0) };
        drive(&[Box::new(window)], Pace::Flat, 2, WallClock::start())
    }

    #[test]
    fn adds_that_are_not_in_the_window_are_lost_or_expired() {
        let tally = round_of_stubborn(0);
        assert_eq!((tally.lost + tally.expired, tally.too_many), (tally.recorded, 0));
    }

    #[test]
    fn adds_that_were_not_recorded_are_too_many() {
        let tally = round_of_stubborn(1 << 40);
        assert!(tally.lost == 0 && tally.too_many > 0, "{tally:?}");
    }

    #[test]
    fn thread_goes_on_after_a_panic() {
        let tally = round_of_stubborn(0);
        let calls = tally.recorded + tally.panicked;
        assert_eq!(tally.panicked, calls / 10);
        assert_eq!(tally.said, (calls > 9).then(|| "a tenth call".to_owned()));
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
