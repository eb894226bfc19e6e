//! A fleet of service processes with one limit, which Redis keeps, and with windows of all of them.
//! One process is killed, the server is killed, and at the end an audit of every admitted request
//! says whether a window has had more than the limit. A second audit compares the windows of the
//! fleet with the answers that the clients got.
//!
//! ```text
//! # Starts redis-server, and takes 18 seconds.
//! cargo run -p example-fleet
//! # With a server that runs already.
//! cargo run -p example-fleet -- --redis redis://127.0.0.1:6379
//! ```
//!
//! While it runs, it serves the live page and the metrics of the fleet, and prints the address.
//!
//! The service processes are this program, started again: see `service`, which has the code of a
//! service. Everything else is the load, the faults and the audit.
//!
//! Exit codes: 0 if no window has more than the limit, and the windows have the requests that the
//! clients have counted; 1 if not, or if the fleet failed; 2 if it could not start.

mod args;
mod audit;
mod clock;
mod events;
mod fleet;
#[path = "../../service/src/interrupt.rs"]
mod interrupt;
mod limit;
mod load;
mod monitor;
mod notes;
mod process;
mod report;
mod server;
mod service;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod watch;
mod windows;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::fleet::Fleet;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return explain(&error),
    };
    match runtime() {
        Ok(runtime) => runtime.block_on(run(args)),
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

async fn run(args: Args) -> ExitCode {
    if let Some(port) = args.serve {
        return exit_code(service::serve(port, &args).await.map(|()| true));
    }
    let fleet = match start(&args).await {
        Ok(fleet) => fleet,
        Err(error) => {
            complain(format_args!("error: {error}"));
            return ExitCode::from(2);
        }
    };
    exit_code(fleet.run().await)
}

async fn start(args: &Args) -> Result<Fleet, Box<dyn Error>> {
    // From here on, a signal ends the run, and not the program: what was started is ended by the
    // run.
    let interrupted = Box::pin(interrupt::interrupted()?);
    Fleet::start(args, interrupted).await
}

/// Returns the exit code of a run, which tells whether both audits found nothing.
fn exit_code(held: Result<bool, Box<dyn Error>>) -> ExitCode {
    match held {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints help and version as they are, and an error in the arguments on one line.
fn explain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Fails only if stdout is closed, so there is no reader.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    complain(args::one_line(error));
    ExitCode::from(2)
}

/// Prints text on stdout. A reader that has closed it does not end the run, whose exit code has the
/// result.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn complain(line: impl Display) {
    // If stderr is closed, only the exit code tells that there was an error.
    let _ = writeln!(io::stderr(), "{line}");
}
