//! The connection of an engine.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{AsyncConnectionConfig, ErrorKind, FromRedisValue, RedisResult, ScriptInvocation};
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest time in which a connection is opened: up to five round trips, with TLS.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time in which a client opens all that it needs: connections to the nodes of a
/// cluster, their slots, and connections to nodes that were not named. The client itself waits for
/// the slots without a bound, also on a connection that has died since it was opened.
const OPEN_ALL_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that is opened again after a failure.
#[derive(Clone)]
pub(in crate::engine) enum Link {
    Server(Arc<Reopened<Server>>),
    /// A connection with settings of the user's own, which reconnects by itself.
    Manager(ConnectionManager),
    #[cfg(feature = "sentinel")]
    Sentinel(Arc<Reopened<tokio::sync::Mutex<redis::sentinel::SentinelClient>>>),
    #[cfg(feature = "cluster")]
    Cluster(Arc<Reopened<redis::cluster::ClusterClient>>, Unanswered),
}

/// The calls in a row that got no answer. Each clone of a link counts its own: the limits of a
/// process are on several nodes of a cluster, and the answers of one node tell nothing of another.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unanswered(AtomicU32);

impl Clone for Unanswered {
    fn clone(&self) -> Self {
        Self::default()
    }
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
        Self::Cluster(Reopened::new(client), Unanswered::default())
    }

    /// Returns a link of the same client that opens a connection of its own. A connection of the
    /// user's own stays the only one.
    pub(super) fn of_its_own(&self) -> Self {
        match self {
            Self::Server(it) => Self::Server(it.of_its_own()),
            Self::Manager(connection) => Self::Manager(connection.clone()),
            #[cfg(feature = "sentinel")]
            Self::Sentinel(it) => Self::Sentinel(it.of_its_own()),
            #[cfg(feature = "cluster")]
            Self::Cluster(it, _) => Self::Cluster(it.of_its_own(), Unanswered::default()),
        }
    }

    /// Runs a script.
    pub(in crate::engine) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> RedisResult<T> {
        match self {
            Self::Server(it) => it.run(script, &Unanswered::default()).await,
            Self::Manager(connection) => script.invoke_async(&mut connection.clone()).await,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(it) => it.run(script, &Unanswered::default()).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(it, unanswered) => it.run(script, unanswered).await,
        }
    }
}

/// A client, and the connection that it has opened or opens.
///
/// A connection is opened by a task of its own: a call that is given up does not end it, so it may
/// take longer than an answer. All calls wait for the same one.
pub(in crate::engine) struct Reopened<K: Open> {
    client: Arc<K>,
    current: Mutex<Current<K::Connection>>,
}

/// The connection, once it is open. Each has a number.
struct Current<C> {
    number: u64,
    opened: Option<watch::Receiver<Opened<C>>>,
}

/// `None` while it is opened.
type Opened<C> = Option<RedisResult<C>>;

/// A client that opens connections.
pub(in crate::engine) trait Open: Send + Sync + 'static {
    type Connection: ConnectionLike + Clone + Send + Sync + 'static;

    /// The number of calls in a row without an answer after which the connection is discarded.
    const MOST_UNANSWERED: u32 = 1;
    /// Whether an error of the server is an answer: the connection itself finds the primary.
    const RECOVERS: bool = false;

    fn open(&self) -> impl Future<Output = RedisResult<Self::Connection>> + Send;
}

/// A call. If it is dropped without an answer, it has failed, or was given up: the limiter drops a
/// call without an answer in time. After the [most](Open::MOST_UNANSWERED) of these, the connection
/// is discarded, and the next call opens another one, to the server that is the primary then.
struct Call<'a, K: Open> {
    of: &'a Reopened<K>,
    number: u64,
    unanswered: &'a Unanswered,
    is_answered: bool,
}

impl<K: Open> Drop for Call<'_, K> {
    fn drop(&mut self) {
        // Relaxed: no other memory depends on the count.
        let Unanswered(count) = self.unanswered;
        if self.is_answered {
            count.store(0, Ordering::Relaxed);
        } else if count.fetch_add(1, Ordering::Relaxed) + 1 >= K::MOST_UNANSWERED {
            count.store(0, Ordering::Relaxed);
            self.of.discard(self.number);
        }
    }
}

impl<K: Open> Reopened<K> {
    fn new(client: K) -> Arc<Self> {
        Self::of(Arc::new(client))
    }

    fn of(client: Arc<K>) -> Arc<Self> {
        let current = Mutex::new(Current { number: 0, opened: None });
        Arc::new(Self { client, current })
    }

    fn of_its_own(&self) -> Arc<Self> {
        Self::of(Arc::clone(&self.client))
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        unanswered: &Unanswered,
    ) -> RedisResult<T> {
        let (number, mut opened) = self.current();
        let found = opened.wait_for(Option::is_some).await.map(|it| it.clone());
        // An error: the runtime of the call that began to open it has ended.
        let ended = || (ErrorKind::Io, "the connection was not opened").into();
        let result = found.ok().flatten().unwrap_or_else(|| Err(ended()));
        let mut connection = result.inspect_err(|_| self.discard(number))?;
        let mut call = Call { of: self, number, unanswered, is_answered: false };
        let result = script.invoke_async(&mut connection).await;
        call.is_answered = match &result {
            Ok(_) => true,
            Err(error) => K::RECOVERS && matches!(error.kind(), ErrorKind::Server(_)),
        };
        result
    }

    /// Returns the connection with its number, and begins to open one if there is none.
    fn current(&self) -> (u64, watch::Receiver<Opened<K::Connection>>) {
        let mut current = self.lock();
        if let Some(opened) = &current.opened {
            return (current.number, opened.clone());
        }
        let (sender, receiver) = watch::channel(None);
        let client = Arc::clone(&self.client);
        tokio::spawn(async move {
            let opened = timeout(OPEN_ALL_TIMEOUT, client.open()).await;
            let too_late = |_| Err((ErrorKind::Io, "the connection was not opened in time").into());
            sender.send_replace(Some(opened.unwrap_or_else(too_late)))
        });
        current.number += 1;
        current.opened = Some(receiver.clone());
        (current.number, receiver)
    }

    /// Discards the connection of this number. A newer one stays.
    fn discard(&self, number: u64) {
        let mut current = self.lock();
        if current.number == number {
            current.opened = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current<K::Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the settings of a connection. The caller bounds the time that it waits for an answer.
fn config() -> AsyncConnectionConfig {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(OPEN_TIMEOUT));
    config.set_response_timeout(None)
}

/// One server.
pub(in crate::engine) struct Server(redis::Client);

impl Open for Server {
    type Connection = redis::aio::MultiplexedConnection;

    async fn open(&self) -> RedisResult<Self::Connection> {
        self.0.get_multiplexed_async_connection_with_config(&config()).await
    }
}

#[cfg(feature = "sentinel")]
impl Open for tokio::sync::Mutex<redis::sentinel::SentinelClient> {
    type Connection = redis::aio::MultiplexedConnection;

    async fn open(&self) -> RedisResult<Self::Connection> {
        self.lock().await.get_async_connection_with_config(&config()).await
    }
}

/// It finds the servers and their slots by itself, and opens a connection again that was closed. Of
/// one that is dead, or whose server hangs, it learns nothing. To find the slots again takes an ask
/// of the topology, and a connection to each node, which a single late answer is not worth.
#[cfg(feature = "cluster")]
impl Open for redis::cluster::ClusterClient {
    type Connection = redis::cluster_async::ClusterConnection;

    const MOST_UNANSWERED: u32 = 3;
    const RECOVERS: bool = true;

    async fn open(&self) -> RedisResult<Self::Connection> {
        self.get_async_connection().await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use redis::Script;

    use super::*;

    /// A client that waits for ever for a server.
    #[derive(Default)]
    struct Silent(AtomicU32);

    impl Open for Silent {
        type Connection = redis::aio::MultiplexedConnection;

        async fn open(&self) -> RedisResult<Self::Connection> {
            self.0.fetch_add(1, Ordering::Relaxed);
            pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_is_not_opened_in_time_is_opened_again() {
        let link = Reopened::new(Silent::default());
        let (script, unanswered) = (Script::new("return 1"), Unanswered::default());
        // The limiter drops each of these calls. They share one attempt.
        let ask = || async {
            let script = script.prepare_invoke();
            timeout(Duration::from_secs(3), link.run::<()>(&script, &unanswered)).await
        };
        let opened = || link.client.0.load(Ordering::Relaxed);
        for _ in 0..6 {
            assert!(ask().await.is_err(), "no answer in time");
        }
        assert_eq!(opened(), 1);
        assert!(ask().await.unwrap().is_err(), "the attempt has ended");
        assert!(ask().await.is_err());
        assert_eq!(opened(), 2);
    }
}
