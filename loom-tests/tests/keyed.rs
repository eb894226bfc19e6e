//! Keyed limiters: a key has one state, and an evicted key that comes back gets no more than it
//! would have had.
#![cfg(loom)]

use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use leaparray::flow::{Keyed, LimiterExt, Rate, TokenBucket};
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

type Buckets = Keyed<u64, TokenBucket<ManualClock>, Same>;

/// A key of the first shard, and one of the second.
const KEY: u64 = 1;
const OTHER: u64 = u64::MAX;

/// A bucket of one token is full again after this time, in nanoseconds.
const FULL: u64 = 100;

/// Returns a bucket of `capacity` tokens.
fn bucket(capacity: u64) -> TokenBucket<ManualClock> {
    let rate = Rate::new(1, Duration::from_nanos(FULL)).unwrap();
    TokenBucket::with_clock(rate, capacity, ManualClock::new(Timestamp::MIN))
}

/// Creates a limiter with one token for each key. A key that is as new leaves as soon as it is
/// examined.
fn keyed(max_keys: usize) -> Arc<Buckets> {
    let limiter = Keyed::with_hasher(bucket(1), max_keys, Same(0)).unwrap();
    Arc::new(limiter.with_keep(Duration::ZERO).with_max_lead(Duration::MAX))
}

const START: u64 = 1_000;

/// Asks for the token of a key. Returns the number of admitted requests.
fn ask(limiter: &Buckets, key: u64, now: u64) -> u64 {
    u64::from(limiter.try_acquire_at(&key, Timestamp::from_nanos(now), 1).is_admitted())
}

/// Calls [`ask`] on a thread of its own.
fn asks(limiter: &Arc<Buckets>, key: u64, now: u64) -> thread::JoinHandle<u64> {
    let limiter = limiter.clone();
    thread::spawn(move || ask(&limiter, key, now))
}

/// Evicts all keys that are as new, on a thread of its own. Returns their number.
fn evicts(limiter: &Arc<Buckets>, now: u64) -> thread::JoinHandle<usize> {
    let limiter = limiter.clone();
    thread::spawn(move || limiter.evict_at(Timestamp::from_nanos(now), 100))
}

/// Returns the number of entries, each of which has a state.
fn stored(limiter: &Buckets) -> usize {
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

/// The only place has a key that is as new, in the other shard. The threads examine that shard
/// without the lock of their own one. One of them gets the place, and the other finds its
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

/// A token is taken beside a change to two tokens: by the old settings, and its state is carried,
/// or by the new ones, on a carried state. Either way, the key has no token left, and the next one
/// is the only one that was added.
#[test]
fn token_is_taken_once_beside_a_change() {
    explore(None, || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START - FULL), 1);
        let others = [asks(&limiter, KEY, START), asks(&limiter, KEY, START)];
        limiter.reconfigure_at(Timestamp::from_nanos(START), bucket(2));
        assert_eq!(others.map(|other| other.join().unwrap()).iter().sum::<u64>(), 1);
        assert_eq!(
            [START, START + FULL, START + FULL].map(|now| ask(&limiter, KEY, now)),
            [0, 1, 0]
        );
    });
}

/// A key is inserted, or evicted and inserted again, beside a change to two tokens. It gets no more
/// than one that was stored all the time.
#[test]
fn key_that_is_evicted_beside_a_change_gets_no_more() {
    explore(Some(3), || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START - FULL), 1);
        let evicts = evicts(&limiter, START);
        let other = asks(&limiter, KEY, START);
        limiter.reconfigure_at(Timestamp::from_nanos(START), bucket(2));
        let admitted = ask(&limiter, KEY, START) + other.join().unwrap();
        evicts.join().unwrap();
        assert_eq!(admitted, 1, "the key had one token at the change");
    });
}

/// Two threads change the settings. All keys then have the same ones, and no token is lost.
#[test]
fn two_changes_take_turns() {
    explore(Some(3), || {
        let limiter = keyed(2);
        assert_eq!(ask(&limiter, KEY, START - FULL) + ask(&limiter, OTHER, START - FULL), 2);
        let now = Timestamp::from_nanos(START);
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.reconfigure_at(now, bucket(2)))
        };
        limiter.reconfigure_at(now, bucket(3));
        other.join().unwrap();
        let quota =
            |key: u64| limiter.of_key(&key).quota_at(now).map(|it| (it.limit, it.remaining));
        assert_eq!(quota(KEY), quota(OTHER));
        assert!([Some((2, 1)), Some((3, 1))].contains(&quota(KEY)));
    });
}
