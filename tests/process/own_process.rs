//! Tests that need a process of their own.

use std::env;
use std::process::{Command, Output};

/// The environment variable with the argument of a test that [`run`] starts.
const ARGUMENT: &str = "LEAPARRAY_OWN_PROCESS";

/// Runs an ignored test in a process of its own, with that argument.
pub(crate) fn run(test: &str, argument: &str) -> Output {
    let mut process = Command::new(env::current_exe().unwrap());
    process.args(["--exact", test, "--ignored", "--nocapture"]).env(ARGUMENT, argument);
    process.output().unwrap()
}

/// Returns the argument that the process was started with; `None` in any other process.
pub(crate) fn argument() -> Option<String> {
    env::var(ARGUMENT).ok()
}
