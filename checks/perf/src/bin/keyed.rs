//! Measures limits by key beside those of `governor`, and writes the results to `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_keyed()
}
