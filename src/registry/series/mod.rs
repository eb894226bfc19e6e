//! The series: the counts of a name, over all resources that have had it.

mod refused;

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry, Values};
use std::fmt;

pub(crate) use refused::{DeliveredRefusals, NewRefusals};

use super::delisted::Delisted;
use super::departed::{DroppedSeries, Registration, SeriesCounts, SeriesKey};
use super::listed::Listed;
use super::{Registry, Resource, ResourceId, TrafficType};
use crate::metric::{MetricEvent, MetricTotals};
use crate::sync::{Arc, Name};
use crate::time::{Clock, Timestamp};

/// A reader of the series of a [`Registry`], for an exporter. Returned by [`Registry::series`].
///
/// A *series* is what a name, a context and a direction have counted: the counts of all resources
/// that have had them, one after the other. An eviction or a removal takes nothing away from a
/// series, and a resource that is listed again continues it. Each count is in one series, once:
/// also what is recorded between two readings in a resource that is then evicted or removed, and
/// what is recorded through the handles to a removed resource.
///
/// A reader keeps what it has read last, so that it tells [what is new](Series::newly) since then.
/// Each reader has its own last reading. All readers of a registry find the same counts.
///
/// # Bounds
///
/// After a reading, the registry keeps the series of at most
/// [`max_resources`](Registry::max_resources) resources that are neither listed nor have handles.
/// It forgets those first that departed first. Between two readings, more depart: up to three times
/// that maximum and 64 are kept, including those that are listed again. A resource has at most a
/// series for itself and one for each context. They take about 500 bytes each, and the bins of
/// their histograms.
///
/// They are kept from the first reader on and while there is one. A resource that was removed
/// before, and has handles at that time, has its series with all of its counts. For a cursor that
/// has [visited](super::RegistryReading::visit_seconds) the registry, the refusals of resources
/// that had some are kept within the same bounds; a visit that delivers a second forgets them as a
/// reading does. A series that was forgotten begins at 0 when its name is listed again, and is then
/// [first](Series::is_first) again. The [dropped](SeriesReading::dropped) counts are known: the sum
/// of all series and of what was dropped is the [lifetime](Registry::lifetime) of the registry.
///
/// ```
/// use leaparray::{MetricEvent, Registry};
///
/// let registry = Registry::new();
/// let mut reader = registry.series();
/// for requests in 1..=3 {
///     for _ in 0..requests {
///         registry.resource("GET /orders")?.enter().success();
///     }
///     registry.remove("GET /orders");
///     let reading = reader.read(&registry);
///     let orders = reading.iter().next().expect("it was listed");
///     assert!(orders.resource().is_none());
///     assert_eq!(orders.newly(MetricEvent::Success), requests);
/// }
/// let reading = reader.read(&registry);
/// let orders = reading.iter().next().expect("it is kept");
/// assert_eq!(orders.counts().totals.sum(MetricEvent::Success), 6);
/// assert!(!orders.has_changed());
/// # Ok::<_, leaparray::registry::RegistryError>(())
/// ```
#[derive(Debug)]
pub struct SeriesReader<C> {
    registration: Registration,
    with_histograms: bool,
    /// The number of readings.
    readings: u64,
    series: BTreeMap<SeriesKey, Series<C>>,
    dropped: DroppedSeries,
}

/// All series at one moment, in the order of their [keys](SeriesKey). Returned by
/// [`SeriesReader::read`].
///
/// It has handles to the listed resources, which keeps them from
/// [eviction](Registry::evict_idle_at) until it is dropped.
#[derive(Debug)]
pub struct SeriesReading<'a, C> {
    reader: &'a mut SeriesReader<C>,
}

/// One series, in a [`SeriesReading`].
pub struct Series<C> {
    key: SeriesKey,
    incarnation: ResourceId,
    since: Timestamp,
    resource: Option<Resource<C>>,
    counts: SeriesCounts,
    before: SeriesCounts,
    is_first: bool,
    /// The number of the last reading that has found the series.
    reading: u64,
}

impl<C: Clock + Clone> Registry<C> {
    /// Returns a reader of the series of this registry: of what each name has counted, over
    /// evictions and removals. See [`SeriesReader`].
    #[must_use]
    pub fn series(&self) -> SeriesReader<C> {
        let _released;
        let mut delisted = self.delisted();
        _released = delisted.reclaim_released();
        SeriesReader {
            registration: delisted.register_series(),
            with_histograms: true,
            readings: 0,
            series: BTreeMap::new(),
            dropped: DroppedSeries::default(),
        }
    }

    /// Forgets series of resources that departed, if there are far too many.
    pub(super) fn limit_departed(&self, delisted: &mut Delisted<C>) {
        let (max, with_holders) = (self.max_resources(), delisted.with_holders().len());
        if delisted.all_departed_mut().iter().any(|it| it.is_far_above(max, with_holders)) {
            self.forget_departed(delisted);
        }
    }

    /// Forgets the series of the resources that departed first, if there are too many.
    pub(super) fn forget_departed(&self, delisted: &mut Delisted<C>) {
        let max = self.max_resources();
        if !delisted.all_departed_mut().iter().any(|it| it.is_above(max)) {
            return;
        }
        let names = |it: &Arc<Listed<C>>| (Name::clone(it.name()), it.traffic_type());
        let has_holders: HashSet<_> = delisted.with_holders().map(names).collect();
        for departed in delisted.all_departed_mut() {
            departed.limit(max, &has_holders, |name, traffic| {
                let is_listed = |it: &Arc<Listed<C>>| {
                    Some(it.traffic_type() == traffic && !it.holders().is_gone())
                };
                self.names.with(name, is_listed) == Some(true)
            });
        }
    }
}

impl<C: Clock + Clone> SeriesReader<C> {
    /// Leaves the histograms of response times out, and the time to read them.
    #[must_use]
    pub fn without_histograms(mut self) -> Self {
        self.with_histograms = false;
        self.series.values_mut().for_each(Series::drop_histograms);
        self
    }

    /// Reads all series of `registry`, which is the registry that has returned this reader.
    ///
    /// Each series that was found by this or by an earlier reading is in the result, until the
    /// registry forgets it. Every count is in the result or in a later one: a concurrent request
    /// may be counted in one of its events and not yet in another.
    ///
    /// Threads that evict, remove, reconfigure, poll seconds or read lifetime totals wait for a
    /// part of this call, in which it collects the resources. Threads that look up or record do not
    /// wait. The memory of the last reading is used again.
    ///
    /// # Panics
    ///
    /// Panics if another registry has returned this reader.
    pub fn read(&mut self, registry: &Registry<C>) -> SeriesReading<'_, C> {
        let _released;
        // Under the lock, each node is listed, or has holders, or its counts are among the departed
        // ones: see the head of `departed`. After that, a node whose handle is here is not
        // reclaimed, and one with holders may be, but its counts are taken from here only.
        let mut delisted = registry.delisted();
        assert!(
            delisted.departed().has_registered(&self.registration),
            "this reader is of another registry: read the registry that has returned it"
        );
        self.readings += 1;
        _released = delisted.reclaim_released();
        registry.forget_departed(&mut delisted);
        let mut departed = Vec::new();
        for ((name, traffic_type), resource) in delisted.departed().resources() {
            for node in &resource.nodes {
                let (name, context) = (Name::clone(name), node.context.clone());
                let key = SeriesKey { name, context, traffic_type: *traffic_type };
                departed.push((key, resource.incarnation, node.since, node.counts.clone()));
            }
        }
        let holders = delisted.with_holders();
        let holders = holders.map(|it| (delisted.departed().incarnation(it), Arc::clone(it)));
        let holders: Vec<_> = holders.collect();
        let mut listed = Vec::with_capacity(registry.len());
        registry.names.for_each(|it| {
            let incarnation = delisted.departed().incarnation(it);
            listed.extend(Resource::visit(it).map(|it| (incarnation, it)));
        });
        self.dropped.clone_from(delisted.departed().dropped());
        drop(delisted);
        let with_histograms = self.with_histograms;
        for (key, incarnation, since, counts) in departed {
            self.series(key, incarnation, since).counts.add(&counts, with_histograms);
        }
        for (incarnation, listed) in &holders {
            for (context, node) in listed.named_nodes() {
                let series = self.series(listed.series_key(context), *incarnation, node.made());
                series.counts.add_node(node, with_histograms);
            }
        }
        for (incarnation, resource) in listed {
            for context in resource.contexts() {
                self.read_listed(incarnation, context);
            }
            self.read_listed(incarnation, resource);
        }
        self.series.retain(|_, series| series.reading == self.readings);
        SeriesReading { reader: self }
    }

    fn read_listed(&mut self, incarnation: ResourceId, resource: Resource<C>) {
        let with_histograms = self.with_histograms;
        let series = self.series(resource.series_key(), incarnation, resource.made());
        series.counts.add_node(&resource, with_histograms);
        series.resource = Some(resource);
    }

    /// Returns a series of this reading.
    fn series(
        &mut self,
        key: SeriesKey,
        incarnation: ResourceId,
        since: Timestamp,
    ) -> &mut Series<C> {
        let reading = self.readings;
        let series = match self.series.entry(key) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(Series::new(key, incarnation, since, reading))
            }
        };
        if series.incarnation != incarnation {
            *series = Series::new(series.key.clone(), incarnation, since, reading);
        } else if series.reading != reading {
            series.reading = reading;
            series.is_first = false;
            series.counts.advance(&mut series.before);
        }
        // A resource with holders may have been made before one that has departed already.
        series.since = series.since.min(since);
        series
    }
}

impl<C> SeriesReading<'_, C> {
    /// Returns the series: those of the listed resources, and those of the others that the registry
    /// keeps.
    pub fn iter(&self) -> SeriesIter<'_, C> {
        SeriesIter(self.reader.series.values())
    }

    /// Returns what is in no series.
    #[must_use]
    pub const fn dropped(&self) -> &DroppedSeries {
        &self.reader.dropped
    }

    /// Returns the sum of all series of one direction and of what was dropped: the lifetime totals
    /// of the registry. They never decrease from one reading to the next.
    ///
    /// ```
    /// use leaparray::{MetricEvent, Registry, TrafficType};
    ///
    /// let registry = Registry::new();
    /// registry.resource("GET /orders")?.enter().success();
    /// registry.remove("GET /orders");
    /// let mut reader = registry.series();
    /// registry.resource("GET /users")?.enter().success();
    /// let reading = reader.read(&registry);
    /// assert_eq!(reading.dropped().inbound.sum(MetricEvent::Success), 1, "before the reader");
    /// assert_eq!(reading.lifetime(TrafficType::Inbound).sum(MetricEvent::Success), 2);
    /// # Ok::<_, leaparray::registry::RegistryError>(())
    /// ```
    #[must_use]
    pub fn lifetime(&self, traffic: TrafficType) -> MetricTotals {
        let of_traffic = self.iter().filter(|it| it.key.traffic_type == traffic);
        of_traffic.fold(self.dropped().totals(traffic).clone(), |mut sum, series| {
            sum += &series.counts.totals;
            sum
        })
    }
}

impl<C> Drop for SeriesReading<'_, C> {
    fn drop(&mut self) {
        self.reader.series.values_mut().for_each(|series| series.resource = None);
    }
}

impl<C> Series<C> {
    fn new(key: SeriesKey, incarnation: ResourceId, since: Timestamp, reading: u64) -> Self {
        Self {
            key,
            incarnation,
            since,
            resource: None,
            counts: SeriesCounts::default(),
            before: SeriesCounts::default(),
            is_first: true,
            reading,
        }
    }

    fn drop_histograms(&mut self) {
        self.counts.drop_histograms();
        self.before.drop_histograms();
    }

    /// Returns the identity.
    #[must_use]
    pub const fn key(&self) -> &SeriesKey {
        &self.key
    }

    /// Returns the listed resource, or its context; `None` if it was evicted or removed.
    #[must_use]
    pub const fn resource(&self) -> Option<&Resource<C>> {
        self.resource.as_ref()
    }

    /// Returns the time since which the series counts: when the first resource was made whose
    /// counts it has.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// Returns all that was counted.
    #[must_use]
    pub const fn counts(&self) -> &SeriesCounts {
        &self.counts
    }

    /// Returns what was counted at the last reading of this reader; nothing if this is the
    /// [first](Self::is_first) one with the series.
    #[must_use]
    pub const fn before(&self) -> &SeriesCounts {
        &self.before
    }

    /// Returns the sum of an event since the last reading of this reader.
    #[must_use]
    pub fn newly(&self, event: MetricEvent) -> u64 {
        self.counts.totals.sum(event).saturating_sub(self.before.totals.sum(event))
    }

    /// Returns whether this is the first reading of this reader with the series, or the first since
    /// the registry has forgotten its counts, which have begun at 0 then.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns whether something was counted since the last reading of this reader.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.counts.is_ahead_of(&self.before)
    }
}

impl<C: Clock + Clone> Series<C> {
    /// Returns the number of requests in flight of the listed resource; 0 if it was evicted or
    /// removed.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.resource.as_ref().map_or(0, |resource| resource.concurrency())
    }
}

impl<C> fmt::Debug for Series<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series")
            .field("key", &self.key)
            .field("since", &self.since)
            .field("is_listed", &self.resource.is_some())
            .field("is_first", &self.is_first)
            .field("counts", &self.counts)
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

/// An iterator over the series of a [`SeriesReading`]. Returned by [`SeriesReading::iter`].
#[derive(Debug)]
#[must_use]
pub struct SeriesIter<'a, C>(Values<'a, SeriesKey, Series<C>>);

impl<'a, C> Iterator for SeriesIter<'a, C> {
    type Item = &'a Series<C>;

    fn next(&mut self) -> Option<&'a Series<C>> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, C> IntoIterator for &'a SeriesReading<'_, C> {
    type Item = &'a Series<C>;
    type IntoIter = SeriesIter<'a, C>;

    fn into_iter(self) -> SeriesIter<'a, C> {
        self.iter()
    }
}

impl<C> Resource<C> {
    /// Returns the identity that the resource, or its context, shares with those that had the same
    /// names before.
    #[must_use]
    pub fn series_key(&self) -> SeriesKey {
        self.listed().series_key(self.kept_context().map(|it| it.name()))
    }
}

impl<C> Listed<C> {
    pub(super) fn series_key(&self, context: Option<&Name>) -> SeriesKey {
        let (name, context) = (Name::clone(self.name()), context.cloned());
        SeriesKey { name, context, traffic_type: self.traffic_type() }
    }
}
