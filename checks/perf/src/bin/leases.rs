//! Measures the limit of a fleet, in the process and on its server, and writes the results to
//! `docs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    leaparray_perf::run_leases()
}
