//! Random seconds of processes that come late, come twice, restart and have other scales, compared
//! with the sum of what each process has said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use leaparray::flow::Reason;
use leaparray::metric::SecondMetrics;
use leaparray::{HistogramConfig, LatencyHistogram, MetricEvent, Timestamp, TrafficType};
use leaparray_redis::fleet::{
    Archive, FleetConfig, FleetCounts, FleetView, Outbox, ProcessId, ResourceKey,
};

use crate::fleet::parts::{START, micros, read};

/// The seconds in which processes record. Afterwards, all that waits is delivered.
const SECONDS: u64 = 12;

/// What a process has recorded, by second.
type Said = BTreeMap<u64, Vec<(ResourceKey, FleetCounts)>>;

struct Process {
    id: ProcessId,
    outbox: Outbox,
    /// The scale of the process, from which a few of its resources differ.
    scale: u8,
    said: Said,
}

fn histogram(rng: &mut Rng, scale: u8, count: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new(HistogramConfig::with_scale(scale).unwrap());
    for _ in 0..count {
        // From 0 ns up to some days.
        let nanos = rng.u64(..) >> rng.u32(16..64);
        histogram.record(Duration::from_nanos(if rng.u8(..8) == 0 { 0 } else { nanos }));
    }
    histogram
}

fn counts(rng: &mut Rng, second: u64, scale: u8) -> FleetCounts {
    let mut counts = FleetCounts::default();
    counts.metrics = SecondMetrics::new(Timestamp::from_secs(second));
    let metrics = &mut counts.metrics;
    for event in MetricEvent::ALL {
        if *event != MetricEvent::Rt && rng.bool() {
            metrics.counts[*event] = rng.u64(..) >> rng.u32(20..64);
        }
    }
    let rt_count = if rng.u8(..4) == 0 { 0 } else { 1 << rng.u32(..7) >> rng.u32(..7) };
    let scale = if rng.u8(..4) == 0 { rng.u8(..=8) } else { scale };
    let histogram = histogram(rng, scale, rt_count);
    metrics.counts[MetricEvent::Rt] = rt_count;
    metrics.counts.set_rt_sum(histogram.sum());
    (metrics.min_rt, metrics.max_rt) = (histogram.min(), histogram.max());
    match rng.u8(..8) {
        0 => {}
        // A resource whose histogram was read earlier or later than its counts.
        1 => {
            metrics.counts[MetricEvent::Rt] += rng.u64(..3);
            metrics.max_rt = metrics.max_rt.map(|it| it + Duration::from_nanos(rng.u64(..2)));
            metrics.histogram = Some(histogram);
        }
        _ => metrics.histogram = Some(histogram),
    }
    metrics.concurrency = rng.u64(..) >> rng.u32(32..64);
    counts.in_flight = rng.u64(..) >> rng.u32(20..64);
    if rng.bool() {
        counts.refusals[Reason::ALL[rng.usize(..Reason::ALL.len())]] = rng.u64(..1_000);
    }
    counts
}

fn key(number: u8) -> ResourceKey {
    let name = Arc::from(format!("resource {}", number / 4));
    let context = Arc::from("web");
    let traffic = [TrafficType::Inbound, TrafficType::Outbound][usize::from(number % 4 / 2)];
    ResourceKey::new(&name, (number % 2 == 1).then_some(&context), traffic)
}

impl Process {
    /// Creates a process that joins in its first second.
    fn new(rng: &mut Rng, server: &mut Archive, id: u64, second: u64) -> Self {
        let name = format!("process {}", id % 4);
        let outbox = Outbox::new(FleetConfig::default(), ProcessId(id), &name, second, 1 << 24);
        let mut process =
            Self { id: ProcessId(id), outbox, scale: rng.u8(..=8), said: Said::new() };
        process.deliver(rng, server, micros(second) + 1, true);
        process
    }

    fn record(&mut self, rng: &mut Rng, second: u64) {
        let numbers = (0..12).filter(|_| rng.u8(..3) == 0).collect::<Vec<u8>>();
        let rows = numbers.into_iter().map(|it| (key(it), counts(rng, second, self.scale)));
        let rows: Vec<_> = rows.filter(|(_, counts)| !counts.is_empty()).collect();
        let (encoded, left_out) = self.outbox.encode(second, rows.clone(), 1 << 20);
        assert_eq!(left_out, 0);
        self.outbox.push(encoded);
        self.said.insert(second, rows);
    }

    /// Delivers what waits. Answers and deliveries are lost, and come twice.
    fn deliver(&mut self, rng: &mut Rng, server: &mut Archive, now: u64, is_last: bool) {
        loop {
            let delivery = self.outbox.delivery(now);
            if !is_last && rng.u8(..4) == 0 {
                return;
            }
            let mut receipt = server.deliver(now, &delivery);
            if !is_last && rng.u8(..4) == 0 {
                return;
            }
            if rng.u8(..8) == 0 {
                receipt = server.deliver(now, &delivery);
            }
            if !self.outbox.on_receipt(now, &receipt) {
                return;
            }
        }
    }
}

/// Adds counts of the same second, or of a later one.
fn add(sum: &mut FleetCounts, other: &FleetCounts, is_later: bool) {
    let before = if is_later { 0 } else { sum.in_flight };
    sum.metrics += &other.metrics;
    sum.in_flight = before.saturating_add(other.in_flight);
    sum.refusals += &other.refusals;
}

fn zero(second: u64) -> FleetCounts {
    let mut counts = FleetCounts::default();
    counts.metrics = SecondMetrics::new(Timestamp::from_secs(second));
    counts
}

/// The histogram of a sum may be sent at a coarser scale.
fn at_scale_of(mut expected: FleetCounts, found: &FleetCounts) -> FleetCounts {
    if let (Some(it), Some(found)) = (&mut expected.metrics.histogram, &found.metrics.histogram) {
        *it = it.downscaled(found.scale()).expect("it is no finer than the rows");
    }
    expected
}

fn check(view: &FleetView, all: &[Process], seconds: std::ops::Range<u64>) {
    let window = view.window(seconds.clone());
    let mut resources = BTreeMap::<ResourceKey, FleetCounts>::new();
    let mut processes = BTreeMap::<ProcessId, FleetCounts>::new();
    for second in seconds.clone() {
        let mut of_second = BTreeMap::<ResourceKey, FleetCounts>::new();
        for process in all {
            let Some(rows) = process.said.get(&second) else { continue };
            let mut sum = zero(second);
            for (key, counts) in rows {
                let of_key = of_second.entry(key.clone()).or_insert_with(|| zero(second));
                add(of_key, counts, false);
                add(&mut sum, counts, false);
            }
            let before = processes.entry(process.id).or_insert_with(|| zero(second));
            add(before, &sum, true);
        }
        for (key, counts) in &of_second {
            let before = resources.entry(key.clone()).or_insert_with(|| zero(second));
            add(before, counts, true);
        }
        for (key, counts) in &mut resources {
            if !of_second.contains_key(key) {
                counts.in_flight = 0;
            }
        }
        for process in all.iter().filter(|it| !it.said.contains_key(&second)) {
            if let Some(it) = processes.get_mut(&process.id) {
                it.in_flight = 0;
            }
        }
    }
    let found: Vec<_> = window.resources.iter().map(|it| (it.key.clone(), &it.counts)).collect();
    let expected: Vec<_> = resources.iter().map(|(key, it)| (key.clone(), it)).collect();
    assert_eq!(found.len(), expected.len(), "{seconds:?}");
    for ((key, found), expected) in found.iter().zip(&expected) {
        assert_eq!((key, found), (&expected.0, &expected.1), "{seconds:?}");
    }
    let mut total = zero(seconds.start);
    assert_eq!(window.processes.len(), processes.len(), "{seconds:?}");
    for row in &window.processes {
        let expected = at_scale_of(processes[&row.id].clone(), &row.counts);
        assert_eq!(row.counts, expected, "{seconds:?}, {:?}", row.id);
        assert_eq!((row.present, row.waiting, row.missing), (row.expected, 0, 0), "{row:?}");
        add(&mut total, &row.counts, false);
    }
    assert_eq!(window.total, total, "{seconds:?}");
    assert_eq!((window.left_out_rows, window.left_out), (0, zero(seconds.start)));
}

#[test]
fn windows_are_the_sums_of_what_random_processes_have_said() {
    for seed in 0..40 {
        let rng = &mut Rng::with_seed(seed);
        let config = FleetConfig::default();
        let (mut server, mut view) = (Archive::new(config), FleetView::new(config));
        let mut all: Vec<_> = (1..=3).map(|id| Process::new(rng, &mut server, id, START)).collect();
        let mut live: Vec<usize> = (0..3).collect();
        for second in START..START + SECONDS {
            let now = micros(second + 1) + 1;
            for &at in &live {
                all[at].record(rng, second);
                all[at].deliver(rng, &mut server, now, false);
            }
            if rng.u8(..4) == 0 {
                // A process ends, and starts again, with another identity and another scale.
                let at = live.swap_remove(rng.usize(..live.len()));
                all[at].outbox.leave();
                all[at].deliver(rng, &mut server, now, true);
                live.push(all.len());
                let id = all[at].id.0 + 4;
                all.push(Process::new(rng, &mut server, id, second + 1));
            }
            if rng.u8(..3) == 0 {
                read(&mut view, &mut server, now);
            }
        }
        let end = START + SECONDS;
        for at in live {
            all[at].outbox.leave();
            all[at].deliver(rng, &mut server, micros(end + 1), true);
        }
        for second in end + 2..end + 8 {
            read(&mut view, &mut server, micros(second));
        }
        assert_eq!(view.unreadable(), 0, "seed {seed}");
        for first in START..end {
            check(&view, &all, first..first + 1);
            check(&view, &all, first..rng.u64(first..end) + 1);
        }
    }
}
