//! Plain counts of how requests ended, made without the crate, with which its counts are compared.

use std::collections::BTreeMap;
use std::fmt;

use crate::route::Route;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// With an answer of this status code.
    Status(u16),
    /// Without an answer: the client went away.
    Aborted,
    /// With an error of the transport, in the client.
    Broken(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "status {code}"),
            Self::Aborted => f.write_str("no answer, the client went away"),
            Self::Broken(error) => f.write_str(error),
        }
    }
}

/// The number of requests of each route for each ending.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<(Route, Ending), u64>);

impl Tally {
    pub(crate) fn count(&mut self, route: Route, ending: Ending) {
        *self.0.entry((route, ending)).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (key, count) in other.0 {
            *self.0.entry(key).or_default() += count;
        }
    }

    pub(crate) fn succeeded(&self, route: Route) -> u64 {
        self.get(route, Ending::Status(200))
    }

    pub(crate) fn failed(&self, route: Route) -> u64 {
        self.get(route, Ending::Status(500))
    }

    pub(crate) fn cancelled(&self, route: Route) -> u64 {
        self.get(route, Ending::Aborted)
    }

    pub(crate) fn refused(&self, route: Route) -> u64 {
        self.get(route, Ending::Status(429)) + self.get(route, Ending::Status(503))
    }

    /// The endings that a correct service does not have.
    pub(crate) fn unexpected(&self) -> impl Iterator<Item = (Route, &Ending, u64)> {
        let all = self.0.iter().map(|((route, ending), &count)| (*route, ending, count));
        all.filter(|(_, ending, _)| {
            !matches!(ending, Ending::Status(200 | 429 | 500 | 503) | Ending::Aborted)
        })
    }

    fn get(&self, route: Route, ending: Ending) -> u64 {
        self.0.get(&(route, ending)).copied().unwrap_or(0)
    }
}
