//! Settings of a server that weaken a limit.

use std::fmt;

/// A setting of a server that weakens a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The server evicts keys when its memory is full. A limit that loses keys begins a quarantine.
    /// It may be exceeded if it loses the number of a node's last ask, and asks of that node arrive
    /// twice.
    Evicts {
        /// The setting `maxmemory-policy`; `noeviction` is safe.
        policy: String,
    },
    /// A primary with replicas goes on writing after it has lost them: after a failover, two
    /// primaries may grant L each. With `min-replicas-to-write`, it stops after
    /// `min-replicas-max-lag`, which is 10 s by default.
    SplitBrain {
        /// The number of replicas that are connected.
        replicas: u64,
    },
}

impl Warning {
    /// Returns the warnings about a server with these lines of `INFO`.
    pub(super) fn in_info(info: &str) -> Vec<Self> {
        let value = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let evicts = value("maxmemory_policy").filter(|it| *it != "noeviction");
        let evicts = evicts.map(|it| Self::Evicts { policy: it.to_owned() });
        let replicas = value("connected_slaves").and_then(|it| it.parse().ok()).unwrap_or(0);
        // The line is there if `min-replicas-to-write` and `min-replicas-max-lag` are set.
        let is_split = replicas > 0 && value("min_slaves_good_slaves").is_none();
        let split = is_split.then_some(Self::SplitBrain { replicas });
        evicts.into_iter().chain(split).collect()
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => {
                write!(
                    f,
                    "maxmemory-policy is {policy}: set it to noeviction, or a limit may be in quarantine at any time, or be exceeded"
                )
            }
            Self::SplitBrain { replicas } => write!(
                f,
                "{replicas} replicas are connected and min-replicas-to-write is 0: set it to 1, or a limit may be doubled for as long as \
                 two primaries accept writes"
            ),
        }
    }
}
