//! The rows of a delivered second.

use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Rt, Success};
use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::node::Refusals;
use leaparray::{Clock, Entry, EventCounts, Outcome, Timestamp, TrafficType};
use leaparray_redis::fleet::{
    Archive, Fetch, FleetConfig, FleetCounts, FleetView, FormatError, NamesFetch, ProcessSecond,
    Record, ResourceKey,
};

use crate::fleet::parts::{Process, START, micros};

/// Returns the only second of the next delivery, and its names.
fn only(process: &mut Process) -> (ProcessSecond, Vec<ResourceKey>) {
    let delivery = process.delivery();
    assert_eq!(delivery.seconds.len(), 1, "{delivery:?}");
    let second = &delivery.seconds[0];
    let names = delivery.names.iter().map(|it| ResourceKey::decode(it).unwrap()).collect();
    (ProcessSecond::decode(second.second, &second.bytes).unwrap(), names)
}

#[test]
fn row_has_all_that_was_recorded() {
    let mut process = Process::new(1, START);
    let orders = process.registry.resource_with("orders", TrafficType::Outbound).unwrap();
    let web = orders.in_context("web").unwrap();
    let at = |millis| Timestamp::from_secs(START).saturating_add(Duration::from_millis(millis));
    web.enter_at(at(0)).end_at(at(7), Outcome::Success);
    web.enter_at(at(0)).end_at(at(0), Outcome::Exception);
    web.enter_at(at(0)).end_at(at(300), Outcome::Cancelled);
    let held = Entry::enter(orders.clone());
    orders.refuse_many_at(at(5), 3, Reason::Failing);
    orders.block_many_at(at(5), 2);
    process.registry.resource("idle").unwrap();
    let expected: Vec<SecondMetrics> = {
        let cursor = leaparray::registry::RegistryCursor::new();
        process.clock.advance(Duration::from_secs(1));
        let mut seconds = process.registry.now().poll_seconds(&cursor);
        seconds.sort_by_key(|it| it.context.is_some());
        seconds.into_iter().map(|it| it.metrics).collect()
    };
    process.collect();
    let (second, names) = only(&mut process);
    assert!(second.left_out.is_none());
    let mut rows = second.rows;
    rows.sort_by_key(|it| names[it.name as usize].context.is_some());
    let of = |row: usize| &names[rows[row].name as usize];
    assert_eq!((&*of(0).name, of(0).context.as_deref(), of(0).is_outbound), ("orders", None, true));
    assert_eq!((&*of(1).name, of(1).context.as_deref()), ("orders", Some("web")));
    let metrics: Vec<_> = rows.iter().map(|it| it.counts.metrics.clone()).collect();
    assert_eq!(metrics, expected);
    assert_eq!((rows[0].counts.in_flight, rows[0].counts.refusals[Reason::Failing]), (1, 3));
    assert_eq!([Pass, Block].map(|event| metrics[0].counts[event]), [1, 5]);
    assert_eq!([Success, Exception, Cancelled].map(|end| metrics[1].counts[end]), [1, 1, 1]);
    assert_eq!(metrics[1].min_rt, Some(Duration::ZERO), "known, and not the same as unknown");
    assert_eq!(metrics[1].histogram.as_ref().unwrap().count(), metrics[1].counts[Rt]);
    held.success();
}

#[test]
fn refusals_are_those_of_the_second() {
    let mut process = Process::new(1, START);
    let orders = process.registry.resource("orders").unwrap();
    for refused in [2, 5] {
        orders.refuse_many_at(process.now(), refused, Reason::LimitReached);
        process.next_second();
    }
    let delivery = process.delivery();
    let refused = delivery.seconds.iter().map(|it| {
        ProcessSecond::decode(it.second, &it.bytes).unwrap().rows[0].counts.refusals
            [Reason::LimitReached]
    });
    assert_eq!(refused.collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn refusals_of_an_evicted_resource_are_in_its_row() {
    let mut process = Process::new(1, START);
    let refuse = |process: &Process, refused| {
        let orders = process.registry.resource("orders").unwrap();
        orders.refuse_many_at(process.now(), refused, Reason::LimitReached);
        drop(orders);
        assert_eq!(
            process.registry.evict_idle_at(process.registry.clock().now(), Duration::ZERO),
            1
        );
    };
    refuse(&process, 2);
    refuse(&process, 3);
    process.next_second();
    refuse(&process, 4);
    process.registry.resource("orders").unwrap().refuse(Reason::LimitReached);
    process.next_second();
    let delivery = process.delivery();
    let rows = delivery.seconds.iter().map(|it| {
        let rows = ProcessSecond::decode(it.second, &it.bytes).unwrap().rows;
        let [row] = &rows[..] else { panic!("{rows:?}") };
        (row.counts.metrics.counts[Block], row.counts.refusals[Reason::LimitReached])
    });
    assert_eq!(rows.collect::<Vec<_>>(), [(5, 5), (5, 5)]);
}

/// The outbox keeps a name for good.
#[test]
fn evicted_resource_without_a_row_gets_no_name() {
    let mut process = Process::new(1, START);
    process.next_second();
    let orders = process.registry.resource("orders").unwrap();
    // In a second that was read already.
    orders.refuse_many_at(Timestamp::from_secs(START), 2, Reason::LimitReached);
    drop(orders);
    assert_eq!(process.registry.evict_idle_at(process.registry.clock().now(), Duration::ZERO), 1);
    process.next_second();
    process.next_second();
    assert_eq!(process.delivery().names, Vec::<Vec<u8>>::new());
}

/// A reading finds the reasons since the reading before, and no times of them.
#[test]
fn refusals_of_a_second_have_as_many_reasons() {
    let mut process = Process::new(1, START);
    let orders = process.registry.resource("orders").unwrap();
    orders.refuse_many_at(process.now(), 2, Reason::LimitReached);
    process.clock.advance(Duration::from_secs(2));
    // In the second that is not over.
    orders.refuse_many_at(process.now(), 5, Reason::Failing);
    process.collect();
    process.next_second();
    let delivery = process.delivery();
    let found = delivery.seconds.iter().map(|it| {
        let rows = ProcessSecond::decode(it.second, &it.bytes).unwrap().rows;
        let count = |of: fn(&FleetCounts) -> u64| rows.iter().map(|it| of(&it.counts)).sum::<u64>();
        (count(|it| it.metrics.counts[Block]), count(|it| it.refusals.sum()))
    });
    assert_eq!(found.collect::<Vec<_>>(), [(2, 2), (0, 0), (5, 5)]);
}

#[test]
fn least_busy_resources_are_left_out_and_counted() {
    let (resources, max_bytes) = (100, 1_000);
    let mut process = Process::with(1, START, FleetConfig::default(), max_bytes, 1 << 20);
    let mut all = 0;
    for resource in 0..resources {
        process.work(&format!("resource {resource:02}"), resource + 1);
        all += resource + 1;
    }
    process.next_second();
    let bytes = process.delivery().seconds[0].bytes.len();
    let (second, names) = only(&mut process);
    let left_out = second.left_out.clone().unwrap();
    assert_eq!(second.rows.len() as u64 + left_out.count, resources);
    assert!(left_out.count > 40 && second.rows.len() > 10, "{} rows", second.rows.len());
    assert!(bytes < max_bytes + 256, "{bytes} bytes");
    assert_eq!(second.totals()[Success], all, "all are in the sum");
    let least = second.rows.iter().map(|it| it.counts.metrics.counts[Pass]).min().unwrap();
    for name in &left_out.names {
        let key = &names[*name as usize];
        let requests = key.name[9..].parse::<u64>().unwrap() + 1;
        assert!(requests <= least, "{key:?} is busier than a row with {least}");
    }
    assert_eq!(left_out.names.len() as u64, left_out.count);
    assert_eq!(process.record().left_out, left_out.count);
}

#[test]
fn empty_second_is_delivered() {
    let mut process = Process::new(1, START);
    process.next_second();
    let (second, _) = only(&mut process);
    assert!(second.rows.is_empty() && second.left_out.is_none());
}

/// Processes of different versions of this crate read the records of each other. If these bytes
/// change, by another order of the events or reasons too, raise the version of the format.
#[test]
fn format_has_these_bytes() {
    let mut counts = EventCounts::from([
        (Pass, 1),
        (Block, 2),
        (Exception, 3),
        (Success, 4),
        (Rt, 5),
        (ReservedPass, 6),
        (Cancelled, 7),
    ]);
    counts.set_rt_sum(Duration::from_nanos(8));
    let mut record = Record::default();
    (record.name, record.first, record.next) = ("a".into(), 9, 10);
    record.delivered = (11, counts);
    (record.left_out, record.clock_ahead, record.has_left) = (12, -13, true);
    (record.taken, record.nonce) = (14, 15);
    let none = [0; 8];
    assert_eq!(
        record.encode(),
        [
            // The version, the name, the first and the next second, and the delivered ones.
            &[1, 1, b'a', 9, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8][..],
            // Nothing is missed, late, waiting, or in the lifetime.
            &[0],
            &none.repeat(4),
            &[12, 25, 1, 14, 15],
        ]
        .concat()
    );

    let mut all = FleetCounts::default();
    all.metrics.counts = counts;
    (all.in_flight, all.metrics.concurrency) = (14, 15);
    all.refusals = Refusals::from([
        (Reason::LimitReached, 16),
        (Reason::WaitTooLong, 17),
        (Reason::MoreThanLimit, 18),
        (Reason::Failing, 19),
        (Reason::Custom("a"), 20),
        (Reason::QueueFull, 21),
    ]);
    let mut process = Process::new(1, START);
    let key = ResourceKey::new(&"a".into(), None, TrafficType::Inbound);
    let (second, _) = process.outbox.encode(START, [(key, all)], 1 << 20);
    assert_eq!(
        second.bytes,
        [
            // The version, the number of rows, the name, and the mask of the numbers that follow.
            &[1, 1, 0, 143, 255, 31][..],
            // Passes, successes, response times, their sum, the highest concurrency, and in flight.
            &[1, 4, 5, 8, 15, 14],
            // The other events, and the reasons, in the order of their lists.
            &[2, 3, 6, 7],
            &[16, 17, 18, 19, 20, 21],
            // No histogram, no resource without a row, and no histogram of the sum.
            &[0, 0, 0],
        ]
        .concat()
    );
}

#[test]
fn other_format_and_damage_are_told_apart() {
    let expected = 1;
    assert_eq!(
        ProcessSecond::decode(0, &[9]).unwrap_err(),
        FormatError::Version { found: Some(9), expected }
    );
    assert_eq!(Record::decode(&[]).unwrap_err(), FormatError::Version { found: None, expected });
    assert_eq!(ResourceKey::decode(&[1, 200]).unwrap_err(), FormatError::Damaged);
    let mut process = Process::new(1, START);
    process.work("orders", 3);
    process.next_second();
    let bytes = process.delivery().seconds[0].bytes.clone();
    for len in 1..bytes.len() {
        assert!(ProcessSecond::decode(0, &bytes[..len]).is_err(), "{len} of {}", bytes.len());
    }
    let texts = [FormatError::Version { found: Some(9), expected }, FormatError::Damaged];
    assert_eq!(
        texts.map(|it| it.to_string()),
        ["the data of a process has format 9, and not 1", "the data of a process is damaged"]
    );
}

#[test]
fn second_that_no_process_writes_is_damaged() {
    // The version, the number of rows, and a row: its name, the mask of its numbers, and the tag of
    // its histogram.
    let empty = [1, 0, 0, 0];
    assert!(ProcessSecond::decode(0, &empty).unwrap().rows.is_empty());
    assert_eq!(ProcessSecond::decode(0, &[1, 1, 5, 0, 0, 0, 0]).unwrap().rows[0].name, 5);
    // Three resources without a row, two names, the names, the mask of their sum, and the tag of
    // the histogram.
    let left_out = ProcessSecond::decode(0, &[1, 0, 3, 2, 0, 1, 0, 0]).unwrap().left_out.unwrap();
    assert_eq!((left_out.count, left_out.names), (3, vec![0, 1]));
    let damaged: [&[u8]; 10] = [
        // A byte too many.
        &[1, 0, 0, 0, 0],
        // The same name twice: of rows, and of resources without a row.
        &[1, 2, 5, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 3, 2, 4, 0, 0, 0],
        // Fewer resources than names.
        &[1, 0, 1, 2, 0, 1, 0, 0],
        // A name that no process has: 16,384.
        &[1, 1, 0x80, 0x80, 0x01, 0, 0, 0, 0],
        &[1, 0, 1, 1, 0x80, 0x80, 0x01, 0, 0],
        // A mask with the twentieth bit, of which there are nineteen.
        &[1, 1, 5, 0x80, 0x80, 0x20, 0, 0, 0],
        // A billion nanoseconds beside the whole seconds of the response times.
        &[1, 1, 5, 8, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0, 0, 0],
        // A histogram whose only bucket is the bucket after 1 s, and whose shortest response time is
        // 0 ns: of a row, and of the sum.
        &[1, 1, 5, 0, 2, 4, 0, 0, 1, 0, 0, 0],
        &[1, 0, 0, 2, 4, 0, 0, 1, 0],
    ];
    for bytes in damaged {
        assert_eq!(ProcessSecond::decode(0, bytes), Err(FormatError::Damaged), "{bytes:?}");
    }
}

/// A histogram has no response time above 2⁶² ns, and a process sends no buckets of one.
#[test]
fn response_times_beyond_those_of_a_histogram_are_cut_or_damaged() {
    const LONGEST: u64 = 1 << 62;
    let mut server = Archive::new(FleetConfig::default());
    let mut process = Process::new(1, START);
    process.work("orders", 1);
    process.next_second();
    process.deliver(&mut server);
    let mut view = FleetView::new(FleetConfig::default());
    view.on_survey(&server.survey(micros(START + 1)));
    let names = NamesFetch { process: process.id, from: 0, count: 1 };
    view.on_names(&[names], &[server.names(process.id, 0, 1)]);
    let fetch = view.wanted().unwrap();
    let viewed = |bytes: &[u8]| {
        let mut view = view.clone();
        view.on_fetched(&fetch, &[Some(bytes.to_vec())]);
        (view.window(START..START + 1).total.metrics, view.unreadable())
    };
    // A row of two requests: its name, the mask of its numbers, the passes, and the extremes, each
    // 1 higher. Then the histogram of the row, no resource without a row, and the histogram of the
    // sum.
    let second = |extremes: [u64; 2], histogram: &[u8]| {
        let mut bytes = vec![1, 1, 0, 0b110_0001, 2];
        for extreme in extremes {
            let mut number = extreme + 1;
            while number > 0x7f {
                bytes.push(number.to_le_bytes()[0] | 0x80);
                number >>= 7;
            }
            bytes.push(number.to_le_bytes()[0]);
        }
        [&bytes, histogram, &[0], histogram].concat()
    };
    // The extremes are all response times: one above the longest of a histogram counts as that.
    for extremes in [[0, LONGEST], [0, LONGEST + 1], [LONGEST + 1, u64::MAX - 1]] {
        let bytes = second(extremes, &[1, 0]);
        let found = ProcessSecond::decode(START, &bytes).unwrap();
        assert_eq!(found.rows[0].counts, found.sum);
        assert_eq!(viewed(&bytes), (found.sum.metrics.clone(), 0));
        let SecondMetrics { min_rt, max_rt, histogram, .. } = found.sum.metrics;
        assert_eq!([min_rt, max_rt], extremes.map(|it| Some(Duration::from_nanos(it))));
        let histogram = histogram.unwrap();
        let cut = extremes.map(|it| Some(Duration::from_nanos(it.min(LONGEST))));
        assert_eq!((histogram.count(), [histogram.min(), histogram.max()]), (2, cut));
    }
    // Both requests in the last bucket of scale 0, which has the longest times, with these extremes.
    let buckets = [2, 0, 0, 64, 1, 1, 2];
    let bytes = second([LONGEST, LONGEST], &buckets);
    let found = ProcessSecond::decode(START, &bytes).unwrap();
    assert_eq!(viewed(&bytes), (found.sum.metrics, 0));
    for extremes in [[LONGEST, LONGEST + 1], [LONGEST + 1; 2], [LONGEST, u64::MAX - 1]] {
        let bytes = second(extremes, &buckets);
        let damaged = ProcessSecond::decode(START, &bytes);
        assert_eq!(damaged, Err(FormatError::Damaged), "{extremes:?}");
        assert_eq!(viewed(&bytes).1, 1, "{extremes:?}");
    }
}

#[test]
fn any_number_of_resources_without_a_row_is_added_up() {
    let most = [1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 0];
    let left_out = ProcessSecond::decode(0, &most).unwrap().left_out.unwrap();
    assert_eq!(left_out.count, u64::MAX);
    let mut server = Archive::new(FleetConfig::default());
    for id in 0..2 {
        let mut process = Process::new(id, START);
        process.next_second();
        process.deliver(&mut server);
    }
    let mut view = FleetView::new(FleetConfig::default());
    view.on_survey(&server.survey(micros(START + 1)));
    let fetch = view.wanted().unwrap();
    view.on_fetched(&fetch, &[Some(most.to_vec()), Some(most.to_vec())]);
    let window = view.window(START..START + 1);
    assert_eq!((window.left_out_rows, window.left_out_unnamed), (u64::MAX, u64::MAX));
}

#[test]
fn random_bytes_are_an_error_or_a_second_and_never_a_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut process = Process::new(1, START);
    process.work("orders", 3);
    process.work("users", 30);
    process.next_second();
    let bytes = process.delivery().seconds[0].bytes.clone();
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(1..bytes.len());
            bytes[at] = random.u8(..);
        }
        read += u32::from(ProcessSecond::decode(START, &bytes).is_ok());
    }
    assert!(read > 100, "{read} were read");
}

/// A reader adds the rows without making a `ProcessSecond` of them.
#[test]
fn damaged_second_is_added_as_it_decodes_or_not_at_all() {
    let mut server = Archive::new(FleetConfig::default());
    let mut process = Process::new(1, START);
    for (resource, requests) in [("orders", 3), ("users", 1), ("orders", 1), ("search", 2)] {
        process.work(resource, requests);
    }
    process.next_second();
    process.deliver(&mut server);
    let mut view = FleetView::new(FleetConfig::default());
    view.on_survey(&server.survey(micros(START + 1)));
    let fetch = view.wanted().unwrap();
    let bytes = server.second(micros(START + 1), START, &fetch.processes)[0].clone().unwrap();
    let names = NamesFetch { process: process.id, from: 0, count: 3 };
    let known = server.names(process.id, 0, 3);
    let (mut added, mut refused) = (0, 0);
    for (at, flipped) in (0..bytes.len()).flat_map(|at| (0..=255).map(move |it| (at, it))) {
        let mut bytes = bytes.clone();
        bytes[at] ^= flipped;
        // The names come before the second, or after it.
        let mut views = [view.clone(), view.clone()];
        views[0].on_names(&[names], std::slice::from_ref(&known));
        for view in &mut views {
            view.on_fetched(&fetch, &[Some(bytes.clone())]);
        }
        views[1].on_names(&[names], std::slice::from_ref(&known));
        let [window, after] = views.each_ref().map(|view| view.window(START..START + 1));
        assert_eq!((&after, views[1].unreadable()), (&window, views[0].unreadable()), "{bytes:?}");
        let present = window.resources.iter().filter(|it| it.processes > 0).collect::<Vec<_>>();
        match ProcessSecond::decode(START, &bytes) {
            Ok(second) if views[0].wanted_names().is_empty() => {
                added += 1;
                assert_eq!(window.total, second.sum, "{bytes:?}");
                assert_eq!(present.len(), second.rows.len());
                for row in &second.rows {
                    let key = ResourceKey::decode(&known[row.name as usize]).unwrap();
                    let found = present.iter().find(|it| it.key == key).unwrap();
                    assert_eq!(found.counts, row.counts, "{bytes:?}");
                }
            }
            // A name that the process does not have.
            Ok(_) => {}
            Err(_) => {
                refused += 1;
                assert_eq!((views[0].unreadable(), window.presence.present), (1, 0), "{bytes:?}");
                assert_eq!((present.len(), window.left_out_rows), (0, 0), "{bytes:?}");
            }
        }
    }
    assert!(added > 1_000 && refused > 1_000, "{added} added, {refused} refused");
}

/// A row of a request of 0 ns: with its histogram, and without. A row of a request in flight.
const PARTS: [&[u8]; 3] =
    [&[1, 1, 0, 1, 1, 1, 4, 0, 1, 4], &[1, 1, 0, 1, 1, 0, 0, 0], &[1, 1, 0, 0x80, 2, 1, 0, 0, 0]];

#[test]
fn histogram_of_a_sum_is_known_if_each_part_with_response_times_has_one() {
    let config = FleetConfig::default();
    let mut server = Archive::new(config);
    let mut processes: Vec<_> = (1..=3).map(|id| Process::new(id, START)).collect();
    for process in &mut processes {
        process.work("orders", 1);
        for _ in 0..3 {
            process.next_second();
            process.deliver(&mut server);
        }
    }
    let now = micros(START + 3);
    let mut view = FleetView::new(config);
    view.on_survey(&server.survey(now));
    for process in &processes {
        let names = NamesFetch { process: process.id, from: 0, count: 1 };
        view.on_names(&[names], &[server.names(process.id, 0, 1)]);
    }
    let ids: Vec<_> = processes.iter().map(|it| it.id).collect();
    for order in 0..27 {
        let parts = [order % 3, order / 3 % 3, order / 9].map(|it| PARTS[it].to_vec());
        let mut expected = SecondMetrics::new(Timestamp::from_secs(START));
        for part in &parts {
            expected += &ProcessSecond::decode(START, part).unwrap().rows[0].counts.metrics;
        }
        // The parts of three processes in a second, and those of a process in three seconds.
        let (mut of_processes, mut of_seconds) = (view.clone(), view.clone());
        let fetch = Fetch { second: START, processes: ids.clone() };
        of_processes.on_fetched(&fetch, &parts.clone().map(Some));
        for (second, part) in (START..).zip(parts) {
            let fetch = Fetch { second, processes: ids[..1].to_vec() };
            of_seconds.on_fetched(&fetch, &[Some(part)]);
        }
        let windows = [of_processes.window(START..START + 1), of_seconds.window(START..START + 3)];
        for window in windows {
            assert_eq!(window.resources[0].counts.metrics, expected, "{order}");
            assert_eq!(window.total.metrics, expected, "{order}");
        }
    }
}
