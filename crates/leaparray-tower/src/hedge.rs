//! Hedges within a budget.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use leaparray::flow::budget::{FirstAttempt, Hedges};
use leaparray::{Clock, MonotonicClock};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_layer::Layer;
use tower_service::Service;

/// A layer that sends a request a second time, to a clone of the service, if the first attempt
/// takes longer than most do, and if the budget of [`Hedges`] admits it. The first response is
/// returned, and the other attempt is dropped. An error is returned once no attempt is in flight.
///
/// Put this layer around the [`ResourceLayer`](crate::ResourceLayer) that records the attempts. An
/// attempt that is dropped counts as cancelled there. The hedges have the response times of all
/// first attempts, including dropped ones.
///
/// Hedge only requests that may be made twice.
///
/// ```
/// use http::{Request, Response};
/// use leaparray::flow::budget::Hedges;
/// use leaparray::{Registry, WindowConfig};
/// use leaparray_tower::{HedgeLayer, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // After the time in which 95 % have a response, and for at most 6 % of the requests.
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// let hedges = Arc::new(Hedges::new(window, 0.95, 0.06, 0)?);
/// let name = |_: &Request<String>, name: &mut String| name.push_str("orders");
/// let backend = service_fn(async |_: Request<String>| {
///     Ok::<_, Infallible>(Response::new(String::new()))
/// });
/// let mut client = ServiceBuilder::new()
///     .layer(HedgeLayer::new(hedges))
///     .layer(ResourceLayer::outbound(Arc::new(Registry::new()), name)?)
///     .service(backend);
/// let response = client.ready().await?.call(Request::new(String::new())).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HedgeLayer<C = MonotonicClock>(Arc<Hedges<C>>);

impl<C> HedgeLayer<C> {
    /// Creates a layer whose services share the hedges.
    #[must_use]
    pub const fn new(hedges: Arc<Hedges<C>>) -> Self {
        Self(hedges)
    }
}

impl<S, C> Layer<S> for HedgeLayer<C> {
    type Service = Hedge<S, C>;

    fn layer(&self, service: S) -> Hedge<S, C> {
        Hedge { service, hedges: Arc::clone(&self.0) }
    }
}

/// The service of a [`HedgeLayer`].
#[derive(Debug)]
pub struct Hedge<S, C = MonotonicClock> {
    service: S,
    hedges: Arc<Hedges<C>>,
}

impl<C> Clone for HedgeLayer<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Clone, C> Clone for Hedge<S, C> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), hedges: Arc::clone(&self.hedges) }
    }
}

impl<S, C, A> Service<A> for Hedge<S, C>
where
    S: Service<A> + Clone,
    C: Clock,
    A: Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = HedgeFuture<S, A, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: A) -> Self::Future {
        let attempt = FirstAttempt::of(Arc::clone(&self.hedges));
        let second = match attempt.patience() {
            // A clone is not ready: it is polled before it is called.
            Some(patience) => Second::Waits {
                sleep: sleep(patience),
                attempt: Some((self.service.clone(), request.clone())),
            },
            None => Second::Never,
        };
        let first = Some(self.service.call(request));
        HedgeFuture { first, attempt: Some(attempt), error: None, second }
    }
}

pin_project! {
    /// The future of a [`Hedge`].
    pub struct HedgeFuture<S, A, C> where S: Service<A>, C: Clock {
        #[pin]
        first: Option<S::Future>,
        // Until the first attempt ends. If it loses, it counts when this is dropped.
        attempt: Option<FirstAttempt<Arc<Hedges<C>>>>,
        // Of an attempt that has failed while the other one is in flight.
        error: Option<S::Error>,
        #[pin]
        second: Second<S, A, S::Future>,
    }
}

pin_project! {
    #[project = SecondProjection]
    enum Second<S, A, F> {
        Waits { #[pin] sleep: Sleep, attempt: Option<(S, A)> },
        Readies { service: S, request: Option<A> },
        Calls { #[pin] call: F },
        Never,
    }
}

impl<S: Service<A>, A> Second<S, A, S::Future> {
    /// Moves on until the call is in flight, and polls it. `Ready(None)` if there is no second
    /// attempt.
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        is_admitted: impl Fn() -> bool,
    ) -> Poll<Option<Result<S::Response, S::Error>>> {
        loop {
            let next = match self.as_mut().project() {
                SecondProjection::Waits { sleep, attempt } => {
                    ready!(sleep.poll(cx));
                    match attempt.take() {
                        Some((service, request)) if is_admitted() => {
                            Self::Readies { service, request: Some(request) }
                        }
                        _ => Self::Never,
                    }
                }
                SecondProjection::Readies { service, request } => {
                    match ready!(service.poll_ready(cx)) {
                        Ok(()) => match request.take() {
                            Some(request) => Self::Calls { call: service.call(request) },
                            None => Self::Never,
                        },
                        Err(error) => {
                            self.set(Self::Never);
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
                SecondProjection::Calls { call } => {
                    let result = ready!(call.poll(cx));
                    self.set(Self::Never);
                    return Poll::Ready(Some(result));
                }
                SecondProjection::Never => return Poll::Ready(None),
            };
            self.set(next);
        }
    }

    /// Returns whether the attempt was sent.
    const fn is_sent(&self) -> bool {
        matches!(self, Self::Readies { .. } | Self::Calls { .. })
    }
}

impl<S: Service<A>, A, C: Clock> Future for HedgeFuture<S, A, C> {
    type Output = Result<S::Response, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.as_mut().project();
        if let Some(first) = this.first.as_mut().as_pin_mut()
            && let Poll::Ready(result) = first.poll(cx)
        {
            this.first.set(None);
            let attempt = this.attempt.take();
            if let Some(attempt) = attempt.filter(|_| result.is_ok()) {
                attempt.end();
            }
            match result {
                // A request that has failed is retried by other means.
                Err(error) if this.second.is_sent() => *this.error = Some(error),
                result => return Poll::Ready(self.ended(result)),
            }
        }
        let attempt = &*this.attempt;
        let is_admitted = || attempt.as_ref().is_some_and(|it| it.hedge().is_admitted());
        match this.second.as_mut().poll(cx, is_admitted) {
            Poll::Ready(Some(Err(error))) if this.first.is_some() => {
                *this.error = Some(error);
                Poll::Pending
            }
            Poll::Ready(Some(result)) => {
                let result = match (result, this.error.take()) {
                    (Err(_), Some(first)) => Err(first),
                    (result, _) => result,
                };
                Poll::Ready(self.ended(result))
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Service<A>, A, C: Clock> HedgeFuture<S, A, C> {
    /// Drops the attempts: this future may be kept for longer.
    fn ended<T>(self: Pin<&mut Self>, result: T) -> T {
        let mut this = self.project();
        this.first.set(None);
        *this.attempt = None;
        this.second.set(Second::Never);
        result
    }
}

impl<S: Service<A>, A, C: Clock> fmt::Debug for HedgeFuture<S, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture").finish_non_exhaustive()
    }
}
