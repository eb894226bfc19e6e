//! Writes `docs/SIMULATIONS.md` and its plots. Fails if the limits of `Headroom` miss a goal.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use leaparray_simulations::{report, scenarios};

fn main() -> ExitCode {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let results: Vec<_> = scenarios::all(60)
        .into_iter()
        .map(|scenario| {
            println!("{}", scenario.name);
            let result = report::run(&scenario);
            (scenario, result)
        })
        .collect();
    let written = report::write(&docs.join("SIMULATIONS.md"), &docs.join("simulations"), &results);
    if let Err(error) = written {
        eprintln!("the page cannot be written: {error}");
        return ExitCode::from(2);
    }
    let missed: Vec<_> = results.iter().flat_map(|(it, result)| result.missed(it)).collect();
    for line in &missed {
        eprintln!("missed: {line}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}
