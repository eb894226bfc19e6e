//! The names of resources.

#[cfg(feature = "tonic")]
mod grpc;
mod method;
#[cfg(feature = "axum")]
mod route;

use http::Request;
use http::response::Parts;

#[cfg(feature = "tonic")]
pub use grpc::GrpcMethod;
pub use method::method_name;
#[cfg(feature = "axum")]
pub use route::MatchedRoute;

/// The name of the resource of requests for which [`Name::write`] writes nothing, or whose name the
/// registry refuses because it is full or the name is invalid.
pub const OTHER: &str = "(other)";

/// Like [`OTHER`], for the requests of [clients](crate::ResourceLayer::outbound).
pub const OTHER_OUTBOUND: &str = "(other outbound)";

/// A function from requests to the names of their resources.
///
/// A closure that takes the request and a string is one. The number of names should be bounded,
/// whatever clients send: use the pattern of a route, not the path of a request.
///
/// ```
/// use http::Request;
/// use leaparray_tower::Name;
///
/// /// Names a request by the first segment of its path, if it is one of two.
/// fn area<B>(request: &Request<B>, name: &mut String) {
///     let first = request.uri().path().split('/').nth(1);
///     name.extend(first.filter(|it| ["orders", "users"].contains(it)));
/// }
///
/// let mut name = String::new();
/// area.write(&Request::get("/orders/7").body(())?, &mut name);
/// assert_eq!(name, "orders");
/// # Ok::<_, http::Error>(())
/// ```
pub trait Name<A> {
    /// Writes the name of the request's resource to `name`, which is empty. A request for which
    /// this writes nothing is recorded in the resource [`OTHER`].
    fn write(&self, request: &Request<A>, name: &mut String);

    /// Returns whether the response shows that the target of the request does not exist. If the
    /// request was the first with its name, and none with this name has succeeded yet, the layer
    /// then removes its resource, so that a scanner does not fill the registry. The lifetime totals
    /// of the registry keep the counts of all its requests. If the first request is cancelled
    /// before its response, the resource stays listed until it is removed or
    /// [evicted](leaparray::Registry::evict_idle).
    fn is_unknown(&self, _response: &Parts) -> bool {
        false
    }
}

impl<A, F: Fn(&Request<A>, &mut String)> Name<A> for F {
    fn write(&self, request: &Request<A>, name: &mut String) {
        self(request, name);
    }
}
