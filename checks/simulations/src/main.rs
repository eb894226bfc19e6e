//! Writes `docs/SIMULATIONS.md` and its plots, or with `--check` compares the page with the results. Fails if the limits of `Headroom`
//! miss a goal.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use leaparray_simulations::report::{self, Result};
use leaparray_simulations::scenarios::{self, Scenario};

const PLOTS: &str = "simulations";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let is_check = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("the only argument is --check, not {arguments:?}");
            return ExitCode::from(2);
        }
    };
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let results: Vec<_> = scenarios::all(60)
        .into_iter()
        .map(|scenario| {
            println!("{}", scenario.name);
            let result = report::run(&scenario);
            (scenario, result)
        })
        .collect();
    let done = if is_check { check(&docs, &results) } else { write(&docs, &results) };
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    let missed: Vec<_> = results.iter().flat_map(|(it, result)| result.missed(it)).collect();
    for line in &missed {
        eprintln!("missed: {line}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

fn write(docs: &Path, results: &[(Scenario, Result)]) -> std::result::Result<(), Box<dyn Error>> {
    report::write(&docs.join("SIMULATIONS.md"), &docs.join(PLOTS), results)
        .map_err(|error| format!("the page cannot be written: {error}").into())
}

fn check(docs: &Path, results: &[(Scenario, Result)]) -> std::result::Result<(), Box<dyn Error>> {
    let page = fs::read_to_string(docs.join("SIMULATIONS.md"))
        .map_err(|error| format!("the page cannot be read: {error}"))?;
    if page == report::text(PLOTS, results) {
        return Ok(());
    }
    Err("docs/SIMULATIONS.md has other results: run this program without --check".into())
}
