//! Measures how the costs change from one thread to many, and writes the results to `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_threads()
}
