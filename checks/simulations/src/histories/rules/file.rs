//! The rules of a file, as plain data, and random ones.

use std::fmt::Write;

use fastrand::Rng;

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
    /// At most `limit` permits in flight.
    InFlight {
        /// The limit.
        limit: u64,
    },
    /// A breaker that opens after `in_row` failures for `wait`, with one probe.
    Breaker {
        /// The failures in a row that open it.
        in_row: u64,
        /// The time for which it is open.
        wait: u64,
    },
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
    /// Whether each client has a limit of its own.
    pub is_keyed: bool,
    /// How far it is enforced.
    pub mode: Mode,
    /// The limit.
    pub limit: Limit,
}

impl Limit {
    /// Returns whether its permits come back with the time alone.
    pub(super) const fn is_rate(self) -> bool {
        matches!(self, Self::Window { .. } | Self::Bucket { .. })
    }

    /// Returns whether a limiter that has it is changed to the other one in place.
    pub(super) fn becomes(self, other: Self) -> bool {
        match (self, other) {
            (
                Self::Window { interval, buckets, .. },
                Self::Window { interval: to, buckets: of, .. },
            ) => (interval, buckets) == (to, of),
            (Self::Bucket { .. }, Self::Bucket { .. })
            | (Self::InFlight { .. }, Self::InFlight { .. })
            | (Self::Breaker { .. }, Self::Breaker { .. }) => true,
            _ => false,
        }
    }

    fn random(rng: &mut Rng) -> Self {
        match rng.u8(0..8) {
            0..=2 => Self::Window {
                count: rng.u64(0..8),
                interval: [200, 1_000, 1_000, 5_000][rng.usize(0..4)],
                buckets: [None, None, Some(2), Some(10)][rng.usize(0..4)],
            },
            3 | 4 => Self::Bucket { interval: 40 << rng.u8(0..4), burst: rng.u64(1..8) },
            5 | 6 => Self::InFlight { limit: rng.u64(0..5) },
            _ => Self::Breaker { in_row: rng.u64(1..4), wait: rng.u64(1..20) * 100 },
        }
    }

    /// Draws a limit of the same kind and geometry.
    fn with_other_numbers(self, rng: &mut Rng) -> Self {
        loop {
            let other = match (self, Self::random(rng)) {
                (Self::Window { interval, buckets, .. }, Self::Window { count, .. }) => {
                    Self::Window { count, interval, buckets }
                }
                (_, other) => other,
            };
            if self.becomes(other) {
                return other;
            }
        }
    }
}

impl Rule {
    fn random(rng: &mut Rng, name: u8) -> Self {
        let resources = [1, 1, 2, 3][rng.usize(0..4)];
        let mode = match rng.u8(0..8) {
            0 => Mode::Shadow,
            1 => Mode::Off,
            _ => Mode::Enforce,
        };
        Self { name, resources, is_keyed: rng.u8(0..3) == 0, mode, limit: Limit::random(rng) }
    }

    /// Returns whether a limiter of this rule is changed to the other one in place.
    pub(super) fn becomes(&self, other: &Self) -> bool {
        self.is_keyed == other.is_keyed && self.limit.becomes(other.limit)
    }

    fn text(&self) -> String {
        let Self { name, resources, is_keyed, mode, limit } = *self;
        let resources = ["\"a\"", "\"b\"", "\"a\", \"b\""][usize::from(resources) - 1];
        let mut text = format!("[[rule]]\nname = \"{name}\"\nresource = [{resources}]\n");
        text += if is_keyed { "key = \"client\"\n" } else { "" };
        text += match mode {
            Mode::Enforce => "",
            Mode::Shadow => "mode = \"shadow\"\n",
            Mode::Off => "mode = \"off\"\n",
        };
        let written = match limit {
            Limit::Window { count, interval, buckets } => {
                let limit = writeln!(text, "limit = \"{count} per {interval}ms\"");
                limit.and_then(|()| {
                    buckets.map_or(Ok(()), |buckets| writeln!(text, "buckets = {buckets}"))
                })
            }
            Limit::Bucket { interval, burst } => {
                writeln!(text, "limit = \"1 per {interval}ms, bursts of {burst}\"")
            }
            Limit::InFlight { limit } => writeln!(text, "in_flight = {limit}"),
            Limit::Breaker { in_row, wait } => {
                let failures = format!("failures = \"{in_row} in a row\"");
                writeln!(text, "breaker = {{ {failures}, wait = \"{wait}ms\", probes = 1 }}")
            }
        };
        written.expect("a string takes all");
        text
    }
}

/// Returns the text of a file.
pub(super) fn text(rules: &[Rule]) -> String {
    if rules.is_empty() { "rule = []".into() } else { rules.iter().map(Rule::text).collect() }
}

/// The names that rules can have.
pub(super) const NAMES: u8 = 5;

/// Draws a file.
pub(super) fn random(rng: &mut Rng) -> Vec<Rule> {
    (0..rng.u8(1..4)).map(|name| Rule::random(rng, name)).collect()
}

/// Draws the file after this one. A rule that comes back is one of `former`, the earlier rules.
pub(super) fn changed(rng: &mut Rng, file: &[Rule], former: &[Rule]) -> Vec<Rule> {
    let mut file = file.to_vec();
    for _ in 0..rng.u8(1..4) {
        change(rng, &mut file, former);
    }
    file
}

fn change(rng: &mut Rng, file: &mut Vec<Rule>, former: &[Rule]) {
    let change = rng.u8(0..12);
    if file.is_empty() || change == 0 {
        let name = rng.u8(0..NAMES);
        if file.iter().all(|it| it.name != name) {
            file.push(Rule::random(rng, name));
        }
        return;
    }
    let place = rng.usize(0..file.len());
    match change {
        1 => drop(file.remove(place)),
        // A rule as it was.
        2..=4 => {
            let back = former[rng.usize(0..former.len())];
            match file.iter_mut().find(|it| it.name == back.name) {
                Some(rule) => *rule = back,
                None => file.push(back),
            }
        }
        5 => {
            let name = rng.u8(0..NAMES);
            if file.iter().all(|it| it.name != name) {
                file[place].name = name;
            }
        }
        6 => file[place].limit = Limit::random(rng),
        7 => file[place] = Rule::random(rng, file[place].name),
        8 => {
            let last = file.len() - 1;
            file.swap(place, last);
        }
        _ => file[place].limit = file[place].limit.with_other_numbers(rng),
    }
}

/// Draws the file after this one such that a mixture of both may admit what neither does: limits of
/// 0 rise, others fall to 0, and a rule that refuses each request comes or goes.
pub(super) fn turned(rng: &mut Rng, file: &[Rule]) -> Vec<Rule> {
    let mut file = file.to_vec();
    for rule in &mut file {
        let most = if rng.bool() { 0 } else { 7 };
        match &mut rule.limit {
            Limit::Window { count, .. } => *count = most,
            Limit::InFlight { limit } => *limit = most,
            Limit::Bucket { .. } | Limit::Breaker { .. } => {}
        }
    }
    // The name is one that `changed` draws, too.
    let refuses = Rule {
        name: 0,
        resources: 3,
        is_keyed: false,
        mode: Mode::Enforce,
        limit: Limit::InFlight { limit: 0 },
    };
    match file.iter().position(|it| it.name == refuses.name) {
        None => file.push(refuses),
        Some(place) if rng.bool() => drop(file.remove(place)),
        Some(_) => {}
    }
    file
}

/// Returns rules that are simpler than this one in one respect each.
pub(super) fn simpler(rule: &Rule) -> Vec<Rule> {
    let mut all = vec![
        Rule { mode: Mode::Enforce, ..*rule },
        Rule { is_keyed: false, ..*rule },
        Rule { resources: 1, ..*rule },
    ];
    if let Limit::Window { count, interval, .. } = rule.limit {
        all.push(Rule { limit: Limit::Window { count, interval, buckets: None }, ..*rule });
        all.push(Rule { limit: Limit::Window { count, interval: 1_000, buckets: None }, ..*rule });
    }
    all.retain(|it| it != rule);
    all
}
