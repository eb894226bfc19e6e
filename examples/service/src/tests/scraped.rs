//! A Prometheus server scrapes the service every second. At rest, its numbers are those of the
//! service.

#[path = "../../../../crates/leaparray-prometheus/tests/server/prometheus.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod prometheus;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Parser;
use leaparray::MetricEvent;
use leaparray_web::Token;
use tokio::net::TcpListener;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::Args;
use crate::limits::Limits;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::reconcile::reconcile;
use crate::route::Route;
use crate::server::Server;

use prometheus::Prometheus;

const COUNTERS: [(&str, MetricEvent); 5] = [
    ("pass", MetricEvent::Pass),
    ("block", MetricEvent::Block),
    ("success", MetricEvent::Success),
    ("exception", MetricEvent::Exception),
    ("cancelled", MetricEvent::Cancelled),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus"]
async fn totals_of_a_scraper_are_those_of_the_service() {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let Some(scraper) = block_in_place(|| Prometheus::start("service example", address, &[]))
    else {
        return;
    };
    let metrics = Metrics::new();
    let limits = Limits::new(&Args::try_parse_from(["service"]).unwrap(), &metrics).unwrap();
    let server = Server::start(listener, &metrics, &limits, &Token::random());
    let load = Load::start(address, 4);
    sleep(Duration::from_secs(3)).await;
    let client = load.stop().await;
    block_in_place(|| {
        for route in Route::ALL {
            let (totals, path) = (metrics.of(route).lifetime(), route.path());
            for (name, event) in COUNTERS {
                let query = format!("leaparray_{name}_total{{resource='{path}'}}");
                scraper.wait_for(&query, totals.sum(event));
            }
            let count = format!("leaparray_response_time_seconds_count{{resource='{path}'}}");
            scraper.wait_for(&count, totals.rt_count());
            scraper.wait_for(&format!("leaparray_in_flight{{resource='{path}'}}"), 0);
        }
    });
    // So they are also those of the clients, and of the middleware that counts without the crate.
    let server = server.stop().await;
    let reconciliation = reconcile(&metrics, &server, Some(&client));
    assert_eq!(reconciliation.differences, [""; 0]);
}
