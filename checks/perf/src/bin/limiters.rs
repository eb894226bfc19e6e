//! Measures how the decisions of limiters scale with threads, and writes the results to `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_limiters()
}
