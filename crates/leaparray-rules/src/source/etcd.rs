//! A key of etcd, or the keys with a prefix, through its JSON gateway.

use std::io::{BufRead, BufReader};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use super::http::{PATIENCE, agent, configured, told, without_secrets};
use super::{Follow, Source, SourceError, Wake};
use crate::document::{Document, Documents};

/// The time after which a watch that has told nothing is begun anew.
const SILENCE: Duration = Duration::from_secs(30);

/// The time until the next attempt of a watch that has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A key or a prefix.
struct Etcd {
    agent: Agent,
    endpoints: Vec<String>,
    /// The range of keys, as the gateway wants it.
    range: Value,
    what: String,
}

impl Follow {
    /// Follows a key of [etcd](https://etcd.io), from version 3.4 on. `endpoints` are the URLs of
    /// its members, such as `http://10.0.0.7:2379`: each is asked until one answers. A change is
    /// told by a watch, and the key is also read at each interval.
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
    /// let follow = Follow::etcd(["http://10.0.0.7:2379"], "services/shop/limits.toml");
    /// rules.follow(follow.every(Duration::from_secs(30)))?;
    /// # Ok::<_, leaparray_rules::FollowError>(())
    /// ```
    pub fn etcd<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, key: &str) -> Self {
        let range = json!({ "key": STANDARD.encode(key) });
        Self::of_etcd(endpoints, range, format!("key {key:?}"))
    }

    /// Like [`etcd`](Self::etcd), for all keys that begin with a prefix, in their order: their
    /// rules are one list.
    pub fn etcd_prefix<E: Into<String>>(
        endpoints: impl IntoIterator<Item = E>,
        prefix: &str,
    ) -> Self {
        let end = STANDARD.encode(end_of(prefix.as_bytes()));
        let range = json!({ "key": STANDARD.encode(prefix), "range_end": end });
        Self::of_etcd(endpoints, range, format!("key with the prefix {prefix:?}"))
    }

    fn of_etcd<E: Into<String>>(
        endpoints: impl IntoIterator<Item = E>,
        range: Value,
        what: String,
    ) -> Self {
        let endpoints: Vec<String> =
            endpoints.into_iter().map(|it| it.into().trim_end_matches('/').to_owned()).collect();
        let first = endpoints.first().map_or_else(|| "etcd".to_owned(), |it| without_secrets(it));
        let name = format!("{first}: {what}");
        Self::source(&name, Etcd { agent: agent(Some(PATIENCE)), endpoints, range, what })
    }
}

/// Returns the first key after those with a prefix.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys from the prefix on.
    vec![0]
}

impl Etcd {
    fn read_from(&self, endpoint: &str) -> Result<Documents, SourceError> {
        let url = format!("{endpoint}/v3/kv/range");
        let mut response = self.agent.post(url).send(self.range.to_string()).map_err(told)?;
        let status = response.status();
        let text = response.body_mut().read_to_string()?;
        if !status.is_success() {
            // Each message about the source repeats it.
            let text: String = text.chars().take(200).collect();
            return Err(format!("the server has answered with the status {status}: {text}").into());
        }
        let answer: Value = serde_json::from_str(&text)?;
        let kvs = answer["kvs"].as_array().filter(|it| !it.is_empty());
        let kvs = kvs.ok_or_else(|| format!("there is no {}", self.what))?;
        kvs.iter().map(document).collect()
    }
}

fn document(kv: &Value) -> Result<Document, SourceError> {
    let text = |field: &str| {
        let text = kv[field].as_str().unwrap_or_default();
        Ok::<_, SourceError>(String::from_utf8(STANDARD.decode(text)?)?)
    };
    Ok(Document::new(text("key")?, text("value")?))
}

impl Source for Etcd {
    fn read(&mut self) -> Result<Documents, SourceError> {
        let mut last: SourceError = "there is no endpoint".into();
        for endpoint in &self.endpoints {
            match self.read_from(endpoint) {
                Ok(documents) => return Ok(documents),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn watch(&mut self, wake: Wake) {
        let (endpoints, range) = (self.endpoints.clone(), self.range.clone());
        let thread = thread::Builder::new().name("leaparray-etcd".to_owned());
        // Without the thread, the key is read at each interval.
        let _ = thread.spawn(move || {
            for endpoint in endpoints.iter().cycle() {
                let _ = watch(endpoint, &range, &wake);
                if !wake.is_followed() {
                    return;
                }
                thread::sleep(PAUSE);
            }
        });
    }
}

/// Wakes the follower at each change, until the connection ends.
fn watch(endpoint: &str, range: &Value, wake: &Wake) -> Result<(), SourceError> {
    let agent = configured(|it| it.timeout_connect(Some(PATIENCE)).timeout_per_read(Some(SILENCE)));
    let request = json!({ "create_request": range }).to_string();
    let response = agent.post(format!("{endpoint}/v3/watch")).send(request)?;
    // The first line says that the watch has begun. A change before it is read then.
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        line?;
        if !wake.wake() {
            break;
        }
    }
    Ok(())
}
