//! Writes `docs/SIMULATIONS.md`, `docs/FLEET.md`, `docs/FLEET_WINDOWS.md` and their plots, or with
//! `--check` compares the pages and the plots with the results. Fails if the limits of `Headroom`
//! or the leases miss a goal, if leases overshoot, or if a check of the fleet windows fails.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use leaparray_simulations::report::{self, Result};
use leaparray_simulations::scenarios::{self, Scenario};
use leaparray_simulations::{fleet, parallel, windows};

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
    let results = run_all();
    println!("a limit over a fleet");
    let fleet = fleet::run_all(fleet::all());
    println!("one window over a fleet");
    let windows = windows::run_all(windows::all());
    let mut missed: Vec<_> = results.iter().flat_map(|(it, result)| result.missed(it)).collect();
    missed.extend(fleet.missed());
    missed.extend(windows.missed());
    for line in &missed {
        eprintln!("missed: {line}");
    }
    let done = files(&results, &fleet, &windows)
        .and_then(|files| if is_check { check(&docs, &files) } else { write(&docs, &files) });
    if let Err(error) = done {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}

/// Runs all scenarios of the limits that adapt themselves.
fn run_all() -> Vec<(Scenario, Result)> {
    let scenarios = scenarios::all(60);
    let done = parallel::map(&scenarios, |scenario| {
        println!("{}", scenario.name);
        report::run(scenario)
    });
    scenarios.into_iter().zip(done).collect()
}

/// Returns the pages and their plots, each with its path in the folder of the pages.
fn files(
    results: &[(Scenario, Result)],
    fleet: &fleet::Results,
    windows: &windows::Results,
) -> std::result::Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut files = report::files(results)?;
    files.extend(fleet::report::files(fleet)?);
    files.extend(windows::report::files(windows));
    Ok(files)
}

fn write(docs: &Path, files: &[(String, String)]) -> std::result::Result<(), Box<dyn Error>> {
    fs::create_dir_all(docs.join("simulations"))?;
    for (path, text) in files {
        fs::write(docs.join(path), text)
            .map_err(|error| format!("{path} cannot be written: {error}"))?;
    }
    Ok(())
}

fn check(docs: &Path, files: &[(String, String)]) -> std::result::Result<(), Box<dyn Error>> {
    for (path, text) in files {
        let found = fs::read_to_string(docs.join(path))
            .map_err(|error| format!("docs/{path} cannot be read: {error}"))?;
        if found != *text {
            let error = format!("docs/{path} has other results: run this program without --check");
            return Err(error.into());
        }
    }
    Ok(())
}
