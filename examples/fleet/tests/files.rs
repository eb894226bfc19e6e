//! The fleet in a process that may open few files.
#![cfg(unix)]

use std::process::Command;

/// Starts the fleet in a process that may open that many files.
fn fleet(files: u32) -> Command {
    let mut shell = Command::new("sh");
    let script = "ulimit -n \"$1\" && exec \"$0\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_example-fleet"), &files.to_string()]);
    shell
}

#[test]
fn fleet_that_may_open_too_few_files_says_so() {
    // It has stdin, stdout and stderr. The loader opens one file after the other.
    for files in 4..16 {
        let ended = fleet(files).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{files} files: {said}");
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{files} files: {said}");
    }
}
