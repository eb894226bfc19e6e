//! The cap: invented keys take neither more memory nor the places of known keys.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::keyed::KeyedError;
use leaparray::flow::{
    Account, Ask, ConcurrencyLimiter, Decision, Keyed, Limiter, LimiterExt, Reason, Retry,
    TokenBucket,
};
use leaparray::{ManualClock, Timestamp};

use super::{Same, keyed};
use crate::flow::{at, ms, rate};

/// One token in a tenth of a second, bursts of five.
fn bucket() -> TokenBucket {
    TokenBucket::new(rate(1, 100), 5)
}

#[test]
fn further_key_is_refused_while_no_place_is_free() {
    let limiter = keyed!(bucket(), 3, Duration::MAX);
    for key in 0..3 {
        assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
    }
    let refusal = limiter.try_acquire_at(&3, at(60_000), 1).refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::NO_ROOM_FOR_KEY, Retry::Unknown));
    assert_eq!(limiter.of_key(&3).peek_at(at(60_000), 1), None, "it may find room");
    assert!((0..3).all(|key| limiter.try_acquire_at(&key, at(60_000), 1).is_admitted()));
    let counts = limiter.counts();
    assert_eq!((counts.keys, counts.no_room_refusals), (3, 1));
}

#[test]
fn place_of_a_key_that_is_as_new_is_free_for_another() {
    let limiter = keyed!(bucket(), 3, Duration::MAX);
    for key in 0..3 {
        assert!(limiter.try_acquire_at(&key, at(60_000), key + 1).is_admitted());
    }
    assert!(limiter.try_acquire_at(&3, at(60_099), 1).is_refused());
    assert!(limiter.try_acquire_at(&3, at(60_100), 1).is_admitted(), "in the place of key 0");
    assert_eq!((limiter.len(), limiter.refusals(&0), limiter.refusals(&3)), (3, None, Some(0)));
}

/// Each new key of a shard examines four slots, and goes on where the last one ended. A key that is
/// removed and comes again, at the begin of the table, does not turn that back.
#[test]
fn removal_of_a_key_does_not_keep_idle_keys() {
    let limiter = keyed!(bucket(), 1_000, Duration::ZERO);
    // Over the whole table, by the tags of the keys.
    for key in 0..100 {
        assert!(limiter.try_acquire_at(&(key * 650), at(60_000), 1).is_admitted());
    }
    for _ in 0..60 {
        assert!(limiter.try_acquire_at(&0, at(60_100), 5).is_admitted());
        assert!(limiter.remove(&0));
    }
    assert_eq!(limiter.len(), 0);
}

#[test]
fn place_of_an_idle_key_of_another_shard_is_free() {
    // With two shards.
    let limiter = keyed!(bucket(), 16, Duration::MAX);
    for key in 0..16 {
        assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
    }
    let other_shard = 1 << 63;
    assert!(limiter.try_acquire_at(&other_shard, at(60_099), 1).is_refused());
    let mut asked = (0..2).map(|_| limiter.try_acquire_at(&other_shard, at(60_100), 1));
    assert!(asked.any(|decision| decision.is_admitted()), "each shard is examined in turn");
}

#[test]
fn invented_keys_never_displace_one_that_has_come_back() {
    let limiter = keyed!(bucket(), 100, ms(10_000));
    let known = 0_u64;
    assert!(limiter.try_acquire_at(&known, at(60_000), 1).is_admitted());
    assert!(limiter.try_acquire_at(&known, at(60_200), 1).is_admitted(), "full since 60.1 s");
    let mut invented = 1;
    // In each second, an attacker invents more keys than there are places. Its earlier keys are as
    // new by then.
    for second in 61..=70 {
        for _ in 0..1_000 {
            let _ = limiter.try_acquire_at(&invented, at(second * 1_000), 1);
            invented += 1;
        }
        assert_eq!(limiter.len(), 100);
        assert_eq!(limiter.refusals(&known), Some(0), "its place is kept for 10 s");
    }
    assert!(limiter.try_acquire_at(&known, at(70_299), 5).is_admitted());
    for key in invented..invented + 1_000 {
        let _ = limiter.try_acquire_at(&key, at(81_000), 1);
    }
    assert_eq!(limiter.refusals(&known), None, "not for longer");
}

/// The same for a client whose limiter is asked without the keyed one.
#[test]
fn invented_keys_never_displace_one_whose_limiter_was_lent_again() {
    let clock = ManualClock::new(at(60_000));
    let of_clock = clock.clone();
    let make = move || TokenBucket::with_clock(rate(1, 100), 5, of_clock.clone());
    let limiter = Keyed::<u64, _>::new((make, clock.clone()), 100).unwrap();
    let limiter = limiter.with_keep(ms(10_000));
    let ask = |key: u64| limiter.limiter_of(&key).map(|own| own.try_acquire().is_admitted());
    assert_eq!(ask(0), Some(true));
    clock.advance(ms(200));
    assert_eq!(ask(0), Some(true), "full since 60.1 s");
    for second in 1..=9 {
        clock.advance(ms(1_000));
        for key in 0..1_000 {
            let _ = ask(second * 1_000 + key);
        }
        assert_eq!((limiter.len(), limiter.refusals(&0)), (100, Some(0)), "its place is kept");
    }
}

/// Returns keys that are spread over all shards and tags, as by a hash. The ranges of two calls are
/// distinct if those of `first` and `count` are.
fn keys_from(first: u64, count: u64) -> impl Iterator<Item = u64> {
    (first..first + count).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes())
}

/// Lets keys come in at 60 s, and come back at 61 s.
fn come_back(limiter: &Keyed<u64, TokenBucket, Same>, keys: impl Iterator<Item = u64>) {
    for key in keys {
        assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
        assert!(limiter.try_acquire_at(&key, at(61_000), 1).is_admitted());
    }
}

/// All clients have come back, and half of them rest. New clients take the places of those.
#[test]
fn new_keys_take_the_places_of_known_ones_that_rest() {
    for places in [100, 1_000, 10_000] {
        let (limiter, cap) = (keyed!(bucket(), places, ms(60_000)), places as u64);
        come_back(&limiter, keys_from(0, cap));
        for key in keys_from(0, cap / 2) {
            assert!(limiter.try_acquire_at(&key, at(62_000), 5).is_admitted());
        }
        let new = keys_from(cap, cap / 4);
        let admitted = new.filter(|key| limiter.try_acquire_at(key, at(62_000), 5).is_admitted());
        let admitted = admitted.count() as u64;
        assert!(admitted * 20 >= cap / 4 * 19, "{admitted} of {}", cap / 4);
        assert!(keys_from(0, cap / 2).all(|key| limiter.refusals(&key) == Some(0)), "in use");
    }
}

#[test]
fn known_keys_with_half_of_the_places_keep_them() {
    let limiter = keyed!(bucket(), 100, ms(60_000));
    come_back(&limiter, keys_from(0, 50));
    for key in keys_from(50, 10_000) {
        let _ = limiter.try_acquire_at(&key, at(61_500 + key % 1_000), 5);
    }
    assert!(keys_from(0, 50).all(|key| limiter.refusals(&key) == Some(0)));
    // A further one that comes back takes the protection from all.
    let stored = keys_from(50, 10_000).find(|key| limiter.refusals(key).is_some()).unwrap();
    assert!(limiter.try_acquire_at(&stored, at(63_000), 1).is_admitted());
    for key in keys_from(20_000, 1_000) {
        let _ = limiter.try_acquire_at(&key, at(63_000), 5);
    }
    let kept = keys_from(0, 50).filter(|key| limiter.refusals(key).is_some()).count();
    assert_eq!(kept, 49, "until they have half of the places again, with the further one");
}

#[test]
fn keys_of_an_attacker_leave_once_they_are_as_new() {
    let limiter = keyed!(bucket(), 1_500, ms(0));
    for key in 0..100_000_u64 {
        // 10,000 keys a second, and each is as new after a tenth of a second.
        assert!(limiter.try_acquire_at(&key, at(60_000 + key / 10), 1).is_admitted());
        // A sum over all shards, so not for each key.
        assert!(key % 64 != 0 || limiter.len() <= 1_500);
    }
    assert!(limiter.counts().evicted_keys >= 98_000);
}

#[test]
fn keys_with_room_stay_for_the_keep_time() {
    let limiter = keyed!(bucket(), 1_000_000, ms(1_000));
    for key in 0..20_000_u64 {
        assert!(limiter.try_acquire_at(&key, at(60_000 + key), 1).is_admitted());
    }
    // Keys of the last 1.1 s. Each insertion examines four.
    assert!((1_100..1_600).contains(&limiter.len()), "{}", limiter.len());
}

/// The tables shrink while their slots are examined.
#[test]
fn eviction_of_all_keys_leaves_none() {
    for keys in [1, 10, 100, 1_000, 3_000] {
        for examined in [0, 1, 50, 90, 333] {
            let limiter = keyed!(bucket(), 1 << 20, Duration::ZERO);
            for key in 0..keys {
                // Keys of one shard, with tags all over the table.
                let key = key * 0x9E37 % (1 << 32);
                assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
            }
            assert_eq!(limiter.evict_at(at(60_000), examined), 0);
            let evicted = limiter.evict_at(at(60_100), usize::MAX) as u64;
            assert_eq!((evicted, limiter.len()), (keys, 0), "after {examined} slots");
        }
    }
}

/// A limiter that counts how often it is examined.
struct Counting<'a> {
    bucket: TokenBucket,
    examined: &'a Cell<usize>,
}

impl Limiter for Counting<'_> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.bucket.decide(ask)
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Counting<'_> {
    fn is_as_new(&self, now: Timestamp) -> bool {
        self.examined.set(self.examined.get() + 1);
        self.bucket.account().is_as_new(now)
    }
}

#[test]
fn each_decision_examines_a_bounded_number_of_keys() {
    for max_keys in [1_000, 100_000] {
        let examined = Cell::new(0);
        let limit =
            || Counting { bucket: bucket().with_max_lead(Duration::MAX), examined: &examined };
        let limiter = keyed!(limit, max_keys, ms(0));
        for key in 0..5_000_u64 {
            // In all 64 shards or more.
            let key = key << 45 | key;
            let _ = limiter.try_acquire_at(&key, at(60_000 + key % 5_000 / 20), 1);
            let most = examined.replace(0);
            assert!(most <= 4 + 16 + 1, "{most} keys");
        }
        let evicted = limiter.evict_at(at(90_000), 7);
        assert!(evicted <= 7 && examined.get() <= 7, "{evicted} of {} keys", examined.get());
    }
}

#[test]
fn shard_that_is_full_refuses_and_shares_nothing() {
    let limiter = keyed!(bucket(), 1 << 20, Duration::MAX);
    // With each second tag: the keys are spread over the whole table.
    let keys = || (0..32_767).map(|key| 2 * key);
    for key in keys() {
        assert!(limiter.try_acquire_at(&key, at(60_000), 5).is_admitted());
    }
    let further = 1;
    let refusal = limiter.try_acquire_at(&further, at(60_000), 1).refusal().unwrap();
    assert_eq!(refusal.reason, Reason::NO_ROOM_FOR_KEY);
    assert_eq!(limiter.of_key(&further).peek_at(at(60_000), 1), None, "its shard has no room");
    assert!(keys().all(|key| limiter.try_acquire_at(&key, at(60_000), 1).is_refused()));
    let other_shard = 1 << 63;
    assert!(limiter.try_acquire_at(&other_shard, at(60_000), 5).is_admitted());
}

#[test]
fn keys_with_equal_hashes_share_no_state() {
    let limiter = keyed!(bucket(), 10_000, Duration::MAX);
    // The low 16 bits and the high 32 bits are equal: the same shard and the same tag.
    for key in (0..500_u64).map(|key| key << 16) {
        assert!(limiter.try_acquire_at(&key, at(60_000), 5).is_admitted());
    }
    for key in (0..500_u64).map(|key| key << 16) {
        assert!(limiter.try_acquire_at(&key, at(60_100), 1).is_admitted());
        assert!(limiter.try_acquire_at(&key, at(60_100), 1).is_refused());
    }
    assert_eq!((limiter.len(), limiter.evict_at(at(70_000), 1_000)), (500, 0));
}

#[test]
fn keys_without_room_share_the_overflow() {
    let limiter = keyed!(bucket(), 1, Duration::MAX).with_overflow();
    assert!(limiter.try_acquire_at(&0, at(60_000), 5).is_admitted());
    assert!((1..=5).all(|key| limiter.try_acquire_at(&key, at(60_000), 1).is_admitted()));
    let refusal = limiter.try_acquire_at(&6, at(60_000), 1).refusal().unwrap();
    assert_eq!(refusal.retry_at(), Some(at(60_100)));
    assert_eq!((limiter.len(), limiter.counts().no_room_refusals), (1, 1));
}

/// A key that has taken permits of the shared state gets no more when it has a state of its own.
#[test]
fn key_that_leaves_the_overflow_takes_its_limit_once() {
    let limiter = keyed!(bucket(), 1, Duration::ZERO).with_overflow();
    assert!(limiter.try_acquire_at(&0, at(60_000), 1).is_admitted());
    assert!(limiter.try_acquire_at(&1, at(60_000), 4).is_admitted(), "shared: no room");
    // The key 0 is as new, and gives its place up.
    assert_eq!(limiter.evict_at(at(60_100), 10), 1);
    let of_one = || limiter.of_key(&1).quota_at(at(60_100)).map(|it| it.remaining);
    assert_eq!(of_one(), Some(2), "one was left, and one was added since");
    assert!(limiter.try_acquire_at(&1, at(60_100), 3).is_refused());
    assert!(limiter.try_acquire_at(&1, at(60_100), 2).is_admitted());
    assert_eq!(limiter.len(), 1, "it has a state of its own");
    // The key 2 shares again, and finds what the shared state has left.
    assert!(limiter.try_acquire_at(&2, at(60_100), 3).is_refused());
    assert!(limiter.try_acquire_at(&2, at(60_100), 2).is_admitted());
}

/// It is not known when a limit in flight is as new, so keys share it until it is.
#[test]
fn key_shares_a_limit_in_flight_until_it_is_as_new() {
    let limiter = keyed!(|| ConcurrencyLimiter::new(2), 1, Duration::ZERO).with_overflow();
    let ask = |key: u64| limiter.try_acquire_at(&key, at(60_000), 1).at_once().ok();
    let stored = ask(0);
    let shared = ask(1).expect("of the shared limit");
    drop(stored);
    assert_eq!(limiter.evict_at(at(60_000), 10), 1);
    let second = ask(1).expect("of the shared limit");
    assert!(ask(1).is_none(), "it has two in flight");
    assert!(ask(2).is_none(), "so have the keys without a place together");
    assert!(limiter.is_empty());
    drop((shared, second));
    let own = [ask(1), ask(1)];
    assert!(own.iter().all(Option::is_some) && limiter.len() == 1, "a limit of its own");
}

/// Keys come to a limiter with few places, keep them or not, and are evicted, at random. No key
/// takes more than the limit: in any time, its burst and what is added.
#[test]
fn key_with_and_without_a_place_takes_its_limit_once() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let limiter = keyed!(bucket(), 2, Duration::ZERO).with_overflow();
        let (mut now, mut taken) = (60_000, HashMap::<u64, Vec<u64>>::new());
        for _ in 0..200 {
            now += rng.u64(0..60);
            let key = rng.u64(0..5);
            if limiter.try_acquire_at(&key, at(now), 1).is_admitted() {
                taken.entry(key).or_default().push(now);
            }
            if rng.u8(0..4) == 0 {
                let _ = limiter.evict_at(at(now), 4);
            }
        }
        for (key, times) in taken {
            for (i, from) in times.iter().enumerate() {
                for (j, to) in times.iter().enumerate().skip(i) {
                    // 5 at once, and one each 100 ms.
                    let most = 5 + (to - from) / 100;
                    assert!((j - i + 1) as u64 <= most, "seed {seed}, key {key}: {times:?}");
                }
            }
        }
    }
}

#[test]
fn caps_out_of_range_are_refused() {
    let make = |max_keys| Keyed::<u64, _, _>::with_hasher(bucket(), max_keys, Same(0)).map(drop);
    assert_eq!(make(0), Err(KeyedError::ZeroKeys));
    let (max_keys, max) = (usize::MAX, 1 << 30);
    assert_eq!(make(max_keys), Err(KeyedError::TooManyKeys { max_keys, max }));
    let text = make(max_keys).unwrap_err().to_string();
    assert!(text.contains("1073741824"), "{text}");
    assert!(make(1).is_ok());
}
