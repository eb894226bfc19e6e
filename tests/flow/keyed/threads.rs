//! Real threads, at given times.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::{Decision, PerKey, TokenBucketPerKey, TokenBucketState};

use super::keyed;
use crate::{at, ms, rate};

/// Threads ask for few keys at a shared time that moves on, while keys are evicted and places are scarce. No key gets more
/// than its burst and what was added.
#[test]
fn no_key_exceeds_its_rate_while_keys_are_evicted() {
    const KEYS: u64 = 40;
    const STEPS: u64 = 20_000;
    let limiter = keyed(TokenBucketPerKey::new(rate(1, 10), 3), 30, ms(5));
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let time = AtomicU64::new(60_000);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (limiter, admitted, time) = (&limiter, &admitted, &time);
            scope.spawn(move || {
                let mut random = generator(thread);
                for _ in 0..STEPS {
                    // A thread that stops here has a stale time.
                    let now = at(time.load(Ordering::Relaxed));
                    let number = random();
                    if number.is_multiple_of(4) {
                        time.fetch_add(1, Ordering::Relaxed);
                    }
                    let key = number / 4 % KEYS;
                    // In two shards.
                    if limiter.try_acquire_at(&(key << 63 | key), now, 1).is_admitted() {
                        admitted[usize::try_from(key).unwrap()].fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(limiter.len() <= 30);
                }
            });
        }
    });
    let passed = time.into_inner() - 60_000;
    for (key, admitted) in admitted.into_iter().enumerate() {
        let admitted = admitted.into_inner();
        assert!(admitted <= 3 + passed / 10, "key {key}: {admitted} in {passed} ms");
    }
    assert!(limiter.counts().evicted_keys > 100, "{limiter:?}");
}

/// A limit that stops a request for [`STOPPED`](Self::STOPPED) permits, under the lock of its shard, between two barriers.
struct Stopping<'a> {
    bucket: TokenBucketPerKey,
    barriers: &'a [Barrier; 2],
}

impl Stopping<'_> {
    const STOPPED: u64 = 7;
}

impl PerKey for Stopping<'_> {
    type State = TokenBucketState;
    type Permit = ();

    fn new_state(&self, since: Timestamp) -> TokenBucketState {
        self.bucket.new_state(since)
    }

    fn as_new_at(&self, state: &TokenBucketState, now: Timestamp) -> Option<Timestamp> {
        self.bucket.as_new_at(state, now)
    }

    fn try_acquire_at(
        &self,
        state: &mut TokenBucketState,
        now: Timestamp,
        permits: u64,
    ) -> Decision {
        if permits == Self::STOPPED {
            for barrier in self.barriers {
                barrier.wait();
            }
        }
        self.bucket.try_acquire_at(state, now, permits)
    }
}

#[test]
fn thread_that_is_stopped_in_a_shard_delays_no_key_of_another_one() {
    const KEYS: u64 = 16;
    let barriers = [Barrier::new(2), Barrier::new(2)];
    let bucket = TokenBucketPerKey::new(rate(1, 3_600_000), 1);
    let limiter = keyed(Stopping { bucket, barriers: &barriers }, 16, Duration::MAX);
    // Half of the keys in each of the two shards.
    let key = |shard: u64, number: u64| shard << 63 | number;
    for number in 0..KEYS {
        assert!(limiter.try_acquire_at(&key(number % 2, number), at(60_000), 1).is_admitted());
    }
    let (decided, decisions) = channel();
    thread::scope(|scope| {
        let limiter = &limiter;
        scope.spawn(|| limiter.try_acquire_at(&key(0, 0), at(60_000), Stopping::STOPPED));
        barriers[0].wait();
        scope.spawn(move || {
            // There is no room, and each request examines another shard.
            for number in KEYS..KEYS + 4 {
                decided.send(limiter.try_acquire_at(&key(1, number), at(60_000), 1)).unwrap();
            }
        });
        let in_time: Vec<_> =
            (0..4).map_while(|_| decisions.recv_timeout(Duration::from_secs(20)).ok()).collect();
        barriers[1].wait();
        assert_eq!(in_time.len(), 4);
        assert!(in_time.iter().all(Decision::is_refused));
    });
}

/// Returns a generator of numbers, the same for each seed: xorshift64 (Marsaglia, 2003).
fn generator(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    }
}
