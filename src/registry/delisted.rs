//! Resources that are no longer listed: their totals, and their seconds that are not delivered yet.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use super::Registry;
use super::config::TrafficType;
use super::departed::{Departed, Keeps, Registration};
use super::listed::Listed;
use super::undelivered::Undelivered;
use crate::metric::MetricTotals;
use crate::node::oldest_second;
use crate::sync::{Arc, MutexGuard};
use crate::time::{Clock, Timestamp};

/// The locked [`Delisted`]. Its map of names stays pinned until the lock is released, so that the
/// resources that others have taken out of the map are not dropped under the lock.
//
// Fields are dropped in this order.
pub(crate) struct Locked<'a, C, P> {
    delisted: MutexGuard<'a, Delisted<C>>,
    _pin: P,
}

impl<C, P> Deref for Locked<'_, C, P> {
    type Target = Delisted<C>;

    fn deref(&self) -> &Delisted<C> {
        &self.delisted
    }
}

impl<C, P> DerefMut for Locked<'_, C, P> {
    fn deref_mut(&mut self) -> &mut Delisted<C> {
        &mut self.delisted
    }
}

/// The totals of resources that are gone: evicted or removed.
#[derive(Debug)]
pub(crate) struct Delisted<C> {
    inbound: MetricTotals,
    outbound: MetricTotals,
    /// The removed resources that may still have handles, by which threads may still record in
    /// them.
    with_holders: Vec<Arc<Listed<C>>>,
    /// The resources that are gone, and still in the map: see [`leave`](Self::leave).
    left: Vec<Arc<Listed<C>>>,
    undelivered: Undelivered,
    departed: Departed,
    departed_refusals: Departed,
}

impl<C> Delisted<C> {
    pub(crate) fn new() -> Self {
        Self {
            inbound: MetricTotals::default(),
            outbound: MetricTotals::default(),
            with_holders: Vec::new(),
            left: Vec::new(),
            undelivered: Undelivered::default(),
            departed: Departed::new(Keeps::Counts),
            departed_refusals: Departed::new(Keeps::Refusals),
        }
    }

    /// Adds a resource that was removed and may still have handles.
    pub(crate) fn keep(&mut self, listed: Arc<Listed<C>>) {
        self.departed.depart(&listed);
        self.departed_refusals.depart(&listed);
        self.with_holders.push(listed);
    }

    /// Adds a reader of the series.
    pub(crate) fn register_series(&mut self) -> Registration {
        let with_holders = self.with_holders.iter().map(|listed| &**listed);
        self.departed.register([&self.inbound, &self.outbound], with_holders)
    }

    /// Adds a cursor that delivers the refusals of the series.
    pub(crate) fn register_cursor(&mut self) -> Registration {
        let with_holders = self.with_holders.iter().map(|listed| &**listed);
        self.departed_refusals.register([&self.inbound, &self.outbound], with_holders)
    }

    /// Returns the counts of the reclaimed resources by series, while there is a reader.
    pub(crate) const fn departed(&self) -> &Departed {
        &self.departed
    }

    /// Returns the refusals of the reclaimed resources by series, while there is a cursor.
    pub(crate) const fn departed_refusals(&self) -> &Departed {
        &self.departed_refusals
    }

    pub(crate) const fn all_departed_mut(&mut self) -> [&mut Departed; 2] {
        [&mut self.departed, &mut self.departed_refusals]
    }

    pub(crate) fn with_holders(&self) -> impl ExactSizeIterator<Item = &Arc<Listed<C>>> {
        self.with_holders.iter()
    }

    /// Leaves a resource that is gone in the map, with its room, until another thread takes it out:
    /// the calling thread ends, and cannot.
    pub(crate) fn leave(&mut self, listed: Arc<Listed<C>>) {
        self.left.push(listed);
    }

    pub(crate) fn take_left(&mut self) -> Vec<Arc<Listed<C>>> {
        std::mem::take(&mut self.left)
    }

    /// Returns the seconds of the reclaimed resources that are not delivered yet.
    pub(crate) fn undelivered(&mut self) -> &mut Undelivered {
        &mut self.undelivered
    }

    /// Returns the totals of the reclaimed resources, which no longer have handles.
    pub(crate) const fn reclaimed(&self, traffic: TrafficType) -> &MetricTotals {
        match traffic {
            TrafficType::Inbound => &self.inbound,
            TrafficType::Outbound => &self.outbound,
        }
    }
}

impl<C: Clock + Clone> Delisted<C> {
    /// Adds the totals of a resource in which no thread can record from now on, and keeps its
    /// undelivered seconds.
    pub(crate) fn reclaim(&mut self, listed: &Listed<C>) {
        let total = match listed.traffic_type() {
            TrafficType::Inbound => &mut self.inbound,
            TrafficType::Outbound => &mut self.outbound,
        };
        *total += &listed.lifetime();
        self.undelivered.keep(listed);
        self.departed.reclaim(listed);
        self.departed_refusals.reclaim(listed);
    }

    /// Reclaims the removed resources that no longer have handles, and returns them. The caller
    /// drops them after it has released the lock: the drop of the data of a resource is code of the
    /// user, which may panic, and may call the registry.
    #[must_use]
    pub(crate) fn reclaim_released(&mut self) -> Vec<Arc<Listed<C>>> {
        let is_released = |listed: &mut Arc<Listed<C>>| {
            // Each time: a thread that looked the resource up during the removal may keep a handle.
            listed.release_kept();
            listed.holders().is_released()
        };
        let released: Vec<_> = self.with_holders.extract_if(.., is_released).collect();
        for listed in &released {
            self.reclaim(listed);
        }
        released
    }
}

impl<C: Clock + Clone> Registry<C> {
    /// Forgets the seconds that left the long window without a poll, if their number has doubled
    /// since the last call that did so.
    pub(crate) fn limit_undelivered(&self, delisted: &mut Delisted<C>, now: Timestamp) {
        if delisted.undelivered.has_doubled() {
            delisted.undelivered.forget_before(oldest_second(self.config().long(), now));
        }
    }
}

impl<C> Registry<C> {
    /// Locks the resources that are gone.
    pub(crate) fn delisted(&self) -> Locked<'_, C, impl Sized + use<'_, C>> {
        let pin = self.names.pin();
        // Under this lock, the only code of the user is the clone of a clock, in `reconfigure`, and
        // the function that a visit calls. A panic there leaves no invariant broken, so a poisoned
        // lock is used as it is.
        let delisted = self.delisted.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { delisted, _pin: pin }
    }
}
