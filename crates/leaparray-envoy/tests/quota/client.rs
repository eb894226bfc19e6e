//! A client that decides as Envoy does.

use std::time::Duration;

use leaparray::Timestamp;
use leaparray_envoy::quota::{Strategy, StreamId};

/// When a client sends requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// This number in each step.
    Steady(u64),
    /// All that are admitted, but only in the first of each this number of steps.
    Saved(u64),
    None,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: Option<StreamId>,
    pub(crate) load: Load,
    /// The strategies that were sent and have not arrived, with their times of arrival.
    pub(crate) on_way: Vec<(Timestamp, Strategy, Duration)>,
    assignment: Option<Assignment>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) reports: bool,
    /// Whether a message of its stream was lost. None that follows arrives then.
    pub(crate) is_broken: bool,
    /// When the last message of its stream arrives. None overtakes it.
    pub(crate) last_arrival: Timestamp,
    /// Those that it has refused since the start.
    pub(crate) refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Assignment {
    strategy: Strategy,
    tokens: f64,
    filled: Timestamp,
    ends: Timestamp,
}

impl Client {
    pub(crate) const fn new(stream: StreamId, load: Load) -> Self {
        Self {
            stream: Some(stream),
            load,
            on_way: Vec::new(),
            assignment: None,
            allowed: 0,
            denied: 0,
            reports: true,
            is_broken: false,
            last_arrival: Timestamp::from_nanos(0),
            refused: 0,
        }
    }

    /// Applies what has arrived, and sends requests. Returns how many it admits.
    pub(crate) fn step(&mut self, now: Timestamp, number: u64) -> u64 {
        let (arrived, on_way) =
            std::mem::take(&mut self.on_way).into_iter().partition(|&(time, ..)| time <= now);
        self.on_way = on_way;
        let arrived: Vec<_> = arrived;
        for (time, strategy, ttl) in arrived {
            self.apply(time, strategy, ttl);
        }
        let wanted = match self.load {
            Load::Steady(count) => count,
            Load::Saved(steps) if number.is_multiple_of(steps) => u64::MAX,
            _ => 0,
        };
        let admitted = self.take(wanted, now);
        self.allowed += admitted;
        let refused = wanted.saturating_sub(admitted).min(1_000);
        self.denied += refused;
        self.refused += refused;
        admitted
    }

    fn apply(&mut self, now: Timestamp, strategy: Strategy, ttl: Duration) {
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

    fn take(&mut self, wanted: u64, now: Timestamp) -> u64 {
        let Some(assignment) = self.assignment.as_mut().filter(|it| now < it.ends) else {
            return 0;
        };
        let Strategy::TokenBucket { max_tokens, tokens_per_fill, fill_interval } =
            assignment.strategy
        else {
            return 0;
        };
        #[expect(clippy::cast_precision_loss, reason = "Envoy computes so")]
        let rate = f64::from(tokens_per_fill) / fill_interval.as_secs() as f64;
        let since = now.saturating_since(assignment.filled).as_secs_f64();
        let tokens = (assignment.tokens + rate * since).min(max_tokens.into());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let admitted = (tokens as u64).min(wanted);
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let left = tokens - admitted as f64;
        (assignment.tokens, assignment.filled) = (left, now);
        admitted
    }
}
