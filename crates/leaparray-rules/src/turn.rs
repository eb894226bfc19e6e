//! The state that a change of the rules leaves for the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leaparray::Timestamp;

use crate::limiter::{RuleClock, Watched};
use crate::plan::Active;
use crate::rule::Rule;

/// The limiters that the registry watches, with their rules, by the names of these.
pub(crate) type WatchedRules<C> = HashMap<Arc<str>, (Watched<C>, Arc<Rule>)>;

/// The rules that are gone, and the former limiters of rules, by their names.
pub(crate) struct GoneRules<C: RuleClock>(HashMap<Arc<str>, Vec<(Active<C>, Timestamp)>>);

/// The state that a change leaves for the next one.
pub(crate) struct Turn<C: RuleClock> {
    /// The rules that the registry watches.
    pub(crate) watched: WatchedRules<C>,
    pub(crate) gone: GoneRules<C>,
}

impl<C: RuleClock> GoneRules<C> {
    /// The time for which a limiter that is gone can come back with its state.
    const KEEP: Duration = Duration::from_secs(3_600);

    /// The most limiters of a name that can come back.
    const OF_A_NAME: usize = 32;

    /// The most limiters of all names that can come back.
    const IN_ALL: usize = 16_384;

    /// Forgets what is gone for too long to come back.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, limiters| {
            limiters.retain(|(_, since)| now.saturating_since(*since) < Self::KEEP);
            !limiters.is_empty()
        });
    }

    /// Returns the former limiter that a rule takes up again, if there is one.
    pub(crate) fn of(&self, rule: &Rule) -> Option<&Active<C>> {
        let mut limiters = self.0.get(&rule.name)?.iter().map(|(it, _)| it);
        limiters.find(|it| it.rule.becomes(rule).is_some())
    }

    /// Removes the limiter of a rule that is in force again.
    pub(crate) fn take_up(&mut self, rule: &Active<C>) {
        if let Some(limiters) = self.0.get_mut(&rule.rule.name) {
            limiters.retain(|(it, _)| !Arc::ptr_eq(&it.limiter, &rule.limiter));
        }
    }

    /// Adds the rules that are gone since `now`, or whose limiter was replaced then.
    pub(crate) fn add(&mut self, rules: impl IntoIterator<Item = Active<C>>, now: Timestamp) {
        for rule in rules {
            let limiters = self.0.entry(Arc::clone(&rule.rule.name)).or_default();
            if limiters.len() == Self::OF_A_NAME {
                limiters.remove(0);
            }
            limiters.push((rule, now));
        }
        self.bound();
    }

    /// Forgets the limiters beyond the most of all names that are gone for the longest time: a
    /// program that invents names makes them grow no further.
    fn bound(&mut self) {
        let all = self.0.values().map(Vec::len).sum::<usize>();
        let Some(last) = all.checked_sub(Self::IN_ALL + 1) else { return };
        let mut times: Vec<_> = self.0.values().flatten().map(|(_, since)| *since).collect();
        let (earlier, &mut until, _) = times.select_nth_unstable(last);
        let mut of_that_time = last + 1 - earlier.iter().filter(|it| **it < until).count();
        self.0.retain(|_, limiters| {
            limiters.retain(|(_, since)| {
                let is_among = *since == until && of_that_time > 0;
                of_that_time -= usize::from(is_among);
                *since >= until && !is_among
            });
            !limiters.is_empty()
        });
    }
}

impl<C: RuleClock> Default for Turn<C> {
    fn default() -> Self {
        Self { watched: HashMap::new(), gone: GoneRules(HashMap::new()) }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
