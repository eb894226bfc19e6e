//! Random files of rules, and random changes of them.

use fastrand::Rng;

use super::file::{Key, Limit, Mode, Rule, Shares, Weights};

impl Limit {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(0..14) {
            0..=2 => Self::Window {
                count: rng.u64(0..8),
                interval: [200, 1_000, 1_000, 5_000][rng.usize(0..4)],
                buckets: [None, None, Some(2), Some(10)][rng.usize(0..4)],
            },
            3 | 4 => Self::Bucket { interval: 40 << rng.u8(0..4), burst: rng.u64(1..8) },
            5 | 6 => Self::InFlight { limit: rng.u64(0..5) },
            7 => Self::Breaker { in_row: rng.u64(1..4), wait: rng.u64(1..20) * 100 },
            8 | 9 => Self::Pace {
                interval: 40 << rng.u8(0..4),
                max_wait: [0, 100, 500, 1_000, 5_000][rng.usize(0..5)],
            },
            10 | 11 => Self::WarmUp {
                count: rng.u64(1..30),
                interval: 1_000,
                period: [500, 1_000, 3_000, 20_000][rng.usize(0..4)],
                cold_factor: rng.u64(2..8),
            },
            12 => {
                let min = rng.u64(1..4);
                Self::Adaptive { min, max: min + rng.u64(0..6) }
            }
            _ => Self::AdaptiveBreaker { min_requests: rng.u64(0..10) },
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

impl Shares {
    fn random(rng: &mut Rng) -> Self {
        let share = |rng: &mut Rng| [0, 10, 30, 50, 60, 90][rng.usize(0..6)];
        // No file leaves a part of the limit to no class.
        let mut named = [100, share(rng)];
        if rng.u8(0..4) == 0 {
            named.reverse();
        }
        Self { named, others: rng.bool().then(|| share(rng)) }
    }
}

impl Weights {
    fn random(rng: &mut Rng) -> Self {
        let weight = |rng: &mut Rng| [1, 1, 2, 4, 255][rng.usize(0..5)];
        let named = [weight(rng), weight(rng)];
        Self { named, others: rng.bool().then(|| weight(rng)) }
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
        let key =
            [Some(Key::Client), Some(Key::Client), Some(Key::Context), None, None, None, None]
                [rng.usize(0..7)];
        let shares = rng.bool().then(|| Shares::random(rng));
        let weights = rng.bool().then(|| Weights::random(rng));
        let limit = Limit::random(rng);
        Self { name, resources, key, shares, weights, mode, limit }.possible()
    }

    /// Returns the rule without what its limit cannot have.
    fn possible(self) -> Self {
        let shares = self.shares.filter(|_| self.limit.is_in_flight());
        let is_whole = self.key.is_none() && shares.is_none();
        let weights = self.weights.filter(|_| self.limit.is_in_flight() && is_whole);
        let limit = match self.limit {
            // A limit of which classes, or tenants, have different parts.
            Limit::InFlight { limit } if shares.is_some() || weights.is_some() => {
                Limit::InFlight { limit: limit * 3 }
            }
            limit => limit,
        };
        Self { shares, weights, limit, ..self }
    }
}

/// The names that rules can have.
pub(super) const NAMES: u8 = 5;

/// Draws a file. Two of eight have a rule with tenants that concerns each request, alone or beside
/// another rule.
pub(super) fn random(rng: &mut Rng) -> Vec<Rule> {
    match rng.u8(0..8) {
        0 => vec![of_tenants(rng)],
        1 => vec![of_tenants(rng), Rule::random(rng, 1)],
        _ => (0..rng.u8(1..4)).map(|name| Rule::random(rng, name)).collect(),
    }
}

fn of_tenants(rng: &mut Rng) -> Rule {
    let weights = Some(Weights::random(rng));
    let limit = Limit::InFlight { limit: rng.u64(2..16) };
    Rule { resources: 3, key: None, shares: None, weights, limit, ..Rule::random(rng, 0) }
}

/// Draws the file after this one, in which the tenants have the same rule with another limit or
/// other weights.
pub(super) fn with_other_shares(rng: &mut Rng, file: &[Rule]) -> Vec<Rule> {
    let mut file = file.to_vec();
    for rule in file.iter_mut().filter(|it| it.weights.is_some()) {
        if rng.bool() {
            rule.limit = Limit::InFlight { limit: rng.u64(0..20) };
        } else {
            rule.weights = Some(Weights::random(rng));
        }
    }
    file
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
        6 => {
            file[place].limit = Limit::random(rng);
            file[place] = file[place].possible();
        }
        7 => file[place] = Rule::random(rng, file[place].name),
        8 if file[place].weights.is_some() => {
            file[place].weights = (rng.u8(0..4) > 0).then(|| Weights::random(rng));
        }
        8 if file[place].limit.is_in_flight() => {
            file[place].shares = (rng.u8(0..4) > 0).then(|| Shares::random(rng));
        }
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
            // No warm-up has a limit of 0.
            Limit::WarmUp { count, .. } => *count = most.max(1),
            _ => {}
        }
    }
    // The name is one that `changed` draws, too.
    let refuses = Rule {
        name: 0,
        resources: 3,
        key: None,
        shares: None,
        weights: None,
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
