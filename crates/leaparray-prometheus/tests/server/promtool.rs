//! The checks of `promtool`.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use crate::prometheus::list_as_skipped;

/// Returns what `promtool check metrics` has to say about an exposition in the text format: nothing
/// if it is right. `None` if the program is not installed, and the test is then listed as skipped.
pub(crate) fn check(test: &str, exposition: &str) -> Option<String> {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            list_as_skipped(&format!("skipped: {test}: promtool is not installed\n"));
            return None;
        }
        Err(error) => panic!("promtool does not start: {error}"),
    };
    child.stdin.take().unwrap().write_all(exposition.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|output| String::from_utf8(output).unwrap());
    Some(format!("{stdout}{stderr}"))
}
