//! Those who are not stopped.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::ledger::{Ledger, split};
use super::stopped::Place;
use super::subject::{Subject, time};
use super::threads::{Watched, watched};
use super::{LeapArray, list, made};
use crate::bucket::Bucket;
use crate::retired::Retired;

/// What others do while somebody is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// They record in the newest bucket.
    Same,
    /// They record through several laps, from the newest bucket on.
    Laps,
    /// One does, and reads.
    LapsAlone,
}

/// How many laps one goes on for alone.
const LAPS: u64 = 4;

/// How many all do together, at a pace that depends on the machine.
const LAPS_TOGETHER: u64 = 2;

/// How often each of two records in each second.
const TIMES: u64 = 2;

/// What they add in the second in which others are stopped.
const BEFORE: u64 = 1;

/// What they add later: more than all that was before, so that a sum tells both.
pub(super) const AFTER: u64 = 1_000;

/// How much the two add to that second.
const BESIDE: u64 = 2 * TIMES * BEFORE;

impl Meanwhile {
    /// How much others add to the second in which they begin.
    pub(super) const fn beside(self) -> u64 {
        match self {
            Self::Same | Self::Laps => BESIDE,
            Self::LapsAlone => 0,
        }
    }
}

pub(super) struct World<S> {
    pub(super) subject: Arc<S>,
    pub(super) ledger: Ledger,
}

impl<S: Subject> World<S> {
    /// Nobody has recorded anything.
    pub(super) fn empty(samples: u64) -> Self {
        Self { subject: Arc::new(S::new(samples)), ledger: Ledger::new(samples) }
    }

    /// It has gone round several times.
    pub(super) fn filled(samples: u64) -> Self {
        let mut world = Self::empty(samples);
        world.one_goes_on(BEFORE);
        world
    }

    pub(super) fn go_on(&mut self, meanwhile: Meanwhile) {
        match meanwhile {
            Meanwhile::Same => {
                self.all_go_on(self.ledger.now);
                self.one("a reader", |subject, ledger| ledger.audit(subject));
            }
            Meanwhile::Laps => {
                self.all_go_on(self.ledger.now + LAPS_TOGETHER * self.ledger.samples);
                self.one_goes_on(AFTER);
            }
            Meanwhile::LapsAlone => self.one_goes_on(AFTER),
        }
    }

    /// Whatever is done is done by a thread that is watched, and that has nothing in hand afterwards.
    fn one(&mut self, what: &'static str, act: impl FnOnce(&S, &mut Ledger) + Send + 'static) {
        let (subject, mut ledger) = (Arc::clone(&self.subject), self.ledger);
        let one = watched(what, move || {
            act(&subject, &mut ledger);
            ledger
        });
        self.ledger = one.result();
    }

    /// Two record, each at a pace of its own, and one reads, beside each other.
    fn all_go_on(&mut self, last: u64) {
        let seconds = self.ledger.now..=last;
        let recorders = [(); 2].map(|()| {
            let (subject, seconds) = (Arc::clone(&self.subject), seconds.clone());
            watched("one of two recorders", move || record(&*subject, seconds))
        });
        let done = Arc::new(AtomicBool::new(false));
        let reader = {
            let (subject, ledger, done) =
                (Arc::clone(&self.subject), self.ledger, Arc::clone(&done));
            watched("a reader beside recorders", move || read(&*subject, ledger, &done))
        };
        let added: u64 = recorders.into_iter().map(Watched::result).sum();
        done.store(true, Ordering::Release);
        reader.result();
        // Which of it is in the window is not known, unless all was added in one second.
        self.ledger.now = last;
        self.ledger.record(added);
    }

    /// One records, second by second. What is found is what was added, to the unit; and memory is
    /// used again.
    fn one_goes_on(&mut self, count: u64) {
        self.one("a recorder alone", move |subject, ledger| {
            let seconds = LAPS * ledger.samples;
            let mut made_before = 0;
            for second in 0..seconds {
                ledger.advance();
                ledger.record(count);
                subject.add(ledger.now, count);
                // By then what is in the window is this thread's.
                if second + 1 >= ledger.samples {
                    ledger.audit(subject);
                }
                if second == seconds / 2 {
                    made_before = made(subject.array());
                }
            }
            assert_eq!(made(subject.array()), made_before, "wraps are used again");
        });
    }

    /// Nobody is stopped any more: each of those adds is in its place, and nowhere else; and what was
    /// kept for them is settled.
    pub(super) fn end(&mut self, adds: Vec<Place>) {
        self.one("a reader at the end", move |subject, ledger| {
            let account = subject.account(ledger.now);
            let expected = [Place::InWindow, Place::Expired, Place::Late]
                .map(|place| adds.iter().filter(|&&other| other == place).count() as u64);
            let found = [account.in_window, account.expired, account.late];
            assert_eq!(found.map(|part| split(part).0), expected, "in their places: {account}");
        });
        self.go_on(Meanwhile::LapsAlone);
        self.one("a rotator at the end", |subject, ledger| {
            ledger.advance();
            drop(subject.array().current_bucket(time(ledger.now)));
            ledger.audit(subject);
            let left = ledger.now - ledger.samples;
            assert_eq!(subject.sum(left), 0, "all of that has left its slots");
            all_are_kept(subject.array(), ledger.samples);
        });
    }
}

/// Each wrap is in one place, when nobody has any in hand.
fn all_are_kept<B: Bucket>(array: &LeapArray<B>, in_slots: u64) {
    let (open, unused) = (list(array, Retired::open_len), list(array, Retired::unused_len));
    assert_eq!(open, 1, "the one that was just retired");
    assert_eq!(made(array), in_slots + open + unused, "in a slot, retired, or to be used again");
    assert!(unused <= IN_HANDS, "{unused} wraps to be used again");
}

/// How many wraps are kept at once by the few threads that there are, at most.
const IN_HANDS: u64 = 12;

/// Records in those seconds, and tells how much.
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
fn read(subject: &impl Subject, ledger: Ledger, done: &AtomicBool) {
    let (second, most) = (ledger.now, ledger.in_window() + BESIDE);
    let mut last = ledger.recorded;
    let mut grows = |recorded| {
        assert!(recorded >= last, "went back from {last} to {recorded}");
        last = recorded;
    };
    loop {
        // Only now, so that the last look is at everything.
        let is_last = done.load(Ordering::Acquire);
        let account = subject.account(second);
        grows(account.recorded());
        grows(subject.lifetime());
        for found in [account.in_window, subject.sum(second), subject.values(second)] {
            assert!(split(found).1 <= most, "{found} in a window of at most {most}");
        }
        if is_last {
            return;
        }
        thread::yield_now();
    }
}
