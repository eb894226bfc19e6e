//! What a registry gives out.

use std::fmt;
use std::ops::Deref;

use super::config::TrafficType;
use super::context::KeptContext;
use super::error::RegistryError;
use super::listed::Listed;
use crate::node::{Entry, NodeConfig, NodeSnapshot, ResourceNode};
use crate::sync::Arc;
use crate::time::{Clock, MonotonicClock, Timestamp};

/// A resource of a [`Registry`](crate::Registry), held: dereferences to its node.
///
/// It can be cloned, kept, and sent to other threads. While anybody has one, the resource is not
/// [evicted](crate::Registry::evict_idle); it may be [removed](crate::Registry::remove), which those who
/// have one are not told but can [ask](Self::is_removed).
///
/// ```
/// use leaparray::{Entry, Registry, Resource};
///
/// // Not tied to the registry, nor to the borrow of anything: an entry for a request that goes from
/// // thread to thread.
/// fn begin(orders: &Resource) -> Entry<Resource> {
///     orders.enter_owned()
/// }
///
/// let registry = Registry::new();
/// let orders = registry.resource("GET /orders")?;
/// let entry = begin(&orders);
/// assert_eq!((orders.name(), orders.concurrency()), ("GET /orders", 1));
/// std::thread::spawn(move || entry.success()).join().unwrap();
/// assert_eq!(orders.concurrency(), 0);
/// # Ok::<_, leaparray::RegistryError>(())
/// ```
pub struct Resource<C = MonotonicClock> {
    /// Counted in among its holders.
    listed: Arc<Listed<C>>,
    /// `None` for the resource's own node.
    context: Option<KeptContext<C>>,
}

impl<C> Resource<C> {
    /// Of one that is held by whoever made it.
    pub(super) const fn of(listed: Arc<Listed<C>>) -> Self {
        Self { listed, context: None }
    }

    /// Holds it, unless it is gone.
    #[inline]
    pub(super) fn take(listed: &Arc<Listed<C>>) -> Option<Self> {
        listed.holders().take().then(|| Self::of(Arc::clone(listed)))
    }

    pub(super) const fn listed(&self) -> &Arc<Listed<C>> {
        &self.listed
    }

    /// The same resource, held once more, in that context.
    fn with_context(&self, context: Option<&KeptContext<C>>) -> Self {
        self.listed.holders().take_another();
        Self { listed: Arc::clone(&self.listed), context: context.cloned() }
    }

    /// The name that it was asked for by.
    #[must_use]
    pub fn name(&self) -> &str {
        self.listed.name()
    }

    /// The context, if it is in one.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.context.as_ref().map(|context| context.name())
    }

    /// The direction that it was made with.
    #[must_use]
    pub fn traffic_type(&self) -> TrafficType {
        self.listed.traffic_type()
    }

    /// Whether it was [removed](crate::Registry::remove). What is recorded in it from then on is in the
    /// registry's [lifetime totals](crate::Registry::lifetime) and nowhere else.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.listed.holders().is_gone()
    }

    /// The contexts that this resource has been asked for in, each with its node, the oldest first.
    pub fn contexts(&self) -> impl Iterator<Item = Self> {
        self.listed.contexts().map(|context| self.with_context(Some(context)))
    }
}

impl<C: Clock + Clone> Resource<C> {
    /// This resource in that context: a node of its own for what comes by one entrance, made if it is not
    /// there, with the resource's geometry.
    ///
    /// What is recorded in a context is recorded there and nowhere else; the
    /// [sum](Self::total_snapshot) is made when it is read. Contexts are few: one is found by looking at
    /// each.
    ///
    /// # Errors
    ///
    /// [`RegistryError::TooManyContexts`] if it is not there, and there are as many as
    /// [may be](crate::RegistryConfig::max_contexts).
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry};
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("orders")?;
    /// let (web, batch) = (orders.in_context("web")?, orders.in_context("batch")?);
    /// web.enter().success();
    /// web.enter().success();
    /// batch.enter().exception();
    /// assert_eq!(web.minute_sum(MetricEvent::Pass), 2);
    /// assert_eq!(orders.minute_sum(MetricEvent::Pass), 0);
    /// assert_eq!(orders.total_snapshot().minute.totals.sum(MetricEvent::Pass), 3);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn in_context(&self, name: &str) -> Result<Self, RegistryError> {
        if let Some(context) = self.listed.contexts().find(|context| context.name() == name) {
            return Ok(self.with_context(Some(context)));
        }
        let geometry = &self.listed.common().geometry;
        let mut as_of = geometry.as_of();
        let mut inherited = *self.listed.node().config();
        let context = self.listed.context(name, inherited)?;
        let resource = self.with_context(Some(context));
        loop {
            as_of = geometry.settle(as_of, |config| resource.reconfigure(config));
            // The thread that lists the resource may pass it an earlier change only now.
            let current = *self.listed.node().config();
            if current == inherited || *resource.config() != inherited {
                return Ok(resource);
            }
            // A later change may reach the context before this, and is looked for once more.
            resource.reconfigure(current);
            inherited = current;
        }
    }

    /// Like [`enter`](ResourceNode::enter), for an entry that is to live as long as it likes. It holds the
    /// resource; [`Entry::enter`] gives it a handle that is not needed any more, and holds it no second
    /// time.
    ///
    /// ```
    /// use leaparray::{Entry, Registry};
    ///
    /// let registry = Registry::new();
    /// let entry = Entry::enter(registry.resource("GET /orders")?);
    /// assert_eq!(registry.inbound_snapshot().concurrency, 1);
    /// entry.success();
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn enter_owned(&self) -> Entry<Self, C> {
        Entry::enter(self.clone())
    }

    /// The same at `now`.
    pub fn enter_owned_at(&self, now: Timestamp) -> Entry<Self, C> {
        Entry::enter_at(self.clone(), now)
    }

    /// What the resource is now, its contexts and what came without one together.
    #[must_use]
    pub fn total_snapshot(&self) -> NodeSnapshot {
        self.total_snapshot_at(self.clock().now())
    }

    /// The same at `now`. The nodes are looked at one after the other;
    /// peaks are those of one of them, as in any sum of [`NodeSnapshot`]s.
    #[must_use]
    pub fn total_snapshot_at(&self, now: Timestamp) -> NodeSnapshot {
        self.listed.snapshot_at(now)
    }

    /// Changes the geometry of the node that this dereferences to: of the resource's own, or of its
    /// context's. See [`ResourceNode::reconfigure`].
    pub fn reconfigure(&self, config: NodeConfig) {
        ResourceNode::reconfigure(self, config);
    }
}

impl<C> Deref for Resource<C> {
    type Target = ResourceNode<C>;

    #[inline]
    fn deref(&self) -> &ResourceNode<C> {
        match &self.context {
            None => self.listed.node(),
            Some(context) => context.node(),
        }
    }
}

impl<C> Clone for Resource<C> {
    #[inline]
    fn clone(&self) -> Self {
        self.with_context(self.context.as_ref())
    }
}

impl<C> Drop for Resource<C> {
    #[inline]
    fn drop(&mut self) {
        self.listed.holders().let_go();
    }
}

impl<C> fmt::Debug for Resource<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut resource = f.debug_struct("Resource");
        resource.field("name", &self.name()).field("context", &self.context());
        resource.finish_non_exhaustive()
    }
}
