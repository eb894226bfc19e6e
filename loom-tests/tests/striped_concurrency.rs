//! A limiter of the requests in flight keeps its promises while its permits are in stripes.
#![cfg(loom)]

use leaparray::Timestamp;
use leaparray::flow::{Ask, ConcurrencyLimiter, ConcurrencyPermit, Decision, LimiterExt};
use leaparray_loom_tests::explore;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};

type Held<'a> = Option<ConcurrencyPermit<&'a ConcurrencyLimiter>>;

/// Returns a limiter in an epoch: two stripes have the permits of `limit`.
fn striped(limit: u64) -> Arc<ConcurrencyLimiter> {
    let limiter = ConcurrencyLimiter::new(limit);
    limiter.begin_epoch();
    Arc::new(limiter)
}

fn take(limiter: &ConcurrencyLimiter, permits: u64) -> Held<'_> {
    limiter.try_acquire_many(permits).at_once().ok()
}

/// Takes permits that can be sent to another thread.
fn own(
    limiter: &Arc<ConcurrencyLimiter>,
    permits: u64,
) -> ConcurrencyPermit<Arc<ConcurrencyLimiter>> {
    ConcurrencyPermit::ask(limiter.clone(), &Ask::at(Timestamp::MIN).many(permits))
        .at_once()
        .unwrap()
}

fn on_thread<T: 'static>(
    limiter: &Arc<ConcurrencyLimiter>,
    act: impl FnOnce(&ConcurrencyLimiter) -> T + 'static,
) -> JoinHandle<T> {
    let limiter = limiter.clone();
    thread::spawn(move || act(&limiter))
}

/// Adds 1 to a number that is protected by permits: a load and a store are enough.
fn add(data: &AtomicU64) {
    data.store(data.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// One thread asks for one of two permits, and the other for both. They never hold them at the same
/// time, and each sees what the other has done.
#[test]
fn next_holder_of_a_permit_sees_what_the_former_one_did() {
    explore(Some(3), || {
        let (limiter, data) = (striped(2), Arc::new(AtomicU64::new(0)));
        let of_other = data.clone();
        let act = |limiter: &ConcurrencyLimiter, permits, data: &AtomicU64| {
            let permit = take(limiter, permits);
            permit.as_ref().inspect(|_| add(data)).is_some()
        };
        let other = on_thread(&limiter, move |limiter| act(limiter, 1, &of_other));
        let admitted = u64::from(act(&limiter, 2, &data)) + u64::from(other.join().unwrap());
        assert!(admitted >= 1);
        assert_eq!((data.load(Ordering::Relaxed), limiter.in_use()), (admitted, 0));
    });
}

/// Two threads ask for the last permit, which is in a stripe.
#[test]
fn next_holder_of_a_permit_of_a_stripe_sees_what_the_former_one_did() {
    explore(Some(3), || {
        let (limiter, data) = (striped(4), Arc::new(AtomicU64::new(0)));
        let held = [(); 3].map(|()| own(&limiter, 1));
        let of_other = data.clone();
        let act = |limiter: &ConcurrencyLimiter, data: &AtomicU64| {
            let permit = take(limiter, 1);
            permit.as_ref().inspect(|_| add(data)).is_some()
        };
        let other = on_thread(&limiter, move |limiter| act(limiter, &of_other));
        let admitted = u64::from(act(&limiter, &data)) + u64::from(other.join().unwrap());
        assert!(admitted >= 1);
        assert_eq!((data.load(Ordering::Relaxed), limiter.in_use()), (admitted, 3));
        drop(held);
    });
}

/// One thread gives a permit back to a stripe, another one ends the epoch, and a third one gets the
/// permit from the limiter's word.
#[test]
fn next_holder_of_a_permit_of_an_ended_epoch_sees_what_the_former_one_did() {
    explore(Some(2), || {
        let (limiter, data) = (striped(2), Arc::new(AtomicU64::new(0)));
        let permit = own(&limiter, 1);
        let ends = on_thread(&limiter, ConcurrencyLimiter::in_use);
        let of_next = data.clone();
        let next = on_thread(&limiter, move |limiter| {
            // No stripe has two permits.
            take(limiter, 2).is_none_or(|_both| of_next.load(Ordering::Relaxed) == 1)
        });
        add(&data);
        drop(permit);
        ends.join().unwrap();
        assert!(next.join().unwrap());
        assert_eq!(limiter.in_use(), 0);
    });
}

/// The first epoch begins between the load of the limiter's word and the compare-exchange of a
/// thread that takes a permit. A thread that finds the word striped finds the stripes.
#[test]
fn request_beside_the_begin_of_an_epoch_finds_its_stripes() {
    explore(Some(3), || {
        let limiter = Arc::new(ConcurrencyLimiter::new(4));
        let takes = on_thread(&limiter, |limiter| take(limiter, 1).is_some());
        limiter.begin_epoch();
        assert!(takes.join().unwrap());
        assert_eq!(limiter.in_use(), 0);
    });
}

/// As above, for a thread that gives permits back.
#[test]
fn permits_that_are_given_back_beside_the_begin_of_an_epoch_find_its_stripes() {
    explore(Some(3), || {
        let limiter = Arc::new(ConcurrencyLimiter::new(4));
        let two = own(&limiter, 2);
        let gives_back = thread::spawn(move || drop(two));
        limiter.begin_epoch();
        gives_back.join().unwrap();
        assert_eq!(limiter.in_use(), 0);
    });
}

/// Two threads hold one of three permits at a time, and the third is free.
#[test]
fn no_request_is_refused_while_a_permit_is_left() {
    explore(Some(3), || {
        let limiter = striped(3);
        let other = on_thread(&limiter, |limiter| {
            [(); 2].map(|()| take(limiter, 1).is_some()) == [true; 2]
        });
        let held = [(); 2].map(|()| take(&limiter, 1));
        assert!(held.iter().all(Option::is_some) && other.join().unwrap());
        drop(held);
        assert_eq!(limiter.in_use(), 0);
        assert!(take(&limiter, 3).is_some());
    });
}

/// Each of two threads asks for two of three permits.
#[test]
fn limit_holds_for_two_threads() {
    explore(Some(3), || {
        let limiter = striped(3);
        let other = on_thread(&limiter, |limiter| take(limiter, 2).map(std::mem::forget).is_some());
        let own = take(&limiter, 2).map(std::mem::forget).is_some();
        assert!(own != other.join().unwrap());
        assert_eq!(limiter.in_use(), 2);
    });
}

/// A permit of before the epoch and one of a stripe are given back while another thread ends the
/// epoch.
#[test]
fn permit_that_is_given_back_beside_the_end_of_an_epoch_counts_once() {
    explore(Some(3), || {
        let limiter = Arc::new(ConcurrencyLimiter::new(4));
        let before = own(&limiter, 1);
        limiter.begin_epoch();
        let during = own(&limiter, 1);
        let other = thread::spawn(move || drop((before, during)));
        let in_use = limiter.in_use();
        assert!(in_use <= 2, "{in_use}");
        other.join().unwrap();
        assert_eq!(limiter.in_use(), 0);
    });
}

/// A permit is given back while another thread begins an epoch, and then asks for all permits.
#[test]
fn permit_that_is_given_back_beside_the_begin_of_an_epoch_counts_once() {
    explore(Some(3), || {
        let limiter = Arc::new(ConcurrencyLimiter::new(4));
        let [one, two] = [1, 2].map(|permits| own(&limiter, permits));
        let other = on_thread(&limiter, |limiter| {
            limiter.begin_epoch();
            take(limiter, 4).is_some()
        });
        drop((two, one));
        let admitted = other.join().unwrap();
        assert_eq!(limiter.in_use(), 0, "{admitted}");
        assert!(take(&limiter, 4).is_some());
    });
}

/// One thread gives a permit back to a stripe, and then takes one. The other thread ends the epoch
/// and prepares the next one, which does not begin if the permit is taken from the limiter's word.
/// No permit is lost in a stripe that was prepared.
#[test]
fn stripe_in_preparation_gets_no_permits() {
    explore(Some(3), || {
        let limiter = striped(3);
        let permit = own(&limiter, 1);
        let prepares = on_thread(&limiter, |limiter| {
            let in_use = limiter.in_use();
            limiter.begin_epoch();
            in_use
        });
        drop(permit);
        let kept = own(&limiter, 1);
        assert!(prepares.join().unwrap() <= 1);
        assert_eq!(limiter.in_use(), 1);
        drop(kept);
        assert_eq!(limiter.in_use(), 0);
    });
}

/// Two threads begin epochs, take permits and give them back.
#[test]
fn permits_of_several_epochs_are_conserved() {
    explore(Some(2), || {
        let limiter = striped(4);
        let act = |limiter: &ConcurrencyLimiter| {
            limiter.begin_epoch();
            let three = take(limiter, 3);
            limiter.begin_epoch();
            three.is_some()
        };
        let other = on_thread(&limiter, act);
        let admitted = act(&limiter) | other.join().unwrap();
        assert!(admitted);
        assert_eq!(limiter.in_use(), 0);
        assert!(take(&limiter, 4).is_some());
    });
}

/// After a change of the limit has returned, no request takes permits above it.
#[test]
fn request_after_a_change_of_the_limit_finds_it() {
    explore(Some(3), || {
        let limiter = striped(4);
        let other = on_thread(&limiter, |limiter| drop(take(limiter, 1)));
        limiter.reconfigure(1);
        assert!(take(&limiter, 2).is_none());
        other.join().unwrap();
        assert!(take(&limiter, 1).is_some());
        assert_eq!(limiter.in_use(), 0);
    });
}

/// A peek beside permits that are taken from both stripes and given back: one of the three permits
/// is free during the whole call.
#[test]
fn peek_finds_a_permit_that_is_left() {
    explore(Some(3), || {
        let limiter = striped(3);
        let peeks = on_thread(&limiter, |limiter| {
            assert_eq!(limiter.peek_at(Timestamp::MIN, 1), Some(Decision::Admitted(())));
        });
        drop([(); 2].map(|()| take(&limiter, 1)));
        peeks.join().unwrap();
        assert_eq!(limiter.in_use(), 0);
    });
}
