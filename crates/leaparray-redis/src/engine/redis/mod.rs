//! The engine over a Redis server.

mod fleet;
mod link;
mod warning;

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::ConnectionManager;
use redis::{Client, RedisError, Script};

use super::{Engine, EngineError, script};
use crate::engine::fleet::FleetScripts;
use crate::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use link::Link;

pub use warning::Warning;

/// A Redis server, or one that speaks its protocol and runs its scripts: version 5 or later, alone,
/// with Sentinel, or as a cluster.
///
/// It connects with the first ask, and again after an ask that failed or got no answer in time, so
/// a service can start while the server is away. The limiter waits between two asks, for up to a
/// second, drawn at random. To a cluster, it connects again after three asks of a clone in a row
/// without an answer: give each limiter a clone. Clones share the connection, and all limits of a
/// process may share one engine. The readers of fleets have another connection, which the first one
/// of them opens: on a slow link, the answers to asks would wait for what they fetch.
///
/// An ask is one round trip: `EVALSHA`, or also `SCRIPT LOAD` after the server has restarted.
#[derive(Clone)]
pub struct RedisEngine {
    link: Link,
    /// The connection of the readers of fleets, whose answers are long.
    reading: Link,
    script: Arc<Script>,
    fleet: Arc<FleetScripts>,
    /// Whether the settings of the server were looked at.
    #[cfg(feature = "tracing")]
    is_checked: Arc<AtomicBool>,
}

impl RedisEngine {
    /// Creates an engine for the server at an address such as `redis://user:password@host:6379/0`,
    /// or `rediss://host` for TLS, which needs the feature `tls`.
    ///
    /// TLS trusts the certificates of the operating system, and uses `ring` unless the process has
    /// chosen another provider of `rustls`.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the address is not valid.
    pub fn open(address: &str) -> Result<Self, EngineError> {
        let client = Client::open(address).map_err(address_error)?;
        Ok(Self::new(Link::server(client)))
    }

    /// Creates an engine over a connection with settings of your own, such as certificates. It is
    /// the only one: on a slow link, give readers of fleets another engine.
    #[must_use]
    pub fn with_connection(connection: ConnectionManager) -> Self {
        Self::new(Link::Manager(connection))
    }

    /// Creates an engine for the primary that Sentinel names for the service `name`, and again
    /// after each failover. `sentinels` are the addresses of Sentinel's processes. The servers are
    /// used without a password and without TLS; for others, see
    /// [`with_sentinel`](Self::with_sentinel).
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if an address is not valid.
    #[cfg(feature = "sentinel")]
    pub fn open_sentinel<T: redis::IntoConnectionInfo>(
        sentinels: Vec<T>,
        name: &str,
    ) -> Result<Self, EngineError> {
        let primary = redis::sentinel::SentinelServerType::Master;
        let name = name.to_owned();
        let client = redis::sentinel::SentinelClient::build(sentinels, name, None, primary);
        Ok(Self::with_sentinel(client.map_err(address_error)?))
    }

    /// Creates an engine over Sentinel with settings of your own, such as the password of the
    /// servers.
    #[cfg(feature = "sentinel")]
    #[must_use]
    pub fn with_sentinel(client: redis::sentinel::SentinelClient) -> Self {
        Self::new(Link::sentinel(client))
    }

    /// Creates an engine for a cluster. `nodes` are the addresses of some of its nodes. The user
    /// and the password of the first one are those of all nodes.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if an address is not valid.
    #[cfg(feature = "cluster")]
    pub fn open_cluster<T: redis::IntoConnectionInfo>(nodes: Vec<T>) -> Result<Self, EngineError> {
        let builder = redis::cluster::ClusterClient::builder(nodes);
        let client = builder.connection_timeout(link::OPEN_TIMEOUT).build();
        let client = client.map_err(address_error)?;
        Ok(Self::with_cluster(client))
    }

    /// Creates an engine over a cluster with settings of your own.
    #[cfg(feature = "cluster")]
    #[must_use]
    pub fn with_cluster(client: redis::cluster::ClusterClient) -> Self {
        Self::new(Link::cluster(client))
    }

    fn new(link: Link) -> Self {
        #[cfg(feature = "tls")]
        install_cryptography();
        let script = Arc::new(Script::new(&script::source()));
        Self {
            reading: link.of_its_own(),
            link,
            script,
            fleet: Arc::new(FleetScripts::new()),
            #[cfg(feature = "tracing")]
            is_checked: Arc::default(),
        }
    }

    fn fleet(&self) -> &FleetScripts {
        &self.fleet
    }

    /// Emits an event for each warning, once.
    #[cfg(feature = "tracing")]
    async fn report_warnings(&self, keys: &LeaseKeys) {
        if !self.is_checked.swap(true, Ordering::Relaxed)
            && let Ok(warnings) = self.warnings(keys).await
        {
            for warning in warnings {
                tracing::warn!(limit = keys.name(), %warning, "a setting of the server weakens limits");
            }
        }
    }

    /// Returns what in the settings of the server weakens the limit of these keys. With the feature
    /// `tracing`, the first ask also emits an event for each.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the server does not answer.
    pub async fn warnings(&self, keys: &LeaseKeys) -> Result<Vec<Warning>, EngineError> {
        // A script, so that a cluster runs it on the node that has the keys.
        let info =
            Script::new("return redis.call('INFO', 'memory') .. redis.call('INFO', 'replication')");
        let info: String = self.link.run(&info.key(keys.mark())).await.map_err(server_error)?;
        Ok(Warning::in_info(&info))
    }
}

impl RedisEngine {
    /// Begins a [group](LeaseKeys::in_group) of limits without a quarantine, on a server that does
    /// not know it. Returns whether it was new; `false` also for keys of no group. `keys` are those
    /// of any of its limits.
    ///
    /// Call it only if none of its limits was used in the last
    /// [quarantine](LeaseConfig::quarantine): when a service is first started, and never because a
    /// server has lost its state. Otherwise, up to the limit may be used once beyond it.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the server does not answer.
    pub async fn begin_group(&self, keys: &LeaseKeys) -> Result<bool, EngineError> {
        let Some(group) = keys.group() else { return Ok(false) };
        let begin = Script::new(&format!("{}{}", script::CLOCK_AND_IDENTITY, script::BEGIN_GROUP));
        let is_new: i64 = self.link.run(&begin.key(group)).await.map_err(server_error)?;
        Ok(is_new == 1)
    }
}

impl Engine for RedisEngine {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        let mut invocation = self.script.prepare_invoke();
        for key in script::keys(keys, ask) {
            invocation.key(key);
        }
        for argument in script::arguments(config, ask) {
            invocation.arg(argument);
        }
        let reply: Vec<i64> = self.link.run(&invocation).await.map_err(server_error)?;
        #[cfg(feature = "tracing")]
        self.report_warnings(keys).await;
        script::answer(ask, &reply)
    }
}

/// Without the address, which may have a password.
impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").finish_non_exhaustive()
    }
}

/// Chooses the cryptography of TLS, unless the process has.
#[cfg(feature = "tls")]
fn install_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error: another thread has been first.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

fn address_error(error: RedisError) -> EngineError {
    EngineError::Address(error.into())
}

fn server_error(error: RedisError) -> EngineError {
    EngineError::Server(error.into())
}
