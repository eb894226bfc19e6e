//! A key of Redis, whose changes a channel tells.

use std::thread;
use std::time::Duration;

use redis::{Client, Connection, IntoConnectionInfo, RedisError};

use super::{Follow, Source, SourceError, Wake};
use crate::document::Documents;

/// The time after which a server that has not answered is away.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time after which a subscription looks whether the source is still followed.
const SILENCE: Duration = Duration::from_secs(10);

/// The time until the next attempt of a subscription that has failed.
const PAUSE: Duration = Duration::from_secs(1);

struct Redis {
    client: Client,
    key: String,
    channel: String,
    connection: Option<Connection>,
}

impl Follow {
    /// Follows a key of Redis, with the text as its string. A message to `channel`, whatever it
    /// says, has the key read at once; it is also read at each interval. A text counts at once if
    /// it has each rule that is in force and ends with a line break; any other, if it is the same a
    /// second later. A server that does not answer in five seconds is away.
    ///
    /// ```no_run
    /// use leaparray::Registry;
    /// use leaparray_rules::{Follow, Rules};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// // SET limits "..." and PUBLISH limits-changed ""
    /// let follow = Follow::redis("redis://10.0.0.7/", "limits", "limits-changed")?;
    /// rules.follow(follow.every(Duration::from_secs(30)))?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `server` is no address of Redis. Does not connect.
    pub fn redis(
        server: impl IntoConnectionInfo,
        key: &str,
        channel: &str,
    ) -> Result<Self, RedisError> {
        let client = Client::open(server)?;
        let name = format!("{}: key {key:?}", client.get_connection_info().addr());
        let (key, channel) = (key.to_owned(), channel.to_owned());
        Ok(Self::source(&name, Redis { client, key, channel, connection: None }))
    }
}

impl Redis {
    fn get(&mut self) -> Result<Option<String>, RedisError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.client, PATIENCE)?),
        };
        redis::cmd("GET").arg(&self.key).query(connection)
    }
}

fn connect(client: &Client, patience: Duration) -> Result<Connection, RedisError> {
    let connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(patience))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

impl Source for Redis {
    fn read(&mut self) -> Result<Documents, SourceError> {
        let known = self.connection.is_some();
        let mut answer = self.get();
        if answer.is_err() {
            self.connection = None;
            // The server may have ended the connection since the last reading.
            if known {
                answer = self.get();
                self.connection = self.connection.take().filter(|_| answer.is_ok());
            }
        }
        let text = answer?.ok_or_else(|| format!("there is no key {:?}", self.key))?;
        Ok(text.into())
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn watch(&mut self, wake: Wake) {
        let (client, channel) = (self.client.clone(), self.channel.clone());
        let thread = thread::Builder::new().name("leaparray-redis".to_owned());
        // Without the thread, the key is read at each interval.
        let _ = thread.spawn(move || {
            while wake.is_followed() {
                let _ = listen(&client, &channel, &wake);
                if wake.is_followed() {
                    thread::sleep(PAUSE);
                }
            }
        });
    }
}

/// Wakes the follower at each message, until the connection ends.
fn listen(client: &Client, channel: &str, wake: &Wake) -> Result<(), RedisError> {
    let mut connection = connect(client, SILENCE)?;
    let mut messages = connection.as_pubsub();
    messages.subscribe(channel)?;
    // A message before the subscription was not told.
    while wake.wake() {
        while let Err(error) = messages.get_message() {
            if !(error.is_timeout() && wake.is_followed()) {
                return Err(error);
            }
        }
    }
    Ok(())
}
