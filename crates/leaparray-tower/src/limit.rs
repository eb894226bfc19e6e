//! The limiters of requests.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use http::Request;
use leaparray::flow::{Ask, Decision, Limiter, LimiterExt};
use leaparray::{MonotonicClock, Resource};

/// A choice of the limiter that decides on a request.
///
/// [`SharedLimiter`] is one limiter for all requests, [`PerResource`] one for each resource, and
/// [`Chosen`] the choice of a closure.
pub trait Limits<A, C = MonotonicClock> {
    /// The limiter. Its clones share their state, as those of an [`Arc`](std::sync::Arc) do.
    type Limiter: Limiter + Clone;

    /// Calls `then` with the limiter that decides on the request, or with `None` if the request is
    /// admitted without one.
    fn with<T>(
        &self,
        request: &Request<A>,
        resource: &Resource<C>,
        then: impl FnOnce(Option<&Self::Limiter>) -> T,
    ) -> T;

    /// Asks the limiter of the request, and calls `then` with the limiter and its decision. If the
    /// request is admitted at once and `needs_limiter` is false, the limiter may be left out. For
    /// `leaparray-rules`, where making the limiter takes longer than the decision.
    #[doc(hidden)]
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn ask<T>(
        &self,
        request: &Request<A>,
        resource: &Resource<C>,
        ask: &Ask<'_>,
        _needs_limiter: bool,
        then: impl FnOnce(Option<&Self::Limiter>, DecisionOf<Self::Limiter>) -> T,
    ) -> T {
        self.with(request, resource, |limiter| then(limiter, limiter.ask(ask)))
    }
}

/// The decision of a limiter on a request; without a permit if there is no limiter.
type DecisionOf<L> = Decision<Option<<L as Limiter>::Permit>>;

/// The default: admits every request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unlimited;

impl Limiter for Unlimited {
    type Permit = ();

    fn decide(&self, _ask: &Ask<'_>) -> Decision {
        Decision::Admitted(())
    }
}

impl<A, C> Limits<A, C> for Unlimited {
    type Limiter = Self;

    fn with<T>(
        &self,
        _request: &Request<A>,
        _resource: &Resource<C>,
        then: impl FnOnce(Option<&Self>) -> T,
    ) -> T {
        then(None)
    }
}

/// One limiter for all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLimiter<L>(pub L);

impl<A, C, L: Limiter + Clone> Limits<A, C> for SharedLimiter<L> {
    type Limiter = L;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the call of the closure costs time")]
    fn with<T>(
        &self,
        _request: &Request<A>,
        _resource: &Resource<C>,
        then: impl FnOnce(Option<&L>) -> T,
    ) -> T {
        then(Some(&self.0))
    }
}

/// A limiter for each resource, which a closure makes when the resource is first used. `None` is no
/// limiter.
///
/// The limiter lives with the [data](Resource::data_or_insert_with) of the resource, and is dropped
/// with it. Layers over one registry whose closures have the same type, such as two function
/// pointers, share the limiters that the first one makes.
#[derive(Clone, Copy)]
pub struct PerResource<F>(pub F);

/// The limiter that the closure `F` has made for a resource. The closure is part of the type, so
/// that two layers over one registry with different closures have different limiters.
struct Made<F, L>(Option<L>, PhantomData<fn() -> F>);

impl<A, C, F, L> Limits<A, C> for PerResource<F>
where
    F: Fn(&Resource<C>) -> Option<L> + 'static,
    L: Limiter + Clone + Any + Send + Sync,
{
    type Limiter = L;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the call of the closure costs time")]
    fn with<T>(
        &self,
        _request: &Request<A>,
        resource: &Resource<C>,
        then: impl FnOnce(Option<&L>) -> T,
    ) -> T {
        let make = || Made::<F, L>((self.0)(resource), PhantomData);
        then(resource.data_or_insert_with(make).0.as_ref())
    }
}

/// The limiter that a closure chooses for each request: by its client, its tenant, or its resource.
/// `None` is no limiter.
#[derive(Clone, Copy)]
pub struct Chosen<F>(pub F);

impl<A, C, F, L> Limits<A, C> for Chosen<F>
where
    F: Fn(&Request<A>, &Resource<C>) -> Option<L>,
    L: Limiter + Clone,
{
    type Limiter = L;

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the call of the closure costs time")]
    fn with<T>(
        &self,
        request: &Request<A>,
        resource: &Resource<C>,
        then: impl FnOnce(Option<&L>) -> T,
    ) -> T {
        then((self.0)(request, resource).as_ref())
    }
}

impl<F> fmt::Debug for PerResource<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerResource").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for Chosen<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen").finish_non_exhaustive()
    }
}
