//! A change of the rules in force.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use leaparray::Timestamp;

use crate::changes::Changes;
use crate::limit::Limit;
use crate::limiter::{RuleClock, RuleLimiter, Watched};
use crate::plan::{Active, Plan, Version};
use crate::rule::Rule;
use crate::rules::Rules;
use crate::text::RuleSet;
use crate::turn::{GoneRules, WatchedRules, locked};

/// A rule that stays, and whose numbers change.
struct Step<C: RuleClock> {
    former: Arc<Rule>,
    /// The numbers until the last step.
    strictest: Limit,
    next: Active<C>,
}

impl<C: RuleClock> Step<C> {
    /// Lowers what falls, and enforces what will be enforced for more requests.
    fn begin(&self, clock: &C) {
        let Self { former, strictest, next } = self;
        if *strictest != former.limit {
            next.limiter.set(strictest, clock);
        }
        if next.rule.mode.enforced() > former.mode.enforced() {
            self.set_mode();
        }
    }

    /// Raises what rises, and sets what has no order.
    fn end(&self, clock: &C) {
        let Self { strictest, next, .. } = self;
        if *strictest != next.rule.limit {
            next.limiter.set(&next.rule.limit, clock);
        }
        self.set_mode();
    }

    fn set_mode(&self) {
        if let Some(rollout) = &self.next.rollout {
            rollout.set_mode(self.next.rule.mode);
        }
    }
}

/// What the rules in force and the rules that are gone have for a rule of the next version.
enum Found<'a, C: RuleClock> {
    /// The same rule.
    Same(&'a Active<C>),
    /// A rule whose limiter is changed in place, by way of these numbers.
    InPlace { known: &'a Active<C>, strictest: Limit },
    /// A rule that is gone, in place of the rule with that name, if there is one.
    Back { known: Option<&'a Active<C>>, back: &'a Active<C> },
    /// No limiter. The rule replaces the one with that name, if there is one.
    New { known: Option<&'a Active<C>> },
}

impl<'a, C: RuleClock> Found<'a, C> {
    fn of(known: Option<&'a Active<C>>, gone: &'a GoneRules<C>, rule: &Rule) -> Self {
        if let Some(same) = known.filter(|it| *it.rule == *rule) {
            return Self::Same(same);
        }
        if let Some((known, strictest)) = known.and_then(|it| Some((it, it.rule.becomes(rule)?))) {
            return Self::InPlace { known, strictest };
        }
        match gone.of(rule) {
            Some(back) => Self::Back { known, back },
            None => Self::New { known },
        }
    }
}

/// The next plan, and how to come to it.
struct Prepared<C: RuleClock> {
    plan: Plan<C>,
    steps: Vec<Step<C>>,
    carries: Vec<Carry<C>>,
    /// The rules that are removed, or whose limiter is replaced.
    gone: Vec<Active<C>>,
    changes: Changes,
}

/// A limiter that replaces another one, and is charged with what that has charged.
struct Carry<C: RuleClock> {
    from: Arc<RuleLimiter<C>>,
    to: Arc<RuleLimiter<C>>,
    /// The permits that the new limiter has charged by the last call.
    charged: Option<u64>,
}

impl<C: RuleClock> Carry<C> {
    fn new(from: &Arc<RuleLimiter<C>>, to: &Arc<RuleLimiter<C>>) -> Self {
        Self { from: Arc::clone(from), to: Arc::clone(to), charged: None }
    }

    /// Charges what the former limiter has charged, before the new one decides.
    fn begin(&mut self, now: Timestamp) {
        // Another limiter is not asked: a breaker would count the request.
        let (Some(taken), Some(has)) = (self.from.taken(now), self.to.taken(now)) else { return };
        self.to.take_beyond(now, taken.saturating_sub(has));
        self.charged = Some(taken.max(has));
    }

    /// Charges what the former one has charged since then, as far as it is left.
    fn end(&mut self, now: Timestamp) {
        let Self { from, to, charged } = self;
        let (Some(taken), Some(before)) = (from.taken(now), *charged) else { return };
        to.take(now, taken.saturating_sub(before));
        *charged = Some(taken.max(before));
    }
}

impl<C: RuleClock> Rules<C> {
    /// Replaces the rules; see [Changes](Self#changes). Other threads may ask at the same time.
    /// Threads that change the rules take turns.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let of = |limit| {
    ///     let text = "[[rule]]\nname = \"orders\"\nresource = \"orders\"\nlimit = ";
    ///     RuleSet::parse(&format!("{text}{limit:?}"))
    /// };
    /// assert_eq!(rules.apply(&of("3 per hour, bursts of 3")?).added[..], [Arc::from("orders")]);
    /// assert!(rules.enter("orders", ())?.is_admitted());
    /// assert_eq!(rules.apply(&of("3 per hour, bursts of 2")?).changed[..], [Arc::from("orders")]);
    /// assert!(rules.enter("orders", ())?.is_admitted(), "two were left");
    /// assert!(rules.enter("orders", ())?.is_admitted(), "one is left");
    /// assert!(rules.enter("orders", ())?.is_refused());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "a report")]
    pub fn apply(&self, rules: &RuleSet) -> Changes {
        let mut turn = locked(&self.shared.turn);
        let before = self.shared.home.plan();
        let clock = self.shared.home.registry.clock();
        let now = clock.now();
        turn.gone.forget(now);
        let Prepared { plan, steps, mut carries, gone, mut changes } =
            self.prepare(&before, &turn.gone, rules);
        for step in &steps {
            step.begin(clock);
        }
        // After that: a bucket that comes back smaller would forget what is charged before.
        for carry in &mut carries {
            carry.begin(now);
        }
        let version = Version::new(plan);
        self.shared.home.publish(version);
        for step in &steps {
            step.end(clock);
        }
        for carry in &mut carries {
            carry.end(clock.now());
        }
        for step in &steps {
            turn.gone.take_up(&step.next);
        }
        // A decision that finds its limiter ended is made anew: it is by a former plan.
        turn.gone.add(gone.into_iter().filter(|it| it.limiter.end()), now);
        changes.not_shown = self.show(&mut turn.watched);
        let not_started = self.each(|it| (!it.is_started()).then_some(()));
        changes.not_started = not_started.into_iter().map(|(name, ())| name).collect();
        let mut status = locked(&self.shared.status);
        status.version += 1;
        (status.rules, status.applied_at) = (rules.rules().len(), Some(clock.now()));
        changes.version = status.version;
        changes
    }

    /// Returns what `read` finds in the limiters of the rules in force, with their names.
    pub(crate) fn each<T>(
        &self,
        read: impl Fn(&RuleLimiter<C>) -> Option<T>,
    ) -> Vec<(Arc<str>, T)> {
        let plan = self.shared.home.plan();
        let each = plan.rules.iter();
        each.filter_map(|it| Some((Arc::clone(&it.rule.name), read(&it.limiter)?))).collect()
    }

    /// Drops the rules that are gone for too long to come back.
    pub(crate) fn forget_gone(&self) {
        let now = self.shared.home.registry.clock().now();
        locked(&self.shared.turn).gone.forget(now);
    }

    /// Makes the next plan. Changes nothing.
    fn prepare(&self, before: &Plan<C>, gone: &GoneRules<C>, rules: &RuleSet) -> Prepared<C> {
        // Most changes keep the names and their order, and need no table of them.
        let names = before.rules.iter().map(|it| &it.rule.name);
        let has_same_names = names.eq(rules.rules().iter().map(|it| &it.name));
        let by_name = before.rules.iter().filter(|_| !has_same_names);
        let mut former: HashMap<&str, &Active<C>> =
            by_name.map(|it| (&*it.rule.name, it)).collect();
        let found: Vec<_> = rules
            .rules()
            .iter()
            .enumerate()
            .map(|(place, rule)| {
                let known = if has_same_names {
                    before.rules.get(place)
                } else {
                    former.remove(&*rule.name)
                };
                (rule, Found::of(known, gone, rule))
            })
            .collect();
        let is_new = |found: &Found<'_, C>| matches!(found, Found::New { .. });
        let new: Vec<_> = found.iter().filter(|(_, it)| is_new(it)).map(|it| it.0).collect();
        let mut limiters = RuleLimiter::all(&new, self.registry(), &self.shared.fleet).into_iter();
        let (mut steps, mut carries) = (Vec::new(), Vec::new());
        let (mut replaced, mut changes) = (Vec::new(), Changes::default());
        let active = found.into_iter().map(|(rule, found)| {
            let new = Arc::new(rule.clone());
            let (known, next) = match found {
                Found::Same(same) => {
                    changes.unchanged += 1;
                    return same.clone();
                }
                Found::InPlace { known, strictest } => {
                    changes.changed.push(Arc::clone(&rule.name));
                    let (limiter, rollout) = (Arc::clone(&known.limiter), known.rollout.as_ref());
                    let next = Active::new(&new, limiter, rollout, Some(known));
                    let former = Arc::clone(&known.rule);
                    steps.push(Step { former, strictest, next: next.clone() });
                    return next;
                }
                // A rule that has come back takes its state up again: no request had it since.
                Found::Back { known, back } => {
                    let rollout = back.rollout.as_ref();
                    let before = known.or(Some(back));
                    let next = Active::new(&new, Arc::clone(&back.limiter), rollout, before);
                    let (former, strictest) = (Arc::clone(&back.rule), rule.limit.clone());
                    steps.push(Step { former, strictest, next: next.clone() });
                    (known, next)
                }
                Found::New { known } => {
                    let limiter = limiters.next().expect("a limiter for each new rule");
                    (known, Active::new(&new, limiter, None, known))
                }
            };
            let list = if known.is_some() { &mut changes.begun_anew } else { &mut changes.added };
            list.push(Arc::clone(&rule.name));
            if let Some(known) = known {
                carries.push(Carry::new(&known.limiter, &next.limiter));
                replaced.push(known.clone());
            }
            next
        });
        let active: Box<[_]> = active.collect();
        changes.removed = former.keys().copied().map(Arc::from).collect();
        changes.removed.sort_unstable();
        replaced.extend(former.into_values().cloned());
        Prepared { plan: before.next(active), steps, carries, gone: replaced, changes }
    }

    /// Has the registry watch the limiters of the present rules, and no others. Returns the names
    /// under which it watches a limiter of the program.
    fn show(&self, watched: &mut WatchedRules<C>) -> Vec<Arc<str>> {
        let registry = &self.shared.home.registry;
        let plan = self.shared.home.plan();
        let mut not_shown = Vec::new();
        for active in &plan.rules {
            let rule = &active.rule;
            let limiter = Watched::new(&active.limiter, active.rollout());
            if let Some((known, former)) = watched.get_mut(&rule.name) {
                let is_there =
                    former.resources == rule.resources || former.shown_at() == rule.shown_at();
                *former = Arc::clone(rule);
                if is_there && known.is_same(&limiter) {
                    continue;
                }
                registry.unwatch(&rule.name);
            }
            // On a page, a rule for one resource is shown there.
            if registry.watch_at(rule.shown_at(), &rule.name, limiter.clone()).is_ok() {
                watched.insert(Arc::clone(&rule.name), (limiter, Arc::clone(rule)));
            } else {
                watched.remove(&rule.name);
                not_shown.push(Arc::clone(&rule.name));
            }
        }
        // Each present rule is watched, or is not shown.
        if watched.len() + not_shown.len() > plan.rules.len() {
            let present: HashSet<_> = plan.rules.iter().map(|it| &it.rule.name).collect();
            watched.retain(|name, _| {
                let is_present = present.contains(name);
                if !is_present {
                    registry.unwatch(name);
                }
                is_present
            });
        }
        not_shown
    }
}
