//! The counts that a subject should show.

use super::subject::Subject;

/// The place of a count in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    InWindow,
    Expired,
    Late,
}

/// The count that a stopped thread adds. The sum of all adds of the other threads stays far below
/// it, so that one number tells both apart.
pub(super) const MARK: u64 = 1 << 40;

/// Returns the number of marks in a count, and the sum of the other threads' adds in it.
pub(super) const fn split(count: u64) -> (u64, u64) {
    (count / MARK, count % MARK)
}

/// The longest window in these tests.
const SAMPLES: usize = 2;

/// The adds of all threads that are not stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) samples: u64,
    /// The newest second.
    pub(super) now: u64,
    /// The sum of all adds.
    pub(super) recorded: u64,
    /// The sum of the adds to each of the last seconds, by slot.
    last: [u64; SAMPLES],
    /// The number of marks that the last audit has found.
    marks: u64,
}

impl Expected {
    pub(super) fn new(samples: u64) -> Self {
        Self { samples, now: 1_000, recorded: 0, last: [0; SAMPLES], marks: 0 }
    }

    /// Moves on to the next second.
    pub(super) fn advance(&mut self) {
        self.now += 1;
        *self.newest() = 0;
    }

    pub(super) fn record(&mut self, count: u64) {
        self.recorded += count;
        *self.newest() += count;
    }

    fn newest(&mut self) -> &mut u64 {
        &mut self.last[usize::try_from(self.now % self.samples).unwrap()]
    }

    /// Returns the sum of the adds to the seconds of the window.
    pub(super) fn in_window(&self) -> u64 {
        self.last.iter().sum()
    }

    /// Compares all readings with these counts, while no other thread runs.
    pub(super) fn audit<S: Subject>(&mut self, subject: &S) {
        let ledger = subject.ledger(self.now);
        let (marks, recorded) = split(ledger.recorded());
        assert_eq!(recorded, self.recorded, "{ledger}");
        assert!(marks >= self.marks, "an add has disappeared: {ledger}");
        self.marks = marks;
        assert_eq!(split(ledger.in_window).1, self.in_window(), "{ledger}");
        S::assert_agrees(subject.sum(self.now), ledger.in_window);
        S::assert_agrees(subject.values(self.now), ledger.in_window);
        S::assert_agrees(subject.lifetime(), ledger.recorded());
    }
}
