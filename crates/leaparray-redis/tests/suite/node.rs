//! The policy of a node: when it asks, for how many permits, and what it returns.

use std::time::Duration;

use leaparray_redis::lease::{Answer, Ask, Decided, Epoch, LeaseConfig, MAX_EXACT, Node};

/// The length of a bucket, and the least time between two background asks.
const B: u64 = 100_000;
const GAP: u64 = 4 * B;
const EPOCH: Epoch = Epoch { identity: 1, since: 0 };

/// Returns a node that knows that the server grants.
fn node() -> Node {
    let config = LeaseConfig::of_buckets(10_000, 10, Duration::from_secs(1)).expect("valid");
    assert_eq!((config.min_gap(), config.validity()), (Duration::from_micros(GAP), 6));
    let mut node = Node::new(config, 1);
    assert_eq!(grant(&mut node, 0, 0).map(|it| it.want), Some(0));
    node
}

fn settle(node: &mut Node, now: u64, used: u64, demanded: u64, missing: u64) {
    node.settle(now, &Decided { used, demanded, missing, ..Decided::default() });
}

/// Returns an answer by a server with the clock of the node.
fn answer(ask: &Ask, now: u64, granted: u64, retry_in: u64) -> Answer {
    let bucket = now / B + u64::from(ask.validity.min(6));
    let Ask { seq, .. } = *ask;
    let (open_in, free, behind, is_taken) = (0, 10_000, 0, false);
    let ahead = Vec::new();
    Answer {
        ahead,
        seq,
        epoch: EPOCH,
        now,
        granted,
        bucket,
        retry_in,
        open_in,
        free,
        behind,
        is_taken,
    }
}

/// Polls at `now`, and grants all that is wanted `round_trip` later. Returns the ask.
fn grant(node: &mut Node, now: u64, round_trip: u64) -> Option<Ask> {
    let ask = node.poll(now)?;
    assert!(node.on_answer(now + round_trip, &answer(&ask, now, ask.want, 0)));
    Some(ask)
}

/// Lets `per_bucket` requests for a permit arrive in each of `buckets` buckets from `from` on,
/// evenly, and grants all that is wanted. Returns the asks with their times.
fn run(node: &mut Node, from: u64, buckets: u64, per_bucket: u64) -> Vec<(u64, Ask)> {
    let mut asks = Vec::new();
    for step in 0..buckets * per_bucket {
        let now = from * B + step * B / per_bucket;
        if !node.take(now, 1) {
            asks.extend(grant(node, now, 0).map(|it| (now, it)));
            assert!(node.retry(now, 1));
        }
        asks.extend(grant(node, now, 0).map(|it| (now, it)));
    }
    asks
}

#[test]
fn idle_node_asks_nothing() {
    let mut node = node();
    assert_eq!((node.poll(0), node.next_poll(0)), (None, None));
    assert_eq!((node.poll(1 << 40), node.next_poll(1 << 40)), (None, None));
    assert_eq!(node.target(), 0);
}

#[test]
fn starved_node_asks_at_once() {
    let mut node = node();
    assert!(!node.take(0, 2));
    assert_eq!(node.next_poll(0), Some(0));
    assert_eq!(grant(&mut node, 0, 0).map(|it| it.want), Some(2));
    assert!(node.retry(0, 2));
    // Also if the last ask was just before.
    assert!(!node.take(1, 1));
    assert_eq!(grant(&mut node, 1, 0).map(|it| it.want), Some(1));
}

#[test]
fn one_ask_is_in_flight() {
    let mut node = node();
    assert!(!node.take(0, 1));
    let ask = node.poll(0).expect("a request waits");
    assert!(!node.take(1, 1));
    assert_eq!((node.next_poll(1), node.poll(1), node.poll(1 << 40)), (None, None, None));
    assert!(node.on_answer(1 << 40, &answer(&ask, 1 << 40, 1, 0)));
    assert!(!node.on_answer(1 << 40, &answer(&ask, 1 << 40, 1, 0)), "again");
    assert!(node.poll(1 << 40).is_some());
}

#[test]
fn requests_that_lack_permits_add_up() {
    let mut node = node();
    assert!(!node.take(0, 1) && !node.take(0, 1));
    node.wait(3);
    settle(&mut node, 0, 0, 1, 1);
    assert_eq!(node.poll(0).map(|it| it.want), Some(6));
}

#[test]
fn want_is_at_most_the_limit() {
    let mut node = node();
    node.wait(u64::MAX);
    node.wait(1);
    assert_eq!(node.poll(0).map(|it| it.want), Some(10_000));
}

/// The answer comes after 40 µs, so the next ask is sent a quarter of that later: it arrives just
/// after the permits are free.
#[test]
fn node_waits_until_it_is_told_to_ask_again() {
    let mut node = node();
    assert!(!node.take(0, 1));
    let ask = node.poll(0).expect("a request waits");
    node.on_answer(40, &answer(&ask, 20, 0, 5_000));
    assert_eq!(node.retry_at(), 5_010);
    assert!(node.is_short(5_009) && !node.is_short(5_010));
    // A request that is refused at once is not waited for.
    assert!(!node.take(100, 1));
    assert_eq!(node.next_poll(100), None);
    node.wait(1);
    assert_eq!((node.next_poll(100), node.poll(5_009)), (Some(5_010), None));
    assert_eq!(node.poll(5_010).map(|it| it.want), Some(1));
}

#[test]
fn granted_node_is_not_short() {
    let mut node = node();
    assert!(!node.take(0, 1));
    let ask = node.poll(0).expect("a request waits");
    node.on_answer(40, &answer(&ask, 20, 1, 0));
    assert_eq!((node.retry_at(), node.is_short(40)), (0, false));
}

#[test]
fn lost_ask_backs_off() {
    let mut node = node();
    assert!(!node.take(0, 1));
    assert!(node.poll(0).is_some());
    node.on_lost(1_000);
    assert!(node.is_short(1_000 + GAP - 1) && !node.is_short(1_000 + GAP));
    node.wait(1);
    assert_eq!((node.poll(1_000 + GAP - 1), node.next_poll(1_000)), (None, Some(1_000 + GAP)));
    assert_eq!(node.poll(1_000 + GAP).map(|it| it.want), Some(1));
}

/// What was missing has been asked for, and the request that waits is told that the ask was lost.
/// The node asks whether the server is back.
#[test]
fn request_of_a_lost_ask_is_not_asked_for_again() {
    let mut node = node();
    assert!(!node.take(0, 1));
    assert!(node.poll(0).is_some());
    node.on_lost(1_000);
    assert_eq!(node.next_poll(1_000), Some(1_000 + GAP));
    assert_eq!(node.poll(1_000 + GAP).map(|it| it.want), Some(0));
}

/// A chunk is what the demand needs for τ and a round trip, and at most twice that is in hand.
#[test]
fn chunk_follows_the_demand() {
    for per_bucket in [10, 100, 1_000] {
        let mut node = node();
        run(&mut node, 0, 30, per_bucket);
        let asks = run(&mut node, 30, 30, per_bucket);
        let target = per_bucket * GAP / B;
        for (at, ask) in &asks {
            let half = target / 2..=target + target / 50 + 1;
            assert!(half.contains(&ask.want), "{per_bucket} in a bucket, at {at}: {ask:?}");
            assert!(ask.moves.iter().all(|it| it.to.is_some()), "a permit is returned: {ask:?}");
        }
        let gaps = asks.windows(2).map(|it| it[1].0 - it[0].0);
        assert!(gaps.clone().all(|it| it >= GAP), "{:?}", gaps.min());
        // Each asks for what was used since the one before: at most one in τ, and not many fewer.
        assert!((4..=8).contains(&asks.len()), "{} asks in 30 buckets", asks.len());
        assert!(node.target().abs_diff(target) <= 2, "{}", node.target());
    }
}

#[test]
fn demand_that_moves_here_is_followed_within_a_bucket() {
    let mut node = node();
    run(&mut node, 0, 30, 10);
    let before = node.target();
    run(&mut node, 30, 1, 1_000);
    assert!(node.target() >= 50 * before, "{} and {}", before, node.target());
}

#[test]
fn chunk_lasts_for_the_round_trip() {
    let mut fast = node();
    let mut slow = node();
    for (node, round_trip) in [(&mut fast, 0), (&mut slow, GAP)] {
        run(node, 0, 30, 100);
        node.wait(1);
        grant(node, 30 * B, round_trip);
    }
    assert!(slow.target().abs_diff(2 * fast.target()) <= 2);
}

/// Twice a chunk is kept.
#[test]
fn excess_is_returned() {
    let mut node = node();
    run(&mut node, 0, 30, 100);
    node.wait(5_000);
    grant(&mut node, 30 * B, 0);
    node.wait(1);
    let ask = grant(&mut node, 30 * B, 0).expect("a request waits");
    let returned: u64 = ask.moves.iter().filter(|it| it.to.is_none()).map(|it| it.count).sum();
    let kept = node.holdings().in_hand(30 * B) - ask.want;
    assert!(returned > 4_000 && (790..=810).contains(&kept), "{returned} and {kept}");
}

/// The demand ends. What is in hand is returned, and then nothing is asked.
#[test]
fn node_without_demand_falls_silent() {
    let mut node = node();
    run(&mut node, 0, 30, 100);
    let asks = (30 * B..200 * B).step_by(10_000).filter_map(|now| grant(&mut node, now, 0));
    assert!((1..=10).contains(&asks.count()));
    assert_eq!((node.holdings().in_hand(200 * B), node.next_poll(200 * B)), (0, None));
}

/// A node with few requests: its lease lasts, so that it need not ask for each.
#[test]
fn few_requests_are_decided_from_one_lease() {
    let mut node = node();
    let asks = run(&mut node, 0, 100, 1).len();
    assert!(asks <= 60, "{asks} asks for 100 permits");
}

/// In a shortage, a permit that waits for a request is one that another node lacks.
#[test]
fn node_with_few_requests_keeps_nothing_in_a_shortage() {
    let mut node = node();
    run(&mut node, 0, 30, 1);
    assert!(node.target() > 0);
    node.wait(10);
    let ask = node.poll(30 * B).expect("a request waits");
    node.on_answer(30 * B, &answer(&ask, 30 * B, 0, B));
    assert_eq!(node.target(), 0);
}

#[test]
fn lease_of_a_waiting_request_is_short() {
    let mut node = node();
    node.wait(1);
    // No round trip is known.
    assert_eq!(grant(&mut node, 0, 250_000).map(|it| it.validity), Some(1));
    // One and a quarter of the round trip, 312,500 µs, is in the fourth bucket.
    node.wait(1);
    assert_eq!(grant(&mut node, 250_000, 0).map(|it| it.validity), Some(4));
}

#[test]
fn lease_of_a_chunk_lasts_for_two_round_trips() {
    let mut node = node();
    run(&mut node, 0, 30, 100);
    node.wait(1);
    // τ is four buckets.
    assert_eq!(grant(&mut node, 30 * B, B / 2 + 1).map(|it| it.validity), Some(5));
    node.wait(1);
    assert_eq!(grant(&mut node, 31 * B, 0).map(|it| it.validity), Some(6));
    node.wait(1);
    assert_eq!(grant(&mut node, 31 * B, 10 * B).map(|it| it.validity), Some(5));
    node.wait(1);
    assert_eq!(node.poll(41 * B).map(|it| it.validity), Some(6), "at most the configured one");
}

/// A request for half of the limit that does not wait. As many permits are kept for two windows.
#[test]
fn size_that_is_not_repeated_is_forgotten() {
    let mut node = node();
    let decided = Decided { demanded: 5_000, largest: 5_000, at_once: 5_000, ..Decided::default() };
    node.settle(0, &decided);
    assert_eq!(node.target(), 5_000);
    assert_eq!(node.poll(0).map(|it| it.want), Some(5_000));
    node.on_lost(0);
    node.postpone(0);
    // Smaller ones do not count as repetitions.
    settle(&mut node, 10 * B, 0, 1, 0);
    node.poll(20 * B - 1);
    assert!(node.target() >= 5_000);
    node.on_lost(20 * B - 1);
    node.postpone(0);
    node.poll(20 * B);
    assert!(node.target() < 100, "{}", node.target());
}

/// A node keeps no more for requests that do not wait than it leaves to the others.
#[test]
fn node_leaves_as_many_permits_as_it_keeps() {
    let mut node = node();
    node.settle(0, &Decided { at_once: 1_000, ..Decided::default() });
    let ask = node.poll(0).expect("permits are to be kept");
    assert_eq!(ask.want, 1_000);
    let answer = Answer { free: 200, ..answer(&ask, 0, 1_000, 0) };
    assert!(node.on_answer(0, &answer));
    assert_eq!(node.target(), 600);
}

/// One large request is no sign that demand has moved here.
#[test]
fn large_request_counts_once() {
    let mut node = node();
    assert!(!node.take(0, 1_000));
    assert_eq!((node.target(), grant(&mut node, 0, 0).map(|it| it.want)), (0, Some(1_000)));
}

#[test]
fn retried_request_is_no_new_demand() {
    let mut node = node();
    for bucket in 0..30 {
        for _ in 0..100 {
            node.retry(bucket * B, 1);
        }
    }
    assert_eq!(node.target(), 0);
}

#[test]
#[should_panic(expected = "2 permits were used that were not in hand")]
fn settled_permits_must_be_in_hand() {
    settle(&mut node(), 0, 2, 2, 0);
}

#[test]
fn settled_permits_are_used() {
    let mut node = node();
    node.wait(3);
    grant(&mut node, 0, 0);
    settle(&mut node, 0, 2, 2, 0);
    assert_eq!(node.holdings().in_hand(0), 1);
}

#[test]
fn no_input_overflows() {
    let mut random = fastrand::Rng::with_seed(1);
    let numbers = [0, 1, 5, 1_999, 1 << 40, MAX_EXACT, u64::MAX - 1, u64::MAX];
    for _ in 0..1_000 {
        let (mut node, mut asked, mut clock) = (node(), None, 0);
        for _ in 0..200 {
            clock += random.u64(..B);
            let mut number = || numbers[random.usize(..numbers.len())];
            let now = if number() == 0 { number() } else { clock };
            match (number() ^ number()) % 8 {
                0 | 1 => asked = node.poll(now).or(asked),
                2 | 3 => {
                    if let Some(ask) = &asked {
                        let time = if number() == 0 { number() } else { clock };
                        let answer = answer(ask, time, number(), number());
                        let bucket = if number() == 0 { number() } else { answer.bucket };
                        node.on_answer(now, &Answer { bucket, ..answer });
                    }
                }
                4 => node.on_lost(now),
                5 => node.wait(number()),
                6 => {
                    let used = number().min(node.holdings().in_hand(now));
                    settle(&mut node, now, used, number(), 0);
                }
                _ => drop(node.take(now, number())),
            }
            let next = node.next_poll(now);
            assert!(next.is_none_or(|it| it >= now), "{next:?} at {now}");
            assert!(node.target() <= 10_000);
        }
    }
}

/// The permits that were kept are to be reported, and a server that is wrong grants all numbers.
#[test]
fn huge_grant_overflows_nothing() {
    let mut node = node();
    run(&mut node, 0, 30, 100);
    node.wait(1);
    let ask = node.poll(30 * B).expect("a request waits");
    // All that was in hand has ended, and there is no demand.
    assert!(node.stable_until(90 * B) > 90 * B && node.poll(90 * B).is_none());
    let answer = Answer { bucket: u64::MAX, ..answer(&ask, 30 * B, u64::MAX, 0) };
    assert!(node.on_answer(90 * B, &answer));
    assert!(node.next_poll(90 * B).is_some());
}
