//! Writes `docs/PERFORMANCE.md`, or with `--check` compares it with the measurements.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("docs/PERFORMANCE.md");
    let page = leaparray_perf_page::page(&root)?;
    match &env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => Ok(fs::write(path, page)?),
        [option] if option == "--check" => {
            if fs::read_to_string(path)? == page {
                return Ok(());
            }
            Err("docs/PERFORMANCE.md has other numbers: run this program without --check".into())
        }
        _ => Err("usage: leaparray-perf-page [--check]".into()),
    }
}
