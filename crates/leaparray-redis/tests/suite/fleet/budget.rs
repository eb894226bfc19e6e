//! Seconds for which there is not room enough.

use std::time::Duration;

use leaparray::MetricEvent::{Pass, Rt, Success};
use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::{HistogramConfig, LatencyHistogram, Timestamp, TrafficType};
use leaparray_redis::fleet::{
    Archive, Budget, FleetConfig, FleetCounts, FleetView, NamesFetch, Outbox, ProcessId,
    ProcessSecond, ResourceKey,
};

use crate::fleet::parts::{Process, START, micros, read};

fn key(resource: u64) -> ResourceKey {
    ResourceKey::new(&format!("resource {resource}").into(), None, TrafficType::Inbound)
}

fn outbox() -> Outbox {
    Outbox::new(FleetConfig::default(), ProcessId(1), "web", START, 1 << 20)
}

/// Returns the counts of requests with random response times.
fn counts(random: &mut fastrand::Rng, requests: u64) -> FleetCounts {
    let mut histogram = LatencyHistogram::new(HistogramConfig::default());
    let mut counts = FleetCounts::default();
    let metrics = &mut counts.metrics;
    *metrics = SecondMetrics::new(Timestamp::from_secs(START));
    metrics.counts = [Pass, Success, Rt].map(|event| (event, requests)).into();
    metrics.concurrency = random.u64(..3);
    for _ in 0..requests {
        let rt = Duration::from_nanos(random.u64(..50_000_000));
        histogram.record(rt);
    }
    metrics.counts.set_rt_sum(histogram.sum());
    (metrics.min_rt, metrics.max_rt) = (histogram.min(), histogram.max());
    metrics.histogram = Some(histogram);
    counts
}

#[test]
fn rows_are_read_as_they_were_written() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..2_000 {
        let requests = random.u64(..5);
        let mut counts = counts(&mut random, requests);
        let metrics = &mut counts.metrics;
        // Numbers that are not the expected ones.
        match random.u32(..12) {
            0 => metrics.counts[Success] = random.u64(..3),
            1 => metrics.counts[Pass] = 0,
            2 => metrics.min_rt = None,
            3 => metrics.counts.set_rt_sum(Duration::from_secs(random.u64(..))),
            4 => metrics.counts[Rt] = random.u64(..4),
            5 => metrics.histogram = None,
            6 => metrics.max_rt = Some(Duration::from_millis(60)),
            7 => metrics.concurrency = u64::MAX,
            8 => (counts.in_flight, counts.refusals[Reason::QueueFull]) = (random.u64(..), 1),
            9 => metrics.histogram = Some(LatencyHistogram::default()),
            _ => {}
        }
        let mut outbox = outbox();
        let (second, left_out) = outbox.encode(START, [(key(1), counts.clone())], 1 << 20);
        let found = ProcessSecond::decode(START, &second.bytes).unwrap();
        assert_eq!((left_out, &found.sum.metrics.histogram), (0, &counts.metrics.histogram));
        assert_eq!(found.rows[0].counts, counts);
    }
}

#[test]
fn thousand_resources_with_a_request_each_take_less_than_eleven_bytes_each() {
    let mut random = fastrand::Rng::with_seed(3);
    let rows: Vec<_> = (0..1_000).map(|it| (key(it), counts(&mut random, 1))).collect();
    let (second, left_out) = outbox().encode(START, rows, 11_000);
    assert_eq!(left_out, 0);
    assert!(second.bytes.len() < 11_000, "{} bytes", second.bytes.len());
}

/// Delivers a second of 100 resources, of which each has 10 requests more than the one before.
/// Returns what a reader has, and all response times.
fn read_second(max_bytes: usize) -> (FleetView, LatencyHistogram) {
    let mut random = fastrand::Rng::with_seed(5);
    let rows: Vec<_> = (0..100).map(|it| (key(it), counts(&mut random, (it + 1) * 10))).collect();
    let mut all = LatencyHistogram::new(HistogramConfig::default());
    for (_, counts) in &rows {
        all.merge(counts.metrics.histogram.as_ref().unwrap());
    }
    (read_rows(rows, max_bytes), all)
}

/// Delivers a second. Returns what a reader has.
fn read_rows(rows: Vec<(ResourceKey, FleetCounts)>, max_bytes: usize) -> FleetView {
    let mut outbox = outbox();
    let (second, left_out) = outbox.encode(START, rows, max_bytes);
    assert!(second.bytes.len() <= max_bytes + 256, "{} bytes", second.bytes.len());
    outbox.push(second);
    outbox.set_left_out(left_out);
    let mut server = Archive::new(FleetConfig::default());
    let now = micros(START + 1);
    loop {
        let receipt = server.deliver(now, &outbox.delivery(now));
        if !outbox.on_receipt(now, &receipt) {
            break;
        }
    }
    let mut view = FleetView::new(FleetConfig::default());
    read(&mut view, &mut server, now);
    view
}

#[test]
fn histograms_of_the_busiest_resources_are_kept_and_those_of_all_are_in_the_total() {
    let (view, all) = read_second(4_000);
    let window = view.window(START..START + 1);
    assert_eq!((window.resources.len(), window.left_out_rows), (100, 0));
    let mut resources = window.resources;
    resources.sort_by_key(|it| it.counts.metrics.counts[Pass]);
    for (row, resource) in resources.iter().zip(0..) {
        assert_eq!((row.counts.metrics.counts[Success], row.left_out), ((resource + 1) * 10, 0));
    }
    let has: Vec<_> = resources.iter().map(|it| it.counts.quantile(0.5).is_some()).collect();
    assert!(has.is_sorted() && !has[0] && has[99], "the busiest have one: {has:?}");
    assert_eq!(window.total.metrics.histogram, Some(all.clone()));
    assert_eq!(window.processes[0].counts.metrics.histogram, Some(all));
}

#[test]
fn total_has_no_quantile_if_the_histogram_of_a_resource_is_not_known() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut unknown = counts(&mut random, 10_000);
    unknown.metrics.histogram = None;
    let mut rows = vec![(key(0), unknown)];
    rows.extend((1..100).map(|it| (key(it), counts(&mut random, 50))));
    for max_bytes in [1_500, 4_000, 1 << 20] {
        let total = read_rows(rows.clone(), max_bytes).window(START..START + 1).total;
        assert_eq!((total.metrics.counts[Rt], total.quantile(0.5)), (14_950, None), "{max_bytes}");
    }
}

#[test]
fn resources_without_a_row_are_named_and_in_the_total() {
    let (view, all) = read_second(1_200);
    let window = view.window(START..START + 1);
    assert_eq!(window.resources.len(), 100, "the others have their names");
    let (with, without): (Vec<_>, Vec<_>) =
        window.resources.iter().partition(|it| it.left_out == 0);
    assert!(with.len() > 10 && without.len() > 10, "{} and {}", with.len(), without.len());
    assert_eq!((window.left_out_rows, window.left_out_unnamed), (without.len() as u64, 0));
    let least = with.iter().map(|it| it.counts.metrics.counts[Pass]).min().unwrap();
    for row in without {
        assert_eq!((row.counts.is_empty(), row.processes, row.left_out), (true, 0, 1));
        let requests = (row.key.name[9..].parse::<u64>().unwrap() + 1) * 10;
        assert!(requests <= least, "{} is busier than a row with {least}", row.key.name);
    }
    let sum: u64 = with.iter().map(|it| it.counts.metrics.counts[Success]).sum();
    assert_eq!(sum + window.left_out.metrics.counts[Success], 10 * 5_050);
    assert_eq!(window.total.metrics.counts[Success], 10 * 5_050);
    // It takes a quarter of the bytes, which are not enough for all its buckets.
    assert_eq!(window.total.metrics.histogram, Some(all.downscaled(3).unwrap()));
}

#[test]
fn resources_without_room_for_a_name_are_counted() {
    let (view, _) = read_second(160);
    let window = view.window(START..START + 1);
    let named: u64 = window.resources.iter().map(|it| it.left_out).sum();
    assert!(window.left_out_unnamed > 0);
    assert_eq!(window.left_out_rows, window.left_out_unnamed + named);
    assert_eq!(window.total.metrics.counts[Success], 10 * 5_050);
}

#[test]
fn resource_without_a_number_costs_the_others_no_room() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut outbox = outbox();
    let names = (0..16_384).map(|it| (key(it), FleetCounts::default()));
    outbox.encode(START - 1, names, usize::MAX);
    let rows: Vec<_> = (0..=16_384).map(|it| (key(it), counts(&mut random, 1))).collect();
    let (second, _) = outbox.encode(START, rows[1..16_384].to_vec(), usize::MAX);
    let max_bytes = second.bytes.len() + 100;
    let (second, left_out) = outbox.encode(START, rows[1..].to_vec(), max_bytes);
    assert!(second.bytes.len() < max_bytes + 256, "{} bytes", second.bytes.len());
    let found = ProcessSecond::decode(START, &second.bytes).unwrap();
    assert_eq!((left_out, found.rows.len(), found.sum.metrics.counts[Pass]), (1, 16_383, 16_384));
    assert!(found.rows.iter().all(|it| it.counts.metrics.histogram.is_some()));
    assert_eq!(found.left_out.unwrap().sum.metrics.counts[Pass], 1);
}

#[test]
fn two_seconds_of_the_budget_find_room_with_the_finest_histograms() {
    let mut random = fastrand::Rng::with_seed(7);
    let finest = HistogramConfig::with_scale(8).unwrap();
    let max_bytes = Budget::default().share(1);
    let mut outbox =
        Outbox::new(FleetConfig::default(), ProcessId(1), "web", START, 2 * (max_bytes + 256));
    for second in [START, START + 1] {
        let row = |it| {
            let mut counts = counts(&mut random, 50);
            let mut histogram = LatencyHistogram::new(finest);
            for _ in 0..50 {
                histogram
                    .record(Duration::from_nanos(1 << random.u32(10..40) | random.u64(..1 << 40)));
            }
            let metrics = &mut counts.metrics;
            metrics.counts.set_rt_sum(histogram.sum());
            (metrics.min_rt, metrics.max_rt) = (histogram.min(), histogram.max());
            metrics.histogram = Some(histogram);
            (key(it), counts)
        };
        let rows: Vec<_> = (0..1_000).map(row).collect();
        let (second, _) = outbox.encode(second, rows, max_bytes);
        let len = second.bytes.len();
        assert!((max_bytes - 1_000..=max_bytes + 256).contains(&len), "{len} bytes");
        outbox.push(second);
    }
    let (seconds, bytes) = outbox.waiting_len();
    assert_eq!((seconds, outbox.record().missed.0), (2, 0), "{bytes} bytes");
}

#[test]
fn process_takes_its_share_of_the_bytes_of_the_fleet() {
    let mut server = Archive::new(FleetConfig::default());
    let budget = Budget { process: 1 << 20, fleet: 20_000 };
    let mut processes: Vec<_> = (0..10)
        .map(|id| Process::with_budget(id, START, FleetConfig::default(), budget, 1 << 20))
        .collect();
    for process in &mut processes {
        process.deliver(&mut server);
        for resource in 0..200 {
            process.work(&format!("resource {resource}"), 3);
        }
    }
    let first = processes.first_mut().unwrap();
    assert_eq!(first.outbox.processes(), 1, "it was alone");
    first.next_second();
    assert_eq!(first.record().left_out, 0);
    let last = processes.last_mut().unwrap();
    assert_eq!(last.outbox.processes(), 10);
    last.next_second();
    assert!(last.record().left_out > 0);
    let (_, bytes) = last.outbox.waiting_len();
    assert!(bytes < 20_000 / 10 + 512, "{bytes} bytes");
    // Those that deliver no more leave their shares to the others.
    last.clock.advance(Duration::from_secs(5));
    last.collect();
    last.deliver(&mut server);
    assert_eq!(last.outbox.processes(), 1);
}

#[test]
fn names_of_many_processes_are_read_at_once_and_lacking_ones_hold_up_no_others() {
    let mut server = Archive::new(FleetConfig::default());
    for id in 0..20 {
        let mut process = Process::new(id, START);
        process.work("search", 1);
        process.work(&format!("resource {id}"), 1);
        process.next_second();
        process.deliver(&mut server);
    }
    let mut view = FleetView::new(FleetConfig::default());
    let now = micros(START + 1);
    view.on_survey(&server.survey(now));
    let fetch = view.wanted().unwrap();
    view.on_fetched(&fetch, &server.second(now, START, &fetch.processes));
    let wanted = view.wanted_names();
    let all: Vec<_> =
        (0..20).map(|id| NamesFetch { process: ProcessId(id), from: 0, count: 2 }).collect();
    assert_eq!(wanted, all, "no more names than the rows have");
    // The server has lost those of the first process.
    let mut names: Vec<_> = wanted.iter().map(|it| server.names(it.process, 0, 2)).collect();
    names[0].clear();
    view.on_names(&wanted, &names);
    assert_eq!(view.wanted_names(), [], "until the next survey");
    let window = view.window(START..START + 1);
    assert_eq!((window.presence.present, window.resources.len()), (19, 20));
    view.on_survey(&server.survey(now));
    assert_eq!(view.wanted_names(), [all[0]]);
    read(&mut view, &mut server, now);
    let window = view.window(START..START + 1);
    assert_eq!((window.presence.present, window.resources.len()), (20, 21));
    let search = window.resources.iter().find(|it| &*it.key.name == "search").unwrap();
    assert_eq!((search.processes, search.counts.metrics.counts[Success]), (20, 20));
}

#[test]
fn process_has_rows_for_its_first_16384_names() {
    let one = || {
        let mut counts = FleetCounts::default();
        counts.metrics.counts[Pass] = 1;
        counts
    };
    let mut outbox = outbox();
    let rows: Vec<_> = (0..16_384).map(|it| (key(it), one())).collect();
    assert_eq!(outbox.encode(START, rows, usize::MAX).1, 0);
    // None of them has an event now, and all keep their numbers.
    let rows = [16_383, 16_384, 16_385].map(|it| (key(it), one()));
    let (second, left_out) = outbox.encode(START + 1, rows, usize::MAX);
    assert_eq!((second.totals[Pass], left_out), (3, 2));
    let found = ProcessSecond::decode(START + 1, &second.bytes).unwrap();
    assert_eq!(found.rows.iter().map(|it| it.name).collect::<Vec<_>>(), [16_383]);
    let left_out = found.left_out.unwrap();
    assert_eq!(
        (left_out.count, left_out.names.len(), left_out.sum.metrics.counts[Pass]),
        (2, 0, 2)
    );
}
