//! The memory of keyed limiters: of 100,000 keys, of a limiter whose keys were evicted, and during
//! an attack.
//!
//! This is a separate file because the profiler counts the allocations of the whole process.

use std::time::Duration;

use leaparray::flow::{Keyed, Rate, TokenBucket};
use leaparray::{Clock, ManualClock, Timestamp};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const KEYS: usize = 100_000;

fn bytes() -> usize {
    dhat::HeapStats::get().curr_bytes
}

/// One request a second, bursts of five.
fn keyed<K>(max_keys: usize, clock: &ManualClock) -> Keyed<K, TokenBucket<ManualClock>> {
    let limit = TokenBucket::with_clock(Rate::per_second(1).unwrap(), 5, clock.clone());
    Keyed::new(limit, max_keys).unwrap()
}

/// 26 bytes for a key of type `u64` and 46 for a `String`, as in the description of the type, and
/// two more for the fill of the tables, which differs.
#[test]
fn keys_stay_within_their_budget_and_an_attack_within_that_of_the_cap() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let clock = ManualClock::new(Timestamp::from_secs(60));

    let made = || {
        let empty = bytes();
        let limiter = keyed::<u64>(KEYS, &clock);
        (empty, bytes() - empty, limiter)
    };
    // The test harness's own thread allocates for a while after it has started this one.
    let shards = [(); 5].map(|()| made().1).into_iter().min().unwrap();
    // Besides, the settings take some hundred bytes.
    assert!((shards - 256) * 8 <= KEYS + 64 * 8, "1/8 of a byte for each key of the cap: {shards}");
    let (empty, _, limiter) = made();
    assert!((0..KEYS as u64).all(|key| limiter.try_acquire(&key).is_admitted()));
    let full = bytes() - empty;
    assert!(full <= 28 * KEYS, "{full} bytes");

    // The cap is full: ten times as many keys, and later as many again, in the places of keys that
    // are as new.
    for _ in 0..2 {
        for key in 1..=10 * KEYS as u64 {
            let _ = limiter.try_acquire(&(key << 32));
        }
        let attacked = bytes() - empty;
        assert!(limiter.len() <= KEYS && attacked <= 30 * KEYS, "{attacked} bytes");
        clock.advance(Duration::from_secs(2));
    }
    clock.advance(Duration::from_secs(60));
    limiter.evict_at(clock.now(), usize::MAX);
    let evicted = bytes() - empty;
    assert!(limiter.is_empty() && evicted <= KEYS / 2, "{evicted} bytes");
    drop(limiter);

    let text = |number: usize| format!("client-{number:06}");
    let empty = bytes();
    let limiter = keyed::<String>(KEYS, &clock);
    assert!((0..KEYS).all(|number| limiter.try_acquire(&text(number)).is_admitted()));
    let full = bytes() - empty;
    assert!(full <= (48 + text(0).len()) * KEYS, "{full} bytes");
}
