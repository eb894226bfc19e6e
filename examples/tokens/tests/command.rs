//! Tests of the command.

#[path = "../../clients/tests/command/check.rs"]
mod check;

use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_example-tokens");

#[test]
fn help_is_printed_and_other_arguments_are_refused() {
    check::arguments(PROGRAM);
}

/// The program asserts what it prints.
#[test]
fn each_story_ends_as_it_is_told() {
    let output = Command::new(PROGRAM).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
