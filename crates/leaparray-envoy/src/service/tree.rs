//! The tree of descriptors, in the form in which it is searched.
//!
//! The search is that of `GetLimit` in `src/config/config_impl.go` of `envoyproxy/ratelimit`. At
//! each level, the descriptor with the key and the value of the entry comes first, then the first
//! one of the file whose value ends with `*` and is a prefix, then the one without a value. The
//! choice is final: there is no way back from a level without a match. A limit concerns a request
//! only if its descriptor is reached by the last entry.
//!
//! Two differences: keys and values are compared apart, where the reference server compares
//! `key_value`, so that key `a_b` is not key `a` with value `b`. And a `*` stands for a text in a
//! value only, where there a key `a*` without a value matches all keys that begin with `a`.

use std::collections::HashMap;
use std::sync::Arc;

use super::decision::RuleId;
use super::key::Key;
use super::texts::Texts;
use crate::config::{Config, DescriptorConfig, Metadata, Unit, entry_name};

/// All domains.
#[derive(Debug)]
pub(super) struct Tree<S> {
    domains: Texts<Level<S>>,
    rules: HashMap<RuleId, Arc<Rule<S>>>,
}

/// The descriptors of one level.
#[derive(Debug)]
pub(super) struct Level<S> {
    keys: Texts<Values<S>>,
}

/// The descriptors of one key.
#[derive(Debug)]
struct Values<S> {
    exact: Texts<Branch<S>>,
    /// The texts before the `*`, in the order of the file.
    prefixes: Vec<(Box<str>, Branch<S>)>,
    /// For all other values.
    any: Option<Branch<S>>,
}

/// A descriptor.
#[derive(Debug)]
struct Branch<S> {
    /// Whether each value has a state of its own.
    is_keyed: bool,
    rule: Option<Arc<Rule<S>>>,
    next: Option<Level<S>>,
}

/// A limit of the configuration: what is known of it, and its state.
#[derive(Debug)]
pub(super) struct Rule<S> {
    pub(super) id: RuleId,
    pub(super) name: Option<Arc<str>>,
    pub(super) replaces: Box<[String]>,
    /// `None` if it is unlimited.
    pub(super) requests: Option<(u32, Unit)>,
    pub(super) requests_per_quota: Option<u32>,
    pub(super) is_shadow: bool,
    pub(super) is_quota: bool,
    pub(super) metadata: Option<Metadata>,
    /// `domain.key_value.key`, as the reference server names its counts.
    pub(super) path: String,
    /// The parts of the name of the counts, one for each entry.
    pub(super) parts: Box<[Part]>,
    /// Whether a part is a value of the request.
    pub(super) has_value_parts: bool,
    pub(super) domain: Arc<str>,
    /// The keys and values down to the limit.
    #[cfg(feature = "redis")]
    pub(super) entries: Vec<(String, String)>,
    /// Shared by the rules of one identity in several configurations.
    pub(super) state: S,
}

/// A part of the name of the counts of a limit.
#[derive(Debug)]
pub(super) enum Part {
    /// As in the configuration.
    Fixed(String),
    /// The key, and the value of the request: with `value_to_metric`, and for each entry with
    /// `detailed_metric` of the last one. A shared limit has one part for all values.
    Value,
}

/// The key of a state, by which it is found after a change of the configuration: the domain, the
/// keys and values down to the limit, and the unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) domain: Arc<str>,
    pub(super) entries: Vec<(String, String)>,
    pub(super) unit: Option<Unit>,
    /// Whether each value has a state of its own.
    pub(super) is_keyed: bool,
}

impl<S: Clone> Tree<S> {
    /// Creates the tree. `state` returns the identity and the state of a limit.
    pub(super) fn new(config: &Config, mut state: impl FnMut(Identity) -> (RuleId, S)) -> Self {
        let mut rules = HashMap::new();
        let mut domains = Texts::new();
        for domain in config.domains() {
            let mut builder = Builder {
                domain: &domain.name,
                entries: Vec::new(),
                kinds: Vec::new(),
                state: &mut state,
                rules: &mut rules,
            };
            let level = builder.level(&domain.descriptors);
            // A configuration names each domain once.
            domains.get_or_insert(&domain.name, || level);
        }
        Self { domains, rules }
    }

    pub(super) fn domain(&self, name: &str) -> Option<&Level<S>> {
        self.domains.get(name)
    }

    pub(super) fn rule(&self, id: RuleId) -> Option<&Arc<Rule<S>>> {
        self.rules.get(&id)
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &Arc<Rule<S>>> {
        self.rules.values()
    }
}

impl<S> Level<S> {
    /// Returns the limit that concerns the entries, and writes the values that have a state of
    /// their own to `key`.
    #[inline]
    pub(super) fn find<'t>(
        &'t self,
        entries: &[(String, String)],
        key: &mut Key,
    ) -> Option<&'t Arc<Rule<S>>> {
        let mut level = self;
        let mut entries = entries.iter();
        loop {
            let (name, value) = entries.next()?;
            let branch = level.keys.get(name.as_str())?.find(value)?;
            if branch.is_keyed {
                key.push(value);
            }
            if entries.len() == 0 {
                return branch.rule.as_ref();
            }
            level = branch.next.as_ref()?;
        }
    }
}

impl<S> Values<S> {
    #[inline]
    fn find(&self, value: &str) -> Option<&Branch<S>> {
        if let Some(branch) = self.exact.get(value) {
            return Some(branch);
        }
        let prefix = self.prefixes.iter().find(|(prefix, _)| value.starts_with(&**prefix));
        prefix.map(|(_, branch)| branch).or(self.any.as_ref())
    }
}

struct Builder<'a, S, F> {
    domain: &'a Arc<str>,
    entries: Vec<(String, String)>,
    /// For each entry, whether each value has a state of its own, and counts of its own.
    kinds: Vec<(bool, bool)>,
    state: F,
    rules: &'a mut HashMap<RuleId, Arc<Rule<S>>>,
}

impl<S: Clone, F: FnMut(Identity) -> (RuleId, S)> Builder<'_, S, F> {
    fn level(&mut self, descriptors: &[DescriptorConfig]) -> Level<S> {
        let mut keys: Texts<Values<S>> = Texts::new();
        for descriptor in descriptors {
            let branch = self.branch(descriptor);
            let values = keys.get_or_insert(&descriptor.key, || Values {
                exact: Texts::new(),
                prefixes: Vec::new(),
                any: None,
            });
            match (descriptor.value.as_str(), descriptor.value.strip_suffix('*')) {
                ("", _) => values.any = Some(branch),
                (_, Some(prefix)) => values.prefixes.push((prefix.into(), branch)),
                (value, None) => drop(values.exact.get_or_insert(value, || branch)),
            }
        }
        Level { keys }
    }

    fn branch(&mut self, descriptor: &DescriptorConfig) -> Branch<S> {
        let is_open = descriptor.value.is_empty() || descriptor.value.ends_with('*');
        let is_keyed = is_open && !descriptor.share_threshold;
        self.kinds.push((is_keyed, descriptor.value_to_metric));
        self.entries.push((descriptor.key.clone(), descriptor.value.clone()));
        let rule = descriptor.rate_limit.as_ref().map(|limit| {
            let (id, state) = (self.state)(Identity {
                domain: Arc::clone(self.domain),
                entries: self.entries.clone(),
                unit: limit.requests.map(|(_, unit)| unit),
                is_keyed: self.kinds.iter().any(|(is_keyed, _)| *is_keyed),
            });
            let parts = self.entries.iter().zip(&self.kinds);
            let parts = parts.map(|((key, value), &(is_keyed, is_counted))| {
                if is_keyed && (is_counted || descriptor.detailed_metric) {
                    Part::Value
                } else {
                    Part::Fixed(entry_name(key, value))
                }
            });
            let path = self.entries.iter().fold(self.domain.to_string(), |path, (key, value)| {
                path + "." + &entry_name(key, value)
            });
            let parts: Box<[Part]> = parts.collect();
            let rule = Arc::new(Rule {
                id,
                name: (!limit.name.is_empty()).then(|| Arc::from(limit.name.as_str())),
                replaces: limit.replaces.iter().cloned().collect(),
                requests: limit.requests,
                requests_per_quota: limit.requests_per_quota,
                is_shadow: descriptor.shadow_mode,
                is_quota: descriptor.quota_mode,
                metadata: descriptor.metadata.clone(),
                path,
                has_value_parts: parts.iter().any(|part| matches!(part, Part::Value)),
                parts,
                domain: Arc::clone(self.domain),
                #[cfg(feature = "redis")]
                entries: self.entries.clone(),
                state,
            });
            self.rules.insert(id, Arc::clone(&rule));
            rule
        });
        let next =
            (!descriptor.descriptors.is_empty()).then(|| self.level(&descriptor.descriptors));
        self.entries.pop();
        self.kinds.pop();
        Branch { is_keyed, rule, next }
    }
}
