//! The windows of a reader.

use leaparray::Entry;
use leaparray::MetricEvent::{Pass, Success};
use leaparray_redis::fleet::{Archive, FleetConfig, FleetView, ProcessId, ProcessState, Standing};

use crate::fleet::parts::{Process, START, micros, read, read_wanted};

fn fleet() -> (Archive, FleetView) {
    let config = FleetConfig::default();
    (Archive::new(config), FleetView::new(config))
}

/// Processes that have joined before the first second that the tests look at, so that the server
/// has known them for long.
fn joined(server: &mut Archive, count: u64) -> Vec<Process> {
    let mut all: Vec<_> = (1..=count).map(|id| Process::new(id, START - 10)).collect();
    for _ in 0..10 {
        for process in &mut all {
            process.deliver(server);
            process.next_second();
            process.deliver(server);
        }
    }
    all
}

/// Moves all processes to the next second. The first `count` of them deliver the one before.
fn step(server: &mut Archive, processes: &mut [Process], count: usize) {
    for (index, process) in processes.iter_mut().enumerate() {
        process.next_second();
        if index < count {
            process.deliver(server);
        }
    }
}

#[test]
fn window_is_the_sum_of_all_processes() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 3);
    for second in 0..2 {
        for (index, process) in processes.iter().enumerate() {
            process.work("orders", 10 * (index as u64 + 1) + second);
        }
        processes[2].work("users", 1);
        step(&mut server, &mut processes, 3);
    }
    let now = micros(START + 4);
    read(&mut view, &mut server, now);
    let window = view.window(START..START + 2);
    assert_eq!(
        (window.standing, window.presence.to_string()),
        (Standing::Final, "3 of 3 processes".into())
    );
    assert_eq!(
        (window.total.metrics.counts[Pass], window.total.metrics.counts[Success]),
        (125, 125)
    );
    let resources: Vec<_> = window
        .resources
        .iter()
        .map(|it| (&*it.key.name, it.counts.metrics.counts[Pass], it.processes))
        .collect();
    assert_eq!(resources, [("orders", 123, 3), ("users", 2, 1)]);
    let of_processes: Vec<_> =
        window.processes.iter().map(|it| (&*it.name, it.counts.metrics.counts[Pass])).collect();
    assert_eq!(of_processes, [("process-1", 21), ("process-2", 41), ("process-3", 63)]);
    assert!((window.rate(Pass) - 62.5).abs() < 1e-9);
    let p99 = window.total.quantile(0.99).unwrap().as_secs_f64();
    assert!((p99 / 0.001 - 1.0).abs() < 0.03, "{p99}");
    assert_eq!(window.total.metrics.histogram.as_ref().unwrap().count(), 125);
    let second = view.window(START + 1..START + 2);
    assert_eq!(second.total.metrics.counts[Pass], 64);
}

#[test]
fn second_is_final_once_every_live_process_is_past_it() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 3);
    step(&mut server, &mut processes, 2);
    for late in 2..5 {
        read(&mut view, &mut server, micros(START + late));
        let window = view.window(START..START + 1);
        assert_eq!(window.standing, Standing::Waiting);
        assert_eq!(window.presence.to_string(), "2 of 3 processes");
        assert_eq!(view.newest_final(), Some(START - 1));
    }
    processes[2].deliver(&mut server);
    read(&mut view, &mut server, micros(START + 5));
    assert_eq!(view.newest_final(), Some(START));
    assert_eq!(view.last_second().unwrap().presence.to_string(), "3 of 3 processes");
}

#[test]
fn second_is_not_final_before_other_clocks_may_be_past_it() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 1);
    step(&mut server, &mut processes, 1);
    // A process may join until two seconds after its end.
    read(&mut view, &mut server, micros(START + 3) - 1);
    assert_eq!(view.window(START..START + 1).standing, Standing::Waiting);
    let mut late = Process::new(9, START);
    late.work("orders", 5);
    late.next_second();
    late.deliver_at(&mut server, micros(START + 3) - 1);
    read(&mut view, &mut server, micros(START + 3));
    let window = view.window(START..START + 1);
    assert_eq!((window.standing, window.total.metrics.counts[Pass]), (Standing::Final, 5));
}

#[test]
fn second_that_was_delivered_and_is_not_read_is_not_final() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    step(&mut server, &mut processes, 2);
    view.on_survey(&server.survey(micros(START + 3)));
    assert_eq!(view.newest_final(), None);
    read_wanted(&mut view, &mut server, micros(START + 3));
    assert_eq!(view.newest_final(), Some(START));
}

#[test]
fn lost_process_is_named_and_may_come_back_until_the_deadline() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    processes[1].work("orders", 3);
    for _ in 0..5 {
        step(&mut server, &mut processes, 1);
    }
    // The last delivery of the second process was at the time START.
    read(&mut view, &mut server, micros(START + 5));
    let states: Vec<_> = view.processes().map(|it| it.2).collect();
    assert_eq!(states, [ProcessState::Live, ProcessState::Lost]);
    let window = view.last_second().unwrap();
    assert_eq!((window.seconds.start, window.standing), (START + 2, Standing::Final));
    assert_eq!(window.presence.to_string(), "1 of 2 processes");
    assert_eq!((window.processes[1].missing, &*window.processes[1].name), (1, "process-2"));
    processes[1].deliver(&mut server);
    read(&mut view, &mut server, micros(START + 5));
    let window = view.window(START..START + 3);
    assert_eq!(
        (window.presence.to_string(), window.total.metrics.counts[Pass]),
        ("2 of 2 processes".into(), 3)
    );
    // From the deadline on, nothing changes any more.
    read(&mut view, &mut server, micros(START + 33));
    assert_eq!(view.window(START..START + 3).standing, Standing::Closed);
}

#[test]
fn processes_are_not_lost_because_the_server_was_away() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    for later in 1..=10 {
        step(&mut server, &mut processes, 0);
        read(&mut view, &mut server, micros(START + later));
    }
    assert!(view.processes().all(|it| it.2 == ProcessState::Live));
    assert_eq!(view.newest_final(), Some(START - 1));
    // The first one is back.
    processes[0].deliver(&mut server);
    read(&mut view, &mut server, micros(START + 10));
    assert!(view.processes().all(|it| it.2 == ProcessState::Live));
    assert_eq!(view.window(START..START + 1).standing, Standing::Waiting);
    processes[1].deliver(&mut server);
    for _ in 0..5 {
        step(&mut server, &mut processes, 2);
    }
    read(&mut view, &mut server, micros(START + 15));
    assert_eq!(view.newest_final(), Some(START + 12));
    assert_eq!(view.window(START..START + 10).presence.to_string(), "2 of 2 processes");
}

#[test]
fn process_that_has_left_is_not_waited_for() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    processes[1].work("orders", 3);
    processes[1].next_second();
    processes[1].outbox.leave();
    processes[1].deliver(&mut server);
    assert!(processes[1].outbox.is_done());
    for _ in 0..4 {
        step(&mut server, &mut processes[..1], 1);
    }
    read(&mut view, &mut server, micros(START + 4));
    assert_eq!(view.newest_final(), Some(START + 1));
    let presences = [START, START + 1].map(|it| view.window(it..it + 1).presence.to_string());
    assert_eq!(presences, ["2 of 2 processes", "1 of 1 process"]);
    assert_eq!(view.processes().last().unwrap().2, ProcessState::Left);
    assert_eq!(view.sum().delivered.1[Pass], 3);
}

#[test]
fn second_that_the_server_has_lost_is_missing() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 1);
    processes[0].work("orders", 3);
    step(&mut server, &mut processes, 1);
    let mut blank = Archive::new(FleetConfig::default());
    for _ in 0..10 {
        step(&mut blank, &mut processes, 1);
    }
    read(&mut view, &mut blank, micros(START + 11));
    let row = &view.window(START..START + 1).processes[0];
    assert_eq!((row.present, row.missing), (0, 1));
    assert_eq!(view.sum().delivered.1[Pass], 3, "the record knows of it");
}

#[test]
fn nothing_is_final_before_a_server_that_has_lost_its_data_knows_all_processes() {
    let mut server = Archive::new(FleetConfig::default());
    let mut processes = joined(&mut server, 2);
    let mut blank = Archive::new(FleetConfig::default());
    let mut view = FleetView::new(FleetConfig::default());
    // Only one of them has reached it.
    step(&mut blank, &mut processes, 1);
    for later in 3..6 {
        read(&mut view, &mut blank, micros(START + later));
        assert_eq!(view.newest_final(), None, "{later}");
    }
}

/// A replica is promoted that does not know the second process, and no process has reached it yet.
#[test]
fn nothing_is_final_before_a_silent_server_knows_all_processes() {
    let (mut server, mut known) = fleet();
    let mut processes = joined(&mut server, 2);
    read(&mut known, &mut server, micros(START));
    let second = ProcessId(2);
    let mut replica = Archive::new(FleetConfig::default());
    processes.truncate(1);
    for _ in 0..6 {
        step(&mut replica, &mut processes, 1);
    }
    assert!(replica.survey(micros(START + 6)).processes.iter().all(|it| it.process != second));
    // A new reader, and one that was there before.
    for mut view in [FleetView::new(FleetConfig::default()), known] {
        let last = view.newest_final();
        for later in [40, 42, 44] {
            read(&mut view, &mut replica, micros(START + later));
            assert_eq!(view.newest_final(), last, "{later}");
        }
        // Of the later ones, the deadline has not passed, and the first process is live.
        read(&mut view, &mut replica, micros(START + 45));
        assert_eq!(view.newest_final(), Some(START + 14));
    }
}

/// The server is silent when the reader asks, then a second process joins, and the server is away.
/// The replica that is promoted is of before the join, and has the deliveries that the reader
/// knows.
#[test]
fn nothing_is_final_after_a_second_silence_before_all_processes_are_known() {
    let (mut server, mut view) = fleet();
    joined(&mut server, 1);
    read(&mut view, &mut server, micros(START));
    // The silence is noticed.
    read(&mut view, &mut server, micros(START + 30));
    let mut replica = server.clone();
    let mut second = Process::new(2, START + 31);
    second.deliver(&mut server);
    assert_eq!(server.survey(micros(START + 31)).processes.len(), 2);
    let last = view.newest_final();
    for later in [70, 72, 74] {
        read(&mut view, &mut replica, micros(START + later));
        assert_eq!(view.newest_final(), last, "{later}");
    }
    // The second process is back.
    second.deliver_at(&mut replica, micros(START + 74));
    for later in 75..=79 {
        read(&mut view, &mut replica, micros(START + later));
    }
    assert!(view.newest_final() > last);
    let presence = view.window(START + 31..START + 32).presence;
    assert_eq!(presence.expected, 2);
}

/// The server loses its data and gets a delivery of the version that the reader knows: the process
/// had no answer to the first one.
#[test]
fn later_delivery_of_a_known_version_is_read() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 1);
    let it = &mut processes[0];
    // Taken, without an answer.
    drop(server.deliver(micros(START), &it.outbox.delivery(micros(START))));
    read(&mut view, &mut server, micros(START));
    it.work("orders", 3);
    it.next_second();
    let mut blank = Archive::new(FleetConfig::default());
    let delivery = it.outbox.delivery(micros(START + 1));
    drop(blank.deliver(micros(START + 1), &delivery));
    read(&mut view, &mut blank, micros(START + 1));
    assert_eq!(view.sum().delivered.1[Pass], 3);
}

#[test]
fn seconds_are_final_with_the_shortest_time_until_a_process_is_lost() {
    assert!(FleetConfig::default().with_lost_after(2).is_err());
    let config = FleetConfig::default().with_lost_after(3).unwrap();
    let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
    let mut process = Process::new(1, START);
    process.deliver(&mut server);
    for later in 1..20 {
        process.next_second();
        // A second after the last delivery, and up to 0.4 s earlier or later.
        let now = micros(START + later) + [0, 400_000][usize::from(later % 2 == 0)];
        process.deliver_at(&mut server, now);
        read(&mut view, &mut server, now);
        if later > 4 {
            assert_eq!(view.newest_final(), Some(START + later - 3));
        }
    }
}

#[test]
fn final_second_stays_final_when_the_server_loses_its_data() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    for _ in 0..4 {
        step(&mut server, &mut processes, 2);
    }
    read(&mut view, &mut server, micros(START + 4));
    assert_eq!(view.newest_final(), Some(START + 1));
    let mut blank = Archive::new(FleetConfig::default());
    for later in 5..10 {
        step(&mut blank, &mut processes, 2);
        read(&mut view, &mut blank, micros(START + later));
        assert_eq!(view.newest_final(), Some(START + 1), "{later}");
    }
    step(&mut blank, &mut processes, 2);
    read(&mut view, &mut blank, micros(START + 10));
    assert_eq!(view.newest_final(), Some(START + 7));
}

#[test]
fn final_second_stays_final_when_a_lost_process_comes_back() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    for _ in 0..20 {
        step(&mut server, &mut processes, 1);
    }
    read(&mut view, &mut server, micros(START + 20));
    assert_eq!(view.newest_final(), Some(START + 17));
    // Its first delivery has no room for all seconds.
    let delivery = processes[1].outbox.delivery(micros(START + 20));
    server.deliver(micros(START + 20), &delivery);
    read(&mut view, &mut server, micros(START + 20));
    assert!(view.processes().all(|it| it.2 == ProcessState::Live));
    assert_eq!(view.newest_final(), Some(START + 17));
    let presences = [START, START + 17].map(|it| view.window(it..it + 1).presence.to_string());
    assert_eq!(presences, ["2 of 2 processes", "1 of 2 processes"]);
}

/// The reader hears after the deadline that a lost process had come back before.
#[test]
fn second_is_not_closed_before_the_part_of_a_process_that_came_back_is_read() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    processes[1].work("orders", 3);
    for _ in 0..6 {
        step(&mut server, &mut processes, 1);
    }
    read(&mut view, &mut server, micros(START + 6));
    let shown = |view: &FleetView| {
        let window = view.window(START..START + 1);
        (window.standing, window.presence.to_string(), window.total.metrics.counts[Pass])
    };
    assert_eq!(shown(&view), (Standing::Final, "1 of 2 processes".into(), 0));
    processes[1].deliver(&mut server);
    let deadline = FleetConfig::default().deadline(START);
    view.on_survey(&server.survey(deadline));
    assert_eq!(shown(&view), (Standing::Final, "1 of 2 processes".into(), 0));
    let names: Vec<_> = loop {
        let fetch = view.wanted().unwrap();
        let found = server.second(deadline, fetch.second, &fetch.processes);
        view.on_fetched(&fetch, &found);
        let names = view.wanted_names();
        if !names.is_empty() {
            break names;
        }
    };
    // Its rows have no names yet.
    assert_eq!(shown(&view), (Standing::Final, "1 of 2 processes".into(), 0));
    let found = names.iter().map(|it| server.names(it.process, it.from, it.count));
    view.on_names(&names, &found.collect::<Vec<_>>());
    read_wanted(&mut view, &mut server, deadline);
    assert_eq!(shown(&view), (Standing::Closed, "2 of 2 processes".into(), 3));
}

/// Its record then says that it is past the second, and the server has nothing of it.
#[test]
fn closed_second_stays_closed_when_a_lost_process_comes_back_after_the_deadline() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    for later in 1..=40 {
        step(&mut server, &mut processes, 1);
        read(&mut view, &mut server, micros(START + later));
    }
    let shown = |view: &FleetView| {
        let window = view.window(START..START + 1);
        (window.standing, window.presence.to_string())
    };
    let closed = (Standing::Closed, "1 of 2 processes".into());
    assert_eq!(shown(&view), closed);
    processes[1].deliver(&mut server);
    view.on_survey(&server.survey(micros(START + 40)));
    assert_eq!(shown(&view), closed, "before it was read again");
    read_wanted(&mut view, &mut server, micros(START + 40));
    assert_eq!(shown(&view), closed);
}

/// The server loses its data, and the second process, whose clock is behind, does not reach it for
/// `lost_after`. A new reader does not know of it.
#[test]
fn forgotten_process_that_comes_back_is_named_and_adds_its_part_to_a_final_second() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    let mut blank = Archive::new(FleetConfig::default());
    for later in 1..=8 {
        step(&mut blank, &mut processes[..1], 1);
        read(&mut view, &mut blank, micros(START + later));
    }
    let shown = |view: &FleetView| {
        let window = view.window(START..START + 1);
        (window.standing, window.presence.to_string(), window.total.metrics.counts[Pass])
    };
    assert_eq!(shown(&view), (Standing::Final, "1 of 1 process".into(), 0));
    processes[1].work("orders", 3);
    processes[1].deliver_at(&mut blank, micros(START + 8));
    read(&mut view, &mut blank, micros(START + 8));
    assert_eq!(shown(&view), (Standing::Final, "1 of 2 processes".into(), 0));
    processes[1].next_second();
    processes[1].deliver_at(&mut blank, micros(START + 9));
    read(&mut view, &mut blank, micros(START + 9));
    assert_eq!(shown(&view), (Standing::Final, "2 of 2 processes".into(), 3));
}

#[test]
fn reader_that_is_slower_than_the_fleet_skips_seconds_and_sees_the_others_final() {
    let (mut server, mut view) = fleet();
    // A second takes three answers.
    let mut processes = joined(&mut server, 130);
    let mut seen = Vec::new();
    for later in 1..40 {
        processes[0].work("orders", 1);
        step(&mut server, &mut processes, 130);
        let now = micros(START + later);
        view.on_survey(&server.survey(now));
        for _ in 0..2 {
            let Some(fetch) = view.wanted() else { break };
            let found = server.second(now, fetch.second, &fetch.processes);
            view.on_fetched(&fetch, &found);
            let names = view.wanted_names();
            let found = names.iter().map(|it| server.names(it.process, it.from, it.count));
            view.on_names(&names, &found.collect::<Vec<_>>());
        }
        if let Some(second) = view.newest_final() {
            let window = view.window(second..second + 1);
            let passes = u64::from(second >= START);
            assert_eq!((window.presence.present, window.total.metrics.counts[Pass]), (130, passes));
            assert!(later < 8 || START + later - second <= 6, "{second} at {later}");
            seen.push(second);
        }
    }
    seen.dedup();
    // Two of three, without those at the begin.
    assert!(seen.len() > 20, "{seen:?}");
    // The minute has the seconds that were skipped, and not their counts.
    let minute = view.last_minute().unwrap();
    assert_eq!(minute.standing, Standing::Waiting);
    assert_eq!((minute.presence.present, minute.presence.expected), (0, 130));
    let (passes, len) =
        (minute.total.metrics.counts[Pass], minute.seconds.end - minute.seconds.start);
    assert!((20..36).contains(&passes) && len > 36, "{passes} in {len} s");
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let rate = passes as f64 / len as f64;
    assert!((minute.rate(Pass) - rate).abs() < 1e-9);
}

#[test]
fn restarted_process_is_another_one() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 1);
    processes[0].work("orders", 1);
    step(&mut server, &mut processes, 1);
    let mut again = Process::new(2, START + 1);
    again.deliver(&mut server);
    again.work("orders", 2);
    again.next_second();
    again.deliver(&mut server);
    read(&mut view, &mut server, micros(START + 4));
    let window = view.window(START..START + 2);
    assert_eq!((window.total.metrics.counts[Pass], window.presence.expected), (3, 2));
    let rows: Vec<_> =
        window.processes.iter().map(|it| (it.expected, it.present, it.waiting)).collect();
    assert_eq!(rows, [(2, 1, 1), (1, 1, 0)]);
}

#[test]
fn live_process_with_an_unreadable_record_is_expected_and_not_present() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    step(&mut server, &mut processes, 2);
    let now = micros(START + 3);
    // Each record is counted once.
    for _ in 0..3 {
        let mut survey = server.survey(now);
        survey.processes.iter_mut().find(|it| it.process == ProcessId(2)).unwrap().record[0] = 9;
        view.on_survey(&survey);
        read_wanted(&mut view, &mut server, now);
        assert_eq!((view.unreadable(), view.processes().count()), (1, 1));
        let presence = view.last_second().unwrap().presence;
        assert_eq!(presence.to_string(), "1 of 2 processes");
    }
    // It is not live any more, and its record is the same.
    for second in 7..10 {
        let later = micros(START + second);
        processes[0].deliver_at(&mut server, later);
        let mut survey = server.survey(later);
        survey.processes.iter_mut().find(|it| it.process == ProcessId(2)).unwrap().record[0] = 9;
        view.on_survey(&survey);
        read_wanted(&mut view, &mut server, later);
        assert_eq!((view.unreadable(), view.last_second().unwrap().presence.expected), (1, 1));
    }
}

#[test]
fn requests_in_flight_of_a_process_that_has_left_are_not_in_the_last_minute() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    let entries: Vec<_> =
        (0..7).map(|_| Entry::enter(processes[1].registry.resource("orders").unwrap())).collect();
    processes[1].next_second();
    processes[1].deliver(&mut server);
    processes[0].next_second();
    processes[0].deliver(&mut server);
    read(&mut view, &mut server, micros(START + 3));
    assert_eq!(view.last_minute().unwrap().total.in_flight, 7);
    processes[1].next_second();
    processes[1].outbox.leave();
    processes[1].deliver(&mut server);
    for _ in 0..10 {
        processes[0].next_second();
        processes[0].deliver(&mut server);
    }
    read(&mut view, &mut server, micros(START + 11));
    let minute = view.last_minute().unwrap();
    assert_eq!((minute.total.in_flight, minute.resources[0].counts.in_flight), (0, 0));
    assert_eq!(minute.processes[1].counts.in_flight, 0);
    drop(entries);
}

#[test]
fn unreadable_second_is_counted_and_named_as_missing() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 1);
    step(&mut server, &mut processes, 1);
    view.on_survey(&server.survey(micros(START + 3)));
    let fetch = view.wanted().unwrap();
    view.on_fetched(&fetch, &[Some(vec![9])]);
    assert_eq!(view.unreadable(), 1);
    let window = view.window(fetch.second..fetch.second + 1);
    assert_eq!((window.processes[0].missing, window.presence.present), (1, 0));
}

#[test]
fn nothing_is_final_before_a_promoted_replica_knows_the_process_whose_join_it_has_lost() {
    let mut primary = Archive::new(FleetConfig::default());
    let mut processes = joined(&mut primary, 1);
    let mut replica = primary.clone();
    let mut joining = Process::new(9, START);
    joining.deliver(&mut primary);
    step(&mut primary, &mut processes, 1);
    // The replica is promoted, and the first process shows that it has lost data. The other one is
    // not back yet.
    let mut view = FleetView::new(FleetConfig::default());
    joining.work("orders", 5);
    joining.next_second();
    for later in 2..6 {
        step(&mut replica, &mut processes, 1);
        read(&mut view, &mut replica, micros(START + later));
        assert_eq!(view.newest_final(), None, "{later}");
    }
    joining.deliver_at(&mut replica, micros(START + 6));
    step(&mut replica, &mut processes, 1);
    step(&mut replica, &mut processes, 1);
    read(&mut view, &mut replica, micros(START + 8));
    let window = view.window(START..START + 1);
    assert_eq!((window.standing, window.total.metrics.counts[Pass]), (Standing::Final, 5));
    // The second of the other one is lost with the primary.
    assert_eq!(window.presence.to_string(), "1 of 2 processes");
}

/// The record of a process that has ended is lost with the data of the server. A reader keeps what
/// it has read of it.
#[test]
fn new_reader_does_not_know_processes_that_had_ended_before_the_server_lost_its_data() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 3);
    for process in &mut processes {
        process.work("orders", 1);
    }
    step(&mut server, &mut processes, 3);
    processes[1].next_second();
    processes[1].outbox.leave();
    processes[1].deliver(&mut server);
    // The third one is killed.
    for _ in 0..8 {
        step(&mut server, &mut processes[..1], 1);
    }
    read(&mut view, &mut server, micros(START + 9));
    let mut blank = Archive::new(FleetConfig::default());
    for _ in 0..8 {
        step(&mut blank, &mut processes[..1], 1);
    }
    let now = micros(START + 17);
    let mut new = FleetView::new(FleetConfig::default());
    read(&mut view, &mut blank, now);
    read(&mut new, &mut blank, now);
    let found = [&view, &new]
        .map(|it| (it.processes().count(), it.sum().delivered.1[Pass], it.sum().lifetime[Pass]));
    assert_eq!(found, [(3, 3, 3), (1, 1, 1)]);
    let presences = [&view, &new].map(|it| it.last_second().unwrap().presence.to_string());
    assert_eq!(presences, ["1 of 2 processes", "1 of 1 process"]);
    // The second that was delivered before the loss: only the first reader has read it.
    let second = START..START + 1;
    let found = [&view, &new].map(|it| it.window(second.clone()).total.metrics.counts[Pass]);
    assert_eq!(found, [3, 0]);
    let window = new.window(second);
    assert_eq!(
        (window.standing, window.presence.to_string()),
        (Standing::Final, "0 of 1 process".into())
    );
}

#[test]
fn lost_process_is_waited_for_again_after_the_server_has_lost_its_data() {
    let (mut server, mut view) = fleet();
    let mut processes = joined(&mut server, 2);
    for _ in 0..8 {
        step(&mut server, &mut processes, 1);
    }
    read(&mut view, &mut server, micros(START + 8));
    let states = |view: &FleetView| view.processes().map(|it| it.2).collect::<Vec<_>>();
    assert_eq!(states(&view), [ProcessState::Live, ProcessState::Lost]);
    assert_eq!(view.newest_final(), Some(START + 5));
    let mut blank = Archive::new(FleetConfig::default());
    for later in 9..16 {
        step(&mut blank, &mut processes, 1);
        read(&mut view, &mut blank, micros(START + later));
        let is_waited_for = later < 14;
        let state = if is_waited_for { ProcessState::Live } else { ProcessState::Lost };
        assert_eq!(states(&view), [ProcessState::Live, state], "{later}");
        let newest = if is_waited_for { START + 5 } else { START + later - 3 };
        assert_eq!(view.newest_final(), Some(newest), "{later}");
    }
}

/// A gap: the other process has lost nothing, so nothing shows the loss before the process itself
/// reaches the replica.
#[test]
fn second_may_be_final_without_a_process_whose_join_a_replica_has_lost_alone() {
    let mut primary = Archive::new(FleetConfig::default());
    let mut processes = joined(&mut primary, 1);
    let mut replica = primary.clone();
    let mut joining = Process::new(9, START);
    joining.deliver(&mut primary);
    let mut view = FleetView::new(FleetConfig::default());
    joining.work("orders", 5);
    joining.next_second();
    for later in 1..6 {
        step(&mut replica, &mut processes, 1);
        read(&mut view, &mut replica, micros(START + later));
    }
    let window = view.window(START..START + 1);
    assert_eq!((window.standing, window.total.metrics.counts[Pass]), (Standing::Final, 0));
    assert_eq!(window.presence.to_string(), "1 of 1 process");
    // Its counts come, before the deadline.
    joining.deliver_at(&mut replica, micros(START + 6));
    step(&mut replica, &mut processes, 1);
    read(&mut view, &mut replica, micros(START + 6));
    let window = view.window(START..START + 1);
    assert_eq!((window.standing, window.total.metrics.counts[Pass]), (Standing::Final, 5));
    assert_eq!(window.presence.to_string(), "2 of 2 processes");
}
