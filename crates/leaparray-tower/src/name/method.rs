//! The names of methods.

use http::Method;

/// Returns the name of a method of RFC 9110, of `PATCH` (RFC 5789) or of `QUERY`, and `_OTHER` for
/// every other method. Clients can invent methods, so the names of resources should not contain
/// them as they are.
///
/// ```
/// use http::Method;
/// use leaparray_tower::method_name;
///
/// assert_eq!(method_name(&Method::GET), "GET");
/// assert_eq!(method_name(&Method::from_bytes(b"QUERY")?), "QUERY");
/// assert_eq!(method_name(&Method::from_bytes(b"SCAN42")?), "_OTHER");
/// # Ok::<_, http::method::InvalidMethod>(())
/// ```
//
// Out of line: the slots of a thread compare names by their addresses, and inlined copies can have
// different ones, with which each request would be looked up in the registry.
#[must_use]
#[inline(never)]
pub fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        // No constant of the older versions of `http` that this crate supports.
        _ if method.as_str() == "QUERY" => "QUERY",
        _ => "_OTHER",
    }
}
