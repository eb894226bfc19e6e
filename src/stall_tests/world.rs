//! The subject, and the threads that are not stopped.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::expected::{Expected, Part, split};
use super::subject::Subject;
use super::threads::{Watched, watched};

/// The actions of other threads while one thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Two threads record in the newest bucket, and one reads.
    Same,
    /// Two threads record through several laps, from the newest bucket on, and one reads. Then one
    /// thread records and reads alone.
    Laps,
    /// One thread records and reads alone, through several laps.
    LapsAlone,
}

/// The number of laps for which one thread goes on alone, and the number of seconds that it goes on
/// after them. Halfway through, a window has a row for each slot and for each of two descriptors.
const LAPS: u64 = 4;
const LONGER: u64 = 2;

/// The number of laps for which all threads go on together, at a pace that depends on the machine.
const LAPS_TOGETHER: u64 = 2;

/// The number of times that each of two recorders adds in each second.
const TIMES: u64 = 2;

/// The count of each add in the second in which a thread is stopped, and before it.
pub(super) const BEFORE: u64 = 1;

/// The count of each later add: more than all adds before, so that a sum tells both apart.
pub(super) const AFTER: u64 = 1_000;

/// The sum of the adds of the two recorders to the second in which they begin.
const BESIDE: u64 = 2 * TIMES * BEFORE;

impl Progress {
    /// Returns the sum of the adds of others to the second in which they begin.
    pub(super) const fn beside(self) -> u64 {
        match self {
            Self::Same | Self::Laps => BESIDE,
            Self::LapsAlone => 0,
        }
    }
}

pub(super) struct World<S> {
    pub(super) subject: Arc<S>,
    pub(super) expected: Expected,
}

impl<S: Subject> World<S> {
    /// Creates a world with a subject in which nothing was recorded.
    pub(super) fn empty(samples: u64) -> Self {
        Self { subject: Arc::new(S::new(samples)), expected: Expected::new(samples) }
    }

    /// Creates a world with a subject that has wrapped around several times.
    pub(super) fn filled(samples: u64) -> Self {
        let mut world = Self::empty(samples);
        world.one_goes_on(BEFORE);
        world
    }

    /// Lets two threads record at once in the newest second, and end. So they leave two abandoned
    /// cells.
    pub(super) fn abandon_two_cells(&mut self) {
        self.one("a recorder beside another one", |subject, expected| {
            let second = expected.now;
            subject.add(second, BEFORE);
            // Joined: the end of the scope does not wait until the thread has abandoned its cell.
            thread::scope(|scope| scope.spawn(|| subject.add(second, BEFORE)).join().unwrap());
            expected.record(2 * BEFORE);
            expected.audit(subject);
        });
    }

    pub(super) fn go_on(&mut self, progress: Progress) {
        match progress {
            Progress::Same => {
                self.all_go_on(self.expected.now);
                self.one("a reader", |subject, expected| expected.audit(subject));
            }
            Progress::Laps => {
                self.all_go_on(self.expected.now + LAPS_TOGETHER * self.expected.samples);
                self.one_goes_on(AFTER);
            }
            Progress::LapsAlone => self.one_goes_on(AFTER),
        }
    }

    /// Runs `act` on a watched thread, to its end. In a window, the thread then abandons its cell,
    /// and the next thread adopts or retires it.
    fn one(&mut self, what: &'static str, act: impl FnOnce(&S, &mut Expected) + Send + 'static) {
        let (subject, mut expected) = (Arc::clone(&self.subject), self.expected);
        let one = watched(what, move || {
            act(&subject, &mut expected);
            expected
        });
        self.expected = one.result();
    }

    /// Lets two threads record, each at its own pace, while a third thread reads.
    fn all_go_on(&mut self, last: u64) {
        let seconds = self.expected.now..=last;
        let recorders = [(); 2].map(|()| {
            let (subject, seconds) = (Arc::clone(&self.subject), seconds.clone());
            watched("one of two recorders", move || record(&*subject, seconds))
        });
        let done = Arc::new(AtomicBool::new(false));
        let reader = {
            let (subject, expected, done) =
                (Arc::clone(&self.subject), self.expected, Arc::clone(&done));
            watched("a reader beside recorders", move || read(&*subject, expected, &done))
        };
        let added: u64 = recorders.into_iter().map(Watched::result).sum();
        done.store(true, Ordering::Release);
        reader.result();
        // The part of it that is in the window is unknown, unless all was added in one second.
        self.expected.now = last;
        self.expected.record(added);
    }

    /// Lets one thread record, second by second. Asserts that each reading is exact, and that
    /// memory is recycled.
    fn one_goes_on(&mut self, count: u64) {
        self.one("a recorder alone", move |subject, expected| {
            let seconds = LAPS * expected.samples + LONGER;
            let mut made_before = 0;
            for second in 0..seconds {
                expected.advance();
                expected.record(count);
                subject.add(expected.now, count);
                // From here on, this thread has added all counts that are in the window.
                if second + 1 >= expected.samples {
                    expected.audit(subject);
                }
                if second == seconds / 2 {
                    made_before = subject.made();
                }
            }
            assert_eq!(subject.made(), made_before, "memory is recycled");
        });
    }

    /// Checks, after all stopped threads have ended, that each of their adds is in its place and in
    /// no other, and that all memory is in its place.
    pub(super) fn end(&mut self, adds: Vec<Part>) {
        self.one("a reader at the end", move |subject, expected| {
            let ledger = subject.ledger(expected.now);
            let placed = [Part::InWindow, Part::Expired, Part::Late]
                .map(|place| adds.iter().filter(|&&other| other == place).count() as u64);
            let found = [ledger.in_window, ledger.expired, ledger.late];
            assert_eq!(found.map(|part| split(part).0), placed, "marks in their places: {ledger}");
            expected.audit(subject);
            subject.assert_at_rest(expected.now);
        });
        self.go_on(Progress::LapsAlone);
        self.one("a rotator at the end", |subject, expected| {
            expected.advance();
            subject.rotate(expected.now);
            expected.audit(subject);
            let left = expected.now - expected.samples;
            assert_eq!(subject.sum(left), 0, "the buckets of that window are gone");
        });
        // On another thread: the thread before has abandoned its cell by now.
        self.one("a reader at rest", |subject, expected| subject.assert_kept(expected.samples));
    }
}

/// Records in those seconds, and returns the sum of the adds.
fn record(subject: &impl Subject, seconds: RangeInclusive<u64>) -> u64 {
    let first = *seconds.start();
    let mut added = 0;
    for second in seconds {
        let count = if second == first { BEFORE } else { AFTER };
        for _ in 0..TIMES {
            subject.add(second, count);
            added += count;
        }
    }
    added
}

/// Reads the same window again and again.
fn read(subject: &impl Subject, expected: Expected, done: &AtomicBool) {
    let (second, most) = (expected.now, expected.in_window() + BESIDE);
    let mut last = [expected.recorded; 2];
    let mut grows = |reading: usize, recorded| {
        assert!(recorded >= last[reading], "went back from {} to {recorded}", last[reading]);
        last[reading] = recorded;
    };
    loop {
        // Loaded before the readings, so that the last ones include all adds.
        let is_last = done.load(Ordering::Acquire);
        let ledger = subject.ledger(second);
        grows(0, ledger.recorded());
        let lifetime = subject.lifetime();
        assert!(lifetime >= ledger.recorded(), "{lifetime} after {ledger}");
        grows(1, lifetime);
        for found in [ledger.in_window, subject.sum(second), subject.values(second)] {
            assert!(split(found).1 <= most, "{found} in a window of at most {most}");
        }
        if is_last {
            return;
        }
        thread::yield_now();
    }
}
