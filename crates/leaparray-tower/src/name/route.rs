//! Names by the routes of axum.

use axum::extract::MatchedPath;
use http::Request;

use super::{Name, method_name};

/// Names a request by its method and the route that axum has matched, such as `GET /orders/{id}`.
///
/// A request without a matched route, as to a fallback, is recorded in the resource [`OTHER`](super::OTHER). A middleware sees
/// the matched route if it is added by `Router::layer`, `Router::route_layer` or `MethodRouter::layer`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchedRoute;

impl<A> Name<A> for MatchedRoute {
    fn write(&self, request: &Request<A>, name: &mut String) {
        if let Some(route) = request.extensions().get::<MatchedPath>() {
            name.push_str(method_name(request.method()));
            name.push(' ');
            name.push_str(route.as_str());
        }
    }
}
