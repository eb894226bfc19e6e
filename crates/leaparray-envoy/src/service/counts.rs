//! The counts of limits: nodes of a registry, for exporters and the live page.

use std::sync::OnceLock;

use leaparray::flow::Reason;
use leaparray::{Clock, Entry, Outcome, Registry, Resource, Timestamp};

use super::request::Descriptor;
use super::tree::{Part, Rule};
use crate::config::entry_name;

/// The node of a limit, made when the limit is first used.
#[derive(Debug)]
pub(super) struct Counts<C>(OnceLock<Option<Resource<C>>>);

/// The outcome of the hits of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcomes {
    Admitted,
    Refused(Reason),
    /// Another descriptor refused the request: nothing was charged.
    Uncharged,
}

impl<C: Clock + Clone> Counts<C> {
    pub(super) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Counts the hits of a descriptor. A registry without room for a further name counts nothing.
    #[inline]
    pub(super) fn count<S>(
        &self,
        registry: &Registry<C>,
        rule: &Rule<S>,
        descriptor: &Descriptor,
        now: Timestamp,
        hits: u64,
        outcome: Outcomes,
    ) {
        if rule.has_values() {
            let name = rule.name_of(descriptor);
            if let Ok(node) = registry.resource(&name) {
                record(&node, now, hits, outcome);
            }
        } else if let Some(node) = self.0.get_or_init(|| registry.resource(&rule.path).ok()) {
            record(node, now, hits, outcome);
        }
    }
}

#[inline]
fn record<C: Clock + Clone>(node: &Resource<C>, now: Timestamp, hits: u64, outcome: Outcomes) {
    match outcome {
        Outcomes::Admitted => {
            Entry::enter_many_at(&**node, now, hits).end_at(now, Outcome::Success);
        }
        Outcomes::Refused(reason) => node.refuse_many_at(now, hits.max(1), reason),
        Outcomes::Uncharged => {}
    }
}

impl<S> Rule<S> {
    fn has_values(&self) -> bool {
        self.has_value_parts
    }

    /// Returns the name of the counts of a request: `domain.key_value.key`.
    fn name_of(&self, descriptor: &Descriptor) -> String {
        let parts = self.parts.iter().zip(&descriptor.entries);
        parts.fold(self.domain.to_string(), |name, (part, (key, value))| {
            name + "."
                + &match part {
                    Part::Fixed(text) => text.clone(),
                    Part::Value => entry_name(key, value),
                }
        })
    }
}
