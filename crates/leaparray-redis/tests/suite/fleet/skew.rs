//! Processes whose clocks differ from the clock of the server.

use leaparray::EventCounts;
use leaparray::MetricEvent::Pass;
use leaparray_redis::fleet::{
    Archive, FleetConfig, FleetCounts, FleetView, Outbox, Outcome, ProcessId, ResourceKey, Standing,
};

use crate::fleet::parts::read;

const MICROS: u64 = 1_000_000;
const FIRST: u64 = 1_000;

fn outbox(process: u64, first: u64) -> Outbox {
    Outbox::new(FleetConfig::default(), ProcessId(process), "web", first, 1 << 20)
}

/// Adds a second with one request.
fn push(outbox: &mut Outbox, second: u64) {
    let mut counts = FleetCounts::default();
    counts.metrics.counts[Pass] = 1;
    let key = ResourceKey::new(&"search".into(), None, leaparray::TrafficType::Inbound);
    let (undelivered, _) = outbox.encode(second, [(key, counts)], 1_024);
    outbox.push(undelivered);
    let mut lifetime = outbox.record().lifetime;
    lifetime[Pass] += 1;
    outbox.set_totals(lifetime, EventCounts::default());
}

/// Delivers until nothing more can be sent. The clock of the process is ahead of the server's
/// `now`. Returns the number of deliveries.
fn deliver(archive: &mut Archive, outbox: &mut Outbox, now: u64, ahead: i64) -> usize {
    let clock = now.saturating_add_signed(ahead);
    for deliveries in 1..20 {
        let receipt = archive.deliver(now, &outbox.delivery(clock));
        if !outbox.on_receipt(clock, &receipt) {
            return deliveries;
        }
    }
    panic!("deliveries do not end: {:?}", outbox.record());
}

/// A process whose clock is behind joins with a later second than the ones that it reads next.
#[test]
fn seconds_before_the_first_one_are_missed() {
    let mut archive = Archive::new(FleetConfig::default());
    let mut outbox = outbox(1, FIRST);
    let (now, behind) = ((FIRST + 10) * MICROS, -10 * MICROS.cast_signed());
    deliver(&mut archive, &mut outbox, now, behind);
    let first = outbox.record().first;
    assert!(first > FIRST + 1, "{first}");
    push(&mut outbox, FIRST);
    deliver(&mut archive, &mut outbox, now + MICROS, behind);
    let record = outbox.record();
    assert_eq!((record.delivered.0, record.missed.0, record.missed.1[Pass]), (0, 1, 1));
    assert_eq!(archive.second(now + MICROS, FIRST, &[ProcessId(1)]), [None]);
}

/// The server takes the seconds of a clock that is ahead later, one after the other.
#[test]
fn clock_ahead_delivers_each_second_once_it_is_open() {
    let config = FleetConfig::default();
    let mut archive = Archive::new(config);
    let ahead = 10 * MICROS.cast_signed();
    let mut outbox = outbox(1, FIRST);
    deliver(&mut archive, &mut outbox, (FIRST - 10) * MICROS, ahead);
    for second in FIRST..FIRST + 40 {
        push(&mut outbox, second);
        // The second is just over, by the clock of the process.
        let now = (second + 1) * MICROS - ahead.cast_unsigned();
        let deliveries = deliver(&mut archive, &mut outbox, now, ahead);
        assert!(deliveries <= 2, "second {second}: {deliveries}");
        let delivered = (second + 3).saturating_sub(FIRST + 10);
        let waiting = second + 1 - FIRST - delivered;
        let record = outbox.record();
        if second > FIRST {
            assert_eq!((record.delivered.0, record.waiting[Pass]), (delivered, waiting));
        }
    }
}

/// A server that has lost its data does not know all processes of an old second.
#[test]
fn no_second_is_closed_before_all_processes_are_known() {
    let config = FleetConfig::default();
    let mut archive = Archive::new(config);
    let mut processes = [outbox(1, FIRST), outbox(2, FIRST)];
    for second in FIRST..FIRST + 50 {
        for process in &mut processes {
            push(process, second);
            deliver(&mut archive, process, (second + 1) * MICROS, 0);
        }
    }
    let mut archive = Archive::new(config);
    let now = (FIRST + 51) * MICROS;
    let standing = |archive: &mut Archive, now| {
        let mut view = FleetView::new(config);
        read(&mut view, archive, now);
        let window = view.window(FIRST + 10..FIRST + 11);
        (window.standing, window.processes.len())
    };
    deliver(&mut archive, &mut processes[0], now, 0);
    assert_eq!(standing(&mut archive, now), (Standing::Waiting, 1));
    deliver(&mut archive, &mut processes[1], now + 2 * MICROS, 0);
    deliver(&mut archive, &mut processes[1], now + 4 * MICROS, 0);
    assert_eq!(standing(&mut archive, now + 5 * MICROS), (Standing::Closed, 2));
}

/// The answer to the join is lost, and then the server loses its data.
#[test]
fn process_that_joins_again_keeps_the_seconds_that_were_read() {
    let config = FleetConfig::default();
    let mut archive = Archive::new(config);
    let (mut outbox, mut view) = (outbox(1, FIRST), FleetView::new(config));
    push(&mut outbox, FIRST);
    let now = (FIRST + 1) * MICROS;
    assert_eq!(archive.deliver(now, &outbox.delivery(now)).outcome, Outcome::Taken);
    let now = (FIRST + 6) * MICROS;
    read(&mut view, &mut archive, now);
    let mut archive = Archive::new(config);
    deliver(&mut archive, &mut outbox, now, 0);
    assert!(outbox.record().first > FIRST);
    push(&mut outbox, FIRST + 6);
    deliver(&mut archive, &mut outbox, now + MICROS, 0);
    read(&mut view, &mut archive, now + MICROS);
    let window = view.window(FIRST..FIRST + 1);
    assert_eq!((window.presence.present, window.total.metrics.counts[Pass]), (1, 1));
    let of_resources: u64 = window.resources.iter().map(|it| it.counts.metrics.counts[Pass]).sum();
    assert_eq!(of_resources, 1);
}
