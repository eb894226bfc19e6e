//! Which rules concern a resource.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use leaparray::flow::shadow::Mode;
use leaparray::{Resource, TrafficType};

use super::numbers::Numbers;
use super::word::{Place, Words};
use crate::caller::KeyValues;
use crate::pattern::{self, Literals};
use crate::rule::{KeySource, Rule};

/// The data of a caller that a rule asks for.
#[derive(Debug)]
struct Asks {
    key: Option<KeySource>,
    /// The source of the class of a request, or of its tenant.
    part: Option<KeySource>,
    /// The sources of the keys on which it has conditions.
    conditions: Box<[KeySource]>,
    /// The list of the resources that have the rule alone, without conditions, if it asks for a
    /// key. Set before such a resource gets its place; [`NO_LIST`](Self::NO_LIST) until then.
    list: AtomicU32,
}

/// Finds the rules of a resource by its name and its direction, once for each resource: the
/// resource keeps its place in a word.
#[derive(Debug)]
pub(crate) struct Index {
    words: Words,
    buckets: Numbers,
    /// By the places of the rules.
    asks: Box<[Asks]>,
    inbound: Side,
    outbound: Side,
    /// The lists of rules that resources have found, but those of one rule without a key. Each is
    /// listed once.
    lists: boxcar::Vec<RuleList>,
    places: Mutex<HashMap<RuleList, usize>>,
}

/// A rule, and the texts of its pattern after the first wildcard.
type Tail = (usize, Box<[Box<str>]>);

/// The rules of one direction.
#[derive(Debug)]
struct Side {
    by_name: HashMap<Box<str>, Vec<usize>>,
    /// The patterns by the text before their first wildcard, with the texts after it. A regular
    /// expression of 10,000 patterns takes half a second to make, and 10 ms for a name.
    by_prefix: HashMap<Box<str>, Vec<Tail>>,
    /// The lengths of these texts in bytes.
    prefix_lengths: BTreeSet<usize>,
}

/// The rules that concern a resource, in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuleList {
    pub(crate) members: Box<[Member]>,
    /// The sources of the keys of the members, each once.
    pub(crate) sources: Box<[KeySource]>,
    /// The places of the sources on which members have conditions.
    conditions: Box<[usize]>,
    /// Whether no member has a condition, at most the last one asks for a key, and a caller has
    /// that.
    pub(crate) is_keyed_last: bool,
}

/// A rule of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    /// The place of the rule in the plan.
    pub(crate) rule: usize,
    /// The place of the source of its key; `None` if it has no key.
    pub(crate) key: Option<usize>,
    /// The place of the source of the request's class or tenant; `None` if it asks for none.
    pub(crate) part: Option<usize>,
    /// The first and the last place among the conditions of the list.
    conditions: (usize, usize),
}

impl Index {
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule> + Clone, buckets: Numbers) -> Self {
        /// From 1, so that no index has the number of a resource that has found nothing. With 40
        /// bits, they suffice for 34 years of 1,000 changes a second.
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            words: Words::of_index(IDS.fetch_add(1, Ordering::Relaxed)),
            buckets,
            asks: rules.clone().map(Asks::of).collect(),
            inbound: Side::new(TrafficType::Inbound, rules.clone()),
            outbound: Side::new(TrafficType::Outbound, rules),
            lists: boxcar::Vec::new(),
            places: Mutex::default(),
        }
    }

    /// Returns the words in which resources keep their places.
    pub(crate) const fn words(&self) -> Words {
        self.words
    }

    pub(crate) const fn buckets(&self) -> &Numbers {
        &self.buckets
    }

    /// Returns the place in the word of a resource, if it is of this index.
    #[inline]
    pub(crate) fn place(&self, word: u64) -> Option<Place> {
        let place = word ^ self.words.list;
        if place & !Place::ALONE >= Words::PLACES {
            return None;
        }
        if place & Place::ALONE == 0 || place & Words::BUCKET == 0 {
            return Some(Place(place));
        }
        Some(Place::alone(self.buckets.rule(self.words.bucket(word))?))
    }

    /// Returns the word of a place, if it has one.
    fn word(&self, place: Place) -> Option<u64> {
        match place.rule_or_list() {
            Ok(rule) => match self.buckets.of_rule(rule) {
                Some(number) => Some(self.words.bucket | number),
                None => (rule < Words::RULES).then_some(self.words.alone | rule as u64),
            },
            Err(list) => ((list as u64) < Words::PLACES).then_some(self.words.list | list as u64),
        }
    }

    /// Returns the list with that place, if it is one.
    #[inline]
    pub(crate) fn get_list(&self, place: u64) -> Option<&RuleList> {
        if place < Words::PLACES { self.lists.get(usize::try_from(place).ok()?) } else { None }
    }

    /// Returns the list with that place.
    #[inline]
    pub(crate) fn list(&self, place: usize) -> &RuleList {
        &self.lists[place]
    }

    /// Returns the place of the only rule of a resource if the rule asks for no key, or else the
    /// place of the list of its rules.
    #[inline]
    pub(crate) fn rule_or_list(&self, place: Place) -> Result<usize, usize> {
        let rule = place.rule_or_list()?;
        // Relaxed: it was set before the place, which this thread has made, or has acquired with
        // the word of the resource.
        match self.asks[rule].list.load(Ordering::Relaxed) {
            Asks::NO_LIST => Ok(rule),
            list => Err(list as usize),
        }
    }

    /// Returns the rules at a place, in the order in which they are asked.
    pub(crate) fn members(&self, place: Place) -> impl Iterator<Item = Member> {
        let (alone, list) = match self.rule_or_list(place) {
            Ok(rule) => (Some(Member { rule, key: None, part: None, conditions: (0, 0) }), &[][..]),
            Err(list) => (None, &*self.list(list).members),
        };
        alone.into_iter().chain(list.iter().copied())
    }

    /// Returns the place of the rules of a resource.
    #[inline]
    pub(crate) fn place_of<C>(&self, resource: &Resource<C>) -> Place {
        let found = self.place(resource.rule_place());
        found.unwrap_or_else(|| self.find_for(resource))
    }

    #[cold]
    fn find_for<C>(&self, resource: &Resource<C>) -> Place {
        // Another handle may have it.
        let shared = resource.shared_rule_place();
        if let Some(place) = self.place(shared) {
            resource.set_rule_place(shared);
            return place;
        }
        let list = self.find(resource.traffic_type(), resource.name());
        let place = match *list.members {
            [Member { rule, key, part, .. }] if !list.has_conditions() => {
                if key.or(part).is_some() {
                    let list = u32::try_from(self.place_of_list(list)).expect("memory ends before");
                    // Relaxed: the Release of `set_rule_place` follows. Threads that find the rule
                    // at once store the same place.
                    self.asks[rule].list.store(list, Ordering::Relaxed);
                }
                Place::alone(rule)
            }
            _ => Place::of_list(self.place_of_list(list)),
        };
        if let Some(word) = self.word(place) {
            // A thread with an older index may replace the word of a newer one, which is then found
            // again.
            resource.set_rule_place(word);
        }
        place
    }

    fn place_of_list(&self, list: RuleList) -> usize {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let known = places.get(&list).copied();
        let place = known.unwrap_or_else(|| self.lists.push(list.clone()));
        places.insert(list, place);
        place
    }

    /// Finds the rules of a resource.
    pub(crate) fn find(&self, traffic: TrafficType, name: &str) -> RuleList {
        let is_outbound = traffic == TrafficType::Outbound;
        let side = if is_outbound { &self.outbound } else { &self.inbound };
        let mut rules = side.find(name);
        rules.sort_unstable();
        rules.dedup();
        // A permit of a key cannot be given back, so keys are asked last.
        rules.sort_by_key(|rule| self.asks[*rule].key.is_some());
        let (mut sources, mut conditions) = (Vec::new(), Vec::new());
        let members: Box<[Member]> = rules
            .into_iter()
            .map(|rule| {
                let asks = &self.asks[rule];
                let mut place_of = |source: &KeySource| {
                    let place = sources.iter().position(|it| it == source);
                    place.unwrap_or_else(|| {
                        sources.push(source.clone());
                        sources.len() - 1
                    })
                };
                let [key, part] = [&asks.key, &asks.part].map(|it| it.as_ref().map(&mut place_of));
                let first = conditions.len();
                conditions.extend(asks.conditions.iter().map(place_of));
                Member { rule, key, part, conditions: (first, conditions.len()) }
            })
            .collect();
        RuleList::new(members, sources.into(), conditions.into())
    }
}

impl RuleList {
    fn new(members: Box<[Member]>, sources: Box<[KeySource]>, conditions: Box<[usize]>) -> Self {
        let is_keyed_last = match (&*members, &*sources, &*conditions) {
            (_, [], []) => true,
            ([.., Member { key: None, .. }, Member { key: Some(_), .. }], [source], []) => {
                !source.is_of_handle()
            }
            _ => false,
        };
        Self { members, sources, conditions, is_keyed_last }
    }

    /// Returns whether a member has a condition.
    #[inline]
    pub(crate) fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns whether the conditions of a member, which is that rule, hold for a request with
    /// these values.
    pub(crate) fn holds<K: Deref<Target = str>>(
        &self,
        member: Member,
        rule: &Rule,
        values: &[KeyValues<K>],
    ) -> bool {
        let (first, last) = member.conditions;
        let mut conditions = rule.conditions().zip(&self.conditions[first..last]);
        conditions.all(|((condition, is_wanted), place)| {
            let values = values[*place].all();
            // Of several values, none evades a rule: any makes it concern the request, and only
            // all of them make an exception.
            if is_wanted { condition.matches_any(values) } else { !condition.matches_all(values) }
        })
    }
}

impl Asks {
    const NO_LIST: u32 = u32::MAX;

    fn of(rule: &Rule) -> Self {
        let conditions = rule.conditions().map(|(it, _)| it.source.clone()).collect();
        let (key, part) = (rule.key.clone(), rule.part_source().cloned());
        Self { key, part, conditions, list: AtomicU32::new(Self::NO_LIST) }
    }
}

/// Returns whether an index does not change when one rule becomes the other: a change of numbers
/// alone keeps it, and what resources have found in it.
pub(super) fn is_same(rule: &Rule, next: &Rule) -> bool {
    let sources = |it: &Rule| it.conditions().map(|(it, _)| it.source.clone()).collect::<Vec<_>>();
    rule.traffic == next.traffic
        && rule.resources == next.resources
        && rule.key == next.key
        && rule.part_source() == next.part_source()
        && sources(rule) == sources(next)
        && (rule.mode == Mode::Off) == (next.mode == Mode::Off)
}

impl Side {
    fn new<'a>(traffic: TrafficType, rules: impl Iterator<Item = &'a Rule>) -> Self {
        let (mut by_name, mut by_prefix) =
            (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        let places = rules.enumerate();
        let has = |it: &Rule| it.traffic.has(traffic) && it.mode != Mode::Off;
        for (place, rule) in places.filter(|(_, it)| has(it)) {
            for pattern in &rule.resources {
                let Literals { first, others } = pattern.literals();
                if others.is_empty() {
                    // Most names have one rule.
                    by_name.entry(first).or_insert_with(|| Vec::with_capacity(1)).push(place);
                } else {
                    by_prefix.entry(first).or_default().push((place, others));
                }
            }
        }
        let prefix_lengths = by_prefix.keys().map(|it| it.len()).collect();
        Self { by_name, by_prefix, prefix_lengths }
    }

    fn find(&self, name: &str) -> Vec<usize> {
        let mut rules = Vec::new();
        for name in pattern::names(name) {
            rules.extend(self.by_name.get(&*name).into_iter().flatten());
            let prefixes =
                self.prefix_lengths.iter().filter_map(|length| name.split_at_checked(*length));
            for (prefix, rest) in prefixes {
                let patterns = self.by_prefix.get(prefix).into_iter().flatten();
                let matching = patterns.filter(|(_, others)| pattern::match_rest(others, rest));
                rules.extend(matching.map(|(place, _)| *place));
            }
        }
        rules
    }
}
