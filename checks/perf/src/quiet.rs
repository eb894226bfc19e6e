//! Waits for moments at which the machine is quiet.

use std::ops::AddAssign;
use std::thread;
use std::time::Duration;

use crate::timed::on_threads;

/// How many operations a look takes: a tenth of a millisecond.
const OPERATIONS: u64 = 100_000;

/// How many looks come before the first sample, and how long to wait between any two.
const FIRST_LOOKS: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);

/// How many times as long as in the best tenth of the looks the arithmetic may take.
pub(crate) const LIMIT: f64 = 1.05;

/// How many attempts there are at a sample.
const TRIES: usize = 8;

/// Looks at the machine before and after each sample. A look times plain arithmetic on two threads at once.
///
/// The arithmetic takes longer while a thread waits for a core, and while its core is shared with another
/// that is busy. It is compared with itself, so that no processor is expected to be fast.
pub(crate) struct Quiet {
    /// Nanoseconds for one operation.
    look: Box<dyn FnMut() -> f64>,
    /// The time of the best tenth of the first looks.
    best: f64,
    /// How many looks it may still wait for, in the whole run, and how long before each.
    patience: usize,
    pause: Duration,
    /// Whether the machine was quiet at the last look.
    undisturbed: bool,
    pub(crate) ledger: Ledger,
}

/// What became of the samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// Samples that were taken while the machine was quiet.
    pub(crate) quiet: usize,
    /// Attempts that were discarded because the look after them was disturbed.
    pub(crate) discarded: usize,
    /// Samples that are missing: every attempt was discarded, or there was no patience left.
    pub(crate) missing: usize,
}

impl Quiet {
    /// Sleeps for no more than `patience` between disturbed looks, in the whole run.
    pub(crate) fn new(cores: usize, patience: Duration) -> Self {
        let threads = cores.min(2);
        let patience = patience.as_nanos() / PAUSE.as_nanos();
        Self::with_looks(Box::new(move || arithmetic(threads)), patience as usize, PAUSE)
    }

    fn with_looks(mut look: Box<dyn FnMut() -> f64>, patience: usize, pause: Duration) -> Self {
        let mut looks: Vec<_> = (0..FIRST_LOOKS)
            .map(|_| {
                thread::sleep(pause);
                look()
            })
            .collect();
        looks.sort_by(f64::total_cmp);
        let best = looks[FIRST_LOOKS / 10];
        Self { look, best, patience, pause, undisturbed: false, ledger: Ledger::default() }
    }

    /// A sample that lies between two quiet looks; `None` after as many attempts as are allowed, or without
    /// patience.
    pub(crate) fn sample<R>(&mut self, mut take: impl FnMut() -> R) -> Option<R> {
        for _ in 0..TRIES {
            if !self.wait() {
                break;
            }
            let taken = take();
            self.look();
            if self.undisturbed {
                self.ledger.quiet += 1;
                return Some(taken);
            }
            self.ledger.discarded += 1;
        }
        self.ledger.missing += 1;
        None
    }

    /// Waits until the machine is quiet; `false` if there is no patience left for that.
    fn wait(&mut self) -> bool {
        while !self.undisturbed {
            let Some(left) = self.patience.checked_sub(1) else { return false };
            self.patience = left;
            thread::sleep(self.pause);
            self.look();
        }
        true
    }

    fn look(&mut self) {
        self.undisturbed = (self.look)() < self.best * LIMIT;
    }
}

impl AddAssign for Ledger {
    fn add_assign(&mut self, other: Self) {
        self.quiet += other.quiet;
        self.discarded += other.discarded;
        self.missing += other.missing;
    }
}

impl Ledger {
    /// Whether nearly all samples were taken.
    pub(crate) fn is_complete(self) -> bool {
        self.missing * 20 <= self.quiet
    }
}

/// Nanoseconds for one operation: four multiplications that do not wait for each other, nor for those
/// before.
fn arithmetic(threads: usize) -> f64 {
    // The factor is that of a Fibonacci hash.
    let operation = |number: u64| {
        [1, 2, 3, 4].map(|n: u64| (number ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31))
    };
    let taken = on_threads(threads, OPERATIONS, 0, &operation);
    taken.map_or(f64::INFINITY, |taken| taken.wall.as_secs_f64() * 1e9 / OPERATIONS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which the arithmetic takes 1 ns before the first sample, and then these times.
    fn machine(then: &'static [f64], patience: usize) -> Quiet {
        let mut looks = [1.0; FIRST_LOOKS].into_iter().chain(then.iter().copied());
        let look = move || looks.next().expect("a time for each look");
        Quiet::with_looks(Box::new(look), patience, Duration::ZERO)
    }

    /// Takes a sample: its number, and the state of the machine after it.
    fn sample(mut quiet: Quiet) -> (Option<usize>, [usize; 3]) {
        let mut taken = 0;
        let sample = quiet.sample(|| {
            taken += 1;
            taken
        });
        let Ledger { quiet, discarded, missing } = quiet.ledger;
        (sample, [quiet, discarded, missing])
    }

    #[test]
    fn sample_between_two_quiet_looks_counts() {
        assert_eq!(sample(machine(&[1.04, 1.04], 1)), (Some(1), [1, 0, 0]));
    }

    #[test]
    fn sample_before_a_disturbed_look_is_taken_again() {
        let looks = &[1.0, 1.06, 1.06, 1.0, 1.0];
        assert_eq!(sample(machine(looks, 3)), (Some(2), [1, 1, 0]));
    }

    #[test]
    fn sample_is_missing_without_patience() {
        assert_eq!(sample(machine(&[1.06, 1.06], 2)), (None, [0, 0, 1]));
    }

    #[test]
    fn sample_is_missing_after_the_last_try() {
        assert_eq!(
            sample(machine(const { [[1.0, 1.06]; TRIES] }.as_flattened(), 100)),
            (None, [0, 8, 1])
        );
    }

    #[test]
    fn ledger_is_complete_up_to_one_sample_missing_in_twenty() {
        let ledger = |missing| Ledger { quiet: 100, discarded: 0, missing };
        assert!(ledger(5).is_complete() && !ledger(6).is_complete());
    }
}
