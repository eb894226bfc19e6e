//! The arguments of an example that takes none.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

/// The name and the description of the package that includes this file.
const NAME: &str = env!("CARGO_PKG_NAME");
const ABOUT: &str = env!("CARGO_PKG_DESCRIPTION");

/// Prints the help if it is asked for, and an error if there is any other argument. Returns the
/// exit code of either; `None` if there are no arguments.
pub(crate) fn exit_code() -> Option<ExitCode> {
    let argument = env::args_os().nth(1)?;
    if argument == "-h" || argument == "--help" {
        let usage = format!("Usage: cargo run -p {NAME}");
        let help = format!("{ABOUT}\n\n{usage}\n\nOptions:\n  -h, --help  Print help\n");
        // Fails only if stdout is closed, so there is no reader.
        let _ = io::stdout().write_all(help.as_bytes());
        return Some(ExitCode::SUCCESS);
    }
    let argument = argument.to_string_lossy();
    complain(format_args!("unexpected argument '{argument}': there are none but --help"));
    Some(ExitCode::from(2))
}

/// Prints an error on one line.
pub(crate) fn complain(error: impl std::fmt::Display) {
    // If stderr is closed, only the exit code tells that there was an error.
    let _ = writeln!(io::stderr(), "error: {error}");
}
