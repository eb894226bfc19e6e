//! A scrape of many resources, beside the same series in other crates: time, allocations and
//! memory.
//!
//! Each resource has six counters by event, six by the reason of a refusal, a gauge, and a
//! histogram of 16 buckets. The sides take turns, and the time is the median. The allocations are
//! those of a later scrape, which finds the memory of the first ones.
//!
//! ```console
//! $ cargo bench -p leaparray-prometheus --all-features --bench scrape
//! ```
//!
//! A second table compares a thread that records beside scrapes of its own registry, one after the
//! other, with the same thread beside scrapes of another registry, which takes as much of the
//! processor and of its caches. So the ratio is the effect of a scrape on the threads that record.
//!
//! A third table has the same scrape over HTTP, with the bytes that are sent, and the most that are
//! allocated at a time.
//!
//! With other arguments, as from `cargo test`, there are few resources, and each side is scraped
//! twice.

use std::env;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use axum::http::header::ACCEPT_ENCODING;
use dhat::{Alloc, HeapStats, Profiler};
use http_body_util::BodyExt;
use leaparray::{
    Clock, HistogramConfig, MetricEvent, NodeConfig, Outcome, Registry, RegistryConfig,
};
use leaparray_prometheus::{Exposition, RegistryCollector};
use metrics::{Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, TextEncoder};
use prometheus_client::encoding::text::encode;
use tokio::runtime::Builder;

#[global_allocator]
static ALLOC: Alloc = Alloc;

const LABELS: [&str; 3] = ["resource", "context", "kind"];
const EVENTS: [MetricEvent; 6] = [
    MetricEvent::Pass,
    MetricEvent::Block,
    MetricEvent::Success,
    MetricEvent::Exception,
    MetricEvent::Cancelled,
    MetricEvent::ReservedPass,
];

const REASONS: [&str; 6] =
    ["limit_reached", "wait_too_long", "more_than_limit", "failing", "queue_full", "custom"];

/// A side: its name, and a function that returns the exposition.
type Side = (&'static str, Box<dyn FnMut() -> String>);

/// Returns the response times of a resource: a hundred, from 1 ms to 100 ms.
fn response_times() -> impl Iterator<Item = Duration> {
    (1..=100).map(Duration::from_millis)
}

fn names(resources: usize) -> impl Iterator<Item = String> {
    (0..resources).map(|number| format!("GET /shop/{number}/orders"))
}

/// The bounds of the histograms, in seconds, which are the default ones of the collector.
fn bounds() -> Vec<f64> {
    (-10..=4).map(|exponent| f64::from(exponent).exp2()).collect()
}

fn registry(resources: usize) -> Arc<Registry> {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node).max_resources(resources);
    let registry = Arc::new(Registry::with_config(config));
    for name in names(resources) {
        let resource = registry.resource(&name).expect("there is room");
        for rt in response_times() {
            let end = resource.clock().now();
            resource.enter_at(end.saturating_sub(rt)).end_at(end, Outcome::Success);
        }
    }
    registry
}

fn with_prometheus_client(registry: &Arc<Registry>) -> Side {
    let mut exposed = prometheus_client::registry::Registry::default();
    exposed.register_collector(Box::new(RegistryCollector::new(Arc::clone(registry))));
    let scrape = move || {
        let mut text = String::new();
        encode(&mut text, &exposed).expect("a string takes all text");
        text
    };
    ("leaparray-prometheus, prometheus-client", Box::new(scrape))
}

fn with_prometheus(registry: &Arc<Registry>) -> Side {
    let exposed = prometheus::Registry::new();
    let collector = RegistryCollector::new(Arc::clone(registry));
    exposed.register(Box::new(collector)).expect("the first collector");
    ("leaparray-prometheus, prometheus", Box::new(move || gather(&exposed)))
}

fn gather(exposed: &prometheus::Registry) -> String {
    TextEncoder::new().encode_to_string(&exposed.gather()).expect("a valid exposition")
}

/// The crate `prometheus` with series of its own.
fn prometheus(resources: usize) -> Side {
    let exposed = prometheus::Registry::new();
    let counters = EVENTS.map(|event| {
        let opts = Opts::new(format!("{}_total", event.name()), "Permits by event");
        let counter = IntCounterVec::new(opts, &LABELS).expect("valid names");
        exposed.register(Box::new(counter.clone())).expect("a new name");
        counter
    });
    let refusals = Opts::new("refusals_total", "Refused permits by reason");
    let refusals = IntCounterVec::new(refusals, &["resource", "context", "kind", "reason"]);
    let refusals = refusals.expect("valid names");
    exposed.register(Box::new(refusals.clone())).expect("a new name");
    let gauge = IntGaugeVec::new(Opts::new("in_flight", "Requests in flight"), &LABELS);
    let gauge = gauge.expect("valid names");
    let opts = HistogramOpts::new("response_time_seconds", "Response times").buckets(bounds());
    let histogram = HistogramVec::new(opts, &LABELS).expect("valid names");
    exposed.register(Box::new(gauge.clone())).expect("a new name");
    exposed.register(Box::new(histogram.clone())).expect("a new name");
    for name in names(resources) {
        let labels = [&name, "", "inbound"];
        for counter in &counters {
            counter.with_label_values(&labels).inc_by(100);
        }
        for reason in REASONS {
            refusals.with_label_values(&[&name, "", "inbound", reason]).inc_by(0);
        }
        gauge.with_label_values(&labels).set(0);
        for rt in response_times() {
            histogram.with_label_values(&labels).observe(rt.as_secs_f64());
        }
    }
    ("prometheus", Box::new(move || gather(&exposed)))
}

/// The exporter of the `metrics` facade.
fn metrics_exporter(resources: usize) -> Side {
    let builder = PrometheusBuilder::new().set_buckets(&bounds()).expect("there are bounds");
    let recorder: PrometheusRecorder = builder.build_recorder();
    let metadata = Metadata::new("scrape", Level::INFO, None);
    for name in names(resources) {
        let labels = vec![
            Label::new("resource", name),
            Label::new("context", ""),
            Label::new("kind", "inbound"),
        ];
        let key = |name: &'static str| Key::from_parts(name, labels.clone());
        for event in EVENTS {
            recorder.register_counter(&key(event.name()), &metadata).increment(100);
        }
        for reason in REASONS {
            let mut labels = labels.clone();
            labels.push(Label::new("reason", reason));
            recorder.register_counter(&Key::from_parts("refusals", labels), &metadata).increment(0);
        }
        recorder.register_gauge(&key("in_flight"), &metadata).set(0.0);
        for rt in response_times() {
            let histogram = recorder.register_histogram(&key("response_time_seconds"), &metadata);
            histogram.record(rt.as_secs_f64());
        }
    }
    let handle: PrometheusHandle = recorder.handle();
    ("metrics-exporter-prometheus", Box::new(move || handle.render()))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the allocations and the bytes allocated in a scrape, and the bytes that it leaves
/// allocated.
fn allocations(scrape: &mut dyn FnMut() -> String) -> (u64, u64, i64) {
    let _profiler = Profiler::builder().testing().build();
    let before = HeapStats::get();
    drop(black_box(scrape()));
    let after = HeapStats::get();
    let current = |stats: &HeapStats| i64::try_from(stats.curr_bytes).unwrap_or(i64::MAX);
    let left = current(&after) - current(&before);
    (after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes, left)
}

/// Returns the nanoseconds of a request, in slices of time that alternate: beside scrapes of
/// another registry, and beside those of its own.
fn recording(registry: &Arc<Registry>, resources: usize, rounds: usize) -> [Vec<f64>; 2] {
    const REQUESTS: u32 = 100_000;
    let other = self::registry(resources);
    let sides = [&other, registry].map(|registry| RegistryCollector::new(Arc::clone(registry)));
    let recorded: Vec<_> = registry.iter().take(16).collect();
    // The side that the scraper scrapes, and the number of scrapes that have begun.
    let (side, scrapes) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_done = AtomicBool::new(false);
    let mut nanos = [const { Vec::new() }; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let side = &sides[side.load(Ordering::Relaxed)];
                scrapes.fetch_add(1, Ordering::Relaxed);
                black_box(prometheus::core::Collector::collect(side));
            }
        });
        for _ in 0..rounds {
            for (number, nanos) in nanos.iter_mut().enumerate() {
                side.store(number, Ordering::Relaxed);
                let before = scrapes.load(Ordering::Relaxed);
                // The next scrape may have chosen its side before.
                while scrapes.load(Ordering::Relaxed) < before + 2 {
                    thread::yield_now();
                }
                let start = Instant::now();
                for request in 0..REQUESTS {
                    recorded[request as usize % recorded.len()].enter().success();
                }
                nanos.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS));
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    nanos
}

/// How a scrape is answered: into a string that is then sent, or by an [`Exposition`].
type Answer = (&'static str, Box<dyn Fn() -> usize>);

fn answers(registry: &Arc<Registry>) -> [Answer; 3] {
    let exposed = || {
        let mut exposed = prometheus_client::registry::Registry::default();
        exposed.register_collector(Box::new(RegistryCollector::new(Arc::clone(registry))));
        exposed
    };
    let exposition = Exposition::new(exposed());
    let send = move |encoding: &'static str| {
        let exposition = exposition.clone();
        move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let headers = [(ACCEPT_ENCODING, HeaderValue::from_static(encoding))];
            runtime.block_on(async {
                let mut body = exposition.respond(&headers.into_iter().collect()).into_body();
                let mut sent = 0;
                while let Some(frame) = body.frame().await {
                    sent += frame.expect("it is whole").into_data().map_or(0, |it| it.len());
                }
                sent
            })
        }
    };
    let whole = exposed();
    let as_string = move || {
        let mut text = String::new();
        encode(&mut text, &whole).expect("a string takes all text");
        text.len()
    };
    [
        ("a string", Box::new(as_string)),
        ("`Exposition`", Box::new(send("identity"))),
        ("`Exposition`, gzip", Box::new(send("gzip"))),
    ]
}

/// Prints how scrapes are answered over HTTP.
fn print_answers(registry: &Arc<Registry>, rounds: usize) {
    let answers = answers(registry);
    let mut times = [const { Vec::new() }; 3];
    let mut sent = [0; 3];
    for _ in 0..rounds {
        for (number, (_, answer)) in answers.iter().enumerate() {
            let start = Instant::now();
            sent[number] = black_box(answer());
            times[number].push(start.elapsed());
        }
    }
    println!("\n| over HTTP | ms | × a string | bytes sent | most bytes allocated |");
    println!("|---|---:|---:|---:|---:|");
    let times = times.map(median);
    for (number, (name, answer)) in answers.iter().enumerate() {
        let most = {
            let _profiler = Profiler::builder().testing().build();
            black_box(answer());
            HeapStats::get().max_bytes
        };
        let millis = times[number].as_secs_f64() * 1e3;
        let ratio = times[number].as_secs_f64() / times[0].as_secs_f64();
        println!("| {name} | {millis:.1} | {ratio:.2} | {} | {most} |", sent[number]);
    }
}

fn main() {
    let is_bench = env::args().any(|arg| arg == "--bench");
    let (resources, rounds) = if is_bench { (10_000, 21) } else { (10, 1) };
    let registry = registry(resources);
    let mut sides = [
        with_prometheus_client(&registry),
        with_prometheus(&registry),
        prometheus(resources),
        metrics_exporter(resources),
    ];
    let mut times = [const { Vec::new() }; 4];
    let mut lengths = [0; 4];
    for _ in 0..rounds {
        for (number, (_, scrape)) in sides.iter_mut().enumerate() {
            let start = Instant::now();
            let text = black_box(scrape());
            times[number].push(start.elapsed());
            lengths[number] = text.len();
        }
    }
    println!("{resources} resources, median of {rounds} scrapes\n");
    println!("| side | ms | × prometheus | allocations | bytes allocated | left | text |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let times = times.map(median);
    for (number, (name, scrape)) in sides.iter_mut().enumerate() {
        let (blocks, bytes, left) = allocations(scrape);
        let millis = times[number].as_secs_f64() * 1e3;
        let ratio = times[number].as_secs_f64() / times[2].as_secs_f64();
        let length = lengths[number];
        println!("| {name} | {millis:.1} | {ratio:.2} | {blocks} | {bytes} | {left} | {length} |");
    }
    println!("\n| a request, recorded beside scrapes | ns | × another registry |");
    println!("|---|---:|---:|");
    let [other, own] = recording(&registry, resources, 10 * rounds).map(|mut nanos| {
        nanos.sort_unstable_by(f64::total_cmp);
        nanos[nanos.len() / 2]
    });
    println!("| of another registry | {other:.1} | 1.000 |");
    println!("| of its own registry | {own:.1} | {:.3} |", own / other);
    print_answers(&registry, rounds);
}
