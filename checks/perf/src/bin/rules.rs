//! Measures rules beside those of `sentinel-core`, and writes the results to `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_rules()
}
