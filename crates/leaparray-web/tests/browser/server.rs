//! Servers for the tests in a browser. They print their address, and end at SIGTERM or with their
//! standard input.

use std::env;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use leaparray::EventCounts;
use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, ReservedPass, Rt, Success};
use leaparray::flow::circuit::CircuitState;
use leaparray::flow::{CircuitBreaker, CircuitConfig, ConcurrencyLimiter, LimiterExt, Reason};
use leaparray::node::ResponseClass;
use leaparray::{
    Clock, HistogramConfig, NodeConfig, Outcome, Registry, RegistryConfig, Resource, WindowConfig,
};
use leaparray_web::format::{
    Counts, EventTotals, Fleet, FleetProcess, FleetProcessRow, FleetProcessState, FleetResourceRow,
    FleetStanding, FleetSum, RuleList, RuleRow, RuleSourceState,
};
use leaparray_web::{Access, Closer, Page, Token};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

/// Requests are recorded in such steps.
const STEP: Duration = Duration::from_millis(50);
/// The steps of the scenario `rest`: two and a half seconds.
const STEPS: usize = 50;

/// Names that would be markup, or templates, if they were not text.
const MARKUP: [&str; 4] = [
    "<img src=x onerror=\"document.title='broken'\">",
    "\"><script>document.title='broken'</script>",
    "</style><b>bold</b> & &amp; '{{name}}'",
    "javascript:alert(1)#resource=other&context=%00",
];

/// Names that a spreadsheet would take for formulas, also if semicolons separate its fields, and
/// names that CSV has to quote or Excel reads in another encoding.
const FORMULAS: [&str; 8] = [
    "=HYPERLINK(\"http://evil\",\"a\")",
    "@SUM(1)",
    "-1+cmd|' /C calc'!A0",
    "GET /a; =1+1;\"+1;'b",
    "'quoted'",
    "a,\"b\",c",
    "\u{feff}= x",
    "Zürich 東京",
];

/// Serves a page until it is told to end.
///
/// - `rest`: some resources, requests for two and a half seconds, then none. The line `counted …`
///   says what was counted.
/// - `load`: `LEAPARRAY_WEB_RESOURCES` resources with requests all the time.
/// - `silent`: one resource without a request.
/// - `rules`: as `silent`, with two rules whose source is wrong.
/// - `fleet`: as `silent`, and a fleet of `LEAPARRAY_WEB_PROCESSES` processes whose figures do not
///   change.
/// - `incident`: as `load`, and `POST /pay`, which is healthy until `/turn` is requested, and from
///   then on fails until the next such request. Its breaker is open as long as it fails.
/// - `nested`: one resource with a request, those of `load` if there is a number, and the page at
///   `/leaparray` of a service.
pub(crate) fn run(scenario: &str) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(serve(scenario));
    // Without waiting for the thread that reads the standard input.
    runtime.shutdown_background();
}

async fn serve(scenario: &str) {
    let short = WindowConfig::new(2, Duration::from_secs(1)).unwrap();
    // `Page` shows the seconds of the long window.
    let long = Duration::from_millis(number("WINDOW", "60000"));
    let long = WindowConfig::new(usize::try_from(long.as_millis() / 500).unwrap(), long).unwrap();
    let node = NodeConfig::new(short, long).unwrap().with_histogram(HistogramConfig::default());
    let config = RegistryConfig::default().node(node).max_resources(20_000);
    let registry = Arc::new(Registry::with_config(config));
    let token = match env::var("LEAPARRAY_WEB_TOKEN") {
        Ok(text) => Token::new(text).unwrap(),
        Err(_) => Token::random(),
    };
    let access = match &*text("ACCESS", "token") {
        "token" => Access::token(&token),
        "anyone" => Access::anyone(),
        other => panic!("{other} is no access"),
    };
    let page = Page::new(Arc::clone(&registry), access).name(text("NAME", "orders-api"));
    let page = page.max_viewers(number("VIEWERS", "64"));
    let page = page.stream_life(Duration::from_secs(number("LIFE", "300")));
    let page = if scenario == "fleet" {
        let fleet = fleet(number("PROCESSES", "100"));
        page.fleet(move || Some(fleet.clone()))
    } else if scenario == "rules" {
        page.rules(|| Some(rules()))
    } else {
        page
    };
    let listener = TcpListener::bind(("127.0.0.1", number("PORT", "0"))).await.unwrap();
    println!("{}", token.url(format_args!("http://{}/", listener.local_addr().unwrap())));
    let end = close_at_the_end(page.closer());
    if scenario == "incident" {
        let is_failing = Arc::new(AtomicBool::new(false));
        let breaker = Arc::new(CircuitBreaker::new(CircuitConfig::default()));
        registry.watch("POST /pay", Arc::clone(&breaker)).unwrap();
        drop(tokio::spawn(record_forever(Arc::clone(&registry), number("RESOURCES", "5"))));
        drop(tokio::spawn(record_incident(registry, Arc::clone(&is_failing))));
        let turn = move || {
            let fails = !is_failing.fetch_xor(true, Ordering::Relaxed);
            let state = if fails { CircuitState::Open } else { CircuitState::Closed };
            breaker.set_state_at(breaker.clock().now(), state).unwrap();
            async move { fails.to_string() }
        };
        let service: Router = Router::new().route("/turn", get(turn));
        let service = service.fallback_service(page.into_service());
        return axum::serve(listener, service).with_graceful_shutdown(end).await.unwrap();
    }
    if scenario == "nested" {
        registry.resource("GET /nested").unwrap().enter().success();
        drop(tokio::spawn(record_forever(registry, number("RESOURCES", "0"))));
        let service: Router = Router::new().nest_service("/leaparray", page.into_service());
        return axum::serve(listener, service).with_graceful_shutdown(end).await.unwrap();
    }
    tokio::spawn(end);
    match scenario {
        "rest" => drop(tokio::spawn(record_and_rest(registry))),
        "load" => drop(tokio::spawn(record_forever(registry, number("RESOURCES", "40")))),
        _ => drop(registry.resource("GET /silent").unwrap()),
    }
    page.serve(listener).await.unwrap();
}

/// Returns a setting of the environment.
fn text(name: &str, default: &str) -> String {
    env::var(format!("LEAPARRAY_WEB_{name}")).unwrap_or_else(|_| default.to_owned())
}

fn number<T: FromStr<Err: Debug>>(name: &str, default: &str) -> T {
    text(name, default).parse().unwrap()
}

async fn close_at_the_end(closer: Closer) {
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    let mut input = tokio::io::stdin();
    let mut byte = [0];
    tokio::select! {
        _ = terminated.recv() => {}
        _ = input.read(&mut byte) => {}
    }
    closer.close();
}

/// Records one request of a resource.
fn record(resource: &Resource, number: usize) {
    let end = resource.clock().now();
    let micros = 1_000 + 1_700 * (number as u64 % 53);
    let outcome = match number % 10 {
        3 => Outcome::Exception,
        7 if number % 20 == 7 => Outcome::Cancelled,
        _ => Outcome::Success,
    };
    let start = end.saturating_sub(Duration::from_micros(micros));
    resource.enter_at(start).end_at(end, outcome);
}

async fn record_and_rest(registry: Arc<Registry>) {
    let mut resources = Vec::new();
    for name in MARKUP.into_iter().chain(["GET /orders", "POST /pay"]) {
        resources.push(registry.resource(name).unwrap());
    }
    for context in ["web", "<i>batch</i>"] {
        resources.push(registry.resource("GET /orders").unwrap().in_context(context).unwrap());
    }
    // Full from now on. The second name would be markup, if it were not text.
    let limiters = ["clients", MARKUP[0]].map(|name| ConcurrencyLimiter::new(1).named(name));
    let _held = limiters.each_ref().map(|limiter| limiter.try_acquire().at_once());
    let mut steps = interval(STEP);
    for step in 0..STEPS {
        steps.tick().await;
        for (index, resource) in resources.iter().enumerate() {
            (0..3 + index * step % 37).for_each(|number| record(resource, number + step));
            if (index + step) % 3 == 0 {
                let limiter = &limiters[usize::from(step % 4 == 0)];
                assert!(limiter.try_enter(&**resource).is_err());
            }
            if index == 5 {
                resource.count_response(ResponseClass::ALL[1 + step % 4]);
                resource.refuse_many_at(resource.clock().now(), 7, Reason::Failing);
            }
        }
    }
    let counted: Vec<_> = resources.iter().map(counted).collect();
    println!("counted {}", Value::from(counted));
}

/// Returns what a resource has counted.
fn counted(resource: &Resource) -> Value {
    let totals = resource.lifetime();
    let mut counted = json!({ "name": resource.name(), "context": resource.context() });
    for (event, count) in totals.counts().iter() {
        counted[event.name()] = count.into();
    }
    let refusals = resource.refusals();
    counted["limit reached"] = refusals[Reason::LimitReached].into();
    counted["backend failing"] = refusals[Reason::Failing].into();
    counted["refused by"] = resource.refused_by().iter().map(|it| json!(it)).collect();
    let responses = resource.responses();
    counted["responses"] = responses.iter().map(|(_, count)| count).collect();
    counted
}

/// Records requests of `POST /pay` and of names that are formulas for a spreadsheet.
async fn record_incident(registry: Arc<Registry>, is_failing: Arc<AtomicBool>) {
    let pay = registry.resource("POST /pay").unwrap();
    let formulas = FORMULAS.map(|name| registry.resource(name).unwrap());
    let mut steps = interval(STEP);
    loop {
        steps.tick().await;
        for resource in &formulas {
            resource.enter().success();
        }
        for _ in 0..3 {
            if is_failing.load(Ordering::Relaxed) {
                pay.enter().exception();
            } else {
                pay.enter().success();
            }
        }
    }
}

/// Some resources fail, some refuse, the others are healthy.
async fn record_forever(registry: Arc<Registry>, count: usize) {
    let all: Vec<_> =
        (0..count).map(|i| registry.resource(&format!("GET /load/{i:04}")).unwrap()).collect();
    let mut steps = interval(STEP);
    for step in 0_usize.. {
        steps.tick().await;
        for (index, resource) in all.iter().enumerate() {
            // Every tenth request of the first resource fails. In each second, other resources have
            // twice the requests. Seven seconds are no multiple of the five after which the page
            // sorts again.
            for _ in 0..=usize::from((step / 20 + index) % 7 < 3) {
                record(resource, if index == 0 { step } else { (step * 7 + index) % 3 });
            }
            if index % 100 == 4 {
                resource.refuse(Reason::LimitReached);
            }
        }
    }
}

/// Returns rules whose source is wrong, with a name that would be markup.
fn rules() -> RuleList {
    let mut rules = RuleList::default();
    rules.source = Some("limits.toml".into());
    rules.state = RuleSourceState::Wrong;
    rules.why = Some("limits.toml:4: rule \"orders\": unknown key".into());
    rules.version = 3;
    let mut rule = RuleRow::new(MARKUP[0], "GET /orders", "limit = \"1000 per second\"");
    (rule.mode, rule.state, rule.refused) =
        ("enforce".into(), "12 of 1000 left".into(), Some(0.25));
    rules.rules = vec![rule, RuleRow::new("all", "*", "in_flight = 64")];
    rules.left_out = 7;
    rules
}

/// The newest final second of the fleet.
const NEWEST_FINAL: u64 = 1_764_039_999;

/// Returns a fleet with as many resources as processes, and at least the names that would be
/// markup. One process is lost, and has not delivered the last second. Two live ones have missed
/// it.
fn fleet(processes: u64) -> Fleet {
    let mut fleet = Fleet::new("<b>orders</b>");
    fleet.server = "connected".into();
    fleet.newest_final = Some(NEWEST_FINAL);
    fleet.unreadable = 2;
    fleet.last_second = Some(window(1, processes));
    fleet.last_minute = Some(window(60, processes));
    fleet.processes = (0..processes).map(process).collect();
    fleet
}

fn id(index: u64) -> String {
    format!("{:016x}", index + 1)
}

const fn misses_the_last_second(index: u64) -> bool {
    matches!(index, 17 | 41 | 63)
}

fn process(index: u64) -> FleetProcess {
    let state = if index == 17 { FleetProcessState::Lost } else { FleetProcessState::Live };
    let mut process = FleetProcess::new(id(index), format!("web-{index:04}"), state);
    let ledger = &mut process.ledger;
    ledger.delivered = totals(1_000 + index);
    ledger.missed = totals(u64::from(misses_the_last_second(index)));
    ledger.late = totals(index % 3);
    ledger.waiting = totals(2);
    ledger.unfinished = totals(7);
    ledger.lifetime =
        totals(1_000 + index + u64::from(misses_the_last_second(index)) + index % 3 + 9);
    process
}

/// Returns totals with a number of requests of each kind.
fn totals(count: u64) -> EventTotals {
    let mut counts =
        EventCounts::from([Success, Exception, Cancelled, Block].map(|it| (it, count)));
    (counts[Pass], counts[ReservedPass]) = (3 * count, 2 * count);
    EventTotals::from(&counts)
}

/// Returns counts that differ from each other, and with `size`.
fn counts(size: u64) -> Counts {
    let mut counts = Counts::default();
    counts.events = EventCounts::from([
        (Pass, 1_000 * size + 7),
        (Success, 900 * size + 1),
        (Exception, 60 * size + 2),
        (Cancelled, 40 * size + 4),
        (Block, 50 * size + 5),
        (Rt, 1_000 * size),
    ]);
    counts.events.set_rt_sum(Duration::from_millis(4_000 * size));
    (counts.in_flight, counts.max_in_flight) = (Some(size + 8), size + 9);
    (counts.min, counts.max) = (Some(1_100_000), Some(90_000_000));
    (counts.p50, counts.p99) = (Some(3_300_000), size.is_multiple_of(2).then_some(55_000_000));
    counts
}

/// Returns the last `seconds` seconds.
fn window(seconds: u64, processes: u64) -> FleetSum {
    let end = NEWEST_FINAL + 1;
    let standing = if seconds == 1 { FleetStanding::Final } else { FleetStanding::Closed };
    let mut window = FleetSum::new(end - seconds..end, standing);
    window.expected = processes;
    window.total = counts(seconds * 1_000_000);
    window.refusals = vec![30 * seconds, 0, 0, 0, 0, 1_000_000 * seconds];
    (window.left_out_rows, window.left_out) = (4 * seconds, counts(2 * seconds));
    // Of the last second, the name of each resource is known.
    window.left_out_unnamed = 3 * (seconds - 1);
    for index in 0..processes {
        let is_missing = misses_the_last_second(index);
        let present = seconds - u64::from(is_missing);
        window.present += u64::from(!is_missing);
        let of_process =
            if present == 0 { Counts::default() } else { counts(seconds * (index + 1)) };
        let mut row = FleetProcessRow::new(id(index), of_process);
        (row.present, row.missing) = (present, u64::from(is_missing));
        window.processes.push(row);
        let markup = usize::try_from(index).ok().and_then(|it| MARKUP.get(it));
        let name = markup.map_or_else(|| format!("GET /fleet/{index:04}"), |it| (*it).to_owned());
        let mut row = FleetResourceRow::new(name, counts(seconds * (2 * index + 3)));
        row.context = (index == 0).then(|| "<i>batch</i>".to_owned());
        row.processes = index + 1;
        if index % 2 == 0 {
            row.refusals = vec![1, 0, 0, 2 * (index + 1), 0, 0];
        }
        if index % 5 == 3 {
            row.left_out = index - 2;
        }
        window.resources.push(row);
    }
    window
}
