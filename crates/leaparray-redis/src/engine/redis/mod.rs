//! The engine over a Redis server.

mod link;
mod warning;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, Script};

use super::{Engine, EngineError, script};
use crate::lease::{Answer, Ask, LeaseConfig, LeaseKeys};
use link::Link;

pub use warning::Warning;

/// The longest time between two attempts to connect, and the longest time that one of them takes.
const RECONNECT: Duration = Duration::from_secs(1);

/// A Redis server, or one that speaks its protocol and runs its scripts: version 5 or later, alone, with Sentinel, or as a
/// cluster.
///
/// It connects with the first ask, and again after a failure, so a service can start while the server is away. Clones share
/// the connection, and all limits of a process may share one engine.
///
/// An ask is one round trip: `EVALSHA`, or also `SCRIPT LOAD` after the server has restarted.
#[derive(Clone)]
pub struct RedisEngine {
    link: Link,
    script: Arc<Script>,
}

impl RedisEngine {
    /// Creates an engine for the server at an address such as `redis://user:password@host:6379/0`, or `rediss://host` for
    /// TLS, which needs the feature `tls`. Has to be called in a Tokio runtime.
    ///
    /// TLS trusts the certificates of the operating system, and uses `ring` unless the process has chosen another provider of
    /// `rustls`.
    ///
    /// The waits between two attempts to connect grow up to a second, and are drawn at random.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the address is not valid.
    pub fn open(address: &str) -> Result<Self, EngineError> {
        #[cfg(feature = "tls")]
        install_cryptography();
        let client = Client::open(address).map_err(address_error)?;
        // The limiter bounds the time that it waits for an answer.
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(RECONNECT))
            .set_max_delay(RECONNECT);
        let connection =
            ConnectionManager::new_lazy_with_config(client, config).map_err(address_error)?;
        Ok(Self::with_connection(connection))
    }

    /// Creates an engine over a connection with settings of your own, such as certificates.
    #[must_use]
    pub fn with_connection(connection: ConnectionManager) -> Self {
        Self::new(Link::Server(connection))
    }

    /// Creates an engine for the primary that Sentinel names for the service `name`, and again after each failover.
    /// `sentinels` are the addresses of Sentinel's processes.
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

    /// Creates an engine over Sentinel with settings of your own, such as the password of the servers.
    #[cfg(feature = "sentinel")]
    #[must_use]
    pub fn with_sentinel(client: redis::sentinel::SentinelClient) -> Self {
        Self::new(Link::sentinel(client))
    }

    /// Creates an engine for a cluster. `nodes` are the addresses of some of its nodes. The user and the password of the
    /// first one are those of all nodes.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if an address is not valid.
    #[cfg(feature = "cluster")]
    pub fn open_cluster<T: redis::IntoConnectionInfo>(nodes: Vec<T>) -> Result<Self, EngineError> {
        let client = redis::cluster::ClusterClient::new(nodes).map_err(address_error)?;
        Ok(Self::with_cluster(client))
    }

    /// Creates an engine over a cluster with settings of your own.
    #[cfg(feature = "cluster")]
    #[must_use]
    pub fn with_cluster(client: redis::cluster::ClusterClient) -> Self {
        Self::new(Link::cluster(client))
    }

    fn new(link: Link) -> Self {
        Self { link, script: Arc::new(Script::new(&script::source())) }
    }

    /// Returns what in the settings of the server weakens the limit of these keys.
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
