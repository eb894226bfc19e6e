//! The script that answers an ask on the server, its arguments and its reply: what an
//! [`Engine`](super::Engine) over another client needs.
//!
//! ```
//! use leaparray_redis::engine::script;
//! use leaparray_redis::lease::{Ahead, Ask, LeaseConfig, LeaseKeys};
//! use std::time::Duration;
//!
//! let config = LeaseConfig::of_buckets(100, 10, Duration::from_secs(1))?;
//! let keys = LeaseKeys::new("orders", &config)?;
//! let (node, seq, nonce, want, validity) = (7, 1, 77, 5, 2);
//! let (epoch, seen, horizon, weight, moves) = (None, 0, 4, 20, vec![]);
//! let ask = Ask { node, seq, nonce, epoch, seen, want, validity, horizon, weight, moves };
//! // EVAL source 3 keys… arguments…, with the number of the keys
//! assert_eq!(script::keys(&keys, &ask)[2], "leaparray:{orders:10:100000:6}:node:7");
//! let arguments = script::arguments(&config, &ask);
//! assert_eq!(arguments, [100, 10, 100_000, 6, 1, 77, -1, -1, 0, 5, 2, 4, 20]);
//! let reply = [4, 1_000_000, 9_000_000, 2, 92, 9_999, 0, 0, 0, 0, 91, 93, 3];
//! let answer = script::answer(&ask, &reply)?;
//! assert_eq!((answer.granted, answer.bucket, answer.free), (2, 92, 0));
//! assert_eq!(answer.ahead, [Ahead { from: 91, bucket: 93, count: 3 }]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use super::EngineError;
use crate::lease::{Ahead, Answer, Ask, Epoch, LeaseConfig, LeaseKeys, MAX_EXACT, MAX_MOVES};

/// The first part of the script: the server's time and identity. A test may replace it.
pub const CLOCK_AND_IDENTITY: &str = include_str!("clock_and_identity.lua");

/// The second part of the script. It needs `time` and `identity`.
pub const LEASE: &str = include_str!("lease.lua");

/// The second part of the script that begins a group without a quarantine, in place of
/// [`LEASE`]: `KEYS[1]` is the mark of the group. Returns 1 if the group is new, and 0 otherwise.
pub const BEGIN_GROUP: &str = include_str!("begin_group.lua");

/// Returns the script, in Lua 5.1. It needs Redis 5 or later, or another server with what it calls:
/// the commands `TIME`, `INFO`, `GET`, `MGET` and `SET`, and the library `cmsgpack`.
#[must_use]
pub fn source() -> String {
    format!("{CLOCK_AND_IDENTITY}{LEASE}")
}

/// Returns the keys of the script: three, and for a limit of a group also that of the group. They
/// are in one slot of a cluster.
#[must_use]
pub fn keys(keys: &LeaseKeys, ask: &Ask) -> Vec<String> {
    let of_limit = [keys.mark(), keys.charges(), keys.node(ask.node)];
    of_limit.into_iter().chain(keys.group()).collect()
}

/// Returns the arguments of the script. Numbers from [`MAX_EXACT`] on are sent as the highest
/// number below it, and moves beyond [`MAX_MOVES`] are not sent.
#[must_use]
pub fn arguments(config: &LeaseConfig, ask: &Ask) -> Vec<i64> {
    let (identity, since) = ask.epoch.map_or((-1, -1), |it| (exact(it.identity), exact(it.since)));
    let mut arguments = vec![
        exact(config.limit()),
        config.buckets().into(),
        exact(config.bucket_micros()),
        config.validity().into(),
        exact(ask.seq),
        exact(ask.nonce),
        identity,
        since,
        exact(ask.seen),
        exact(ask.want),
        ask.validity.into(),
        exact(ask.horizon),
        exact(ask.weight),
    ];
    for it in ask.moves.iter().take(MAX_MOVES) {
        arguments.extend([exact(it.from), it.to.map_or(-1, exact), exact(it.count)]);
    }
    arguments
}

/// Returns the answer to `ask` in the reply of the script.
///
/// # Errors
///
/// Returns an [`EngineError`] if the reply does not have ten numbers from 0 to 2^53 and three
/// for each grant ahead, or grants more than was asked for.
pub fn answer(ask: &Ask, reply: &[i64]) -> Result<Answer, EngineError> {
    let error = || EngineError::Reply { found: reply.to_vec() };
    let numbers: Vec<u64> = reply.iter().filter_map(|&it| u64::try_from(it).ok()).collect();
    let [
        identity,
        since,
        now,
        granted,
        bucket,
        retry_in,
        open_in,
        free,
        is_taken,
        behind,
        ref rest @ ..,
    ] = numbers[..]
    else {
        return Err(error());
    };
    let (grants, none) = rest.as_chunks();
    let ahead: Vec<_> =
        grants.iter().map(|&[from, bucket, count]| Ahead { from, bucket, count }).collect();
    let wrong = |it: &Ahead| it.from > it.bucket;
    let is_wrong = numbers.len() < reply.len() || !none.is_empty() || ahead.iter().any(wrong);
    if is_wrong || numbers.iter().any(|it| *it > MAX_EXACT) {
        return Err(error());
    }
    if ahead.iter().map(|it| it.count).fold(granted, u64::saturating_add) > ask.want {
        return Err(error());
    }
    let epoch = Epoch { identity, since };
    let is_taken = is_taken > 0;
    let seq = ask.seq;
    Ok(Answer {
        seq,
        epoch,
        now,
        granted,
        bucket,
        ahead,
        retry_in,
        open_in,
        free,
        behind,
        is_taken,
    })
}

/// Returns a number that a double holds exactly.
fn exact(number: u64) -> i64 {
    i64::try_from(number.min(MAX_EXACT - 1)).unwrap_or(i64::MAX)
}
