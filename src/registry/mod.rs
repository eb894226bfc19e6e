//! Resources by name: at most one resource for each name, a maximum number, removal and eviction.

mod capacity;
mod config;
mod context;
mod data;
mod delisted;
mod departed;
mod error;
mod evict;
mod geometry;
mod handle;
mod holders;
mod id;
mod iter;
mod kept;
mod listed;
mod name;
mod reading;
mod resource;
mod second;
mod seconds;
mod series;
mod snapshot;
mod totals;
mod undelivered;
mod visit;
mod watched;
#[cfg(not(loom))]
mod weak;

pub use config::{RegistryConfig, ResourceConfig, TrafficType};
pub use departed::{DroppedSeries, SeriesCounts, SeriesKey};
pub use error::RegistryError;
pub use id::ResourceId;
pub use iter::Resources;
pub use reading::RegistryReading;
pub use resource::Resource;
pub use second::ResourceSecond;
pub use seconds::RegistryCursor;
pub use series::{Series, SeriesIter, SeriesReader, SeriesReading};
pub use snapshot::{RegistrySnapshot, ResourceSnapshot};
pub use visit::{Visit, Visited, VisitedNode};
pub use watched::{WatchError, WatchedLimiter};
#[cfg(not(loom))]
pub use weak::WeakResource;

use std::fmt;

use crate::node::{NodeConfig, OnDrop};
use crate::sync::stall::{self, Point};
use crate::sync::{Arc, AtomicU64, Mutex, Name, Names, Ordering, fence};
use crate::time::{Clock, MonotonicClock, Timestamp};
use capacity::Capacity;
use delisted::Delisted;
use geometry::Geometry;
use handle::Handle;
use id::NextId;
use listed::Listed;
use watched::WatchList;

/// A map from names to resources. The first call of [`resource`](Self::resource) with a name
/// creates the resource.
///
/// A look-up takes no lock, except for a [thread's first look-up](Self::get). Threads that race for
/// a new name get the same resource. A look-up returns a [`Resource`], a handle that can be kept.
/// While a handle exists, the resource is [not evicted](Self::evict_idle_at), so no thread records
/// in a node that readers do not find.
///
/// At most [`max_resources`](RegistryConfig::max_resources) names are listed at a time. A name is
/// not empty, and contains no control characters or line breaks, so that exporters and logs can
/// write it in one line. A look-up of a further or an invalid name fails with a [`RegistryError`],
/// and is [counted](Self::refused).
///
/// ```
/// use leaparray::{MetricEvent, Registry};
///
/// let registry = Registry::new();
/// let orders = registry.resource("GET /orders")?;
/// orders.enter().success();
///
/// // Elsewhere: the same resource.
/// registry.resource("GET /orders")?.enter().success();
/// assert_eq!(orders.now().long().sum(MetricEvent::Success), 2);
///
/// // In the monitor:
/// let snapshot = registry.now().snapshot();
/// for row in &snapshot.resources {
///     println!(
///         "{:24} {:8.0}/s  {:?}",
///         row.name,
///         row.snapshot.pass_qps(),
///         row.snapshot.avg_rt()
///     );
/// }
/// println!("{:24} {:8.0}/s", "total", snapshot.total().pass_qps());
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
pub struct Registry<C = MonotonicClock> {
    clock: C,
    /// The time at which the registry was made.
    made: Timestamp,
    names: Names<Listed<C>>,
    capacity: Capacity,
    common: Arc<Common>,
    /// The resources that are no longer listed. A thread that evicts, removes, reconfigures, polls,
    /// or reads lifetime totals takes this lock. A thread that looks up or records never takes it;
    /// a thread that lists takes it only for resources that are left in the map.
    delisted: Mutex<Delisted<C>>,
    /// The number of resources that are [left](Delisted::leave) in the map.
    left: AtomicU64,
    watches: WatchList,
}

/// The state that all resources of a registry share.
#[derive(Debug)]
struct Common {
    geometry: Geometry,
    max_contexts: usize,
    on_drop: OnDrop,
    next_id: NextId,
    /// The number of refused resources and contexts.
    refused: AtomicU64,
    /// Whether the registry is dropped: 1 or 0.
    dropped: AtomicU64,
}

/// The result of [`Registry::clear`].
enum Cleared<C> {
    Listed(Resource<C>),
    /// The resource was gone, and is no longer in the map.
    Gone,
    Nothing,
}

/// Why a resource was not listed. Unlike [`RegistryError`], it has no copy of the name.
enum NotListed {
    InvalidName,
    Full,
    ThreadEnds,
}

impl Common {
    /// Checks the name of a resource or a context that is about to be listed, and counts an invalid
    /// one as refused. A look-up of a name that is listed does not need this.
    fn check_name(&self, name: &str) -> Result<(), NotListed> {
        if name::is_valid(name) { Ok(()) } else { Err(self.refuse(NotListed::InvalidName)) }
    }

    /// Notes that the registry is dropped, before it releases the handles that are kept.
    fn begin_drop(&self) {
        self.dropped.store(1, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `is_dropped`. Of this thread and one that has kept a
        // handle, one at least sees what the other has written: this one the handle, or that one
        // that the registry is dropped.
        fence(Ordering::SeqCst);
    }

    /// Returns whether the registry is dropped, for a thread that has just kept a handle.
    fn is_dropped(&self) -> bool {
        fence(Ordering::SeqCst);
        self.dropped.load(Ordering::Relaxed) != 0
    }

    /// Counts a refusal, and returns its error.
    fn refuse<E>(&self, error: E) -> E {
        // Relaxed: a count that orders nothing.
        self.refused.fetch_add(1, Ordering::Relaxed);
        error
    }
}

impl Registry {
    /// Creates an empty registry with the default configuration. Its nodes share one
    /// [`MonotonicClock`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_config(RegistryConfig::default())
    }

    /// Creates an empty registry. Its nodes share one [`MonotonicClock`].
    #[must_use]
    pub fn with_config(config: RegistryConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock + Clone> Registry<C> {
    /// Creates an empty registry. Its nodes read clones of `clock`.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
    /// let orders = registry.resource("GET /orders")?;
    /// orders.enter().success();
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(orders.now().short().qps(MetricEvent::Pass), 0.0);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn with_clock(config: RegistryConfig, clock: C) -> Self {
        Self {
            made: clock.now(),
            clock,
            names: Names::new(),
            capacity: Capacity::new(config.max_resources),
            common: Arc::new(Common {
                geometry: Geometry::new(config.node),
                max_contexts: config.max_contexts,
                on_drop: config.on_drop,
                next_id: NextId::new(),
                refused: AtomicU64::new(0),
                dropped: AtomicU64::new(0),
            }),
            delisted: Mutex::new(Delisted::new()),
            left: AtomicU64::new(0),
            watches: WatchList::default(),
        }
    }

    /// Returns the resource with that name. If it is not listed, creates and lists it: inbound,
    /// with the geometry of the registry.
    ///
    /// If the resource is listed, this waits for no other thread; see [`get`](Self::get). To list
    /// it, this may wait for a thread that is enlarging the map. A caller that needs the same
    /// resource for each request should keep the returned handle instead of looking up the name
    /// again.
    ///
    /// # Errors
    ///
    /// Returns [`RegistryError::InvalidName`] if the name is empty, or contains a control character
    /// or a line break.
    ///
    /// Returns [`RegistryError::ThreadEnds`] if the resource is not listed and the thread's locals
    /// have been destroyed; see [Threads that end](crate::reference::process#threads-that-end).
    ///
    /// Returns [`RegistryError::Full`] if the resource is not listed and there is no room for it.
    /// While threads race to list one name, each of them claims room until it loses the race. So
    /// the last room may be claimed by a thread that is about to list this name or to lose that
    /// race, or by a thread that is removing a resource, perhaps an earlier one with this name.
    #[inline]
    pub fn resource(&self, name: &str) -> Result<Resource<C>, RegistryError> {
        match self.get(name) {
            Some(resource) => Ok(resource),
            None => self.list_or_error(name, ResourceConfig::default()),
        }
    }

    /// Like [`resource`](Self::resource), but a resource that is not listed is created with the
    /// given configuration: a [geometry](NodeConfig), a [direction](TrafficType), or a
    /// [`ResourceConfig`]. A resource that is already listed is not changed.
    ///
    /// # Errors
    ///
    /// As for [`resource`](Self::resource).
    ///
    /// ```
    /// use leaparray::{NodeConfig, Registry, TrafficType, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let registry = Registry::new();
    /// let database = registry.resource_with("database", TrafficType::Outbound)?;
    /// let finer = NodeConfig::new(
    ///     WindowConfig::new(10, Duration::from_secs(1))?,
    ///     WindowConfig::new(600, Duration::from_secs(60))?,
    /// )?;
    /// let orders = registry.resource_with("GET /orders", finer)?;
    /// assert_eq!(
    ///     (database.traffic_type(), orders.traffic_type()),
    ///     (TrafficType::Outbound, TrafficType::Inbound)
    /// );
    /// assert_eq!(orders.config(), &finer);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn resource_with(
        &self,
        name: &str,
        config: impl Into<ResourceConfig>,
    ) -> Result<Resource<C>, RegistryError> {
        match self.get(name) {
            Some(resource) => Ok(resource),
            None => self.list_or_error(name, config.into()),
        }
    }

    /// Like [`resource_with`](Self::resource_with), but returns `None` instead of an error. A
    /// refusal is [counted](Self::refused), and allocates nothing, unlike an error, which has a
    /// copy of the name. A middleware whose resource names come from clients can count the requests
    /// with refused names in one resource.
    ///
    /// ```
    /// use leaparray::{Registry, RegistryConfig, TrafficType};
    ///
    /// let registry = Registry::with_config(RegistryConfig::default().max_resources(1));
    /// assert!(registry.find_or_list("GET /orders", TrafficType::Inbound).is_some());
    /// assert!(registry.find_or_list("GET /users", TrafficType::Inbound).is_none());
    /// assert_eq!(registry.refused(), 1);
    /// ```
    pub fn find_or_list(
        &self,
        name: &str,
        config: impl Into<ResourceConfig>,
    ) -> Option<Resource<C>> {
        self.get(name).or_else(|| self.list(name, config.into()).ok())
    }

    /// Returns the resource with that name; `None` if it is not listed.
    ///
    /// A look-up does not wait for threads that list, evict or remove resources. There is one
    /// exception: the first look-up that a thread makes in any registry takes the lock of a list of
    /// thread numbers. Other threads hold this lock for a few instructions, at their first look-up
    /// and when they end.
    ///
    /// ```
    /// use leaparray::Registry;
    ///
    /// let registry = Registry::new();
    /// assert!(registry.get("GET /orders").is_none());
    /// let orders = registry.resource("GET /orders")?;
    /// assert!(registry.get("GET /orders").is_some_and(|found| std::ptr::eq(&*found, &*orders)));
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[inline]
    pub fn get(&self, name: &str) -> Option<Resource<C>> {
        // A resource that is gone, and that another thread is about to take out of the map, is not
        // listed. Taking it out here could wait for a thread that is enlarging the map.
        self.names.with(name, Resource::find)
    }

    /// Looks up a name that is about to be listed. If its resource is gone, takes the resource out
    /// of the map.
    fn clear(&self, name: &str) -> Cleared<C> {
        let take = |listed: &_| Some(Resource::find(listed).ok_or_else(|| Arc::clone(listed)));
        match self.names.with(name, take) {
            Some(Ok(resource)) => Cleared::Listed(resource),
            Some(Err(gone)) => {
                self.delist(&gone);
                Cleared::Gone
            }
            None => Cleared::Nothing,
        }
    }

    /// Like [`list`](Self::list), with an error that has the name.
    fn list_or_error(
        &self,
        name: &str,
        config: ResourceConfig,
    ) -> Result<Resource<C>, RegistryError> {
        self.list(name, config).map_err(|error| match error {
            NotListed::InvalidName => RegistryError::InvalidName { name: name.into() },
            NotListed::Full => RegistryError::Full { max: self.capacity.max(), name: name.into() },
            NotListed::ThreadEnds => RegistryError::ThreadEnds { name: name.into() },
        })
    }

    /// Lists a resource. If another thread lists the name first, returns the resource of that
    /// thread.
    #[cold]
    fn list(&self, name: &str, config: ResourceConfig) -> Result<Resource<C>, NotListed> {
        self.common.check_name(name)?;
        if !self.names.can_change() {
            return Err(self.common.refuse(NotListed::ThreadEnds));
        }
        self.delist_left();
        loop {
            let Some(claim) = self.capacity.claim() else {
                match self.clear(name) {
                    Cleared::Listed(resource) => return Ok(resource),
                    // Its room is released, or is about to be.
                    Cleared::Gone => continue,
                    Cleared::Nothing => {}
                }
                return Err(self.common.refuse(NotListed::Full));
            };
            let as_of = self.common.geometry.as_of();
            let node = config.node.unwrap_or_else(|| self.common.geometry.get());
            let listed = Listed::new(Name::from(name), config.traffic, node, self);
            listed.node().set_on_drop(config.on_drop.unwrap_or(self.common.on_drop));
            let resource = Resource::of(Arc::new(Handle::first(listed)));
            if self.names.insert(resource.listed().name(), Arc::clone(resource.listed())) {
                claim.keep();
                self.common
                    .geometry
                    .catch_up(as_of, |config| resource.listed().reconfigure(config));
                return Ok(resource);
            }
            drop(claim);
            if let Cleared::Listed(resource) = self.clear(name) {
                return Ok(resource);
            }
        }
    }

    /// Takes this resource out of the map and releases its room, unless another thread has done so.
    /// A thread that ends cannot: it leaves the resource in the map, where look-ups find it gone.
    fn delist(&self, listed: &Arc<Listed<C>>) {
        stall::at(Point::Gone);
        if !self.names.can_change() {
            self.leave(listed);
            return;
        }
        if self.names.remove(listed.name(), listed) {
            self.capacity.release();
        }
    }

    #[cold]
    fn leave(&self, listed: &Arc<Listed<C>>) {
        let mut delisted = self.delisted();
        delisted.leave(Arc::clone(listed));
        // Relaxed, here and in `delist_left`: both change the number under the lock, and a thread
        // that does not see it yet takes the resource out later.
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the resources out of the map that threads have left in it when they ended.
    fn delist_left(&self) {
        if self.left.load(Ordering::Relaxed) == 0 || !self.names.can_change() {
            return;
        }
        let left = {
            let mut delisted = self.delisted();
            self.left.store(0, Ordering::Relaxed);
            delisted.take_left()
        };
        for listed in &left {
            self.delist(listed);
        }
    }

    /// Changes the geometry of all listed resources and of new ones. Resources that have a geometry
    /// of their own, and contexts, are changed as well.
    ///
    /// Earlier counts [remain readable](crate::ResourceNode::reconfigure). [Removed](Self::remove)
    /// resources are not changed. A resource that is listed during the change has the new geometry
    /// once this call and the call that listed it have both returned.
    ///
    /// ```
    /// use leaparray::{MetricEvent, NodeConfig, Registry, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let registry = Registry::new();
    /// let orders = registry.resource("GET /orders")?;
    /// orders.enter().success();
    /// let finer = NodeConfig::new(
    ///     WindowConfig::new(10, Duration::from_secs(1))?,
    ///     WindowConfig::new(600, Duration::from_secs(60))?,
    /// )?;
    /// registry.reconfigure(finer);
    /// assert_eq!(orders.config(), &finer);
    /// assert_eq!(registry.resource("GET /users")?.config(), &finer);
    /// assert_eq!(orders.now().long().sum(MetricEvent::Success), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, config: NodeConfig) {
        // Under the lock: if two threads change the geometry, the same change is the later one for
        // all nodes.
        let _lock = self.delisted();
        self.common.geometry.change(config, || {
            self.names.for_each(|listed| listed.nodes().for_each(|node| node.reconfigure(config)));
        });
    }

    /// Returns the geometry of new nodes.
    #[must_use]
    pub fn config(&self) -> NodeConfig {
        self.common.geometry.get()
    }
}

impl<C> Registry<C> {
    /// Returns the clock. All nodes read clones of it.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Returns the number of listed resources. While other threads list and remove resources, the
    /// number may include resources that are about to be listed or have just been removed. It never
    /// exceeds [`max_resources`](Self::max_resources).
    #[must_use]
    pub fn len(&self) -> usize {
        self.capacity.claimed()
    }

    /// Returns whether no resource is listed; see [`len`](Self::len).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of listed resources.
    #[must_use]
    pub const fn max_resources(&self) -> usize {
        self.capacity.max()
    }

    /// Returns the number of times that a resource or a context was refused, because the maximum
    /// was reached or the name is invalid: the number of [`RegistryError`]s.
    ///
    /// ```
    /// use leaparray::{Registry, RegistryConfig};
    /// use leaparray::registry::RegistryError;
    ///
    /// let registry = Registry::with_config(RegistryConfig::default().max_resources(1));
    /// let orders = registry.resource("GET /orders")?;
    /// let refused = registry.resource("GET /users").unwrap_err();
    /// assert_eq!(refused, RegistryError::Full { max: 1, name: "GET /users".into() });
    /// assert_eq!((registry.refused(), registry.len()), (1, 1));
    /// # Ok::<_, RegistryError>(())
    /// ```
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.common.refused.load(Ordering::Relaxed)
    }
}

impl<C> Drop for Registry<C> {
    fn drop(&mut self) {
        self.common.begin_drop();
        // A kept handle refers to its resource, which would otherwise never be dropped. Those of
        // the resources that are removed and still in the map are among these.
        self.names.for_each(|listed| listed.release_kept());
        for listed in self.delisted().with_holders() {
            listed.release_kept();
        }
    }
}

impl<C> fmt::Debug for Registry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registry = f.debug_struct("Registry");
        registry.field("len", &self.len()).field("max_resources", &self.max_resources());
        registry.field("refused", &self.refused()).finish_non_exhaustive()
    }
}
