//! A client that decides as Envoy does.

use std::collections::VecDeque;
use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::{Strategy, StreamId};

use super::Load;

/// A message of the server on its way.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Assign(Strategy, Duration),
    Abandon,
}

/// A client with a stream, and what it knows of each bucket.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) instance: usize,
    pub(super) stream: Option<StreamId>,
    pub(super) load: Load,
    pub(super) buckets: Vec<Bucket>,
    /// The messages of its stream, in their order: the time of arrival, the bucket, the message.
    pub(super) on_way: VecDeque<(Timestamp, usize, Told)>,
    /// Whether a message of its stream was lost: none that follows arrives.
    pub(super) is_broken: bool,
    pub(super) silent_until: Timestamp,
    /// The first step, modulo the time between reports, in which it reports.
    pub(super) phase: u64,
}

/// A bucket as a client knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    assignment: Option<Assignment>,
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Whether the client has reported it on this stream, and was not told to abandon it.
    pub(super) is_subscribed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Assignment {
    strategy: Strategy,
    tokens: f64,
    filled: Timestamp,
    ends: Timestamp,
}

impl Client {
    /// Applies the messages that have arrived.
    pub(super) fn receive(&mut self, now: Timestamp) {
        while self.on_way.front().is_some_and(|it| it.0 <= now) {
            let Some((_, bucket, told)) = self.on_way.pop_front() else { return };
            let bucket = &mut self.buckets[bucket];
            match told {
                Told::Assign(strategy, ttl) => bucket.assign(now, strategy, ttl),
                // Envoy forgets the assignment, and asks again with the next request.
                Told::Abandon => *bucket = Bucket::default(),
            }
        }
    }

    /// The requests in a step of each bucket.
    pub(super) fn wanted(&self, step: u64) -> u64 {
        match self.load {
            Load::Steady(count) => count,
            Load::Saved(steps) if step.is_multiple_of(steps) => u64::MAX,
            _ => 0,
        }
    }
}

impl Bucket {
    fn assign(&mut self, now: Timestamp, strategy: Strategy, ttl: Duration) {
        let ends = now.saturating_add(ttl);
        match &mut self.assignment {
            // The tokens are kept.
            Some(old) if old.strategy == strategy && now < old.ends => old.ends = ends,
            old => {
                let tokens = match strategy {
                    Strategy::TokenBucket { max_tokens, .. } => max_tokens.into(),
                    _ => 0.0,
                };
                *old = Some(Assignment { strategy, tokens, filled: now, ends });
            }
        }
    }

    /// Sends requests. Returns how many are admitted: `None` if all are.
    pub(super) fn request(&mut self, wanted: u64, now: Timestamp) -> Option<u64> {
        let Some(assignment) = self.assignment.as_mut().filter(|it| now < it.ends) else {
            return Some(0);
        };
        match assignment.strategy {
            Strategy::AllowAll => None,
            Strategy::TokenBucket { max_tokens, tokens_per_fill, fill_interval } => {
                #[expect(clippy::cast_precision_loss, reason = "Envoy computes so")]
                let rate = f64::from(tokens_per_fill) / fill_interval.as_secs() as f64;
                let since = now.saturating_since(assignment.filled).as_secs_f64();
                let tokens = (assignment.tokens + rate * since).min(max_tokens.into());
                let admitted = crate::fleet::whole(tokens).min(wanted);
                assignment.tokens = tokens - crate::fleet::float(admitted);
                assignment.filled = now;
                Some(admitted)
            }
            _ => Some(0),
        }
    }
}
