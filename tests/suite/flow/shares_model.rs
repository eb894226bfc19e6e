//! Fair shares against a plain model, alone and inside of what combines limiters.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use leaparray::flow::shadow::{Mode, Shadow};
use leaparray::flow::shares::{FairShares, OfTenant, TenantPermit};
use leaparray::flow::{AllOf, ConcurrencyLimiter, LimiterExt, Reason};

type Shares = Arc<FairShares<Arc<ConcurrencyLimiter>, BuildHasherDefault<DefaultHasher>>>;
type Held = TenantPermit<<Arc<ConcurrencyLimiter> as leaparray::flow::Limiter>::Permit, Shares>;

struct Tenant {
    weight: u64,
    held: u64,
    /// The epoch of its last refusal.
    refused_in: Option<u64>,
}

/// The tenants as a list, whose sums are added up for each decision.
struct Model {
    limit: u64,
    in_use: u64,
    epoch: u64,
    /// The permits that have come back in the epoch.
    returned: u64,
    tenants: Vec<Tenant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Admitted,
    Refused(Reason),
    /// The share is no whole number, and is rounded up or down.
    Either,
}

impl Model {
    fn is_hungry(&self, tenant: &Tenant) -> bool {
        tenant.refused_in.is_some_and(|it| self.epoch - it <= 1)
    }

    fn expected(&self, number: usize, permits: u64) -> Expected {
        let tenant = &self.tenants[number];
        if permits == 0 {
            return Expected::Admitted;
        }
        if self.in_use + permits > self.limit {
            return Expected::Refused(Reason::LimitReached);
        }
        if self.in_use + permits <= (self.limit / 2).max(1) {
            return Expected::Admitted;
        }
        let is_divided = |it: &&Tenant| self.is_hungry(it) || std::ptr::eq(*it, tenant);
        let divide = || self.tenants.iter().filter(is_divided);
        let weights: u64 = divide().map(|it| it.weight).sum();
        let others = self.in_use - divide().map(|it| it.held).sum::<u64>();
        let left = (self.limit - self.limit / 16).saturating_sub(others);
        let wanted = (tenant.held + permits) * weights;
        match left * tenant.weight {
            share if wanted <= share / weights * weights => Expected::Admitted,
            share if wanted <= share.next_multiple_of(weights) => Expected::Either,
            _ => Expected::Refused(Reason::SHARE_USED),
        }
    }

    fn refuse(&mut self, number: usize) {
        self.tenants[number].refused_in = Some(self.epoch);
    }

    fn take(&mut self, number: usize, permits: u64) {
        let is_hungry = self.is_hungry(&self.tenants[number]);
        let tenant = &mut self.tenants[number];
        tenant.held += permits;
        tenant.refused_in = tenant.refused_in.filter(|_| is_hungry);
        self.in_use += permits;
    }

    fn give_back(&mut self, number: usize, permits: u64) {
        self.tenants[number].held -= permits;
        self.in_use -= permits;
        self.returned += permits;
        if permits > 0 && self.returned >= self.limit.max(1) {
            (self.epoch, self.returned) = (self.epoch + 1, 0);
        }
    }
}

/// Each decision is that of the model, while the limit changes, also to 0, and permits come back in
/// any order and on other threads.
#[test]
fn decisions_are_those_of_a_list_of_tenants() {
    let mut either = 0;
    for seed in 0..200 {
        let rng = &mut Rng::with_seed(seed);
        let limit = rng.u64(..70);
        let limiter = Arc::new(ConcurrencyLimiter::new(limit));
        let shares: Shares =
            Arc::new(FairShares::with_hasher(Arc::clone(&limiter), 100, <_>::default()).unwrap());
        // Beside the limit, and sometimes in use.
        let other = ConcurrencyLimiter::new(8);
        let tenant = |rng: &mut Rng| Tenant { weight: rng.u64(1..9), held: 0, refused_in: None };
        let tenants = (0..rng.usize(1..7)).map(|_| tenant(rng)).collect();
        let mut model = Model { limit, in_use: 0, epoch: 0, returned: 0, tenants };
        let mut held = Vec::<(usize, u64, Held)>::new();
        let mut beside = Vec::new();
        for step in 0..1_000 {
            let number = rng.usize(..model.tenants.len());
            let permits = if rng.u8(..4) == 0 { rng.u64(..12) } else { 1 };
            let weight = model.tenants[number].weight.try_into().unwrap();
            let of = OfTenant::new(Arc::clone(&shares), &number, weight);
            let expected = model.expected(number, permits);
            let context = || format!("seed {seed}, step {step}, {number} asks for {permits}");
            let decision = match rng.u8(..16) {
                0 => {
                    model.limit = if rng.u8(..3) == 0 { 0 } else { rng.u64(..70) };
                    limiter.reconfigure(model.limit);
                    continue;
                }
                1..=6 => {
                    if !held.is_empty() {
                        let (number, permits, permit) = held.swap_remove(rng.usize(..held.len()));
                        if rng.u8(..16) == 0 {
                            thread::scope(|scope| scope.spawn(|| drop(permit)).join().unwrap());
                        } else {
                            drop(permit);
                        }
                        model.give_back(number, permits);
                    }
                    continue;
                }
                7 => {
                    let found = of.peek_at(leaparray::Timestamp::MIN, permits).unwrap();
                    match expected {
                        Expected::Admitted => assert!(found.is_admitted(), "{}", context()),
                        Expected::Refused(_) => assert!(found.is_refused(), "{}", context()),
                        Expected::Either => {}
                    }
                    continue;
                }
                8 => {
                    beside.truncate(rng.usize(..9));
                    beside.extend(other.try_acquire_many(rng.u64(..9)).at_once());
                    continue;
                }
                9..=10 => {
                    let both = AllOf::new((of, &other));
                    let is_free = other.in_use() + permits <= 8 || permits == 0;
                    match both.try_acquire_many(permits).at_once() {
                        Ok((permit, _)) => {
                            assert!(is_free, "{}", context());
                            Ok(Some(permit))
                        }
                        Err(_) if !is_free && expected == Expected::Admitted => continue,
                        // A share that was rounded down makes hungry, and one rounded up does not.
                        Err(_) if !is_free && expected == Expected::Either => break,
                        Err(refusal) => Err(refusal),
                    }
                }
                11 => {
                    let shadow = Shadow::new(of, Mode::Shadow);
                    let refused = shadow.counts().would_refuse;
                    let permit = shadow.try_acquire_many(permits).at_once().unwrap();
                    if shadow.counts().would_refuse > refused {
                        drop(permit);
                        assert_ne!(expected, Expected::Admitted, "{}", context());
                        model.refuse(number);
                    } else {
                        drop(permit);
                        model.take(number, permits);
                        model.give_back(number, permits);
                    }
                    continue;
                }
                _ => of.try_acquire_many(permits).at_once().map(Some),
            };
            match (decision, expected) {
                (Ok(Some(permit)), Expected::Admitted | Expected::Either) => {
                    held.push((number, permits, permit));
                    model.take(number, permits);
                }
                (Err(_), Expected::Refused(_) | Expected::Either) => model.refuse(number),
                (decision, _) => panic!("{decision:?}, not {expected:?}: {}", context()),
            }
            either += u32::from(expected == Expected::Either);
            assert_eq!((shares.in_use(), limiter.in_use()), (model.in_use, model.in_use));
        }
        drop(held);
        assert_eq!((shares.in_use(), limiter.in_use()), (0, 0), "seed {seed}");
    }
    assert!(either > 100, "{either} shares that are no whole numbers");
}
