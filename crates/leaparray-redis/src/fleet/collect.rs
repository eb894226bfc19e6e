//! Reading the finished seconds of a registry.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use leaparray::MetricEvent::Block;
use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::registry::{RegistryCursor, SeriesKey, Visited, VisitedNode};
use leaparray::{Clock, EventCounts, MetricTotals, Registry, ResourceNode, Timestamp};

use super::budget::Budget;
use super::counts::FleetCounts;
use super::names::{Names, ResourceKey};
use super::outbox::{Outbox, Undelivered};
use super::refused::RefusedBefore;
use super::second::{ProcessSecond, Row};

/// How often a node is read again if threads record in it at the same time.
const MAX_TRIES: usize = 64;

/// Reads the finished seconds of a registry, each once.
///
/// A reading finds the counts of each finished second, and the requests in flight of the moment,
/// which it adds to the newest finished second.
///
/// The outbox gives a number to each name of a resource or context that had a row, and keeps it for
/// good. After 16,384 names, further ones are left out of the rows: they are in the sums of the
/// process and of the fleet, and readers count them as
/// [unnamed](super::FleetWindow::left_out_unnamed).
///
/// ```
/// use leaparray::MetricEvent::Success;
/// use leaparray::{Clock, ManualClock, Registry, RegistryConfig, Timestamp};
/// use leaparray_redis::fleet::{Budget, Collector, FleetConfig, Outbox, ProcessId};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let registry = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
/// let mut collector = Collector::new(Arc::clone(&registry), clock.now(), Budget::default());
/// let mut outbox = Outbox::new(FleetConfig::default(), ProcessId(1), "web-1", 60, 1 << 20);
///
/// registry.resource("search")?.enter().success();
/// clock.advance(Duration::from_secs(1));
/// registry.resource("search")?.enter().success();
/// // The second 60 is over, and 61 is not.
/// collector.collect_into(clock.now(), &mut outbox);
/// let record = outbox.record();
/// assert_eq!((record.waiting[Success], record.unfinished()[Success]), (1, 1));
/// assert_eq!((outbox.end(), outbox.waiting_len().0), (61, 1));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Collector<C> {
    registry: Arc<Registry<C>>,
    cursor: RegistryCursor,
    budget: Budget,
    /// The refusals of each series that are in no second yet, and the number of the last reading
    /// with the series.
    refusals: HashMap<ResourceKey, (u64, RefusedBefore)>,
    readings: u64,
    /// The counts from before the first second.
    before: EventCounts,
    /// The counts in the seconds that were read.
    read: EventCounts,
    /// The counts in seconds that were not read in time.
    unread: EventCounts,
    late: EventCounts,
    missed: u64,
}

/// The result of a reading of a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Collected {
    /// The seconds, the oldest first.
    seconds: Vec<Undelivered>,
    /// The counts since the first second.
    lifetime: EventCounts,
    /// The counts recorded after their second had been read: a lower bound, exact if no thread
    /// records during the reading.
    late: EventCounts,
    /// The number of resources in the last second for which there was no room.
    left_out: u64,
}

impl<C: Clock + Clone> Collector<C> {
    /// Begins with the second of `now`.
    ///
    /// Counts from before the second of `now`, and counts of that second that are recorded already,
    /// belong to no second.
    #[must_use]
    pub fn new(registry: Arc<Registry<C>>, now: Timestamp, budget: Budget) -> Self {
        let cursor = RegistryCursor::new();
        let mut before = EventCounts::default();
        let visit = registry.at(now).visit_seconds(&cursor, |visited| {
            if let Visited::Node(visited) = visited {
                let (lifetime, unfinished) = coherent(visited.node, now);
                before += &lifetime.saturating_sub(&unfinished);
            }
        });
        before += &finished(&visit.delisted, &visit.unfinished);
        Self {
            registry,
            missed: cursor.missed(),
            cursor,
            budget,
            refusals: HashMap::new(),
            readings: 0,
            before,
            read: EventCounts::default(),
            unread: EventCounts::default(),
            late: EventCounts::default(),
        }
    }

    /// Reads the seconds that are over at `now`, and adds them to the outbox.
    pub fn collect_into(&mut self, now: Timestamp, outbox: &mut Outbox) {
        let max_bytes = self.budget.share(outbox.processes());
        let Collected { seconds, lifetime, late, left_out } =
            self.collect(now, max_bytes, outbox.names_mut());
        for second in seconds {
            outbox.push(second);
            outbox.set_left_out(left_out);
        }
        outbox.set_totals(lifetime, late);
    }

    fn collect(&mut self, now: Timestamp, max_bytes: usize, names: &mut Names) -> Collected {
        self.readings += 1;
        let mut reading = Reading {
            now,
            number: self.readings,
            seconds: 0..0,
            rows: Vec::new(),
            lifetime: EventCounts::default(),
            finished: EventCounts::default(),
            names,
            refusals: &mut self.refusals,
            current: None,
        };
        let visit =
            self.registry.at(now).visit_seconds(&self.cursor, |visited| reading.visit(visited));
        reading.finish_node();
        let Reading { seconds, rows, mut lifetime, finished: mut in_finished, .. } = reading;
        lifetime += visit.delisted.counts();
        in_finished += &finished(&visit.delisted, &visit.unfinished);
        let number = self.readings;
        if !seconds.is_empty() {
            self.refusals.retain(|_, (last, _)| *last == number);
        }
        let names_len = names.len();
        let (mut undelivered, mut left_out) = (Vec::new(), 0);
        for (second, rows) in seconds.zip(rows) {
            let mut totals = EventCounts::default();
            for row in &rows {
                totals += &row.counts.metrics.counts;
            }
            self.read += &totals;
            let (bytes, out) = ProcessSecond::encode(second, rows, names_len, max_bytes);
            left_out = out;
            undelivered.push(Undelivered { second, totals, bytes, unread: EventCounts::default() });
        }
        self.account(&in_finished, &mut undelivered);
        Collected {
            seconds: undelivered,
            lifetime: lifetime.saturating_sub(&self.before),
            late: self.late,
            left_out,
        }
    }

    /// Finds where the counts are that are in finished seconds and were not read.
    fn account(&mut self, finished: &EventCounts, seconds: &mut [Undelivered]) {
        let mut rest = finished.saturating_sub(&self.before);
        for part in [&self.read, &self.unread] {
            rest = rest.saturating_sub(part);
        }
        let missed = self.cursor.missed();
        if mem::replace(&mut self.missed, missed) != missed
            && let Some(first) = seconds.first_mut()
        {
            // The window has left seconds behind that were not read.
            first.unread = rest.saturating_sub(&self.late);
            self.unread += &first.unread;
        } else {
            self.late = self.late.max(&rest);
        }
    }
}

/// A reading in progress.
struct Reading<'a> {
    now: Timestamp,
    number: u64,
    seconds: Range<u64>,
    /// The rows of each of the seconds.
    rows: Vec<Vec<Row>>,
    lifetime: EventCounts,
    /// The part of it in finished seconds.
    finished: EventCounts,
    names: &'a mut Names,
    refusals: &'a mut HashMap<ResourceKey, (u64, RefusedBefore)>,
    current: Option<Current>,
}

/// The node that was visited last.
struct Current {
    key: ResourceKey,
    /// Its refusals since the last reading.
    refused: Refusals,
    newest: FleetCounts,
    /// The counts in the seconds before the newest one, the oldest first.
    older: Vec<SecondMetrics>,
}

impl Reading<'_> {
    fn visit<C: Clock + Clone>(&mut self, visited: Visited<'_, C>) {
        match visited {
            Visited::Seconds(seconds) => {
                self.rows = seconds.clone().map(|_| Vec::new()).collect();
                self.seconds = seconds;
            }
            Visited::Node(node) => {
                self.finish_node();
                self.begin_node(&node);
            }
            Visited::Second(metrics) => {
                let newest = self.seconds.end.saturating_sub(1);
                if let Some(current) = &mut self.current {
                    if metrics.second.as_secs() == newest {
                        current.newest.metrics.clone_from(metrics);
                    } else {
                        current.older.push(metrics.clone());
                    }
                }
            }
            Visited::Delisted(second) => {
                self.finish_node();
                let context = second.context.as_ref();
                let key = ResourceKey::new(&second.name, context, second.traffic_type);
                self.add(key, second.metrics.clone(), Refusals::default());
            }
            Visited::DelistedRefusals(key, refused) => {
                self.finish_node();
                self.add_delisted_refusals(key, refused);
            }
            _ => {}
        }
    }

    fn begin_node<C: Clock + Clone>(&mut self, visited: &VisitedNode<'_, C>) {
        let node = visited.node;
        // In this order: what is recorded in between is not taken for late.
        let lifetime = node.lifetime();
        self.finished += &finished(&lifetime, &node.at(self.now).unfinished());
        self.lifetime += lifetime.counts();
        if self.seconds.is_empty() {
            return;
        }
        let key = ResourceKey::new(visited.name, visited.context, visited.traffic_type);
        let mut newest = FleetCounts::new(self.seconds.end - 1);
        newest.in_flight = node.concurrency();
        let refused = visited.refused;
        self.current = Some(Current { key, refused, newest, older: Vec::new() });
    }

    fn add(&mut self, key: ResourceKey, metrics: SecondMetrics, refusals: Refusals) {
        let index = metrics.second.as_secs().checked_sub(self.seconds.start);
        let index = index.and_then(|it| usize::try_from(it).ok());
        if let Some(rows) = index.and_then(|it| self.rows.get_mut(it)) {
            let counts = FleetCounts { metrics, refusals, in_flight: 0 };
            rows.push(Row { name: self.names.number(key), counts });
        }
    }

    /// Adds the refusals of a series that is no longer listed to its rows.
    fn add_delisted_refusals(&mut self, key: &SeriesKey, newly: Refusals) {
        let key = ResourceKey::new(&key.name, key.context.as_ref(), key.traffic_type);
        // Without a row, it needs no number. Rows without a name of their own may be of other
        // resources.
        let name = self.names.find(&key);
        let is_of_series = |row: &Row| Some(row.name) == name;
        let found = self.rows.iter_mut().filter_map(|rows| {
            Some(&mut rows.iter_mut().rev().find(|row| is_of_series(row))?.counts)
        });
        let mut found: Vec<_> = found.collect();
        let refused = found.iter().map(|it| it.metrics.counts[Block]).fold(0, u64::saturating_add);
        let (number, before) = self.refusals.entry(key).or_default();
        *number = self.number;
        let mut rest = before.read(newly, refused);
        for counts in &mut found {
            counts.refusals = rest.next(counts.metrics.counts[Block]);
        }
    }

    /// Adds the rows of the node.
    fn finish_node(&mut self) {
        let Some(Current { key, refused: newly, mut newest, older }) = self.current.take() else {
            return;
        };
        let refused = older.iter().map(|it| it.counts[Block]).chain([newest.metrics.counts[Block]]);
        let refused = refused.fold(0, u64::saturating_add);
        let (number, before) = self.refusals.entry(key.clone()).or_default();
        *number = self.number;
        let mut rest = before.read(newly, refused);
        for metrics in older {
            let refusals = rest.next(metrics.counts[Block]);
            self.add(key.clone(), metrics, refusals);
        }
        newest.refusals = rest.next(newest.metrics.counts[Block]);
        if let Some(rows) = self.rows.last_mut()
            && !newest.is_empty()
        {
            rows.push(Row { name: self.names.number(key), counts: newest });
        }
    }
}

/// Returns what of the lifetime is in seconds that are over.
fn finished(lifetime: &MetricTotals, unfinished: &MetricTotals) -> EventCounts {
    lifetime.counts().saturating_sub(unfinished.counts())
}

/// Reads both at one time: the lifetime has all counts of the seconds that are not over, and no
/// other ones of these. If threads record all the time, the last try is taken.
fn coherent<C: Clock + Clone>(
    node: &ResourceNode<C>,
    now: Timestamp,
) -> (EventCounts, EventCounts) {
    let mut lifetime = node.lifetime();
    let mut unfinished = node.at(now).unfinished();
    for _ in 0..MAX_TRIES {
        let again = node.lifetime();
        if again == lifetime {
            break;
        }
        lifetime = again;
        unfinished = node.at(now).unfinished();
    }
    (*lifetime.counts(), *unfinished.counts())
}
