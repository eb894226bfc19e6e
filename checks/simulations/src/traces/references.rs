//! Plain references of limits. None has an atomic, a rounded number or a bound of memory.

use std::collections::{HashMap, VecDeque};

use super::{Expected, SECOND};

/// A reference of a limit.
#[derive(Clone, Debug)]
pub(super) enum Reference {
    /// At most a number of permits in a span: the log of the admitted ones.
    Log { limit: u64, span: Span, lower: bool, log: VecDeque<(u64, u64)> },
    /// A level of tokens, in billionths of a token, at a time.
    Level { rate: u64, capacity: u64, level: i128, at: u64 },
    /// The time at which the last request is due, in parts of `1 / rate` of a nanosecond.
    Pace { rate: u64, max_wait: u64, due: Option<i128> },
    /// The permits in use.
    InFlight { limit: u64, in_use: u64 },
    /// All of these.
    All(Vec<Reference>),
    /// One for each key, each as the first one at the start.
    Keyed(Box<Reference>, HashMap<u64, Reference>),
}

/// The span of a window at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    /// The newest buckets, the current one among them.
    Buckets { count: u64, length: u64 },
    /// Any interval of this length. A permit may count for a fiftieth longer.
    Any(u64),
}

impl Span {
    /// The first time that has to count, and the first one that may count.
    const fn starts(self, now: u64) -> [u64; 2] {
        match self {
            Self::Buckets { count, length } => {
                [(now / length + 1).saturating_sub(count) * length; 2]
            }
            Self::Any(length) => {
                [(now + 1).saturating_sub(length), (now + 1).saturating_sub(length + length / 50)]
            }
        }
    }
}

/// The rounding that the documentation of the buckets allows for, in nanoseconds.
const ROUNDING: i128 = 4;

impl Reference {
    pub(super) fn log(limit: u64, span: Span) -> Self {
        Self::Log { limit, span, lower: true, log: VecDeque::new() }
    }

    pub(super) fn level(rate: u64, capacity: u64) -> Self {
        Self::Level { rate, capacity, level: i128::from(capacity) * i128::from(SECOND), at: 0 }
    }

    /// Says what has to become of a request.
    pub(super) fn expects(&mut self, now: u64, key: u64, permits: u64) -> Expected {
        match self {
            Self::Log { limit, span, lower, log } => {
                let [has_to, may] = span.starts(now);
                while log.front().is_some_and(|&(at, _)| at < may) {
                    log.pop_front();
                }
                let since = |start: u64| -> u64 {
                    log.iter().filter(|(at, _)| *at >= start).map(|(_, permits)| permits).sum()
                };
                if since(has_to) + permits > *limit {
                    Expected::Refused
                } else if *lower && since(may) + permits <= *limit {
                    Expected::Admitted
                } else {
                    Expected::Either
                }
            }
            Self::Level { rate, capacity, level, at } => {
                let full = i128::from(*capacity) * i128::from(SECOND);
                *level = (*level + i128::from(now - *at) * i128::from(*rate)).min(full);
                *at = now;
                let left = *level - i128::from(permits) * i128::from(SECOND);
                within(left, ROUNDING * i128::from(*rate))
            }
            Self::Pace { rate, max_wait, due } => {
                let wait = Self::due(*rate, *due, now, permits) - scaled(now, *rate);
                within(scaled(*max_wait, *rate) - wait, ROUNDING * i128::from(*rate))
            }
            Self::InFlight { limit, in_use } => {
                if *in_use + permits <= *limit {
                    Expected::Admitted
                } else {
                    Expected::Refused
                }
            }
            Self::All(all) => {
                let each = all.iter_mut().map(|it| it.expects(now, key, permits));
                each.fold(Expected::Admitted, |all, one| match (all, one) {
                    (Expected::Refused, _) | (_, Expected::Refused) => Expected::Refused,
                    (Expected::Either, _) | (_, Expected::Either) => Expected::Either,
                    _ => Expected::Admitted,
                })
            }
            Self::Keyed(new, keys) => {
                keys.entry(key).or_insert_with(|| (**new).clone()).expects(now, key, permits)
            }
        }
    }

    /// Takes the permits of a request that was admitted, after `expects`. Returns whether its wait
    /// is the right one.
    pub(super) fn take(&mut self, now: u64, key: u64, permits: u64, wait: u64) -> bool {
        match self {
            Self::Log { log, .. } => log.push_back((now, permits)),
            Self::Level { level, .. } => *level -= i128::from(permits) * i128::from(SECOND),
            Self::InFlight { in_use, .. } => *in_use += permits,
            Self::All(all) => return all.iter_mut().all(|it| it.take(now, key, permits, wait)),
            Self::Keyed(_, keys) => {
                let of_key = keys.get_mut(&key).expect("it was asked");
                return of_key.take(now, key, permits, wait);
            }
            Self::Pace { rate, due, .. } => {
                let next = Self::due(*rate, *due, now, permits);
                *due = Some(next);
                let difference = scaled(now + wait, *rate) - next;
                return difference.abs() <= ROUNDING * i128::from(*rate);
            }
        }
        wait == 0
    }

    /// Gives the permits of a call back that has ended.
    pub(super) fn end(&mut self, permits: u64) {
        match self {
            Self::InFlight { in_use, .. } => *in_use -= permits,
            Self::All(all) => all.iter_mut().for_each(|it| it.end(permits)),
            _ => {}
        }
    }

    /// The time at which a request is due that asks now.
    fn due(rate: u64, last: Option<i128>, now: u64, permits: u64) -> i128 {
        let asked = scaled(now, rate);
        last.map_or(asked, |it| asked.max(it + i128::from(permits) * i128::from(SECOND)))
    }
}

fn scaled(nanos: u64, rate: u64) -> i128 {
    i128::from(nanos) * i128::from(rate)
}

/// Admitted from nothing on, unless that is a matter of rounding.
const fn within(left: i128, rounding: i128) -> Expected {
    if left >= rounding {
        Expected::Admitted
    } else if left <= -rounding {
        Expected::Refused
    } else {
        Expected::Either
    }
}
