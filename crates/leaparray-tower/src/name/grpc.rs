//! Names by the methods of gRPC.

use http::Request;

use super::Name;

/// Names a request by its service and method of gRPC, such as `shop.Orders/Place`.
///
/// A client can call methods that the server does not have; see [Unconfirmed
/// names](Name#unconfirmed-names). A request whose path is not that of a method is recorded in the
/// resource [`OTHER`](super::OTHER).
///
/// ```
/// use http::Request;
/// use leaparray_tower::{GrpcMethod, Name};
///
/// let mut name = String::new();
/// GrpcMethod.write(&Request::post("/shop.Orders/Place").body(())?, &mut name);
/// assert_eq!(name, "shop.Orders/Place");
/// # Ok::<_, http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcMethod;

impl<A> Name<A> for GrpcMethod {
    fn write(&self, request: &Request<A>, name: &mut String) {
        let path = request.uri().path().strip_prefix('/').unwrap_or_default();
        let is_part = |part: &str| !part.is_empty() && !part.contains('/');
        if path.split_once('/').is_some_and(|(service, method)| is_part(service) && is_part(method))
        {
            name.push_str(path);
        }
    }
}
