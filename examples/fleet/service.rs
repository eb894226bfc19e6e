//! A service process: an HTTP server whose route has the limit of the fleet.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::HeaderName;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use leaparray::{MetricEvent, NodeConfig, Registry, RegistryConfig, WindowConfig};
use leaparray_redis::{LeasedLimiter, RedisEngine};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::clock::time_of_day;
use crate::limit;
use crate::notes::Use;
use crate::status::{State, Status};

/// The environment variable with the address of the server. Unlike an argument, it is not shown in lists of processes.
pub(crate) const SERVER: &str = "LEAPARRAY_EXAMPLE_FLEET_REDIS";
/// The route with the limit.
pub(crate) const ORDERS: &str = "/orders";
/// The route that tells the state of the process.
pub(crate) const STATUS: &str = "/status";
/// The header of an admitted request: the times of day between which it was admitted.
pub(crate) const ADMITTED: HeaderName = HeaderName::from_static("x-admitted-between");

/// How long the handler takes.
const WORK: Duration = Duration::from_millis(3);

/// Serves until stdin is closed: the process that has started this one asks for the end, or has ended.
pub(crate) async fn serve(port: u16, limit: u64) -> Result<(), Box<dyn Error>> {
    let address = env::var(SERVER)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;

    let engine = RedisEngine::open(&address)?;
    let limiter = LeasedLimiter::builder(limit::NAME, limit::config(limit)?).start(engine)?;
    let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(geometry()?)));
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?.limit(limiter.clone());
    let of_status = limiter.clone();
    let app = Router::new()
        .route(ORDERS, get(order))
        .layer(layer)
        .layer(from_fn(note_arrival))
        .route(STATUS, get(async move || status(&of_status, &registry).to_string()));

    // The process that reads it connects to this port.
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    axum::serve(listener, app).with_graceful_shutdown(stdin_is_closed()).await?;
    // Gives the permits in hand to the others.
    limiter.close().await;
    Ok(())
}

/// The last second of a resource in ten buckets, and the last minute in buckets of the same length.
fn geometry() -> Result<NodeConfig, Box<dyn Error>> {
    let second = WindowConfig::new(10, Duration::from_secs(1))?;
    let minute = WindowConfig::new(600, Duration::from_secs(60))?;
    Ok(NodeConfig::new(second, minute)?)
}

/// The time of day at which a request has arrived.
#[derive(Clone, Copy)]
struct Arrived(u64);

/// Works outside of the limiter: notes a time before its decision.
async fn note_arrival(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Arrived(time_of_day()));
    next.run(request).await
}

/// Handles an admitted request: notes a time after the decision, and answers with both.
async fn order(
    Extension(Arrived(earliest)): Extension<Arrived>,
) -> ([(HeaderName, String); 1], &'static str) {
    let admitted = Use { earliest, latest: time_of_day() };
    sleep(WORK).await;
    ([(ADMITTED, admitted.to_string())], "done\n")
}

fn status(limiter: &LeasedLimiter, registry: &Registry) -> Status {
    let orders = registry.get(&format!("GET {ORDERS}"));
    let count = |event| orders.as_ref().map_or(0, |it| it.short_sum(event));
    Status {
        state: State::of(&limiter.state()),
        in_hand: limiter.in_hand(),
        admitted: count(MetricEvent::Pass),
        refused: count(MetricEvent::Block),
    }
}

/// Resolves when stdin is closed.
async fn stdin_is_closed() {
    let (sender, closed) = oneshot::channel();
    thread::spawn(move || {
        // Nothing is written to it. An error is an end as well.
        let _ = io::stdin().read(&mut [0]);
        let _ = sender.send(());
    });
    let _ = closed.await;
}
