//! Names by the routes of axum.

use std::any::Any;

use axum::extract::MatchedPath;
use http::response::Parts;
use http::{Request, StatusCode};

use super::{Name, method_name};

/// Names a request by its method and the route that axum has matched, such as `GET /orders/{id}`.
///
/// A request without a matched route, as to a fallback, is recorded in the resource
/// [`OTHER`](super::OTHER). A middleware sees the matched route if it is added by `Router::layer`,
/// `Router::route_layer` or `MethodRouter::layer`. Around a service that is nested by
/// `Router::nest_service`, it sees none: add the layer to the nested router instead.
///
/// Clients cannot invent routes, so each response [confirms](Name#unconfirmed-names) the name, but
/// for one with the status 405: a method that the route does not have makes no resource.
///
/// ```
/// use axum::body::{Body, to_bytes};
/// use axum::{Router, routing::get};
/// use leaparray::{MetricEvent, Registry};
/// use leaparray_tower::{MatchedRoute, OTHER, ResourceLayer};
/// use std::sync::Arc;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = Arc::new(Registry::new());
/// let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?;
/// let app: Router =
///     Router::new().route("/orders/{id}", get(async || "an order")).layer(layer);
/// for path in ["/orders/7", "/admin.php"] {
///     let request = http::Request::get(path).body(Body::empty())?;
///     to_bytes(app.clone().oneshot(request).await?.into_body(), 100).await?;
/// }
/// for name in ["GET /orders/{id}", OTHER] {
///     assert_eq!(registry.get(name).unwrap().lifetime().sum(MetricEvent::Success), 1);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchedRoute;

impl<A> Name<A> for MatchedRoute {
    fn write(&self, request: &Request<A>, name: &mut String) {
        if let Some((method, route)) = Name::route(self, request) {
            name.push_str(method);
            name.push(' ');
            name.push_str(route);
        }
    }

    #[inline]
    fn route<'a>(&self, request: &'a Request<A>) -> Option<(&'static str, &'a str)> {
        let route: &MatchedPath = request.extensions().get()?;
        Some((method_name(request.method()), route.as_str()))
    }

    fn route_owner(&self, request: &Request<A>) -> Option<Box<dyn Any>> {
        // A clone shares the text, which is immutable.
        Some(Box::new(request.extensions().get::<MatchedPath>()?.clone()))
    }

    /// Returns whether the route has the method: a client cannot invent routes.
    fn confirms(&self, response: &Parts) -> bool {
        response.status != StatusCode::METHOD_NOT_ALLOWED
    }
}
