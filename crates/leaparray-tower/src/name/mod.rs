//! The names of resources.

#[cfg(feature = "tonic")]
mod grpc;
mod method;
#[cfg(feature = "axum")]
mod route;

use std::any::Any;

use http::response::Parts;
use http::{Request, StatusCode};

#[cfg(feature = "tonic")]
pub use grpc::GrpcMethod;
pub use method::method_name;
#[cfg(feature = "axum")]
pub use route::MatchedRoute;

/// The name of the resource of requests for which [`Name::write`] writes nothing, or whose name is
/// not listed: the registry is full, the name is invalid, or there is no room for further
/// [unconfirmed](Name#unconfirmed-names) names.
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
/// service, or by the client, which leaves. So that such names do not fill the registry, the layers
/// for services over one registry list at most 100 names that no response has confirmed, or half of
/// the maximum of the registry if that is less.
///
/// A response confirms the name of its request if [`confirms`](Self::confirms) returns true for its
/// head. One of gRPC must also have the status `OK`, in its head or in its trailers.
///
/// For further names, requests are recorded in [`OTHER`], and counted by
/// [`Registry::refused`](leaparray::Registry::refused), until a response confirms the name and so
/// lists it. Until then, a limiter [of each resource](crate::ResourceLayer::limit_each) is the one
/// of [`OTHER`]. To prevent that for a name that needs its own limiter, list it before the service
/// starts, by [`Registry::resource`](leaparray::Registry::resource), and keep that handle, without
/// which an idle resource can be evicted. Give [`OTHER`] a limiter too.
///
/// A response with the status 405 that does not confirm its name makes no resource: the one of an
/// unconfirmed name, all of whose requests were answered so, is removed. Further requests with that
/// name are recorded in [`OTHER`] until a response confirms it. Removed resources can have series
/// in exporters, so at most 100 names are known in this way. From then on, a new name is listed
/// after its first response, unless that has the status 405 or is a failure of gRPC, and no more by
/// its first request.
///
/// The layer removes no other resource, so clients cannot reset the limiter or the breaker of one.
/// The program makes room when it [evicts](leaparray::Registry::evict_idle_at) idle resources.
///
/// A layer around a client lists all names, which the program chooses.
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

    /// Returns the method and the route that make the name, if they do: requests with equal ones
    /// have equal names. The resource of a request can then be found without writing its name.
    #[doc(hidden)]
    fn route<'a>(&self, _request: &'a Request<A>) -> Option<(&'static str, &'a str)> {
        None
    }

    /// Returns an owner of the text of the [route](Self::route): while it exists, the text stays
    /// where it is and as it is. So another request with a route at that address has an equal one.
    #[doc(hidden)]
    fn route_owner(&self, _request: &Request<A>) -> Option<Box<dyn Any>> {
        None
    }

    /// Returns whether the head of a response to a request with this name shows that the target of
    /// the request exists, and so [confirms](Self#unconfirmed-names) the name. Called for
    /// unconfirmed names only. The default is a status below 300, or 304, since a status such as
    /// 302, 401 or 404 can be the answer for any target. A service that answers unknown targets
    /// with a page and the status 200 needs a rule of its own.
    fn confirms(&self, response: &Parts) -> bool {
        response.status < StatusCode::MULTIPLE_CHOICES
            || response.status == StatusCode::NOT_MODIFIED
    }
}

impl<A, F: Fn(&Request<A>, &mut String)> Name<A> for F {
    fn write(&self, request: &Request<A>, name: &mut String) {
        self(request, name);
    }
}
