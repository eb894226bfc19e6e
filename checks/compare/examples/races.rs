//! Counts how often the limiters of the page exceed their limit when threads race.
//!
//! In each round, four threads start together, and each asks for as many requests as all may have
//! together. The limits are per hour, or on the requests in flight, so that time plays no part.
//! Prints how many rounds admitted more than the limit. Fails if leaparray or governor exceeds the
//! limit.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
const LIMIT: u32 = 20;
const ROUNDS: usize = 10_000;

fn main() {
    let leaparray = count("leaparray, rate", leaparray_rate());
    let in_flight = count("leaparray, in flight", leaparray_in_flight());
    let governor = count("governor", governor());
    count("limitador", limitador());
    count("trypema", trypema());
    count("sentinel-core, in flight", sentinel());
    assert_eq!([leaparray, in_flight, governor], [0; 3], "rounds above the limit");
}

/// Runs all rounds, prints and returns the number of rounds that admitted more than the limit. The
/// permits of a round are dropped after all threads have asked.
fn count<P>(name: &str, ask: impl Fn(usize) -> Option<P> + Sync) -> usize {
    let (start, barrier) = (Barrier::new(THREADS), Barrier::new(THREADS));
    let admitted: Vec<AtomicU32> = (0..ROUNDS).map(|_| AtomicU32::new(0)).collect();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for (round, admitted) in admitted.iter().enumerate() {
                    start.wait();
                    let permits = [(); LIMIT as usize].map(|()| ask(round));
                    let count = permits.iter().flatten().count();
                    admitted.fetch_add(u32::try_from(count).expect("small"), Ordering::Relaxed);
                    barrier.wait();
                    drop(permits);
                }
            });
        }
    });
    let admitted: Vec<u32> = admitted.into_iter().map(AtomicU32::into_inner).collect();
    let above = admitted.iter().filter(|&&count| count > LIMIT).count();
    let most = admitted.iter().max().expect("there are rounds");
    println!("{name}: {above} of {ROUNDS} rounds above {LIMIT}, at most {most}");
    above
}

fn leaparray_rate() -> impl Fn(usize) -> Option<()> + Sync {
    use leaparray::flow::{Keyed, SlidingWindowLimiter};
    use leaparray::{ManualClock, Timestamp, WindowConfig};

    let clock = ManualClock::new(Timestamp::from_secs(7_200));
    let hour = WindowConfig::new(60, Duration::from_secs(3_600)).expect("divides");
    let make = {
        let clock = clock.clone();
        move || {
            SlidingWindowLimiter::of_buckets_with_clock(hour, u64::from(LIMIT), clock.clone())
                .expect("small")
        }
    };
    let limiter = Keyed::<usize, _>::new((make, clock), 100_000).expect("a cap");
    move |round| limiter.try_acquire(&round).at_once().ok()
}

fn leaparray_in_flight() -> impl Fn(usize) -> Option<Box<dyn Send>> + Sync {
    use leaparray::flow::LimiterExt;

    let limiter = Arc::new(leaparray::flow::ConcurrencyLimiter::new(u64::from(LIMIT)));
    move |_| Some(Box::new(limiter.try_acquire().at_once().ok()?))
}

fn governor() -> impl Fn(usize) -> Option<()> + Sync {
    use governor::{Quota, RateLimiter};

    let limiter = RateLimiter::keyed(Quota::per_hour(NonZeroU32::new(LIMIT).expect("positive")));
    move |round| limiter.check_key(&round).ok()
}

fn limitador() -> impl Fn(usize) -> Option<()> + Sync {
    use limitador::RateLimiter;
    use limitador::limit::{Context, Limit, Predicate};
    use std::collections::HashMap;

    let limiter = RateLimiter::new(100_000);
    let user = vec!["user".try_into().expect("an expression")];
    limiter.add_limit(Limit::new("shop", u64::from(LIMIT), 3_600, Vec::<Predicate>::new(), user));
    move |round| {
        let context = Context::from(HashMap::from([("user".to_owned(), round.to_string())]));
        let result = limiter.check_rate_limited_and_update(&"shop".into(), &context, 1);
        (!result.expect("in memory").limited).then_some(())
    }
}

fn trypema() -> impl Fn(usize) -> Option<()> + Sync {
    use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize, local};

    let provider = local::LocalRateLimiterProvider::builder()
        .window_size(WindowSize::hours_or_panic(1))
        .disable_cleanup()
        .build()
        .expect("valid");
    let rate = RateLimit::per_hour_or_panic(f64::from(LIMIT));
    move |round| {
        let decision = provider.absolute().inc(&round.to_string(), &rate, 1);
        matches!(decision, RateLimitDecision::Allowed).then_some(())
    }
}

fn sentinel() -> impl Fn(usize) -> Option<ExitOnDrop> + Sync {
    use sentinel_core::{EntryBuilder, isolation};

    let resource = String::from("orders");
    let rule = isolation::Rule { resource, threshold: LIMIT, ..Default::default() };
    isolation::load_rules(vec![Arc::new(rule)]);
    |_| EntryBuilder::new("orders".into()).build().ok().map(ExitOnDrop)
}

/// An entry of sentinel-core that ends when it is dropped.
struct ExitOnDrop(sentinel_core::base::EntryStrongPtr);

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        self.0.exit();
    }
}
