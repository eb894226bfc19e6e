//! Runs of the protocol that need more steps than the model visits. Each holds the limit, and overshoots if a rule is broken.
#![forbid(unsafe_code)]

use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, Epoch, Holdings, LeaseConfig, Ledger, Move};

const B: u64 = 1_000;
/// n + v + 1 buckets.
const OPEN: u64 = 4 * B;

fn config() -> LeaseConfig {
    let config = LeaseConfig::new(2, 2, Duration::from_millis(2)).expect("valid");
    config.with_validity(1).and_then(|it| it.with_drift_ppm(0)).expect("valid")
}

fn ask(node: u64, seq: u64, epoch: Epoch, want: u64, moves: &[Move]) -> Ask {
    Ask { node, seq, epoch: Some(epoch), want, validity: 1, moves: moves.to_vec() }
}

/// Returns a ledger that has opened.
fn open() -> (Ledger, Epoch) {
    let mut ledger = Ledger::new(config());
    let epoch = ledger.lease(0, 1, &ask(9, 1, Epoch { identity: 0, since: 0 }, 0, &[])).epoch;
    ledger.lease(OPEN, 1, &ask(9, 2, epoch, 0, &[]));
    (ledger, epoch)
}

/// A message arrives after its sequence number has expired, and its moves are from a bucket that has been dropped. Another node has
/// all permits of the window by then.
fn late_message() -> u64 {
    let (mut ledger, epoch) = open();
    let granted = ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((granted.granted, granted.bucket), (2, 5));
    let moved = [Move { from: 5, to: Some(4), count: 2 }];
    let late = ask(1, 2, epoch, 2, &moved);
    assert_eq!(ledger.lease(OPEN, 1, &late).granted, 0);
    let other = ledger.lease(9 * B, 1, &ask(2, 1, epoch, 2, &[])).granted;
    assert_eq!(other, 2);
    other + ledger.lease(9 * B, 1, &late).granted
}

#[test]
fn late_message_gives_nothing() {
    assert_eq!(late_message(), 2);
}

/// The state is lost, and the clock has stepped back by 10 buckets. A node of the old epoch returns permits that were charged in a
/// bucket whose number comes again. Returns the permits of that bucket.
fn moves_of_another_epoch() -> u64 {
    let (mut ledger, epoch) = open();
    let old = ledger.lease(14 * B, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((old.granted, old.bucket), (2, 15));
    let mut ledger = Ledger::new(config());
    let epoch_now = ledger.lease(4 * B, 2, &ask(9, 1, epoch, 0, &[])).epoch;
    ledger.lease(8 * B, 2, &ask(9, 2, epoch_now, 0, &[]));
    let first = ledger.lease(14 * B, 2, &ask(2, 1, epoch_now, 2, &[])).granted;
    assert_eq!(first, 2);
    let returned = [Move { from: 15, to: None, count: 2 }];
    first + ledger.lease(14 * B, 2, &ask(1, 2, epoch, 2, &returned)).granted
}

#[test]
fn moves_of_another_epoch_change_nothing() {
    assert_eq!(moves_of_another_epoch(), 2);
}

/// The clock steps back by 20 buckets, and the time of the limit stands still for longer than the charges are kept without an ask.
fn long_standstill() -> (u64, u64) {
    let (mut ledger, epoch) = open();
    ledger.lease(30 * B, 1, &ask(9, 3, epoch, 0, &[]));
    let first = ledger.lease(10 * B, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((first.granted, first.now), (2, 30 * B));
    let second = ledger.lease(20 * B, 1, &ask(2, 1, epoch, 2, &[]));
    (first.granted + second.granted, second.retry_in)
}

#[test]
fn charges_stay_while_the_clock_stands_still() {
    assert_eq!(long_standstill(), (2, B));
}

fn answer(seq: u64, epoch: Epoch, now: u64, granted: u64, bucket: u64) -> Answer {
    Answer { seq, epoch, now, granted, bucket, retry_in: 0, open_in: 0, free: 0 }
}

/// Returns whether a node whose clock is slow by 10 % uses a permit after its lease has ended.
fn slow_clock() -> bool {
    let config = config().with_drift_ppm(100_000).expect("valid");
    let mut holdings = Holdings::new(config, 1);
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_answer(0, &answer(asked.seq, Epoch { identity: 1, since: 0 }, 0, 1, 1));
    // 2,000 µs of the server.
    holdings.take(1_800, 1)
}

#[test]
fn lease_ends_in_time_by_a_slow_clock() {
    assert!(!slow_clock());
}

/// A node uses a permit of an old epoch after it has learned of a new one. Returns what it reports.
fn use_after_a_new_epoch() -> Vec<Move> {
    let mut holdings = Holdings::new(config(), 1);
    let (old, new) = (Epoch { identity: 1, since: 0 }, Epoch { identity: 2, since: 0 });
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_answer(0, &answer(asked.seq, old, 0, 1, 1));
    let asked = holdings.ask(0, 0, 1, 1).expect("none is in flight");
    holdings.on_answer(0, &answer(asked.seq, new, 0, 0, 1));
    assert!(holdings.take(0, 1), "the quarantine allows for it");
    holdings.ask(0, 0, 1, 0).expect("none is in flight").moves
}

#[test]
fn permit_of_an_old_epoch_is_not_reported_to_a_new_one() {
    assert_eq!(use_after_a_new_epoch(), []);
}

#[test]
fn late_answer_is_returned_and_not_used() {
    let mut holdings = Holdings::new(config(), 1);
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_answer(2_000, &answer(asked.seq, Epoch { identity: 1, since: 0 }, 0, 1, 1));
    assert!(!holdings.take(2_000, 1));
    let moves = holdings.ask(2_000, 0, 1, 0).expect("none is in flight").moves;
    assert_eq!(moves, [Move { from: 1, to: None, count: 1 }]);
}

#[test]
fn repeated_ask_gets_its_answer_again() {
    let (mut ledger, epoch) = open();
    let first = ledger.lease(OPEN, 1, &ask(1, 1, epoch, 1, &[]));
    let again = ledger.lease(OPEN + B, 1, &ask(1, 1, epoch, 1, &[]));
    assert_eq!((first.granted, again.granted, again.bucket), (1, 1, first.bucket));
    assert_eq!(ledger.lease(OPEN + B, 1, &ask(2, 1, epoch, 2, &[])).granted, 1);
}

#[test]
fn no_input_overflows() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut number = || [0, 1, 5, 1 << 40, 1 << 53, u64::MAX][random.usize(..6)];
    let (mut ledger, _) = open();
    let mut holdings = Holdings::new(config(), 1);
    for _ in 0..10_000 {
        let epoch = Epoch { identity: number() % 2, since: number() };
        let moves = [Move { from: number(), to: Some(number()), count: number() }];
        let validity = u32::try_from(number()).unwrap_or(u32::MAX);
        let asked = Ask { validity, ..ask(number(), number(), epoch, number(), &moves) };
        let granted = ledger.lease(number(), number() % 2, &asked);
        assert!(granted.granted <= 2);
        if let Some(asked) = holdings.ask(number(), number(), validity, number()) {
            let (now, count, bucket) = (number(), number(), number());
            holdings.on_answer(number(), &answer(asked.seq, epoch, now, count, bucket));
        }
        holdings.take(number(), number());
    }
}
