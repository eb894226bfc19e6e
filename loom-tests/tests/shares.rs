//! The shares of tenants: the limit is exact, and each permit goes back where it was taken.
#![cfg(loom)]

use std::hash::{BuildHasherDefault, DefaultHasher};

use leaparray::flow::shares::{FairShares, OfTenant};
use leaparray::flow::{ConcurrencyLimiter, LimiterExt};
use leaparray::{Permit, shadow_all_words};
use leaparray_loom_tests::{explore, start};
use loom::sync::Arc;
use loom::thread;

type Limit = std::sync::Arc<ConcurrencyLimiter>;
type Shares = FairShares<Limit, BuildHasherDefault<DefaultHasher>>;

fn shares(limit: u64) -> Arc<Shares> {
    shadow_all_words();
    let limit = Limit::new(ConcurrencyLimiter::new(limit));
    Arc::new(FairShares::with_hasher(limit, 1, BuildHasherDefault::default()).unwrap())
}

fn take(shares: &Arc<Shares>, tenant: u8) -> Option<impl Permit + use<>> {
    take_many(shares, tenant, 1)
}

fn take_many(shares: &Arc<Shares>, tenant: u8, permits: u64) -> Option<impl Permit + use<>> {
    OfTenant::new(shares.clone(), &tenant, 1).try_acquire_many(permits).at_once().ok()
}

/// The tenant that holds a permit gives it back, while another one is refused and so hungry, or
/// gets it. Nothing is left in the books.
#[test]
fn permit_goes_back_beside_a_refusal() {
    explore(Some(2), || {
        let shares = shares(1);
        let held = take(&shares, 1);
        assert!(held.is_some());
        let other = shares.clone();
        let other = thread::spawn(move || drop(take(&other, 2)));
        drop(held);
        other.join().unwrap();
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
        assert!(take(&shares, 2).is_some() && take(&shares, 1).is_some());
    });
}

#[test]
fn last_permit_is_taken_once() {
    explore(Some(2), || {
        let shares = shares(2);
        let held = take(&shares, 1);
        let other = shares.clone();
        let other = thread::spawn(move || take(&other, 2));
        let own = take(&shares, 3);
        let other = other.join().unwrap();
        assert!(!(own.is_some() && other.is_some()));
        drop((held, own, other));
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
    });
}

/// A thread gives a permit back. Another one that finds it in the count of the shares finds it in
/// the limiter as well.
#[test]
fn request_that_finds_room_in_the_shares_finds_it_in_the_limiter() {
    explore(Some(2), || {
        let shares = shares(1);
        let held = take(&shares, 1);
        assert!(held.is_some());
        let other = thread::spawn(move || drop(held));
        let is_free = shares.in_use() == 0;
        let taken = take(&shares, 2);
        assert!(taken.is_some() || !is_free, "room in the shares, and none in the limiter");
        drop(taken);
        other.join().unwrap();
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
    });
}

/// Two requests of one tenant at once have one slot or two. The permits of each go back to its own.
#[test]
fn requests_of_one_tenant_balance() {
    explore(Some(1), || {
        let shares = shares(4);
        let other = shares.clone();
        let other = thread::spawn(move || take(&other, 1).is_some());
        assert!(take(&shares, 1).is_some());
        assert!(other.join().unwrap());
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
    });
}

/// Another tenant is hungry, so each may hold about half of the permits. Two requests of a tenant
/// are within its share, but not both: the later one is refused after it has taken its permits.
#[test]
fn overtaken_request_of_a_tenant_leaves_nothing_in_use() {
    explore(Some(1), || {
        let shares = shares(8);
        let held = take_many(&shares, 2, 2);
        assert!(held.is_some() && take_many(&shares, 2, 7).is_none());
        let other = shares.clone();
        let other = thread::spawn(move || take_many(&other, 1, 3).is_some());
        drop(take_many(&shares, 1, 3));
        other.join().unwrap();
        drop(held);
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
    });
}

/// An epoch ends, and a tenant is refused, while two of its three permits come back. Only the third
/// one is among those of hungry tenants then: they divide six permits, besides the two of a tenant
/// that is not hungry.
#[test]
fn permit_that_comes_back_is_no_hungry_one() {
    explore(Some(2), || {
        let shares = shares(8);
        // The next permit that comes back ends the epoch.
        for permits in [4, 3] {
            drop(take_many(&shares, 2, permits));
        }
        let sated = take_many(&shares, 3, 2);
        let (kept, returned, last) = (take(&shares, 1), take_many(&shares, 1, 2), take(&shares, 2));
        assert!(sated.is_some() && kept.is_some() && returned.is_some() && last.is_some());
        let other = shares.clone();
        let other = thread::spawn(move || {
            drop(last);
            assert!(take_many(&other, 1, 8).is_none());
        });
        drop(returned);
        other.join().unwrap();
        let share = OfTenant::new(shares.clone(), &2_u8, 1).quota_at(start(0)).unwrap();
        assert_eq!(share.limit, 3);
        drop((sated, kept));
        assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
    });
}
