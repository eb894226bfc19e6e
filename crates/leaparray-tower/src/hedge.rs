//! Hedges within a budget.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leaparray::flow::LimiterExt;
use leaparray::flow::budget::RetryBudget;
use leaparray::{Clock, MonotonicClock};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_layer::Layer;
use tower_service::Service;

/// A layer that sends a request a second time, to a clone of the service, if it takes longer than
/// most requests do, and if a [`RetryBudget`] admits it. The first response is returned, and the
/// other attempt is dropped. An error is returned once no attempt is in flight.
///
/// A closure returns the time after which the second attempt is sent: a quantile of the response
/// times that the node of a resource has. `None` sends no second attempt, as before there are
/// response times. Put this layer around the [`ResourceLayer`](crate::ResourceLayer) that records
/// the attempts. An attempt that is dropped counts as cancelled there, and not as a response time:
/// the quantile is of those that won.
///
/// Hedge only requests that may be made twice.
///
/// ```
/// use http::{Request, Response};
/// use leaparray::flow::budget::RetryBudget;
/// use leaparray::histogram::HistogramConfig;
/// use leaparray::{NodeConfig, Registry, RegistryConfig, WindowConfig};
/// use leaparray_tower::{HedgeLayer, ResourceLayer};
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = NodeConfig::default().with_histogram(HistogramConfig::default());
/// let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(node)));
/// let orders = registry.resource("orders")?;
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// let budget = Arc::new(RetryBudget::new(window, 0.05, 1)?);
/// let hedge = HedgeLayer::new(budget, move || orders.now().long().quantile(0.95));
/// let name = |_: &Request<String>, name: &mut String| name.push_str("orders");
/// let backend = service_fn(async |_: Request<String>| {
///     Ok::<_, Infallible>(Response::new(String::new()))
/// });
/// let mut client = ServiceBuilder::new()
///     .layer(hedge)
///     .layer(ResourceLayer::new(registry, name)?.outbound()?)
///     .service(backend);
/// let response = client.ready().await?.call(Request::new(String::new())).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(())
/// # }
/// ```
pub struct HedgeLayer<F, C = MonotonicClock> {
    budget: Arc<RetryBudget<C>>,
    patience: F,
}

impl<F, C> HedgeLayer<F, C> {
    /// Creates a layer whose second attempts are sent after the time that `patience` returns, and
    /// within `budget`. Each request is deposited.
    #[must_use]
    pub const fn new(budget: Arc<RetryBudget<C>>, patience: F) -> Self {
        Self { budget, patience }
    }
}

impl<F: Clone, C> Clone for HedgeLayer<F, C> {
    fn clone(&self) -> Self {
        Self { budget: Arc::clone(&self.budget), patience: self.patience.clone() }
    }
}

impl<S, F: Clone, C> Layer<S> for HedgeLayer<F, C> {
    type Service = Hedge<S, F, C>;

    fn layer(&self, service: S) -> Hedge<S, F, C> {
        Hedge { service, layer: self.clone() }
    }
}

/// The service of a [`HedgeLayer`].
pub struct Hedge<S, F, C = MonotonicClock> {
    service: S,
    layer: HedgeLayer<F, C>,
}

impl<S: Clone, F: Clone, C> Clone for Hedge<S, F, C> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), layer: self.layer.clone() }
    }
}

impl<S, F, C, A> Service<A> for Hedge<S, F, C>
where
    S: Service<A> + Clone,
    F: Fn() -> Option<Duration>,
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
        let HedgeLayer { budget, patience } = &self.layer;
        budget.deposit();
        let second = match patience() {
            Some(patience) => Second::Waits {
                sleep: sleep(patience),
                // A clone is not ready: it is polled before it is called.
                attempt: Some((self.service.clone(), request.clone(), Arc::clone(budget))),
            },
            None => Second::Never,
        };
        HedgeFuture { first: Some(self.service.call(request)), error: None, second }
    }
}

pin_project! {
    /// The future of a [`Hedge`].
    pub struct HedgeFuture<S, A, C> where S: Service<A> {
        #[pin]
        first: Option<S::Future>,
        // Of an attempt that has failed while the other one is in flight.
        error: Option<S::Error>,
        #[pin]
        second: Second<S, A, C, S::Future>,
    }
}

pin_project! {
    #[project = SecondProjection]
    enum Second<S, A, C, F> {
        Waits { #[pin] sleep: Sleep, attempt: Option<(S, A, Arc<RetryBudget<C>>)> },
        Readies { service: S, request: Option<A> },
        Calls { #[pin] call: F },
        Never,
    }
}

impl<S: Service<A>, A, C: Clock> Second<S, A, C, S::Future> {
    /// Moves on until the call is in flight, and polls it. `Ready(None)` if there is no second
    /// attempt.
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<S::Response, S::Error>>> {
        loop {
            let next = match self.as_mut().project() {
                SecondProjection::Waits { sleep, attempt } => {
                    ready!(sleep.poll(cx));
                    match attempt.take() {
                        Some((service, request, budget)) if budget.try_acquire().is_admitted() => {
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

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Some(first) = this.first.as_mut().as_pin_mut()
            && let Poll::Ready(result) = first.poll(cx)
        {
            this.first.set(None);
            match result {
                // A request that has failed is retried by other means.
                Err(error) if this.second.is_sent() => *this.error = Some(error),
                result => return Poll::Ready(result),
            }
        }
        match this.second.as_mut().poll(cx) {
            Poll::Ready(Some(Err(error))) if this.first.is_some() => {
                *this.error = Some(error);
                Poll::Pending
            }
            Poll::Ready(Some(result)) => Poll::Ready(match (result, this.error.take()) {
                (Err(_), Some(first)) => Err(first),
                (result, _) => result,
            }),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<F, C> fmt::Debug for HedgeLayer<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeLayer").finish_non_exhaustive()
    }
}

impl<S, F, C> fmt::Debug for Hedge<S, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge").finish_non_exhaustive()
    }
}

impl<S: Service<A>, A, C> fmt::Debug for HedgeFuture<S, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeFuture").finish_non_exhaustive()
    }
}
