//! Keyed limiters: a key has one state, and an evicted key that comes back gets no more than it
//! would have had.
#![cfg(loom)]

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use leaparray::flow::keyed::TokenBucketPerKey;
use leaparray::flow::{KeyedLimiter, Rate};
use leaparray::{ManualClock, Timestamp};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::thread;

/// The hash of a key is the key.
#[derive(Clone, Copy, Default)]
struct Same(u64);

impl BuildHasher for Same {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are of type u64");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Keyed = KeyedLimiter<u64, TokenBucketPerKey, ManualClock, Same>;

/// A key of the first shard, and one of the second.
const KEY: u64 = 1;
const OTHER: u64 = u64::MAX;

/// A bucket of one token is full again after this time, in nanoseconds.
const FULL: u64 = 100;

/// Creates a limiter with one token for each key. A key that is as new leaves as soon as it is
/// examined.
fn keyed(max_keys: usize) -> Arc<Keyed> {
    let rate = Rate::new(1, Duration::from_nanos(FULL)).unwrap();
    let limit = TokenBucketPerKey::new(rate, 1);
    let clock = ManualClock::new(Timestamp::MIN);
    let limiter = KeyedLimiter::with_clock_and_hasher(limit, max_keys, clock, Same(0)).unwrap();
    Arc::new(limiter.with_keep(Duration::ZERO).with_max_lead(Duration::MAX))
}

const START: u64 = 1_000;

/// Asks for the token of a key. Returns the number of admitted requests.
fn ask(limiter: &Keyed, key: u64, now: u64) -> u64 {
    u64::from(limiter.try_acquire_at(&key, Timestamp::from_nanos(now), 1).is_admitted())
}

/// Calls [`ask`] on a thread of its own.
fn asks(limiter: &Arc<Keyed>, key: u64, now: u64) -> thread::JoinHandle<u64> {
    let limiter = limiter.clone();
    thread::spawn(move || ask(&limiter, key, now))
}

/// Evicts all keys that are as new, on a thread of its own. Returns their number.
fn evicts(limiter: &Arc<Keyed>, now: u64) -> thread::JoinHandle<usize> {
    let limiter = limiter.clone();
    thread::spawn(move || limiter.evict_at(Timestamp::from_nanos(now), 100))
}

/// Returns the number of entries, each of which has a state.
fn stored(limiter: &Keyed) -> usize {
    let mut stored = 0;
    let Ok(()) = limiter.try_for_each(|_| {
        stored += 1;
        Ok::<_, Infallible>(())
    });
    stored
}

#[test]
fn new_key_is_inserted_once() {
    explore(None, || {
        let limiter = keyed(2);
        let other = asks(&limiter, KEY, START);
        let admitted = ask(&limiter, KEY, START) + other.join().unwrap();
        assert_eq!((admitted, stored(&limiter), limiter.len()), (1, 1, 1));
    });
}

/// The only place is that of a key that is as new, in the other shard. The threads examine that
/// shard without the lock of their own one. One of them gets the place, and the other finds its
/// key.
#[test]
fn new_key_is_inserted_once_in_the_place_of_another() {
    explore(None, || {
        let limiter = keyed(1);
        assert_eq!(ask(&limiter, OTHER, START), 1);
        // The next shard to be examined is the first, and then the second.
        let _ = limiter.evict_at(Timestamp::from_nanos(START), 1);
        let other = asks(&limiter, KEY, START + FULL);
        let admitted = ask(&limiter, KEY, START + FULL) + other.join().unwrap();
        assert!(admitted <= 1, "the key has one token");
        assert!(stored(&limiter) <= 1 && limiter.len() == stored(&limiter));
    });
}

/// With two places, one of them free after an eviction: two threads insert one key, and each
/// releases its lock.
#[test]
fn key_that_was_inserted_while_its_shard_was_unlocked_is_found() {
    explore(Some(3), || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, OTHER, START) + ask(&limiter, OTHER - 1, START), 2);
        let other = asks(&limiter, KEY, START + FULL);
        let admitted = ask(&limiter, KEY, START + FULL) + other.join().unwrap();
        assert!(admitted <= 1, "the key has one token, and not one in each entry");
        assert_eq!(stored(&limiter), limiter.len());
    });
}

#[test]
fn last_place_is_taken_once() {
    explore(None, || {
        let limiter = keyed(1);
        let other = asks(&limiter, OTHER, START);
        let admitted = ask(&limiter, KEY, START) + other.join().unwrap();
        assert_eq!((admitted, stored(&limiter), limiter.len()), (1, 1, 1));
        assert_eq!(limiter.counts().no_room_refusals, 1);
    });
}

/// A request has read its clock before the bucket was full, and asks while the key is evicted or
/// after that.
#[test]
fn stale_request_of_an_evicted_key_is_refused() {
    explore(None, || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START), 1);
        let evicts = evicts(&limiter, START + FULL);
        assert_eq!(ask(&limiter, KEY, START + FULL - 1), 0, "the token was taken at the start");
        evicts.join().unwrap();
    });
}

#[test]
fn token_is_taken_once_beside_an_eviction() {
    explore(None, || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START), 1);
        let evicts = evicts(&limiter, START + FULL);
        assert_eq!(ask(&limiter, KEY, START + FULL), 1);
        evicts.join().unwrap();
        assert_eq!(ask(&limiter, KEY, START + FULL), 0, "the decision is not on an evicted state");
        assert_eq!((stored(&limiter), limiter.len()), (1, 1));
    });
}

#[test]
fn refusals_are_conserved_beside_an_eviction() {
    explore(None, || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START), 1);
        let evicts = evicts(&limiter, START + FULL);
        let refused = 1 - ask(&limiter, KEY, START);
        evicts.join().unwrap();
        let counts = limiter.counts();
        let of_key = limiter.refusals(&KEY).unwrap_or(0);
        assert_eq!(of_key + counts.evicted_refusals + counts.unstored_refusals, refused);
    });
}
