//! Limiters of the routes that are made by hand, where the rules of a file are not used.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Resource;
use leaparray::flow::adaptive::Headroom;
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{
    AdaptiveLimiter, BoxLimiter, CircuitBreaker, CircuitConfig, LimiterExt, SlidingWindowLimiter,
};

use crate::Args;
use crate::metrics::Metrics;
use crate::route::Route;

/// The limiter of each route that has one.
#[derive(Clone)]
pub(crate) struct ByHand([Option<BoxLimiter>; Route::COUNT]);

impl ByHand {
    /// Makes the limiters that the arguments ask for. All have the clock of the metrics.
    pub(crate) fn new(args: &Args, metrics: &Metrics) -> Result<Self, Box<dyn Error>> {
        let clock = || metrics.registry.clock().clone();
        let mut limiters = [const { None }; Route::COUNT];
        let limited = SlidingWindowLimiter::with_clock(Duration::from_secs(1), 300, clock())?;
        limiters[Route::Limited as usize] = Some(limited.boxed());
        if args.adaptive {
            let adaptive = AdaptiveLimiter::with_clock(Headroom::default(), clock());
            limiters[Route::Slow as usize] = Some(Arc::new(adaptive).boxed());
        }
        if args.circuit {
            let config = CircuitConfig::default()
                .exception_ratio(RatioLimit::at_least(0.3)?)
                .wait(Wait::new(Duration::from_secs(1)));
            let breaker = CircuitBreaker::with_clock(config, clock());
            limiters[Route::Failing as usize] = Some(Arc::new(breaker).boxed());
        }
        // For the page and for `/metrics`.
        for (route, limiter) in Route::ALL.into_iter().zip(&limiters) {
            if let Some(limiter) = limiter {
                metrics.registry.watch(route.path(), Arc::clone(limiter))?;
            }
        }
        Ok(Self(limiters))
    }

    /// Returns the limiter of a resource; `None` if it has none.
    pub(crate) fn of(&self, resource: &Resource) -> Option<BoxLimiter> {
        self.0[Route::of_path(resource.name())? as usize].clone()
    }
}
