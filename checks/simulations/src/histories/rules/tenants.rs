//! The plain reference of the fair shares of tenants, from the documentation of `FairShares`.

/// The number of tenants: two with a name, and the requests without one.
const TENANTS: usize = 3;

/// The part of the limit that is left for tenants that are not hungry, as its divisor.
const RESERVE: u64 = 16;

/// One, in the parts in which shares are counted.
const ONE: u64 = 1 << 32;

/// The question of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfTenant {
    pub(super) tenant: usize,
    pub(super) weight: u64,
    pub(super) permits: u64,
}

/// What is known of the answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct May {
    pub(super) admit: bool,
    pub(super) refuse: bool,
}

/// The permits of each tenant, and their hunger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tenants {
    in_use: [u64; TENANTS],
    /// The courses that the epochs may have taken, in order: several after a request beside a
    /// change, which may have been decided twice. `None` of a limit that adapts itself, by which
    /// the epochs end.
    courses: Option<Vec<Course>>,
}

/// A course of the epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Course {
    /// The permits that have come back in this epoch.
    returned: u64,
    tenants: [Tenant; TENANTS],
}

/// A tenant in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tenant {
    /// How many epochs ago it was refused last, and its weight then. `None` if it is not hungry.
    hungry: Option<(u64, u64)>,
    /// The weight before that one, which may count in its place until the epoch ends.
    former: Option<u64>,
    /// The least and the highest number by which its shares may be rounded in this epoch.
    rounding: (u64, u64),
}

impl Default for Tenant {
    fn default() -> Self {
        Self { hungry: None, former: None, rounding: (0, ONE - 1) }
    }
}

impl Tenant {
    /// Returns the least and the highest weight that counts among those of the hungry tenants.
    fn weights(&self) -> (u64, u64) {
        let (_, weight) = self.hungry.unwrap_or_default();
        let former = self.former.unwrap_or(weight);
        (weight.min(former), weight.max(former))
    }

    fn refuse(&mut self, weight: u64) {
        match self.hungry {
            // A new weight counts from a later epoch on.
            Some((0, _)) => {}
            Some((_, former)) => {
                self.hungry = Some((0, weight));
                self.former = (former != weight).then_some(former);
            }
            None => self.hungry = Some((0, weight)),
        }
    }

    fn next_epoch(self) -> Self {
        let hungry = self.hungry.filter(|(age, _)| *age == 0).map(|(_, weight)| (1, weight));
        Self { hungry, ..Self::default() }
    }
}

impl Course {
    /// Returns the least and the highest share of a tenant.
    fn share(&self, limit: u64, in_use: &[u64; TENANTS], of: OfTenant) -> (u64, u64) {
        let is_other = |it: &usize| *it != of.tenant && self.tenants[*it].hungry.is_none();
        let others: u64 = (0..TENANTS).filter(is_other).map(|it| in_use[it]).sum();
        let left = limit.saturating_sub(limit / RESERVE).saturating_sub(others);
        let all = self.tenants.iter().map(Tenant::weights);
        let (least, most) = all.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let own = if self.tenants[of.tenant].hungry.is_some() { 0 } else { of.weight };
        let share = |weights: u64| left * of.weight * ONE / (weights + own).max(of.weight);
        (share(most), share(least))
    }

    fn may(&self, limit: u64, in_use: &[u64; TENANTS], of: OfTenant) -> May {
        let with_it = in_use.iter().sum::<u64>() + of.permits;
        if with_it > limit {
            return May { admit: false, refuse: true };
        }
        if with_it <= (limit / 2).max(1) {
            return May { admit: true, refuse: false };
        }
        let held = in_use[of.tenant] + of.permits;
        let ((least, most), (down, up)) =
            (self.share(limit, in_use, of), self.tenants[of.tenant].rounding);
        May { admit: held <= (most + up) / ONE, refuse: held > (least + down) / ONE }
    }

    /// Returns the course after a decision, if it may be that one.
    fn after(
        mut self,
        is_admitted: bool,
        limit: u64,
        in_use: &[u64; TENANTS],
        of: OfTenant,
    ) -> Option<Self> {
        let may = self.may(limit, in_use, of);
        if if is_admitted { !may.admit } else { !may.refuse } {
            return None;
        }
        let (least, most) = self.share(limit, in_use, of);
        if may.admit && may.refuse && least == most {
            // In an epoch, the shares of a tenant are rounded by one number.
            let from = (in_use[of.tenant] + of.permits) * ONE - least;
            let (down, up) = &mut self.tenants[of.tenant].rounding;
            if is_admitted {
                *down = from.max(*down);
            } else {
                *up = (from - 1).min(*up);
            }
        }
        if !is_admitted {
            self.tenants[of.tenant].refuse(of.weight);
        }
        Some(self)
    }

    fn give_back(mut self, limit: u64, permits: u64) -> Self {
        self.returned += permits;
        if self.returned >= limit.max(1) {
            return Self { returned: 0, tenants: self.tenants.map(Tenant::next_epoch) };
        }
        self
    }
}

impl Tenants {
    /// Creates the state of a limit, whose epochs are known unless it adapts itself.
    pub(super) fn new(adapts: bool) -> Self {
        Self { in_use: [0; TENANTS], courses: (!adapts).then(|| vec![Course::default()]) }
    }

    /// Returns what is known of the answer to a question. `limits` are the lowest and the highest
    /// limit that may be in force.
    pub(super) fn may(&self, (least, most): (u64, u64), of: OfTenant) -> May {
        if let Some(courses) = self.courses.as_ref().filter(|_| least == most) {
            let none = May { admit: false, refuse: false };
            return courses.iter().map(|it| it.may(least, &self.in_use, of)).fold(
                none,
                |one, it| May { admit: one.admit || it.admit, refuse: one.refuse || it.refuse },
            );
        }
        let with_it = self.in_use.iter().sum::<u64>() + of.permits;
        let is_plenty = with_it <= (least / 2).max(1).min(least);
        May { admit: with_it <= most, refuse: !is_plenty }
    }

    /// Replaces each course by those to which it may lead.
    fn lead<I: IntoIterator<Item = Course>>(&mut self, to: impl Fn(Course, [u64; TENANTS]) -> I) {
        let Some(courses) = &mut self.courses else { return };
        *courses = courses.iter().flat_map(|it| to(*it, self.in_use)).collect();
        courses.sort_unstable();
        courses.dedup();
    }

    /// Takes the permits of a request that was admitted.
    pub(super) fn take(&mut self, limit: u64, of: OfTenant) {
        self.lead(|it, in_use| it.after(true, limit, &in_use, of));
        self.in_use[of.tenant] += of.permits;
    }

    /// Notes a refusal.
    pub(super) fn refuse(&mut self, limit: u64, of: OfTenant) {
        self.lead(|it, in_use| it.after(false, limit, &in_use, of));
    }

    /// Notes an answer of which the reference does not know whether it was a refusal.
    pub(super) fn answer(&mut self, limit: u64, of: OfTenant) {
        self.lead(|it, in_use| {
            // Permits that were not taken leave nothing but the number by which they were rounded.
            [true, false].into_iter().filter_map(move |is| it.after(is, limit, &in_use, of))
        });
    }

    /// Notes that a request may have been refused, or admitted and taken back, by limits between
    /// these.
    pub(super) fn may_have_asked(&mut self, limits: (u64, u64), of: OfTenant) {
        let (least, most) = limits;
        self.lead(|it, in_use| {
            let refused = it.may(least, &in_use, of).refuse.then(|| {
                let mut refused = it;
                refused.tenants[of.tenant].refuse(of.weight);
                refused
            });
            // No request has used them, so they do not count. Their return ends an epoch that is
            // over since the limit was lowered.
            let admitted = it.may(most, &in_use, of).admit;
            let taken_back = admitted
                .then(|| [least, most].map(|limit| it.give_back(limit, 0)))
                .into_iter()
                .flatten();
            [it].into_iter().chain(refused).chain(taken_back)
        });
    }

    /// Gives permits back to a limiter with that limit.
    pub(super) fn end(&mut self, limit: u64, tenant: usize, permits: u64) {
        self.in_use[tenant] -= permits;
        self.lead(|it, _| [it.give_back(limit, permits)]);
    }

    /// Forgets the epochs: the limit begins to adapt itself.
    pub(super) fn forget(&mut self) {
        self.courses = None;
    }
}
