//! Measures `leaparray-envoy` beside limitador through gRPC, in memory and over Redis.
//!
//! ```text
//! checks/compare/grpc/run [rounds NUMBER]
//! ```
//!
//! Each server is a process of its own. Limitador's server is not on crates.io, so its library
//! stands behind the least service of RLS v3, with the release of tonic that `leaparray-envoy` has.
//! The same service without limits admits each request: it shows what is left to any limiter.
//! The load is by h2load, with the same bytes for all: a request with two descriptors, of a limit
//! for a path and of a limit for each client. In each round, the servers are loaded one after the
//! other. A figure is from the best tenth of the rounds.
//!
//! - *decisions per second*: 4 connections with 16 requests each, in flight at once;
//! - *per core*: the same, for a second of processor time of the server;
//! - *p99*: of 2,000 requests per second, from 8 connections;
//! - *commands*: the commands that Redis processes for a decision under full load, also in scripts;
//! - *in the fullest second*: the requests that two instances (in memory: one) admit in any second,
//!   of a limit of 1,000 in a second. A request counts only if it starts and ends in that second.
//!
//! Needs h2load and redis-server.
#![forbid(unsafe_code)]

mod audit;
mod fleet;
mod load;
mod serve;
mod table;

use std::error::Error;
use std::path::Path;

use fleet::{Kind, Redis, Server};
use table::Row;

/// The rounds of the load. The best tenth counts.
const ROUNDS: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(ROUNDS),
        ["rounds", rounds] => compare(rounds.parse()?),
        ["serve", kind, port, redis, limit] => {
            serve::run(Kind::parse(kind)?, port.parse()?, redis, limit.parse()?)
        }
        _ => Err("usage: leaparray-compare-grpc [rounds NUMBER]".into()),
    }
}

fn compare(rounds: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let body = load::body(folder.path())?;
    let mut rows: Vec<Row> = Kind::ALL.map(Row::new).into();
    measure(&mut rows, rounds, folder.path(), &body)?;
    for row in &mut rows {
        if row.kind != Kind::Nothing {
            row.fullest = Some(audit::fullest_second(row.kind, folder.path())?);
        }
    }
    table::print(&rows);
    Ok(())
}

/// Loads the servers in turn.
fn measure(rows: &mut [Row], rounds: usize, folder: &Path, body: &Path) -> Result<()> {
    let redis = Redis::start(folder)?;
    let start = |row: &Row| Server::start(row.kind, &redis, serve::WITHOUT_REFUSALS);
    let servers: Vec<Server> = rows.iter().map(start).collect::<Result<_>>()?;
    for server in &servers {
        server.wait_until_it_admits()?;
    }
    for round in 0..rounds {
        for (row, server) in rows.iter_mut().zip(&servers) {
            let (processor, commands) = (server.processor_time()?, redis.commands()?);
            let full = load::full(server.port, folder, body)?;
            let processor = server.processor_time()? - processor;
            // The reading itself is one.
            let commands = redis.commands()?.saturating_sub(commands + 1);
            row.note_full(&full, processor, row.kind.is_over_redis().then_some(commands));
            row.note_steady(&load::steady(server.port, folder, body)?);
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    Ok(())
}
