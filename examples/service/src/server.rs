//! The server: four routes, which a layer records and limits, one that exposes the records, and the
//! live page.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use leaparray_tower::ResourceLayer;
use leaparray_web::{Closer, Token};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::route::Route;
use crate::tally::Tally;
use crate::witness::witness;
use crate::{page, scrape};

/// How long the backend of `/slow` takes for a request.
const SLOW: Duration = Duration::from_millis(4);

/// How many requests the backend of `/slow` takes at a time. The others wait.
const SLOW_WORKERS: usize = 8;

/// How long a connection may take to end. An idle connection is closed at once. A connection that
/// has sent half a request could otherwise delay the end for ever.
const GRACE: Duration = Duration::from_secs(3);

/// A running server.
pub(crate) struct Server {
    /// Ends the streams of the live page, which would otherwise hold up the end.
    streams: Closer,
    stop: oneshot::Sender<()>,
    running: JoinHandle<io::Result<()>>,
    tally: Arc<Mutex<Tally>>,
}

impl Server {
    pub(crate) fn start(
        listener: TcpListener,
        metrics: &Metrics,
        limits: &Limits,
        token: &Token,
    ) -> Self {
        let tally = Arc::default();
        let page = page::page(metrics, limits, token);
        let streams = page.closer();
        let router = router(metrics, limits, Arc::clone(&tally));
        let router = router.nest_service(page::PATH, page.into_service());
        let (stop, stopped) = oneshot::channel();
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // Resolves when `stop` is called, or when its sender is dropped.
            let _ = stopped.await;
        });
        Self { streams, stop, running: tokio::spawn(server.into_future()), tally }
    }

    /// Takes no further requests, finishes those in flight, and returns the counts of all.
    pub(crate) async fn stop(self) -> Tally {
        self.stop_within(GRACE).await.0
    }

    /// Does as [`stop`](Self::stop) with another grace period. Also returns whether each connection
    /// and each request has ended within it.
    pub(crate) async fn stop_within(mut self, grace: Duration) -> (Tally, bool) {
        self.streams.close();
        // Fails if the server has already ended.
        let _ = self.stop.send(());
        let ended = async {
            let _ = self.running.await;
            // A stream of HTTP/2 is a task of its own. If the client hangs up, it may end after its
            // connection. It shares the counts until then.
            while Arc::get_mut(&mut self.tally).is_none() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        // A connection that is open after the grace period has sent no whole request, so none has
        // reached a route.
        let has_ended = timeout(grace, ended).await.is_ok();
        let tally = std::mem::take(&mut *self.tally.lock().expect("a count does not panic"));
        (tally, has_ended)
    }
}

fn router(metrics: &Metrics, limits: &Limits, tally: Arc<Mutex<Tally>>) -> Router {
    let requests = Arc::new(AtomicU64::new(0));
    let failing = move || {
        let third = requests.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        async move { if third { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK } }
    };
    let workers = Arc::new(Semaphore::new(SLOW_WORKERS));
    let slow = move || slow(Arc::clone(&workers));
    let recorded = ResourceLayer::new(Arc::clone(&metrics.registry), name);
    let recorded = recorded.expect("there is room for the requests without a route");
    let scraped = scrape::metrics(metrics);
    let routes = Router::new()
        .route(Route::Fast.path(), any(fast))
        .route(Route::Slow.path(), any(slow))
        .route(Route::Failing.path(), any(failing))
        .route(Route::Limited.path(), any(fast));
    let routes = match limits {
        Limits::Rules(rules) => routes.layer(recorded.limits(rules.limits())),
        Limits::ByHand(limiters) => {
            let limiters = limiters.clone();
            routes.layer(recorded.limit_each(move |resource| limiters.of(resource)))
        }
    };
    routes
        .layer(from_fn_with_state(tally, witness))
        // After the layers, which do not see it: a scrape is no request to a route.
        .route(scrape::PATH, scraped)
}

/// The name of a request's resource: its route, whatever its method.
fn name(request: &Request, name: &mut String) {
    name.extend(Route::of_path(request.uri().path()).map(Route::path));
}

async fn fast() -> &'static str {
    "done\n"
}

async fn slow(workers: Arc<Semaphore>) -> &'static str {
    let _worker = workers.acquire().await.expect("never closed");
    sleep(SLOW).await;
    "done\n"
}
