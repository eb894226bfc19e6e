//! The connection of an engine.

#[cfg(any(feature = "sentinel", feature = "cluster"))]
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::ConnectionManager;
use redis::{FromRedisValue, RedisResult, ScriptInvocation};

/// A connection that is opened again after a failure.
#[derive(Clone)]
pub(super) enum Link {
    Server(ConnectionManager),
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Reopened<tokio::sync::Mutex<redis::sentinel::SentinelClient>>>),
    #[cfg(feature = "cluster")]
    Cluster(Arc<Reopened<redis::cluster::ClusterClient>>),
}

impl Link {
    #[cfg(feature = "sentinel")]
    pub(super) fn sentinel(client: redis::sentinel::SentinelClient) -> Self {
        let client = tokio::sync::Mutex::new(client);
        Self::Sentinel(Arc::new(Reopened { client, current: Mutex::new(None) }))
    }

    #[cfg(feature = "cluster")]
    pub(super) fn cluster(client: redis::cluster::ClusterClient) -> Self {
        Self::Cluster(Arc::new(Reopened { client, current: Mutex::new(None) }))
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Self::Server(connection) => script.invoke_async(&mut connection.clone()).await,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(it) => it.run(script).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(it) => it.run(script).await,
        }
    }
}

/// A client, and a connection that it has opened.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(super) struct Reopened<K: Open> {
    client: K,
    current: Mutex<Option<K::Connection>>,
}

/// A client that opens connections.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(super) trait Open {
    type Connection: redis::aio::ConnectionLike + Clone + Send;

    fn open(&self) -> impl Future<Output = RedisResult<Self::Connection>> + Send;
}

#[cfg(any(feature = "sentinel", feature = "cluster"))]
impl<K: Open> Reopened<K> {
    async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> RedisResult<T> {
        let current = self.lock().clone();
        let mut connection = if let Some(connection) = current {
            connection
        } else {
            let opened = self.client.open().await?;
            self.lock().insert(opened).clone()
        };
        let result = script.invoke_async(&mut connection).await;
        if result.is_err() {
            // The next call asks which server is the primary now.
            *self.lock() = None;
        }
        result
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<K::Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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
