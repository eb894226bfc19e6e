//! Fair shares of tenants: their exact part, and what is refused. The simulations have the shares
//! that tenants get in the mean.

use std::collections::VecDeque;
use std::future::pending;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use leaparray::flow::adaptive::{Aimd, Headroom, LimitRange};
use leaparray::flow::shares::{FairShares, OfTenant, ShareError, TenantPermit};
use leaparray::flow::{
    AdaptiveLimiter, AllOf, Ask, ConcurrencyLimiter, Decision, Limiter, LimiterExt, QuotaUnit,
    Reason, Refusal, Retry, WaitQueue,
};
use leaparray::{Clock, ManualClock, Outcome, Permit};

use crate::flow::at;

type Fixed = BuildHasherDefault<DefaultHasher>;
type Shares = FairShares<Arc<ConcurrencyLimiter>, Fixed>;

fn shares(limit: u64, tenants: usize) -> Shares {
    let limit = Arc::new(ConcurrencyLimiter::new(limit));
    FairShares::with_hasher(limit, tenants, Fixed::default()).unwrap()
}

/// Takes permits one by one until one is refused.
fn fill<L: Limiter>(tenant: &L) -> Vec<L::Permit> {
    std::iter::from_fn(|| tenant.try_acquire().at_once().ok()).collect()
}

/// A permit that a hungry tenant holds comes back after more than half of the epochs until their
/// numbers wrap around. The permits of hungry tenants are counted as before.
#[test]
fn permit_that_comes_back_after_many_epochs_leaves_the_shares_as_they_were() {
    let shares = shares(16, 100);
    let [ann, bob] = ["ann", "bob"].map(|it| shares.tenant(it, 1));
    let mut held_long = fill(&ann);
    held_long.truncate(1);
    for _ in 0..16 * 20_000 {
        drop(bob.try_acquire().at_once().unwrap());
    }
    drop(held_long);
    let mut held = [Vec::new(), Vec::new()];
    for round in 0..100 {
        for (tenant, held) in [&ann, &bob].into_iter().zip(&mut held) {
            held.extend(fill(tenant));
        }
        let counts = held.each_ref().map(Vec::len);
        let are_shares = counts.iter().all(|it| (7..=8).contains(it));
        assert!(round < 30 || are_shares, "{counts:?} of 15 in round {round}");
        for held in &mut held {
            held.truncate(held.len().saturating_sub(1));
        }
    }
}

#[test]
fn hungry_tenants_have_their_weighted_shares() {
    let shares = shares(32, 100);
    let tenants = [("ann", 1), ("bob", 1), ("cid", 4)].map(|(it, of)| shares.tenant(it, of));
    let mut held = [(); 3].map(|()| Vec::new());
    for _ in 0..400 {
        for (tenant, held) in tenants.iter().zip(&mut held).rev() {
            held.extend(fill(tenant));
        }
        for held in &mut held {
            held.truncate(held.len().saturating_sub(1));
        }
    }
    for (tenant, held) in tenants.iter().zip(&mut held).rev() {
        held.extend(fill(tenant));
    }
    assert_eq!(held.each_ref().map(Vec::len), [5, 5, 20], "of 30");
    let refusal = tenants[0].try_acquire().refusal().unwrap();
    assert_eq!((refusal.reason, refusal.retry()), (Reason::SHARE_USED, Retry::Unknown));
    assert_eq!(tenants[0].peek_at(at(0), 1).unwrap().refusal(), Some(refusal));
    let quota = tenants[2].quota_at(at(0)).unwrap();
    assert_eq!((quota.limit, quota.remaining, quota.unit), (20, 0, QuotaUnit::InFlight));
    drop(held);
    assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
}

#[test]
fn no_tenant_is_refused_while_half_of_the_limit_is_free() {
    let shares = shares(100, 100);
    // Hungry neighbours, of which nothing is left but their hunger.
    let others: Vec<_> = (0..50).map(|it| fill(&shares.tenant(&it, 255))).collect();
    drop(others);
    let ann = shares.tenant("ann", 1);
    let mut held: Vec<_> = (0..50).map(|_| ann.try_acquire().at_once().unwrap()).collect();
    for _ in 0..400 {
        drop(held.remove(0));
        held.extend(ann.try_acquire().at_once().ok());
    }
    assert_eq!(held.len(), 50);
    held.extend(fill(&ann));
    assert_eq!(held.len(), 94, "all but the reserve: the others are no longer hungry");
}

#[test]
fn share_comes_back_with_the_permits_of_the_others() {
    let shares = shares(16, 10);
    let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 1)];
    let (mut of_ann, mut of_bob) = (fill(&ann), fill(&bob));
    assert_eq!((of_ann.len(), of_bob.len()), (15, 1));
    while of_bob.len() < 7 {
        drop(of_ann.pop().expect("bob has its share before"));
        assert!(ann.try_acquire().is_refused());
        of_bob.push(bob.try_acquire().at_once().expect("ann does not get it again"));
    }
    assert_eq!(of_ann.len(), 9);
}

/// The limiter that is asked by a peek alone has refused the request. Otherwise, the tenant that
/// asks most often keeps all that it has.
#[test]
fn refusal_by_a_peek_makes_a_tenant_hungry() {
    let shares = shares(32, 100);
    let other = ConcurrencyLimiter::new(100);
    let tenants = ["ann", "bob"].map(|it| AllOf::new((shares.tenant(it, 1), &other)));
    let (mut of_ann, mut of_bob) = (fill(&tenants[0]), fill(&tenants[1]));
    assert_eq!((of_ann.len(), of_bob.len()), (30, 2));
    for _ in 0..30 {
        drop(of_ann.remove(0));
        of_ann.extend(tenants[0].try_acquire().at_once());
        of_bob.extend(tenants[1].try_acquire().at_once());
    }
    assert_eq!((of_ann.len(), of_bob.len()), (15, 15));
}

/// Would admit each request, and then refuses it, as a limiter that another thread has used up.
struct UsedUp;

impl Limiter for UsedUp {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Refused(Refusal::new(Reason::LimitReached, Retry::Unknown))
    }

    fn peek(&self, _ask: &Ask<'_>) -> Option<Decision> {
        Some(Decision::Admitted(()))
    }
}

/// Their permits come back in no time, and an epoch is as long as a request takes. Otherwise, a
/// hungry tenant would get the permits that another one waits for.
#[test]
fn requests_that_do_not_go_ahead_end_no_hunger() {
    for is_limiter_used in [false, true] {
        let shares = shares(16, 10);
        let [ann, bob, cid] = ["ann", "bob", "cid"].map(|it| shares.tenant(it, 1));
        let (mut of_ann, of_bob) = (fill(&ann), fill(&bob));
        assert_eq!((of_ann.len(), of_bob.len()), (15, 1));
        // More than the share of either, and the limit has room.
        of_ann.truncate(13);
        for _ in 0..64 {
            let refusal = if is_limiter_used {
                // By requests that do not ask for a share.
                let _used = shares.limiter().try_acquire_many(2).at_once().unwrap();
                cid.try_acquire().refusal()
            } else {
                AllOf::new((cid, UsedUp)).try_acquire().refusal()
            };
            assert_eq!(refusal.map(|it| it.reason), Some(Reason::LimitReached));
        }
        let refusal = ann.try_acquire().refusal().expect("bob is hungry");
        assert_eq!(refusal.reason, Reason::SHARE_USED);
        // Two epochs: the requests before have not put their end off.
        for _ in 0..32 {
            drop(cid.try_acquire().at_once().unwrap());
        }
        assert!(ann.try_acquire().is_admitted(), "bob is not hungry any more");
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A queue over a tenant waits for permits of the limit, also for those of other tenants, and not
/// for the share of its tenant.
#[test]
fn queue_of_a_tenant_waits_while_the_whole_limit_is_in_use() {
    let shares = shares(32, 100);
    let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 1)];
    let mut of_ann = fill(&ann);
    let refusal = WaitQueue::new(ann).acquire_blocking(1, Duration::from_secs(60)).unwrap_err();
    assert_eq!(refusal.reason, Reason::SHARE_USED);
    let of_bob = fill(&bob);
    assert_eq!((of_ann.len(), of_bob.len()), (30, 2));
    let queue = WaitQueue::new(bob);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut waits = pin!(queue.acquire_with(1, Duration::MAX, |_| pending::<()>()));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    drop(of_ann.pop());
    assert!(!woken.0.load(Ordering::Relaxed), "the queue does not know of it");
    queue.recheck();
    assert!(woken.0.load(Ordering::Relaxed));
    let Poll::Ready(Ok(permit)) = waits.as_mut().poll(&mut context) else { panic!("one is free") };
    drop(permit);
    drop((of_ann, of_bob));
    assert_eq!((shares.in_use(), shares.limiter().in_use(), queue.waiting()), (0, 0, 0));
}

/// A look at a decision is no request.
#[test]
fn look_makes_no_tenant_hungry() {
    let shares = shares(16, 100);
    let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 1)];
    let held: Vec<_> = (0..8).map(|_| ann.try_acquire()).collect();
    assert!(bob.peek_at(at(0), 9).unwrap().is_refused());
    let quota = ann.quota_at(at(0)).unwrap();
    assert_eq!((quota.limit, quota.remaining), (15, 7), "not divided with bob");
    drop(held);
}

/// The calls of a tenant that is not hungry any more are the tenant's own, and not permits that the
/// hungry ones divide.
#[test]
fn long_calls_of_a_tenant_that_was_hungry_are_not_divided() {
    let shares = shares(32, 100);
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(|it| shares.tenant(it, 1));
    let long = ann.try_acquire_many(14);
    assert!(long.is_admitted() && ann.try_acquire_many(20).is_refused());
    for _ in 0..3 * 32 {
        assert!(cid.try_acquire().is_admitted(), "no more than half is in use");
    }
    let (mut of_bob, mut of_cid) = (fill(&bob), fill(&cid));
    for _ in 0..64 {
        of_bob.truncate(of_bob.len().saturating_sub(1));
        of_cid.truncate(of_cid.len().saturating_sub(1));
        of_bob.extend(fill(&bob));
        of_cid.extend(fill(&cid));
    }
    assert_eq!((of_bob.len(), of_cid.len()), (8, 8), "the half of 30 - 14 each");
    assert!(shares.tenant("dan", 1).try_acquire_many(2).is_admitted(), "the reserve");
}

/// The number of an epoch wraps around. A call that began more than half of all epochs ago, of a
/// tenant that was hungry then, counts in no epoch to come.
#[test]
fn call_of_a_tenant_that_was_hungry_long_ago_ends_beside_hungry_tenants() {
    let shares = shares(32, 100);
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(|it| shares.tenant(it, 1));
    for epochs in [1, 100, 16_000, 16_400, 24_000, 32_600, 32_766] {
        let long = ann.try_acquire();
        assert!(long.is_admitted() && ann.try_acquire_many(33).is_refused());
        for _ in 0..4 * epochs {
            assert!(cid.try_acquire_many(8).is_admitted());
        }
        drop(long);
        let (mut of_bob, mut of_cid) = (fill(&bob), fill(&cid));
        for _ in 0..64 {
            of_bob.truncate(of_bob.len().saturating_sub(1));
            of_cid.truncate(of_cid.len().saturating_sub(1));
            of_bob.extend(fill(&bob));
            of_cid.extend(fill(&cid));
        }
        assert_eq!((of_bob.len(), of_cid.len()), (15, 15), "after {epochs} epochs");
    }
}

/// An epoch ends by the limit in force, so the hunger of a tenant does not outlast a limit that has
/// fallen.
#[test]
fn hunger_ends_by_the_limit_in_force() {
    let shares = shares(1_000, 100);
    let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 1)];
    // The epoch begins at the high limit.
    drop(ann.try_acquire_many(500));
    drop(ann.try_acquire_many(500));
    shares.limiter().reconfigure(16);
    assert!(bob.try_acquire_many(17).is_refused());
    let mut held: Vec<_> = fill(&ann);
    assert_eq!(held.len(), 8, "half of the limit, and of 15");
    for _ in 0..2 * 16 {
        drop(held.remove(0));
        held.extend(ann.try_acquire().at_once());
    }
    held.extend(fill(&ann));
    assert_eq!(held.len(), 15, "bob has not asked for two epochs");
}

/// A share that is no whole number is right in the mean of the epochs.
#[test]
fn shares_are_rounded_right_in_the_mean() {
    let shares = shares(10, 100);
    let [ann, bob] = [shares.tenant("ann", 1), shares.tenant("bob", 3)];
    let mut sum = 0;
    for _ in 0..4_000 {
        assert!(ann.try_acquire_many(11).is_refused() && bob.try_acquire_many(11).is_refused());
        let share = ann.quota_at(at(0)).unwrap().limit;
        assert!(share == 2 || share == 3, "a quarter of 10, and not {share}");
        sum += share;
        for _ in 0..2 {
            drop(ann.try_acquire_many(5));
        }
    }
    // Four standard deviations of 4,000 coins.
    assert!((9_874..=10_126).contains(&sum), "{sum} in 4,000 epochs");
}

#[test]
fn tenants_without_room_are_admitted_while_there_is_plenty() {
    // One bucket of eight words.
    let shares = shares(100, 1);
    let held: Vec<_> = (0..50).map(|it| shares.tenant(&it, 1).try_acquire()).collect();
    assert!(held.iter().all(Decision::is_admitted));
    let refused = (50..60).filter(|it| shares.tenant(it, 1).try_acquire().is_refused()).count();
    assert_eq!(refused, 10);
    drop(held);
    assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
}

#[test]
fn settings_and_requests_out_of_range() {
    let new = |tenants| FairShares::new(Arc::new(ConcurrencyLimiter::new(1)), tenants).err();
    let max = 1 << 24;
    assert_eq!(new(0), Some(ShareError::Tenants { tenants: 0, max }));
    assert_eq!(new(max + 1), Some(ShareError::Tenants { tenants: max + 1, max }));
    let shares = shares(ConcurrencyLimiter::MAX_LIMIT, 10);
    let ann = shares.tenant("ann", 0);
    for permits in [1 << 24, 1 << 63, u64::MAX] {
        assert!(ann.try_acquire_many(permits).is_refused(), "{permits}");
    }
    let most = ann.try_acquire_many((1 << 24) - 1);
    assert!(most.is_admitted() && ann.try_acquire().is_refused());
    assert!(ann.try_acquire_many(0).is_admitted());
    drop(most);
    let none = self::shares(0, 10);
    assert!(none.tenant("ann", u32::MAX).try_acquire().is_refused());
    assert_eq!((shares.in_use(), none.in_use()), (0, 0));
}

#[test]
fn shares_follow_an_adaptive_limit() {
    let limit = Arc::new(AdaptiveLimiter::new(Aimd::new(LimitRange::new(1, 32, 64).unwrap())));
    let shares = FairShares::new(Arc::clone(&limit), 100).unwrap();
    let held = fill(&shares.tenant("ann", 1));
    assert_eq!(held.len(), 30);
    limit.reconfigure(Aimd::new(LimitRange::new(1, 8, 16).unwrap()));
    assert!(shares.tenant("bob", 1).try_acquire().is_refused());
    drop(held);
    assert!(shares.tenant("bob", 1).try_acquire().is_admitted());
    assert_eq!((shares.in_use(), limit.in_use()), (0, 0));
}

/// Threads ask for few tenants. The limit is never exceeded, and all books are empty in the end.
#[test]
fn limit_is_exact_and_books_balance_under_a_race() {
    let (shares, all, start) = (shares(16, 8), AtomicU64::new(0), Barrier::new(4));
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let (shares, all, start) = (&shares, &all, &start);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(number);
                let mut held = Vec::new();
                start.wait();
                for _ in 0..5_000 {
                    if held.len() > 6 || rng.u8(..3) == 0 {
                        if let Some((permits, permit)) = held.pop() {
                            all.fetch_sub(permits, Ordering::Relaxed);
                            drop(permit);
                        }
                        continue;
                    }
                    let (tenant, permits) = (shares.tenant(&rng.u8(..12), 1), rng.u64(1..3));
                    if let Ok(permit) = tenant.try_acquire_many(permits).at_once() {
                        assert!(all.fetch_add(permits, Ordering::Relaxed) + permits <= 16);
                        held.push((permits, permit));
                    }
                }
                let permits = held.iter().map(|(permits, _)| permits).sum();
                all.fetch_sub(permits, Ordering::Relaxed);
            });
        }
    });
    assert_eq!((shares.in_use(), shares.limiter().in_use()), (0, 0));
}

/// Tenants that want more than they get have all of the limit but the reserve in use, so the limit
/// is reached: it grows to the backend, which answers 100 calls at once in 10 ms.
#[test]
fn adaptive_limit_grows_while_tenants_have_all_but_the_reserve() {
    for tenants in [1, 3] {
        let clock = ManualClock::new(at(60));
        let headroom = Headroom::new(LimitRange::new(1, 10, 1_000).unwrap());
        let limit = Arc::new(AdaptiveLimiter::with_clock(headroom, clock.clone()));
        let shares = FairShares::with_hasher(Arc::clone(&limit), 100, Fixed::default());
        let shares = Arc::new(shares.unwrap());
        let mut calls = VecDeque::new();
        let mut sum = 0;
        for milli in 0..20_000 {
            clock.advance(Duration::from_millis(1));
            let now = clock.now();
            while calls.front().is_some_and(|(end, _)| *end <= now) {
                let (_, mut call): (_, TenantPermit<_, _>) = calls.pop_front().unwrap();
                call.end_at(now, Outcome::Success);
            }
            for tenant in 0..tenants {
                let tenant = OfTenant::new(Arc::clone(&shares), &tenant, 1);
                while let Ok(call) = tenant.decide(&now.into()).at_once() {
                    let rounds = calls.len() as u64 / 100 + 1;
                    calls.push_back((now.saturating_add(Duration::from_millis(10 * rounds)), call));
                }
            }
            sum += if milli < 10_000 { 0 } else { limit.limit() };
        }
        // The limit goes up and down.
        let mean = sum / 10_000;
        assert!((80..=200).contains(&mean), "a mean limit of {mean} with {tenants} tenants");
    }
}
