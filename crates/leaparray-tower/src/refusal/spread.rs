//! Times to ask again that differ.

use std::time::Duration;

use http::Response;
use http::request::Parts;
use leaparray::flow::breaker::{RandomSource, ThreadRandom};

use super::{Refuse, Refused};

/// Answers as another [`Refuse`] does, with times to ask again that differ: the time of a request
/// is later by a random time between zero and the spread, uniformly distributed. Otherwise, clients
/// that were refused together return together, and most of them are refused again.
///
/// The time is in `Retry-After`, in whole seconds, so choose a spread of some seconds at least. It
/// is also in `grpc-retry-pushback-ms`, and in [`Refused::retry_after`] of a [`Refuse`] of your
/// own. A refusal that names no time stays as it is. Choose a spread of the time that the limit
/// takes to admit the clients that may be refused together: 10 s for 1,000 clients and a limit of
/// 100 a second.
///
/// ```
/// use leaparray::Registry;
/// use leaparray::flow::{Rate, TokenBucket};
/// use leaparray_tower::{Answer, ResourceLayer, Spread};
/// use std::sync::Arc;
/// use std::time::Duration;
/// # use http::Request;
///
/// # let name = |_: &Request<()>, name: &mut String| name.push_str("search");
/// let registry = Arc::new(Registry::new());
/// let bucket = Arc::new(TokenBucket::new(Rate::per_second(100)?, 10));
/// let layer = ResourceLayer::new(registry, name)?.limit(bucket);
/// let layer = layer.refuse(Spread::new(Answer, Duration::from_secs(10)));
/// # let _ = layer;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spread<R, S = ThreadRandom> {
    refuse: R,
    within: Duration,
    random: S,
}

impl<R> Spread<R> {
    /// Spreads the times of `refuse` over `spread`.
    #[must_use]
    pub const fn new(refuse: R, spread: Duration) -> Self {
        Self::with_source(refuse, spread, ThreadRandom)
    }
}

impl<R, S> Spread<R, S> {
    /// Spreads the times of `refuse` over `spread` by a source of random numbers.
    #[must_use]
    pub const fn with_source(refuse: R, spread: Duration, random: S) -> Self {
        Self { refuse, within: spread, random }
    }
}

impl<B, E, R: Refuse<B, E>, S: RandomSource> Refuse<B, E> for Spread<R, S> {
    type Error = R::Error;

    fn refuse(
        &self,
        refused: &Refused,
        request: &Parts,
    ) -> Result<Response<Option<B>>, Self::Error> {
        if refused.refusal.retry_at().is_none() {
            return self.refuse.refuse(refused, request);
        }
        let part = u128::from(self.random.next_u32());
        let later = self.within.as_nanos().min(u64::MAX.into()) * part / u128::from(u32::MAX);
        let later = Duration::from_nanos(u64::try_from(later).expect("at most the spread"));
        let refusal = refused.refusal.postponed(later);
        self.refuse.refuse(&Refused { refusal, ..refused.clone() }, request)
    }

    fn error(error: E) -> Self::Error {
        R::error(error)
    }
}
