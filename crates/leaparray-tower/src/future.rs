//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use leaparray::flow::Limiter;
use leaparray::{Clock, OnDrop, Outcome, Permit, Timestamp};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::body::{RequestKind, ResponseBody, Rest, announced_bytes, has_ended};
use crate::class::{Classify, End};
use crate::first_byte::FirstByte;
use crate::in_flight::InFlight;
use crate::limit::Limits;
use crate::name::Name;
use crate::refusal::Refuse;
use crate::resources::NewName;
use crate::streams::OpenStream;

/// The permit of the limiter that `L` chooses.
type PermitOf<A, L, C> = <<L as Limits<A, C>>::Limiter as Limiter>::Permit;

pin_project! {
    /// The future of a [`ResourceService`](crate::ResourceService): of the response to an admitted
    /// request, perhaps after a wait, or of the answer to a refused one.
    ///
    /// # Panics
    ///
    /// Panics if it is polled after it has completed.
    pub struct ResponseFuture<S, A, B, N, K, L, R, C>
    where
        S: Service<Request<A>>,
        L: Limits<A, C>,
        R: Refuse<B, S::Error>,
        C: Clock,
        C: Clone,
    {
        #[pin]
        state: State<S, A, B, N, K, L, R, C>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, A, B, N, K, L, R, C>
    where
        S: Service<Request<A>>,
        L: Limits<A, C>,
        R: Refuse<B, S::Error>,
        C: Clock,
        C: Clone,
    {
        Refused {
            // `None` after the last poll.
            answer: Option<Result<Response<Option<B>>, R::Error>>,
        },
        // In boxes: they are large, and the futures of requests that need not wait should be small.
        Waits {
            // `None` after the wait.
            sleep: Option<Pin<Box<Sleep>>>,
            // `None` once the service is ready.
            waiting: Option<Box<Waiting<S, A, N, K, L, C>>>,
        },
        Runs {
            #[pin]
            future: S::Future,
            // `None` after the last poll.
            request: Option<Running<N, K, C, PermitOf<A, L, C>>>,
        },
    }
}

/// A request that waits. If it is dropped, it is cancelled, and a refund is attempted.
pub(crate) struct Waiting<S, A, N, K, L: Limits<A, C>, C: Clock + Clone> {
    pub(crate) service: S,
    pub(crate) request: Request<A>,
    pub(crate) in_flight: InFlight<K, C, PermitOf<A, L, C>>,
    pub(crate) context: ResponseContext<N, C>,
    /// The time from which the request is overdue before the head of its response.
    pub(crate) overdue: Timestamp,
    pub(crate) refund: Option<Refund<L::Limiter>>,
}

/// A request that has reached the service.
struct Running<N, K, C: Clock + Clone, P: Permit> {
    in_flight: InFlight<K, C, P>,
    context: ResponseContext<N, C>,
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
    /// The name of this request, if it is unconfirmed.
    pub(crate) unconfirmed: Option<Box<NewName<N, C>>>,
    pub(crate) first_byte: bool,
    /// The policy once the request has reached the service.
    pub(crate) on_drop: OnDrop,
    /// Whether the caller is a client, and the service a backend.
    pub(crate) is_outbound: bool,
    /// The time from which the request is overdue after the head of its response.
    pub(crate) overdue: Timestamp,
}

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
        let (head, body) = response.into_parts();
        if self.first_byte
            && let Some(entry) = request.entry()
        {
            FirstByte::record(entry.node(), entry.started());
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
                    request.set_overdue(self.overdue);
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
                request.set_overdue(self.overdue);
                Rest::UntilTrailers(request, unconfirmed)
            }
        };
        Response::from_parts(head, ResponseBody::new(Some(body), rest))
    }
}

impl<S, A, B, N, K, L, R, C> ResponseFuture<S, A, B, N, K, L, R, C>
where
    S: Service<Request<A>>,
    L: Limits<A, C>,
    R: Refuse<B, S::Error>,
    C: Clock + Clone,
{
    pub(crate) const fn refused(answer: Result<Response<Option<B>>, R::Error>) -> Self {
        Self { state: State::Refused { answer: Some(answer) } }
    }

    pub(crate) fn waiting(wait: Duration, waiting: Waiting<S, A, N, K, L, C>) -> Self {
        let (sleep, waiting) = (Some(Box::pin(sleep(wait))), Some(Box::new(waiting)));
        Self { state: State::Waits { sleep, waiting } }
    }

    pub(crate) const fn running(
        future: S::Future,
        in_flight: InFlight<K, C, PermitOf<A, L, C>>,
        context: ResponseContext<N, C>,
    ) -> Self {
        Self { state: State::Runs { future, request: Some(Running { in_flight, context }) } }
    }
}

impl<S, A, B, N, K, L, R, C> Future for ResponseFuture<S, A, B, N, K, L, R, C>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body,
    N: Name<A>,
    K: Classify<S::Error>,
    L: Limits<A, C>,
    R: Refuse<B, S::Error>,
    C: Clock + Clone + Send + Sync + 'static,
{
    type Output = Result<Response<ResponseBody<B, S::Error, K, C, PermitOf<A, L, C>>>, R::Error>;

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
                        return Poll::Ready(Err(R::error(waiting.fail(error))));
                    }
                    let (future, request) = waiting.run();
                    state.set(State::Runs { future, request: Some(request) });
                }
                StateProjection::Runs { future, request } => {
                    let in_flight = &mut request.as_mut().expect(COMPLETED).in_flight;
                    let result = ready!(in_flight.watch(|| future.poll(cx)));
                    let Running { mut in_flight, context } = request.take().expect(COMPLETED);
                    return Poll::Ready(match result {
                        Ok(response) => Ok(context.answer(response, in_flight)),
                        Err(error) => {
                            let outcome = in_flight.classify.error(&error);
                            in_flight.end(outcome);
                            Err(R::error(error))
                        }
                    });
                }
            }
        }
    }
}

impl<S, A, N, K, L, C> Waiting<S, A, N, K, L, C>
where
    S: Service<Request<A>>,
    L: Limits<A, C>,
    C: Clock + Clone,
{
    /// Polls the readiness of the service, which has reserved nothing for the request during the
    /// wait.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let Self { service, in_flight, .. } = self;
        in_flight.watch(|| service.poll_ready(cx))
    }

    /// Ends the request with an error of the readiness. It has not reached the service, so a refund
    /// is attempted.
    fn fail(mut self, error: S::Error) -> S::Error
    where
        K: Classify<S::Error>,
    {
        let outcome = self.in_flight.classify.error(&error);
        self.in_flight.end(outcome);
        error
    }

    /// Calls the service, after the wait.
    #[expect(clippy::type_complexity, reason = "the future and its request")]
    fn run(mut self) -> (S::Future, Running<N, K, C, PermitOf<A, L, C>>) {
        if let Some(refund) = &mut self.refund {
            refund.is_due = false;
        }
        let Self { mut service, request, mut in_flight, context, overdue, refund: _ } = self;
        in_flight.set_on_drop(context.on_drop);
        in_flight.set_overdue(overdue);
        (service.call(request), Running { in_flight, context })
    }
}

impl<S, A, B, N, K, L, R, C> fmt::Debug for ResponseFuture<S, A, B, N, K, L, R, C>
where
    S: Service<Request<A>>,
    L: Limits<A, C>,
    R: Refuse<B, S::Error>,
    C: Clock + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
