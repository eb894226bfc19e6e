//! The service that a layer makes.

use std::task::{Context, Poll};
use std::{fmt, mem};

use http::{Request, Response};
use http_body::Body;
use leaparray::flow::{Ask, Decision, Limiter, Quota, Refusal};
use leaparray::node::OnDrop;
use leaparray::{Clock, MonotonicClock, Resource, Timestamp};
use tokio::time::sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::RequestKind;
use crate::class::Classify;
use crate::context::RareContext;
use crate::ending::Choices;
#[cfg(feature = "tracing")]
use crate::events;
use crate::future::{
    Call, HttpService, InFlightOf, LayerOf, Otherwise, Refund, ResponseFuture, Waiting,
};
use crate::grpc;
use crate::in_flight::{InFlight, Rare};
use crate::lanes::Lanes;
use crate::layer::{Options, ResourceLayer};
use crate::limit::Limits;
use crate::name::Name;
use crate::refusal::{Refuse, Refused};
use crate::resources::{Found, NewName};
use crate::{ByStatus, ResponseBody, Unlimited};

/// The service of a [`ResourceLayer`](crate::ResourceLayer).
pub struct ResourceService<S, N, K = ByStatus, L = Unlimited, R = crate::Answer, C = MonotonicClock>
{
    inner: S,
    layer: Lanes<ResourceLayer<N, K, L, R, C>>,
}

impl<S, N, K, L, R, C> Layer<S> for ResourceLayer<N, K, L, R, C>
where
    K: Clone,
    L: Clone,
    R: Clone,
{
    type Service = ResourceService<S, N, K, L, R, C>;

    fn layer(&self, inner: S) -> Self::Service {
        ResourceService { inner, layer: self.of_service() }
    }
}

impl<S, A, B, N, K, L, R, C> Service<Request<A>> for ResourceService<S, N, K, L, R, C>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    A: 'static,
    B: Body,
    N: Name<A>,
    K: Classify<S::Error>,
    L: Limits<A, C>,
    R: Refuse<B, S::Error>,
    C: Clock + Clone + Send + Sync + 'static,
{
    type Response = Response<ResponseBody<B, S::Error, K, C, <L::Limiter as Limiter>::Permit>>;
    type Error = R::Error;
    type Future = ResponseFuture<S, A, ResourceLayer<N, K, L, R, C>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), R::Error>> {
        self.inner.poll_ready(cx).map_err(R::error)
    }

    // Out of line: a part of the caller's, the future would be moved once more, to where this call
    // and the one of a late request meet.
    #[inline(never)]
    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let Admission { in_flight, rare, late } = self.admit(&mut request);
        if let Some(late) = late {
            let otherwise = Some(self.conclude(request, late));
            return ResponseFuture { future: None, in_flight, rare, otherwise };
        }
        // The request has entered: if the call panics, its drop is an exception.
        let future = Some(self.inner.call(request));
        ResponseFuture { future, in_flight, rare, otherwise: None }
    }
}

/// A request that has entered its resource, unless it is late.
struct Admission<I, N, M: Limiter, C> {
    in_flight: Option<I>,
    rare: Option<Box<RareContext<N, C>>>,
    late: Option<Late<N, M, C>>,
}

/// The admission of a request by the layer `L`.
type AdmissionOf<S, A, L> = Admission<
    InFlightOf<S, A, L>,
    <L as LayerOf<S, A>>::Name,
    <L as LayerOf<S, A>>::Limiter,
    <L as LayerOf<S, A>>::Clock,
>;

type OtherwiseOf<S, A, N, K, L, R, C> = Otherwise<S, A, ResourceLayer<N, K, L, R, C>>;

/// A request that is refused or has to wait. It has not entered its resource.
struct Late<N, M: Limiter, C> {
    resource: Resource<C>,
    unconfirmed: Option<Box<NewName<N, C>>>,
    now: Timestamp,
    decision: Decision<Option<M::Permit>>,
    told: Option<Told<M>>,
}

impl<S, N, K, L, R, C> ResourceService<S, N, K, L, R, C> {
    /// Finds the resource of a request, and asks the limiter. If the request is admitted at once,
    /// it enters, and is sure to reach the service.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the entry goes through memory")]
    fn admit<A>(
        &mut self,
        request: &mut Request<A>,
    ) -> AdmissionOf<S, A, ResourceLayer<N, K, L, R, C>>
    where
        S: HttpService<A> + Clone,
        A: 'static,
        N: Name<A>,
        K: Classify<S::Error>,
        L: Limits<A, C>,
        R: Refuse<S::Body, S::Error>,
        C: Clock + Clone + Send + Sync + 'static,
    {
        let layer = &*self.layer;
        let mut inner = Reserved::new(&mut self.inner);
        let options = &layer.options;
        let Found { resource, unconfirmed } = layer.resources.find(request);
        let now = resource.clock().now();
        let mut told = None;
        let ask = Ask::at(now).over(&*resource);
        let needs_limiter = options.quota_headers;
        let decision =
            layer.limits.ask(request, &resource, &ask, needs_limiter, |limiter, decision| {
                // Without a limiter, there is nothing to tell, which a compiler can see.
                if limiter.is_some() && (options.quota_headers || !decision.is_admitted()) {
                    told = Some(Told::by(limiter, &decision, now, options.quota_headers));
                }
                decision
            });
        if !decision.is_admitted() {
            // Until `conclude`, which follows.
            inner.keep();
            let late = Some(Late { resource, unconfirmed, now, decision, told });
            return Admission { in_flight: None, rare: None, late };
        }
        #[cfg(feature = "tracing")]
        events::admitted(&resource, now);
        // Before the request enters: between its entry and the call, nothing else may panic.
        let quotas = told.as_mut().and_then(|told| told.quotas_of_admitted(now));
        let rare = RareContext::new(unconfirmed, quotas);
        let choices = layer.choices(request);
        let limits = Rare::limits(request, choices.is_outbound, options.timeout_around, now);
        let classify = layer.classify.clone();
        let Decision::Admitted(entry) = decision.enter_many_at(resource, now, 1) else {
            unreachable!("the request is admitted at once");
        };
        let in_flight = InFlight::new(entry, classify, options.on_drop, choices, limits);
        inner.keep();
        Admission { in_flight: Some(in_flight), rare, late: None }
    }

    /// Answers a request that is refused, or lets it enter and wait.
    #[cold]
    #[inline(never)]
    fn conclude<A>(
        &mut self,
        mut request: Request<A>,
        late: Late<N, L::Limiter, C>,
    ) -> OtherwiseOf<S, A, N, K, L, R, C>
    where
        S: HttpService<A> + Clone,
        A: 'static,
        N: Name<A>,
        K: Classify<S::Error>,
        L: Limits<A, C>,
        R: Refuse<S::Body, S::Error>,
        C: Clock + Clone + Send + Sync + 'static,
    {
        let layer = &*self.layer;
        let inner = Reserved::new(&mut self.inner);
        let Late { resource, unconfirmed, now, decision, mut told } = late;
        #[cfg(feature = "tracing")]
        match decision.refusal() {
            Some(refusal) => events::refused(&resource, refusal, now),
            None => events::admitted(&resource, now),
        }
        if let Some(refusal) = decision.refusal() {
            refusal.count_at(&resource, now, 1);
            let told = told.expect("the limiter is asked about each refusal");
            let answer = refuse(layer, refusal, &resource, told, request);
            return Otherwise::Answer(Box::new(answer));
        }
        let quotas = told.as_mut().and_then(|told| told.quotas_of_admitted(now));
        let rare = RareContext::new(unconfirmed, quotas);
        let choices = layer.choices(&request);
        let around = layer.options.timeout_around;
        let limits = Rare::limits(&mut request, choices.is_outbound, around, now);
        let classify = layer.classify.clone();
        let Decision::Wait(delayed) = decision.enter_many_at(resource, now, 1) else {
            unreachable!("the request has to wait");
        };
        let (entry, wait) = delayed.into_parts();
        // Without the place that was reserved: other callers can use it during the wait.
        let service = inner.release();
        let refunded_by = told.and_then(|told| told.refunded_by);
        let refund = refunded_by.map(|limiter| Refund::new(limiter, now, wait));
        // Dropped during its wait, it has not reached the service.
        let in_flight = InFlight::new(entry, classify, OnDrop::Cancelled, choices, None);
        let call = Call { in_flight, rare };
        let sleep = Some(Box::pin(sleep(wait)));
        let waiting = Waiting { sleep, service, request, call, limits, refund };
        Otherwise::Wait(Box::new(waiting))
    }
}

impl<N, K, L, R, C> ResourceLayer<N, K, L, R, C> {
    /// Returns the properties of a request that its response needs.
    #[inline]
    fn choices<A>(&self, request: &Request<A>) -> Choices {
        let kind = RequestKind::of(request.method());
        let Options { first_byte, on_drop, .. } = self.options;
        Choices { kind, first_byte, on_drop, is_outbound: self.resources.is_outbound() }
    }
}

/// Returns the answer to a refused request.
#[cold]
fn refuse<A, B, E, M, N, K, L, R: Refuse<B, E>, C>(
    layer: &ResourceLayer<N, K, L, R, C>,
    refusal: Refusal,
    resource: &Resource<C>,
    told: Told<M>,
    request: Request<A>,
) -> Result<Response<Option<B>>, R::Error> {
    let is_grpc = grpc::is_grpc(request.headers());
    let resource = resource.name().into();
    let refused = Refused { refusal, resource, at: told.at, quotas: told.quotas, is_grpc };
    let (request, _body) = request.into_parts();
    layer.refuse.refuse(&refused, &request)
}

/// The state of a limiter at its decision, for the response or for a refund.
struct Told<M> {
    /// The time to which a refusal refers.
    at: Timestamp,
    quotas: Vec<Quota>,
    /// The limiter to which a request that waits can be refunded.
    refunded_by: Option<M>,
}

impl<M: Limiter + Clone> Told<M> {
    #[cold]
    fn by<P>(
        limiter: Option<&M>,
        decision: &Decision<P>,
        now: Timestamp,
        quota_headers: bool,
    ) -> Self {
        let mut told = Self { at: now, quotas: Vec::new(), refunded_by: None };
        match decision {
            Decision::Refused(refusal) => told.at = time_of(refusal, &limiter, now),
            Decision::Wait(_) => told.refunded_by = limiter.cloned(),
            Decision::Admitted(_) => {}
        }
        if quota_headers || decision.is_refused() {
            limiter.account().each_quota(told.at, &mut |quota| told.quotas.push(quota));
        }
        told
    }

    /// Takes the quotas for the headers of the response, if there are any.
    #[cold]
    fn quotas_of_admitted(&mut self, now: Timestamp) -> Option<(Timestamp, Vec<Quota>)> {
        (!self.quotas.is_empty()).then(|| (now, mem::take(&mut self.quotas)))
    }
}

/// Returns the time to which a refusal at `now`, the time of the registry, refers. If the clock of
/// the limiter is behind the registry's, the limiter decides at the time of its own clock. The
/// time from which it admits requests may then be past for the registry.
#[cold]
fn time_of(refusal: &Refusal, limiter: &impl Limiter, now: Timestamp) -> Timestamp {
    if refusal.retry_at().is_none_or(|at| at > now) {
        return now;
    }
    match limiter.account().now() {
        // The limiter has no clock.
        Timestamp::MIN => now,
        time => time.min(now),
    }
}

/// The inner service during a call. By `poll_ready`, it has reserved a place for the request, such
/// as a permit of tower's `ConcurrencyLimit`. If the request does not reach the service, because it
/// is refused or waits, or because the name, the limiter or the refusal panics, a clone takes the
/// place of the service. A clone has reserved nothing, and the drop of the service gives its place
/// back.
struct Reserved<'a, S: Clone> {
    inner: &'a mut S,
    is_kept: bool,
}

impl<'a, S: Clone> Reserved<'a, S> {
    const fn new(inner: &'a mut S) -> Self {
        Self { inner, is_kept: false }
    }

    /// Keeps the service with its reserved place, which the call consumes.
    const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Gives the reserved place back, and returns a clone of the service, which has reserved none.
    fn release(self) -> S {
        self.inner.clone()
    }
}

impl<S: Clone> Drop for Reserved<'_, S> {
    fn drop(&mut self) {
        if !self.is_kept {
            *self.inner = self.inner.clone();
        }
    }
}

impl<S: Clone, N, K, L, R, C> Clone for ResourceService<S, N, K, L, R, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, N, K, L, R, C> fmt::Debug for ResourceService<S, N, K, L, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceService").field("inner", &self.inner).finish_non_exhaustive()
    }
}
