//! An HTTP service that records every request through `leaparray`. At the end, it compares each
//! count with a count that was made without the crate.
//!
//! ```text
//! cargo run -p example-service                # with the bundled client, for ten seconds
//! cargo run -p example-service -- --no-load   # for wrk, ab or curl, until Ctrl-C
//! cargo run -p example-service -- --json      # JSON for a program to read
//!
//! # With time to change limits.toml, and to look at the live page in a browser.
//! cargo run -p example-service -- --seconds 600
//! # With limiters that are made by hand, instead of by limits.toml.
//! cargo run -p example-service -- --circuit --adaptive --connections 100
//! # With the quantiles of the response times of a route at the end.
//! cargo run -p example-service -- --histogram /slow
//! ```
//!
//! Exit codes: 0 if every count is equal; 1 if a count differs, or the service failed; 2 if it
//! could not start.

mod by_hand;
mod distribution;
mod interrupt;
mod json;
mod limits;
mod load;
mod metrics;
mod monitor;
mod page;
mod reading;
mod reconcile;
mod route;
mod scrape;
mod server;
mod state;
mod table;
mod tally;
#[cfg(test)]
mod tests;
mod witness;

use std::fmt::Display;
use std::future;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use leaparray::Clock;
use leaparray_web::Token;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::limits::Limits;
use crate::load::Load;
use crate::metrics::Metrics;
use crate::reading::Show;
use crate::reconcile::reconcile;
use crate::route::Route;
use crate::server::Server;

/// Serves HTTP on loopback, prints metrics once a second, and reconciles every count at the end.
#[derive(Parser)]
#[command(name = "service", version)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
struct Args {
    /// For how many seconds the bundled client sends requests
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// How many connections the bundled client uses
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// The file of the rules, which the service follows while it runs
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/limits.toml"))]
    rules: PathBuf,
    /// Make the limiters by hand instead of by the rules, with a circuit breaker in front of the
    /// backend of /failing, which fails a third of its requests
    #[arg(long, conflicts_with = "rules")]
    circuit: bool,
    /// Make the limiters by hand instead of by the rules, and limit the requests of /slow in flight
    /// to what its backend can take: 8 at a time
    #[arg(long, conflicts_with = "rules")]
    adaptive: bool,
    /// The port to listen on; 0 takes any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Do not start the bundled client, and serve until Ctrl-C
    #[arg(long, conflicts_with_all = ["seconds", "connections"])]
    no_load: bool,
    /// At the end, print the quantiles of the response times of ROUTE in the last minute
    #[arg(long, value_name = "ROUTE")]
    histogram: Option<Route>,
    /// Print a JSON object a second, and all other output on stderr
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return explain(&error),
    };
    match runtime() {
        Ok(runtime) => runtime.block_on(serve(args)),
        Err(error) => {
            complain(format_args!("error: cannot start the runtime: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Starts the runtime. Fails if the process may open no more files.
fn runtime() -> io::Result<Runtime> {
    // The runtime returns an error if it cannot open its first files, and panics if it cannot open
    // the last ones, for signals. So find out first whether there is room: two files for each pipe.
    (0..8).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>()?;
    Runtime::new()
}

async fn serve(args: Args) -> ExitCode {
    let metrics = Metrics::new();
    let limits = match Limits::new(&args, &metrics) {
        Ok(limits) => limits,
        Err(error) => {
            complain(format_args!("error: {error}"));
            return ExitCode::from(2);
        }
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) => {
            complain(format_args!("error: cannot listen on {address}: {error}"));
            return ExitCode::from(2);
        }
    };
    match run(&args, listener, &metrics, &limits).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the service to its end. Returns whether every count was equal.
async fn run(
    args: &Args,
    listener: TcpListener,
    metrics: &Metrics,
    limits: &Limits,
) -> io::Result<bool> {
    let interrupted = interrupt::interrupted()?;
    let show: Show = if args.json { json::object } else { table::table };
    let address = listener.local_addr()?;
    let token = Token::random();
    let server = Server::start(listener, metrics, limits, &token);
    let mut printed = say(args, &greeting(args, address, &token));
    let load = (!args.no_load).then(|| Load::start(address, args.connections));

    // The readings are polled before the end of the time, so that the last second is printed too.
    tokio::select! {
        biased;
        error = monitor::print_readings(&metrics.registry, show) => printed = Err(error),
        () = time_is_up(args) => {}
        () = interrupted => {}
    }

    let client = match load {
        Some(load) => Some(load.stop().await),
        None => None,
    };
    let server = server.stop().await;
    if let Some(route) = args.histogram {
        let text = distribution::text_at(metrics.registry.clock().now(), route, metrics);
        printed = printed.and_then(|()| say(args, &text));
    }
    let reconciliation = reconcile(metrics, &server, client.as_ref());
    printed = printed.and_then(|()| say(args, &reconciliation.report));
    for difference in &reconciliation.differences {
        complain(format_args!("difference: {difference}"));
    }
    match printed {
        // A broken pipe is no failure: the reader of the output has closed it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::other(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(reconciliation.differences.is_empty()),
    }
}

async fn time_is_up(args: &Args) {
    if args.no_load {
        future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_secs(args.seconds.into())).await;
}

fn greeting(args: &Args, address: SocketAddr, token: &Token) -> String {
    let urls = Route::ALL.map(|route| format!("  http://{address}{route}\n")).concat();
    let end = if args.no_load {
        "press Ctrl-C to stop".to_owned()
    } else {
        format!("{} connections for {} s", args.connections, args.seconds)
    };
    let metrics = scrape::PATH;
    let page = token.url(format_args!("http://{address}{}", page::PATH));
    format!("listening on {address}\n{urls}  http://{address}{metrics}\nlive page: {page}\n{end}\n")
}

/// Prints help and version as they are, and an error in the arguments on one line.
fn explain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Fails only if stdout is closed, so there is no reader.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    complain(one_line(error));
    ExitCode::from(2)
}

/// Returns the reason of an error in the arguments, without the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().take_while(|line| !line.trim().is_empty());
    reason.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Prints text for people: on stdout, or on stderr if stdout has the JSON.
fn say(args: &Args, text: &str) -> io::Result<()> {
    if args.json {
        // Ignored, as in `complain`.
        let _ = io::stderr().write_all(text.as_bytes());
        return Ok(());
    }
    io::stdout().write_all(text.as_bytes())
}

fn complain(line: impl Display) {
    // If stderr is closed, only the exit code tells that there was an error.
    let _ = writeln!(io::stderr(), "{line}");
}
