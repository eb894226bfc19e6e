//! The layer, and how it is configured.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use leaparray::node::OnDrop;
use leaparray::registry::RegistryError;
use leaparray::{Clock, MonotonicClock, Registry, Resource, TrafficType};

use crate::class::ByStatus;
use crate::lanes::{Lanes, LazyFirst};
use crate::limit::{Chosen, PerResource, SharedLimiter, Unlimited};
#[cfg(doc)]
use crate::name::{OTHER, OTHER_OUTBOUND};
use crate::refusal::Answer;
use crate::resources::Resources;

/// A [`Layer`](tower_layer::Layer) that records each request in a resource of a registry, and may
/// refuse it.
///
/// It works around HTTP services and HTTP clients. A request enters its resource when the service
/// is called. It ends with the last frame of the response's body; see
/// [`ResponseBody`](crate::ResponseBody). If the client goes away, the server drops the future or
/// the body, and the request is cancelled unless [`on_drop`](Self::on_drop) says otherwise. A
/// panic, an error of the body, and by [default](ByStatus) the statuses 408 and 500 or above are
/// exceptions.
///
/// | to choose | call | default |
/// |---|---|---|
/// | the resource of a request | [`new`](Self::new), with a [`Name`](crate::Name) | – |
/// | the outcome of a response | [`classify`](Self::classify) | [`ByStatus`] |
/// | the limiter of a request | [`limit`](Self::limit), [`limit_each`](Self::limit_each), [`limit_by`](Self::limit_by) | none |
/// | the response to a refused request | [`refuse`](Self::refuse) | [`Answer`] |
/// | whether responses to admitted requests tell what remains | [`quota_headers`](Self::quota_headers) | no |
/// | whether times to the first byte are recorded | [`first_byte`](Self::first_byte) | no |
/// | the outcome of a request that is dropped | [`on_drop`](Self::on_drop) | [`OnDrop::Cancelled`] |
/// | the time-out around the layer | [`timeout_around`](Self::timeout_around) | none |
///
/// # Time-outs
///
/// A time-out belongs inside this layer, around the inner service: its error, or its response with
/// the status 408 or 504, is an exception, of which a breaker or an adaptive limiter learns that
/// the backend is slow. A time-out around this layer, such as tower's `Timeout`, drops the future,
/// as a client does that gives up. By default, that is a cancellation, which hides a backend that
/// hangs from a breaker. So tell the layer of a time-out around it by
/// [`timeout_around`](Self::timeout_around). If callers also give up while they read a body, set
/// [`on_drop`](Self::on_drop) to [`OnDrop::Exception`].
///
/// A call of gRPC can have a deadline in its header `grpc-timeout`, at which tonic drops the future
/// on the server, and on the client answers with `CANCELLED` or an error. The layer reads the
/// header: if the call is dropped, or answered with `CANCELLED`, in the second half of the time, it
/// is an exception. The second half, because the time begins at the client, before the request
/// arrives. In a server that is too slow to read its requests, much of it has passed by then.
///
/// So the clients of a server choose this outcome: a client with a short deadline can make
/// exceptions of calls that are not slow. Within 10 ms of its arrival, a call is never overdue by
/// its header. A breaker of a service whose clients are not trusted should be around the backends
/// of the service instead.
///
/// # Back-pressure
///
/// The service is ready if the inner service is. The limiter is asked in `call`, not in
/// `poll_ready`: a refusal is a response or an error, and not back-pressure. If the request does
/// not reach the inner service, what its `poll_ready` has reserved, such as a permit of tower's
/// `ConcurrencyLimit`, is given back in `call`: the inner service is replaced by a clone.
///
/// A request that has to wait, as for a [`LeakyBucket`](leaparray::flow::LeakyBucket), waits in its
/// future, and does not block a thread. It reserves nothing in the inner service during that time,
/// and waits until a clone of the service is ready after it. It is in flight while it waits, and
/// its wait is part of its response time. If its future is dropped while it waits, the request
/// is cancelled and never reaches the service. The layer calls
/// [`refund_at`](leaparray::flow::LimiterExt::refund_at) once, and the limiter decides whether the
/// permits can be given back.
///
/// # Panics
///
/// A panic of the name or of the choice of a limiter is counted nowhere: the request has not
/// entered its resource yet.
///
/// The service panics in `call` if a request has to wait outside a tokio runtime, or in one without
/// a timer.
pub struct ResourceLayer<N, K = ByStatus, L = Unlimited, R = Answer, C = MonotonicClock> {
    pub(crate) resources: Arc<Resources<N, C>>,
    pub(crate) classify: K,
    pub(crate) limits: L,
    pub(crate) refuse: R,
    pub(crate) options: Options,
    /// The layer as its services have it. Each change makes a new one.
    shared: LazyFirst<Self>,
}

/// The choices that have no type of their own.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) first_byte: bool,
    pub(crate) on_drop: OnDrop,
    pub(crate) timeout_around: Option<Duration>,
    pub(crate) quota_headers: bool,
}

impl<N, C: Clock + Clone> ResourceLayer<N, ByStatus, Unlimited, Answer, C> {
    /// Creates a layer for a service: it records requests in the inbound resources of `registry`,
    /// by their names.
    ///
    /// A request without a name, or whose name the registry refuses because it is full or the name
    /// is invalid, is recorded in the resource [`OTHER`]. [`Registry::refused`] counts the refused
    /// names. So are the names for which there is no room because no response [has confirmed
    /// them](crate::Name#unconfirmed-names).
    ///
    /// # Errors
    ///
    /// Returns [`RegistryError::Full`] if there is no room for [`OTHER`].
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::Registry;
    /// use leaparray_tower::ResourceLayer;
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let database = |_: &Request<String>, name: &mut String| name.push_str("database");
    /// let layer = ResourceLayer::new(registry, database)?;
    /// # let _ = layer;
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn new(registry: Arc<Registry<C>>, name: N) -> Result<Self, RegistryError> {
        Self::with_traffic(registry, TrafficType::Inbound, name)
    }

    /// Like [`new`](Self::new), for a client: resources that are not listed yet are listed as
    /// [outbound](TrafficType::Outbound), and requests without a name are recorded in the resource
    /// [`OTHER_OUTBOUND`].
    ///
    /// # Errors
    ///
    /// Returns [`RegistryError::Full`] if there is no room for [`OTHER_OUTBOUND`].
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::{Registry, TrafficType};
    /// use leaparray_tower::{OTHER_OUTBOUND, ResourceLayer};
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let host =
    ///     |request: &Request<String>, name: &mut String| name.extend(request.uri().host());
    /// let layer = ResourceLayer::outbound(Arc::clone(&registry), host)?;
    /// let other = registry.get(OTHER_OUTBOUND).expect("listed by the layer");
    /// assert_eq!(other.traffic_type(), TrafficType::Outbound);
    /// # let _ = layer;
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn outbound(registry: Arc<Registry<C>>, name: N) -> Result<Self, RegistryError> {
        Self::with_traffic(registry, TrafficType::Outbound, name)
    }

    fn with_traffic(
        registry: Arc<Registry<C>>,
        traffic: TrafficType,
        name: N,
    ) -> Result<Self, RegistryError> {
        let resources = Arc::new(Resources::new(registry, traffic, name)?);
        let options = Options {
            first_byte: false,
            on_drop: OnDrop::Cancelled,
            timeout_around: None,
            quota_headers: false,
        };
        let (classify, limits, refuse) = (ByStatus, Unlimited, Answer);
        Ok(Self { resources, classify, limits, refuse, options, shared: LazyFirst::new() })
    }
}

impl<N, K, L, R, C> ResourceLayer<N, K, L, R, C> {
    /// Chooses how the outcome of a response is found: [`ByStatus`], [`ByHead`](crate::ByHead) with
    /// a closure, or a [`Classify`](crate::Classify) of your own.
    #[must_use]
    pub fn classify<J>(self, classify: J) -> ResourceLayer<N, J, L, R, C> {
        let Self { resources, limits, refuse, options, .. } = self;
        ResourceLayer { resources, classify, limits, refuse, options, shared: LazyFirst::new() }
    }

    /// Uses one limiter for all requests. A limiter that is not `Clone` belongs in an [`Arc`].
    ///
    /// The limiter should show the time of the registry's clock, as limiters and registries do that
    /// were made by `new`. With another clock, which may differ, a limiter that looks no further
    /// ahead than its clock refuses requests for longer than it says.
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::Registry;
    /// use leaparray::flow::{Rate, TokenBucket};
    /// use leaparray_tower::ResourceLayer;
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let bucket = TokenBucket::new(Rate::per_second(100)?, 20);
    /// let name = |_: &Request<String>, name: &mut String| name.push_str("search");
    /// let layer = ResourceLayer::new(registry, name)?.limit(Arc::new(bucket));
    /// # let _ = layer;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit<M>(self, limiter: M) -> ResourceLayer<N, K, SharedLimiter<M>, R, C> {
        self.limits(SharedLimiter(limiter))
    }

    /// Uses a limiter for each resource, which `make` makes for its first request. `None` is no
    /// limiter. Layers over one registry whose closures have the same type, such as two function
    /// pointers, share the limiters that the first one makes. A request whose name [is not
    /// listed](crate::Name#unconfirmed-names) has the limiter of [`OTHER`].
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::flow::ConcurrencyLimiter;
    /// use leaparray::{Registry, Resource};
    /// use leaparray_tower::ResourceLayer;
    /// use std::sync::Arc;
    ///
    /// let name =
    ///     |request: &Request<String>, name: &mut String| name.push_str(request.uri().path());
    /// let layer = ResourceLayer::new(Arc::new(Registry::new()), name)?;
    /// // At most ten reports at a time, and as many of everything else as there are.
    /// let layer = layer.limit_each(|resource: &Resource| {
    ///     let is_report = resource.name().starts_with("/reports/");
    ///     is_report.then(|| Arc::new(ConcurrencyLimiter::new(10)))
    /// });
    /// # let _ = layer;
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn limit_each<F, M>(self, make: F) -> ResourceLayer<N, K, PerResource<F>, R, C>
    where
        F: Fn(&Resource<C>) -> Option<M>,
    {
        self.limits(PerResource(make))
    }

    /// Uses the limiter that `choose` chooses for each request. `None` is no limiter.
    ///
    /// For a limit for each client or tenant, `choose` returns an
    /// [`OfKey`](leaparray::flow::keyed::OfKey) of a
    /// [`Keyed`](leaparray::flow::Keyed):
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leaparray::flow::{Keyed, Rate, TokenBucket};
    /// use leaparray::flow::keyed::OfKey;
    /// use leaparray::{Registry, Resource};
    /// use leaparray_tower::ResourceLayer;
    /// use std::borrow::Cow;
    /// use std::convert::Infallible;
    /// use std::sync::Arc;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// /// The tenant of a request, which an outer layer has authenticated.
    /// #[derive(Clone)]
    /// struct Tenant(u64);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new());
    /// let bucket = TokenBucket::new(Rate::per_minute(1)?, 1);
    /// let tenants = Arc::new(Keyed::<u64, _>::new(bucket, 10_000)?);
    /// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
    /// let layer = ResourceLayer::new(registry, name)?.limit_by(
    ///     move |request: &Request<()>, _: &Resource| {
    ///         let tenant = request.extensions().get().map_or(0, |&Tenant(number)| number);
    ///         Some(OfKey::new(Arc::clone(&tenants), Cow::<u64>::Owned(tenant)))
    ///     },
    /// );
    /// let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
    /// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    ///
    /// let of_tenant = |number| Request::builder().extension(Tenant(number)).body(());
    /// assert_eq!(service.clone().oneshot(of_tenant(1)?).await?.status(), 200);
    /// assert_eq!(service.clone().oneshot(of_tenant(1)?).await?.status(), 429);
    /// assert_eq!(service.oneshot(of_tenant(2)?).await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// For one limiter for some of the requests:
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::flow::{Rate, TokenBucket};
    /// use leaparray::{Registry, Resource};
    /// use leaparray_tower::ResourceLayer;
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let guests = Arc::new(TokenBucket::new(Rate::per_second(100)?, 20));
    /// let name = |_: &Request<String>, name: &mut String| name.push_str("search");
    /// let layer = ResourceLayer::new(registry, name)?;
    /// let layer = layer.limit_by(move |request: &Request<String>, _: &Resource| {
    ///     let is_guest = !request.headers().contains_key("authorization");
    ///     is_guest.then(|| Arc::clone(&guests))
    /// });
    /// # let _ = layer;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limit_by<F, A, M>(self, choose: F) -> ResourceLayer<N, K, Chosen<F>, R, C>
    where
        F: Fn(&Request<A>, &Resource<C>) -> Option<M>,
    {
        self.limits(Chosen(choose))
    }

    /// Chooses the limiters by a [`Limits`](crate::Limits).
    #[must_use]
    pub fn limits<M>(self, limits: M) -> ResourceLayer<N, K, M, R, C> {
        let Self { resources, classify, refuse, options, .. } = self;
        ResourceLayer { resources, classify, limits, refuse, options, shared: LazyFirst::new() }
    }

    /// Chooses the response to refused requests: [`Answer`], `Problem` with the feature `problem`,
    /// [`Fail`](crate::Fail), [`Spread`](crate::Spread) around one of them, or a
    /// [`Refuse`](crate::Refuse) of your own.
    #[must_use]
    pub fn refuse<Q>(self, refuse: Q) -> ResourceLayer<N, K, L, Q, C> {
        let Self { resources, classify, limits, options, .. } = self;
        ResourceLayer { resources, classify, limits, refuse, options, shared: LazyFirst::new() }
    }

    /// Chooses whether the responses to admitted requests have the headers `RateLimit-Policy` and
    /// `RateLimit`, as the responses of [`Answer`] have: so clients can slow down before they are
    /// refused. The remaining permits are those after the decision, and times count from the head
    /// of the response. By default, there are no such headers: they cost a reading of the limits
    /// and some allocations for each request.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leaparray::Registry;
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray_tower::ResourceLayer;
    /// use std::convert::Infallible;
    /// use std::sync::Arc;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
    /// let registry = Arc::new(Registry::new());
    /// let bucket = TokenBucket::new(Rate::per_minute(6)?, 10).named("searches");
    /// let layer = ResourceLayer::new(registry, name)?.limit(Arc::new(bucket)).quota_headers(true);
    /// let answer = async |_| Ok::<_, Infallible>(Response::new(String::new()));
    /// let service = ServiceBuilder::new().layer(layer).service(service_fn(answer));
    ///
    /// let admitted = service.oneshot(Request::new(())).await?;
    /// assert_eq!(admitted.status(), 200);
    /// assert_eq!(admitted.headers()["ratelimit"], "\"searches\";r=9;t=10");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn quota_headers(mut self, quota_headers: bool) -> Self {
        self.options.quota_headers = quota_headers;
        self.changed()
    }

    /// Chooses whether the times from the entry to the head of the response are recorded, in
    /// [`FirstByte`](crate::FirstByte).
    #[must_use]
    pub fn first_byte(mut self, first_byte: bool) -> Self {
        self.options.first_byte = first_byte;
        self.changed()
    }
}

impl<N, K, L, R, C> ResourceLayer<N, K, L, R, C> {
    /// Sets the outcome of a request whose future is dropped, or whose body is dropped before the
    /// outcome is [known](crate::End::AtBody). The default is [`OnDrop::Cancelled`]: the client has
    /// gone away, which tells nothing about the service. Set [`OnDrop::Exception`] if callers drop
    /// what takes too long, and [`timeout_around`](Self::timeout_around) if a time-out does.
    ///
    /// The policy applies to the resource and to the permit of the limiter. To a breaker or an
    /// adaptive limiter, the outcome is also a cancellation if its own policy says so: see
    /// [`CircuitConfig::on_drop`](leaparray::flow::CircuitConfig::on_drop). Its own policy never
    /// makes an exception of a cancellation. Under either policy, a panic is an exception, and a
    /// request that is dropped while it waits for its limiter is cancelled: it has not reached the
    /// service.
    ///
    /// ```
    /// use http::Request;
    /// use leaparray::flow::{CircuitBreaker, CircuitConfig};
    /// use leaparray::Registry;
    /// use leaparray::node::OnDrop;
    /// use leaparray_tower::ResourceLayer;
    /// use std::sync::Arc;
    ///
    /// let name = |_: &Request<String>, name: &mut String| name.push_str("search");
    /// let registry = Arc::new(Registry::new());
    /// let breaker = CircuitBreaker::new(CircuitConfig::default());
    /// // Callers of this client give up after a time of their own.
    /// let layer = ResourceLayer::outbound(registry, name)?
    ///     .limit(Arc::new(breaker))
    ///     .on_drop(OnDrop::Exception);
    /// # let _ = layer;
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn on_drop(mut self, policy: OnDrop) -> Self {
        self.options.on_drop = policy;
        self.changed()
    }

    /// Tells the layer of a time-out around it, such as tower's `Timeout` or `Server::timeout` of
    /// tonic: a request whose future is dropped when nine tenths of `timeout` or more have passed
    /// is an exception, whatever [`on_drop`](Self::on_drop) says. The default is none.
    ///
    /// The drop of the future is all that the layer sees of such a time-out, and it looks like a
    /// client that has gone away. Nine tenths, because the timer may have begun before the request
    /// entered. If a queue is between the time-out and the layer, set what the queue leaves of it.
    /// The time in the queue of the layer's own limiter does not count: a request that is dropped
    /// there is cancelled.
    ///
    /// From then on, a response that is a cancellation by its head is an exception too. The drop of
    /// a body is not affected, since these time-outs end with the head. The deadline of
    /// a call of gRPC, in its header `grpc-timeout`, needs no setting; see
    /// [`ResourceLayer`](Self#time-outs).
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use leaparray_tower::ResourceLayer;
    /// use std::convert::Infallible;
    /// use std::future::pending;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tower::{Service, ServiceBuilder, service_fn};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(3_600));
    /// let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    /// let name = |_: &Request<()>, name: &mut String| name.push_str("search");
    /// let timeout = Duration::from_secs(10);
    /// let layer = ResourceLayer::new(Arc::clone(&registry), name)?.timeout_around(timeout);
    /// let hangs = async |_| pending::<Result<Response<String>, Infallible>>().await;
    /// let mut service = ServiceBuilder::new().layer(layer).service(service_fn(hangs));
    ///
    /// let call = service.call(Request::new(()));
    /// clock.advance(timeout);
    /// drop(call); // as the time-out does
    /// let search = registry.get("search").unwrap();
    /// assert_eq!(search.lifetime().sum(MetricEvent::Exception), 1);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn timeout_around(mut self, timeout: Duration) -> Self {
        self.options.timeout_around = Some(timeout);
        self.changed()
    }
}

impl<N, K, L, R, C> ResourceLayer<N, K, L, R, C> {
    /// Returns this layer, of which no service exists yet.
    fn changed(self) -> Self {
        Self { shared: LazyFirst::new(), ..self }
    }

    /// Returns the layer for a service. All services of the layer and of its clones share it.
    pub(crate) fn of_service(&self) -> Lanes<Self>
    where
        K: Clone,
        L: Clone,
        R: Clone,
    {
        // The shared layer does not own itself.
        self.shared.get_or_make(|| self.clone().changed())
    }
}

impl<N, K: Clone, L: Clone, R: Clone, C> Clone for ResourceLayer<N, K, L, R, C> {
    fn clone(&self) -> Self {
        Self {
            resources: Arc::clone(&self.resources),
            classify: self.classify.clone(),
            limits: self.limits.clone(),
            refuse: self.refuse.clone(),
            options: self.options,
            shared: self.shared.clone(),
        }
    }
}

impl<N, K, L, R, C> fmt::Debug for ResourceLayer<N, K, L, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceLayer")
            .field("registry", self.resources.registry())
            .finish_non_exhaustive()
    }
}
