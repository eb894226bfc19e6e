//! Starts the service, Envoy with both filters, and load, and prints an audit by the clock of the
//! upstream. Fails if a second has more than the limit, or if less than 95 % of it is used although
//! the load was sent. Needs Envoy, named by the variable `ENVOY`, and h2load.
#![forbid(unsafe_code)]

#[path = "../tests/envoy/audit.rs"]
mod audit;
#[path = "../tests/envoy/program.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod program;

use std::error::Error;

use audit::{Upstream, assert_never_over, now, used};
use leaparray_envoy::config::Config;
use leaparray_envoy::server::Server;
use leaparray_envoy::service::{Service, Store};
use program::{Ports, envoy, load};
use tokio::net::TcpListener;

const LIMIT: usize = 400;
const SECONDS: u32 = 8;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let limit = format!("rate_limit: {{ unit: second, requests_per_unit: {LIMIT} }}");
    let config = Config::from_yaml(&format!(
        "domain: shop\ndescriptors:\n- key: rls\n  value: orders\n  {limit}\n\
         - key: rlqs\n  value: orders\n  {limit}\n"
    ))?;
    let service = Service::new(&config, &Store::Memory);
    let grpc = TcpListener::bind("127.0.0.1:0").await?;
    let http = TcpListener::bind("127.0.0.1:0").await?;
    let limits = grpc.local_addr()?.port();
    tokio::spawn(Server::new(service).serve(grpc, http, std::future::pending()));

    let upstream = Upstream::default();
    let address = upstream.serve().await;
    let (ports, folder) = (Ports::new(), tempfile::tempdir()?);
    let Some(_envoy) = envoy(folder.path(), &ports, address, &[limits]) else { return Ok(()) };
    println!("a limit of {LIMIT} in any second, four times as many requests, {SECONDS} s");
    println!("{:8} {:>9} {:>22} {:>6}", "filter", "admitted", "in the fullest second", "used");
    for (name, port) in [("RLS", ports.rls), ("RLQS", ports.rlqs)] {
        let start = now();
        let Some(load) = load(port, SECONDS) else { return Ok(()) };
        let was_sent = tokio::task::spawn_blocking(move || load.was_sent()).await?;
        let uses = upstream.take();
        let most = assert_never_over(&uses, LIMIT);
        // Without the time in which the first assignments are made.
        let from = start + 3_000_000_000;
        let part = used(&uses, LIMIT, from, start + u64::from(SECONDS) * 1_000_000_000);
        println!("{name:8} {:>9} {most:>22} {:>5.1}%", uses.len(), part * 100.0);
        assert!(!was_sent || part >= 0.95, "{name}: less than 95 % of the limit is used");
    }
    Ok(())
}
