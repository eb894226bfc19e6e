//! A resource of an HTTP server.

use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::http::header::{ETAG, HeaderValue, IF_NONE_MATCH, TRANSFER_ENCODING};
use ureq::http::{Response, StatusCode, Version};
#[cfg(feature = "https")]
use ureq::tls::TlsConfig;
use ureq::typestate::AgentScope;
use ureq::{Agent, Body};

use super::{Follow, Source, SourceError};
use crate::document::Documents;

/// The time after which a server that has not answered is away.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

type Builder = ConfigBuilder<AgentScope>;

/// The longest text.
const LONGEST: u64 = 64 << 20;

/// A text, and the tag that its server has given it.
struct Http {
    agent: Agent,
    url: String,
    /// The last text, with its tag.
    known: Option<(HeaderValue, String)>,
}

impl Follow {
    /// Follows the text at a URL by `GET`. If the server gives it an `ETag`, the later requests
    /// have an `If-None-Match`, so that a text that stays is not sent again. A server is away that
    /// does not answer in ten seconds, or with another status than 200 and 304, such as the status
    /// of a redirect, or that sends a text with neither its length nor chunks, of which a half
    /// looks whole.
    ///
    /// A text counts at once if it has each rule that is in force and ends with a line break. Any
    /// other counts if it is the same a second later, since a server may send a file that is being
    /// written.
    ///
    /// A URL that begins with `https` needs the feature `https`.
    ///
    /// ```no_run
    /// use leaparray::Registry;
    /// use leaparray_rules::{Follow, Rules};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let follow = Follow::http("http://config.internal/limits.toml");
    /// rules.follow(follow.every(Duration::from_secs(5)).may_be_away())?;
    /// # Ok::<_, leaparray_rules::FollowError>(())
    /// ```
    pub fn http(url: impl Into<String>) -> Self {
        Self::http_within(url, PATIENCE)
    }

    /// Like [`http`](Self::http), with another time in which the server has to send the whole text.
    pub fn http_within(url: impl Into<String>, patience: Duration) -> Self {
        let (agent, url) = (agent(Some(patience)), url.into());
        Self::source(&without_secrets(&url), Http { agent, url, known: None })
    }
}

/// Returns an agent that leaves statuses to its caller.
pub(super) fn agent(patience: Option<Duration>) -> Agent {
    configured(|it| it.timeout_global(patience))
}

/// Returns such an agent with time-outs.
pub(super) fn configured(time_outs: impl FnOnce(Builder) -> Builder) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("leaparray-rules/", env!("CARGO_PKG_VERSION")));
    // Those that the system trusts: a server of rules may have a certificate of its company.
    #[cfg(feature = "https")]
    let config = config.tls_config(
        TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build(),
    );
    time_outs(config).build().into()
}

/// Returns a URL as messages may have it: without user, password, query and fragment, which may be
/// secrets.
pub(super) fn without_secrets(url: &str) -> String {
    let is_scheme = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric());
    let scheme = url.split_once("://").filter(|(it, _)| is_scheme(it));
    let (scheme, rest) = url.split_at(scheme.map_or(0, |(it, _)| it.len() + "://".len()));
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    match rest.rfind('@') {
        // Either the query has the `@`, or the password the `?`.
        Some(at) if at > end => format!("{scheme}…"),
        // A password may also have an `@` or a `/`.
        at => format!("{scheme}{}", &rest[at.map_or(0, |it| it + 1)..end]),
    }
}

/// Returns an error as messages may have it.
pub(super) fn told(error: ureq::Error) -> SourceError {
    match error {
        // Its text has the URL.
        ureq::Error::BadUri(_) => "the URL is none of a server".into(),
        other => other.into(),
    }
}

/// Returns whether a text that is cut is found to be so.
fn has_end(response: &Response<Body>) -> bool {
    let mut codings = response.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked = codings.any(|it| it.as_bytes().eq_ignore_ascii_case(b"chunked"));
    response.body().content_length().is_some()
        || is_chunked && response.version() >= Version::HTTP_11
}

impl Source for Http {
    fn read(&mut self) -> Result<Documents, SourceError> {
        let mut request = self.agent.get(&self.url);
        if let Some((tag, _)) = &self.known {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let mut response = request.call().map_err(told)?;
        match response.status() {
            StatusCode::OK if !has_end(&response) => {
                Err("the server has sent a text with neither its length nor chunks".into())
            }
            StatusCode::OK => {
                let tag = response.headers().get(ETAG).cloned();
                let text = response.body_mut().with_config().limit(LONGEST).read_to_string()?;
                self.known = tag.map(|tag| (tag, text.clone()));
                Ok(text.into())
            }
            status => match &self.known {
                Some((_, text)) if status == StatusCode::NOT_MODIFIED => Ok(text.clone().into()),
                _ => Err(format!("the server has answered with the status {status}").into()),
            },
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}
