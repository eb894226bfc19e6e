//! Which requests are answered.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::token::Token;

/// Which requests a [`Page`](crate::Page) answers.
///
/// There is no default. A check of the client's address could not be right: behind a proxy on the
/// same machine, every request comes from this machine, and whether a header tells that there was a
/// proxy depends on the proxy.
///
/// | access | for |
/// |---|---|
/// | [`token`](Self::token) | development, and services without authentication of their own |
/// | [`authorized_by`](Self::authorized_by) | services that can tell from a request who may read the page |
/// | [`anyone`](Self::anyone) | services that have authentication in front of the page, or a network that is trusted |
///
/// With each of them, requests that a browser marks as those of a page of another origin are
/// refused with the status 403, except for links to the page itself.
///
/// ```
/// use leaparray::Registry;
/// use leaparray_web::{Access, Token};
/// use std::sync::Arc;
///
/// let token = Token::random();
/// let page = leaparray_web::service(Arc::new(Registry::new()), Access::token(&token));
/// let app: axum::Router = axum::Router::new().nest_service("/leaparray", page);
/// println!("live page: {}", token.url("http://127.0.0.1:3000/leaparray"));
/// # let _ = app;
/// ```
#[derive(Clone)]
pub struct Access(Check);

type Hook = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

#[derive(Clone)]
enum Check {
    Token(Token),
    Hook(Hook),
    Anyone,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    NoToken,
    WrongToken,
    Unauthorized,
    CrossSite,
}

/// The header in which the page itself sends the token. `Authorization` stays free for a proxy that
/// asks the browser for a password.
const TOKEN: HeaderName = HeaderName::from_static("leaparray-token");

impl Access {
    /// Answers requests that present the token, from any address: in the header `Authorization:
    /// Bearer TOKEN`, as scrapers of `/metrics` do, or in the header `Leaparray-Token`, as the page
    /// does. Others get the status 401, with a text that says what to do.
    ///
    /// The document of the page is answered without a token. It is the same for all services, and
    /// has no data.
    ///
    /// A browser gets the token once, by the address that [`Token::url`] returns. The page keeps it
    /// in the local storage of its origin (scheme, host and port), and removes it from the
    /// address. So no proxy, log or `Referer` header has the token in an address, and a site whose
    /// name was pointed at this machine (DNS rebinding) has another origin and so no token.
    #[must_use]
    pub fn token(token: &Token) -> Self {
        Self(Check::Token(token.clone()))
    }

    /// Answers requests for which `is_allowed` returns `true`, from any address. Others get the
    /// status 403. The function is called for the document of the page, and for each request of
    /// the page, which has the cookies and the password that the browser has for its origin.
    #[must_use]
    pub fn authorized_by(is_allowed: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self(Check::Hook(Arc::new(is_allowed)))
    }

    /// Answers all requests. A site whose name was pointed at the address of the service (DNS
    /// rebinding) reads the page as well, by a browser that reaches the service.
    #[must_use]
    pub fn anyone() -> Self {
        Self(Check::Anyone)
    }

    pub(crate) fn check(&self, request: &Parts) -> Result<(), Denied> {
        if is_foreign(request) {
            return Err(Denied::CrossSite);
        }
        match &self.0 {
            Check::Anyone => Ok(()),
            Check::Hook(hook) => hook(request).then_some(()).ok_or(Denied::Unauthorized),
            Check::Token(_) if is_document(request) => Ok(()),
            Check::Token(token) => check_token(token, &request.headers),
        }
    }
}

impl Denied {
    /// Returns what is wrong, and what would be right.
    const fn text(self) -> &'static str {
        match self {
            Self::NoToken => {
                "This address needs the token of the page.\n\
                 In a browser, open the address that the service has printed at its start; it ends with `#token=…`.\n\
                 Other programs send the token in a header: `Authorization: Bearer TOKEN`.\n"
            }
            Self::WrongToken => {
                "This page has another token.\n\
                 A random token is valid until the service ends: use the one that it has printed at its last start.\n\
                 For a token that stays the same, call `Token::new` instead of `Token::random`.\n"
            }
            Self::Unauthorized => {
                "The function of `Access::authorized_by` has refused the request.\n\
                 If the service has a login, log in first.\n"
            }
            Self::CrossSite => {
                "The request was made by a page of another site. Open the address itself.\n"
            }
        }
    }

    /// Returns the challenge, by which the page tells this answer from those of a proxy.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::NoToken => Some(r#"Bearer realm="leaparray""#),
            Self::WrongToken => Some(r#"Bearer realm="leaparray", error="invalid_token""#),
            Self::Unauthorized | Self::CrossSite => None,
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        match self.challenge() {
            Some(challenge) => {
                let headers = [(header::WWW_AUTHENTICATE, challenge)];
                (StatusCode::UNAUTHORIZED, headers, self.text()).into_response()
            }
            None => (StatusCode::FORBIDDEN, self.text()).into_response(),
        }
    }
}

fn check_token(token: &Token, headers: &HeaderMap) -> Result<(), Denied> {
    let of_page = headers.get_all(TOKEN).iter().map(HeaderValue::as_bytes);
    let of_program =
        headers.get_all(header::AUTHORIZATION).iter().filter_map(|it| bearer(it.as_bytes()));
    let mut presented = of_page.chain(of_program).peekable();
    if presented.peek().is_none() {
        Err(Denied::NoToken)
    } else if presented.any(|it| token.matches(it)) {
        Ok(())
    } else {
        Err(Denied::WrongToken)
    }
}

/// Returns the token of an `Authorization` header with the scheme `Bearer`, whose case is free.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Returns whether a request is one for the document of the page.
fn is_document(request: &Parts) -> bool {
    matches!(request.uri.path(), "/" | "")
}

/// Returns whether a page of another origin has made the request. Such a page cannot read the
/// answer, but the request would take the place of a viewer. A link to the page itself may be
/// anywhere.
fn is_foreign(request: &Parts) -> bool {
    let header = |name: &str| request.headers.get(name).map(HeaderValue::as_bytes);
    let is_link = is_document(request)
        && header("sec-fetch-mode") == Some(b"navigate")
        && header("sec-fetch-dest") == Some(b"document");
    match header("sec-fetch-site") {
        // `none`: the user has entered the address.
        Some(b"same-origin" | b"none") => false,
        Some(_) => !is_link,
        // Browsers send that header to loopback addresses and over TLS only. Elsewhere, a `GET` has
        // an `Origin` if it is one of a script of another origin. It is not compared with `Host`:
        // behind some proxies, `Host` names the service.
        None => request.headers.contains_key(header::ORIGIN),
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Check::Token(_) => "Access::Token",
            Check::Hook(_) => "Access::AuthorizedBy",
            Check::Anyone => "Access::Anyone",
        })
    }
}
