//! Counts what is lost where buckets roll over.

use std::process::ExitCode;

fn main() -> ExitCode {
    leaparray_perf::run_losses()
}
