//! The limiters of the routes.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Resource;
use leaparray::flow::{
    AdaptiveBreaker, BoxLimiter, BreakerConfig, LeakyBucket, Limiter, Rate, SlidingWindowLimiter,
};

use crate::Args;
use crate::metrics::Metrics;
use crate::route::Route;

/// The longest time that `--pace` makes a request wait.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The limiter of each route that has one.
#[derive(Clone)]
pub(crate) struct Gates([Option<Arc<BoxLimiter>>; Route::COUNT]);

impl Gates {
    /// Makes the limiters that the arguments ask for. All have the clock of the metrics.
    pub(crate) fn new(args: &Args, metrics: &Metrics) -> Result<Self, Box<dyn Error>> {
        let clock = || metrics.registry.clock().clone();
        let mut gates = [const { None }; Route::COUNT];
        let mut set = |route, limiter: BoxLimiter| gates[route as usize] = Some(Arc::new(limiter));
        // At most so many requests in any window as long as the short window of the resource.
        let second = *metrics.of(Route::Limited).config().short();
        let limited = SlidingWindowLimiter::with_clock(second, args.limit.into(), clock())?;
        set(Route::Limited, limited.boxed());
        if let Some(permits) = args.pace {
            let rate = Rate::per_second(permits.into())?;
            set(Route::Fast, LeakyBucket::with_clock(rate, MAX_WAIT, clock()).boxed());
        }
        if let Some(k) = args.breaker {
            let breaker = AdaptiveBreaker::with_clock(BreakerConfig::default().k(k)?, clock());
            set(Route::Failing, Arc::new(breaker).boxed());
        }
        Ok(Self(gates))
    }

    /// Returns the routes that have a limiter, with their limiters.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Route, &Arc<BoxLimiter>)> {
        Route::ALL
            .into_iter()
            .zip(&self.0)
            .filter_map(|(route, gate)| Some((route, gate.as_ref()?)))
    }

    /// Returns the limiter of a resource; `None` if it has none.
    pub(crate) fn of(&self, resource: &Resource) -> Option<Arc<BoxLimiter>> {
        self.0[Route::of_path(resource.name())? as usize].clone()
    }
}
