//! A resource of an HTTP server.

use std::time::Duration;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use ureq::http::{StatusCode, Uri};
#[cfg(feature = "https")]
use ureq::tls::TlsConfig;
use ureq::typestate::AgentScope;

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
    /// have an `If-None-Match`, so that a text that stays is not sent again. Each text counts at
    /// once. A server that does not answer in ten seconds, or with another status than 200 and 304,
    /// is away.
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
        Self::source(&without_credentials(&url), Http { agent, url, known: None })
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
        .user_agent(concat!("leaparray-rules/", env!("CARGO_PKG_VERSION")));
    // Those that the system trusts: a server of rules may have a certificate of its company.
    #[cfg(feature = "https")]
    let config = config.tls_config(
        TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build(),
    );
    time_outs(config).build().into()
}

/// Returns a URL as messages may have it.
pub(super) fn without_credentials(url: &str) -> String {
    let authority = url.parse::<Uri>().ok().and_then(|it| it.authority().cloned());
    let Some(authority) = authority else { return url.to_owned() };
    match authority.as_str().rsplit_once('@') {
        Some((_, host)) => url.replacen(authority.as_str(), host, 1),
        None => url.to_owned(),
    }
}

impl Source for Http {
    fn read(&mut self) -> Result<Documents, SourceError> {
        let mut request = self.agent.get(&self.url);
        if let Some((tag, _)) = &self.known {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let mut response = request.call()?;
        match response.status() {
            StatusCode::OK => {
                let tag = response.headers().get(ETAG).cloned();
                let text = response.body_mut().with_config().limit(LONGEST).read_to_string()?;
                self.known = tag.map(|tag| (tag, text.clone()));
                Ok(text.into())
            }
            StatusCode::NOT_MODIFIED if let Some((_, text)) = &self.known => {
                Ok(text.clone().into())
            }
            status => Err(format!("the server has answered with the status {status}").into()),
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}
