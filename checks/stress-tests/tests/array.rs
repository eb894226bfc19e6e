//! `LeapArray`, with buckets that notice what must not happen to them.
//!
//! One test: how many buckets there are is counted in the whole process.

use leaparray::{CurrentBucket, LeapArray, Ledger};
use leaparray_stress_tests::{
    BUCKET, Bounds, Given, Marks, Observation, Round, Stamped, Tally, Time, WriterTally, number_of,
    rounds, start_of, work,
};

/// How many turns of its writer a bucket is held for: many laps.
const HELD: u64 = 64;
/// How often somebody records at a time that is laps behind.
const LATE_EVERY: u64 = 16;

struct Stress {
    round: Round,
    array: LeapArray<Stamped>,
    time: Given,
    tally: Tally,
}

impl Stress {
    fn new(round: Round) -> Self {
        let time = Given::new(round);
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
            if turn.is_multiple_of(HELD) {
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
        // What lost the race for a slot is seen as well, empty.
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
        assert!(later.all(|(later, sooner)| later >= sooner), "used again while held");
    }

    fn read_previous(&self) {
        let number = self.newest().saturating_sub(1);
        let previous = self.array.previous_bucket(start_of(number + 1));
        let Some(wrap) = previous else { return };
        assert_eq!(wrap.start(), start_of(number));
        let units = wrap.bucket().look().units_of(number);
        assert!(units <= self.tally.begun(number));
    }

    /// What was recorded, which was `at_least` as much.
    fn read_ledger(&self, at_least: u64) -> u64 {
        let at_least = at_least.max(self.tally.all_through());
        let recorded = self.array.ledger(self.time.now()).recorded().units;
        let range = at_least..=self.tally.all_begun();
        assert!(range.contains(&recorded), "{recorded} recorded, and not {range:?}");
        recorded
    }

    /// To the unit, when all are through.
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
        assert_eq!(ledger.recorded().units, self.tally.all_through());
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

/// How many buckets are needed, however often they rotate: those in slots, and as many that a reader
/// has held since they were; for each writer the one it keeps, the one it is at and the one it is about
/// to put in a slot; for each reader one on the way. They are made by four.
fn most(round: Round) -> u64 {
    2 * u64::from(round.samples) + 3 * round.writers as u64 + 2 + 3
}

#[test]
fn every_unit_stays_in_its_bucket() {
    for round in rounds() {
        let stress = Stress::new(round);
        stress.run();
        let (rotations, made) = (stress.tally.buckets().count(), Stamped::live());
        println!("{round:?}: {rotations} rotations, {made} buckets made");
        assert!(made <= most(round), "{made} buckets made, and not {}", most(round));
        drop(stress);
        assert_eq!(Stamped::live(), 0, "never dropped");
    }
}
