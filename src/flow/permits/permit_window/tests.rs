//! Tests of a limiter in an epoch, on one thread: it decides as a limiter of one word does.

use std::time::Duration;

use super::{FullWindow, PermitWindow, Ration};
use crate::flow::contract::{Decision, LimiterExt, Refusal};
use crate::flow::limiters::SlidingWindowLimiter;
use crate::node::{NodeConfig, Outcome, ResourceNode};
use crate::time::{ManualClock, Timestamp, WindowConfig};

type Sliding = SlidingWindowLimiter<ManualClock>;

fn limiter(bucket: Duration, limit: u64) -> Sliding {
    let config = WindowConfig::new(3, bucket * 3).unwrap();
    let clock = ManualClock::new(Timestamp::MIN);
    SlidingWindowLimiter::of_buckets_with_clock(config, limit, clock)
        .unwrap()
        .with_max_lead(Duration::MAX)
}

fn seconds(limit: u64) -> Sliding {
    limiter(Duration::from_secs(1), limit)
}

fn ask(limiter: &Sliding, second: u64, permits: u64) -> Decision {
    limiter.try_acquire_at(Timestamp::from_secs(second), permits)
}

/// Begins an epoch. Panics if none is running afterwards.
fn begin(limiter: &Sliding) {
    limiter.begin_epoch();
    assert!(limiter.is_striped());
}

#[test]
fn decisions_and_readings_in_epochs_are_those_of_one_word() {
    let (striped, direct) = (seconds(1_000), seconds(1_000));
    let (mut rng, mut second, mut epochs) = (fastrand::Rng::with_seed(1), 60, 0);
    for step in 0..60_000 {
        if rng.u64(..300) == 0 {
            second += rng.u64(..4);
        }
        if rng.u64(..8) == 0 {
            striped.begin_epoch();
        }
        epochs += u32::from(striped.is_striped());
        let now = Timestamp::from_secs(second - rng.u64(..2));
        let permits = [1, 1, 1, 2, 3, 40, 500][rng.usize(..7)];
        let both = [&striped, &direct];
        match rng.u64(..40) {
            0 => {
                let back = both.map(|it| it.refund_at(now, permits, Duration::ZERO));
                assert_eq!(back[0], back[1], "step {step}");
            }
            1 => {
                let limit = 900 + rng.u64(..200);
                for it in both {
                    it.reconfigure(limit).unwrap();
                }
            }
            2 => {
                let peeked = both.map(|it| it.peek_at(now, permits));
                assert_eq!(peeked[0], peeked[1], "step {step}");
            }
            3 => {
                let found = both.map(|it| (it.permits_by_bucket_at(now), it.quota_at(now)));
                assert_eq!(found[0], found[1], "step {step}");
                // No other thread takes permits, so the recent ones are exact.
                assert_eq!(Some(striped.recent_quota(now)), found[0].1, "step {step}");
            }
            _ => {
                let decisions = both.map(|it| it.try_acquire_at(now, permits));
                assert_eq!(decisions[0], decisions[1], "step {step}");
            }
        }
        let available = both.map(|it| it.quota_at(now).unwrap().remaining);
        assert_eq!(available[0], available[1], "step {step}");
    }
    assert!(epochs > 1_000, "the limiter was in an epoch at {epochs} steps");
}

#[test]
fn recent_quota_has_the_permits_of_other_threads_after_32_of_this_one() {
    let (limiter, now) = (seconds(100_000), Timestamp::from_secs(60));
    assert!(ask(&limiter, 60, 1).is_admitted());
    begin(&limiter);
    let taken = || 100_000 - limiter.recent_quota(now).remaining;
    assert_eq!(taken(), 1);
    std::thread::scope(|scope| {
        // One of them may have the stripe of this thread.
        for _ in 0..3 {
            scope.spawn(|| assert!(ask(&limiter, 60, 10).is_admitted()));
        }
    });
    for own in 1..32 {
        assert!(ask(&limiter, 60, 1).is_admitted());
        assert!((1 + own..=31 + own).contains(&taken()), "{own} permits");
    }
    assert!(ask(&limiter, 60, 1).is_admitted());
    assert_eq!(taken(), 31 + 32);
    assert!(limiter.is_striped());
}

#[test]
fn epoch_begins_only_if_two_stripes_have_permits_for_many_requests() {
    for (taken, is_striped) in [(1, true), (36, true), (37, false), (100, false)] {
        let limiter = seconds(100);
        assert!(ask(&limiter, 60, taken).is_admitted());
        limiter.begin_epoch();
        assert_eq!(limiter.is_striped(), is_striped, "{taken} taken");
    }
}

#[test]
fn one_thread_takes_the_permits_of_all_stripes_in_one_epoch() {
    let limiter = seconds(1_000);
    assert!(ask(&limiter, 60, 1).is_admitted());
    begin(&limiter);
    // Four stripes have a quarter each of seven eighths of 999 permits.
    for _ in 0..872 {
        assert!(ask(&limiter, 60, 1).is_admitted() && limiter.is_striped());
    }
    assert_eq!((0..200).filter(|_| ask(&limiter, 60, 1).is_admitted()).count(), 127);
    assert!(!limiter.is_striped());
}

#[test]
fn epoch_ends_with_its_bucket() {
    let limiter = seconds(1_000);
    assert!(ask(&limiter, 60, 100).is_admitted());
    begin(&limiter);
    assert!(ask(&limiter, 60, 10).is_admitted() && ask(&limiter, 61, 20).is_admitted());
    assert!(!limiter.is_striped());
    let permits = limiter.permits_by_bucket_at(Timestamp::from_secs(61));
    assert!(permits.iter().map(|bucket| bucket.permits).eq([0, 110, 20]));
}

#[test]
fn lower_limit_applies_to_stripes_at_once() {
    let limiter = seconds(1_000);
    assert!(ask(&limiter, 60, 500).is_admitted());
    begin(&limiter);
    limiter.reconfigure(510).unwrap();
    assert!(ask(&limiter, 60, 11).is_refused() && ask(&limiter, 60, 10).is_admitted());
    assert!(ask(&limiter, 60, 1).is_refused());
}

/// Words of the window have room for 127 permits, and so for 128 epochs in a bucket.
#[test]
fn bucket_has_no_epoch_once_its_words_are_used_up() {
    let limiter = limiter(Duration::from_micros(1), 100);
    assert_eq!(SlidingWindowLimiter::max_limit(limiter.config()), 127);
    for bucket in [7, 8] {
        let now = Timestamp::from_micros(bucket);
        assert!(limiter.try_acquire_at(now, 1).is_admitted());
        for _ in 0..128 {
            begin(&limiter);
            limiter.end_epoch();
        }
        limiter.begin_epoch();
        assert!(!limiter.is_striped());
        assert_eq!(limiter.quota_at(now).unwrap().remaining, 106 - bucket);
    }
}

/// The node's buckets are shorter than those of the limiter, so its passes are counted again in the
/// middle of an epoch.
#[test]
fn pass_with_a_permit_of_a_stripe_is_no_direct_pass() {
    let limiter = limiter(Duration::from_secs(10), 100).with_node_passes();
    let node = ResourceNode::with_clock(NodeConfig::default(), ManualClock::new(Timestamp::MIN));
    let enter = |millis| {
        let decision = limiter.enter_at(&node, Timestamp::from_millis(millis)).into_result();
        decision
            .map(|it| it.into_parts().0.end_at(Timestamp::from_millis(millis), Outcome::Success))
            .is_ok()
    };
    assert!(enter(60_000));
    begin(&limiter);
    assert!((0..20).all(|_| enter(60_400)) && limiter.is_striped());
    node.enter_at(Timestamp::from_millis(60_500))
        .end_at(Timestamp::from_millis(60_500), Outcome::Success);
    assert_eq!((0..100).filter(|_| enter(60_600)).count(), 78);
}

/// A ration with the same limit for each window, of which no test asks for more.
struct Constant(u64);

impl Ration for Constant {
    fn limit(&self, _window: &PermitWindow, _number: u64) -> Option<u64> {
        Some(self.0)
    }

    fn refuse(&self, _window: &PermitWindow, _full: &FullWindow) -> Refusal {
        unreachable!("permits are left")
    }
}

/// A compare-exchange that fails although the word is unchanged has lost to no other thread, and
/// nor has one that finds the permits of another thread given back, or another bucket. If each of
/// them began an epoch, threads could begin and end epochs for ever without an admission.
#[test]
fn epoch_begins_only_after_another_request_was_admitted() {
    let config = WindowConfig::new(3, Duration::from_secs(3)).unwrap();
    let (window, ration) = (PermitWindow::new(config), Constant(1_000));
    let clock = ManualClock::new(Timestamp::from_secs(61));
    let take = |second, permits| {
        let decision = window.take(Timestamp::from_secs(second), permits, &ration, &clock);
        assert!(decision.is_admitted());
        window.load()
    };
    let (of_bucket_before, word) = (take(60, 10), take(61, 10));
    for expected in [word, word + 1, of_bucket_before] {
        assert_eq!(window.contend(expected, word, 1, &ration), word);
        assert_eq!(window.load(), word, "no epoch has begun");
    }
    let epoch_word = window.contend(word - 1, word, 1, &ration);
    assert!(window.is_striped() && epoch_word == window.load());
}
