//! Tests of a limiter in an epoch, on one thread: it decides as a limiter of one word does.

use super::{ConcurrencyLimiter, ConcurrencyPermit, Held};
use crate::flow::contract::{Decision, LimiterExt, Retry};

type Permits<'a> = Vec<ConcurrencyPermit<&'a ConcurrencyLimiter>>;

/// Begins an epoch. Panics if none is running afterwards.
fn begin(limiter: &ConcurrencyLimiter) {
    limiter.begin_epoch();
    assert!(limiter.is_striped());
}

fn take<'a>(limiter: &'a ConcurrencyLimiter, permits: u64, held: &mut Permits<'a>) -> Decision {
    match limiter.try_acquire_many(permits) {
        Decision::Admitted(permit) => {
            held.push(permit);
            Decision::Admitted(())
        }
        Decision::Refused(refusal) => Decision::Refused(refusal),
        Decision::Wait(_) => unreachable!("the limiter has no clock"),
    }
}

#[test]
fn decisions_and_readings_in_epochs_are_those_of_one_word() {
    let [striped, direct] = [(); 2].map(|()| ConcurrencyLimiter::new(1_000));
    let both = [&striped, &direct];
    let mut held = [Permits::new(), Permits::new()];
    let (mut rng, mut epochs, mut refused) = (fastrand::Rng::with_seed(1), 0, 0);
    for step in 0..60_000 {
        if rng.u64(..8) == 0 {
            striped.begin_epoch();
        }
        epochs += u32::from(striped.is_striped());
        let permits = [1, 1, 1, 2, 3, 40, 500][rng.usize(..7)];
        match rng.u64(..80) {
            0 => assert_eq!(striped.in_use(), direct.in_use(), "step {step}"),
            1 => {
                let limit = 900 + rng.u64(..200);
                for it in both {
                    it.reconfigure(limit);
                }
            }
            2..8 => assert_eq!(striped.peek(permits), direct.peek(permits), "step {step}"),
            8..44 if !held[0].is_empty() => {
                let which = rng.usize(..held[0].len());
                for held in &mut held {
                    drop(held.swap_remove(which));
                }
            }
            _ => {
                let [one, other] = &mut held;
                let decision = take(&striped, permits, one);
                assert_eq!(decision, take(&direct, permits, other), "step {step}");
                refused += u32::from(decision.is_refused());
            }
        }
    }
    assert!(!direct.is_striped() && epochs > 20_000 && refused > 1_000, "{epochs}, {refused}");
    drop(held);
    assert_eq!(both.map(ConcurrencyLimiter::in_use), [0, 0]);
}

#[test]
fn permits_of_before_an_epoch_are_given_back_in_it() {
    let limiter = ConcurrencyLimiter::new(100);
    let before = limiter.try_acquire_many(60);
    begin(&limiter);
    let during = limiter.try_acquire_many(3);
    drop(before);
    assert!(limiter.is_striped());
    assert_eq!(limiter.in_use(), 3);
    assert!(!limiter.is_striped(), "the reading has ended the epoch");
    drop(during);
    assert_eq!(limiter.in_use(), 0);
}

#[test]
fn permits_for_which_no_stripe_has_room_end_the_epoch() {
    let limiter = ConcurrencyLimiter::new(u64::MAX);
    assert_eq!(limiter.limit(), ConcurrencyLimiter::MAX_LIMIT);
    let [many, more] = [1 << 40, 1 << 15].map(|permits| limiter.try_acquire_many(permits));
    begin(&limiter);
    drop(more);
    assert!(limiter.is_striped(), "32,768 permits, and a stripe has room for as many");
    drop(many);
    assert!(!limiter.is_striped());
    assert_eq!(limiter.in_use(), 0);
    let all = limiter.try_acquire_many(ConcurrencyLimiter::MAX_LIMIT);
    assert!(all.is_admitted());
    let refusal = limiter.try_acquire_many(1 << 63).refusal().expect("more than the limit");
    assert_eq!(refusal.retry(), Retry::Never);
}

#[test]
fn lower_limit_applies_to_the_next_request_in_an_epoch() {
    let limiter = ConcurrencyLimiter::new(100);
    begin(&limiter);
    limiter.reconfigure(0);
    assert!(limiter.try_acquire().is_refused());
    limiter.reconfigure(100);
    begin(&limiter);
    limiter.reconfigure(101);
    let all = limiter.try_acquire_many(101);
    assert!(all.is_admitted(), "one more than the stripes have");
}

#[test]
fn few_permits_are_not_divided() {
    let limiter = ConcurrencyLimiter::new(15);
    limiter.begin_epoch();
    assert!(!limiter.is_striped());
    limiter.reconfigure(16);
    begin(&limiter);
}

#[test]
fn limiter_has_no_epoch_once_its_words_are_used_up() {
    let limiter = ConcurrencyLimiter::new(100);
    let held = limiter.try_acquire();
    begin(&limiter);
    assert_eq!(limiter.in_use(), 1);
    limiter.skip_epochs_but(1);
    begin(&limiter);
    drop(held);
    let all = limiter.try_acquire_many(100);
    assert!(all.is_admitted() && limiter.try_acquire().is_refused());
    drop(all);
    limiter.begin_epoch();
    assert!(!limiter.is_striped());
    assert_eq!(limiter.in_use(), 0);
    assert!(limiter.try_acquire().is_admitted());
}

/// Single permits of before an epoch are given back in it. Half of the balance is for the threads
/// that do so at once.
#[test]
fn thread_that_finds_half_of_the_balance_used_ends_the_epoch() {
    const HALF: u64 = 1 << 23;
    let limiter = ConcurrencyLimiter::new(u64::MAX);
    let _kept = limiter.try_acquire_many(2 * HALF).map(std::mem::forget);
    begin(&limiter);
    let give_back = || limiter.give_back(Held::of_word(1));
    (0..HALF).for_each(|_| give_back());
    assert!(limiter.is_striped());
    give_back();
    assert!(!limiter.is_striped());
    assert_eq!(limiter.in_use(), HALF - 1);
}

/// A compare-exchange that fails although the word is unchanged has lost to no other thread. If it
/// began an epoch, threads could begin and end epochs for ever without an admission.
#[test]
fn epoch_begins_only_after_another_thread_has_changed_the_word() {
    let limiter = ConcurrencyLimiter::new(100);
    let _kept = limiter.try_acquire_many(10);
    let word = limiter.load();
    assert_eq!(limiter.contend(word, word, 1), word);
    assert!(limiter.load() == word, "no epoch has begun");
    // The other thread has taken a permit, or has given one back.
    for expected in [word - 1, word + 1] {
        let epoch_word = limiter.contend(expected, word, 1);
        assert!(limiter.is_striped() && epoch_word == limiter.load());
        assert_eq!(limiter.contend(word, epoch_word, 1), epoch_word, "it is in an epoch already");
        assert_eq!(limiter.in_use(), 10, "the reading ends the epoch");
    }
}
