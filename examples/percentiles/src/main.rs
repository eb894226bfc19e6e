//! Shows the response times of a simulated service with a fast and a slow mode: its mean is a time
//! that no request takes.
//!
//! ```text
//! cargo run -p example-percentiles
//! ```
//!
//! The output is in the guide, and is the same in each run.

#[path = "../../clients/src/arguments.rs"]
mod arguments;
mod plot;
mod service;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = arguments::exit_code() {
        return code;
    }
    match io::stdout().write_all(output().as_bytes()) {
        // A broken pipe is no failure: the reader of the output has closed it.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            arguments::complain(format_args!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn output() -> String {
    let minute = service::response_times_of_a_minute();
    format!("{} requests in the last minute\n\n{}", minute.count(), plot::plot(&minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command, as in the head of this file and in the guide.
    const COMMAND: &str = "cargo run -p example-percentiles";

    #[test]
    fn guide_has_the_output_below_the_command() {
        let guide = include_str!("../../../docs/guide/percentiles.md");
        let expected = format!("```sh\n{COMMAND}\n```\n\n```text\n{}```\n", output());
        assert!(guide.contains(&expected), "percentiles.md does not contain this:\n{expected}");
    }

    #[test]
    fn no_request_is_as_slow_as_the_mean() {
        let minute = service::response_times_of_a_minute();
        let mean = minute.mean().unwrap();
        let [lower, upper] = [mean / 3, mean * 3].map(|it| minute.count_at_or_below(it));
        assert_eq!(lower, upper);
        assert!(lower > 0 && upper < minute.count());
    }
}
