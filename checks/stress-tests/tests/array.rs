//! `LeapArray`, with buckets that detect misplaced counts.
//!
//! There is one test only, since the number of buckets is counted in the whole process.

use leaparray::array::{CurrentBucket, LeapArray, Ledger};
use leaparray_stress_tests::{
    AdvancedTime, BUCKET, Bounds, Marks, Observation, Round, Stamped, Tally, Time, WriterTally,
    number_of, rounds, start_of, work,
};

/// The number of turns for which a writer keeps a bucket pinned: many laps.
const PINNED_TURNS: u64 = 64;
/// A writer records at a time that is two laps behind once in this number of turns.
const LATE_EVERY: u64 = 16;

struct Stress {
    round: Round,
    array: LeapArray<Stamped>,
    time: AdvancedTime,
    tally: Tally,
}

impl Stress {
    fn new(round: Round) -> Self {
        let time = AdvancedTime::new(round);
        let tally = Tally::new(round.writers, &time);
        Self { round, array: LeapArray::new(round.config()), time, tally }
    }

    fn run(&self) {
        let mut at_least = 0;
        work(
            self.round.writers,
            |writer| self.write(self.tally.writer(writer)),
            vec![
                Box::new(|| self.read_without_holding()),
                Box::new(|| {
                    self.read_what_is_held();
                    self.read_previous();
                    at_least = self.read_ledger(at_least);
                }),
            ],
        );
        self.check_counts();
    }

    fn write(&self, page: &WriterTally) {
        let mut kept = None;
        for turn in 0.. {
            let Some(mut now) = self.time.tick(turn) else { return };
            if turn.is_multiple_of(LATE_EVERY) {
                now = now.saturating_sub(2 * self.round.samples * BUCKET);
            }
            let bucket = self.array.current_bucket(now);
            add(page, &bucket, number_of(now), 1 + turn % 3);
            if turn.is_multiple_of(PINNED_TURNS) {
                kept = Some((bucket, number_of(now)));
            } else if let Some((bucket, number)) = &kept {
                add(page, bucket, *number, 1);
            }
        }
    }

    fn newest(&self) -> u64 {
        number_of(self.time.now())
    }

    fn read_without_holding(&self) {
        let now = self.time.now();
        let bounds = Bounds::new(&self.tally, number_of(now), self.round.samples);
        let found = self.array.fold(now, Vec::new(), Stamped::look, |mut looks, look| {
            looks.push(look);
            looks
        });
        let newest = self.newest();
        // A wrap that lost the race for its slot is found as well, with an empty bucket.
        let units = |look: Observation| look.number().map(|number| (number, look.units_of(number)));
        bounds.check(found.into_iter().filter_map(units), newest);
    }

    fn read_what_is_held(&self) {
        let now = self.time.now();
        let bounds = Bounds::new(&self.tally, number_of(now), self.round.samples);
        let held: Vec<_> = self.array.values(now).collect();
        let newest = self.newest();
        assert!(held.iter().map(|wrap| wrap.start()).is_sorted());
        let units = || {
            let starts = held.iter().map(|wrap| (number_of(wrap.start()), wrap.bucket()));
            starts.map(|(number, bucket)| (number, bucket.look().units_of(number)))
        };
        let found: Vec<_> = units().collect();
        bounds.check(found.iter().copied(), newest);
        let mut later = units().zip(found);
        assert!(later.all(|(later, sooner)| later >= sooner), "a pinned bucket was recycled");
    }

    fn read_previous(&self) {
        let number = self.newest().saturating_sub(1);
        let previous = self.array.previous_bucket(start_of(number + 1));
        let Some(wrap) = previous else { return };
        assert_eq!(wrap.start(), start_of(number));
        let units = wrap.bucket().look().units_of(number);
        assert!(units <= self.tally.begun(number));
    }

    /// Checks that the recorded total is between `at_least` and the units that have begun, and
    /// returns it.
    fn read_ledger(&self, at_least: u64) -> u64 {
        let at_least = at_least.max(self.tally.all_completed());
        let recorded = self.array.ledger(self.time.now()).recorded().units;
        let range = at_least..=self.tally.all_begun();
        assert!(range.contains(&recorded), "{recorded} units recorded, expected {range:?}");
        recorded
    }

    /// Compares the totals exactly, once all threads have ended.
    fn check_counts(&self) {
        let newest = self.newest();
        let covered = Bounds::new(&self.tally, newest, self.round.samples).covered().clone();
        let mut expected = Ledger::<Marks>::default();
        for (number, units) in self.tally.buckets() {
            let in_window = covered.contains(&number);
            let part = if in_window { &mut expected.in_window } else { &mut expected.expired };
            *part += &Marks { units, marks: units * number };
        }
        let ledger = self.array.ledger(self.time.now());
        assert_eq!(ledger.in_window, expected.in_window);
        assert_eq!(ledger.expired, expected.expired);
        assert_eq!(ledger.recorded().units, self.tally.all_completed());
    }
}

fn add(page: &WriterTally, bucket: &CurrentBucket<'_, Stamped>, number: u64, units: u64) {
    match bucket {
        CurrentBucket::InTime(wrap) => {
            assert_eq!(wrap.start(), start_of(number));
            page.enter(number, units, || wrap.bucket().add(number, units));
        }
        CurrentBucket::Late(bucket) => page.enter_late(units, || bucket.add_late(number, units)),
    }
}

/// The maximum number of buckets, however often the array rotates: the buckets in slots, and as
/// many that a reader has kept pinned since they left their slots; for each writer, the bucket that
/// it keeps, the bucket in which it records, and the bucket that it is about to swap in; for each
/// reader, one bucket that it is about to pin. The pool makes buckets in chunks of 4, so there may
/// be 3 more.
fn most(round: Round) -> u64 {
    2 * u64::from(round.samples) + 3 * round.writers as u64 + 2 + 3
}

#[test]
fn every_unit_stays_in_its_bucket() {
    for round in rounds() {
        let stress = Stress::new(round);
        stress.run();
        let (rotations, made) = (stress.tally.buckets().count(), Stamped::live());
        println!("{round:?}: {rotations} rotations, {made} buckets");
        assert!(made <= most(round), "{made} buckets, expected at most {}", most(round));
        drop(stress);
        assert_eq!(Stamped::live(), 0, "some buckets were not dropped");
    }
}
