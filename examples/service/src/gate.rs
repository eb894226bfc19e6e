//! The limiters of the routes.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Resource;
use leaparray::flow::adaptive::Headroom;
use leaparray::flow::breaker::AdaptiveBreakerConfig;
use leaparray::flow::circuit::{RatioLimit, Wait};
use leaparray::flow::{
    AdaptiveBreaker, AdaptiveLimiter, BoxLimiter, CircuitBreaker, CircuitConfig, LeakyBucket,
    LimiterExt, Rate, SlidingWindowLimiter,
};

use crate::Args;
use crate::controller::Controller;
use crate::metrics::Metrics;
use crate::route::Route;

/// The longest time that `--pace` makes a request wait.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// How long the breaker of `--circuit` stays open.
const WAIT: Wait = Wait::new(Duration::from_secs(1));

/// The limiter of each route that has one.
#[derive(Clone)]
pub(crate) struct Gates {
    limiters: [Option<BoxLimiter>; Route::COUNT],
    /// Those of the limiters whose states are shown.
    controllers: Vec<(Route, Controller)>,
}

impl Gates {
    /// Makes the limiters that the arguments ask for. All have the clock of the metrics.
    pub(crate) fn new(args: &Args, metrics: &Metrics) -> Result<Self, Box<dyn Error>> {
        let clock = || metrics.registry.clock().clone();
        let mut limiters = [const { None }; Route::COUNT];
        let mut set = |route: Route, limiter: BoxLimiter| limiters[route as usize] = Some(limiter);
        let second = Duration::from_secs(1);
        let limited = SlidingWindowLimiter::with_clock(second, args.limit.into(), clock())?;
        set(Route::Limited, limited.boxed());
        if let Some(permits) = args.pace {
            let rate = Rate::per_second(permits.into())?;
            set(Route::Fast, LeakyBucket::with_clock(rate, MAX_WAIT, clock()).boxed());
        }
        let mut controllers = Vec::new();
        if let Some(k) = args.breaker {
            let breaker =
                AdaptiveBreaker::with_clock(AdaptiveBreakerConfig::default().k(k)?, clock());
            controllers.push((Route::Failing, Controller::Breaker(Arc::new(breaker))));
        }
        if let Some(ratio) = args.circuit {
            let config = CircuitConfig::default().exception_ratio(RatioLimit::at_least(ratio)?);
            let breaker = CircuitBreaker::with_clock(config.wait(WAIT), clock());
            controllers.push((Route::Failing, Controller::Circuit(Arc::new(breaker))));
        }
        if args.adaptive {
            let adaptive = AdaptiveLimiter::with_clock(Headroom::default(), clock());
            controllers.push((Route::Slow, Controller::Adaptive(Arc::new(adaptive))));
        }
        for (route, controller) in &controllers {
            set(*route, controller.limiter());
        }
        // For the page and for `/metrics`.
        for (route, limiter) in Route::ALL.into_iter().zip(&limiters) {
            if let Some(limiter) = limiter {
                metrics.registry.watch(route.path(), Arc::clone(limiter))?;
            }
        }
        Ok(Self { limiters, controllers })
    }

    /// Returns the routes whose controllers learn from outcomes, with the controllers.
    pub(crate) fn controllers(&self) -> impl Iterator<Item = (Route, &Controller)> {
        self.controllers.iter().map(|(route, controller)| (*route, controller))
    }

    /// Returns the limiter of a resource; `None` if it has none.
    pub(crate) fn of(&self, resource: &Resource) -> Option<BoxLimiter> {
        self.limiters[Route::of_path(resource.name())? as usize].clone()
    }
}
