//! The server's side of the protocol: runs that need more steps than the model visits, and the
//! contents of its answers.

use std::time::Duration;

use leaparray_redis::lease::{
    Ahead, Answer, Ask, Epoch, Group, Holdings, LeaseConfig, Ledger, MAX_EXACT, MAX_MOVES, Move,
};

/// The length of a bucket.
const B: u64 = 1_000;
/// The end of the first quarantine: n + v + 1 buckets.
const OPEN: u64 = 4 * B;

/// Returns a limit of two permits in two buckets, with leases that are valid for one more bucket.
fn config() -> LeaseConfig {
    with_limit(2)
}

fn with_limit(limit: u64) -> LeaseConfig {
    let config = LeaseConfig::of_buckets(limit, 2, Duration::from_millis(2)).expect("valid");
    config.with_validity(1).and_then(|it| it.with_drift_ppm(0)).expect("valid")
}

fn ask(node: u64, seq: u64, epoch: Epoch, want: u64, moves: &[Move]) -> Ask {
    let (nonce, epoch, moves) = (1, Some(epoch), moves.to_vec());
    Ask { node, seq, nonce, epoch, seen: 0, want, validity: 1, horizon: 0, weight: 0, moves }
}

/// Returns a ledger that has opened.
fn open() -> (Ledger, Epoch) {
    opened(config())
}

fn opened(config: LeaseConfig) -> (Ledger, Epoch) {
    let mut ledger = Ledger::new(config);
    let epoch = ledger.lease(0, 1, &ask(9, 1, Epoch { identity: 0, since: 0 }, 0, &[])).epoch;
    let quarantine = u64::try_from(config.quarantine().as_micros()).expect("some days");
    let answer = ledger.lease(quarantine, 1, &ask(9, 2, epoch, 0, &[]));
    assert_eq!((answer.epoch, answer.open_in, answer.free), (epoch, 0, config.limit()));
    (ledger, epoch)
}

/// A server that is restored from a snapshot has its identity of before. A node whose last ask it
/// does not know tells it that it has forgotten grants, also after asks of others.
#[test]
fn restored_snapshot_begins_an_epoch_at_the_next_ask_of_a_node_that_it_has_forgotten() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 0, &[]));
    let snapshot = ledger.clone();
    let granted = ledger.lease(OPEN + 1, 1, &ask(1, 2, epoch, 2, &[]));
    assert_eq!((granted.granted, granted.now), (2, OPEN + 1));
    let seen = granted.now;
    for (time, whole) in [
        (OPEN + 2, false),
        // By a clock that was restored, too.
        (OPEN, false),
        (OPEN + 1 + B, false),
        (OPEN + 2, true),
    ] {
        let mut ledger = if whole { ledger.clone() } else { snapshot.clone() };
        ledger.lease(time, 1, &ask(2, 1, epoch, 0, &[]));
        let answer = ledger.lease(time, 1, &Ask { seen, ..ask(1, 3, epoch, 2, &[]) });
        let open_in = if whole { 0 } else { OPEN };
        assert_eq!((answer.granted, answer.open_in), (0, open_in), "at {time}");
        assert_eq!(answer.epoch == epoch, whole, "at {time}");
        // Nothing is forgotten of the epoch that has begun.
        let (epoch, seen) = (answer.epoch, answer.now);
        let again = ledger.lease(time + 1, 1, &Ask { seen, ..ask(1, 4, epoch, 2, &[]) });
        assert_eq!(again.epoch, epoch, "at {time}");
    }
}

/// The node takes the answer to the second delivery of its ask, which has a later time.
#[test]
fn answer_to_a_repeated_ask_is_known() {
    let (mut ledger, epoch) = open();
    let asked = ask(1, 1, epoch, 2, &[]);
    ledger.lease(OPEN, 1, &asked);
    let seen = ledger.lease(OPEN + 1, 1, &asked).now;
    let answer = ledger.lease(OPEN + 2, 1, &Ask { seen, ..ask(1, 2, epoch, 0, &[]) });
    assert_eq!((answer.epoch, answer.open_in), (epoch, 0));
}

/// When all leases of that time have left the window, the last ask of a node expires.
#[test]
fn node_whose_last_ask_has_expired_begins_no_epoch() {
    let (mut ledger, epoch) = open();
    let snapshot = ledger.clone();
    let seen = ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[])).now;
    for (after, is_kept) in [(OPEN - 1, false), (OPEN, true)] {
        let mut ledger = snapshot.clone();
        let answer = ledger.lease(OPEN + after, 1, &Ask { seen, ..ask(1, 2, epoch, 2, &[]) });
        assert_eq!(answer.epoch == epoch, is_kept, "{after}");
    }
}

/// The snapshot is of an epoch before that of the node.
#[test]
fn restored_snapshot_of_an_earlier_epoch_begins_another_one() {
    let (mut ledger, epoch) = open();
    let snapshot = ledger.clone();
    ledger = Ledger::new(config());
    let later = ledger.lease(OPEN + 10, 1, &ask(1, 1, epoch, 0, &[])).epoch;
    let seen = ledger.lease(3 * OPEN, 1, &ask(1, 2, later, 2, &[])).now;
    let mut ledger = snapshot;
    let answer = ledger.lease(3 * OPEN + 1, 1, &Ask { seen, ..ask(1, 3, later, 2, &[]) });
    assert_eq!((answer.granted, answer.open_in), (0, OPEN));
}

/// The state is lost, and the clock has stepped back with it: what nodes have seen of the epoch
/// before is no reason to begin another one.
#[test]
fn node_of_an_earlier_epoch_begins_no_epoch() {
    let (mut ledger, epoch) = opened(config());
    let seen = ledger.lease(9 * OPEN, 1, &ask(1, 1, epoch, 2, &[])).now;
    let mut ledger = Ledger::new(config());
    let later = ledger.lease(2 * OPEN, 1, &ask(2, 1, epoch, 0, &[])).epoch;
    assert_eq!(ledger.lease(3 * OPEN, 1, &Ask { seen, ..ask(1, 2, epoch, 0, &[]) }).epoch, later);
}

/// A message arrives after its sequence number has expired, and its moves are from a bucket that
/// has been dropped. Another node has all permits of the window by then.
#[test]
fn late_message_gives_nothing() {
    let (mut ledger, epoch) = open();
    let granted = ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((granted.granted, granted.bucket), (2, 5));
    let late = ask(1, 2, epoch, 2, &[Move { from: 5, to: Some(4), count: 2 }]);
    assert_eq!(ledger.lease(OPEN, 1, &late).granted, 0);
    assert_eq!(ledger.lease(9 * B, 1, &ask(2, 1, epoch, 2, &[])).granted, 2);
    assert_eq!(ledger.lease(9 * B, 1, &late).granted, 0);
}

#[test]
fn move_takes_at_most_the_charge() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 1, &[]));
    let moves = [Move { from: 5, to: Some(4), count: 2 }];
    let answer = ledger.lease(OPEN, 1, &ask(1, 2, epoch, 2, &moves));
    assert_eq!((answer.granted, answer.free), (1, 0));
}

#[test]
fn move_to_a_later_bucket_is_refused() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    let moves = [Move { from: 5, to: Some(6), count: 2 }];
    ledger.lease(OPEN, 1, &ask(1, 2, epoch, 0, &moves));
    assert_eq!(ledger.lease(7 * B, 1, &ask(2, 1, epoch, 2, &[])).granted, 2);
}

#[test]
fn move_out_of_the_window_frees_its_permits() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    let moves = [Move { from: 5, to: Some(4), count: 2 }];
    let answer = ledger.lease(6 * B, 1, &ask(1, 2, epoch, 0, &moves));
    assert_eq!(answer.free, 2);
}

#[test]
fn moves_beyond_the_most_of_an_ask_are_ignored() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    let mut moves = vec![Move { from: 4, to: None, count: 1 }; MAX_MOVES];
    moves.push(Move { from: 5, to: None, count: 1 });
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 2, epoch, 0, &moves)).free, 0);
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 3, epoch, 0, &moves[1..])).free, 1);
}

/// The state is lost, and the clock has stepped back by 10 buckets. A node that has got no answer
/// of the new epoch returns permits that were charged in a bucket whose number comes again.
#[test]
fn moves_of_another_epoch_change_nothing() {
    let (mut ledger, epoch) = open();
    let old = ledger.lease(14 * B, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((old.granted, old.bucket), (2, 15));
    let mut ledger = Ledger::new(config());
    let epoch_now = ledger.lease(4 * B, 2, &ask(9, 1, epoch, 0, &[])).epoch;
    ledger.lease(8 * B, 2, &ask(9, 2, epoch_now, 0, &[]));
    assert_eq!(ledger.lease(14 * B, 2, &ask(2, 1, epoch_now, 2, &[])).granted, 2);
    ledger.lease(14 * B, 2, &ask(1, 2, epoch, 0, &[]));
    let returned = [Move { from: 15, to: None, count: 2 }];
    assert_eq!(ledger.lease(14 * B, 2, &ask(1, 3, epoch, 2, &returned)).granted, 0);
}

/// The clock steps back by 20 buckets, and the time of the limit stands still for longer than the
/// charges are kept without an ask.
#[test]
fn charges_stay_while_the_time_stands_still() {
    let (mut ledger, epoch) = open();
    ledger.lease(30 * B, 1, &ask(9, 3, epoch, 0, &[]));
    let first = ledger.lease(10 * B, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((first.granted, first.now), (2, 30 * B));
    let second = ledger.lease(20 * B, 1, &ask(2, 1, epoch, 2, &[]));
    assert_eq!((second.epoch, second.granted, second.retry_in), (epoch, 0, B));
}

#[test]
fn charge_leaves_the_window_with_its_bucket() {
    let (mut ledger, epoch) = open();
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[])).bucket, 5);
    let before = ledger.lease(7 * B - 1, 1, &ask(2, 1, epoch, 2, &[]));
    assert_eq!((before.granted, before.retry_in), (0, 1));
    assert_eq!(ledger.lease(7 * B, 1, &ask(2, 2, epoch, 2, &[])).granted, 2);
}

/// The charges and the sequence numbers expire, and no window needs them any more.
#[test]
fn unused_limit_stays_open() {
    let (mut ledger, epoch) = open();
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[])).granted, 2);
    let answer = ledger.lease(100 * B, 1, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((answer.epoch, answer.granted, answer.bucket), (epoch, 2, 101));
}

/// A node returns a permit, its number is evicted, and the ask is delivered again. Another node has
/// the permit by then.
#[test]
fn evicted_number_lets_no_move_apply_twice() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 1, &[]));
    let returned = ask(1, 2, epoch, 0, &[Move { from: 5, to: None, count: 1 }]);
    assert_eq!(ledger.lease(OPEN, 1, &returned).free, 2);
    assert_eq!(ledger.lease(OPEN, 1, &ask(2, 1, epoch, 1, &[])).granted, 1);
    ledger.evict_nodes();
    assert_eq!(ledger.lease(OPEN, 1, &returned).free, 1);
    // The next ask of a node that has had an answer begins a quarantine.
    ledger.evict_nodes();
    let answer = ledger.lease(OPEN, 1, &Ask { seen: OPEN, ..ask(1, 3, epoch, 1, &[]) });
    assert_eq!((answer.granted, answer.open_in), (0, OPEN));
}

#[test]
fn lost_charges_begin_a_quarantine_as_long_as_a_window_needs_them() {
    let (mut ledger, epoch) = open();
    ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[]));
    ledger.evict_charges();
    let mut later = ledger.clone();
    let answer = ledger.lease(7 * B - 1, 1, &ask(2, 1, epoch, 2, &[]));
    assert_eq!((answer.granted, answer.open_in, answer.retry_in), (0, 4 * B, 4 * B));
    assert_eq!(answer.epoch, Epoch { identity: 1, since: 7 * B - 1 });
    let answer = later.lease(7 * B, 1, &ask(2, 1, epoch, 2, &[]));
    assert_eq!((answer.epoch, answer.granted), (epoch, 2));
}

/// The state is lost, and the clock steps back by a microsecond. By the new clock, the lease ends
/// nearly a bucket later than a lease that the old clock could have granted in the same bucket, and
/// the quarantine still outlasts it by a window.
#[test]
fn quarantine_outlasts_the_leases_when_the_clock_shifts() {
    let (mut ledger, epoch) = open();
    let mut holdings = Holdings::new(config(), 1);
    let asked = holdings.ask(OPEN, 2, 1, 0).expect("none is in flight");
    holdings.on_answer(OPEN, &ledger.lease(OPEN, 1, &asked));
    // The node's clock goes on, and is now ahead by one.
    let last_use = 6 * B - 1;
    assert!(holdings.take(last_use, 2) && !holdings.take(last_use + 1, 1));
    let mut ledger = Ledger::new(config());
    let opens = OPEN - 1 + ledger.lease(OPEN - 1, 2, &ask(2, 1, epoch, 2, &[])).open_in;
    let epoch = Epoch { identity: 2, since: OPEN - 1 };
    assert_eq!(ledger.lease(opens - 1, 2, &ask(2, 2, epoch, 1, &[])).granted, 0);
    assert_eq!(ledger.lease(opens, 2, &ask(2, 3, epoch, 1, &[])).granted, 1);
    assert!(opens / B >= (last_use - 1) / B + 2, "a window has the uses of both");
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
fn overtaken_ask_gets_nothing() {
    let (mut ledger, epoch) = open();
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 2, epoch, 1, &[])).granted, 1);
    let overtaken = ledger.lease(OPEN, 1, &ask(1, 1, epoch, 1, &[]));
    assert_eq!((overtaken.granted, overtaken.free), (0, 1));
}

/// A replica is promoted that has the answer. The permits were charged in the old epoch only.
#[test]
fn stored_answer_of_another_epoch_is_not_repeated() {
    let (mut ledger, epoch) = open();
    assert_eq!(ledger.lease(OPEN, 1, &ask(1, 1, epoch, 2, &[])).granted, 2);
    let answer = ledger.lease(OPEN, 2, &ask(1, 1, epoch, 2, &[]));
    assert_eq!((answer.granted, answer.open_in), (0, 4 * B));
}

#[test]
fn lease_is_valid_for_as_long_as_asked_and_at_most_as_configured() {
    let (mut ledger, epoch) = open();
    let mut bucket = |seq, validity| {
        ledger.lease(OPEN, 1, &Ask { validity, ..ask(1, seq, epoch, 0, &[]) }).bucket
    };
    assert_eq!((bucket(1, 0), bucket(2, 1), bucket(3, u32::MAX)), (4, 5, 5));
}

/// Lets nodes ask in turn in each of some buckets. Returns what each got in the last one.
fn shares(limit: u64, wants: &[u64]) -> Vec<u64> {
    let (mut ledger, epoch) = opened(with_limit(limit));
    let mut shares = Vec::new();
    // All that is granted in bucket 4 is charged in bucket 5, and leaves with bucket 6.
    for (seq, bucket) in (1..).zip(4..=7) {
        let nodes = (10..).zip(wants);
        let lease = |(node, want): (u64, &u64)| {
            ledger.lease(bucket * B, 1, &ask(node, seq, epoch, *want, &[])).granted
        };
        shares = nodes.map(lease).collect();
    }
    shares
}

#[test]
fn shortage_is_shared_in_proportion() {
    assert_eq!(shares(100, &[50, 50, 100]), [25, 25, 50]);
    assert_eq!(shares(10, &[10, 10, 10]), [3, 3, 3]);
    assert_eq!(shares(100, &[100, 1, 1]), [98, 1, 1]);
}

/// 500 nodes lack a permit for a request that waits, in a window of two buckets of 100 ms. 180 may
/// ask in each bucket, spread evenly over it. The asks of the others are spread evenly over the
/// buckets.
#[test]
fn nodes_that_lack_permits_take_turns() {
    const BUCKET: u64 = 100_000;
    let config = LeaseConfig::of_buckets(1_000, 2, Duration::from_millis(200)).expect("valid");
    let (mut ledger, epoch) = opened(config);
    let opened = 5 * BUCKET;
    assert_eq!(ledger.lease(opened, 1, &ask(1, 1, epoch, 1_000, &[])).granted, 1_000);
    let mut turn = |time, node| {
        let waits = Ask { horizon: 1, weight: 1, ..ask(node, 1, epoch, 1, &[]) };
        let answer = ledger.lease(time, 1, &waits);
        assert_eq!(answer.granted, 0);
        answer.retry_in
    };
    let times: Vec<_> = (100..600).map(|node| turn(opened, node)).collect();
    let spread = |first: u64| (0..180).map(move |it| first * BUCKET + it * (BUCKET / 180));
    assert_eq!(times[..360], spread(1).chain(spread(2)).collect::<Vec<_>>());
    let buckets: Vec<_> = times.iter().map(|it| it / BUCKET).collect();
    assert_eq!(buckets[360..], [1, 2].repeat(70));
    // In the next bucket, 250 nodes are due in the one after it.
    let buckets = [700, 701, 702].map(|node| turn(opened + BUCKET, node) / BUCKET);
    assert_eq!(buckets, [2; 3]);
}

/// The permits of a bucket of six minutes are free from its start on.
#[test]
fn turns_are_soon_after_the_start_of_a_long_bucket() {
    const BUCKET: u64 = 360_000_000;
    let config = LeaseConfig::of_buckets(640, 10, Duration::from_secs(3_600)).expect("valid");
    let (mut ledger, epoch) = opened(config);
    let opened = 17 * BUCKET;
    assert_eq!(ledger.lease(opened, 1, &ask(1, 1, epoch, 640, &[])).granted, 640);
    let turn = |node| ledger.lease(opened, 1, &ask(node, 1, epoch, 1, &[])).retry_in;
    let turns: Vec<_> = (100..160).map(turn).collect();
    assert_eq!(turns, (0..60).map(|it| BUCKET + it * 1_000).collect::<Vec<_>>());
}

/// If no request waits, as many nodes may ask in a bucket as it has permits: a node that comes
/// later would find none for its next request.
#[test]
fn nodes_whose_requests_do_not_wait_have_a_turn_for_each_permit() {
    const BUCKET: u64 = 100_000;
    let config = LeaseConfig::of_buckets(1_000, 2, Duration::from_millis(200)).expect("valid");
    let (mut ledger, epoch) = opened(config);
    let opened = 5 * BUCKET;
    assert_eq!(ledger.lease(opened, 1, &ask(1, 1, epoch, 1_000, &[])).granted, 1_000);
    let mut turn = |node| ledger.lease(opened, 1, &ask(node, 1, epoch, 1, &[])).retry_in;
    let times: Vec<_> = (100..700).map(&mut turn).collect();
    assert_eq!(times[..500], (0..500).map(|it| BUCKET + it * 200).collect::<Vec<_>>());
    assert_eq!(times[500], 2 * BUCKET);
}

/// A node whose requests wait takes its turn also after it has got all, if the next bucket is full.
#[test]
fn node_takes_its_turn_among_many_others() {
    const BUCKET: u64 = 100_000;
    let config = LeaseConfig::of_buckets(1_000, 2, Duration::from_millis(200)).expect("valid");
    let (mut ledger, epoch) = opened(config);
    let opened = 5 * BUCKET;
    let granted = ledger.lease(opened, 1, &ask(1, 1, epoch, 1_000, &[]));
    let bucket = granted.bucket;
    for node in 100..280 {
        ledger.lease(opened, 1, &ask(node, 1, epoch, 1, &[]));
    }
    let returned = [Move { from: bucket, to: None, count: 10 }];
    ledger.lease(opened, 1, &ask(1, 2, epoch, 0, &returned));
    let waits = Ask { horizon: 1, weight: 1, ..ask(2, 1, epoch, 1, &[]) };
    let answer = ledger.lease(opened, 1, &waits);
    assert_eq!((answer.granted, answer.retry_in), (1, 2 * BUCKET));
    assert_eq!(ledger.lease(opened, 1, &ask(3, 1, epoch, 1, &[])).retry_in, 0);
}

#[test]
fn share_is_at_least_one() {
    assert_eq!(shares(3, &[1; 5]), [1, 1, 1, 0, 0]);
    assert_eq!(shares(3, &[LeaseConfig::MAX_LIMIT, 1, 1]), [1, 1, 1]);
}

#[test]
fn demand_that_can_be_met_is_met() {
    assert_eq!(shares(10, &[5, 3, 2]), [5, 3, 2]);
    assert_eq!(shares(LeaseConfig::MAX_LIMIT, &[LeaseConfig::MAX_LIMIT]), [LeaseConfig::MAX_LIMIT]);
}

#[test]
fn no_ask_overflows() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut number = || {
        [0, 1, 5, 1 << 40, 1 << 52, MAX_EXACT - 1, MAX_EXACT, u64::MAX - 1, u64::MAX]
            [random.usize(..9)]
    };
    let largest =
        LeaseConfig::of_buckets(LeaseConfig::MAX_LIMIT, 256, LeaseConfig::MAX_BUCKET_LEN * 256)
            .and_then(|it| it.with_validity(LeaseConfig::MAX_VALIDITY))
            .expect("valid");
    for config in [config(), largest] {
        let (mut ledger, mut epoch) = opened(config);
        for _ in 0..20_000 {
            let from = if number() == 0 { number() } else { number() % 16 };
            let to = Some(number()).filter(|it| it % 2 == 0);
            let moves = [Move { from, to, count: number() }];
            let validity = u32::try_from(number()).unwrap_or(u32::MAX);
            let asked = Ask { validity, ..ask(number() % 4, number(), epoch, number(), &moves) };
            let Answer { granted, free, epoch: now, .. } =
                ledger.lease(number(), number() % 2, &asked);
            assert!(granted + free <= config.limit());
            epoch = now;
        }
    }
}

/// A limit of eight permits in eight buckets: one in each, if it is used evenly.
fn eight() -> (Ledger, Epoch, u64) {
    let config = LeaseConfig::of_buckets(8, 8, Duration::from_millis(8)).expect("valid");
    let config = config.with_validity(4).and_then(|it| it.with_drift_ppm(0)).expect("valid");
    let (mut ledger, epoch) = opened(config);
    let k = ledger.time_of_limit(0) / B;
    // All permits are used in this bucket.
    let all = ledger.lease(k * B, 1, &Ask { validity: 0, ..ask(1, 1, epoch, 8, &[]) });
    assert_eq!((all.granted, all.bucket), (8, k));
    (ledger, epoch, k)
}

fn waiting(node: u64, seq: u64, epoch: Epoch, want: u64, weight: u64) -> Ask {
    Ask { horizon: 3, weight, validity: 0, ..ask(node, seq, epoch, want, &[]) }
}

/// Nodes that wait are granted permits before they are free, in shares by their weights, and no
/// more of those of a bucket than it has if the limit is used evenly.
#[test]
fn permits_that_become_free_are_shared_ahead() {
    let (mut ledger, epoch, k) = eight();
    // From k + 8 on, eight permits are free.
    let now = (k + 6) * B;
    let far = ledger.lease(now, 1, &waiting(2, 1, epoch, 5, 1));
    let of = |from| Ahead { from: k + from, bucket: k + from, count: 1 };
    assert_eq!((far.granted, far.ahead), (0, vec![of(8), of(9)]), "no other node waits");
    let near = ledger.lease(now, 1, &waiting(3, 1, epoch, 5, 1));
    assert_eq!((near.granted, &near.ahead[..]), (0, &[of(9)][..]), "half of two permits");
    // Another answer to the same ask is the same.
    assert_eq!(ledger.lease(now, 1, &waiting(3, 1, epoch, 5, 1)).ahead, near.ahead);
    // A bucket is shared once.
    let again = ledger.lease(now, 1, &waiting(3, 2, epoch, 5, 1));
    assert_eq!(again.ahead, []);
}

/// What is granted ahead is not granted to others, neither before it may be used nor afterwards.
#[test]
fn permits_that_are_granted_ahead_are_charged() {
    let (mut ledger, epoch, k) = eight();
    let ahead = ledger.lease((k + 6) * B, 1, &waiting(2, 1, epoch, 5, 8));
    let count: u64 = ahead.ahead.iter().map(|it| it.count).sum();
    assert_eq!(count, 2);
    assert_eq!(ledger.lease((k + 7) * B, 1, &ask(4, 1, epoch, 8, &[])).granted, 0);
    let most = ledger.lease((k + 8) * B, 1, &ask(5, 1, epoch, 0, &[])).free;
    assert_eq!(most, 8 - count);
}

/// The clock steps back: permits that were granted ahead may be in use, by the clocks of their
/// nodes, so they count in the window that stands still.
#[test]
fn permits_that_are_granted_ahead_count_at_a_standstill() {
    let (mut ledger, epoch, k) = eight();
    let now = (k + 6) * B;
    assert_eq!(ledger.lease(now, 1, &waiting(2, 1, epoch, 5, 8)).ahead.len(), 2);
    ledger.lease(now - 3 * B, 1, &ask(4, 1, epoch, 0, &[]));
    // Eight are used and two are granted ahead.
    let granted = |ledger: &mut Ledger, bucket| {
        ledger.lease(bucket * B, 1, &ask(5, bucket, epoch, 0, &[])).free
    };
    assert_eq!([6, 7, 8].map(|it| granted(&mut ledger, k + it)), [0, 0, 6]);
}

/// The server's clock may step back before the next ask: then the permits are used before their
/// bucket, and what is used in the present bucket must not have left the window by theirs.
#[test]
fn permits_are_granted_ahead_for_less_than_a_window() {
    let (mut ledger, epoch) = opened(config().with_validity(6).expect("valid"));
    let k = 9;
    let all = ledger.lease(k * B, 1, &Ask { validity: 0, ..ask(1, 1, epoch, 2, &[]) });
    assert_eq!(all.granted, 2);
    let far = |seq| Ask { horizon: 6, ..waiting(2, seq, epoch, 2, 2) };
    assert_eq!(ledger.lease(k * B, 1, &far(1)).ahead, []);
    let one = Ahead { from: k + 2, bucket: k + 2, count: 1 };
    assert_eq!(ledger.lease((k + 1) * B, 1, &far(2)).ahead, [one]);
}

/// An epoch that no node has seen.
const NONE: Epoch = Epoch { identity: 0, since: 0 };

/// A group that has opened, and a limit of it that was just leased in full.
fn member() -> (Group, Ledger, Answer) {
    let (mut group, mut ledger) = (Group::default(), Ledger::new(config()));
    group.begin(0, 1);
    let granted = ledger.lease_in(&mut group, OPEN, 1, &ask(1, 1, NONE, 2, &[]));
    assert_eq!((granted.granted, granted.open_in), (2, 0), "a new limit of a known group");
    (group, ledger, granted)
}

/// All of its keys are gone. Only the node that has leases tells.
#[test]
fn limit_of_a_group_that_a_node_has_seen_begins_with_a_quarantine() {
    let (mut group, _, granted) = member();
    let (epoch, seen) = (granted.epoch, granted.now);
    for (after, open_in) in [(1, OPEN), (OPEN - 1, OPEN), (OPEN, 0)] {
        let (mut group, mut ledger) = (group.clone(), Ledger::new(config()));
        let again = Ask { seen, ..ask(1, 2, epoch, 2, &[]) };
        let answer = ledger.lease_in(&mut group, OPEN + after, 1, &again);
        assert_eq!(answer.open_in, open_in, "after {after}");
        assert_eq!(answer.granted, if open_in == 0 { 2 } else { 0 }, "after {after}");
    }
    let answer = Ledger::new(config()).lease_in(&mut group, OPEN + 1, 1, &ask(2, 1, NONE, 2, &[]));
    assert_eq!((answer.granted, answer.open_in), (2, 0), "nothing tells that it is not new");
}

#[test]
fn limit_of_a_group_whose_mark_was_evicted_begins_with_a_quarantine() {
    let (group, ledger, _) = member();
    let ask_of = |mut ledger: Ledger, node| {
        let answer = ledger.lease_in(&mut group.clone(), OPEN + 1, 1, &ask(node, 2, NONE, 2, &[]));
        (answer.granted, answer.open_in)
    };
    let mut without_mark = ledger;
    without_mark.evict_mark();
    assert_eq!(ask_of(without_mark.clone(), 2), (0, OPEN), "its charges are there");
    without_mark.evict_charges();
    assert_eq!(ask_of(without_mark, 1), (0, OPEN), "the last ask of the node is there");
}

/// The mark expires when no window has a use of a lease any more, and no charge is left then.
#[test]
fn limit_of_a_group_begins_anew_when_its_mark_has_expired() {
    let (mut group, mut ledger, granted) = member();
    let kept = OPEN + B;
    for (after, is_kept) in [(kept - 1, true), (kept, false)] {
        let (mut group, mut ledger) = (group.clone(), ledger.clone());
        let answer = ledger.lease_in(&mut group, OPEN + after, 1, &ask(2, 1, NONE, 2, &[]));
        assert_eq!((answer.granted, answer.epoch == granted.epoch), (2, is_kept), "after {after}");
    }
    // The clock steps back by less than the limit has been used since: its mark stays.
    let later = ledger.lease_in(&mut group, OPEN + B, 1, &ask(1, 2, granted.epoch, 0, &[]));
    assert_eq!(later.now, OPEN + B);
    let other = Ledger::new(config()).lease_in(&mut group, OPEN, 1, &ask(3, 1, NONE, 2, &[]));
    assert_eq!((other.now, other.behind), (OPEN + B, B), "the time of a group does not go back");
}

/// The mark of the group is gone, and some limits still have theirs: they go on, and the others
/// begin with a quarantine.
#[test]
fn group_whose_mark_was_evicted_begins_with_a_quarantine() {
    let (_, mut ledger, granted) = member();
    let mut group = Group::default();
    let other = Ledger::new(config()).lease_in(&mut group, OPEN + 1, 1, &ask(2, 1, NONE, 2, &[]));
    assert_eq!((other.granted, other.open_in), (0, OPEN));
    let known = ledger.lease_in(&mut group, OPEN + 2 * B, 1, &ask(2, 1, NONE, 2, &[]));
    assert_eq!((known.granted, known.free, known.epoch), (0, 0, granted.epoch));
    assert!(!group.begin(OPEN + 2 * B, 1), "a group in use is not new");
}

/// A restart is seen by the first ask of the group, and all limits wait for the same time.
#[test]
fn limits_of_a_group_open_at_one_time_after_a_restart() {
    let (mut group, mut ledger, _) = member();
    let first = Ledger::new(config()).lease_in(&mut group, OPEN + B, 2, &ask(2, 1, NONE, 2, &[]));
    assert_eq!((first.granted, first.open_in), (0, OPEN));
    let second = ledger.lease_in(&mut group, OPEN + 2 * B, 2, &ask(2, 1, NONE, 2, &[]));
    assert_eq!(
        (second.granted, second.open_in),
        (0, OPEN - B),
        "its charges are of the lost state"
    );
}
