//! Checks of an example's command that all examples without arguments share.

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks that the help is printed, and that other arguments are refused on one line.
pub(crate) fn arguments(program: &str) {
    for asked in ["-h", "--help"] {
        let output = run(program, &[asked]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
        let usage = format!("\n\nUsage: cargo run -p {}\n", env!("CARGO_PKG_NAME"));
        let help = text(&output.stdout);
        assert!(help.starts_with(env!("CARGO_PKG_DESCRIPTION")) && help.contains(&usage), "{help}");
    }
    for wrong in [&["--nope"][..], &["nope", "--help"]] {
        let output = run(program, wrong);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        let expected =
            format!("error: unexpected argument '{}': there are none but --help\n", wrong[0]);
        assert_eq!(text(&output.stderr), expected);
    }
}
