//! Which requests are answered.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri, Version, header};

/// Which requests a [`Page`](crate::Page) answers.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_web::{Access, Page};
/// use std::sync::Arc;
///
/// // For a network that is trusted.
/// let page = Page::new(Arc::new(Registry::new())).access(Access::Anyone);
/// let router: axum::Router = page.router();
/// # let _ = router;
/// assert_eq!(Access::default(), Access::Loopback);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Requests from this machine: the address of the client is a loopback address, the request
    /// names `localhost` or a loopback address as its host, and it has no header of a proxy.
    /// Requests of HTTP/1.0 are refused: a proxy with the default configuration of nginx sends
    /// these. A proxy on this machine that adds no header is not recognized: use
    /// [`authorize`](crate::Page::authorize) behind one.
    ///
    /// The name of the host is checked against DNS rebinding: a page of another site whose name
    /// resolves to a loopback address names that site as the host.
    #[default]
    Loopback,
    /// All requests, except for those that a page of another origin makes.
    Anyone,
}

type Hook = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// The check of all requests.
#[derive(Clone)]
pub(crate) enum Gate {
    Access(Access),
    Hook(Hook),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Unauthorized,
    CrossSite,
    UnknownPeer,
    RemotePeer,
    ForeignHost,
    Forwarded,
}

/// The headers that proxies add, except for the headers that begin with `x-forwarded-`.
const FORWARDED: [&str; 11] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-original-host",
    "x-envoy-external-address",
    "cf-connecting-ip",
    "true-client-ip",
    "fly-client-ip",
];

impl Gate {
    pub(crate) fn check(&self, request: &Parts) -> Result<(), Denied> {
        if is_foreign(request) {
            return Err(Denied::CrossSite);
        }
        match self {
            Self::Access(Access::Anyone) => Ok(()),
            Self::Access(Access::Loopback) => check_loopback(request),
            Self::Hook(hook) => hook(request).then_some(()).ok_or(Denied::Unauthorized),
        }
    }
}

impl Denied {
    /// Returns what is wrong, and what would be right.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Unauthorized => "The authorization hook of this page has refused the request.\n",
            Self::CrossSite => {
                "The request was made by a page of another site. Open the address itself.\n"
            }
            Self::UnknownPeer => {
                "The address of the client is not known, so this page cannot tell whether it is on this machine.\n\
                 Serve the router by `into_make_service_with_connect_info::<SocketAddr>()`, or choose who may read \
                 the page: `Page::access(Access::Anyone)`, or `Page::authorize`.\n"
            }
            Self::RemotePeer => {
                "This page answers requests from its own machine only.\n\
                 To change that, call `Page::access(Access::Anyone)`, or `Page::authorize`.\n"
            }
            Self::ForeignHost => {
                "The request names a host that is not `localhost` or a loopback address.\n\
                 To answer such requests, call `Page::access(Access::Anyone)`, or `Page::authorize`.\n"
            }
            Self::Forwarded => {
                "The request has a header of a proxy, or is one of HTTP/1.0, so its client may be on another machine.\n\
                 To answer such requests, call `Page::access(Access::Anyone)`, or `Page::authorize`.\n"
            }
        }
    }
}

/// Returns whether a page of another origin has made the request. Such a page cannot read the
/// answer, but the request would take the place of a viewer. A link to the page itself may be
/// anywhere.
fn is_foreign(request: &Parts) -> bool {
    let header = |name: &str| request.headers.get(name).map(HeaderValue::as_bytes);
    // Browsers send the header to loopback addresses and over TLS only. `none`: the user has
    // entered the address.
    let is_foreign_site =
        header("sec-fetch-site").is_some_and(|site| site != b"same-origin" && site != b"none");
    let is_link = matches!(request.uri.path(), "/" | "")
        && header("sec-fetch-mode") == Some(b"navigate")
        && header("sec-fetch-dest") == Some(b"document");
    let is_other_origin = request.headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|it| it.parse::<Uri>().ok());
        let origin = origin.as_ref().and_then(Uri::authority);
        origin.is_none_or(|origin| host(request).as_ref() != Some(origin))
    });
    is_foreign_site && !is_link || is_other_origin
}

/// Returns the host and the port that the request names.
fn host(request: &Parts) -> Option<Authority> {
    if let Some(authority) = request.uri.authority() {
        return Some(authority.clone());
    }
    request.headers.get(header::HOST)?.to_str().ok()?.parse().ok()
}

fn check_loopback(request: &Parts) -> Result<(), Denied> {
    let peer = request.extensions.get::<ConnectInfo<SocketAddr>>();
    let ConnectInfo(peer) = peer.ok_or(Denied::UnknownPeer)?;
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Denied::RemotePeer);
    }
    let is_added = |name: &str| name.starts_with("x-forwarded-") || FORWARDED.contains(&name);
    if request.version < Version::HTTP_11 || request.headers.keys().any(|it| is_added(it.as_str()))
    {
        return Err(Denied::Forwarded);
    }
    if names_loopback(request) { Ok(()) } else { Err(Denied::ForeignHost) }
}

/// Returns whether all hosts that the request names are this machine, and it names one.
fn names_loopback(request: &Parts) -> bool {
    let of_uri = request.uri.authority().map(Authority::host);
    let headers = request.headers.get_all(header::HOST);
    let of_headers = headers.iter().map(|value| {
        let authority = value.to_str().ok()?.parse::<Authority>().ok()?;
        Some(is_loopback(authority.host()))
    });
    let mut hosts = of_uri.map(|host| Some(is_loopback(host))).into_iter().chain(of_headers);
    let first = hosts.next().flatten();
    first == Some(true) && hosts.all(|host| host == Some(true))
}

fn is_loopback(host: &str) -> bool {
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    address.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().is_loopback())
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(access) => access.fmt(f),
            Self::Hook(_) => f.write_str("Hook"),
        }
    }
}
