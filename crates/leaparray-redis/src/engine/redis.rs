//! The engine over a Redis server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Script};

use super::{Engine, EngineError, script};
use crate::lease::{Answer, Ask, LeaseConfig, LeaseKeys};

/// The longest time between two attempts to connect, and the longest time that one of them takes.
const RECONNECT: Duration = Duration::from_secs(1);

/// A Redis server, or one that speaks its protocol and runs its scripts: version 5 or later.
///
/// Clones share the connection. All limits of a process may share one engine.
///
/// An ask is one round trip: `EVALSHA`, or `SCRIPT LOAD` and `EVALSHA` after the server has restarted.
pub struct RedisEngine<C = ConnectionManager> {
    connection: C,
    script: Arc<Script>,
}

impl RedisEngine {
    /// Creates an engine for the server at an address such as `redis://user:password@host:6379/0`, or `rediss://host` for TLS,
    /// which needs the feature `tls`.
    ///
    /// It connects with the first ask, and again after a failure, with growing waits of up to a second that are drawn at random.
    /// So a service can start while the server is away. Has to be called in a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the address is not valid.
    pub fn open(address: &str) -> Result<Self, EngineError> {
        let client = Client::open(address).map_err(|it| EngineError::Address(it.into()))?;
        // The limiter bounds the time that it waits for an answer.
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(RECONNECT))
            .set_max_delay(RECONNECT);
        let connection = ConnectionManager::new_lazy_with_config(client, config)
            .map_err(|it| EngineError::Server(it.into()))?;
        Ok(Self::new(connection))
    }
}

impl<C: ConnectionLike + Clone> RedisEngine<C> {
    /// Creates an engine over a connection of the crate `redis`, which should reconnect by itself. For a cluster, that is a
    /// `redis::cluster_async::ClusterConnection`.
    #[must_use]
    pub fn new(connection: C) -> Self {
        Self { connection, script: Arc::new(Script::new(&script::source())) }
    }

    /// Returns what in the settings of the server weakens the limit of these keys.
    ///
    /// # Errors
    ///
    /// Returns an [`EngineError`] if the server does not answer.
    pub async fn warnings(&self, keys: &LeaseKeys) -> Result<Vec<Warning>, EngineError> {
        let info =
            Script::new("return redis.call('INFO', 'memory') .. redis.call('INFO', 'replication')");
        let mut connection = self.connection.clone();
        let info: String = info
            .key(keys.mark())
            .invoke_async(&mut connection)
            .await
            .map_err(|it| EngineError::Server(it.into()))?;
        Ok(Warning::in_info(&info))
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Engine for RedisEngine<C> {
    async fn lease(
        &self,
        keys: &LeaseKeys,
        config: &LeaseConfig,
        ask: &Ask,
    ) -> Result<Answer, EngineError> {
        let mut connection = self.connection.clone();
        let mut invocation = self.script.prepare_invoke();
        for key in script::keys(keys, ask) {
            invocation.key(key);
        }
        for argument in script::arguments(config, ask) {
            invocation.arg(argument);
        }
        let reply: Vec<i64> = invocation
            .invoke_async(&mut connection)
            .await
            .map_err(|it| EngineError::Server(it.into()))?;
        script::answer(ask, &reply)
    }
}

impl<C: Clone> Clone for RedisEngine<C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), script: Arc::clone(&self.script) }
    }
}

/// Without the address, which may have a password.
impl<C> fmt::Debug for RedisEngine<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").finish_non_exhaustive()
    }
}

/// A setting of a server with which a limit can be exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The server evicts keys when its memory is full. If it evicts the number of a node's last ask, an ask that arrives twice is
    /// applied twice. Lost charges are detected, and begin a quarantine.
    Evicts {
        /// The setting `maxmemory-policy`; `noeviction` is safe.
        policy: String,
    },
    /// A primary with replicas goes on writing after it has lost them: after a failover, two primaries may grant L each.
    SplitBrain {
        /// The number of replicas that are connected.
        replicas: u64,
    },
}

impl Warning {
    /// Returns the warnings about a server with these lines of `INFO`.
    fn in_info(info: &str) -> Vec<Self> {
        let value = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let evicts = value("maxmemory_policy").filter(|it| *it != "noeviction");
        let evicts = evicts.map(|it| Self::Evicts { policy: it.to_owned() });
        let replicas = value("connected_slaves").and_then(|it| it.parse().ok()).unwrap_or(0);
        // The line is there if `min-replicas-to-write` and `min-replicas-max-lag` are set.
        let is_split = replicas > 0 && value("min_slaves_good_slaves").is_none();
        let split = is_split.then_some(Self::SplitBrain { replicas });
        evicts.into_iter().chain(split).collect()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => {
                write!(
                    f,
                    "maxmemory-policy is {policy}: set it to noeviction, or a limit may be exceeded"
                )
            }
            Self::SplitBrain { replicas } => write!(
                f,
                "{replicas} replicas are connected and min-replicas-to-write is 0: set it to 1, or a limit may be doubled while \
                 two primaries accept writes"
            ),
        }
    }
}
