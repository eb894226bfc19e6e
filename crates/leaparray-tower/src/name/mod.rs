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

/// The name of the resource of requests for which [`Name::write`] writes nothing, or whose name is
/// not listed: the registry is full, the name is invalid, or the layer lists as many
/// [unconfirmed](Name#unconfirmed-names) names as it does at a time.
pub const OTHER: &str = "(other)";

/// Like [`OTHER`], for the requests of [clients](crate::ResourceLayer::outbound).
pub const OTHER_OUTBOUND: &str = "(other outbound)";

/// A function from requests to the names of their resources.
///
/// A closure that takes the request and a string is one. The number of names should be bounded,
/// whatever clients send: use the pattern of a route, not the path of a request.
///
/// # Unconfirmed names
///
/// A client can invent names, and each of its requests can be turned away: by the limiter, by the
/// service, or by the client, which leaves. So that such names do not fill the registry, a layer
/// lists at most 100 names at a time that no response has confirmed. A response to the request that
/// listed the name confirms it by a status below 400; in gRPC, by the status `OK` in its head, or
/// otherwise by the first success. For a further name, the oldest resource with an unconfirmed name
/// and without a request in flight is removed, with the limiter that lives with it; if there is
/// none, the request is recorded in [`OTHER`]. The next request with a removed name lists it again.
/// A resource that the program has listed by itself is never removed.
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
    /// of the registry keep the counts of all its requests. Without a response, the name stays
    /// [unconfirmed](Self#unconfirmed-names).
    fn is_unknown(&self, _response: &Parts) -> bool {
        false
    }
}

impl<A, F: Fn(&Request<A>, &mut String)> Name<A> for F {
    fn write(&self, request: &Request<A>, name: &mut String) {
        self(request, name);
    }
}
