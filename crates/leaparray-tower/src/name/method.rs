//! The names of methods.

use http::Method;

/// Returns the name of a method of RFC 9110, or of `PATCH` (RFC 5789), and `_OTHER` for every other
/// method. Clients can invent methods, so the names of resources should not contain them as they
/// are.
///
/// ```
/// use http::Method;
/// use leaparray_tower::method_name;
///
/// assert_eq!(method_name(&Method::GET), "GET");
/// assert_eq!(method_name(&Method::from_bytes(b"SCAN42")?), "_OTHER");
/// # Ok::<_, http::method::InvalidMethod>(())
/// ```
#[must_use]
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
        _ => "_OTHER",
    }
}
