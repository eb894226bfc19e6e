//! The rules on the page of `leaparray-web`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leaparray::flow::watch::WatchedState;
use leaparray::registry::WatchedLimiter;
use leaparray::{MetricEvent, ResourceNode, Timestamp};
use leaparray_web::format::{RuleList, RuleRow, RuleSourceState};

use crate::limiter::RuleClock;
use crate::rule::{ModeText, Rule};
use crate::rules::Rules;
use crate::source::SourceState;
use crate::turn::locked;

/// The most rules that a page shows.
const MAX_SHOWN: usize = 1_000;

impl<C: RuleClock> Rules<C> {
    /// Returns the function for [`Page::rules`](leaparray_web::Page::rules), by which a page lists
    /// the first 1,000 rules with their modes and states, and tells the last change and the state
    /// of the source. The shares of refusals are of the last minute in which the page has asked,
    /// and not known when it asks first. It is no handle to the rules: it returns `None` once they
    /// are dropped.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{RuleSet, Rules};
    /// use leaparray_web::{Access, Page};
    /// use std::sync::Arc;
    ///
    /// let registry = Arc::new(Registry::new());
    /// let rules = Rules::new(Arc::clone(&registry));
    /// let text = "[[rule]]\nname = \"all\"\nresource = \"GET /\"\nin_flight = 64";
    /// rules.apply(&RuleSet::parse(text)?);
    /// let list = rules.on_page()().expect("the rules exist");
    /// assert_eq!((list.version, &*list.rules[0].state), (1, "64 of 64 left"));
    /// let page = Page::new(registry, Access::anyone()).rules(rules.on_page());
    /// # let _ = page;
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    pub fn on_page(&self) -> impl Fn() -> Option<RuleList> + Send + Sync + use<C> {
        let (shared, history) = (Arc::downgrade(&self.shared), Mutex::new(History::default()));
        move || Some(Self::of(shared.upgrade()?).list(&mut locked(&history)))
    }

    fn list(&self, history: &mut History) -> RuleList {
        let (rules, status) = (self.rules(), self.status());
        let watched = self.registry().watched().into_iter();
        let by_name: HashMap<_, _> =
            watched.map(|WatchedLimiter { name, state, .. }| (name, state)).collect();
        let shares = history.shares(self.registry().clock().now(), self.counts());
        let mut list = RuleList::default();
        list.version = status.version;
        list.changed_at = status.applied_at.map(seconds);
        if let Some(source) = status.source {
            list.source = Some(source.name);
            list.since = Some(seconds(source.since));
            (list.state, list.why) = match source.state {
                SourceState::Good => (RuleSourceState::Good, None),
                SourceState::Away { error } => (RuleSourceState::Away, Some(error)),
                SourceState::Wrong(problems) => {
                    (RuleSourceState::Wrong, Some(problems.to_string()))
                }
            };
        }
        let row = |rule: &Arc<Rule>| {
            let names: Vec<_> = rule.resources.iter().map(ToString::to_string).collect();
            let mut limit = rule.limit.to_string().replace('\n', ", ");
            if let Some(key) = &rule.key {
                limit = format!("{limit}, by {key}");
            }
            let mut row = RuleRow::new(&*rule.name, names.join(", "), limit);
            row.mode = ModeText(rule.mode).to_string();
            row.state = by_name.get(&*rule.name).map(text_of).unwrap_or_default();
            row.refused = shares.get(&rule.name).copied();
            row
        };
        list.rules = rules.iter().take(MAX_SHOWN).map(row).collect();
        list.left_out = rules.len().saturating_sub(MAX_SHOWN) as u64;
        list
    }

    /// Returns the counts of the rules since their beginning.
    fn counts(&self) -> Counts {
        let plan = self.shared.home.plan();
        let mut counts: Vec<_> =
            plan.rules.iter().map(|it| Count { refused: it.refused(), all: 0 }).collect();
        for resource in self.registry().iter() {
            let events = [MetricEvent::Pass, MetricEvent::Block];
            let of = |node: &ResourceNode<C>| {
                let lifetime = node.lifetime();
                events.map(|it| lifetime.sum(it)).into_iter().sum::<u64>()
            };
            let all: u64 = resource.nodes().map(of).sum();
            for member in plan.index.members(plan.index.place_of(&resource)) {
                counts[member.rule].all += all;
            }
        }
        plan.rules.iter().map(|it| Arc::clone(&it.rule.name)).zip(counts).collect()
    }
}

/// The requests of the resources of a rule, and those of them that it has refused.
#[derive(Clone, Copy)]
struct Count {
    refused: u64,
    all: u64,
}

type Counts = HashMap<Arc<str>, Count>;

/// The counts at former times, the oldest first.
#[derive(Default)]
struct History(VecDeque<(Timestamp, Counts)>);

impl History {
    /// The time of which shares are.
    const SPAN: Duration = Duration::from_secs(60);

    /// The least time between two that are kept.
    const STEP: Duration = Duration::from_secs(10);

    /// Returns the share of refusals of each rule in the last minute, or since the first reading if
    /// that was later. A rule without requests has none.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn shares(&mut self, now: Timestamp, counts: Counts) -> HashMap<Arc<str>, f64> {
        let Self(kept) = self;
        let age = |(time, _): &(Timestamp, Counts)| now.saturating_since(*time);
        // The oldest counts are too old if the page was not open, or asks once in a while.
        while kept.get(1).is_some_and(|it| age(it) >= Self::SPAN)
            || kept.front().is_some_and(|it| age(it) >= Self::SPAN + Self::STEP)
        {
            kept.pop_front();
        }
        let share = |(name, count): (&Arc<str>, &Count)| {
            let before = kept.front()?.1.get(name)?;
            let all = count.all.checked_sub(before.all)?;
            let refused = count.refused.saturating_sub(before.refused);
            (all > 0).then(|| (Arc::clone(name), refused.min(all) as f64 / all as f64))
        };
        let shares = counts.iter().filter_map(share).collect();
        if kept.back().is_none_or(|it| age(it) >= Self::STEP) {
            kept.push_back((now, counts));
        }
        shares
    }
}

/// Returns a time in seconds since the Unix epoch.
#[expect(clippy::cast_precision_loss, reason = "of less than a microsecond")]
fn seconds(time: Timestamp) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn text_of(state: &WatchedState) -> String {
    match state {
        WatchedState::Quota(quota) => format!("{} of {} left", quota.remaining, quota.limit),
        WatchedState::Breaker { drop_probability, .. } => {
            format!("refuses {:.0} %", 100.0 * drop_probability)
        }
        WatchedState::Circuit { snapshot, .. } => snapshot.state.to_string(),
        WatchedState::Keyed { counts, .. } => format!("{} keys", counts.keys),
        WatchedState::Shadow { counts, limiter, .. } => {
            let state = text_of(limiter);
            match counts.would_refuse {
                0 => state,
                would_refuse => format!("{state}, would have refused {would_refuse}"),
            }
        }
        WatchedState::Panicked => "its code has panicked".to_owned(),
        _ => String::new(),
    }
}
