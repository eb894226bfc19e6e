//! The server: four routes, and the two middlewares that count every request.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, any};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::gate::{Gate, Gates};
use crate::route::Route;
use crate::tally::{Ending, Tally};

/// How long `/slow` takes.
const SLOW: Duration = Duration::from_millis(4);

/// How long a connection may take to end. An idle connection is closed at once. A connection that has sent half a
/// request could otherwise delay the end for ever.
const GRACE: Duration = Duration::from_secs(3);

/// A running server.
pub(crate) struct Server {
    stop: oneshot::Sender<()>,
    running: JoinHandle<io::Result<()>>,
    tally: Arc<Mutex<Tally>>,
}

impl Server {
    pub(crate) fn start(listener: TcpListener, gates: Gates) -> Self {
        let tally = Arc::default();
        let router = router(gates, Arc::clone(&tally));
        let (stop, stopped) = oneshot::channel();
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // Resolves when `stop` is called, or when its sender is dropped.
            let _ = stopped.await;
        });
        Self { stop, running: tokio::spawn(server.into_future()), tally }
    }

    /// Takes no further requests, finishes those in flight, and returns the counts of all.
    pub(crate) async fn stop(self) -> Tally {
        // Fails if the server has already ended.
        let _ = self.stop.send(());
        // A connection that is open after the grace period has sent no whole request, so none has reached a route.
        let _ = timeout(GRACE, self.running).await;
        std::mem::take(&mut self.tally.lock().expect("a count does not panic"))
    }
}

fn router(gates: Gates, tally: Arc<Mutex<Tally>>) -> Router {
    let requests = Arc::new(AtomicU64::new(0));
    let failing = move || {
        let third = requests.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        async move { if third { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK } }
    };
    let [fast_gate, slow_gate, failing_gate, limited_gate] = gates;
    let recorded = |route: Route, handler: MethodRouter, gate: Gate| {
        let layer = from_fn_with_state(Arc::new(gate), record);
        Router::new().route(route.path(), handler.layer(layer))
    };
    Router::new()
        .merge(recorded(Route::Fast, any(fast), fast_gate))
        .merge(recorded(Route::Slow, any(slow), slow_gate))
        .merge(recorded(Route::Failing, any(failing), failing_gate))
        .merge(recorded(Route::Limited, any(fast), limited_gate))
        .layer(from_fn_with_state(tally, witness))
}

async fn fast() -> &'static str {
    "done\n"
}

async fn slow() -> &'static str {
    sleep(SLOW).await;
    "done\n"
}

/// The middleware around one route: records every request through the crate.
///
/// If the client goes away, this future is dropped, and the admitted request with it, which ends as cancelled.
async fn record(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let admitted = match gate.admit().await {
        Ok(admitted) => admitted,
        Err(answer) => return answer,
    };
    let response = next.run(request).await;
    if response.status().is_success() {
        admitted.success();
    } else {
        admitted.exception();
    }
    response
}

/// The middleware around all routes: counts every request to a route without the crate.
async fn witness(State(tally): State<Arc<Mutex<Tally>>>, request: Request, next: Next) -> Response {
    let Some(route) = Route::of_path(request.uri().path()) else {
        return next.run(request).await;
    };
    let mut witness = Witness { tally, route, ending: Ending::Aborted };
    let response = next.run(request).await;
    witness.ending = Ending::Status(response.status().as_u16());
    response
}

/// Counts the ending of a request when it is dropped: aborted, if there was no answer.
struct Witness {
    tally: Arc<Mutex<Tally>>,
    route: Route,
    ending: Ending,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut tally = self.tally.lock().expect("a count does not panic");
        tally.count(self.route, self.ending.clone());
    }
}
