//! The refusals of a node by the name of the limiter.

use std::borrow::Cow;
use std::ops::AddAssign;

use super::lane_counters::LaneCounters;
use crate::collections::NameId;
use crate::sync::{AtomicU32, Ordering, RacyOnce};

/// The refused permits of a node by the name of the limiter that refused, since the node was made:
/// plain data.
///
/// A limiter has a name if it was [named](crate::flow::LimiterExt::named). Refusals of limiters
/// without one are not among these. A node counts by the first 16 names that refuse its requests;
/// the refusals of all further ones are those of [`OTHER`](Self::OTHER). So a monitor has at most
/// 17 series for each node, whatever names there are. The counts saturate.
///
/// ```
/// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
/// use leaparray::{NodeConfig, ResourceNode};
///
/// let node = ResourceNode::new(NodeConfig::default());
/// let orders = TokenBucket::new(Rate::per_minute(1)?, 0).named("orders");
/// assert!(orders.try_enter(&node).is_err());
/// let refused = node.refused_by();
/// assert_eq!((refused.get("orders"), refused.get("clients")), (1, 0));
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
// As a list in both directions: some formats write a structure around a list, and then read it only
// into a structure.
#[cfg_attr(
    feature = "serde",
    serde(from = "Vec<(Cow<'static, str>, u64)>", into = "Vec<(Cow<'static, str>, u64)>")
)]
pub struct RefusedBy(
    /// In the order of their names, each once.
    Vec<(Cow<'static, str>, u64)>,
);

impl RefusedBy {
    /// The name under which a node counts the refusals of limiters for whose names it has no room.
    pub const OTHER: &'static str = "(other)";

    /// Returns the names that have refused, in their order, with the counts.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, Rate, TokenBucket};
    /// use leaparray::{NodeConfig, ResourceNode};
    ///
    /// let node = ResourceNode::new(NodeConfig::default());
    /// for name in ["orders", "clients", "orders"] {
    ///     let limiter = TokenBucket::new(Rate::per_minute(1)?, 0).named(name);
    ///     assert!(limiter.try_enter(&node).is_err());
    /// }
    /// assert!(node.refused_by().iter().eq([("clients", 1), ("orders", 2)]));
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (&**name, *count))
    }

    /// Returns the refused permits of limiters with that name.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.place(name).map_or(0, |place| self.0[place].1)
    }

    /// Returns whether no limiter with a name has refused.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(it, _)| (**it).cmp(name))
    }

    fn add(&mut self, name: Cow<'static, str>, count: u64) {
        match self.place(&name) {
            Ok(place) => self.0[place].1 = self.0[place].1.saturating_add(count),
            Err(place) => self.0.insert(place, (name, count)),
        }
    }
}

impl AddAssign<&Self> for RefusedBy {
    /// Adds the counts of another node. They saturate.
    fn add_assign(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            self.add(name.clone(), *count);
        }
    }
}

impl From<RefusedBy> for Vec<(Cow<'static, str>, u64)> {
    /// In the order of the names.
    fn from(refused: RefusedBy) -> Self {
        refused.0
    }
}

impl From<Vec<(Cow<'static, str>, u64)>> for RefusedBy {
    /// In any order. The counts of a name that occurs twice are added.
    fn from(counts: Vec<(Cow<'static, str>, u64)>) -> Self {
        let mut refused = Self::default();
        for (name, count) in counts {
            refused.add(name, count);
        }
        refused
    }
}

/// The counters of refusals by the name of the limiter. They are made by the first refusal with a
/// name.
#[derive(Debug)]
pub(crate) struct LimiterCounters(RacyOnce<Places>);

/// The names by which a node counts.
const MAX_NAMES: usize = 16;

#[derive(Debug)]
struct Places {
    /// The number of the name of each counter; 0 if it has none yet. A name is set once.
    names: [AtomicU32; MAX_NAMES],
    /// The counter of each name, and that of all others.
    counts: LaneCounters<{ MAX_NAMES + 1 }>,
}

impl LimiterCounters {
    pub(crate) fn new() -> Self {
        Self(RacyOnce::new())
    }

    #[cold]
    pub(crate) fn add(&self, name: NameId, permits: u64) {
        let places = self.0.get_or_init(|| Places {
            names: std::array::from_fn(|_| AtomicU32::new(0)),
            counts: LaneCounters::new(),
        });
        places.counts.add(places.of(name), permits);
    }

    pub(crate) fn get(&self) -> RefusedBy {
        let mut refused = RefusedBy::default();
        let Some(Places { names, counts }) = self.0.get() else { return refused };
        for (place, count) in counts.sums().into_iter().enumerate().filter(|(_, count)| *count > 0)
        {
            // Relaxed: the name of a counter is set before the counter, and both orders are right
            // for a reader beside it: a count without its name is found by the next reading.
            let number = names.get(place).map(|name| name.load(Ordering::Relaxed));
            let name = match number.map(NameId::of_number) {
                Some(Some(name)) => name.name(),
                Some(None) => continue,
                None => RefusedBy::OTHER,
            };
            refused.add(Cow::Borrowed(name), count);
        }
        refused
    }
}

impl Places {
    /// Returns the counter of a name. The first free one becomes its own.
    fn of(&self, name: NameId) -> usize {
        let is_its_own = |place: &AtomicU32| {
            // Relaxed, as all accesses: each place is set once, by a read-modify-write, and names
            // are set in the order of the places. The counter is not read through it.
            let set = match place.load(Ordering::Relaxed) {
                0 => place.compare_exchange(0, name.number(), Ordering::Relaxed, Ordering::Relaxed),
                set => Err(set),
            };
            set.map_or_else(|set| set == name.number(), |_| true)
        };
        self.names.iter().position(is_its_own).unwrap_or(MAX_NAMES)
    }
}
