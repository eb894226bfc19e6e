//! The plain reference of the fair shares of tenants, from the documentation of `FairShares`.

use super::limiter::Answer;

/// The number of tenants: two with a name, and the requests without one.
const TENANTS: usize = 3;

/// The part of the limit that is left for tenants that are not hungry, as its divisor.
const RESERVE: u64 = 16;

/// The permits of each tenant, and what is known of their hunger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tenants {
    in_use: [u64; TENANTS],
    /// `None` after a decision of which the reference does not know whether permits were taken and
    /// given back, which moves the epochs. Any tenant may then be hungry, or none.
    hunger: Option<Hunger>,
}

/// The epochs, and the tenants that were refused in them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Hunger {
    epoch: u64,
    /// The permits that have come back, and how many end the epoch.
    returned: u64,
    due: u64,
    /// The epoch in which each tenant was refused last, until it gets a permit while it is not
    /// hungry any more.
    refused: [Option<u64>; TENANTS],
    /// The weights of the tenants that were refused last in the epoch before, and in this one.
    weights: [u64; 2],
}

impl Hunger {
    fn is_hungry(&self, tenant: usize) -> bool {
        self.refused[tenant].is_some_and(|it| self.epoch - it <= 1)
    }

    /// Returns the share of a tenant in parts of 2⁻³².
    fn share(&self, limit: u64, in_use: &[u64; TENANTS], tenant: usize, weight: u64) -> u64 {
        let is_among_others = |other: &usize| match self.refused[*other] {
            // A tenant that was hungry still counts among those until it gets a permit.
            Some(_) => false,
            None => *other != tenant,
        };
        let others: u64 = (0..TENANTS).filter(is_among_others).map(|it| in_use[it]).sum();
        let own = if self.is_hungry(tenant) { 0 } else { weight };
        // A stale permit of the tenant itself counts among those of the hungry ones.
        let weights = (self.weights.iter().sum::<u64>() + own).max(weight);
        let left = limit.saturating_sub(limit / RESERVE).saturating_sub(others);
        left * (weight << 32) / weights
    }
}

impl Tenants {
    pub(super) fn new() -> Self {
        Self { in_use: [0; TENANTS], hunger: Some(Hunger::default()) }
    }

    /// Returns the state of a limit that adapts itself.
    pub(super) const fn of_unknown_hunger() -> Self {
        Self { in_use: [0; TENANTS], hunger: None }
    }

    /// Answers a request of a tenant with that weight. `limits` are the lowest and the highest
    /// limit that may be in force.
    pub(super) fn answer(
        &self,
        limits: (u64, u64),
        (tenant, weight): (usize, u64),
        permits: u64,
    ) -> Answer {
        let (least, most) = limits;
        let with_it = self.in_use.iter().sum::<u64>() + permits;
        if with_it > most {
            return Answer::Refuses;
        }
        if with_it <= (least / 2).max(1).min(least) {
            return Answer::Admits;
        }
        let Some(hunger) = self.hunger.as_ref().filter(|_| least == most) else {
            return Answer::Either;
        };
        let share = hunger.share(least, &self.in_use, tenant, weight);
        let held = self.in_use[tenant] + permits;
        // A share that is no whole number is rounded at random.
        if held <= share >> 32 {
            Answer::Admits
        } else if held > share.div_ceil(1 << 32) {
            Answer::Refuses
        } else {
            Answer::Either
        }
    }

    pub(super) fn take(&mut self, tenant: usize, permits: u64) {
        self.in_use[tenant] += permits;
        if let Some(hunger) = &mut self.hunger
            && !hunger.is_hungry(tenant)
        {
            hunger.refused[tenant] = None;
        }
    }

    pub(super) fn note_refused(&mut self, tenant: usize, weight: u64) {
        let Some(hunger) = &mut self.hunger else { return };
        let was_hungry = hunger.is_hungry(tenant);
        if hunger.refused[tenant].replace(hunger.epoch) == Some(hunger.epoch) {
            return;
        }
        let [before, now] = &mut hunger.weights;
        if was_hungry {
            *before = before.saturating_sub(weight);
        }
        *now += weight;
    }

    /// Gives permits back to a limiter with that limit.
    pub(super) fn end(&mut self, limit: u64, tenant: usize, permits: u64) {
        self.in_use[tenant] -= permits;
        let Some(hunger) = &mut self.hunger else { return };
        hunger.returned += permits;
        if hunger.returned >= hunger.due {
            hunger.due = hunger.returned + limit.max(1);
            hunger.epoch += 1;
            hunger.weights = [hunger.weights[1], 0];
        }
    }

    /// Forgets which tenants are hungry.
    pub(super) fn forget(&mut self) {
        self.hunger = None;
    }
}
