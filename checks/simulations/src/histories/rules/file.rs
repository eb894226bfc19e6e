//! The rules of a file, as plain data.

use std::fmt::Write;

/// The numbers of a limit. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most `count` permits in any `interval`, or in that many buckets of it.
    Window {
        /// The limit.
        count: u64,
        /// The interval.
        interval: u64,
        /// The number of buckets, if the limit is by those.
        buckets: Option<u64>,
    },
    /// A bucket that gets a token in each `interval`.
    Bucket {
        /// The time between two tokens.
        interval: u64,
        /// The tokens of a full bucket.
        burst: u64,
    },
    /// A window of ten buckets whose limit a cold service reaches after a time.
    WarmUp {
        /// The limit of a warm service.
        count: u64,
        /// The interval.
        interval: u64,
        /// The time that the warm-up takes.
        period: u64,
        /// By how much less a cold service admits.
        cold_factor: u64,
    },
    /// Permits that are spaced by `interval`, with waits of at most `max_wait`.
    Pace {
        /// The time between two permits.
        interval: u64,
        /// The longest wait.
        max_wait: u64,
    },
    /// At most `limit` permits in flight.
    InFlight {
        /// The limit.
        limit: u64,
    },
    /// A limit in flight that adapts itself.
    Adaptive {
        /// The lowest limit.
        min: u64,
        /// The highest limit.
        max: u64,
    },
    /// A breaker that opens after `in_row` failures for `wait`, with one probe.
    Breaker {
        /// The failures in a row that open it.
        in_row: u64,
        /// The time for which it is open.
        wait: u64,
    },
    /// A breaker that refuses no request while its window has at most `min_requests`.
    AdaptiveBreaker {
        /// The number of requests.
        min_requests: u64,
    },
}

/// The key by which a rule counts: each of its values has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The client of a request.
    Client,
    /// The context in which a request enters the resource.
    Context,
}

/// The shares of a limit in flight that classes may use, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The share of each class that is named.
    pub named: [u64; 2],
    /// The share of all other classes, if the rule has it.
    pub others: Option<u64>,
}

/// The weights of tenants, which share a limit in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weight of each tenant that is named.
    pub named: [u64; 2],
    /// The weight of all other tenants, if the rule has it.
    pub others: Option<u64>,
}

/// How far a rule is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For each request.
    Enforce,
    /// It counts, and refuses nothing.
    Shadow,
    /// It is not asked.
    Off,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number that is its name.
    pub name: u8,
    /// The bits of the resources whose requests it concerns.
    pub resources: u8,
    /// The key, each value of which has a limit of its own.
    pub key: Option<Key>,
    /// The shares of a limit in flight.
    pub shares: Option<Shares>,
    /// The weights of the tenants of a limit in flight, which has neither a key nor shares.
    pub weights: Option<Weights>,
    /// How far it is enforced.
    pub mode: Mode,
    /// The limit.
    pub limit: Limit,
}

impl Limit {
    /// Returns whether its permits come back with the time alone.
    pub(super) const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::Window { .. } | Self::Bucket { .. } | Self::WarmUp { .. } | Self::Pace { .. }
        )
    }

    /// Returns whether it limits the permits in flight, which classes can share.
    pub(super) const fn is_in_flight(self) -> bool {
        matches!(self, Self::InFlight { .. } | Self::Adaptive { .. })
    }

    /// Returns whether a limiter that has it is changed to the other one in place.
    pub(super) fn becomes(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Window { interval, buckets, .. },
                Self::Window { interval: to, buckets: of, .. },
            ) => (interval, buckets) == (to, of),
            (Self::WarmUp { interval, .. }, Self::WarmUp { interval: to, .. }) => interval == to,
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }

    /// Returns the limit of a request beside a change from this limit to the other one: what falls
    /// has fallen, and what rises has not risen.
    pub(super) fn strictest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Window { count, .. }, Self::Window { count: to, interval, buckets }) => {
                Self::Window { count: count.min(to), interval, buckets }
            }
            (Self::Bucket { interval, burst }, Self::Bucket { interval: to, burst: of }) => {
                Self::Bucket { interval: interval.max(to), burst: burst.min(of) }
            }
            (
                Self::WarmUp { count, interval, period, cold_factor },
                Self::WarmUp { count: to, period: of, cold_factor: by, .. },
            ) => Self::WarmUp {
                count: count.min(to),
                interval,
                period: period.max(of),
                cold_factor: cold_factor.max(by),
            },
            (Self::Pace { interval, max_wait }, Self::Pace { interval: to, max_wait: of }) => {
                Self::Pace { interval: interval.max(to), max_wait: max_wait.min(of) }
            }
            (Self::InFlight { limit }, Self::InFlight { limit: to }) => {
                Self::InFlight { limit: limit.min(to) }
            }
            (limit, _) => limit,
        }
    }

    fn write(self, text: &mut String) -> std::fmt::Result {
        match self {
            Self::Window { count, interval, buckets } => {
                writeln!(text, "limit = \"{count} per {interval}ms\"")?;
                buckets.map_or(Ok(()), |buckets| writeln!(text, "buckets = {buckets}"))
            }
            Self::Bucket { interval, burst } => {
                writeln!(text, "limit = \"1 per {interval}ms, bursts of {burst}\"")
            }
            Self::WarmUp { count, interval, period, cold_factor } => {
                writeln!(text, "limit = \"{count} per {interval}ms\"")?;
                writeln!(text, "warm_up = \"{period}ms\"\ncold_factor = {cold_factor}")
            }
            Self::Pace { interval, max_wait } => {
                writeln!(text, "pace = \"1 per {interval}ms\"\nmax_wait = \"{max_wait}ms\"")
            }
            Self::InFlight { limit } => writeln!(text, "in_flight = {limit}"),
            Self::Adaptive { min, max } => {
                writeln!(text, "in_flight = {{ min = {min}, first = {min}, max = {max} }}")
            }
            Self::Breaker { in_row, wait } => {
                let failures = format!("failures = \"{in_row} in a row\"");
                writeln!(text, "breaker = {{ {failures}, wait = \"{wait}ms\", probes = 1 }}")
            }
            Self::AdaptiveBreaker { min_requests } => {
                writeln!(text, "breaker = {{ k = 1.5, min_requests = {min_requests} }}")
            }
        }
    }
}

impl Shares {
    /// Returns the share of a class: 0 for none.
    pub(super) fn of(&self, class: usize) -> u64 {
        let [high, low] = self.named;
        match class {
            0 => self.others.unwrap_or(high.min(low)),
            1 => high,
            _ => low,
        }
    }
}

impl Weights {
    /// Returns the weight of a tenant: 0 for the requests without one.
    pub(super) fn of(&self, tenant: usize) -> u64 {
        match tenant {
            0 => self.others.unwrap_or(1),
            named => self.named[named - 1],
        }
    }
}

impl Rule {
    /// Returns whether a limiter of this rule is changed to the other one in place.
    pub(super) fn becomes(&self, other: &Self) -> bool {
        self.key == other.key
            && self.shares.is_some() == other.shares.is_some()
            && self.weights.is_some() == other.weights.is_some()
            && self.limit.becomes(other.limit)
    }

    fn text(&self) -> String {
        let Self { name, resources, key, shares, weights, mode, limit } = *self;
        let resources = ["\"a\"", "\"b\"", "\"a\", \"b\""][usize::from(resources) - 1];
        let mut text = format!("[[rule]]\nname = \"{name}\"\nresource = [{resources}]\n");
        text += match key {
            None => "",
            Some(Key::Client) => "key = \"client\"\n",
            Some(Key::Context) => "key = \"context\"\n",
        };
        if let Some(Shares { named: [high, low], others }) = shares {
            let others = others.map_or(String::new(), |it| format!(", \"*\" = \"{it} %\""));
            text += "priority = \"header:x-class\"\n";
            let named = format!("high = \"{high} %\", low = \"{low} %\"");
            writeln!(text, "shares = {{ {named}{others} }}").expect("a string takes all");
        }
        if let Some(Weights { named: [high, low], others }) = weights {
            let others = others.map_or(String::new(), |it| format!(", \"*\" = {it}"));
            // Three are busy at the same time. A table for more takes long to create.
            text += "tenant = \"header:x-class\"\nmax_keys = 8\n";
            writeln!(text, "weights = {{ high = {high}, low = {low}{others} }}")
                .expect("a string takes all");
        }
        text += match mode {
            Mode::Enforce => "",
            Mode::Shadow => "mode = \"shadow\"\n",
            Mode::Off => "mode = \"off\"\n",
        };
        limit.write(&mut text).expect("a string takes all");
        text
    }
}

/// Returns the text of a file.
pub(super) fn text(rules: &[Rule]) -> String {
    if rules.is_empty() { "rule = []".into() } else { rules.iter().map(Rule::text).collect() }
}

/// Returns rules that are simpler than this one in one respect each.
pub(super) fn simpler(rule: &Rule) -> Vec<Rule> {
    let mut all = vec![
        Rule { mode: Mode::Enforce, ..*rule },
        Rule { key: None, ..*rule },
        Rule { key: rule.key.and(Some(Key::Client)), ..*rule },
        Rule { shares: None, ..*rule },
        Rule { weights: None, ..*rule },
        Rule { resources: 1, ..*rule },
    ];
    if let Limit::Window { count, interval, .. } = rule.limit {
        all.push(Rule { limit: Limit::Window { count, interval, buckets: None }, ..*rule });
        all.push(Rule { limit: Limit::Window { count, interval: 1_000, buckets: None }, ..*rule });
    }
    all.retain(|it| it != rule);
    all
}
