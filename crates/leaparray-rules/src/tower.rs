//! The rules in a layer of `leaparray-tower`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Request;
use leaparray::flow::{Ask, Decision, LimiterExt};
use leaparray::{MonotonicClock, Resource};
use leaparray_tower::Limits;

use crate::caller::Caller;
use crate::client::Network;
use crate::key::Key;
use crate::layer_admission::{LayerAdmission, LayerPermits};
use crate::limiter::RuleClock;
use crate::plan::{Admission, AtOnce};
use crate::rule::KeySource;
use crate::rules::Rules;

/// The address of the client of a request, as an extension of the request: for the key `client`.
///
/// Behind a proxy, the connection is the proxy's. An outer layer that knows which headers of the
/// proxy to trust inserts the address. It comes before axum's `ConnectInfo<SocketAddr>`, which with
/// the feature `axum` is the address otherwise.
///
/// ```
/// use http::Request;
/// use leaparray_rules::{Caller, ClientAddress, KeySource};
/// use std::net::IpAddr;
///
/// let client: IpAddr = "10.1.2.3".parse()?;
/// let request = Request::builder().extension(ClientAddress(client)).body(())?;
/// let key = request.key(&KeySource::Client { v4: 24, v6: 64 });
/// assert_eq!(key.as_deref(), Some("10.1.2.0/24"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

/// The keys that the program has found for a request, as an extension of the request: for the keys
/// `extension:NAME`. For example the tenant, from a token that an outer layer has verified.
///
/// ```
/// use http::Request;
/// use leaparray_rules::{Caller, KeySource, RequestKeys};
///
/// let keys = RequestKeys::default().with("tenant", "acme").with("plan", "free");
/// let request = Request::builder().extension(keys).body(())?;
/// let key = request.key(&KeySource::Extension("tenant".into()));
/// assert_eq!(key.as_deref(), Some("acme"));
/// # Ok::<_, http::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestKeys(Vec<(Arc<str>, Arc<str>)>);

impl RequestKeys {
    /// Adds a key with its name. If two keys have one name, the first one counts.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Self {
        self.0.push((name.into(), key.into()));
        self
    }
}

/// A request has the keys of its headers, of its [`ClientAddress`], and of its [`RequestKeys`]. A
/// header that was sent more than once is no key, but each value counts for conditions.
impl<A> Caller for Request<A> {
    type Key = Key;

    fn key(&self, source: &KeySource) -> Option<Key> {
        match source {
            KeySource::Header(name) => {
                let mut values = self.headers().get_all(&**name).iter();
                let value = values.next()?;
                // Of several values, this service and one behind it may take different ones.
                values.next().is_none().then(|| Key::of_header(value))
            }
            KeySource::Client { v4, v6 } => {
                let (address, v4, v6) = (client(self)?, *v4, *v6);
                Some(Key::of_client(Network { address, v4, v6 }))
            }
            KeySource::Extension(name) => {
                let RequestKeys(keys) = self.extensions().get()?;
                let (_, key) = keys.iter().find(|(known, _)| **known == **name)?;
                Some(Key::of_extension(key))
            }
            KeySource::Resource | KeySource::Context => None,
        }
    }

    fn several(&self, source: &KeySource) -> Vec<Key> {
        let KeySource::Header(name) = source else { return Vec::new() };
        self.headers().get_all(&**name).iter().map(Key::of_header).collect()
    }
}

/// Returns the address of the client.
fn client<A>(request: &Request<A>) -> Option<IpAddr> {
    if let Some(ClientAddress(address)) = request.extensions().get() {
        return Some(*address);
    }
    connected(request).map(|it| it.ip())
}

#[cfg(feature = "axum")]
fn connected<A>(request: &Request<A>) -> Option<SocketAddr> {
    request.extensions().get().map(|axum::extract::ConnectInfo(address)| *address)
}

#[cfg(not(feature = "axum"))]
const fn connected<A>(_request: &Request<A>) -> Option<SocketAddr> {
    None
}

/// The rules as the [`Limits`] of a [`ResourceLayer`](leaparray_tower::ResourceLayer). Returned by
/// [`Rules::limits`].
#[derive(Clone, Debug)]
pub struct RuleLimits<C: RuleClock = MonotonicClock>(Rules<C>);

impl<A, C: RuleClock> Limits<A, C> for RuleLimits<C> {
    type Limiter = LayerAdmission<C>;

    #[inline]
    fn with<T>(
        &self,
        request: &Request<A>,
        resource: &Resource<C>,
        then: impl FnOnce(Option<&LayerAdmission<C>>) -> T,
    ) -> T {
        let admission = LayerAdmission::new(self.0.limiter(resource, request));
        then(Some(&admission).filter(|it| !it.is_empty()))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    fn ask<T>(
        &self,
        request: &Request<A>,
        resource: &Resource<C>,
        ask: &Ask<'_>,
        needs_limiter: bool,
        then: impl FnOnce(Option<&LayerAdmission<C>>, Decision<Option<LayerPermits<C>>>) -> T,
    ) -> T {
        let path =
            if needs_limiter { AtOnce::Unasked } else { self.0.admit(resource, request, ask) };
        match path {
            AtOnce::Admitted => then(None, Decision::Admitted(None)),
            AtOnce::InFlight(permit) => {
                then(None, Decision::Admitted(Some(LayerPermits::in_flight(permit))))
            }
            AtOnce::Permits(permits) => then(None, Decision::Admitted(Some(permits.into()))),
            AtOnce::Unasked => {
                self.with(request, resource, |limiter| then(limiter, limiter.ask(ask)))
            }
            AtOnce::Otherwise(version, word, decision) => {
                let (admission, decision) =
                    Admission::concluded((version, word), resource, request, ask, decision);
                then(Some(&LayerAdmission::new(admission)), decision.map(|it| Some(it.into())))
            }
        }
    }
}

impl<C: RuleClock> Rules<C> {
    /// Returns the rules for a layer of `leaparray-tower` over the same registry, around a service
    /// or around a client.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use leaparray_rules::{RuleSet, Rules};
    /// use leaparray_tower::ResourceLayer;
    /// use std::convert::Infallible;
    /// use std::sync::Arc;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rules = Rules::new(Arc::new(leaparray::Registry::new()));
    /// rules.apply(&RuleSet::parse(
    ///     "[[rule]]\nname = \"payments\"\noutbound = \"*.internal\"\nkey = \"resource\"\n\
    ///      limit = \"1 per minute, bursts of 1\"",
    /// )?);
    /// let host = |request: &Request<()>, name: &mut String| name.extend(request.uri().host());
    /// let layer = ResourceLayer::outbound(Arc::clone(rules.registry()), host)?;
    /// let call = async |_| Ok::<_, Infallible>(Response::new(String::new()));
    /// let client =
    ///     ServiceBuilder::new().layer(layer.limits(rules.limits())).service(service_fn(call));
    /// for (uri, status) in [
    ///     ("https://payments.internal/pay", 200),
    ///     ("https://payments.internal/pay", 429),
    ///     ("https://stock.internal/count", 200),
    /// ] {
    ///     let response = client.clone().oneshot(Request::get(uri).body(())?).await?;
    ///     assert_eq!(response.status(), status, "{uri}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limits(&self) -> RuleLimits<C> {
        RuleLimits(self.clone())
    }

    /// Returns a layer for axum: each request is recorded in the resource of its route, such as
    /// `GET /orders/{id}`, and decided by the rules.
    ///
    /// # Errors
    ///
    /// As for [`ResourceLayer::new`](leaparray_tower::ResourceLayer::new).
    #[cfg(feature = "axum")]
    pub fn layer(&self) -> Result<RuleLayer<C>, leaparray::registry::RegistryError> {
        use leaparray_tower::{MatchedRoute, ResourceLayer};
        let layer = ResourceLayer::new(Arc::clone(self.registry()), MatchedRoute)?;
        Ok(layer.limits(self.limits()))
    }
}

/// The layer of [`Rules::layer`].
#[cfg(feature = "axum")]
pub type RuleLayer<C = MonotonicClock> = leaparray_tower::ResourceLayer<
    leaparray_tower::MatchedRoute,
    leaparray_tower::ByStatus,
    RuleLimits<C>,
    leaparray_tower::Answer,
    C,
>;
