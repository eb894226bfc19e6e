//! The refusals by reason that a cursor has yet to deliver, by series.

use std::collections::HashMap;

use crate::node::Refusals;
use crate::registry::ResourceId;
use crate::registry::delisted::Delisted;
use crate::registry::departed::{Registration, SeriesKey};
use crate::registry::listed::Listed;
use crate::sync::Name;
use crate::time::Clock;

/// The refusals of each series that a cursor has delivered. A refusal has no second, so a cursor
/// delivers what is new since its last visit that has delivered a second.
#[derive(Debug, Default)]
pub(crate) struct DeliveredRefusals {
    /// `None` before the first visit. From then on, the registry keeps the refusals of departed
    /// resources.
    registration: Option<Registration>,
    known: HashMap<SeriesKey, Known>,
    visits: u64,
}

/// The refusals of a series at the last visit.
#[derive(Debug)]
struct Known {
    incarnation: ResourceId,
    refusals: Refusals,
    /// The last visit that has found some.
    visit: u64,
}

/// The refusals of one visit.
pub(crate) struct NewRefusals<'a> {
    delivered: &'a mut DeliveredRefusals,
    /// The refusals of departed resources, and of those with holders, that are not visited yet.
    former: HashMap<SeriesKey, (ResourceId, Refusals)>,
    /// Whether this visit delivers: its first one, or one with a second.
    delivers: bool,
}

impl DeliveredRefusals {
    pub(crate) fn begin<C: Clock + Clone>(
        &mut self,
        delisted: &mut Delisted<C>,
        has_seconds: bool,
    ) -> NewRefusals<'_> {
        let is_first = self.registration.is_none();
        self.registration.get_or_insert_with(|| delisted.register_cursor());
        self.visits += 1;
        let mut former = HashMap::new();
        let departed = delisted.departed_refusals();
        for (key, incarnation, refusals) in departed.refusals() {
            former.insert(key, (incarnation, refusals));
        }
        for listed in delisted.with_holders() {
            for (context, node) in listed.named_nodes() {
                let refusals = node.refusals();
                if refusals.sum() > 0 {
                    let none = (departed.incarnation(listed), Refusals::default());
                    former.entry(listed.series_key(context)).or_insert(none).1 += &refusals;
                }
            }
        }
        NewRefusals { delivered: self, former, delivers: is_first || has_seconds }
    }
}

impl NewRefusals<'_> {
    /// Returns the new refusals of a listed node, whose own ones are `refusals`.
    pub(crate) fn of<C>(
        &mut self,
        listed: &Listed<C>,
        context: Option<&Name>,
        mut refusals: Refusals,
    ) -> Refusals {
        let mut incarnation = listed.id();
        let key = || listed.series_key(context);
        if !self.former.is_empty()
            && let Some((former, of_former)) = self.former.remove(&key())
        {
            incarnation = former;
            refusals += &of_former;
        }
        if refusals.sum() == 0 { refusals } else { self.deliver(key(), incarnation, refusals) }
    }

    /// Calls `visit` with the new refusals of each series that no listed node has.
    pub(crate) fn finish(mut self, mut visit: impl FnMut(&SeriesKey, Refusals)) {
        for (key, (incarnation, refusals)) in std::mem::take(&mut self.former) {
            let new = self.deliver(key.clone(), incarnation, refusals);
            if new.sum() > 0 {
                visit(&key, new);
            }
        }
        let DeliveredRefusals { known, visits, .. } = self.delivered;
        known.retain(|_, it| it.visit == *visits);
    }

    fn deliver(&mut self, key: SeriesKey, incarnation: ResourceId, refusals: Refusals) -> Refusals {
        let visit = self.delivered.visits;
        let none = Known { incarnation, refusals: Refusals::default(), visit };
        let known = self.delivered.known.entry(key).or_insert(none);
        known.visit = visit;
        if !self.delivers {
            return Refusals::default();
        }
        if known.incarnation != incarnation {
            // Its counts were forgotten, and have begun at 0.
            *known = Known { incarnation, refusals: Refusals::default(), visit };
        }
        let new = refusals.saturating_sub(&known.refusals);
        known.refusals = refusals;
        new
    }
}
