//! Changes of the settings of all keys: each key keeps what it has.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leaparray::flow::{Decision, FixedWindowLimiter, LeakyBucket, LimiterExt, Rate, TokenBucket};
use proptest::prelude::*;

use super::keyed;
use crate::flow::{at, ms, rate};

#[test]
fn level_of_each_client_stays_when_the_burst_grows() {
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 40), 100, ms(60_000));
    for key in 0..40 {
        assert!(limiter.try_acquire_at(&key, at(60_000), key + 1).is_admitted());
    }
    limiter.reconfigure_at(at(60_000), TokenBucket::new(rate(1, 100), 41));
    for key in 0..40 {
        let left = 39 - key;
        let quota = limiter.of_key(&key).quota_at(at(60_000)).unwrap();
        assert_eq!((quota.limit, quota.remaining), (41, left));
        let refusal = limiter.try_acquire_at(&key, at(60_000), left + 1).refusal().unwrap();
        assert_eq!(refusal.retry_at(), Some(at(60_100)));
        assert!(limiter.try_acquire_at(&key, at(60_000), left).is_admitted());
    }
}

/// A key that was evicted, or was never seen, is as one that was full at the change.
#[test]
fn key_that_is_not_stored_gets_no_more_than_one_that_is() {
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 5), 100, Duration::ZERO).with_overflow();
    assert!([1, 2].iter().all(|key| limiter.try_acquire_at(key, at(60_000), 1).is_admitted()));
    assert_eq!(limiter.evict_at(at(60_100), 100), 2);
    assert!(limiter.try_acquire_at(&2, at(60_100), 0).is_admitted());
    limiter.reconfigure_at(at(60_200), TokenBucket::new(rate(1, 100), 1_000));
    let remaining = |key, now| limiter.of_key(&key).quota_at(at(now)).unwrap().remaining;
    assert_eq!([1, 2, 3].map(|key| remaining(key, 60_200)), [5; 3]);
    assert!(limiter.try_acquire_at(&1, at(60_200), 6).is_refused());
    assert!(limiter.try_acquire_at(&1, at(60_200), 5).is_admitted());
    assert_eq!([1, 2].map(|key| remaining(key, 60_500)), [3, 8]);
    assert_eq!(remaining(3, 200_000), 1_000);
}

#[test]
fn windows_keep_their_permits_under_another_limit_and_length() {
    let window = |millis, limit| FixedWindowLimiter::new(ms(millis), limit).unwrap();
    let limiter = keyed!(window(1_000, 10), 100, ms(60_000));
    assert!(limiter.try_acquire_at(&1, at(60_000), 8).is_admitted());
    assert!(limiter.try_acquire_at(&2, at(59_000), 8).is_admitted());
    limiter.reconfigure_at(at(60_500), window(1_000, 6));
    let ask = |key, now, permits| limiter.try_acquire_at(&key, at(now), permits);
    let remaining = |key, now| limiter.of_key(&key).quota_at(at(now)).unwrap().remaining;
    assert_eq!([1, 2].map(|key| remaining(key, 60_500)), [0, 6]);
    assert_eq!(ask(1, 60_500, 1).refusal().unwrap().retry_at(), Some(at(61_000)));
    assert!(ask(2, 60_500, 2).is_admitted());
    limiter.reconfigure_at(at(60_600), window(3_000, 6));
    assert_eq!([1, 2].map(|key| remaining(key, 60_600)), [0, 4]);
    assert_eq!(ask(1, 61_000, 1).refusal().unwrap().retry_at(), Some(at(63_000)));
    assert!(ask(1, 63_000, 6).is_admitted());
}

#[test]
fn state_that_keys_without_a_place_share_is_changed() {
    let limiter = keyed!(TokenBucket::new(rate(1, 100), 5), 1, ms(60_000)).with_overflow();
    assert!([1, 2].iter().all(|key| limiter.try_acquire_at(key, at(60_000), 4).is_admitted()));
    limiter.reconfigure_at(at(60_000), TokenBucket::new(rate(1, 10), 9));
    assert!([1, 3].iter().all(|key| limiter.try_acquire_at(key, at(60_000), 2).is_refused()));
    assert!([1, 3].iter().all(|key| limiter.try_acquire_at(key, at(60_010), 2).is_admitted()));
}

/// A step of a limiter that is made for one key alone, and of the keyed one.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { permits: u64, millis: u64 },
    Set { per_second: u64, size: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..6_u64, 0..300_u64).prop_map(|(permits, millis)| Step::Ask { permits, millis }),
        1 => (1..40_u64, 1..12_u64).prop_map(|(per_second, size)| Step::Set { per_second, size }),
    ]
}

proptest! {
    #[test]
    fn key_is_changed_as_a_limiter_of_its_own(
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let rate = |per_second| Rate::per_second(per_second).unwrap();
        let bucket = |per_second, size| {
            TokenBucket::new(rate(per_second), size).with_max_lead(Duration::MAX)
        };
        let pace = |per_second, size| {
            LeakyBucket::new(rate(per_second), ms(size * 50)).with_max_lead(Duration::MAX)
        };
        let own = (bucket(10, 5), pace(10, 5));
        let keyed = (
            keyed!(bucket(10, 5), 10, Duration::MAX),
            keyed!(pace(10, 5), 10, Duration::MAX),
        );
        let mut now = 60_000;
        for step in steps {
            match step {
                Step::Ask { permits, millis } => {
                    now += millis;
                    let asked = own.0.try_acquire_at(at(now), permits);
                    prop_assert_eq!(keyed.0.try_acquire_at(&1, at(now), permits), asked);
                    let asked = own.1.try_acquire_at(at(now), permits);
                    prop_assert_eq!(keyed.1.try_acquire_at(&1, at(now), permits), asked);
                }
                Step::Set { per_second, size } => {
                    own.0.reconfigure_at(at(now), rate(per_second), size);
                    keyed.0.reconfigure_at(at(now), bucket(per_second, size));
                    own.1.reconfigure(rate(per_second), ms(size * 50));
                    keyed.1.reconfigure_at(at(now), pace(per_second, size));
                }
            }
        }
    }
}

/// Threads take the tokens of a few keys while another one changes the settings, and the time
/// stands still: all tokens are taken, and no more.
#[test]
fn tokens_are_taken_once_while_the_settings_change() {
    const TOKENS: u64 = 4_000;
    const KEYS: u64 = 3;
    let bucket = |turn: u64| TokenBucket::new(rate(1, 1_000 * (turn % 7 + 1)), TOKENS + turn % 5);
    let limiter = keyed!(bucket(0), 100, Duration::ZERO);
    let (taken, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let takers = [0, 1, 2].map(|_| {
            scope.spawn(|| {
                // In two shards.
                for key in (0..KEYS).map(|key| key << 63 | key) {
                    while limiter.try_acquire_at(&key, at(60_000), 1).is_admitted() {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        scope.spawn(|| {
            let turns = (1..).take_while(|_| !is_done.load(Ordering::Relaxed));
            turns.for_each(|turn| limiter.reconfigure_at(at(60_000), bucket(turn)));
        });
        for taker in takers {
            taker.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(taken.into_inner(), KEYS * TOKENS);
}

#[test]
fn decision_after_a_change_is_by_the_new_settings() {
    let limiter = keyed!(LeakyBucket::new(rate(1, 1_000), ms(5_000)), 10, Duration::MAX);
    assert!(limiter.try_acquire_at(&1, at(60_000), 1).is_admitted());
    assert_eq!(limiter.try_acquire_at(&1, at(60_000), 1), Decision::after((), ms(1_000)));
    limiter.reconfigure_at(at(60_000), LeakyBucket::new(rate(1, 100), ms(5_000)));
    assert_eq!(limiter.try_acquire_at(&1, at(60_000), 1), Decision::after((), ms(1_100)));
}

/// A bucket that does not fill before the end of time is as large as one that does, so a key gets
/// what a bucket of its own gets.
#[test]
fn key_has_its_tokens_when_the_burst_is_as_large_as_can_be() {
    for (each, burst) in [(1_000, u64::MAX), (60_000, u32::MAX.into()), (86_400_000, 300_000)] {
        let limiter = keyed!(TokenBucket::new(rate(1, 500), 5), 10, ms(60_000));
        assert!(limiter.try_acquire_at(&0, at(60_000), 1).is_admitted());
        limiter.reconfigure_at(at(60_000), TokenBucket::new(rate(1, each), burst));
        assert!(limiter.try_acquire_at(&0, at(60_000), 4).is_admitted(), "{burst}");
        assert!(limiter.try_acquire_at(&0, at(60_000), 1).is_refused(), "{burst}");
    }
}

/// The settings of a key stay while all others change, and while the key is evicted.
#[test]
fn key_has_a_limit_of_its_own_while_the_others_change() {
    let bucket = |burst| TokenBucket::new(rate(1, 100), burst);
    let limiter = keyed!(bucket(2), 100, Duration::ZERO);
    let taken = |key: u64, now| {
        (0..100).take_while(|_| limiter.try_acquire_at(&key, at(now), 1).is_admitted()).count()
    };
    limiter.set_own_limit_at(at(60_000), &1, bucket(10));
    assert_eq!([1, 2].map(|key| taken(key, 60_000)), [2, 2], "a change adds no tokens");
    assert_eq!([1, 2].map(|key| taken(key, 61_000)), [10, 2]);
    assert_eq!(limiter.evict_at(at(62_000), 100), 2);
    assert_eq!([1, 2].map(|key| taken(key, 62_000)), [10, 2], "its settings are kept");
    limiter.reconfigure_at(at(63_000), bucket(5));
    assert_eq!([1, 2].map(|key| taken(key, 63_300)), [10, 5]);
    limiter.set_own_limit_at(at(63_300), &1, bucket(3));
    assert_eq!(taken(1, 70_000), 3, "a change of its own");
    assert!(limiter.unset_own_limit_at(at(70_000), &1));
    assert!(!limiter.unset_own_limit_at(at(70_000), &1));
    assert_eq!([1, 2].map(|key| taken(key, 70_200)), [2, 5], "what was taken stays taken");
    assert_eq!(taken(1, 80_000), 5);
}

/// A key that was evicted, or was never stored, gets no more by a change than one that is stored.
#[test]
fn change_of_one_key_forgives_nothing() {
    let bucket = |burst| TokenBucket::new(rate(1, 100), burst);
    for keep in [Duration::ZERO, Duration::MAX] {
        let limiter = keyed!(bucket(5), 100, keep);
        let ask = |permits, now| limiter.try_acquire_at(&1, at(now), permits).is_admitted();
        assert!(ask(5, 60_000));
        let _ = limiter.evict_at(at(60_500), 100);
        limiter.set_own_limit_at(at(60_500), &1, bucket(20));
        assert!(!ask(6, 60_500) && ask(5, 60_500), "{keep:?}");
        let _ = limiter.evict_at(at(62_500), 100);
        // It has 20, and 5 of all.
        assert!(limiter.unset_own_limit_at(at(62_500), &1));
        assert!(!ask(6, 62_500) && ask(5, 62_500), "{keep:?}");
        let _ = limiter.evict_at(at(63_000), 100);
        limiter.set_own_limit_at(at(63_000), &1, bucket(1));
        let _ = limiter.evict_at(at(63_000), 100);
        assert!(limiter.unset_own_limit_at(at(63_000), &1));
        assert!(!ask(2, 63_000) && ask(1, 63_000), "as a bucket that was changed twice: {keep:?}");
    }
}

/// Limits of one key at a time are changed while threads take permits: all that a key takes is
/// within its greatest bucket and what was added.
#[test]
fn own_limits_change_beside_decisions() {
    let bucket = |burst| TokenBucket::new(rate(1, 1_000_000), burst);
    let limiter = keyed!(bucket(10), 100, Duration::ZERO);
    let taken = thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let ask = |_: &u32| limiter.try_acquire_at(&1, at(60_000), 1).is_admitted();
                    (0..20_000).filter(ask).count()
                })
            })
            .collect();
        for burst in (1..200).map(|it| 5 + it % 7) {
            limiter.set_own_limit_at(at(60_000), &1, bucket(burst));
            let _ = limiter.evict_at(at(60_000), 100);
            assert!(limiter.unset_own_limit_at(at(60_000), &1));
        }
        threads.into_iter().map(|it| it.join().unwrap()).sum::<usize>()
    });
    assert!((5..=10).contains(&taken), "{taken}");
}
