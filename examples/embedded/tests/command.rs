//! Tests of the command.

#[path = "../../clients/tests/command/check.rs"]
mod check;

#[test]
fn help_is_printed_and_other_arguments_are_refused() {
    check::arguments(env!("CARGO_BIN_EXE_example-embedded"));
}
