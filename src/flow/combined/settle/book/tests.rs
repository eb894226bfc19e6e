//! The book beside an oracle that moves by single buckets, and has all buckets.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const WINDOW: u64 = 4;

fn book(limit: u64) -> Book {
    Book::new(4, limit)
}

/// Each bucket with what was charged in it.
#[derive(Default)]
struct Oracle {
    limit: u64,
    charges: BTreeMap<u64, u64>,
    newest: u64,
    debt: u128,
}

impl Oracle {
    fn charged_in_window(&self, last: u64) -> u64 {
        self.charges.range((last + 1).saturating_sub(WINDOW)..=last).map(|(_, it)| it).sum()
    }

    fn pay(&mut self) {
        let room = self.limit.saturating_sub(self.charged_in_window(self.newest));
        let amount = u128::from(room).min(self.debt);
        self.debt -= amount;
        *self.charges.entry(self.newest).or_default() += u64::try_from(amount).unwrap();
    }

    fn roll_to(&mut self, number: u64) {
        while self.newest < number {
            self.newest += 1;
            self.pay();
        }
    }

    fn reserve(&mut self, estimate: u64) -> Option<Mark> {
        let room = self.limit.saturating_sub(self.charged_in_window(self.newest));
        let is_admitted = estimate == 0 || (self.debt == 0 && estimate <= room);
        is_admitted.then(|| {
            *self.charges.entry(self.newest).or_default() += estimate;
            Mark { bucket: self.newest, estimate }
        })
    }

    fn settle(&mut self, mark: Mark, cost: u64) {
        if let Some(excess) = cost.checked_sub(mark.estimate) {
            self.debt += u128::from(excess);
        } else if mark.bucket + WINDOW > self.newest {
            *self.charges.get_mut(&mark.bucket).unwrap() -= mark.estimate - cost;
        }
        self.pay();
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Roll(u64),
    Reserve(u64),
    /// Settles one of the estimates in flight.
    Settle(usize, u64),
    Spend(u64),
    SetLimit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let cost = || prop_oneof![0..12_u64, 0..60_u64];
    prop_oneof![
        3 => (0..3_u64).prop_map(Step::Roll),
        1 => (0..200_u64).prop_map(Step::Roll),
        5 => (0..12_u64).prop_map(Step::Reserve),
        5 => (any::<usize>(), cost()).prop_map(|(which, cost)| Step::Settle(which, cost)),
        1 => cost().prop_map(Step::Spend),
        1 => (0..15_u64).prop_map(Step::SetLimit),
    ]
}

fn is_conserved(book: &Book) -> bool {
    book.settled + book.reserved + book.unused
        == u128::from(book.charged) + book.expired + book.debt
}

proptest! {
    #[test]
    fn book_is_the_oracle_and_is_conserved(
        limit in 0..15_u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut book = book(limit);
        let mut oracle = Oracle { limit, ..Oracle::default() };
        let (mut open, mut highest) = (Vec::new(), limit);
        for step in steps {
            match step {
                Step::Roll(by) => {
                    book.roll_to(oracle.newest + by);
                    oracle.roll_to(oracle.newest + by);
                }
                Step::Reserve(estimate) => {
                    let ready = book.clone().ready(estimate);
                    if let Some(empty) = book.clone().empty() {
                        let mut later = book.clone();
                        later.roll_to(empty);
                        prop_assert_eq!((later.charged, later.debt), (0, 0));
                    }
                    let mark = book.reserve(estimate);
                    let expected = oracle.reserve(estimate);
                    prop_assert_eq!(mark.is_some(), expected.is_some());
                    if let (None, Some(ready)) = (mark, ready) {
                        // Not before, and then.
                        for (number, admits) in [(ready - 1, false), (ready, true)] {
                            let mut later = book.clone();
                            later.roll_to(number);
                            prop_assert_eq!(later.admits(estimate), admits, "{}", number);
                        }
                    } else if mark.is_none() {
                        prop_assert!(estimate > book.limit);
                    }
                    open.extend(mark);
                }
                Step::Settle(which, cost) if !open.is_empty() => {
                    let mark = open.swap_remove(which % open.len());
                    let settled = book.settle(mark, cost);
                    oracle.settle(mark, cost);
                    prop_assert_eq!(settled.excess, cost.saturating_sub(mark.estimate));
                }
                Step::Settle(..) => {}
                Step::Spend(cost) => {
                    book.spend(cost);
                    oracle.debt += u128::from(cost);
                    oracle.pay();
                }
                Step::SetLimit(limit) => {
                    book.reconfigure(limit);
                    oracle.limit = limit;
                    oracle.pay();
                    highest = highest.max(limit);
                }
            }
            prop_assert_eq!(book.newest, oracle.newest);
            prop_assert_eq!((book.charged, book.debt),
                (oracle.charged_in_window(oracle.newest), oracle.debt));
            prop_assert!(is_conserved(&book), "{:?}", book);
            prop_assert!(book.debt == 0 || book.charged >= book.limit, "{:?}", book);
            prop_assert_eq!(book.in_flight, open.len() as u64);
        }
        // Also of the windows that were skipped.
        for &last in oracle.charges.keys() {
            prop_assert!(oracle.charged_in_window(last) <= highest);
        }
    }
}

#[test]
fn great_numbers_neither_overflow_nor_take_long() {
    let mut book = Book::new(51, 1);
    let half = 1 << 63;
    for _ in 0..4 {
        book.spend(half);
    }
    assert_eq!((book.charged, book.debt), (1, 2 * u128::from(u64::MAX) + 1));
    book.roll_to(51 * 1_000 + 1);
    assert_eq!(book.debt, 2 * u128::from(u64::MAX) + 1 - 1_000);
    assert_eq!(book.clone().ready(1), None, "after the last bucket of all");
    book.roll_to(u64::MAX / 4);
    assert!(is_conserved(&book));
    let mut book = Book::new(51, u64::MAX);
    let mark = book.reserve(u64::MAX).unwrap();
    assert!(book.reserve(1).is_none() && book.reserve(0).is_some());
    assert_eq!(book.settle(mark, 0).given_back, u64::MAX);
    assert_eq!(book.room(), u64::MAX);
}

#[test]
fn limit_of_0_admits_estimates_of_0_and_charges_nothing() {
    let mut book = Book::new(3, 0);
    let mark = book.reserve(0).unwrap();
    assert!(book.reserve(1).is_none() && book.clone().ready(1).is_none());
    assert_eq!(book.settle(mark, 7).owed, 7);
    book.roll_to(u64::MAX);
    assert_eq!((book.charged, book.debt), (0, 7));
    assert_eq!((book.clone().ready(0), book.clone().empty()), (None, None));
    book.reconfigure(5);
    assert_eq!((book.charged, book.debt), (5, 2));
}
