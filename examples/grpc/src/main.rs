//! A server and a client of gRPC in one process, with tonic. A layer on each side records every
//! call in a resource of its method. At the end, the counts of the resources are compared with
//! those of the callers, who count without the crate.
//!
//! ```text
//! cargo run -p example-grpc
//! ```
//!
//! There are unary calls and streams, a method that fails every third call, methods that the server
//! does not have, streams that the client drops, calls that the server refuses, and calls that the
//! client's breaker refuses.
//!
//! Exit codes: 0 if every count is equal; 1 if a count differs, or the server or the client could
//! not start.

#[path = "../../clients/src/arguments.rs"]
mod arguments;
mod client;
mod codec;
mod reconcile;
mod server;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use leaparray::Registry;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::client::Tally;
use crate::reconcile::{Reconciliation, Side};
use crate::server::Server;

const DOUBLE: &str = "/demo.Numbers/Double";
const COUNT: &str = "/demo.Numbers/Count";
const FAILING: &str = "/demo.Numbers/Failing";
const LIMITED: &str = "/demo.Numbers/Limited";
const METHODS: [&str; 4] = [DOUBLE, COUNT, FAILING, LIMITED];
/// The beginning of the methods that the server does not have.
const UNKNOWN: &str = "/demo.Numbers/Unknown";

/// How long all calls may take. They take a second; a server that can open no connection would let
/// the client wait for ever.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(code) = arguments::exit_code() {
        return code;
    }
    let calls = async {
        let calls = timeout(TIMEOUT, run(8, 200, 100)).await;
        calls.unwrap_or_else(|_| Err("the calls have not ended after a minute".into()))
    };
    // Fails if the process may open no more files.
    let counts = Runtime::new()
        .map_err(|error| format!("cannot start the runtime: {error}").into())
        .and_then(|runtime| runtime.block_on(calls));
    let (server, client, tally) = match counts {
        Ok(counts) => counts,
        Err(error) => {
            arguments::complain(error);
            return ExitCode::FAILURE;
        }
    };
    let Reconciliation { mut report, differences } = reconcile(&server, &client, &tally);
    for difference in &differences {
        report.extend(["\ndifference: ", difference]);
    }
    report += if differences.is_empty() { "\nreconciled: every count is equal\n" } else { "\n" };
    // If stdout is closed, only the exit code tells whether there was a difference.
    let _ = io::stdout().write_all(report.as_bytes());
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes all calls. Returns the registries of the server and of the client, and the counts of the
/// callers.
async fn run(
    tasks: u64,
    rounds: u64,
    limit: u64,
) -> Result<(Arc<Registry>, Arc<Registry>, Tally), Box<dyn Error>> {
    let server = Server::start(limit)?;
    let client = Arc::new(Registry::new());
    let tally = client::call(server.address, &client, tasks, rounds).await?;
    Ok((server.stop().await, client, tally))
}

fn reconcile(server: &Registry, client: &Registry, tally: &Tally) -> Reconciliation {
    let mut reconciliation = Reconciliation::default();
    reconciliation.compare(Side::Server, server, tally);
    reconciliation.compare(Side::Client, client, tally);
    reconciliation
}
