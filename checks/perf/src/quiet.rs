//! Waits until the machine is quiet.

use std::thread;
use std::time::Duration;

use crate::timed::on_threads;

/// The number of operations in a probe, which takes a tenth of a millisecond.
const OPERATIONS: u64 = 100_000;

/// The number of probes before the first sample, and the pause before each probe that does not
/// follow a sample.
const FIRST_PROBES: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);

/// The longest time of a quiet probe, as a multiple of the 10th percentile of the first probes.
const LIMIT: f64 = 1.05;

/// The number of attempts at a sample.
const TRIES: usize = 8;

/// Checks the machine before and after each sample. A *probe* times plain arithmetic on two threads
/// at once, or on one if there is only one core.
///
/// The arithmetic takes longer while a thread waits for a core, and while its core is shared with
/// another busy thread. Each probe is compared with earlier probes, so the check does not depend on
/// the processor's speed.
pub(crate) struct Quiet {
    /// Returns nanoseconds for one operation. `None` if every sample counts.
    probe: Option<Box<dyn FnMut() -> f64>>,
    /// The 10th percentile of the first probes.
    best: f64,
    /// The number of probes that the run may still wait for.
    remaining_probes: usize,
    /// Whether the last probe was quiet.
    undisturbed: bool,
    pub(crate) samples: SampleCounts,
}

/// The number of samples, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SampleCounts {
    /// Whether the samples were taken without a check.
    pub(crate) is_unchecked: bool,
    /// Samples that were taken while the machine was quiet, or without a check.
    pub(crate) quiet: usize,
    /// Attempts that were discarded because the probe after them was disturbed.
    pub(crate) discarded: usize,
    /// Missing samples: every attempt was discarded, or no probe remained.
    pub(crate) missing: usize,
}

impl Quiet {
    /// Creates the check, and takes the first probes. `max_wait` bounds the time that the run
    /// sleeps before probes while the machine is disturbed.
    pub(crate) fn new(cores: usize, max_wait: Duration) -> Self {
        let threads = cores.min(2);
        let probes = max_wait.as_nanos() / PAUSE.as_nanos();
        Self::with_probe(Box::new(move || arithmetic(threads)), probes as usize)
    }

    /// Creates the check for cases that use up to all cores. With more than two, hardly a sample is
    /// undisturbed, so every sample counts, and the cost of a case is their 10th percentile.
    pub(crate) fn for_all_cores(cores: usize, max_wait: Duration) -> Self {
        if cores > 2 { Self::unchecked() } else { Self::new(cores, max_wait) }
    }

    /// Creates a check that every sample passes.
    fn unchecked() -> Self {
        let samples = SampleCounts { is_unchecked: true, ..SampleCounts::default() };
        let best = f64::INFINITY;
        Self { probe: None, best, remaining_probes: 0, undisturbed: true, samples }
    }

    fn with_probe(mut probe: Box<dyn FnMut() -> f64>, remaining_probes: usize) -> Self {
        let mut probes = [(); FIRST_PROBES].map(|()| {
            thread::sleep(PAUSE);
            probe()
        });
        probes.sort_by(f64::total_cmp);
        let (best, samples) = (probes[FIRST_PROBES / 10], SampleCounts::default());
        Self { probe: Some(probe), best, remaining_probes, undisturbed: false, samples }
    }

    /// Returns whether a sample has to pass.
    pub(crate) const fn is_checked(&self) -> bool {
        self.probe.is_some()
    }

    /// Takes a sample between two quiet probes. Returns `None` if all attempts are discarded, or if
    /// no probe remains.
    pub(crate) fn sample<R>(&mut self, mut take: impl FnMut() -> R) -> Option<R> {
        for _ in 0..TRIES {
            if !self.wait() {
                break;
            }
            let sample = take();
            self.probe();
            if self.undisturbed {
                self.samples.quiet += 1;
                return Some(sample);
            }
            self.samples.discarded += 1;
        }
        self.samples.missing += 1;
        None
    }

    /// Waits until the machine is quiet. Returns `false` if no probe remains.
    fn wait(&mut self) -> bool {
        while !self.undisturbed {
            let Some(remaining) = self.remaining_probes.checked_sub(1) else { return false };
            self.remaining_probes = remaining;
            thread::sleep(PAUSE);
            self.probe();
        }
        true
    }

    fn probe(&mut self) {
        if let Some(probe) = &mut self.probe {
            self.undisturbed = probe() < self.best * LIMIT;
        }
    }
}

impl SampleCounts {
    /// Returns whether at most one sample is missing for each twenty that were taken.
    pub(crate) fn is_complete(self) -> bool {
        self.missing * 20 <= self.quiet
    }
}

/// Returns nanoseconds for one operation: four multiplications that depend neither on each other
/// nor on earlier operations.
fn arithmetic(threads: usize) -> f64 {
    // The factor of Fibonacci hashing: 2⁶⁴ / φ.
    let operation = |number: u64| {
        [1, 2, 3, 4].map(|n: u64| (number ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31))
    };
    on_threads(threads, OPERATIONS, 0, &operation).map_or(f64::INFINITY, |elapsed| elapsed.wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a sample. The first probes take 1 ns each, and the further probes take the times
    /// `then`. Returns the number of the attempt that counted, and the counts.
    fn sample(then: &'static [f64], remaining_probes: usize) -> (Option<usize>, [usize; 3]) {
        let mut times = [1.0; FIRST_PROBES].into_iter().chain(then.iter().copied());
        let probe = move || times.next().expect("a time for each probe");
        let mut quiet = Quiet::with_probe(Box::new(probe), remaining_probes);
        let mut attempts = 0;
        let sample = quiet.sample(|| {
            attempts += 1;
            attempts
        });
        let SampleCounts { quiet, discarded, missing, .. } = quiet.samples;
        (sample, [quiet, discarded, missing])
    }

    #[test]
    fn sample_between_two_quiet_probes_counts() {
        assert_eq!(sample(&[1.04, 1.04], 1), (Some(1), [1, 0, 0]));
    }

    #[test]
    fn sample_before_a_disturbed_probe_is_taken_again() {
        assert_eq!(sample(&[1.0, 1.06, 1.06, 1.0, 1.0], 3), (Some(2), [1, 1, 0]));
    }

    #[test]
    fn sample_is_missing_if_no_probe_remains() {
        assert_eq!(sample(&[1.06, 1.06], 2), (None, [0, 0, 1]));
    }

    #[test]
    fn sample_is_missing_after_the_last_try() {
        let times = const { [[1.0, 1.06]; TRIES] }.as_flattened();
        assert_eq!(sample(times, 100), (None, [0, 8, 1]));
    }

    #[test]
    fn one_sample_in_twenty_may_be_missing() {
        let counts = |missing| SampleCounts { quiet: 100, missing, ..SampleCounts::default() };
        assert!(counts(5).is_complete() && !counts(6).is_complete());
    }
}
