//! What should be in the books.

use super::subject::Subject;

/// What one who is stopped adds. The others together stay far below it, so that one number tells
/// both.
pub(super) const MARK: u64 = 1 << 40;

/// How often a mark is in it, and what the others have added.
pub(super) const fn split(count: u64) -> (u64, u64) {
    (count / MARK, count % MARK)
}

/// The longest window in these tests.
const SAMPLES: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    pub(super) samples: u64,
    /// The newest second.
    pub(super) now: u64,
    /// What the others have ever added.
    pub(super) recorded: u64,
    /// What of that was added in each of the last seconds, in its slot.
    last: [u64; SAMPLES],
    /// The marks that were found.
    marks: u64,
}

impl Ledger {
    pub(super) fn new(samples: u64) -> Self {
        Self { samples, now: 1_000, recorded: 0, last: [0; SAMPLES], marks: 0 }
    }

    /// Goes on to the next second.
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

    /// What the others have added in the seconds of the window.
    pub(super) fn in_window(&self) -> u64 {
        self.last.iter().sum()
    }

    /// All promises, while nobody else does anything.
    pub(super) fn audit(&mut self, subject: &impl Subject) {
        let account = subject.account(self.now);
        let (marks, recorded) = split(account.recorded());
        assert_eq!(recorded, self.recorded, "{account}");
        assert!(marks >= self.marks, "what was there is gone again: {account}");
        self.marks = marks;
        assert_eq!(split(account.in_window).1, self.in_window(), "{account}");
        assert_eq!(subject.sum(self.now), account.in_window, "{account}");
        assert_eq!(subject.values(self.now), account.in_window, "{account}");
        assert_eq!(subject.lifetime(), account.recorded(), "{account}");
    }
}
