//! An upstream that notes its requests, and an audit of them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::get;

/// A request that was admitted: after its start in Envoy, and before its arrival, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) start: u64,
    pub(crate) arrival: u64,
}

/// An upstream of Envoy. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Upstream {
    uses: Arc<Mutex<Vec<Use>>>,
}

pub(crate) fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

impl Upstream {
    /// Serves until the test ends.
    pub(crate) async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(get(note)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    }

    pub(crate) fn take(&self) -> Vec<Use> {
        std::mem::take(&mut self.uses.lock().unwrap())
    }
}

async fn note(State(upstream): State<Upstream>, headers: HeaderMap) {
    let arrival = now();
    // Seconds, a dot, and nine digits.
    let start = headers["x-start"].to_str().unwrap().replace('.', "").parse().unwrap();
    upstream.uses.lock().unwrap().push(Use { start, arrival });
}

/// Checks that no interval of a second, wherever it begins, has certainly more than `limit` uses:
/// those that start and arrive in it. Returns how many there are at most.
pub(crate) fn assert_never_over(uses: &[Use], limit: usize) -> usize {
    const SECOND: u64 = 1_000_000_000;
    let mut uses = uses.to_vec();
    uses.sort_unstable_by_key(|it| it.start);
    let mut most = 0;
    for (index, first) in uses.iter().enumerate() {
        let end = first.start + SECOND;
        let within = uses[index..].iter().take_while(|it| it.start < end);
        most = most.max(within.filter(|it| it.arrival < end).count());
    }
    assert!(most <= limit, "{most} requests within a second, of at most {limit}");
    most
}

/// Returns the part of the limit per second that is used from `from` to `to`.
#[expect(clippy::cast_precision_loss, reason = "few")]
pub(crate) fn used(uses: &[Use], limit: usize, from: u64, to: u64) -> f64 {
    let count = uses.iter().filter(|it| (from..to).contains(&it.arrival)).count();
    let seconds = Duration::from_nanos(to - from).as_secs_f64();
    count as f64 / (limit as f64 * seconds)
}

#[test]
fn audit_sees_one_request_too_many() {
    let at = |ms: u64| Use { start: ms * 1_000_000, arrival: ms * 1_000_000 + 1 };
    let uses = [at(0), at(999), at(1_000), at(1_999)];
    assert_eq!(assert_never_over(&uses, 2), 2);
    let over = std::panic::catch_unwind(|| assert_never_over(&[at(0), at(500), at(999)], 2));
    assert!(over.is_err());
}
