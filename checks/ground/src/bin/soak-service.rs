//! A service process of the soak, with the limit and the windows of a fleet, a live page and a
//! metric log. Prints its address, and serves until its stdin is closed.
//!
//! ```text
//! soak-service NAME REDIS LOG
//! ```
//!
//! | path | answer |
//! |---|---|
//! | `/fast` | at once |
//! | `/slow` | after 20 ms |
//! | `/failing` | each third one is an error |
//! | `/orders` | after 3 ms, with the limit of the fleet: 200 in any second |
//! | `/totals` | the counts of each route since the start, and the states of the parts |
//! | `/leaparray` | the live page |

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Read;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, io, thread};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use leaparray::{MetricEvent, NodeConfig, Registry, RegistryConfig, WindowConfig};
use leaparray_redis::lease::LeaseConfig;
use leaparray_redis::{FleetReporter, LeasedLimiter, RedisEngine};
use leaparray_sentinel::{MetricLog, MetricLogHandle};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use leaparray_web::Access;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;

const LIMIT: u64 = 200;
const SECOND: Duration = Duration::from_secs(1);
const EVENTS: [(&str, MetricEvent); 5] = [
    ("pass", MetricEvent::Pass),
    ("block", MetricEvent::Block),
    ("success", MetricEvent::Success),
    ("exception", MetricEvent::Exception),
    ("cancelled", MetricEvent::Cancelled),
];

static ASKED: AtomicU64 = AtomicU64::new(0);

async fn failing() -> StatusCode {
    let asked = ASKED.fetch_add(1, Ordering::Relaxed);
    if asked.is_multiple_of(3) { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
}

/// The counts of each route, a line each, and the states of the parts.
fn totals(registry: &Registry, limiter: &LeasedLimiter, log: &MetricLogHandle) -> String {
    let line = |route| {
        let Some(resource) = registry.get(&format!("GET {route}")) else { return String::new() };
        let counted = resource.lifetime();
        let counts = EVENTS.map(|(name, event)| format!("{name}={}", counted.sum(event)));
        format!("{route} {} in_flight={}\n", counts.join(" "), resource.concurrency())
    };
    let routes = ["/fast", "/slow", "/failing", "/orders"].map(line).concat();
    format!("{routes}# {:?}\n# {:?}\n", limiter.state(), log.state())
}

/// Resolves when stdin is closed.
async fn stdin_is_closed() {
    let (sender, closed) = oneshot::channel();
    thread::spawn(move || {
        // An error is an end as well.
        let _ = io::stdin().read(&mut [0]);
        let _ = sender.send(());
    });
    let _ = closed.await;
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let [name, redis, folder] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: soak-service NAME REDIS LOG".into());
    };
    let second = WindowConfig::new(10, SECOND)?;
    let minute = WindowConfig::new(600, 60 * SECOND)?;
    let config = RegistryConfig::default().node(NodeConfig::new(second, minute)?);
    let registry = Arc::new(Registry::with_config(config));
    let engine = RedisEngine::open(redis.as_str())?;
    let lease = LeaseConfig::new(LIMIT, SECOND)?;
    let limiter = LeasedLimiter::builder("soak", lease).start(engine.clone())?;
    let reporter = FleetReporter::builder("soak", name).start(&registry, engine)?;
    let log = MetricLog::new(Arc::clone(&registry), folder, name).start()?;
    let log = Arc::new(log);

    let layer = || ResourceLayer::new(Arc::clone(&registry), MatchedRoute);
    let open = Router::new()
        .route("/fast", get(async || "fast\n"))
        .route("/slow", get(async || sleep(Duration::from_millis(20)).await))
        .route("/failing", get(failing))
        .layer(layer()?);
    let orders = Router::new()
        .route("/orders", get(async || sleep(Duration::from_millis(3)).await))
        .layer(layer()?.limit(limiter.clone()));
    let page = leaparray_web::service(Arc::clone(&registry), Access::anyone());
    let (counts, asked, written) = (Arc::clone(&registry), limiter.clone(), Arc::clone(&log));
    let app = open
        .merge(orders)
        .route("/totals", get(async move || totals(&counts, &asked, &written)))
        .nest_service("/leaparray", page);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(stdin_is_closed()).await?;
    tokio::join!(limiter.close(), reporter.close());
    Ok(())
}
