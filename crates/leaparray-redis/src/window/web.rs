//! The window over a fleet for the live page.

use std::collections::HashSet;

use leaparray::node::Refusals;
use leaparray::{Clock, MonotonicClock};
use leaparray_web::format::{
    Counts, Direction, Fleet, FleetLedger, FleetProcess, FleetProcessRow, FleetProcessState,
    FleetResourceRow, FleetStanding, FleetSum,
};

use super::reader::FleetReader;
use super::state::FleetState;
use crate::fleet::{
    FleetCounts, FleetWindow, ProcessId, ProcessRow, ProcessState, Record, ResourceRow, Standing,
};

impl FleetReader {
    /// Returns the fleet as `Page::fleet` of the crate `leaparray-web` shows it: the newest final
    /// second and the last minute, with the number of processes in them, for each process where
    /// everything is that it has recorded, and how many records and seconds could not be read.
    ///
    /// It reads what is in memory. The page calls it once a second while there are viewers. Before
    /// the first second is final, there are only the processes and the state of the connection.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, Registry, RegistryConfig, Timestamp};
    /// use leaparray_redis::engine::MemoryFleet;
    /// use leaparray_redis::{FleetReader, FleetReporter, FleetState};
    /// use leaparray_web::{Access, Page, Token};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let clock = ManualClock::new(Timestamp::from_secs(3_600));
    /// let engine = Arc::new(MemoryFleet::with_clock(clock.clone()));
    /// let service = Arc::new(Registry::with_clock(RegistryConfig::default(), clock.clone()));
    /// let builder = FleetReporter::builder("shop", "orders-1");
    /// let reporter = builder.start(&service, Arc::clone(&engine))?;
    /// reporter.watch().wait_for(|it| *it == FleetState::Connected).await?;
    /// service.resource("GET /orders")?.enter().success();
    /// clock.advance(Duration::from_secs(1));
    /// reporter.close().await;
    ///
    /// let reader = Arc::new(FleetReader::builder("shop").start(engine)?);
    /// // As it does once a second.
    /// for _ in 0..2 {
    ///     clock.advance(Duration::from_secs(2));
    ///     reader.poll().await?;
    /// }
    /// let fleet = reader.to_web();
    /// assert_eq!((fleet.name.as_str(), fleet.newest_final), ("shop", Some(3_602)));
    /// let minute = fleet.last_minute.expect("a second is final");
    /// let succeeded = minute.total.events[MetricEvent::Success];
    /// assert_eq!((minute.present, minute.expected, succeeded), (1, 1, 1));
    ///
    /// // The page of the service, and of its fleet.
    /// let token = Token::random();
    /// let page = Page::new(service.clone(), Access::token(&token));
    /// let page = page.fleet(move || Some(reader.to_web()));
    /// # let _ = page.into_service();
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_web(&self) -> Fleet {
        let mut fleet = Fleet::new(self.keys().name());
        fleet.server = words(&self.state());
        let (second, minute) = self.with(|view| {
            fleet.processes = view.processes().map(process).collect();
            fleet.unreadable = view.unreadable();
            (view.last_second(), view.last_minute())
        });
        // Requests in flight are those of the newest second.
        let absent = second.iter().flat_map(|it| &it.processes).filter(|it| it.present == 0);
        let absent: HashSet<ProcessId> = absent.map(|it| it.id).collect();
        fleet.newest_final = second.as_ref().map(|it| it.seconds.start);
        fleet.last_second = second.as_ref().map(|it| window(it, &absent));
        fleet.last_minute = minute.as_ref().map(|it| window(it, &absent));
        fleet
    }
}

/// Returns the state in words. The clock is the one by which the task of the reader notes it.
fn words(state: &FleetState) -> String {
    match state {
        FleetState::Away { since, error } => {
            let seconds = MonotonicClock::new().now().saturating_since(*since).as_secs();
            format!("away for {seconds} s: {error}")
        }
        _ => state.name().to_owned(),
    }
}

fn process((id, record, state): (ProcessId, &Record, ProcessState)) -> FleetProcess {
    let state = match state {
        ProcessState::Live => FleetProcessState::Live,
        ProcessState::Left => FleetProcessState::Left,
        ProcessState::Lost => FleetProcessState::Lost,
    };
    let mut process = FleetProcess::new(id.to_string(), record.name.as_str(), state);
    process.ledger = ledger(record);
    process
}

fn ledger(record: &Record) -> FleetLedger {
    let mut ledger = FleetLedger::default();
    let FleetLedger { delivered, missed, late, waiting, unfinished, lifetime, .. } = &mut ledger;
    *delivered = (&record.delivered.1).into();
    *missed = (&record.missed.1).into();
    *late = (&record.late).into();
    *waiting = (&record.waiting).into();
    *unfinished = (&record.unfinished()).into();
    *lifetime = (&record.lifetime).into();
    ledger
}

/// Returns a window. `absent`: the processes that are not in the newest second.
fn window(of: &FleetWindow, absent: &HashSet<ProcessId>) -> FleetSum {
    let standing = match of.standing {
        Standing::Waiting => FleetStanding::Waiting,
        Standing::Final => FleetStanding::Final,
        Standing::Closed => FleetStanding::Closed,
    };
    let mut window = FleetSum::new(of.seconds.clone(), standing);
    (window.present, window.expected) = (of.presence.present, of.presence.expected);
    (window.total, window.refusals) = (counts(&of.total), by_reason(&of.total.refusals));
    window.resources = of.resources.iter().map(resource_row).collect();
    let row = |it: &ProcessRow| process_row(it, absent.contains(&it.id));
    window.processes = of.processes.iter().map(row).collect();
    (window.left_out, window.left_out_rows) = (counts(&of.left_out), of.left_out_rows);
    window.left_out_unnamed = of.left_out_unnamed;
    window
}

fn resource_row(of: &ResourceRow) -> FleetResourceRow {
    let mut row = FleetResourceRow::new(&*of.key.name, counts(&of.counts));
    row.context = of.key.context.as_deref().map(Into::into);
    row.direction = if of.key.is_outbound { Direction::Out } else { Direction::In };
    (row.processes, row.left_out) = (of.processes, of.left_out);
    row.refusals = by_reason(&of.counts.refusals);
    row
}

fn process_row(of: &ProcessRow, is_absent: bool) -> FleetProcessRow {
    let mut row = FleetProcessRow::new(of.id.to_string(), counts(&of.counts));
    (row.present, row.missing, row.waiting) = (of.present, of.missing, of.waiting);
    if is_absent {
        row.counts.in_flight = None;
    }
    row
}

fn counts(of: &FleetCounts) -> Counts {
    let mut counts = Counts::from(&of.metrics);
    counts.in_flight = Some(of.in_flight);
    counts
}

/// Returns the refusals in the order of `reasons` of the page; an empty list if there are none.
fn by_reason(refusals: &Refusals) -> Vec<u64> {
    if refusals.sum() == 0 {
        return Vec::new();
    }
    refusals.iter().map(|(_, count)| count).collect()
}
