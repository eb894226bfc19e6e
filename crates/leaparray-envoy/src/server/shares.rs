//! The shares of instances of the limits of quotas, from Redis.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionManager;
use redis::{Client, RedisError, Script};
use tokio::time::MissedTickBehavior;

use super::rlqs::QuotaServer;
use super::rounds::ask_in_rounds;
use crate::quota::ShareAsk;

/// The time between two asks.
const INTERVAL: Duration = Duration::from_millis(500);

/// For how long a share lasts beyond the charge of an assignment: several asks may be lost.
const SPARE: Duration = Duration::from_secs(3);

/// For how long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The shares of this instance.
pub(super) struct Shares {
    client: Client,
    script: Script,
    /// The name of the service, in the keys.
    name: String,
    /// The number of this instance.
    number: u64,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Shares {
    /// Creates the shares of an instance of the service `name`. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the address.
    pub(super) fn new(address: &str, name: &str) -> Result<Self, RedisError> {
        let number = std::collections::hash_map::RandomState::new();
        let number = std::hash::BuildHasher::hash_one(&number, std::process::id());
        let script = Script::new(include_str!("share.lua"));
        Ok(Self { client: Client::open(address)?, script, name: name.to_owned(), number })
    }

    /// Asks again and again. While the store is away, the shares end.
    pub(super) async fn run(self, quotas: &QuotaServer) {
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let connection = loop {
            interval.tick().await;
            let connect = ConnectionManager::new(self.client.clone());
            // From then on, it connects again by itself.
            if let Ok(Ok(connection)) = tokio::time::timeout(TIMEOUT, connect).await {
                break connection;
            }
        };
        let shares = Arc::new(self);
        let ask = |ask: ShareAsk| {
            let (shares, quotas) = (Arc::clone(&shares), quotas.clone());
            let connection = connection.clone();
            async move {
                // Before the time of the server's answer, so the share ends here before it does
                // there.
                let until = quotas.now().saturating_add(ask.lasts + SPARE);
                let answer = tokio::time::timeout(TIMEOUT, shares.ask(connection, &ask)).await;
                let Ok(Ok((units, goal))) = answer else { return false };
                quotas.set_share(&ask, units, goal, until);
                true
            }
        };
        let of = |ask: &ShareAsk| (Arc::clone(&ask.domain), ask.bucket.clone());
        ask_in_rounds(interval, || quotas.asks(), of, ask).await;
    }

    async fn ask(
        &self,
        mut connection: ConnectionManager,
        ask: &ShareAsk,
    ) -> Result<(u64, u64), RedisError> {
        let lasts = ask.lasts + SPARE;
        let mut script = self.script.prepare_invoke();
        // One slot of a cluster.
        let prefix = format!("{{leaparray-envoy/{}}}", self.name);
        let (bucket, window) = (ask.bucket.entries(), ask.window.as_secs());
        script
            .key(format!("{prefix}:quota:{:?}:{window}:{bucket:?}", ask.domain))
            .key(format!("{prefix}:run"))
            .arg(self.number)
            .arg(ask.least)
            .arg(ask.wanted)
            .arg(ask.limit)
            .arg(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        script.invoke_async(&mut connection).await
    }
}
