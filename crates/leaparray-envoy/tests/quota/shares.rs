//! The shares of the participants.

use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::{
    Action, BucketId, BucketLimit, QuotaConfig, Quotas, Refused, Strategy, Usage,
};

use crate::client::Load;
use crate::world::{World, bucket};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn saturated_clients_use_95_percent() {
    for (clients, ttl) in [(1, 3), (2, 3), (10, 3), (1, 2), (2, 2), (2, 1)] {
        let config = QuotaConfig::default().with_ttl(ttl * SECOND);
        let mut world = World::new(config, 1_000, 1);
        for _ in 0..clients {
            world.add(Load::Steady(50));
        }
        world.run(15 * SECOND);
        let used = world.last(5 * SECOND);
        assert!(used >= 4_750, "{clients} clients, {ttl} s: {used} of 5000");
        assert!(world.most() <= 1_000);
    }
}

#[test]
fn demand_decides_the_shares() {
    let mut world = World::new(QuotaConfig::default(), 1_000, 1);
    let (small, large) = (world.add(Load::Steady(1)), world.add(Load::Steady(50)));
    world.run(15 * SECOND);
    let before = world.clients[small].refused;
    world.run(5 * SECOND);
    // The small one is not refused, and the large one has what it leaves.
    assert_eq!(world.clients[small].refused, before);
    assert!(world.clients[large].refused > 0);
    assert!(world.last(SECOND) >= 930, "{}", world.last(SECOND));
}

#[test]
fn share_of_an_idle_client_comes_back() {
    let mut world = World::new(QuotaConfig::default(), 1_000, 1);
    let first = world.add(Load::Steady(50));
    world.add(Load::Steady(50));
    world.run(15 * SECOND);
    world.clients[first].load = Load::None;
    world.run(12 * SECOND);
    assert!(world.last(SECOND) >= 930, "{}", world.last(SECOND));
    world.clients[first].load = Load::Steady(50);
    world.run(15 * SECOND);
    let admitted = world.clients[first].allowed;
    world.run(SECOND / 10);
    assert!(world.last(SECOND) >= 930 && admitted <= 500);
    assert!(world.most() <= 1_000);
}

#[test]
fn share_of_a_lost_client_comes_back_after_its_assignment() {
    for is_noticed in [true, false] {
        let config = QuotaConfig::default().with_silence(3 * SECOND);
        let mut world = World::new(config, 1_000, 1);
        let lost = world.add(Load::Steady(50));
        world.add(Load::Steady(50));
        world.run(15 * SECOND);
        world.clients[lost].load = Load::None;
        let stream = world.clients[lost].stream.take().unwrap();
        if is_noticed {
            world.quotas.close(stream);
        }
        world.run(15 * SECOND);
        assert!(world.last(SECOND) >= 930, "{is_noticed}: {}", world.last(SECOND));
        assert!(world.most() <= 1_000);
    }
}

#[test]
fn more_clients_than_requests_take_turns() {
    let mut world = World::new(QuotaConfig::default(), 3, 1);
    for _ in 0..9 {
        world.add(Load::Steady(1));
    }
    let mut admitted = [0; 9];
    for _ in 0..4_000 {
        world.run(SECOND / 50);
        for (sum, client) in admitted.iter_mut().zip(&mut world.clients) {
            *sum += u64::from(client.allowed > 0);
        }
    }
    assert!(admitted.iter().all(|&it| it > 0), "{admitted:?}");
    assert!(world.most() <= 3);
}

#[test]
fn silent_clients_take_no_turns() {
    let config = QuotaConfig::default().with_silence(3 * SECOND);
    let mut world = World::new(config, 3, 1);
    for _ in 0..9 {
        world.add(Load::Steady(1));
    }
    world.run(5 * SECOND);
    // The server does not notice that they are gone.
    for client in &mut world.clients {
        (client.load, client.reports) = (Load::None, false);
    }
    world.add(Load::Steady(1));
    world.run(15 * SECOND);
    for _ in 0..20 {
        world.run(SECOND);
        assert!(world.last(SECOND) >= 2, "{}", world.last(SECOND));
    }
    assert!(world.most() <= 3);
}

#[test]
fn idle_bucket_is_abandoned_and_forgotten() {
    let config = QuotaConfig::default().with_idle(10 * SECOND);
    let mut quotas = Quotas::new(config);
    let stream = quotas.open().unwrap();
    let limit = BucketLimit::Requests { requests: 10, window: SECOND };
    let usage = |allowed| [Usage { bucket: bucket(), allowed, denied: 0 }];
    let start = Timestamp::from_secs(60);
    quotas.report(stream, "shop", usage(1), start, &|_, _| limit).unwrap();
    let mut abandoned = Vec::new();
    for second in 1..30 {
        let now = start.saturating_add(second * SECOND);
        if abandoned.is_empty() {
            quotas.report(stream, "shop", usage(0), now, &|_, _| limit).unwrap();
        }
        let actions = quotas.tick(now).into_iter();
        abandoned.extend(actions.filter(|(_, it)| matches!(it, Action::Abandon { .. })));
    }
    assert_eq!(abandoned, [(stream, Action::Abandon { bucket: bucket() })]);
    let counts = quotas.counts();
    assert_eq!((counts.streams, counts.subscriptions, counts.budgets), (1, 0, 0));
    // The next request subscribes again.
    let now = start.saturating_add(40 * SECOND);
    let actions = quotas.report(stream, "shop", usage(1), now, &|_, _| limit).unwrap();
    assert!(matches!(actions[..], [(_, Action::Assign { .. })]), "{actions:?}");
}

#[test]
fn ten_thousand_streams_are_served_and_forgotten() {
    let mut quotas = Quotas::new(QuotaConfig::default());
    let limit = BucketLimit::Requests { requests: 20_000, window: SECOND };
    let start = Timestamp::from_secs(60);
    let streams: Vec<_> = (0..10_000).map(|_| quotas.open().unwrap()).collect();
    let usage = || [Usage { bucket: bucket(), allowed: 0, denied: 1 }];
    for &stream in &streams {
        quotas.report(stream, "shop", usage(), start, &|_, _| limit).unwrap();
    }
    for tick in 1..40 {
        quotas.tick(start.saturating_add(tick * SECOND / 4));
        assert!(quotas.charged("shop", &bucket()) <= 20_000);
    }
    let now = start.saturating_add(11 * SECOND);
    let actions = quotas.tick(now);
    let admits = |it: &&(_, Action)| {
        matches!(it.1, Action::Assign { strategy: Strategy::TokenBucket { .. }, .. })
    };
    assert!(actions.iter().filter(admits).count() <= 10_000);
    for stream in streams {
        quotas.close(stream);
    }
    quotas.tick(now.saturating_add(6 * SECOND));
    let counts = quotas.counts();
    assert_eq!((counts.streams, counts.subscriptions, counts.budgets), (0, 0, 0));
}

#[test]
fn excessive_and_wrong_reports_are_refused_and_change_nothing() {
    let config = QuotaConfig::default().with_max_streams(2).with_max_subscriptions(2);
    let mut quotas = Quotas::new(config);
    let (first, second) = (quotas.open().unwrap(), quotas.open().unwrap());
    assert_eq!(quotas.open(), Err(Refused::Streams(2)));
    let now = Timestamp::from_secs(60);
    let limit_of = |_: &str, _: &BucketId| BucketLimit::Unlimited;
    let usage = |key: &str| Usage { bucket: BucketId::new([(key, "")]), allowed: 1, denied: 0 };
    let mut report = |stream, domain: &str, keys: &[&str]| {
        quotas.report(stream, domain, keys.iter().map(|it| usage(it)), now, &limit_of)
    };
    assert_eq!(report(first, "", &["a"]), Err(Refused::NoDomain));
    assert_eq!(report(first, "shop", &["a", "b", "c"]), Err(Refused::Subscriptions(2)));
    assert_eq!(report(first, "shop", &["a", "b"]).unwrap().len(), 2);
    assert_eq!(report(second, "shop", &["a"]), Err(Refused::Subscriptions(2)));
    assert_eq!(report(first, "mall", &["a"]), Err(Refused::OtherDomain("shop".to_owned())));
    let empty = Usage { bucket: BucketId::new([("", ""); 0]), allowed: 1, denied: 0 };
    assert_eq!(quotas.report(second, "shop", [empty], now, &limit_of), Err(Refused::EmptyBucket));
    let large = Usage { bucket: BucketId::new([("a", "x".repeat(4_096))]), ..usage("a") };
    assert_eq!(quotas.report(second, "shop", [large], now, &limit_of), Err(Refused::LargeBucket));
    quotas.close(second);
    let closed = quotas.report(second, "shop", [usage("a")], now, &limit_of);
    assert_eq!(closed, Err(Refused::Closed));
    assert_eq!(quotas.counts().refused, 8);
}

#[test]
fn budgets_of_closed_streams_are_bounded() {
    let config = QuotaConfig::default().with_max_subscriptions(2);
    let mut quotas = Quotas::new(config);
    let now = Timestamp::from_secs(60);
    // Their charges end after a day.
    let day = 86_400 * SECOND;
    let limit_of = |_: &str, _: &BucketId| BucketLimit::Requests { requests: 10, window: day };
    let mut report = |key: String, at| {
        let stream = quotas.open().unwrap();
        let usage = Usage { bucket: BucketId::new([(key, "")]), allowed: 1, denied: 0 };
        let result = quotas.report(stream, "shop", [usage], at, &limit_of);
        quotas.close(stream);
        quotas.tick(at);
        result
    };
    for key in 0..4 {
        assert_eq!(report(key.to_string(), now).unwrap().len(), 1);
    }
    assert_eq!(report("4".to_owned(), now), Err(Refused::Budgets(4)));
    assert!(report("3".to_owned(), now).is_ok(), "it is known");
    let later = now.saturating_add(2 * day);
    report("3".to_owned(), later).unwrap();
    assert_eq!(report("4".to_owned(), later).unwrap().len(), 1);
}

#[test]
fn one_stream_with_all_buckets_is_abandoned_soon() {
    let mut quotas = Quotas::new(QuotaConfig::default().with_idle(10 * SECOND));
    let start = Timestamp::from_secs(60);
    let limit_of = |_: &str, _: &BucketId| BucketLimit::Requests { requests: 10, window: SECOND };
    let stream = quotas.open().unwrap();
    let usage = |key: u32| Usage {
        bucket: BucketId::new([("user", key.to_string())]),
        allowed: 1,
        denied: 0,
    };
    // With a step for each of the others, this takes minutes.
    let all = 1 << 16;
    quotas.report(stream, "shop", (0..all).map(usage), start, &limit_of).unwrap();
    quotas.tick(start.saturating_add(11 * SECOND));
    quotas.tick(start.saturating_add(20 * SECOND));
    let counts = quotas.counts();
    assert_eq!((counts.abandoned, counts.subscriptions), (all.into(), 0));
    assert_eq!(counts.budgets, 0);
}

#[test]
fn instance_assigns_its_share_and_nothing_that_outlives_it() {
    let mut quotas = Quotas::with_shares(QuotaConfig::default());
    let limit = BucketLimit::Requests { requests: 1_000, window: SECOND };
    let start = Timestamp::from_secs(60);
    let stream = quotas.open().unwrap();
    let usage = || [Usage { bucket: bucket(), allowed: 0, denied: 2_000 }];
    let actions = quotas.report(stream, "shop", usage(), start, &|_, _| limit).unwrap();
    assert_eq!(actions, [], "it has no share yet");
    let asks = quotas.asks(start);
    assert_eq!((asks.len(), asks[0].limit, asks[0].least), (1, 1_000, 0));
    // An assignment of 3 s is charged for 5 s: until it has ended, and has left each interval.
    assert_eq!(asks[0].lasts, 5 * SECOND);
    quotas.set_share(&asks[0], 300, 300, start.saturating_add(10 * SECOND));
    let mut last = 0;
    for step in 0..60 {
        let now = start.saturating_add(step * SECOND / 4);
        quotas.report(stream, "shop", usage(), now, &|_, _| limit).unwrap();
        for (_, action) in quotas.tick(now) {
            let Action::Assign { strategy, .. } = action else { panic!("{action:?}") };
            last = if matches!(strategy, Strategy::TokenBucket { .. }) { step } else { last };
        }
        assert!(quotas.charged("shop", &bucket()) <= 300);
    }
    assert!((17..=20).contains(&last), "the last one at step {last}, which is 5 s");
    assert_eq!(quotas.charged("shop", &bucket()), 0);
}

/// Two instances have 300 of 1,000 requests each, when another limit comes into force. An answer to
/// an ask of before it comes late.
#[test]
fn shares_of_a_higher_limit_are_lowered_and_those_of_another_interval_ignored() {
    let start = Timestamp::from_secs(60);
    let until = start.saturating_add(60 * SECOND);
    let limit = |requests, window| BucketLimit::Requests { requests, window };
    let usage = || [Usage { bucket: bucket(), allowed: 0, denied: 2_000 }];
    for (is_late, next, most) in [
        (false, limit(10, SECOND), 3),
        (true, limit(10, SECOND), 3),
        (false, limit(2_000, SECOND), 300),
        (true, limit(2_000, SECOND), 300),
        (true, limit(1_000, 2 * SECOND), 0),
    ] {
        let mut quotas = Quotas::with_shares(QuotaConfig::default());
        let stream = quotas.open().unwrap();
        let before = |_: &str, _: &BucketId| limit(1_000, SECOND);
        quotas.report(stream, "shop", usage(), start, &before).unwrap();
        let asks = quotas.asks(start);
        if is_late {
            quotas.reload(&|_, _| next);
        }
        quotas.set_share(&asks[0], 300, 300, until);
        if !is_late {
            quotas.reload(&|_, _| next);
        }
        let mut charged = 0;
        for step in 1..40 {
            let now = start.saturating_add(step * SECOND / 4);
            quotas.report(stream, "shop", usage(), now, &|_, _| next).unwrap();
            quotas.tick(now);
            charged = charged.max(quotas.charged("shop", &bucket()));
        }
        assert!(charged <= most && charged * 10 >= most * 9, "{charged}: {next:?}, {is_late}");
    }
}
