//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use leaparray::flow::{Limiter, LimiterExt};
use leaparray::{Clock, Permit, Timestamp};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::class::Classify;
use crate::context::{RareContext, begin_body};
use crate::in_flight::{InFlight, Rare};
use crate::layer::ResourceLayer;
use crate::limit::Limits;
use crate::name::Name;
use crate::refusal::Refuse;

/// A service of requests with the body `A`, whose responses have a body.
///
/// It is implemented for every [`Service`] of such requests and responses. It is a bound of
/// [`ResponseFuture`]: see [`LayerOf`].
pub trait HttpService<A>: Service<Request<A>, Response = Response<Self::Body>> {
    /// The body of a response.
    type Body: Body;
}

impl<S, A, B> HttpService<A> for S
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
{
    type Body = B;
}

/// The types of a [`ResourceLayer`] around the service `S`.
///
/// It is implemented for every [`ResourceLayer`] that makes a service of `S`. A type with a
/// [`ResponseFuture`] of any service and layer in it has both bounds:
///
/// ```
/// use leaparray_tower::{HttpService, LayerOf, ResponseFuture};
///
/// struct TimedFuture<S: HttpService<A>, A, L: LayerOf<S, A>> {
///     response: ResponseFuture<S, A, L>,
///     began: std::time::Instant,
/// }
/// ```
pub trait LayerOf<S: HttpService<A>, A> {
    /// How requests are named.
    type Name: Name<A>;
    /// How the outcomes of responses are found.
    type Classify: Classify<S::Error>;
    /// The permit of an admitted request.
    type Permit: Permit;
    /// The limiter.
    type Limiter: Limiter<Permit = Self::Permit>;
    /// How refused requests are answered.
    type Refuse: Refuse<S::Body, S::Error>;
    /// The clock of the registry.
    type Clock: Clock + Clone + Send + Sync + 'static;
}

impl<S, A, N, K, L, R, C> LayerOf<S, A> for ResourceLayer<N, K, L, R, C>
where
    S: HttpService<A>,
    N: Name<A>,
    K: Classify<S::Error>,
    L: Limits<A, C>,
    R: Refuse<S::Body, S::Error>,
    C: Clock + Clone + Send + Sync + 'static,
{
    type Name = N;
    type Classify = K;
    type Permit = <L::Limiter as Limiter>::Permit;
    type Limiter = L::Limiter;
    type Refuse = R;
    type Clock = C;
}

/// A request in flight through the layer `L`.
pub(crate) type InFlightOf<S, A, L> = InFlight<
    <L as LayerOf<S, A>>::Classify,
    <L as LayerOf<S, A>>::Clock,
    <L as LayerOf<S, A>>::Permit,
>;

/// The error of a service in the layer `L`.
type ErrorOf<S, A, L> = <<L as LayerOf<S, A>>::Refuse as Refuse<
    <S as HttpService<A>>::Body,
    <S as Service<Request<A>>>::Error,
>>::Error;

/// The answer to a refused request.
type AnswerOf<S, A, L> = Result<Response<Option<<S as HttpService<A>>::Body>>, ErrorOf<S, A, L>>;

/// The response of a service in the layer `L`.
type OutputOf<S, A, L> = Result<
    Response<
        ResponseBody<
            <S as HttpService<A>>::Body,
            <S as Service<Request<A>>>::Error,
            <L as LayerOf<S, A>>::Classify,
            <L as LayerOf<S, A>>::Clock,
            <L as LayerOf<S, A>>::Permit,
        >,
    >,
    ErrorOf<S, A, L>,
>;

pin_project! {
    /// The future of a [`ResourceService`](crate::ResourceService): of the response to an admitted
    /// request, perhaps after a wait, or of the answer to a refused one. `S` is the inner service,
    /// `A` the body of its requests, and `L` the [layer](ResourceLayer).
    ///
    /// # Panics
    ///
    /// Panics if it is polled after it has completed.
    pub struct ResponseFuture<S, A, L>
    where
        S: HttpService<A>,
        L: LayerOf<S, A>,
    {
        // `None` until the service is called. An option rather than a state of an enum, and only
        // this depends on whether it is called: so the compiler moves it once less.
        #[pin]
        pub(crate) future: Option<S::Future>,
        // `None` after the last poll, and unless the service was called.
        pub(crate) in_flight: Option<InFlightOf<S, A, L>>,
        pub(crate) rare: Option<Box<RareContext<L::Name, L::Clock>>>,
        // `None` once the service was called, and after the last poll.
        pub(crate) otherwise: Option<Otherwise<S, A, L>>,
    }
}

/// A request for which the service is not called at once. In boxes: the futures of the other
/// requests should be small.
pub(crate) enum Otherwise<S: HttpService<A>, A, L: LayerOf<S, A>> {
    Answer(Box<AnswerOf<S, A, L>>),
    Wait(Box<Waiting<S, A, L>>),
}

/// A request that waits. If it is dropped, it is cancelled, and a refund is attempted.
pub(crate) struct Waiting<S: HttpService<A>, A, L: LayerOf<S, A>> {
    /// `None` after the wait.
    pub(crate) sleep: Option<Pin<Box<Sleep>>>,
    pub(crate) service: S,
    pub(crate) request: Request<A>,
    pub(crate) call: Call<S, A, L>,
    pub(crate) limits: Option<Box<Rare<L::Clock>>>,
    pub(crate) refund: Option<Refund<L::Limiter>>,
}

/// An admitted request that waits, and what its response needs.
pub(crate) struct Call<S: HttpService<A>, A, L: LayerOf<S, A>> {
    pub(crate) in_flight: InFlightOf<S, A, L>,
    pub(crate) rare: Option<Box<RareContext<L::Name, L::Clock>>>,
}

/// The refund of a request that waits, which is attempted when this is dropped.
pub(crate) struct Refund<L: Limiter> {
    limiter: L,
    now: Timestamp,
    wait: Duration,
    is_due: bool,
}

impl<L: Limiter> Refund<L> {
    pub(crate) const fn new(limiter: L, now: Timestamp, wait: Duration) -> Self {
        Self { limiter, now, wait, is_due: true }
    }
}

impl<L: Limiter> Drop for Refund<L> {
    fn drop(&mut self) {
        if self.is_due {
            // Whether they were given back depends on the requests that came later.
            let _ = self.limiter.refund_at(self.now, 1, self.wait);
        }
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> Future for ResponseFuture<S, A, L> {
    type Output = OutputOf<S, A, L>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.future.is_none()
            && let Some(answer) = ready!(self.as_mut().poll_otherwise(cx))
        {
            return Poll::Ready((*answer).map(|answer| {
                let (head, body) = answer.into_parts();
                Response::from_parts(head, ResponseBody::new(body, None))
            }));
        }
        let this = self.project();
        let (in_flight, rare) = (this.in_flight, this.rare);
        let request = in_flight.as_mut().expect(COMPLETED);
        request.begin_poll();
        match this.future.as_pin_mut().expect(COMPLETED).poll(cx) {
            Poll::Pending => {
                request.end_poll();
                Poll::Pending
            }
            Poll::Ready(Ok(response)) => {
                let (mut head, body) = response.into_parts();
                begin_body::<A, S::Error, _, _, _, _>(rare, &mut head, &body, request);
                let body = ResponseBody::new(Some(body), in_flight.take());
                Poll::Ready(Ok(Response::from_parts(head, body)))
            }
            Poll::Ready(Err(error)) => {
                let outcome = request.classify.error(&error);
                request.end_poll();
                request.end_rarely(outcome);
                *in_flight = None;
                Poll::Ready(Err(L::Refuse::error(error)))
            }
        }
    }
}

const COMPLETED: &str = "polled after it has completed";

impl<S: HttpService<A>, A, L: LayerOf<S, A>> ResponseFuture<S, A, L> {
    /// Returns the answer to a refused request. Or waits as long as the limiter has told, and until
    /// the service is ready, and calls it. Returns its error if it does not become ready.
    ///
    /// In a box: so the compiler sees all that writes the result of a poll, and moves it once less.
    #[cold]
    #[inline(never)]
    fn poll_otherwise(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Box<AnswerOf<S, A, L>>>> {
        let mut this = self.project();
        let mut readiness = Ok(());
        if let Otherwise::Wait(waiting) = this.otherwise.as_mut().expect(COMPLETED) {
            if let Some(timer) = &mut waiting.sleep {
                ready!(timer.as_mut().poll(cx));
                waiting.sleep = None;
            }
            readiness = ready!(waiting.poll_ready(cx));
        }
        Poll::Ready(match this.otherwise.take().expect(COMPLETED) {
            Otherwise::Answer(answer) => Some(answer),
            Otherwise::Wait(waiting) => match readiness {
                Ok(()) => {
                    let (future, Call { in_flight, rare }) = waiting.run();
                    this.future.set(Some(future));
                    (*this.in_flight, *this.rare) = (Some(in_flight), rare);
                    None
                }
                Err(error) => Some(Box::new(Err(L::Refuse::error(waiting.fail(error))))),
            },
        })
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> Waiting<S, A, L> {
    /// Polls the readiness of the service, which has reserved nothing for the request during the
    /// wait.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let Self { service, call, .. } = self;
        call.in_flight.begin_poll();
        let readiness = service.poll_ready(cx);
        call.in_flight.end_poll();
        readiness
    }

    /// Ends the request with an error of the readiness. It has not reached the service, so a refund
    /// is attempted.
    fn fail(mut self, error: S::Error) -> S::Error {
        let in_flight = &mut self.call.in_flight;
        in_flight.end_rarely(in_flight.classify.error(&error));
        error
    }

    /// Calls the service, after the wait.
    fn run(mut self) -> (S::Future, Call<S, A, L>) {
        if let Some(refund) = &mut self.refund {
            refund.is_due = false;
        }
        let Self { mut service, request, mut call, limits, refund: _, sleep: _ } = self;
        call.in_flight.set_on_drop(call.in_flight.ending.choices.on_drop);
        call.in_flight.set_limits(limits);
        (service.call(request), call)
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> fmt::Debug for ResponseFuture<S, A, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
