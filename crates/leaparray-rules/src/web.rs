//! The rules on the page of `leaparray-web`.

use std::collections::HashMap;
use std::sync::Arc;

use leaparray::flow::watch::WatchedState;
use leaparray::registry::WatchedLimiter;
use leaparray::{MetricEvent, Timestamp};
use leaparray_web::format::{RuleList, RuleRow, RuleSourceState};

use crate::limiter::RuleClock;
use crate::pattern::Pattern;
use crate::rule::{ModeText, Rule};
use crate::rules::Rules;
use crate::source::SourceState;

/// The most rules that a page shows.
const MAX_SHOWN: usize = 1_000;

impl<C: RuleClock> Rules<C> {
    /// Returns the function for [`Page::rules`](leaparray_web::Page::rules), by which a page lists
    /// the first 1,000 rules with their modes and states, and tells the last change and the state
    /// of the source. It is no handle to the rules: it returns `None` once they are dropped.
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
        let shared = Arc::downgrade(&self.shared);
        move || Some(Self { shared: shared.upgrade()? }.list())
    }

    fn list(&self) -> RuleList {
        let (rules, status) = (self.rules(), self.status());
        let watched = self.registry().watched().into_iter();
        let by_name: HashMap<_, _> =
            watched.map(|WatchedLimiter { name, state, .. }| (name, state)).collect();
        let now = self.registry().clock().now();
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
            row.refused = self.refused(rule, now);
            row
        };
        list.rules = rules.iter().take(MAX_SHOWN).map(row).collect();
        list.left_out = rules.len().saturating_sub(MAX_SHOWN) as u64;
        list
    }

    /// Returns the share of refused requests of the resources of a rule in their long windows;
    /// `None` without requests, or if the rule has a pattern.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn refused(&self, rule: &Rule, now: Timestamp) -> Option<f64> {
        if !rule.resources.iter().all(Pattern::is_name) {
            return None;
        }
        let (mut all, mut refused) = (0, 0);
        for name in &rule.resources {
            let Some(resource) = self.registry().get(name.as_str()) else { continue };
            let sum = |event| resource.at(now).long().sum(event);
            let blocked = sum(MetricEvent::Block);
            refused += blocked;
            all += blocked + sum(MetricEvent::Pass);
        }
        (all > 0).then(|| refused as f64 / all as f64)
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
