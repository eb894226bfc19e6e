//! Measures the window over a fleet, on its server and in its reader, and writes the results to
//! `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_windows()
}
