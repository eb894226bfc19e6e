//! Real threads, at given times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use leaparray::flow::TokenBucketPerKey;

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
