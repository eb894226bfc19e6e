//! The service that a layer makes.

use std::fmt;
use std::task::{Context, Poll};

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
use crate::context::{Quotas, RareContext};
use crate::ending::Choices;
#[cfg(feature = "tracing")]
use crate::events;
use crate::future::{Call, HttpService, Otherwise, Refund, ResponseFuture, Waiting};
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
        let Call { in_flight, rare } = match self.admit(&mut request) {
            Ok(call) => call,
            Err(late) => {
                let otherwise = Some(self.conclude(request, late));
                return ResponseFuture { future: None, in_flight: None, rare: None, otherwise };
            }
        };
        // The request has entered: if the call panics, its drop is an exception.
        let future = Some(self.inner.call(request));
        ResponseFuture { future, in_flight: Some(in_flight), rare, otherwise: None }
    }
}

/// An admitted request, or a late one.
type AdmissionOf<S, A, N, K, L, R, C> =
    Result<Call<S, A, ResourceLayer<N, K, L, R, C>>, Late<N, <L as Limits<A, C>>::Limiter, C>>;

type OtherwiseOf<S, A, N, K, L, R, C> = Otherwise<S, A, ResourceLayer<N, K, L, R, C>>;

/// A request that is refused or has to wait. It has not entered its resource.
struct Late<N, M: Limiter, C> {
    resource: Resource<C>,
    unconfirmed: Option<Box<NewName<N, C>>>,
    now: Timestamp,
    decision: Box<DetailedDecision<M>>,
}

/// A decision with the state of the limiter that the response or a refund needs. In a box: most
/// requests are admitted without it, and their permits are then not moved through memory.
struct DetailedDecision<M: Limiter> {
    decision: Decision<Option<M::Permit>>,
    /// The time to which a refusal refers.
    at: Timestamp,
    /// Of a refusal, or for the headers of the response.
    quotas: Vec<Quota>,
    /// The limiter to which a request that waits can be refunded.
    refunded_by: Option<M>,
}

/// The permit of a request that is admitted at once, and the quotas for its response.
type AdmittedOf<M> = (Option<<M as Limiter>::Permit>, Option<Box<Quotas>>);

impl<S, N, K, L, R, C> ResourceService<S, N, K, L, R, C> {
    /// Finds the resource of a request, and asks the limiter. If the request is admitted at once,
    /// it enters, and is sure to reach the service.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the entry goes through memory")]
    fn admit<A>(&mut self, request: &mut Request<A>) -> AdmissionOf<S, A, N, K, L, R, C>
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
        let ask = Ask::at(now).over(&*resource);
        // One call for all other decisions, so that the closure is inlined where it is called.
        let asked = layer.limits.ask(
            request,
            &resource,
            &ask,
            options.quota_headers,
            |limiter, decision| match decision {
                // Without a limiter, there is nothing to tell, which a compiler can see.
                Decision::Admitted(permit) if limiter.is_none() || !options.quota_headers => {
                    Ok(permit)
                }
                decision => {
                    let quota_headers = options.quota_headers;
                    Err(DetailedDecision::new(limiter, decision, now, quota_headers))
                }
            },
        );
        let (permit, quotas) =
            match asked.map_or_else(DetailedDecision::admitted, |permit| Ok((permit, None))) {
                Ok(admitted) => admitted,
                Err(decision) => {
                    // Until `conclude`, which follows.
                    inner.keep();
                    return Err(Late { resource, unconfirmed, now, decision });
                }
            };
        #[cfg(feature = "tracing")]
        events::admitted(&resource, now);
        // Before the request enters: between its entry and the call, nothing else may panic.
        let rare = RareContext::new(unconfirmed, quotas);
        let choices = layer.choices(request);
        let limits = Rare::limits(request, choices.is_outbound, options.timeout_around, now);
        let classify = layer.classify.clone();
        let Decision::Admitted(entry) = Decision::Admitted(permit).enter_many_at(resource, now, 1)
        else {
            unreachable!("the request is admitted at once");
        };
        let in_flight = InFlight::new(entry, classify, options.on_drop, choices, limits);
        inner.keep();
        Ok(Call { in_flight, rare })
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
        let Late { resource, unconfirmed, now, decision } = late;
        let DetailedDecision { decision, at, quotas, refunded_by } = *decision;
        #[cfg(feature = "tracing")]
        match decision.refusal() {
            Some(refusal) => events::refused(&resource, refusal, now),
            None => events::admitted(&resource, now),
        }
        if let Some(refusal) = decision.refusal() {
            refusal.count_at(&resource, now, 1);
            let is_grpc = grpc::is_grpc(request.headers());
            let refused =
                Refused { refusal, resource: resource.name().into(), at, quotas, is_grpc };
            let (request, _body) = request.into_parts();
            return Otherwise::Answer(Box::new(layer.refuse.refuse(&refused, &request)));
        }
        let rare = RareContext::new(unconfirmed, Quotas::new(now, quotas));
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

impl<M: Limiter + Clone> DetailedDecision<M> {
    #[cold]
    #[inline(never)]
    #[expect(clippy::unnecessary_box_returns, reason = "the caller, which is inlined, is small")]
    fn new(
        limiter: Option<&M>,
        decision: Decision<Option<M::Permit>>,
        now: Timestamp,
        quota_headers: bool,
    ) -> Box<Self> {
        let at = decision.refusal().map_or(now, |refusal| time_of(&refusal, &limiter, now));
        let mut quotas = Vec::new();
        if quota_headers || decision.is_refused() {
            limiter.account().each_quota(at, &mut |quota| quotas.push(quota));
        }
        let refunded_by = limiter.filter(|_| matches!(decision, Decision::Wait(_))).cloned();
        Box::new(Self { decision, at, quotas, refunded_by })
    }

    /// Returns the permit and the quotas of a request that is admitted at once, and the decision on
    /// a late one.
    #[cold]
    #[inline(never)]
    fn admitted(self: Box<Self>) -> Result<AdmittedOf<M>, Box<Self>> {
        match *self {
            Self { decision: Decision::Admitted(permit), at, quotas, .. } => {
                Ok((permit, Quotas::new(at, quotas)))
            }
            _ => Err(self),
        }
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
