//! A handle to a resource of a registry.

use std::fmt;
use std::ops::Deref;

use super::config::TrafficType;
use super::context::KeptContext;
use super::error::RegistryError;
use super::handle::Handle;
use super::id::ResourceId;
use super::listed::Listed;
use crate::collections::TypeMap;
use crate::node::{NodeSnapshot, ResourceNode};
use crate::sync::{Arc, AtomicCell, Ordering};
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A handle to a resource of a [`Registry`](crate::Registry). Dereferences to the [`ResourceNode`]
/// of the resource or, for a handle [to a context](Self::in_context), of the context.
///
/// A handle can be cloned, kept, and sent to other threads. While a handle exists, the resource is
/// not [evicted](crate::Registry::evict_idle_at). It may be [removed](crate::Registry::remove);
/// [`is_removed`](Self::is_removed) returns whether it was.
///
/// Limiters, breakers and other values [live with the resource](Self::data_or_insert_with), so they
/// need no second map.
///
/// ```
/// use leaparray::{Entry, Registry, Resource};
///
/// // The entry borrows neither the registry nor the handle, so its request can move from
/// // thread to thread.
/// fn begin(orders: &Resource) -> Entry<Resource> {
///     Entry::enter(orders.clone())
/// }
///
/// let registry = Registry::new();
/// let orders = registry.resource("GET /orders")?;
/// let entry = begin(&orders);
/// assert_eq!((orders.name(), orders.concurrency()), ("GET /orders", 1));
/// std::thread::spawn(move || entry.success()).join().unwrap();
/// assert_eq!(orders.concurrency(), 0);
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
pub struct Resource<C = MonotonicClock> {
    handle: Arc<Handle<C>>,
    /// A copy of the holder's word: a decision whose caller has the handle at hand reads no further
    /// cache line for it. It may be older than the word of the holder.
    //
    // Not an `AtomicU64`: a struct with one is passed through memory, and a request took 12 ns
    // longer. The representation of an `AtomicCell` is transparent, so a handle is passed in two
    // registers.
    rule_place: AtomicCell<u64>,
}

impl<C> Resource<C> {
    /// Returns the identity of the resource, or of the context if the handle is to a context.
    ///
    /// If a resource is evicted or removed, and its name is listed again, the new resource has
    /// another identity. An exporter that keeps the last counts by identity can tell that the new
    /// resource counts from 0.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// assert_eq!(registry.resource("GET /orders")?.id(), orders.id());
    /// assert_ne!(orders.in_context("web")?.id(), orders.id());
    /// registry.remove("GET /orders");
    /// assert_ne!(registry.resource("GET /orders")?.id(), orders.id());
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> ResourceId {
        self.kept_context().map_or_else(|| self.listed().id(), |context| context.id())
    }

    #[inline]
    pub(super) fn of(handle: Arc<Handle<C>>) -> Self {
        // Acquire: pairs with the Release in `set_rule_place`. A thread that the new handle is sent
        // to has what the thread that set the word has written before.
        //
        // The word of the holder, also for a clone: it is the newer one if another handle was asked
        // since, and a request reads that cache line for the node.
        let rule_place = AtomicCell::new(handle.rule_place().load(Ordering::Acquire));
        Self { handle, rule_place }
    }

    /// Creates a handle to a resource that was found, unless the resource is gone.
    #[inline]
    pub(super) fn find(listed: &Arc<Listed<C>>) -> Option<Self> {
        Handle::find(listed).map(Self::of)
    }

    /// Creates a handle for a visit of many resources, unless the resource is gone.
    pub(super) fn visit(listed: &Arc<Listed<C>>) -> Option<Self> {
        Handle::take(listed).map(|handle| Self::of(Arc::new(handle)))
    }

    #[cfg(not(loom))]
    pub(super) const fn handle(&self) -> &Arc<Handle<C>> {
        &self.handle
    }

    #[inline]
    pub(super) fn listed(&self) -> &Arc<Listed<C>> {
        self.handle.listed()
    }

    pub(super) fn kept_context(&self) -> Option<&KeptContext<C>> {
        self.handle.context()
    }

    /// Returns the data of the resource, or of the context of this handle.
    pub(super) fn type_map(&self) -> &TypeMap {
        match self.kept_context() {
            None => self.listed().data(),
            Some(context) => context.data(),
        }
    }

    /// Returns the name of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        self.listed().name()
    }

    /// Returns the name of the context, if the handle is to a context.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.kept_context().map(|context| context.name().as_ref())
    }

    /// Returns the direction with which the resource was created.
    #[must_use]
    pub fn traffic_type(&self) -> TrafficType {
        self.listed().traffic_type()
    }

    /// Returns the word that [`set_rule_place`](Self::set_rule_place) has set last through this
    /// handle, or through a clone of it before this one was made; 0 at first. `leaparray-rules`
    /// keeps the place of the resource's rules there: [data](Self::data) takes about 50
    /// instructions to find.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn rule_place(&self) -> u64 {
        // A load of an `AtomicCell` acquires. It pairs with the store in `set_rule_place`, which
        // releases, or with what has passed this handle to the thread.
        self.rule_place.load()
    }

    /// Returns the word that was set last through any handle to the resource or its contexts.
    #[doc(hidden)]
    #[must_use]
    pub fn shared_rule_place(&self) -> u64 {
        // Acquire: pairs with the Release in `set_rule_place`.
        self.listed().rule_place().load(Ordering::Acquire)
    }

    /// Sets the word of this handle and of the resource. A thread that reads it has what this one
    /// has written before.
    #[doc(hidden)]
    pub fn set_rule_place(&self, place: u64) {
        // Release: pairs with the Acquire in `rule_place` and in `shared_rule_place`.
        self.listed().rule_place().store(place, Ordering::Release);
        self.handle.rule_place().store(place, Ordering::Release);
        self.rule_place.store(place);
    }

    /// Returns whether the resource was [removed](crate::Registry::remove). From then on, records
    /// in it are in the [lifetime totals](crate::Registry::lifetime) of the registry, among the
    /// [seconds](crate::registry::RegistryReading::poll_seconds) that it delivers, and in no other
    /// reading of the registry.
    #[must_use]
    #[inline]
    pub fn is_removed(&self) -> bool {
        self.listed().holders().is_gone()
    }

    /// Returns a handle to the resource itself, without a context: to the node and the
    /// [data](Self::data_or_insert_with) of the resource. Also works if the resource was removed.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// let web = registry.resource("orders")?.in_context("web")?;
    /// let orders = web.without_context();
    /// assert_eq!((orders.name(), orders.context()), ("orders", None));
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn without_context(&self) -> Self {
        Self::of(self.handle.in_context(None))
    }

    /// Returns handles to the contexts of this resource, the oldest first.
    pub fn contexts(&self) -> impl Iterator<Item = Self> {
        let contexts = self.listed().contexts();
        contexts.map(|context| Self::of(Arc::new(self.handle.another(Some(context)))))
    }

    /// Returns the node of this resource without a context, and then those of its contexts, the
    /// oldest first. Unlike [`contexts`](Self::contexts), this creates no handles, which write a
    /// count that all threads share.
    ///
    /// ```
    /// use leaparray::{Registry, ResourceNode};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("orders")?;
    /// let web = orders.in_context("web")?;
    /// let _in_flight = [orders.enter(), web.enter(), web.enter()];
    /// let in_flight: Vec<_> = orders.nodes().map(ResourceNode::concurrency).collect();
    /// assert_eq!(in_flight, [1, 2]);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn nodes(&self) -> impl Iterator<Item = &ResourceNode<C>> {
        self.listed().nodes()
    }
}

impl<C: Clock + Clone> Resource<C> {
    /// Returns a handle to a context of this resource: a separate node for the requests that come
    /// through one entrance. If the context does not exist, creates it with the geometry of the
    /// resource.
    ///
    /// A request that enters through a context is counted in the node of the context only.
    /// [`total_snapshot`](Self::total_snapshot) adds up the nodes. A context is found by a linear
    /// search, so a resource should have few contexts.
    ///
    /// # Errors
    ///
    /// Returns [`RegistryError::InvalidName`] if the name of the context is empty, or contains a
    /// control character or a line break.
    ///
    /// Returns [`RegistryError::TooManyContexts`] if the context does not exist and the resource
    /// has the [maximum number](crate::RegistryConfig::max_contexts) of contexts.
    ///
    /// ```
    /// use leaparray::{Clock, MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("orders")?;
    /// let (web, batch) = (orders.in_context("web")?, orders.in_context("batch")?);
    /// web.enter().success();
    /// web.enter().success();
    /// batch.enter().exception();
    /// assert_eq!(web.now().long().sum(MetricEvent::Pass), 2);
    /// assert_eq!(orders.now().long().sum(MetricEvent::Pass), 0);
    /// let total = orders.total_snapshot(registry.clock().now());
    /// assert_eq!(total.long.totals.sum(MetricEvent::Pass), 3);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    pub fn in_context(&self, name: &str) -> Result<Self, RegistryError> {
        let listed = self.listed();
        if let Some(context) = listed.contexts().find(|it| it.name().as_ref() == name) {
            return Ok(Self::of(self.handle.in_context(Some(context))));
        }
        let geometry = &listed.common().geometry;
        let mut as_of = geometry.as_of();
        let mut inherited = *listed.node().config();
        let context = listed.context(name, inherited)?;
        let resource = Self::of(self.handle.in_context(Some(context)));
        loop {
            as_of = geometry.catch_up(as_of, |config| resource.reconfigure(config));
            // The thread that lists the resource may pass an earlier change to it only now.
            let current = *listed.node().config();
            if current == inherited || *resource.config() != inherited {
                return Ok(resource);
            }
            // A later change may reach the context before this one does, so the loop checks for it
            // once more.
            resource.reconfigure(current);
            inherited = current;
        }
    }

    /// Returns the sum of the snapshots of the resource's own node and of its contexts at `now`.
    /// The nodes are read one after the other. Peaks are lower bounds: the highest peak of a single
    /// node, as in any sum of [`NodeSnapshot`]s.
    #[must_use]
    pub fn total_snapshot(&self, now: Timestamp) -> NodeSnapshot {
        self.listed().snapshot_at(now)
    }
}

impl<C> Deref for Resource<C> {
    type Target = ResourceNode<C>;

    #[inline]
    fn deref(&self) -> &ResourceNode<C> {
        self.handle.node()
    }
}

impl<C> Clone for Resource<C> {
    #[inline]
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.handle))
    }
}

impl<C> fmt::Debug for Resource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut resource = f.debug_struct("Resource");
        resource.field("name", &self.name()).field("context", &self.context());
        resource.finish_non_exhaustive()
    }
}
