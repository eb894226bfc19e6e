//! Measures histograms of response times beside those of other crates, and writes the results to
//! `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_histograms()
}
