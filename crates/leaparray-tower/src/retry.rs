//! Retries within a budget, by the middleware of tower.

use std::fmt;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use leaparray::flow::LimiterExt;
use leaparray::flow::budget::{LiveBudget, LiveRequest, RetryBudget, RetryPermit};
use leaparray::{Clock, MonotonicClock};
use tower::retry::Policy;
use tower::retry::backoff::Backoff;
use tower::retry::budget::Budget;

/// A [`RetryBudget`] as a [`Budget`] of tower, for a [`Policy`] of your own. A request is
/// deposited once, and each of its retries is withdrawn.
///
/// ```
/// use leaparray::WindowConfig;
/// use leaparray::flow::budget::RetryBudget;
/// use leaparray_tower::TowerBudget;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::retry::budget::Budget;
///
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// let budget = TowerBudget(Arc::new(RetryBudget::new(window, 0.5, 0)?));
/// budget.deposit();
/// assert!(!budget.withdraw());
/// budget.deposit();
/// assert!(budget.withdraw());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TowerBudget<C = MonotonicClock>(pub Arc<RetryBudget<C>>);

impl<C> Clone for TowerBudget<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Clock> Budget for TowerBudget<C> {
    fn deposit(&self) {
        self.0.deposit();
    }

    fn withdraw(&self) -> bool {
        self.0.try_acquire().is_admitted()
    }
}

/// A [`Policy`] of tower's `Retry`: retries a request while a closure asks for it, up to a number
/// of retries, and within a [`RetryBudget`].
///
/// Each request is deposited once, when it is called. Services that share the budget share its
/// bound.
///
/// ```
/// use http::{Request, Response};
/// use leaparray::WindowConfig;
/// use leaparray::flow::budget::RetryBudget;
/// use leaparray_tower::RetryWithin;
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 20 % of the requests of 10 s, and 10 retries besides.
/// let window = WindowConfig::new(10, Duration::from_secs(10))?;
/// let budget = Arc::new(RetryBudget::new(window, 0.2, 10)?);
/// let policy = RetryWithin::new(budget, 2, |_: &Request<()>, result: &Result<_, _>| {
///     result.as_ref().is_ok_and(|it: &Response<()>| it.status() == 503)
/// });
/// let service = service_fn(async |_: Request<()>| {
///     Response::builder().status(503).body(())
/// });
/// let mut service = ServiceBuilder::new().retry(policy).service(service);
/// let response = service.ready().await?.call(Request::new(())).await?;
/// assert_eq!(response.status(), 503, "also after two retries");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RetryWithin<F, B = AtOnce, C = MonotonicClock> {
    budget: TowerBudget<C>,
    left: u32,
    should_retry: F,
    backoff: B,
    is_deposited: bool,
}

impl<F, C> RetryWithin<F, AtOnce, C> {
    /// Creates a policy of up to `retries` retries of a request for whose result `should_retry`
    /// returns `true`. It retries at once.
    #[must_use]
    pub const fn new(budget: Arc<RetryBudget<C>>, retries: u32, should_retry: F) -> Self {
        let budget = TowerBudget(budget);
        Self { budget, left: retries, should_retry, backoff: AtOnce, is_deposited: false }
    }

    /// Waits before each retry, as an `ExponentialBackoff` of tower says.
    #[must_use]
    pub fn backoff<B: Backoff>(self, backoff: B) -> RetryWithin<F, B, C> {
        let Self { budget, left, should_retry, is_deposited, .. } = self;
        RetryWithin { budget, left, should_retry, backoff, is_deposited }
    }
}

impl<Req, Res, E, F, B, C> Policy<Req, Res, E> for RetryWithin<F, B, C>
where
    Req: Clone,
    F: Fn(&Req, &Result<Res, E>) -> bool,
    B: Backoff,
    C: Clock,
{
    type Future = B::Future;

    fn retry(&mut self, req: &mut Req, result: &mut Result<Res, E>) -> Option<B::Future> {
        // tower has cloned the policy for this request, after the deposit.
        self.is_deposited = true;
        if self.left == 0 || !(self.should_retry)(req, result) || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, req: &Req) -> Option<Req> {
        if !self.is_deposited {
            self.budget.deposit();
        }
        Some(req.clone())
    }
}

impl<F, B, C> fmt::Debug for RetryWithin<F, B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWithin").field("left", &self.left).finish_non_exhaustive()
    }
}

/// A [`Policy`] of tower's `Retry`: retries a request while a closure asks for it, up to a number
/// of retries, and within a [`LiveBudget`], a share of the other requests in flight.
///
/// A request is in flight from its call until its response, or until its future is dropped, and a
/// retry from its decision, with the wait before it, until its result.
///
/// ```
/// use leaparray::flow::budget::LiveBudget;
/// use leaparray_tower::RetryLive;
/// use std::sync::Arc;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 20 % of the other requests in flight, or three retries if that is more.
/// let budget = Arc::new(LiveBudget::new(0.2, 3)?);
/// let failed = |_: &u32, result: &Result<u32, String>| result.is_err();
/// let policy = RetryLive::new(Arc::clone(&budget), 2, failed);
/// let fails = service_fn(async |_: u32| Err("failed".to_owned()));
/// let mut service = ServiceBuilder::new().retry(policy).service(fails);
/// assert!(service.ready().await?.call(7).await.is_err(), "also after two retries");
/// assert_eq!((budget.requests(), budget.retries()), (0, 0));
/// # Ok(())
/// # }
/// ```
pub struct RetryLive<F, B = AtOnce> {
    budget: Arc<LiveBudget>,
    left: u32,
    should_retry: F,
    backoff: B,
    /// The request that has just been called, until tower clones the policy for its response.
    called: Mutex<Option<LiveRequest<Arc<LiveBudget>>>>,
    /// The request of this policy, if tower has cloned it for one.
    request: Option<LiveRequest<Arc<LiveBudget>>>,
    retry: Option<RetryPermit<Arc<LiveBudget>>>,
}

impl<F> RetryLive<F> {
    /// Creates a policy of up to `retries` retries of a request for whose result `should_retry`
    /// returns `true`. It retries at once.
    #[must_use]
    pub const fn new(budget: Arc<LiveBudget>, retries: u32, should_retry: F) -> Self {
        let called = Mutex::new(None);
        let (left, backoff, request, retry) = (retries, AtOnce, None, None);
        Self { budget, left, should_retry, backoff, called, request, retry }
    }

    /// Waits before each retry, as an `ExponentialBackoff` of tower says.
    #[must_use]
    pub fn backoff<B: Backoff>(self, backoff: B) -> RetryLive<F, B> {
        let Self { budget, left, should_retry, called, request, retry, .. } = self;
        RetryLive { budget, left, should_retry, backoff, called, request, retry }
    }
}

impl<F: Clone, B: Clone> Clone for RetryLive<F, B> {
    /// Takes the request that has just been called along: tower clones the policy for its response.
    fn clone(&self) -> Self {
        Self {
            budget: Arc::clone(&self.budget),
            left: self.left,
            should_retry: self.should_retry.clone(),
            backoff: self.backoff.clone(),
            called: Mutex::new(None),
            request: self.called.lock().unwrap_or_else(PoisonError::into_inner).take(),
            retry: None,
        }
    }
}

impl<Req, Res, E, F, B> Policy<Req, Res, E> for RetryLive<F, B>
where
    Req: Clone,
    F: Fn(&Req, &Result<Res, E>) -> bool,
    B: Backoff,
{
    type Future = B::Future;

    fn retry(&mut self, req: &mut Req, result: &mut Result<Res, E>) -> Option<B::Future> {
        // The attempt has ended.
        self.retry = None;
        if self.left == 0 || !(self.should_retry)(req, result) {
            return None;
        }
        self.retry = Some(self.budget.try_acquire().at_once().ok()?);
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, req: &Req) -> Option<Req> {
        if self.request.is_none() {
            let called = self.called.get_mut().unwrap_or_else(PoisonError::into_inner);
            *called = Some(LiveRequest::of(Arc::clone(&self.budget)));
        }
        Some(req.clone())
    }
}

impl<F, B> fmt::Debug for RetryLive<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLive").field("left", &self.left).finish_non_exhaustive()
    }
}

/// No wait before a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtOnce;

impl Backoff for AtOnce {
    type Future = Ready<()>;

    fn next_backoff(&mut self) -> Ready<()> {
        ready(())
    }
}
