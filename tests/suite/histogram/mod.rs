//! Histograms of response times, compared with the sorted response times.

mod bad_input;
mod case;
mod from_buckets;
mod properties;
#[cfg(feature = "serde")]
mod serialized;

use std::path::Path;
use std::{fs, io};

use case::Case;

#[test]
fn fuzz_seeds_find_no_difference() -> io::Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks/fuzz/corpus/histogram");
    if !seeds.exists() {
        println!("skipped: the packaged crate has no {}", seeds.display());
        return Ok(());
    }
    for seed in fs::read_dir(seeds)? {
        let seed = seed?.path();
        println!("{}", seed.display());
        Case::from_bytes(&fs::read(seed)?).check();
    }
    Ok(())
}
