//! Single rules of the protocol, with times that are set by hand.

use std::time::Duration;

use leaparray_redis::{
    Answer, Ask, Epoch, LeaseConfig, LeaseConfigError, Ledger, Move, Node, NodeId, RunId,
};

const RUN: RunId = RunId([7; 20]);
const SECOND: u64 = 1_000_000;

/// 10 permits in 4 buckets of a second; leases end 2 buckets later.
fn config() -> LeaseConfig {
    let config = LeaseConfig::new(10, 4, Duration::from_secs(4)).unwrap();
    config.with_validity(2).unwrap()
}

/// A ledger after its quarantine, at 107 s.
fn open() -> (Ledger, Epoch) {
    let mut ledger = Ledger::new(config());
    let first = ledger.lease(100 * SECOND, RUN, &ask(99, 1, 0));
    assert_eq!((first.granted, first.retry_in), (0, 7 * SECOND));
    (ledger, first.epoch)
}

fn ask(node: u128, seq: u64, want: u64) -> Ask {
    Ask { node: NodeId(node), seq, epoch: None, want, moves: Vec::new() }
}

fn moved(seq: u64, want: u64, epoch: Epoch, from: u64, to: Option<u64>, count: u64) -> Ask {
    Ask { epoch: Some(epoch), moves: vec![Move { from, to, count }], ..ask(1, seq, want) }
}

#[test]
fn server_grants_nothing_until_the_leases_before_its_start_have_left_the_window() {
    let (mut ledger, _) = open();
    let early = ledger.lease(107 * SECOND - 1, RUN, &ask(1, 1, 3));
    assert_eq!((early.granted, early.retry_in), (0, 1));
    let opened = ledger.lease(107 * SECOND, RUN, &ask(1, 2, 3));
    assert_eq!((opened.granted, opened.bucket, opened.free), (3, 109, 7));
    let restarted = ledger.lease(108 * SECOND, RunId([8; 20]), &ask(1, 3, 3));
    assert_eq!((restarted.granted, restarted.retry_in), (0, 7 * SECOND));
    assert_ne!(restarted.epoch, opened.epoch);
}

/// Otherwise the window would have a bucket twice.
#[test]
fn time_stands_still_while_the_clock_is_behind() {
    let (mut ledger, _) = open();
    ledger.lease(107 * SECOND, RUN, &ask(1, 1, 10));
    let behind = ledger.lease(103 * SECOND, RUN, &ask(2, 1, 10));
    assert_eq!((behind.now, behind.granted), (107 * SECOND, 0));
    let set_forward = ledger.lease(113 * SECOND, RUN, &ask(2, 2, 10));
    assert_eq!((set_forward.now, set_forward.granted), (113 * SECOND, 10));
}

#[test]
fn used_permits_leave_the_window_n_buckets_after_their_use() {
    let (mut ledger, epoch) = open();
    let lease = ledger.lease(107 * SECOND, RUN, &ask(1, 1, 10));
    let full = ledger.lease(108 * SECOND, RUN, &moved(2, 5, epoch, lease.bucket, Some(107), 10));
    assert_eq!((full.granted, full.retry_in), (0, 3 * SECOND), "107 leaves the window at 111");
    let free = ledger.lease(111 * SECOND, RUN, &ask(1, 3, 5));
    assert_eq!(free.granted, 5);
}

#[test]
fn permits_that_are_given_back_are_free_at_once() {
    let (mut ledger, epoch) = open();
    let lease = ledger.lease(107 * SECOND, RUN, &ask(1, 1, 10));
    let free = ledger.lease(107 * SECOND, RUN, &moved(2, 0, epoch, lease.bucket, None, 4)).free;
    assert_eq!(free, 4);
}

#[test]
fn ask_that_arrives_again_moves_nothing() {
    let (mut ledger, epoch) = open();
    let lease = ledger.lease(107 * SECOND, RUN, &ask(1, 1, 5));
    let back = moved(2, 0, epoch, lease.bucket, None, 3);
    assert_eq!(ledger.lease(107 * SECOND, RUN, &back).free, 8);
    assert_eq!(ledger.lease(107 * SECOND, RUN, &ask(2, 1, 5)).granted, 5);
    assert_eq!(ledger.lease(107 * SECOND, RUN, &back).free, 3, "these are those of the other node");
    let of_another_epoch = Epoch { since: 1, ..epoch };
    let back = moved(3, 0, of_another_epoch, lease.bucket, None, 3);
    assert_eq!(ledger.lease(107 * SECOND, RUN, &back).free, 3);
}

#[test]
fn copy_of_an_ask_moves_nothing_after_its_number_was_forgotten() {
    let (mut ledger, epoch) = open();
    let lease = ledger.lease(107 * SECOND, RUN, &ask(1, 1, 5));
    let used = moved(2, 0, epoch, lease.bucket, Some(108), 3);
    ledger.lease(108 * SECOND, RUN, &used);
    // The numbers are kept for n + v + 2 buckets.
    for (seconds, free) in [(115, 0), (116, 0), (117, 0)] {
        let full = ledger.lease(seconds * SECOND, RUN, &ask(2, seconds, 10)).free;
        assert_eq!(full, free);
        assert_eq!(ledger.lease(seconds * SECOND, RUN, &used).free, free, "at {seconds}");
    }
}

#[test]
fn nodes_share_what_is_free_by_what_they_want() {
    let (mut ledger, _) = open();
    let wants = |ledger: &mut Ledger, seconds: u64, seq| {
        [30, 10]
            .map(|want| ledger.lease(seconds * SECOND, RUN, &ask(want.into(), seq, want)).granted)
    };
    assert_eq!(wants(&mut ledger, 107, 1), [10, 0], "nothing is known of the other one");
    assert_eq!(wants(&mut ledger, 112, 2), [0, 0], "the leases are charged until 113");
    assert_eq!(wants(&mut ledger, 113, 3), [8, 2], "both have wanted 40 in the bucket before");
}

#[test]
fn no_counts_overflow() {
    let config = LeaseConfig::new(LeaseConfig::MAX_LIMIT, 1_000, Duration::from_secs(1)).unwrap();
    let config = config.with_validity(1_000).unwrap();
    let mut ledger = Ledger::new(config);
    let most = ledger.lease(u64::MAX, RUN, &ask(1, u64::MAX, u64::MAX));
    let all = Move { from: u64::MAX, to: Some(u64::MAX), count: u64::MAX };
    let again = Ask { epoch: Some(most.epoch), moves: vec![all; 3], ..ask(1, u64::MAX, u64::MAX) };
    ledger.lease(u64::MAX, RUN, &again);
    let mut node = Node::new(config, NodeId(1));
    node.take(Duration::MAX, u64::MAX);
    node.take(Duration::MAX, u64::MAX);
    let sent = Duration::ZERO;
    if node.next_ask(sent).is_some() {
        let answer =
            Answer { now: u64::MAX, bucket: u64::MAX, granted: 5, retry_in: u64::MAX, ..most };
        node.on_answer(sent, Duration::MAX, &answer);
    }
    node.take(Duration::MAX, 1);
    node.next_ask(Duration::MAX);
}

/// A node with 10 permits, those of two ask intervals, whose lease ends with bucket 109. The ask was sent at 20 s of its clock.
fn leased(clock_error: u32) -> (Node, Epoch) {
    let config = config().with_clock_error(clock_error).unwrap();
    let mut ledger = Ledger::new(config);
    ledger.lease(100 * SECOND, RUN, &ask(99, 1, 0));
    let mut node = Node::new(config, NodeId(1));
    let sent = Duration::from_secs(20);
    assert!(!node.take(sent, 5));
    let ask = node.next_ask(sent).unwrap();
    let answer = ledger.lease(107 * SECOND, RUN, &ask);
    node.on_answer(sent, sent + Duration::from_millis(30), &answer);
    (node, answer.epoch)
}

#[test]
fn lease_ends_by_the_time_of_the_ask_and_the_slower_clock() {
    // Bucket 109 ends 3 s after the server's answer, which was not before the ask.
    for (error, last) in [(0, 22_999_998), (1_000, 22_993_998)] {
        let (node, _) = leased(error);
        assert_eq!(node.held(Duration::from_micros(last)), 10, "{error}");
        assert_eq!(node.held(Duration::from_micros(last + 2)), 0, "{error}");
    }
}

#[test]
fn use_is_told_in_the_latest_bucket_in_which_it_can_have_been() {
    let (mut node, epoch) = leased(0);
    // The server's time is between 107.87 and 107.9 s, or 108 s and more with the difference of the clocks.
    assert!(node.take(Duration::from_millis(20_900), 2));
    assert!(node.take(Duration::from_secs(21), 1));
    let ask = node.next_ask(Duration::from_secs(23)).unwrap();
    assert_eq!((ask.seq, ask.epoch), (2, Some(epoch)));
    let moves: Vec<_> = ask.moves.iter().map(|it| (it.from, it.to, it.count)).collect();
    assert_eq!(moves, [(109, None, 7), (109, Some(107), 2), (109, Some(108), 1)]);
}

#[test]
fn ask_whose_answer_is_lost_is_sent_again_with_its_number_and_its_moves() {
    let (mut node, _) = leased(0);
    assert!(node.take(Duration::from_millis(20_100), 2));
    let first = node.next_ask(Duration::from_secs(21)).unwrap();
    assert!(node.next_ask(Duration::from_secs(22)).is_none(), "one is on its way");
    assert!(node.take(Duration::from_secs(22), 1));
    node.on_lost();
    let second = node.next_ask(Duration::from_secs(22)).unwrap();
    assert_eq!((second.seq, &second.moves), (first.seq, &first.moves));
}

#[test]
fn permits_of_another_epoch_may_be_used_and_are_not_told() {
    let (mut node, epoch) = leased(0);
    assert!(node.take(Duration::from_millis(20_100), 2));
    let sent = Duration::from_secs(21);
    let ask = node.next_ask(sent).unwrap();
    assert_eq!(ask.moves.len(), 1);
    assert!(node.take(sent, 3));
    let restarted = Epoch { run: RunId([8; 20]), ..epoch };
    let (now, retry_in) = (108 * SECOND, 7 * SECOND);
    let answer = Answer { epoch: restarted, now, granted: 0, bucket: 110, free: 0, retry_in };
    node.on_answer(sent, sent, &answer);
    assert!(node.take(sent, 5), "the server waits until their lease has ended");
    assert!(!node.take(sent, 1));
    let ask = node.next_ask(Duration::from_secs(28)).unwrap();
    assert_eq!((ask.epoch, ask.moves.len()), (Some(restarted), 0));
}

#[test]
fn configuration_says_what_is_wrong() {
    let second = Duration::from_secs(1);
    let error = |limit, buckets, interval| LeaseConfig::new(limit, buckets, interval).unwrap_err();
    assert_eq!(
        error(0, 10, second).to_string(),
        "the limit is 0; it must be from 1 to 1125899906842624"
    );
    assert!(matches!(error(1, 0, second), LeaseConfigError::Buckets { buckets: 0, .. }));
    assert!(matches!(error(1, 3, second), LeaseConfigError::Interval { buckets: 3, .. }));
    assert!(matches!(error(1, 1_000, second / 2), LeaseConfigError::Interval { .. }));
    let config = LeaseConfig::new(1, 10, second).unwrap();
    assert!(matches!(config.with_validity(0), Err(LeaseConfigError::Validity { .. })));
    assert!(matches!(config.with_clock_error(100_000), Err(LeaseConfigError::ClockError { .. })));
}
