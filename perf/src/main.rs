//! Measures, and writes `docs/PERFORMANCE.md`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run()
}
