//! Counts the adds that are lost at rollovers.

use std::process::ExitCode;

fn main() -> ExitCode {
    leaparray_perf::run_losses()
}
