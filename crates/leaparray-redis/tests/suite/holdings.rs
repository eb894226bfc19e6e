//! The safety core of a node: what it may use, what it reports, and until when it knows.

use std::time::Duration;

use leaparray_redis::lease::{
    Ahead, Answer, Epoch, Holdings, LeaseConfig, MAX_EXACT, MAX_MOVES, Move,
};

/// The length of a bucket.
const B: u64 = 1_000;
const OLD: Epoch = Epoch { identity: 1, since: 0 };
const NEW: Epoch = Epoch { identity: 2, since: 0 };

/// Returns the holdings of a node of a limit of two buckets. Its leases are valid for one more
/// bucket.
fn holdings(drift_ppm: u32) -> Holdings {
    let config = LeaseConfig::of_buckets(100, 2, Duration::from_millis(2)).expect("valid");
    let config = config.with_validity(1).and_then(|it| it.with_drift_ppm(drift_ppm));
    Holdings::new(config.expect("valid"), 1)
}

/// An answer by a server whose clock is at `now`.
fn answer(seq: u64, epoch: Epoch, now: u64, granted: u64, bucket: u64) -> Answer {
    Answer {
        seq,
        epoch,
        now,
        granted,
        bucket,
        retry_in: 0,
        open_in: 0,
        free: 0,
        behind: 0,
        ahead: Vec::new(),
        is_taken: false,
    }
}

/// Asks at the local time `sent`, and takes an answer at once. Nothing is returned. Returns what
/// was reported.
fn exchange(it: &mut Holdings, sent: u64, epoch: Epoch, now: u64, granted: u64) -> Vec<Move> {
    let asked = it.ask(sent, granted, 1, u64::MAX).expect("none is in flight");
    assert!(it.on_answer(sent, &answer(asked.seq, epoch, now, granted, now / B + 1)));
    asked.moves
}

/// Returns what the node reports at `now` without returning permits.
fn report(it: &mut Holdings, now: u64) -> Vec<Move> {
    it.ask(now, 0, 1, u64::MAX).expect("none is in flight").moves
}

#[test]
fn lease_ends_with_its_bucket() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 250, 1);
    assert_eq!((holdings.in_hand(1_749), holdings.in_hand(1_750)), (1, 0));
    assert_eq!(holdings.first_end(), Some(1_750));
    assert!(!holdings.take(1_750, 1));
    assert_eq!(report(&mut holdings, 1_750), [Move { from: 1, to: None, count: 1 }]);
}

/// A node whose clock is slow by 10 % has 1,800 µs while the server has 2,000 µs.
#[test]
fn lease_ends_in_time_by_a_slow_clock() {
    let mut holdings = holdings(100_000);
    exchange(&mut holdings, 0, OLD, 0, 1);
    assert_eq!((holdings.in_hand(1_799), holdings.in_hand(1_800)), (1, 0));
}

/// An answer may be on its way for any time.
#[test]
fn lease_ends_by_the_time_of_its_ask() {
    let mut holdings = holdings(0);
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_answer(1_500, &answer(asked.seq, OLD, 0, 1, 1));
    assert_eq!((holdings.in_hand(1_999), holdings.in_hand(2_000)), (1, 0));
}

#[test]
fn late_answer_is_returned_and_not_used() {
    let mut holdings = holdings(0);
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_answer(2_000, &answer(asked.seq, OLD, 0, 1, 1));
    assert!(!holdings.take(2_000, 1));
    assert_eq!(report(&mut holdings, 2_000), [Move { from: 1, to: None, count: 1 }]);
}

#[test]
fn earlier_time_counts_as_the_latest() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    assert!(!holdings.take(2_000, 1) && !holdings.take(0, 1));
    assert_eq!(holdings.in_hand(0), 0);
}

#[test]
fn all_permits_of_a_request_are_taken_or_none() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 2);
    assert!(!holdings.take(0, 3) && holdings.take(0, 2) && !holdings.take(0, 1));
    assert!(holdings.take(0, 0));
}

#[test]
fn permits_that_end_first_are_used_first() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    exchange(&mut holdings, 1_000, OLD, 1_000, 1);
    assert!(holdings.take(1_000, 1));
    assert_eq!(holdings.first_end(), Some(3_000));
}

/// The server read its clock at some time after the ask was sent: at the end of its bucket, the use
/// is in the next one.
#[test]
fn use_is_reported_in_the_latest_bucket_it_can_be_in() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 900, 3);
    assert!(holdings.take(99, 1) && holdings.take(100, 1));
    // In the bucket of the lease: nothing to move.
    assert_eq!(report(&mut holdings, 100), [Move { from: 1, to: Some(0), count: 1 }]);
}

#[test]
fn use_is_reported_by_the_time_of_the_ask() {
    let mut holdings = holdings(0);
    let asked = holdings.ask(0, 2, 1, 0).expect("none is in flight");
    holdings.on_answer(1_000, &answer(asked.seq, OLD, 0, 2, 1));
    assert!(holdings.take(1_000, 1));
    assert_eq!(report(&mut holdings, 1_000), []);
}

/// While the node's clock advances by 832 µs, a server's clock that is faster by 20 % advances by
/// nearly 1,000 µs.
#[test]
fn use_is_reported_in_the_bucket_of_a_fast_server() {
    let mut holdings = holdings(100_000);
    exchange(&mut holdings, 0, OLD, 0, 2);
    assert!(holdings.take(831, 1) && holdings.take(832, 1));
    assert_eq!(report(&mut holdings, 832), [Move { from: 1, to: Some(0), count: 1 }]);
}

#[test]
fn permits_leave_the_hand_before_their_return_is_sent() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 3);
    let asked = holdings.ask(0, 0, 1, 1).expect("none is in flight");
    assert_eq!(asked.moves, [Move { from: 1, to: None, count: 2 }]);
    assert_eq!(holdings.in_hand(0), 1);
}

#[test]
fn permits_that_end_first_are_returned_first() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    exchange(&mut holdings, 1_000, OLD, 1_000, 1);
    let asked = holdings.ask(1_000, 0, 1, 1).expect("none is in flight");
    assert_eq!(asked.moves, [Move { from: 1, to: None, count: 1 }]);
}

/// The ask may have arrived, or may arrive later.
#[test]
fn nothing_of_a_lost_ask_is_sent_again() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    assert!(holdings.take(0, 1));
    assert_eq!(report(&mut holdings, 0).len(), 1);
    holdings.on_lost();
    assert_eq!(report(&mut holdings, 0), []);
}

#[test]
fn one_ask_is_in_flight() {
    let mut holdings = holdings(0);
    assert_eq!(holdings.sent(), None);
    let first = holdings.ask(5, 1, 1, 0).expect("none is in flight");
    assert_eq!((holdings.sent(), holdings.ask(6, 1, 1, 0)), (Some(5), None));
    holdings.on_lost();
    let second = holdings.ask(6, 1, 1, 0).expect("none is in flight");
    assert_eq!((first.seq, second.seq), (1, 2));
}

#[test]
fn answer_is_accepted_once() {
    let mut holdings = holdings(0);
    let lost = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    holdings.on_lost();
    let asked = holdings.ask(0, 1, 1, 0).expect("none is in flight");
    assert!(!holdings.on_answer(0, &answer(lost.seq, OLD, 0, 1, 1)), "an earlier ask");
    assert!(!holdings.on_answer(0, &answer(asked.seq + 1, OLD, 0, 1, 1)), "a later ask");
    assert!(holdings.on_answer(0, &answer(asked.seq, OLD, 0, 1, 1)));
    assert!(!holdings.on_answer(0, &answer(asked.seq, OLD, 0, 1, 1)), "again");
    assert_eq!(holdings.in_hand(0), 1);
}

/// Returns a node with a permit of an old epoch that has learned of a new one. The quarantine
/// allows for its use.
fn with_a_permit_of_an_old_epoch() -> Holdings {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    exchange(&mut holdings, 0, NEW, 0, 0);
    assert_eq!(holdings.in_hand(0), 1);
    holdings
}

#[test]
fn used_permit_of_an_old_epoch_is_not_reported() {
    let mut holdings = with_a_permit_of_an_old_epoch();
    assert!(holdings.take(0, 1));
    assert_eq!(report(&mut holdings, 0), []);
}

#[test]
fn returned_permit_of_an_old_epoch_is_not_reported() {
    let mut holdings = with_a_permit_of_an_old_epoch();
    let asked = holdings.ask(0, 0, 1, 0).expect("none is in flight");
    assert_eq!((asked.moves, holdings.in_hand(0)), (vec![], 0));
}

#[test]
fn ended_permit_of_an_old_epoch_is_not_reported() {
    let mut holdings = with_a_permit_of_an_old_epoch();
    assert_eq!((report(&mut holdings, 2_000), holdings.in_hand(2_000)), (vec![], 0));
}

#[test]
fn moves_of_an_old_epoch_are_not_sent_to_a_new_one() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    let asked = holdings.ask(0, 0, 1, 1).expect("none is in flight");
    assert!(holdings.take(0, 1));
    assert_eq!(holdings.unreported(), 1);
    holdings.on_answer(0, &answer(asked.seq, NEW, 0, 0, 0));
    let asked = holdings.ask(0, 0, 1, 0).expect("none is in flight");
    assert_eq!((asked.epoch, asked.moves), (Some(NEW), vec![]));
}

#[test]
fn leases_of_two_epochs_stay_apart() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 0, 1);
    exchange(&mut holdings, 0, NEW, 0, 1);
    assert!(holdings.take(0, 2));
    assert_eq!(report(&mut holdings, 0), [Move { from: 1, to: Some(0), count: 1 }]);
}

#[test]
fn moves_of_buckets_that_have_left_the_window_are_dropped() {
    for (now, unreported) in [(3 * B - 1, 1), (3 * B, 0)] {
        let mut holdings = holdings(0);
        exchange(&mut holdings, 0, OLD, 0, 1);
        let asked = holdings.ask(0, 0, 1, 1).expect("none is in flight");
        assert!(holdings.take(0, 1));
        holdings.on_answer(0, &answer(asked.seq, OLD, now, 0, 0));
        assert_eq!(holdings.unreported(), unreported);
    }
}

#[test]
fn ask_has_at_most_so_many_moves() {
    let config = LeaseConfig::of_buckets(100, 200, Duration::from_millis(200)).expect("valid");
    let config = config.with_validity(200).and_then(|it| it.with_drift_ppm(0)).expect("valid");
    let mut holdings = Holdings::new(config, 1);
    for bucket in 1..=100 {
        let asked = holdings.ask(0, 1, 200, u64::MAX).expect("none is in flight");
        holdings.on_answer(0, &answer(asked.seq, OLD, 0, 1, bucket));
    }
    let asked = holdings.ask(0, 0, 1, 0).expect("none is in flight");
    assert_eq!((asked.moves.len(), holdings.unreported()), (MAX_MOVES, 100 - MAX_MOVES as u64));
    holdings.on_lost();
    assert_eq!(report(&mut holdings, 0).len(), 100 - MAX_MOVES);
}

/// Returns the permits in hand, and what a use of one of them would be reported as.
fn observed(holdings: &Holdings, now: u64) -> (u64, Vec<Move>) {
    let mut holdings = holdings.clone();
    let in_hand = holdings.in_hand(now);
    let mut moves = if holdings.take(now, 1) { report(&mut holdings, now) } else { vec![] };
    moves.retain(|it| it.to.is_some());
    (in_hand, moves)
}

/// Until then, each time gives the same as now; and then, either the permits or the bucket of their
/// use are others.
#[test]
fn holdings_are_stable_until_told() {
    let mut random = fastrand::Rng::with_seed(1);
    for drift_ppm in [0, 1_000, 100_000] {
        for _ in 0..100 {
            let mut holdings = holdings(drift_ppm);
            let (sent, server) = (random.u64(..2 * B), 10 * B + random.u64(..3 * B));
            exchange(&mut holdings, sent, OLD, server, 1);
            let (sent, server) = (sent + random.u64(..B / 2), server + random.u64(B / 2..B));
            exchange(&mut holdings, sent, OLD, server, 1);
            let now = sent + random.u64(..B);
            let until = holdings.stable_until(now);
            assert!(until > now);
            let at = observed(&holdings, now);
            assert!((now..until).all(|it| observed(&holdings, it) == at), "until {until}");
            if !at.1.is_empty() {
                assert_ne!(observed(&holdings, until), at, "only until {until}");
            }
        }
    }
}

#[test]
fn nothing_in_hand_is_stable() {
    let mut holdings = holdings(0);
    assert_eq!((holdings.stable_until(0), holdings.first_end()), (u64::MAX, None));
    exchange(&mut holdings, 0, OLD, 0, 1);
    assert!(holdings.take(0, 1));
    assert_eq!(holdings.first_end(), None);
}

/// The numbers of a server that is wrong change no more than the answer says: in particular, none
/// wraps around.
#[test]
fn no_answer_overflows() {
    let mut random = fastrand::Rng::with_seed(1);
    let numbers = [0, 1, 5, 1_999, 1 << 40, MAX_EXACT, u64::MAX - 1, u64::MAX];
    for drift_ppm in [0, 1_000, 100_000] {
        let (mut holdings, mut now, mut seq) = (holdings(drift_ppm), 0, 0);
        for _ in 0..100_000 {
            now += random.u64(..100);
            let mut number = || numbers[random.usize(..numbers.len())];
            let (of, epoch) = (number() % 4, if number() == 0 { NEW } else { OLD });
            let time = if number() == 0 { number() } else { now };
            match of {
                0 => seq = holdings.ask(time, number(), 1, number()).map_or(seq, |it| it.seq),
                1 => {
                    let bucket = if number() == 0 { number() } else { now / B + 1 };
                    let answer = answer(seq, epoch, number(), number(), bucket);
                    holdings.on_answer(time, &answer);
                }
                _ => {
                    let (in_hand, count) = (holdings.in_hand(time), number());
                    assert_eq!(holdings.take(time, count), in_hand >= count);
                }
            }
            assert!(holdings.stable_until(time) > time.min(u64::MAX - 1));
            // The end of all times is the end of the run.
            if time > u64::MAX / 2 {
                holdings = Holdings::new(*holdings.config(), 1);
            }
        }
    }
}

/// Returns the holdings of a node that was granted two permits of the buckets 2 to 4 at 500, by an
/// answer that took from 1,000 to 1,300.
fn granted_ahead(drift_ppm: u32) -> Holdings {
    let mut holdings = holdings(drift_ppm);
    let asked = holdings.ask(1_000, 2, 1, u64::MAX).expect("none is in flight");
    let ahead = vec![Ahead { from: 2, bucket: 4, count: 2 }];
    let answer = Answer { ahead, ..answer(asked.seq, OLD, 500, 0, 1) };
    assert!(holdings.on_answer(1_300, &answer));
    holdings
}

/// Bucket 2 begins 1,500 after the answer: counted from its arrival, and at the slowest rate of the
/// server's clock. Bucket 4 ends 4,500 after it: counted from the ask.
#[test]
fn permits_that_are_granted_ahead_are_used_in_their_buckets() {
    let mut holdings = granted_ahead(0);
    assert_eq!((holdings.next_start(1_300), holdings.ahead(1_300)), (Some(2_800), 2));
    assert_eq!((holdings.in_hand(2_799), holdings.in_hand(2_800)), (0, 2));
    assert_eq!((holdings.in_hand(5_499), holdings.in_hand(5_500)), (2, 0));
    assert_eq!(holdings.stable_until(2_000), 2_500, "the bucket of a use changes");
    assert_eq!(holdings.stable_until(2_600), 2_800);
    assert!(!holdings.take(2_799, 1));
    assert!(holdings.take(2_800, 1));
    assert_eq!(report(&mut holdings, 2_800), [Move { from: 4, to: Some(2), count: 1 }]);
    assert_eq!(granted_ahead(100_000).next_start(1_300), Some(3_100));
}

/// The server relies on the charge of permits until they may be used.
#[test]
fn permits_that_are_granted_ahead_are_not_returned_before_their_time() {
    let mut holdings = granted_ahead(0);
    let early = holdings.ask(2_799, 0, 1, 0).expect("none is in flight");
    assert_eq!((early.moves, holdings.ahead(2_799)), (vec![], 2));
    holdings.on_lost();
    let late = holdings.ask(2_800, 0, 1, 0).expect("none is in flight");
    assert_eq!(late.moves, [Move { from: 4, to: None, count: 2 }]);
}

/// An earlier answer may show a later time of the server, because it has arrived more quickly, or
/// because the server's clock has stepped back: only the answer that grants the permits counts.
#[test]
fn start_is_counted_from_the_answer_that_grants() {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 1_000, OLD, 500, 0);
    let asked = holdings.ask(1_100, 2, 1, u64::MAX).expect("none is in flight");
    let ahead = vec![Ahead { from: 2, bucket: 4, count: 2 }];
    assert!(holdings.on_answer(1_900, &Answer { ahead, ..answer(asked.seq, OLD, 600, 0, 1) }));
    assert_eq!(holdings.next_start(1_900), Some(3_300));
}

/// Uses two permits at 300, which are charged in bucket 0, and is granted three of the buckets 2 to
/// 3 of a window of `config`, by an answer of `epoch` that takes from 400 to 1,500.
fn granted_where_two_leave(config: LeaseConfig, epoch: Epoch) -> Holdings {
    let mut holdings = Holdings::new(config, 1);
    exchange(&mut holdings, 0, OLD, 250, 2);
    assert!(holdings.take(300, 2));
    let asked = holdings.ask(400, 3, 1, u64::MAX).expect("none is in flight");
    assert_eq!(asked.moves, [Move { from: 1, to: Some(0), count: 2 }]);
    let from = u64::from(config.buckets());
    let ahead = vec![Ahead { from, bucket: from + 1, count: 3 }];
    assert!(holdings.on_answer(1_500, &Answer { ahead, ..answer(asked.seq, epoch, 700, 0, 1) }));
    holdings
}

/// Two of the permits begin when two that the node has used leave the window: they are used an
/// interval after these, in the microsecond after that of the last use. The third one has to wait
/// until the server has certainly reached the bucket.
#[test]
fn permits_follow_those_of_the_node_after_an_interval() {
    let mut holdings = granted_where_two_leave(*holdings(0).config(), OLD);
    assert_eq!((holdings.in_hand(2_300), holdings.in_hand(2_301)), (0, 2));
    assert_eq!((holdings.in_hand(2_799), holdings.in_hand(2_800)), (2, 3));
    // By the earliest answer that it could be, the server is in bucket 2.
    assert!(holdings.take(2_301, 1));
    assert_eq!(report(&mut holdings, 2_301), [Move { from: 3, to: Some(2), count: 1 }]);
    let slow = holdings.config().with_drift_ppm(100_000).unwrap();
    let holdings = granted_where_two_leave(slow, OLD);
    assert_eq!((holdings.in_hand(2_700), holdings.in_hand(2_701)), (0, 2));
}

/// The window of a limit in any interval has a bucket more than an interval touches. The permits
/// are charged at most that bucket before the one in which they begin.
#[test]
fn permits_of_any_interval_follow_those_of_the_node() {
    let config = LeaseConfig::new(100, Duration::from_millis(2)).unwrap();
    let config = config.with_validity(4).and_then(|it| it.with_drift_ppm(0)).unwrap();
    let mut holdings = granted_where_two_leave(config, OLD);
    assert_eq!((holdings.in_hand(2_300), holdings.in_hand(2_301)), (0, 2));
    // By an answer that shows an earlier time of the server, too.
    let asked = holdings.ask(2_302, 0, 1, u64::MAX).expect("none is in flight");
    assert!(holdings.on_answer(2_303, &answer(asked.seq, OLD, 1_100, 0, 1)));
    assert!(holdings.take(2_304, 1));
    assert_eq!(report(&mut holdings, 2_304), [Move { from: 4, to: Some(2), count: 1 }]);
}

/// The server counts on the charge of permits until their bucket begins, also if they are in hand
/// before.
#[test]
fn permits_that_follow_are_not_returned_before_their_bucket() {
    let mut holdings = granted_where_two_leave(*holdings(0).config(), OLD);
    let early = holdings.ask(2_400, 0, 1, 0).expect("none is in flight");
    assert_eq!((early.moves, holdings.in_hand(2_400)), (vec![], 2));
    holdings.on_lost();
    let late = holdings.ask(2_800, 0, 1, 0).expect("none is in flight");
    assert_eq!(late.moves, [Move { from: 3, to: None, count: 3 }]);
}

/// Each permit that was used is followed once, and none of an epoch that has ended.
#[test]
fn permit_is_followed_once() {
    let config = *holdings(0).config();
    let mut holdings = granted_where_two_leave(config, OLD);
    let asked = holdings.ask(1_600, 3, 1, u64::MAX).expect("none is in flight");
    let ahead = vec![Ahead { from: 2, bucket: 3, count: 2 }];
    assert!(holdings.on_answer(1_700, &Answer { ahead, ..answer(asked.seq, OLD, 800, 0, 1) }));
    assert_eq!((holdings.in_hand(2_301), holdings.in_hand(2_900)), (2, 5));
    assert_eq!(granted_where_two_leave(config, NEW).in_hand(2_301), 0);
}

/// Takes six permits of bucket 1 at 300 and at 1,100: three are charged in bucket 0, and three in
/// bucket 1.
fn with_uses() -> Holdings {
    let mut holdings = holdings(0);
    exchange(&mut holdings, 0, OLD, 250, 7);
    assert!(holdings.take(300, 3) && holdings.take(1_100, 3));
    holdings
}

/// While the lease is there and the use is not reported, they are in hand again. Afterwards, their
/// charge is taken back.
#[test]
fn unused_permits_are_given_back_where_they_are_charged() {
    let mut holdings = with_uses();
    assert_eq!((holdings.give_back(1_100, 300, 2), holdings.in_hand(1_100)), (2, 3));
    assert_eq!(report(&mut holdings, 1_100), [Move { from: 1, to: Some(0), count: 1 }]);
    holdings.on_lost();
    assert_eq!((holdings.give_back(1_200, 300, 2), holdings.in_hand(1_200)), (1, 3));
    assert_eq!(report(&mut holdings, 1_200), [Move { from: 0, to: None, count: 1 }]);
}

/// The charge of a permit that was taken at 301 or later is in bucket 1.
#[test]
fn unused_permits_are_given_back_in_no_later_bucket_than_that_of_their_charge() {
    let mut holdings = with_uses();
    assert_eq!(holdings.give_back(1_200, 301, 5), 3);
    let ended = report(&mut holdings, 1_750);
    let expected =
        [Move { from: 1, to: None, count: 1 + 3 }, Move { from: 1, to: Some(0), count: 3 }];
    assert_eq!(ended, expected);
    assert_eq!(holdings.give_back(1_750, 1_101, 1), 0, "nothing was taken since");
}

/// A charge that has left the window, or is of a lost epoch, or that another permit follows.
#[test]
fn permits_whose_charge_is_gone_are_not_given_back() {
    let mut holdings = with_uses();
    exchange(&mut holdings, 2_000, OLD, 2_250, 0);
    assert_eq!((holdings.give_back(2_100, 300, 1), holdings.give_back(2_100, 301, 1)), (0, 1));
    let mut holdings = with_uses();
    exchange(&mut holdings, 1_200, NEW, 1_450, 0);
    assert_eq!(holdings.give_back(1_300, 1_100, 1), 0);
    let mut holdings = granted_where_two_leave(*holdings.config(), OLD);
    assert_eq!(holdings.give_back(1_600, 300, 1), 0);
    let mut holdings = with_uses();
    holdings.rename(2);
    exchange(&mut holdings, 1_200, OLD, 1_450, 1);
    assert!(holdings.take(1_250, 1));
    assert_eq!((holdings.give_back(1_300, 1_100, 1), holdings.give_back(1_300, 1_201, 1)), (0, 1));
}

/// A request waits from 100 on for the first answer, which arrives at 300.
#[test]
fn permits_of_a_wait_for_the_first_answer_are_given_back() {
    let mut holdings = holdings(0);
    assert_eq!(holdings.give_back(100, 50, 1), 0, "nothing was taken");
    assert!(!holdings.take(100, 1) && holdings.take(100, 0));
    // An ask is lost, and its answer is late.
    let lost = holdings.ask(100, 5, 1, u64::MAX).expect("none is in flight");
    holdings.on_lost();
    let asked = holdings.ask(200, 5, 1, u64::MAX).expect("none is in flight");
    assert!(!holdings.on_answer(250, &answer(lost.seq, OLD, 250, 5, 1)));
    let first = answer(asked.seq, OLD, 250, 5, 1);
    assert!(holdings.on_answer(300, &first) && holdings.take(300, 3));
    assert!(!holdings.on_answer(310, &first), "again");
    assert_eq!((holdings.give_back(320, 100, 3), holdings.in_hand(320)), (3, 5));
    assert_eq!(holdings.give_back(320, 100, 1), 0, "all is given back");
    assert!(holdings.take(330, 2));
    // Permits that were taken before another epoch, or before another number, stay taken.
    let mut renamed = holdings.clone();
    exchange(&mut holdings, 400, NEW, 450, 1);
    renamed.rename(2);
    exchange(&mut renamed, 400, OLD, 450, 1);
    for mut holdings in [holdings, renamed] {
        // The holdings of the first epoch still have permits of it.
        let in_hand = holdings.in_hand(410);
        assert!(holdings.take(410, in_hand));
        assert_eq!((holdings.give_back(420, 100, 1), holdings.give_back(420, 401, 1)), (0, 1));
    }
}
