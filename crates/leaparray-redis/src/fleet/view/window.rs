//! Some seconds of the fleet, added up.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use leaparray::MetricEvent;

use super::super::ProcessId;
use super::super::counts::FleetCounts;
use super::super::names::{PooledKey, ResourceKey};
use super::second::{Part, ResourceSum, SecondOfFleet};
use super::sum::Sum;
use super::{FleetView, Process, ProcessState};

/// How complete a second is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Standing {
    /// A live process has not delivered it yet, or its end was less than
    /// [`grace`](super::super::FleetConfig::grace) ago, or the server has lost its data and may not
    /// know all processes.
    Waiting,
    /// Every live process has delivered it, or will not. A lost process may still do so, if it
    /// comes back before the [deadline](super::super::FleetConfig::delivery). A second stays final
    /// for a reader that has found it so.
    Final,
    /// The deadline has passed, and all was read that had been delivered by then. Nothing can
    /// change any more.
    Closed,
}

impl Standing {
    /// Returns whether every live process is past the second.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Final | Self::Closed)
    }
}

/// How many processes a sum has.
///
/// ```
/// use leaparray_redis::fleet::Presence;
///
/// assert_eq!(Presence { present: 97, expected: 100 }.to_string(), "97 of 100 processes");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two numbers are all")]
pub struct Presence {
    /// The processes of which all seconds are in the sum.
    pub present: u64,
    /// The processes that had a second.
    pub expected: u64,
}

impl std::fmt::Display for Presence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let noun = if self.expected == 1 { "process" } else { "processes" };
        write!(f, "{} of {} {noun}", self.present, self.expected)
    }
}

/// Some seconds of the fleet, added up: plain data.
///
/// ```
/// # use leaparray::{MetricEvent, TrafficType};
/// # use leaparray_redis::fleet::{
/// #     Archive, FleetConfig, FleetCounts, FleetView, Outbox, ProcessId, ResourceKey,
/// # };
/// #
/// # const MICROS: u64 = 1_000_000;
/// # let config = FleetConfig::default();
/// # let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
/// #
/// # // Two processes, which deliver their second 60 and leave.
/// # for (id, passes) in [(1, 3), (2, 4)] {
/// #     let mut outbox = Outbox::new(config, ProcessId(id), &format!("web-{id}"), 60, 1 << 20);
/// #     let mut counts = FleetCounts::default();
/// #     counts.metrics.counts[MetricEvent::Pass] = passes;
/// #     let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
/// #     let (second, _) = outbox.encode(60, [(key, counts)], 16 * 1024);
/// #     outbox.push(second);
/// #     outbox.leave();
/// #     let receipt = server.deliver(61 * MICROS, &outbox.delivery(61 * MICROS));
/// #     outbox.on_receipt(61 * MICROS, &receipt);
/// # }
/// #
/// # // The reader, until `lost_after`: any other process would have reached the server.
/// # for now in [62, 64, 66].map(|it| it * MICROS) {
/// #     view.on_survey(&server.survey(now));
/// #     while let Some(fetch) = view.wanted() {
/// #         let found = server.second(now, fetch.second, &fetch.processes);
/// #         view.on_fetched(&fetch, &found);
/// #         let wanted = view.wanted_names();
/// #         let names = wanted.iter().map(|it| server.names(it.process, it.from, it.count));
/// #         view.on_names(&wanted, &names.collect::<Vec<_>>());
/// #     }
/// # }
/// // Of a view that has read second 60 of two processes, with 3 and 4 requests: see `FleetView`.
/// let window = view.window(60..61);
/// assert!(window.standing.is_final());
/// assert_eq!((window.presence.present, window.presence.expected), (2, 2));
/// assert_eq!(window.total.metrics.counts[MetricEvent::Pass], 7);
/// assert_eq!((window.resources.len(), window.processes.len()), (1, 2));
/// assert_eq!((window.left_out_rows, window.left_out_unnamed), (0, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FleetWindow {
    /// The seconds since the Unix epoch, by the clocks of the processes.
    pub seconds: Range<u64>,
    /// How complete the least complete of the seconds is.
    pub standing: Standing,
    /// How many processes are in it.
    pub presence: Presence,
    /// The sum of all resources in all processes.
    pub total: FleetCounts,
    /// The resources and their contexts, by name. A resource without a row in any process is among
    /// them, with counts of zero.
    pub resources: Vec<ResourceRow>,
    /// The processes, by name.
    pub processes: Vec<ProcessRow>,
    /// The sum of the resources for which there was no room: they are in the total and in their
    /// processes.
    pub left_out: FleetCounts,
    /// How often a process had no row for a resource in a second.
    pub left_out_rows: u64,
    /// How often of these the process had no room for the name either: any resource may lack its
    /// counts.
    pub left_out_unnamed: u64,
}

/// A resource of the fleet, in a [`FleetWindow`].
///
/// ```
/// # use leaparray::{MetricEvent, TrafficType};
/// # use leaparray_redis::fleet::{
/// #     Archive, FleetConfig, FleetCounts, FleetView, Outbox, ProcessId, ResourceKey,
/// # };
/// #
/// # const MICROS: u64 = 1_000_000;
/// # let config = FleetConfig::default();
/// # let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
/// #
/// # // Two processes, which deliver their second 60 and leave.
/// # for (id, passes) in [(1, 3), (2, 4)] {
/// #     let mut outbox = Outbox::new(config, ProcessId(id), &format!("web-{id}"), 60, 1 << 20);
/// #     let mut counts = FleetCounts::default();
/// #     counts.metrics.counts[MetricEvent::Pass] = passes;
/// #     let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
/// #     let (second, _) = outbox.encode(60, [(key, counts)], 16 * 1024);
/// #     outbox.push(second);
/// #     outbox.leave();
/// #     let receipt = server.deliver(61 * MICROS, &outbox.delivery(61 * MICROS));
/// #     outbox.on_receipt(61 * MICROS, &receipt);
/// # }
/// #
/// # // The reader, after `lost_after`: any other process would have reached the server.
/// # let now = 66 * MICROS;
/// # view.on_survey(&server.survey(now));
/// # while let Some(fetch) = view.wanted() {
/// #     let found = server.second(now, fetch.second, &fetch.processes);
/// #     view.on_fetched(&fetch, &found);
/// #     let wanted = view.wanted_names();
/// #     let names = wanted.iter().map(|it| server.names(it.process, it.from, it.count));
/// #     view.on_names(&wanted, &names.collect::<Vec<_>>());
/// # }
/// // Of a view that has read second 60 of two processes, with 3 and 4 requests: see `FleetView`.
/// let row = &view.window(60..61).resources[0];
/// assert_eq!((&*row.key.name, row.key.is_outbound), ("search", false));
/// assert_eq!(row.counts.metrics.counts[MetricEvent::Pass], 7);
/// assert_eq!((row.processes, row.left_out), (2, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceRow {
    /// The resource.
    pub key: ResourceKey,
    /// The sum of all processes.
    pub counts: FleetCounts,
    /// The highest number of processes with this resource in one of the seconds.
    pub processes: u64,
    /// How often a process had no room for it in a second. If this is not 0, the counts and the
    /// response times are those of the other processes and seconds, and the counts are lower
    /// bounds.
    pub left_out: u64,
}

/// A process of the fleet, in a [`FleetWindow`]. It has `expected` = `present` + `waiting` +
/// `missing` seconds.
///
/// ```
/// # use leaparray::{MetricEvent, TrafficType};
/// # use leaparray_redis::fleet::{
/// #     Archive, FleetConfig, FleetCounts, FleetView, Outbox, ProcessId, ResourceKey,
/// # };
/// #
/// # const MICROS: u64 = 1_000_000;
/// # let config = FleetConfig::default();
/// # let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
/// #
/// # // Two processes, which deliver their second 60 and leave.
/// # for (id, passes) in [(1, 3), (2, 4)] {
/// #     let mut outbox = Outbox::new(config, ProcessId(id), &format!("web-{id}"), 60, 1 << 20);
/// #     let mut counts = FleetCounts::default();
/// #     counts.metrics.counts[MetricEvent::Pass] = passes;
/// #     let key = ResourceKey::new(&"search".into(), None, TrafficType::Inbound);
/// #     let (second, _) = outbox.encode(60, [(key, counts)], 16 * 1024);
/// #     outbox.push(second);
/// #     outbox.leave();
/// #     let receipt = server.deliver(61 * MICROS, &outbox.delivery(61 * MICROS));
/// #     outbox.on_receipt(61 * MICROS, &receipt);
/// # }
/// #
/// # // The reader, after `lost_after`: any other process would have reached the server.
/// # let now = 66 * MICROS;
/// # view.on_survey(&server.survey(now));
/// # while let Some(fetch) = view.wanted() {
/// #     let found = server.second(now, fetch.second, &fetch.processes);
/// #     view.on_fetched(&fetch, &found);
/// #     let wanted = view.wanted_names();
/// #     let names = wanted.iter().map(|it| server.names(it.process, it.from, it.count));
/// #     view.on_names(&wanted, &names.collect::<Vec<_>>());
/// # }
/// // Of a view that has read second 60 of two processes, with 3 and 4 requests: see `FleetView`.
/// let row = &view.window(60..61).processes[1];
/// assert_eq!((&*row.name, row.id), ("web-2", ProcessId(2)));
/// assert_eq!(row.counts.metrics.counts[MetricEvent::Pass], 4);
/// assert_eq!((row.expected, row.present, row.waiting, row.missing), (1, 1, 0, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProcessRow {
    /// The process.
    pub id: ProcessId,
    /// Its name.
    pub name: Arc<str>,
    /// Its current state.
    pub state: ProcessState,
    /// The sum of all its resources.
    pub counts: FleetCounts,
    /// The number of its seconds.
    pub expected: u64,
    /// The number of its seconds that are in the sum.
    pub present: u64,
    /// The number of its seconds that are still to come.
    pub waiting: u64,
    /// The number of its seconds that were missed, or that a lost process has not delivered.
    pub missing: u64,
}

impl FleetWindow {
    /// Returns the rate of an event per second: the count in the [total](Self::total), divided by
    /// the number of [`seconds`](Self::seconds).
    ///
    /// The divisor is the same if processes or whole seconds are missing in the total. So the rate
    /// is a lower bound if [`presence`](Self::presence) has not all processes, or if the
    /// [`standing`](Self::standing) is waiting: for example if the reader has skipped seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a relative error of some 10⁻¹⁶")]
    pub fn rate(&self, event: MetricEvent) -> f64 {
        let counts = &self.total.metrics.counts;
        let count = match event {
            MetricEvent::Rt => counts.rt_sum().as_nanos() as f64,
            event => counts[event] as f64,
        };
        count / self.len()
    }

    #[expect(clippy::cast_precision_loss, reason = "it is far below 2^52")]
    fn len(&self) -> f64 {
        (self.seconds.end - self.seconds.start).max(1) as f64
    }
}

/// The state of a second of a process.
enum Due<'a> {
    Present(&'a Sum),
    Waiting,
    Missing,
}

impl FleetView {
    /// Returns the newest second that is final; `None` if there is none.
    #[must_use]
    pub fn newest_final(&self) -> Option<u64> {
        let states = self.states();
        let mut seconds = self.seconds.values().rev();
        seconds.find(|it| self.standing(it, &states).is_final()).map(SecondOfFleet::second)
    }

    /// Returns the newest second that is final.
    #[must_use]
    pub fn last_second(&self) -> Option<FleetWindow> {
        self.newest_final().map(|it| self.window(it..it + 1))
    }

    /// Returns the last minute, or the whole [`history`](super::super::FleetConfig::history) if it
    /// is shorter, up to the newest second that is final. A fleet that is younger has fewer
    /// seconds.
    ///
    /// A reader that is slower than the fleet skips seconds (see [`wanted`](Self::wanted)). They
    /// belong to the minute and are not in its sums: the [`standing`](FleetWindow::standing) is
    /// [`Waiting`](Standing::Waiting), the [`presence`](FleetWindow::presence) counts a process
    /// with a skipped second as expected and not as present, and [`rate`](FleetWindow::rate) is too
    /// low. [`last_second`](Self::last_second) is complete, but not of each second.
    #[must_use]
    pub fn last_minute(&self) -> Option<FleetWindow> {
        let end = self.newest_final()? + 1;
        let len = u64::from(self.config.history()).min(60);
        let first = self.seconds.keys().next().copied().unwrap_or(end);
        Some(self.window(end.saturating_sub(len).max(first)..end))
    }

    /// Returns the sum of some seconds. A second that the view does not have counts as one that is
    /// waited for.
    #[must_use]
    pub fn window(&self, seconds: Range<u64>) -> FleetWindow {
        let states = self.states();
        let mut standing = Standing::Closed;
        let mut window = FleetWindow {
            standing,
            presence: Presence::default(),
            total: FleetCounts::new(seconds.start),
            resources: Vec::new(),
            processes: Vec::new(),
            left_out: FleetCounts::new(seconds.start),
            left_out_rows: 0,
            left_out_unnamed: 0,
            seconds: seconds.clone(),
        };
        let mut resources = HashMap::<&PooledKey, ResourceRow>::new();
        let mut processes = BTreeMap::<ProcessId, ProcessRow>::new();
        for number in seconds.clone() {
            let Some(second) = self.seconds.get(&number) else {
                standing = Standing::Waiting;
                continue;
            };
            standing = standing.min(self.standing(second, &states));
            for (key, sum) in second.resources().iter() {
                resources
                    .entry(key)
                    .or_insert_with(|| ResourceRow::new(key, number))
                    .add(sum, number);
            }
            for (id, process, state) in states.iter().filter(|it| it.1.record.covers(number)) {
                let row = processes
                    .entry(*id)
                    .or_insert_with(|| ProcessRow::new(*id, process, *state, number));
                row.add(&self.due(second, *id, process, *state), number);
            }
            let left_out = second.left_out();
            window.left_out.add_later(&left_out.counts);
            window.left_out_rows = window.left_out_rows.saturating_add(left_out.rows);
            window.left_out_unnamed = window.left_out_unnamed.saturating_add(left_out.unnamed);
        }
        window.standing = standing;
        // Requests in flight are those of the newest second.
        let newest = seconds.end.checked_sub(1).and_then(|it| self.seconds.get(&it));
        for (key, mut row) in resources {
            let newest = newest.and_then(|it| it.resources().get(key));
            row.counts.in_flight = newest.map_or(0, |it| it.sum.in_flight());
            window.resources.push(row);
        }
        window.resources.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        for (id, row) in &mut processes {
            row.counts.in_flight = match newest.and_then(|it| it.part(*id)) {
                Some(Part::Added(sum)) => sum.in_flight(),
                _ => 0,
            };
            window.total.add(&row.counts);
            window.presence.expected += 1;
            window.presence.present += u64::from(row.present == row.expected);
        }
        let strangers = self.strangers.values().filter(|it| it.is_expected);
        window.presence.expected += strangers.count() as u64;
        window.left_out.in_flight = newest.map_or(0, |it| it.left_out().counts.in_flight);
        window.processes = processes.into_values().collect();
        window.processes.sort_by(|one, other| one.name.cmp(&other.name));
        window
    }

    fn states(&self) -> Vec<(ProcessId, &Process, ProcessState)> {
        let heard = self.heard();
        self.processes.iter().map(|(id, it)| (*id, it, self.state_at(it, heard))).collect()
    }

    /// Returns how complete a second is. `states` are those of all processes.
    fn standing(
        &self,
        second: &SecondOfFleet,
        states: &[(ProcessId, &Process, ProcessState)],
    ) -> Standing {
        let number = second.second();
        let mut covering = states.iter().filter(|it| it.1.record.covers(number));
        let is_waiting = covering.any(|(id, process, state)| {
            matches!(self.due(second, *id, process, *state), Due::Waiting)
        });
        // No process joins with it after that.
        let is_complete = self.config.settling(number) <= self.complete;
        if is_waiting || !is_complete {
            Standing::Waiting
        } else if second.was_closed()
            || self.now >= self.config.deadline(number) && second.is_read()
        {
            Standing::Closed
        } else {
            Standing::Final
        }
    }

    /// Notes which seconds are final or closed: they stay so after the next survey, also if a lost
    /// process comes back, or if the server has lost its data.
    pub(super) fn keep_final(&mut self) {
        let states = self.states();
        let open = self.seconds.values().filter(|it| !it.was_closed());
        let standings = open.map(|it| (it.second(), self.standing(it, &states)));
        let finals: Vec<_> = standings.filter(|(_, standing)| standing.is_final()).collect();
        for (second, standing) in finals {
            if let Some(it) = self.seconds.get_mut(&second) {
                it.set_final();
                if standing == Standing::Closed {
                    it.set_closed();
                }
            }
        }
    }

    fn due<'a>(
        &self,
        second: &'a SecondOfFleet,
        id: ProcessId,
        process: &Process,
        state: ProcessState,
    ) -> Due<'a> {
        let number = second.second();
        let is_past = process.record.next > number;
        let is_closed = self.now >= self.config.deadline(number);
        match second.part(id) {
            Some(Part::Added(sum)) => Due::Present(sum),
            Some(Part::Missing) => Due::Missing,
            // It was lost when the second was final. If it is back, its part may still be added.
            _ if second.was_final() => Due::Missing,
            // The server has it until it forgets it, and it will be read.
            Some(Part::Unnamed(_)) | None if is_past && self.now < self.config.expiry(number) => {
                Due::Waiting
            }
            _ if is_closed || state == ProcessState::Lost => Due::Missing,
            _ => Due::Waiting,
        }
    }
}

impl ResourceRow {
    fn new(key: &PooledKey, first: u64) -> Self {
        let (key, counts) = (key.key().clone(), FleetCounts::new(first));
        Self { key, counts, processes: 0, left_out: 0 }
    }

    fn add(&mut self, sum: &ResourceSum, second: u64) {
        sum.sum.add_to(&mut self.counts, second);
        self.processes = self.processes.max(sum.processes);
        self.left_out += sum.left_out;
    }
}

impl ProcessRow {
    fn new(id: ProcessId, process: &Process, state: ProcessState, first: u64) -> Self {
        let (name, counts) = (Arc::clone(&process.name), FleetCounts::new(first));
        Self { id, name, state, counts, expected: 0, present: 0, waiting: 0, missing: 0 }
    }

    fn add(&mut self, due: &Due<'_>, second: u64) {
        self.expected += 1;
        match due {
            Due::Present(sum) => {
                self.present += 1;
                sum.add_to(&mut self.counts, second);
            }
            Due::Waiting => self.waiting += 1,
            Due::Missing => self.missing += 1,
        }
    }
}
