//! The counts of refusals, by key and in all.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaparray::Timestamp;
use leaparray::flow::{
    Account, Ask, ConcurrencyLimiter, Decision, Keyed, Limiter, LimiterExt, Reason, TokenBucket,
};

use super::{Same, keyed};
use crate::flow::{at, ms, rate};

type Tokens = Keyed<u64, TokenBucket, Same>;

fn one_token() -> TokenBucket {
    TokenBucket::new(rate(1, 100), 1)
}

/// Takes the token of a key, and then asks for more.
fn refuse(limiter: &Tokens, key: u64, times: u64) {
    assert!(limiter.try_acquire_at(&key, at(60_000), 1).is_admitted());
    let refused = (0..times).all(|_| limiter.try_acquire_at(&key, at(60_000), 1).is_refused());
    assert!(refused);
}

/// A limiter that makes each request wait, also one that cannot. It is as new if it has given no
/// permits.
#[derive(Default)]
struct Delaying {
    given: AtomicU64,
}

impl Limiter for Delaying {
    type Permit = ();

    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.given.fetch_add(ask.permits(), Ordering::Relaxed);
        Decision::after((), ms(100))
    }

    fn account(&self) -> &dyn Account {
        self
    }
}

impl Account for Delaying {
    fn is_as_new(&self, _now: Timestamp) -> bool {
        self.given.load(Ordering::Relaxed) == 0
    }
}

#[test]
fn wait_of_a_request_that_cannot_wait_counts_as_a_refusal() {
    let limiter = keyed!(Delaying::default, 1, Duration::MAX).with_overflow();
    let reason = |key, permits| {
        let ask = Ask::at(at(60_000)).many(permits).at_once();
        limiter.of_key(&key).ask(&ask).refusal().map(|refusal| refusal.reason)
    };
    // Not stored, stored by this request, stored before, and without room.
    let reasons = [reason(1, 0), reason(1, 5), reason(1, 5), reason(2, 5)];
    assert_eq!(reasons, [Some(Reason::WaitTooLong); 4]);
    let counts = limiter.counts();
    assert_eq!((counts.unstored_refusals, counts.no_room_refusals), (1, 1));
    assert_eq!((limiter.refusals(&1), limiter.top_refused(1)[0].refusals), (Some(2), 2));
}

#[test]
fn top_keys_are_those_with_the_most_refusals() {
    let limiter = keyed!(one_token(), 10_000, Duration::MAX);
    // In all shards, in an order of counts that is not that of keys.
    let key_of = |rank: u64| (rank * 7_919 % 1_000) << 54 | rank;
    for rank in 0..1_000 {
        refuse(&limiter, key_of(rank), rank / 2);
    }
    for n in [0, 1, 10, 300, 998, 1_000, 2_000, usize::MAX] {
        let top = limiter.top_refused(n);
        let counts: Vec<u64> = top.iter().map(|refused| refused.refusals).collect();
        // The two keys of rank 0 and 1 have no refusals.
        let expected: Vec<u64> = (2..1_000).rev().map(|rank| rank / 2).take(n).collect();
        assert_eq!(counts, expected, "{n}");
        assert!(top.iter().all(|refused| limiter.refusals(&refused.key) == Some(refused.refusals)));
    }
}

#[test]
fn removed_key_is_as_new_and_its_refusals_are_in_the_sum() {
    let limiter = keyed!(one_token(), 1, Duration::MAX);
    refuse(&limiter, 7, 40_000);
    assert!(!limiter.remove(&8));
    assert!(limiter.remove(&7) && !limiter.remove(&7));
    let counts = limiter.counts();
    assert_eq!((counts.keys, counts.evicted_keys, counts.evicted_refusals), (0, 1, 40_000));
    refuse(&limiter, 7, 1);
    assert_eq!(limiter.refusals(&7), Some(1));
}

#[test]
fn removed_key_keeps_its_permits_in_flight() {
    let limiter = keyed!(|| ConcurrencyLimiter::new(1), 1, Duration::MAX);
    let permit = limiter.try_acquire_at(&7, at(60_000), 1).at_once().unwrap();
    assert!(limiter.remove(&7));
    let next = limiter.try_acquire_at(&7, at(60_000), 1).at_once().unwrap();
    drop(permit);
    assert!(limiter.try_acquire_at(&7, at(60_000), 1).is_refused(), "the next limiter's is in use");
    drop(next);
    assert!(limiter.try_acquire_at(&7, at(60_000), 1).is_admitted());
}

#[test]
fn refusals_of_evicted_keys_are_in_the_sum() {
    let limiter = keyed!(one_token(), 10_000, ms(0));
    for key in 0..100 {
        refuse(&limiter, key, key);
    }
    let sum_of_keys = || {
        let mut sum = 0;
        let Ok(()) = limiter.try_for_each(|key| {
            sum += key.refusals;
            Ok::<_, Infallible>(())
        });
        sum
    };
    assert_eq!(sum_of_keys(), 4_950);
    let evicted = limiter.evict_at(at(60_100), 40);
    assert!(evicted > 0);
    let counts = limiter.counts();
    assert_eq!(counts.evicted_keys, evicted as u64);
    assert_eq!(sum_of_keys() + counts.evicted_refusals, 4_950);
    limiter.evict_at(at(60_100), 1_000);
    assert_eq!((limiter.len(), limiter.counts().evicted_refusals), (0, 4_950));
}

#[test]
fn visit_ends_with_an_error() {
    let limiter = keyed!(one_token(), 10, Duration::MAX);
    for key in 0..5 {
        refuse(&limiter, key, 0);
    }
    let mut seen = 0;
    let visit = limiter.try_for_each(|_| {
        seen += 1;
        if seen == 3 { Err("enough") } else { Ok(()) }
    });
    assert_eq!((visit, seen), (Err("enough"), 3));
}
