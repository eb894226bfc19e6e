//! The connection of an engine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{FromRedisValue, RedisResult, ScriptInvocation};

/// A connection that is opened again after a failure.
#[derive(Clone)]
pub(in crate::engine) enum Link {
    Server(Arc<Reopened<Server>>),
    /// A connection with settings of the user's own, which reconnects by itself.
    Manager(ConnectionManager),
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Reopened<tokio::sync::Mutex<redis::sentinel::SentinelClient>>>),
    #[cfg(feature = "cluster")]
    Cluster(Arc<Reopened<redis::cluster::ClusterClient>>),
}

impl Link {
    pub(super) fn server(client: redis::Client) -> Self {
        Self::Server(Reopened::new(Server(client)))
    }

    #[cfg(feature = "sentinel")]
    pub(super) fn sentinel(client: redis::sentinel::SentinelClient) -> Self {
        Self::Sentinel(Reopened::new(tokio::sync::Mutex::new(client)))
    }

    #[cfg(feature = "cluster")]
    pub(super) fn cluster(client: redis::cluster::ClusterClient) -> Self {
        Self::Cluster(Reopened::new(client))
    }

    /// Runs a script.
    pub(in crate::engine) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Self::Server(it) => it.run(script).await,
            Self::Manager(connection) => script.invoke_async(&mut connection.clone()).await,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(it) => it.run(script).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(it) => it.run(script).await,
        }
    }
}

/// A client, and a connection that it has opened.
pub(in crate::engine) struct Reopened<K: Open> {
    client: K,
    current: Mutex<Option<K::Connection>>,
}

/// A client that opens connections.
pub(in crate::engine) trait Open {
    type Connection: ConnectionLike + Clone + Send;

    fn open(&self) -> impl Future<Output = RedisResult<Self::Connection>> + Send;
}

/// Discards the connection of a call that has failed, or that was given up: the limiter drops a
/// call without an answer in time. The next call opens another connection, to the server that is
/// the primary then.
struct Discard<'a, K: Open> {
    of: &'a Reopened<K>,
    is_done: bool,
}

impl<K: Open> Drop for Discard<'_, K> {
    fn drop(&mut self) {
        if !self.is_done {
            *self.of.lock() = None;
        }
    }
}

impl<K: Open> Reopened<K> {
    fn new(client: K) -> Arc<Self> {
        Arc::new(Self { client, current: Mutex::new(None) })
    }

    async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let mut discard = Discard { of: self, is_done: false };
        let current = self.lock().clone();
        let mut connection = if let Some(connection) = current {
            connection
        } else {
            let opened = self.client.open().await?;
            self.lock().insert(opened).clone()
        };
        let result = script.invoke_async(&mut connection).await;
        discard.is_done = result.is_ok();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Option<K::Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One server.
pub(in crate::engine) struct Server(redis::Client);

impl Open for Server {
    type Connection = redis::aio::MultiplexedConnection;

    async fn open(&self) -> RedisResult<Self::Connection> {
        // The limiter bounds the time that it waits for an answer.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        self.0.get_multiplexed_async_connection_with_config(&config).await
    }
}

#[cfg(feature = "sentinel")]
impl Open for tokio::sync::Mutex<redis::sentinel::SentinelClient> {
    type Connection = redis::aio::MultiplexedConnection;

    async fn open(&self) -> RedisResult<Self::Connection> {
        self.lock().await.get_async_connection().await
    }
}

#[cfg(feature = "cluster")]
impl Open for redis::cluster::ClusterClient {
    type Connection = redis::cluster_async::ClusterConnection;

    async fn open(&self) -> RedisResult<Self::Connection> {
        self.get_async_connection().await
    }
}
