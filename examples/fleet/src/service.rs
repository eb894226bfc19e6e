//! A service process: an HTTP server whose route has the limit of the fleet, and whose seconds are
//! in the windows of the fleet.

use std::env;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use leaparray::{Clock, MetricEvent, NodeConfig, Registry, RegistryConfig, WindowConfig};
use leaparray_redis::{FleetReporter, LeasedLimiter, RedisEngine};
use leaparray_tower::{MatchedRoute, ResourceLayer};
use tokio::join;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::args::Args;
use crate::clock::time_of_day;
use crate::limit;
use crate::notes::Use;
use crate::status::{State, Status};
use crate::windows;

/// The environment variable with the address of the server. Unlike an argument, it is not shown in
/// lists of processes.
pub(crate) const SERVER: &str = "LEAPARRAY_EXAMPLE_FLEET_REDIS";
/// The route with the limit.
pub(crate) const ORDERS: &str = "/orders";
/// The route that tells the state of the process.
pub(crate) const STATUS: &str = "/status";
/// The header of an admitted request: the times of day between which it was admitted.
pub(crate) const ADMITTED: HeaderName = HeaderName::from_static("x-admitted-between");
/// The header of each answer: the process, by its identity in the fleet.
pub(crate) const PROCESS: HeaderName = HeaderName::from_static("x-process");
/// The header of each answer: the times between which it was decided, by the clock of the windows.
pub(crate) const DECIDED: HeaderName = HeaderName::from_static("x-decided-between");

/// How long the handler takes.
const WORK: Duration = Duration::from_millis(3);

/// Serves until stdin is closed: the process that has started this one asks for the end, or has
/// ended.
pub(crate) async fn serve(port: u16, args: &Args) -> Result<(), Box<dyn Error>> {
    let address = env::var(SERVER)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;

    let engine = RedisEngine::open(&address)?;
    let limiter =
        LeasedLimiter::builder(limit::NAME, limit::config(args.limit)?).start(engine.clone())?;
    let registry = Arc::new(Registry::with_config(RegistryConfig::default().node(geometry()?)));
    let [fleet, name] = [&args.fleet, &args.name].map(|it| it.as_deref().unwrap_or_default());
    let reporter = FleetReporter::builder(fleet, name)
        .with_config(windows::config()?)
        .start(&registry, engine)?;
    let note = Note { process: reporter.process().to_string().parse()?, of: Arc::clone(&registry) };
    let layer = ResourceLayer::new(Arc::clone(&registry), MatchedRoute)?.limit(limiter.clone());
    let of_status = limiter.clone();
    let app = Router::new()
        .route(ORDERS, get(order))
        .layer(layer)
        .layer(from_fn(move |request, next| note.clone().around(request, next)))
        .route(STATUS, get(async move || status(&of_status, &registry).to_string()));

    // The process that reads it connects to this port.
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    axum::serve(listener, app).with_graceful_shutdown(stdin_is_closed()).await?;
    // Gives the permits in hand to the others, and delivers the last second after its end.
    join!(limiter.close(), reporter.close());
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

/// Notes times before and after the decision of the limiter.
#[derive(Clone)]
struct Note {
    process: HeaderValue,
    of: Arc<Registry>,
}

impl Note {
    async fn around(self, mut request: Request, next: Next) -> Response {
        request.extensions_mut().insert(Arrived(time_of_day()));
        // The windows have the time of the registry's clock.
        let earliest = self.of.clock().now().as_micros();
        let mut response = next.run(request).await;
        let decided = Use { earliest, latest: self.of.clock().now().as_micros() };
        let decided = decided.to_string().try_into().expect("it has digits and a dash");
        response.headers_mut().extend([(PROCESS, self.process), (DECIDED, decided)]);
        response
    }
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
    let count = |event| orders.as_ref().map_or(0, |it| it.now().short().sum(event));
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
