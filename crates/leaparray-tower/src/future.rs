//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use leaparray::flow::{Limiter, LimiterExt, Quota};
use leaparray::node::{OnDrop, ResponseClass};
use leaparray::{Clock, Outcome, Permit, Timestamp};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::body::{RequestKind, ResponseBody, Rest, announced_bytes, has_ended};
use crate::class::{Classify, End};
use crate::first_byte::FirstByte;
use crate::in_flight::{InFlight, RequestLimits};
use crate::layer::ResourceLayer;
use crate::limit::Limits;
use crate::name::Name;
use crate::refusal::{Refuse, headers};
use crate::resources::NewName;
use crate::streams::OpenStream;

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

/// The error of a service in the layer `L`.
type ErrorOf<S, A, L> = <<L as LayerOf<S, A>>::Refuse as Refuse<
    <S as HttpService<A>>::Body,
    <S as Service<Request<A>>>::Error,
>>::Error;

/// The answer to a refused request.
type AnswerOf<S, A, L> = Result<Response<Option<<S as HttpService<A>>::Body>>, ErrorOf<S, A, L>>;

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
        #[pin]
        state: State<S, A, L>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, A, L>
    where
        S: HttpService<A>,
        L: LayerOf<S, A>,
    {
        Refused {
            // `None` after the last poll.
            answer: Option<AnswerOf<S, A, L>>,
        },
        // In boxes: they are large, and the futures of requests that need not wait should be small.
        Waits {
            // `None` after the wait.
            sleep: Option<Pin<Box<Sleep>>>,
            // `None` once the service is ready.
            waiting: Option<Box<Waiting<S, A, L>>>,
        },
        Runs {
            #[pin]
            future: S::Future,
            // `None` after the last poll.
            call: Option<Call<S, A, L>>,
        },
    }
}

/// A request that waits. If it is dropped, it is cancelled, and a refund is attempted.
pub(crate) struct Waiting<S: HttpService<A>, A, L: LayerOf<S, A>> {
    pub(crate) service: S,
    pub(crate) request: Request<A>,
    pub(crate) call: Call<S, A, L>,
    pub(crate) limits: Option<Box<RequestLimits>>,
    pub(crate) refund: Option<Refund<L::Limiter>>,
}

/// An admitted request, and what its response needs.
pub(crate) struct Call<S: HttpService<A>, A, L: LayerOf<S, A>> {
    pub(crate) in_flight: InFlight<L::Classify, L::Clock, L::Permit>,
    pub(crate) context: ResponseContext<L::Name, L::Clock>,
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

/// The parts of a request that its response needs.
pub(crate) struct ResponseContext<N, C> {
    pub(crate) kind: RequestKind,
    pub(crate) first_byte: bool,
    /// The policy once the request has reached the service.
    pub(crate) on_drop: OnDrop,
    /// Whether the caller is a client, and the service a backend.
    pub(crate) is_outbound: bool,
    /// The name of this request, if it is unconfirmed.
    pub(crate) unconfirmed: Option<Box<NewName<N, C>>>,
    /// For the headers of the response. `None` if the layer adds none.
    pub(crate) quotas: Option<QuotasAt>,
}

/// The time of a decision and the state of the limits then.
pub(crate) type QuotasAt = Box<(Timestamp, Vec<Quota>)>;

impl<N, C: Clock + Clone + Send + Sync + 'static> ResponseContext<N, C> {
    /// Returns the response to the caller, with the body that ends the request; or ends it here, if
    /// it ends with its head.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the futures of layers with other limiters call it too, and out of line it moves the response"
    )]
    fn answer<A, B, E, K, P>(
        self,
        response: Response<B>,
        mut request: InFlight<K, C, P>,
    ) -> Response<ResponseBody<B, E, K, C, P>>
    where
        B: Body,
        N: Name<A>,
        K: Classify<E>,
        P: Permit,
    {
        let (mut head, body) = response.into_parts();
        if let Some(quotas) = self.quotas {
            let (decided, quotas) = *quotas;
            let now = request.entry().map_or(decided, |entry| entry.node().clock().now());
            headers::add_quotas(&mut head.headers, &quotas, now, None);
        }
        if let Some(entry) = request.entry() {
            let class = ResponseClass::of_status(head.status.as_u16());
            entry.node().count_response(class);
            if self.first_byte {
                FirstByte::record(entry.node(), entry.started());
            }
        }
        let end = request.classify.head(&head);
        let unconfirmed = match (self.unconfirmed, request.entry()) {
            (Some(name), Some(entry)) => name.learn(entry.node(), &head, end),
            _ => None,
        };
        let rest = match end {
            End::AtHead(outcome) => {
                request.end(outcome);
                Rest::Nothing
            }
            End::AtHeadOfStream(outcome) => {
                let stream = request.entry().map(|entry| entry.node().clone());
                let stream = stream.filter(|_| announced_bytes(self.kind, &head, &body) != Some(0));
                request.end(outcome);
                stream.map_or(Rest::Nothing, |resource| Rest::Stream {
                    _open: OpenStream::new(resource),
                })
            }
            End::AtBody(outcome) => match announced_bytes(self.kind, &head, &body) {
                Some(0) => {
                    request.end(outcome);
                    Rest::Nothing
                }
                bytes => {
                    request.begin_body();
                    // A client that leaves the body unread has wanted the head only. A server's
                    // client that leaves before the body has not got what it wanted.
                    let is_known = outcome != Outcome::Success || self.is_outbound;
                    Rest::UntilEnd { request, outcome, bytes, is_known }
                }
            },
            End::AtTrailers if has_ended(self.kind, &head, &body) => {
                request.end_with_trailers(None);
                Rest::Nothing
            }
            End::AtTrailers => {
                request.begin_body();
                Rest::UntilTrailers(request, unconfirmed)
            }
        };
        Response::from_parts(head, ResponseBody::new(Some(body), rest))
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> ResponseFuture<S, A, L> {
    pub(crate) const fn refused(answer: AnswerOf<S, A, L>) -> Self {
        Self { state: State::Refused { answer: Some(answer) } }
    }

    pub(crate) fn waiting(wait: Duration, waiting: Waiting<S, A, L>) -> Self {
        let (sleep, waiting) = (Some(Box::pin(sleep(wait))), Some(Box::new(waiting)));
        Self { state: State::Waits { sleep, waiting } }
    }

    pub(crate) const fn running(future: S::Future, call: Call<S, A, L>) -> Self {
        Self { state: State::Runs { future, call: Some(call) } }
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> Future for ResponseFuture<S, A, L> {
    type Output = Result<
        Response<ResponseBody<S::Body, S::Error, L::Classify, L::Clock, L::Permit>>,
        ErrorOf<S, A, L>,
    >;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        const COMPLETED: &str = "polled after it has completed";
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Refused { answer } => {
                    let answer = answer.take().expect(COMPLETED);
                    return Poll::Ready(answer.map(|response| {
                        response.map(|body| ResponseBody::new(body, Rest::Nothing))
                    }));
                }
                StateProjection::Waits { sleep, waiting } => {
                    if let Some(timer) = sleep {
                        ready!(timer.as_mut().poll(cx));
                        *sleep = None;
                    }
                    let readiness = ready!(waiting.as_mut().expect(COMPLETED).poll_ready(cx));
                    let waiting = waiting.take().expect(COMPLETED);
                    if let Err(error) = readiness {
                        return Poll::Ready(Err(L::Refuse::error(waiting.fail(error))));
                    }
                    let (future, call) = waiting.run();
                    state.set(State::Runs { future, call: Some(call) });
                }
                StateProjection::Runs { future, call } => {
                    let in_flight = &mut call.as_mut().expect(COMPLETED).in_flight;
                    let result = ready!(in_flight.watch(|| future.poll(cx)));
                    let Call { mut in_flight, context } = call.take().expect(COMPLETED);
                    return Poll::Ready(match result {
                        Ok(response) => Ok(context.answer(response, in_flight)),
                        Err(error) => {
                            let outcome = in_flight.classify.error(&error);
                            in_flight.end(outcome);
                            Err(L::Refuse::error(error))
                        }
                    });
                }
            }
        }
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> Waiting<S, A, L> {
    /// Polls the readiness of the service, which has reserved nothing for the request during the
    /// wait.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let Self { service, call, .. } = self;
        call.in_flight.watch(|| service.poll_ready(cx))
    }

    /// Ends the request with an error of the readiness. It has not reached the service, so a refund
    /// is attempted.
    fn fail(mut self, error: S::Error) -> S::Error {
        let in_flight = &mut self.call.in_flight;
        in_flight.end(in_flight.classify.error(&error));
        error
    }

    /// Calls the service, after the wait.
    fn run(mut self) -> (S::Future, Call<S, A, L>) {
        if let Some(refund) = &mut self.refund {
            refund.is_due = false;
        }
        let Self { mut service, request, mut call, limits, refund: _ } = self;
        call.in_flight.set_on_drop(call.context.on_drop);
        call.in_flight.set_limits(limits);
        (service.call(request), call)
    }
}

impl<S: HttpService<A>, A, L: LayerOf<S, A>> fmt::Debug for ResponseFuture<S, A, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
