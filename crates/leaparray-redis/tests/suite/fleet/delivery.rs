//! Deliveries that are lost, doubled, late and refused, and servers that lose their data.

use leaparray::MetricEvent::Pass;
use leaparray_redis::fleet::{
    Archive, FleetConfig, FleetView, Outcome, ProcessId, ProcessSecond, Record,
};

use crate::fleet::parts::{Process, START, check, micros, read};

/// Returns the passes of a process in a second, as the server has them; `None` if it has nothing.
fn stored(server: &mut Archive, now: u64, second: u64, process: ProcessId) -> Option<u64> {
    let bytes = server.second(now, second, &[process]).remove(0)?;
    Some(ProcessSecond::decode(second, &bytes).unwrap().totals()[Pass])
}

fn server() -> Archive {
    Archive::new(FleetConfig::default())
}

#[test]
fn each_second_arrives_once() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    for passes in 1..=5 {
        process.work("orders", passes);
        process.next_second();
        process.deliver(&mut server);
    }
    let now = process.now().as_micros();
    let all: Vec<_> = (0..5).map(|it| stored(&mut server, now, START + it, process.id)).collect();
    assert_eq!(all, (1..=5).map(Some).collect::<Vec<_>>());
    let record = process.record();
    check(&record);
    assert_eq!((record.delivered.0, record.delivered.1[Pass], record.next), (5, 15, START + 5));
    let survey = server.survey(now);
    assert_eq!(Record::decode(&survey.processes[0].record).unwrap().delivered, record.delivered);
}

/// Two clones of a process deliver under its identity. The server takes one of two deliveries, and
/// the other clone goes on under an identity of its own, without the counts of their common past.
#[test]
fn clone_takes_another_identity_and_loses_no_count() {
    let mut server = server();
    let [mut process, mut clone] = [(); 2].map(|()| Process::new(1, START));
    for it in [&mut process, &mut clone] {
        it.work("orders", 3);
        it.next_second();
    }
    process.outbox.set_nonce(1);
    process.deliver(&mut server);
    clone.outbox = process.outbox.clone();

    for (it, passes, nonce) in [(&mut process, 4, 2), (&mut clone, 5, 3)] {
        it.work("orders", passes);
        it.next_second();
        it.outbox.set_nonce(nonce);
        it.deliver(&mut server);
    }
    assert_eq!((process.outbox.is_taken(), clone.outbox.is_taken()), (false, true));
    assert_eq!(clone.record().waiting[Pass], 5);
    clone.outbox.rename(ProcessId(2));
    clone.outbox.set_nonce(4);
    clone.deliver(&mut server);
    for (it, id) in [(&mut process, 1), (&mut clone, 2)] {
        let record = it.record();
        check(&record);
        let passes = [7, 5][usize::from(id == 2)];
        assert_eq!((record.delivered.1[Pass], record.lifetime[Pass]), (passes, passes));
        assert_eq!(record.taken, u64::from(id == 2));
    }

    let mut view = FleetView::new(FleetConfig::default());
    read(&mut view, &mut server, process.now().as_micros());
    assert_eq!(view.sum().delivered.1[Pass], 12);
    let window = view.window(START + 1..START + 2);
    assert_eq!(window.total.metrics.counts[Pass], 9);
    assert_eq!(window.presence.to_string(), "2 of 2 processes");
    assert_eq!(view.processes().map(|it| it.1.taken).sum::<u64>(), 1);
}

/// The delivery that was in flight when the process was cloned belongs to both.
#[test]
fn delivery_before_a_clone_is_the_own_one_of_both() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.work("orders", 3);
    process.next_second();
    let now = process.now().as_micros();
    process.outbox.set_nonce(1);
    let in_flight = process.delivery();
    let mut clone = process.outbox.clone();
    assert_eq!(server.deliver(now, &in_flight).outcome, Outcome::Taken);
    clone.set_nonce(2);
    let receipt = server.deliver(now, &clone.delivery(now));
    assert!(matches!(receipt.outcome, Outcome::Conflict { version: 1, .. }));
    assert!(clone.on_receipt(now, &receipt));
    assert_eq!((clone.is_taken(), clone.record().delivered.1[Pass]), (false, 3));
}

#[test]
fn lost_answer_counts_no_second_twice_and_none_as_missed() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    process.work("orders", 3);
    process.next_second();
    let now = process.now().as_micros();
    // It arrives, and the answer is lost.
    let first = process.delivery();
    assert_eq!(server.deliver(now, &first).outcome, Outcome::Taken);
    // It becomes too old, and further seconds end.
    for _ in 0..40 {
        process.next_second();
    }
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    assert_eq!((record.delivered.1[Pass], record.missed.1[Pass]), (3, 0));
    assert_eq!(record.delivered.0 + record.missed.0, 41);
    assert_eq!(record.missed.0, 10, "the seconds before the deadline");
}

/// The answer to a delivery is lost, and the process does not reach the server before its record
/// expires. Nothing tells it any more that the server had taken the second.
#[test]
fn second_without_an_answer_counts_as_missed_once_the_record_has_expired() {
    for (away, delivered) in [(99, 3), (100, 0)] {
        let config = FleetConfig::default().with_departed(100).unwrap();
        let mut server = Archive::new(config);
        let mut process = Process::with(1, START, config, 1 << 20, 1 << 20);
        process.deliver(&mut server);
        process.work("orders", 3);
        process.next_second();
        let now = process.now().as_micros();
        assert_eq!(server.deliver(now, &process.delivery()).outcome, Outcome::Taken);
        for _ in 0..away {
            process.next_second();
        }
        process.deliver(&mut server);
        let record = process.record();
        check(&record);
        assert_eq!((record.delivered.1[Pass], record.missed.1[Pass]), (delivered, 3 - delivered));
    }
}

#[test]
fn doubled_and_old_deliveries_change_nothing() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    process.work("orders", 3);
    process.next_second();
    let old = process.delivery();
    let now = process.now().as_micros();
    let receipt = server.deliver(now, &old);
    process.take(&receipt);
    process.next_second();
    process.deliver(&mut server);
    let before = server.survey(now);
    for later in [0, 5, 200] {
        let now = process.now().as_micros() + micros(later);
        assert!(matches!(server.deliver(now, &old).outcome, Outcome::Conflict { version: 3, .. }));
        assert_eq!(server.survey(now).processes, before.processes.clone());
        assert_eq!(process.record().delivered.1[Pass], 3);
    }
}

#[test]
fn second_is_taken_until_its_deadline_and_then_missed() {
    for (late, is_taken) in [(0, true), (29, true), (30, false)] {
        let (mut server, mut process) = (server(), Process::new(1, START));
        process.deliver(&mut server);
        process.work("orders", 3);
        process.next_second();
        // The process does not know that the server's clock is ahead.
        process.deliver_at(&mut server, micros(START + 1 + late));
        let record = process.record();
        check(&record);
        let expected = if is_taken { (3, 0, 1, 0) } else { (0, 3, 0, 1) };
        let found =
            (record.delivered.1[Pass], record.missed.1[Pass], record.delivered.0, record.missed.0);
        assert_eq!(found, expected, "{late} s late");
        assert_eq!(record.next, START + 1);
        assert!(process.outbox.is_done());
    }
}

#[test]
fn clock_that_is_too_far_ahead_waits_for_the_server() {
    let (mut server, mut process) = (server(), Process::new(1, START + 10));
    process.deliver_at(&mut server, micros(START));
    process.work("orders", 3);
    process.next_second();
    // The second is over at 11, and taken from 9 on.
    process.deliver_at(&mut server, micros(START + 9) - 1);
    assert_eq!(process.record().waiting[Pass], 3);
    process.deliver_at(&mut server, micros(START + 9));
    assert_eq!((process.record().waiting[Pass], process.record().delivered.1[Pass]), (0, 3));
    assert_eq!(process.record().clock_ahead, 2_000_000);
}

#[test]
fn process_that_joins_late_has_no_part_in_seconds_that_may_be_final() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    // The server is away for the first seconds.
    for _ in 0..10 {
        process.work("orders", 1);
        process.next_second();
        let _ = process.delivery();
    }
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    let now = process.now().as_micros();
    assert_eq!(record.first, START + 9, "a second before the server's");
    assert_eq!((record.missed.1[Pass], record.delivered.1[Pass]), (9, 1));
    assert_eq!(stored(&mut server, now, START + 8, process.id), None);
    assert_eq!(stored(&mut server, now, START + 9, process.id), Some(1));
}

#[test]
fn seconds_wait_while_the_server_is_away() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    for _ in 0..50 {
        process.work("orders", 2);
        process.next_second();
        // No answer.
        let _ = process.delivery();
        check(&process.record());
    }
    assert_eq!(process.record().waiting[Pass], 100);
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    // Those that ended 30 seconds ago or earlier.
    assert_eq!((record.missed.0, record.missed.1[Pass]), (20, 40));
    assert_eq!((record.delivered.0, record.delivered.1[Pass]), (30, 60));
}

#[test]
fn bytes_that_wait_are_bounded() {
    let (mut server, bound) = (server(), 2_000);
    let mut process = Process::with(1, START, FleetConfig::default(), 1 << 20, bound);
    process.deliver(&mut server);
    for second in 0..60 {
        for resource in 0..10 {
            process.work(&format!("resource {resource}"), 1);
        }
        process.next_second();
        let _ = process.delivery();
        let (waiting, bytes) = process.outbox.waiting_len();
        assert!(bytes <= bound, "{bytes} bytes");
        assert_eq!(waiting, second + 1);
    }
    process.deliver(&mut server);
    let record = process.record();
    check(&record);
    assert_eq!(record.delivered.0 + record.missed.0, 60);
    assert_eq!(record.delivered.1[Pass] + record.missed.1[Pass], 600);
    assert!(record.delivered.0 > 2 && record.missed.0 > 30, "{record:?}");
}

#[test]
fn blank_server_takes_the_record_and_the_names_again() {
    let (mut first, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut first);
    process.work("orders", 3);
    process.next_second();
    process.deliver(&mut first);
    let mut second = server();
    process.work("orders", 4);
    process.work("users", 1);
    process.next_second();
    process.deliver(&mut second);
    let record = process.record();
    check(&record);
    assert_eq!((record.delivered.0, record.delivered.1[Pass]), (2, 8));
    let now = process.now().as_micros();
    assert_eq!(stored(&mut second, now, START, process.id), None, "it is lost");
    assert_eq!(stored(&mut second, now, START + 1, process.id), Some(5));
    assert_eq!(second.names(process.id, 0, 10).len(), 2);
}

#[test]
fn lagging_replica_takes_the_later_record() {
    let (mut primary, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut primary);
    process.work("orders", 1);
    process.next_second();
    process.deliver(&mut primary);
    let mut replica = primary.clone();
    process.work("users", 1);
    process.next_second();
    process.deliver(&mut primary);
    process.work("users", 1);
    process.next_second();
    process.deliver(&mut replica);
    let record = process.record();
    check(&record);
    assert_eq!((record.delivered.0, record.delivered.1[Pass]), (3, 3));
    assert_eq!(replica.names(process.id, 0, 10).len(), 2, "the lost name was sent again");
    let now = process.now().as_micros();
    assert_eq!(stored(&mut replica, now, START + 1, process.id), None);
    assert_eq!(stored(&mut replica, now, START + 2, process.id), Some(1));
}

#[test]
fn many_names_are_sent_in_parts_before_the_seconds_that_have_them() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    let long = "x".repeat(100);
    for resource in 0..2_000 {
        process.work(&format!("{long} {resource}"), 1);
    }
    process.next_second();
    let mut deliveries = 0;
    loop {
        deliveries += 1;
        let delivery = process.delivery();
        let bytes: usize = delivery.names.iter().map(Vec::len).sum();
        assert!(bytes <= 64 * 1024, "{bytes} bytes of names");
        let receipt = server.deliver(process.now().as_micros(), &delivery);
        let names = server.names(process.id, 0, u32::MAX).len();
        assert_eq!(names == 2_000, !delivery.seconds.is_empty());
        if !process.take(&receipt) {
            break;
        }
    }
    assert_eq!(deliveries, 4);
    assert_eq!(process.record().delivered.1[Pass], 2_000);
}

#[test]
fn everything_expires() {
    let (mut server, mut process) = (server(), Process::new(1, START));
    process.deliver(&mut server);
    process.work("orders", 1);
    process.next_second();
    process.deliver(&mut server);
    let delivered = process.now().as_micros();
    let at = |second| micros(START + 1 + second);
    assert!(stored(&mut server, at(99), START, process.id).is_some());
    assert!(stored(&mut server, at(100), START, process.id).is_none());
    assert_eq!(server.survey(delivered + micros(600) - 1).processes.len(), 1);
    assert_eq!(server.survey(delivered + micros(600)).processes.len(), 0);
    assert!(server.names(process.id, 0, 10).is_empty());
}
