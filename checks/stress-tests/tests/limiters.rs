//! A sliding-window limiter under constant contention: for its last permits, and for the permits of
//! its stripes.

use std::sync::atomic::{AtomicU64, Ordering};

use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
use leaparray_stress_tests::{AdvancedTime, Round, Time, number_of, rounds, stall, work};

/// The decision about one request, and the buckets in which it may have been made: from the bucket
/// of the request's own time to the newest bucket of all threads after the decision.
#[derive(Clone, Copy)]
struct Outcome {
    first: u64,
    last: u64,
    permits: u64,
    admitted: bool,
}

impl Outcome {
    /// Packs the decision into one word, which is not 0. The threads store words because
    /// `ThreadSanitizer` does not see how the locks of the standard library order memory.
    fn to_word(self) -> u64 {
        assert!(self.last < 1 << 28, "a round has few buckets");
        self.first << 32 | self.last << 4 | self.permits << 2 | u64::from(self.admitted) << 1 | 1
    }

    fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self {
            first: word >> 32,
            last: word >> 4 & ((1 << 28) - 1),
            permits: word >> 2 & 3,
            admitted: word >> 1 & 1 == 1,
        })
    }
}

struct Stress {
    round: Round,
    limit: u64,
    limiter: SlidingWindowLimiter,
    time: AdvancedTime,
    /// The decisions, by writer and turn.
    told: Vec<Vec<AtomicU64>>,
}

impl Stress {
    fn new(round: Round) -> Self {
        // About half of the permits that are asked for.
        let limit = u64::from(round.turns_per_bucket * round.samples) + 1;
        Self::with_limit(round, limit)
    }

    /// Creates a round in which permits are scarce, also if many are asked for in each bucket.
    fn scarce(round: Round) -> Self {
        let limit = u64::from(round.turns_per_bucket.min(40) * round.samples / 2) + 1;
        Self::with_limit(round, limit)
    }

    fn with_limit(round: Round, limit: u64) -> Self {
        let limiter = SlidingWindowLimiter::of_buckets(round.config(), limit)
            .expect("the limit is not too high");
        let turns = round.turns as usize / round.writers;
        let told = (0..round.writers).map(|_| (0..turns).map(|_| AtomicU64::new(0)).collect());
        Self { round, limit, limiter, time: AdvancedTime::new(round), told: told.collect() }
    }

    fn run(&self) {
        let reader = Box::new(|| {
            let available = self.limiter.quota_at(self.time.now()).unwrap().remaining;
            assert!(available <= self.limit, "{available}");
        });
        work(self.round.writers, |writer| self.ask(writer), vec![reader]);
        self.check();
    }

    fn ask(&self, writer: usize) {
        for (turn, told) in (0..).zip(&self.told[writer]) {
            let now = self.time.tick(turn).expect("a writer has one turn for each word");
            let permits = (turn + writer as u64) % 3 + 1;
            stall();
            let admitted = self.limiter.try_acquire_at(now, permits).is_admitted();
            let (first, last) = (number_of(now), number_of(self.time.now()));
            told.store(Outcome { first, last, permits, admitted }.to_word(), Ordering::Relaxed);
        }
    }

    /// Checks for each window that the permits that were certainly taken in it do not exceed the
    /// limit, and that each refused request asked for more than the permits that were certainly
    /// left.
    fn check(&self) {
        let words = self.told.iter().flatten().map(|told| told.load(Ordering::Relaxed));
        let told: Vec<_> = words.filter_map(Outcome::from_word).collect();
        let (samples, (_, end)) = (u64::from(self.round.samples), self.time.numbers());
        let (mut surely, mut perhaps) = (Sums::new(end + samples), Sums::new(end + samples));
        for Outcome { first, last, permits, .. } in told.iter().filter(|told| told.admitted) {
            // Sums by the last bucket of the window.
            surely.add(*last, first + samples, *permits);
            perhaps.add(*first, last + samples, *permits);
        }
        let (surely, perhaps) = (surely.all(), perhaps.all());
        for (window, sum) in surely.iter().enumerate() {
            assert!(
                *sum <= self.limit,
                "{sum} of {} permits in the window that ends with {window}",
                self.limit
            );
        }
        for refused in told.iter().filter(|told| !told.admitted) {
            let most = (refused.first..=refused.last).map(|window| perhaps[index(window)]).max();
            let free = self.limit.saturating_sub(most.unwrap_or(0));
            assert!(
                refused.permits > free,
                "refused {} permits, but {free} were left",
                refused.permits
            );
        }
        let admitted = told.iter().filter(|told| told.admitted).count();
        assert!(admitted > 0 && admitted < told.len(), "{admitted} of {} admitted", told.len());
    }
}

/// A sum for each number, stored as the differences between neighbours.
struct Sums(Vec<i64>);

impl Sums {
    fn new(len: u64) -> Self {
        Self(vec![0; index(len) + 1])
    }

    fn add(&mut self, begin: u64, end: u64, count: u64) {
        if begin < end {
            self.0[index(begin)] += count.cast_signed();
            self.0[index(end)] -= count.cast_signed();
        }
    }

    fn all(&self) -> Vec<u64> {
        let mut sum = 0;
        let sums = self.0.iter().map(|change| {
            sum += change;
            sum.cast_unsigned()
        });
        sums.collect()
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a round has few buckets")
}

#[test]
fn no_window_exceeds_its_limit_and_no_request_is_refused_a_permit_that_is_left() {
    for round in rounds() {
        Stress::scarce(round).run();
    }
}

/// Most permits are taken from stripes. Epochs begin and end all the time: the writers compete,
/// each bucket ends an epoch, and so does each request for permits that no stripe has.
#[test]
fn no_window_exceeds_its_limit_and_no_permit_is_hidden_in_a_stripe() {
    for round in rounds() {
        for turns_per_bucket in [100, 1_000] {
            Stress::new(Round { turns_per_bucket, ..round }).run();
        }
    }
}
