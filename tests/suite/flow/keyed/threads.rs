//! Real threads, at given times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use leaparray::flow::{Ask, ConcurrencyLimiter, Decision, Keyed, Limiter, TokenBucket};

use super::{Same, keyed};
use crate::flow::{at, ms, rate};

/// Threads ask for few keys at a shared time that moves on, while keys are evicted and places are
/// scarce. No key gets more than its burst and what was added.
#[test]
fn no_key_exceeds_its_rate_while_keys_are_evicted() {
    const KEYS: u64 = 40;
    const STEPS: u64 = 20_000;
    let limiter = keyed!(TokenBucket::new(rate(1, 10), 3), 30, ms(5));
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

/// A limiter that stops a request for [`STOPPED`](Self::STOPPED) permits, under the lock of its
/// shard, between two barriers.
struct Stopping<'a> {
    bucket: TokenBucket,
    barriers: &'a [Barrier; 2],
}

impl Stopping<'_> {
    const STOPPED: u64 = 7;
}

impl Limiter for Stopping<'_> {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        if ask.permits() == Self::STOPPED {
            for barrier in self.barriers {
                barrier.wait();
            }
        }
        self.bucket.decide(ask)
    }
}

#[test]
fn thread_that_is_stopped_in_a_shard_delays_no_key_of_another_one() {
    const KEYS: u64 = 16;
    let barriers = [Barrier::new(2), Barrier::new(2)];
    let bucket = || TokenBucket::new(rate(1, 3_600_000), 1).with_max_lead(Duration::MAX);
    let stopping = || Stopping { bucket: bucket(), barriers: &barriers };
    let limiter = keyed!(stopping, 16, Duration::MAX);
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

type Concurrency = Keyed<u64, fn() -> ConcurrencyLimiter, Same>;
type Permit = <Arc<ConcurrencyLimiter> as Limiter>::Permit;

/// The permits at once of a key with a [`ConcurrencyLimiter`] of its own.
const AT_ONCE: u64 = 2;

/// Threads take the permits of few keys, and each drops permits that another one has taken, while
/// keys are evicted without a keep time and places are scarce. An evicted limiter would be replaced
/// by one that has all permits.
#[test]
fn no_key_exceeds_its_concurrency_while_keys_are_evicted() {
    let make: fn() -> ConcurrencyLimiter = || ConcurrencyLimiter::new(AT_ONCE);
    let limiter = keyed!(make, 4, Duration::ZERO);
    hold_and_drop(&limiter);
    assert!(limiter.evict_at(at(60_000), 100) <= 4 && limiter.is_empty(), "{limiter:?}");
    assert!(limiter.counts().evicted_keys > 100, "{limiter:?}");
}

/// Takes permits on three threads, drops all of them there, and evicts keys on a fourth one.
fn hold_and_drop(limiter: &Concurrency) {
    const KEYS: usize = 6;
    const STEPS: u64 = 50_000;
    let in_use: [AtomicU64; KEYS] = [(); KEYS].map(|()| AtomicU64::new(0));
    let held: Mutex<Vec<(usize, Permit)>> = Mutex::default();
    let (start, now) = (Barrier::new(4), at(60_000));
    let give_back = |(key, permit): (usize, Permit)| {
        in_use[key].fetch_sub(1, Ordering::Relaxed);
        drop(permit);
    };
    let take = |seed| {
        let mut random = generator(seed);
        start.wait();
        for _ in 0..STEPS {
            let number = random();
            let key = usize::try_from(number / 2 % KEYS as u64).unwrap();
            // In two shards.
            let of_shard = (key as u64) << 63 | key as u64;
            if let Ok(permit) = limiter.try_acquire_at(&of_shard, now, 1).at_once() {
                let others = in_use[key].fetch_add(1, Ordering::Relaxed);
                assert!(others < AT_ONCE, "{others} permits of key {key} beside this one");
                held.lock().unwrap().push((key, permit));
            }
            assert!(limiter.len() <= 4);
            if number.is_multiple_of(2) {
                // Of any thread.
                let taken = held.lock().unwrap().pop();
                taken.into_iter().for_each(give_back);
            }
        }
    };
    thread::scope(|scope| {
        let takers: Vec<_> = (1..4).map(|seed| scope.spawn(move || take(seed))).collect();
        start.wait();
        while takers.iter().any(|taker| !taker.is_finished()) {
            let _ = limiter.evict_at(now, 10);
        }
    });
    held.into_inner().unwrap().into_iter().for_each(give_back);
}

/// Keys without a place share one state. At one time, all of them together get its tokens, and no
/// more.
#[test]
fn keys_without_a_place_get_the_tokens_of_one_bucket() {
    const TOKENS: u64 = 500_000;
    let limit = TokenBucket::new(rate(1, 1), TOKENS);
    let limiter = keyed!(limit, 1, Duration::MAX).with_overflow();
    let now = at(60_000);
    // The only place.
    assert!(limiter.try_acquire_at(&0, now, 1).is_admitted());
    let start = Barrier::new(4);
    let take = |thread: u64| {
        start.wait();
        let requests = 1..=TOKENS;
        let keys = requests.map(|request| thread << 62 | request);
        keys.take_while(|key| limiter.try_acquire_at(key, now, 1).is_admitted()).count() as u64
    };
    let admitted: u64 = thread::scope(|scope| {
        let takers = [0, 1, 2, 3].map(|thread| scope.spawn(move || take(thread)));
        takers.map(|taker| taker.join().unwrap()).iter().sum()
    });
    assert_eq!((admitted, limiter.len()), (TOKENS, 1));
    assert_eq!(limiter.counts().no_room_refusals, 4, "each thread has ended with a refusal");
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
